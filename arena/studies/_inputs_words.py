"""What the study of token laws says of its rows."""

from collections.abc import Iterator, Sequence

import numpy as np

from arena._phrases import sentence
from arena.studies._inputs_measures import LAWS
from arena.studies._inputs_rows import (
    Size,
    apart,
    error_ratios,
    exact_more_often,
    floors_of,
    newton_steps,
    of_learner,
    ratio_interval,
)
from arena.studies.study import Row

__all__ = ["found_in_words"]

_COMPARED = ("gaussian", "sphere")  # with Boolean tokens
_CLEAR = 1.25  # the factor between errors from which on the headline names it
_RATIOS = (
    ("phases", "crude", "the crude sum"),
    ("phases", "refined", "the refined sum"),
    ("phases", "span", "the span"),
    ("paper", "refined", "the refined sum in paper mode"),
    ("paper", "span", "the span in paper mode"),
    ("adam", "error", "Adam"),
)


def found_in_words(rows: Sequence[Row]) -> str:
    """The answer and its figures, clauses parted by semicolons."""
    told = [*_told_newton(rows), *_told_step(rows), *_told_errors(rows)]
    text = "; ".join(told) or "too few cells were measured to say anything"
    return sentence(text)


def _told_newton(rows: Sequence[Row]) -> Iterator[str]:
    counts = {law: apart(rows, law) for law in _COMPARED}
    if not any(total for total, *_ in counts.values()):
        return
    yield _headline(rows) + _clear_errors(rows)
    for law, (total, alike, layers) in counts.items():
        if total:
            ends = {
                words: [pair[place] for pair in layers.values() if pair[place]]
                for place, words in enumerate(("Boolean tokens only", f"{LAWS[law]} ones only"))
            }
            said = [f"{sum(pairs)} (on {len(pairs)} layers) with {words}" for words, pairs in ends.items()]
            yield (
                f"of {total} pairs of Newton's fits to one layer, on {len(layers)} layers, {' and '.join(said)} were "
                f"exact, and {alike} could tell little: there both laws were exact on every layer or on none"
            )


def _headline(rows: Sequence[Row]) -> str:
    better = [
        f"{LAWS[first]} than with {LAWS[law if first == 'boolean' else 'boolean']} tokens"
        for law in _COMPARED
        if (first := exact_more_often(rows, law)) is not None
    ]
    if better:
        return f"Newton is exact more often with {', and with '.join(better)}"
    steps = [list(by_law.values()) for by_law in newton_steps(rows, ("boolean", *_COMPARED)).values()]
    if any(len({_examples(ends) for ends in by_law}) > 1 for by_law in steps):
        return (
            "Newton is first exact on half of the layers at other numbers of examples with some laws of tokens than "
            "with others, but on no more layers than chance explains"
        )
    said = "no difference between the laws was seen in how many examples Newton needs"
    factors = [
        after / before for by_law in steps for before, after in map(_examples, by_law[:1]) if before and after
    ]
    return said + (
        f", and one of a factor below {max(factors):.1f} could not have been"
        if factors
        else ", but what was measured could not have shown one"
    )


def _examples(ends: tuple[Row | None, Row | None]) -> tuple[int | None, ...]:
    return tuple(None if row is None else int(row["examples"]) for row in ends)


def _told_step(rows: Sequence[Row]) -> Iterator[str]:
    parts = []
    for size, by_law in newton_steps(rows, ("boolean", *_COMPARED)).items():
        ends = {
            tuple(None if row is None else floors_of(row) for row in ends): None for ends in by_law.values()
        }
        if len(ends) == 1 and None not in next(iter(ends)):
            before, after = next(iter(ends))
            parts.append(f"between {before:g} and {after:g} floors at m, k, d = {', '.join(map(str, size))}")
    if parts:
        yield (
            "with each of these laws Newton goes from exact on less than half of the layers to half or more "
            f"{', '.join(parts)}, so that a difference within these steps could not be seen"
        )


def _clear_errors(rows: Sequence[Row]) -> str:
    """The errors that are those with Boolean tokens times a factor that is neither near 1 nor chance."""
    parts = []
    for law in _COMPARED:
        clear = []
        for learner, name, words in _RATIOS:
            for size, ratios in _of_most_examples(rows, law, learner, name):
                found = ratio_interval(ratios)
                if (
                    found
                    and not found.low <= 1 <= found.high
                    and abs(np.log(found.estimate)) > np.log(_CLEAR)
                ):
                    clear.append((f"of {words} at d = {size[2]}", f"{found.estimate:.2g}"))
        if clear:
            (first, ratio), *others = clear
            said = ", ".join([f"{first} is {ratio}", *(f"{words} {ratio}" for words, ratio in others)])
            parts.append(f"with {LAWS[law]} tokens the error {said} times that with Boolean ones")
    return f", but {', and '.join(parts)}" if parts else ""


def _of_most_examples(
    rows: Sequence[Row], law: str, learner: str, name: str
) -> Iterator[tuple[Size, list[float]]]:
    """The ratios of errors on each layer from the most examples of each size."""
    found = error_ratios(rows, law, learner, name)
    for size in sorted({size for size, _ in found}):
        yield size, found[size, max(n for one, n in found if one == size)]


def _told_errors(rows: Sequence[Row]) -> Iterator[str]:
    for learner, name, words in _RATIOS:
        parts = []
        for law in _COMPARED:
            said = [_ratio_words(*one) for one in _of_most_examples(rows, law, learner, name)]
            if any(said):
                parts.append(f"with {LAWS[law]} ones {' and '.join(filter(None, said))}")
        if parts:
            yield f"the error of {words} is, over that with Boolean tokens, {', '.join(parts)}"
    for law in _COMPARED:
        found = error_ratios(rows, law, "adam", "error")
        places = sorted(key for key, ratios in found.items() if ratios)
        if len(places) > 1 and len({size for size, _ in places}) == 1:
            means = [f"{np.exp(np.mean(np.log(found[key]))):.2f}" for key in places]
            yield (
                f"from {', '.join(str(n) for _, n in places)} examples Adam's error with {LAWS[law]} tokens is "
                f"{', '.join(means)} times that with Boolean ones"
            )
    spans = [
        one
        for learner in ("phases", "paper")
        for row in of_learner(rows, learner, "slice")
        for one in row["span"]
    ]
    if spans:
        came = sum(span is not None for span in spans)
        yield f"with slice tokens the phases came to a span in {came} of {len(spans)} runs"


def _ratio_words(size: Size, ratios: Sequence[float]) -> str:
    """A ratio with its interval over layers; and whether it is on one side of 1 on each of them, of four or more."""
    interval = ratio_interval(ratios)
    if interval is None:
        return ""
    said = f"{interval.estimate:.2f} ({interval.low:.2f} to {interval.high:.2f}"
    for side, all_there in (("below", max(ratios) < 1), ("above", min(ratios) > 1)):
        if all_there and len(ratios) > 4:
            said += f", {side} 1 on all {len(ratios)} layers"
    return f"{said}) at d = {size[2]}"
