"""What the study of token laws says of its rows."""

from collections.abc import Iterator, Sequence

import numpy as np

from arena._phrases import sentence
from arena.studies._inputs_measures import LAWS
from arena.studies._inputs_rows import (
    Size,
    apart,
    error_ratios,
    exact_fits,
    exact_more_often,
    floors_of,
    median,
    newton_steps,
    of_learner,
    ratio_interval,
    size_of,
)
from arena.studies.study import Row
from paper_checks import Interval

__all__ = ["found_in_words"]

_COMPARED = ("gaussian", "sphere")  # with Boolean tokens
_CLEAR = 1.25  # the factor between errors from which on the headline names it
_EXPECTED, _EXPECTED_FROM = 0.1, 32  # to what errors were expected to agree, and from which d on
_RATIOS = (
    ("phases", "crude", "the crude sum"),
    ("phases", "refined", "the refined sum"),
    ("phases", "span", "the span"),
    ("paper", "refined", "paper mode's refined sum"),
    ("paper", "span", "paper mode's span"),
    ("adam", "error", "Adam"),
)


def found_in_words(rows: Sequence[Row]) -> str:
    """The answer and its figures, clauses parted by semicolons."""
    told = [
        *_told_newton(rows),
        *_told_step(rows),
        *_told_sizes(rows),
        *_told_errors(rows),
        *_told_adam(rows),
        *_told_slice(rows),
    ]
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
        f" (below a factor of {max(factors):.1f} none could be)" if factors else " (none could be)"
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


def _told_sizes(rows: Sequence[Row]) -> Iterator[str]:
    """Where, from the step on, not all laws were exact as often: pooled with other sizes that is diluted."""
    parts, laws, beyond = [], ("boolean", *_COMPARED), set()
    for size, by_law in newton_steps(rows, laws).items():
        after = [int(last["examples"]) for _, last in by_law.values() if last is not None]
        if len(after) < len(laws):
            continue
        there = [row for row in of_learner(rows, "newton") if size_of(row) == size]
        past = [row for row in there if row["examples"] >= max(after)]
        shares = [exact_fits([row for row in past if row["inputs"] == law]) for law in laws]
        if len(set(shares)) > 1:
            *first, last = (f"{exact} of {total}" for exact, total in shares)
            parts.append(f"{', '.join(first)} and {last} at m, k, d = {', '.join(map(str, size))}")
            beyond |= {LAWS[law] for law in _COMPARED if exact_more_often(there, law) is not None}
    if parts:
        chance = (
            f"beyond chance for {' and '.join(sorted(beyond))} ones" if beyond else "none of it beyond chance"
        )
        yield (
            f"by size, which the pairs above do not tell apart, Newton's fits from the step on are exact with Boolean, "
            f"{' and '.join(LAWS[law] for law in _COMPARED)} tokens {', '.join(parts)}, {chance} where a layer counts "
            "once"
        )


def _clear_errors(rows: Sequence[Row]) -> str:
    """Of each learner the error furthest from that with Boolean tokens, if the factor is neither near 1 nor chance."""
    parts = []
    for law in _COMPARED:
        clear: dict[str, tuple[bool, float, str, str]] = {}
        for learner, name, words in _RATIOS:
            for size, ratios in _of_most_examples(rows, law, learner, name):
                found = ratio_interval(ratios)
                if found is None or found.low <= 1 <= found.high:
                    continue
                far = abs(np.log(found.estimate))
                if far > max(np.log(_CLEAR), clear[learner][1] if learner in clear else 0.0):
                    sizes = {size_of(row) for row in of_learner(rows, learner)}
                    at = f" (d = {size[2]})" if len(sizes) > 1 else ""
                    said = (f"{words}{at}", f"{found.estimate:.2g} times")
                    clear[learner] = (_is_contrary(size, found), far, *said)
        told = [
            f"of {words} {'' if place else 'is '}{times}{'' if place else ' that with Boolean ones'}"
            f"{', against expectation' if contrary else ''}"
            for place, (contrary, _, words, times) in enumerate(sorted(clear.values(), reverse=True))
        ]
        if told:
            parts.append(f"with {LAWS[law]} tokens the error {', and '.join(told)}")
    return f", but {', and '.join(parts)}" if parts else ""


def _is_contrary(size: Size, found: Interval) -> bool:
    """Whether errors that were expected to agree to ten per cent do not."""
    return size[2] >= _EXPECTED_FROM and (found.low > 1 + _EXPECTED or found.high < 1 - _EXPECTED)


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


def _told_adam(rows: Sequence[Row]) -> Iterator[str]:
    for law in _COMPARED:
        found = error_ratios(rows, law, "adam", "error")
        places = sorted(key for key, ratios in found.items() if ratios)
        if len(places) > 1 and len({size for size, _ in places}) == 1:
            means = [f"{np.exp(np.mean(np.log(found[key]))):.2f}" for key in places]
            yield (
                f"from {', '.join(str(n) for _, n in places)} examples Adam's error with {LAWS[law]} tokens is "
                f"{', '.join(means)} times that with Boolean ones"
            )


def _told_slice(rows: Sequence[Row]) -> Iterator[str]:
    """Where the phases end with slice tokens, and why that says nothing about slices."""
    there = [row for learner in ("phases", "paper") for row in of_learner(rows, learner, "slice")]
    spans = [one for row in there for one in row["span"]]
    if not spans:
        return
    came = sum(span is not None for span in spans)
    said = f"with slice tokens the phases came to a span in {came} of {len(spans)} runs"
    if not came and all(outcome == "NO_LARGE_MARGIN" for row in there for outcome in row["outcome"]):
        said += (
            ", as phase 3 asks for tokens of full rank, which these have not by construction: nothing follows for "
            "slices"
        )
    yield said
    crude = [
        f"{here:.2g} at d = {size[2]} (that with Boolean ones and 1/sqrt(d) in quadrature: "
        f"{np.hypot(plain, size[2] ** -0.5):.2g})"
        for size, here, plain in _crude_of_slices(rows)
    ]
    if crude:
        yield (
            "the crude sum's error with slice tokens counts W's part along all-ones, which nothing can tell: it is "
            f"{' and '.join(crude)}"
        )


def _crude_of_slices(rows: Sequence[Row]) -> Iterator[tuple[Size, float, float]]:
    """The crude sum's error with slice and with Boolean tokens, from the most examples of each size."""
    for size in sorted({size_of(row) for row in of_learner(rows, "phases", "slice")}):
        errors = []
        for law in ("slice", "boolean"):
            there = [row for row in of_learner(rows, "phases", law) if size_of(row) == size]
            most = max(there, key=lambda row: int(row["examples"]), default=None)
            errors.append(None if most is None else median(most["crude"]))
        here, plain = errors
        if here is not None and plain is not None:
            yield size, here, plain


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
