"""What the study of noisy labels found, in words."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from arena._phrases import sentence
from arena.studies._noise_rows import (
    PHASES,
    SMALL,
    Case,
    breaking_levels,
    excess_ratios,
    likelihood_over_bound,
    likelihood_slopes,
    mean_words,
    middle,
    most_examples,
    of_kind,
    over_covariance,
    over_law,
    steep_slopes,
    where_likelier_is_better,
)
from arena.studies.study import Row

__all__ = ["found_in_words"]

_NEAR = 0.1  # how far from 1 a ratio to a law may be where the law is said to hold


def found_in_words(rows: Sequence[Row]) -> str:
    """The answer and its figures, clauses parted by semicolons."""
    told = [
        *_answer(rows),
        *_newton(rows),
        *_phases(rows),
        *_others(rows),
        *_better(rows),
        *_classes(rows),
        *_likelihood(rows),
    ]
    text = "; ".join(told) or "too few cells were measured to say anything"
    return sentence(text)


def _means(rows: Sequence[Row]) -> dict[int, list[float]]:
    """Newton's excess over the simple law by floors: the mean over layers for each size."""
    means: dict[int, list[float]] = {}
    for (_, floors), (values, _) in excess_ratios(rows).items():
        means.setdefault(floors, []).append(float(np.mean(values)))
    return means


def _answer(rows: Sequence[Row]) -> Iterator[str]:
    ratios = _means(rows)
    if len(ratios) < 2:
        return
    said = [_efficiency(rows, ratios)]
    breaks = breaking_levels(rows)
    last = [PHASES[name] for name, level in breaks.items() if level is None]
    first = [PHASES[name] for name, level in breaks.items() if level is not None]
    if first and last:
        said.append(f"noise spoils the phases' {' and '.join(first)}, not the {' and the '.join(last)}")
    better, worse = where_likelier_is_better(rows)
    if better and worse:
        little = "with enough examples and gain" if _needs_more(better, worse) else "in some cases"
        said.append(f"on classes maximum likelihood beats squared loss only {little}")
    elif better:
        said.append("on classes maximum likelihood beats squared loss in every case measured")
    elif worse:
        said.append("on classes squared loss is no worse than maximum likelihood")
    yield _listed(said)


def _efficiency(rows: Sequence[Row], ratios: Mapping[int, list[float]]) -> str:
    """Whether Newton loses what least squares must, and from when on the simple law says how much that is."""
    beside = list(over_covariance(rows).values())
    most = ratios[max(ratios)]
    if not beside or not all(abs(ratio - 1) < _NEAR for ratio in beside):
        return (
            f"Newton loses {_extent(ratios[min(ratios)])} times as much to noise as the simple law says at "
            f"{min(ratios)} floors and {_extent(most)} times at {max(ratios)}"
        )
    said = "Newton loses to weak noise just what least squares must"
    if all(abs(ratio - 1) < _NEAR for ratio in most):
        return f"{said}, which with many examples is the simple law"
    return f"{said}, still {_extent(most)} times the simple law at {max(ratios)} floors"


def _needs_more(better: Mapping[Case, list[int]], worse: Mapping[Case, list[int]]) -> bool:
    """Whether no case where it is better has as few examples and as small a gain as one of the others of its size."""
    return not any(
        size == other and gain <= more and min(few) <= max(many)
        for (size, gain), few in better.items()
        for (other, more), many in worse.items()
    )


def _newton(rows: Sequence[Row]) -> Iterator[str]:
    by_floors = _means(rows)
    if by_floors:
        parts = [f"{_extent(by_floors[floors])} at {floors} floors" for floors in sorted(by_floors)]
        yield (
            f"with s up to {SMALL:g} of the labels Newton's excess squared error is, over the simple law s^2 2 m "
            f"d^2/(N k d) and by size, a mean over layers of {', '.join(parts)}"
        )
    beside = over_covariance(rows)
    if beside:
        sizes = sorted({size for size, _ in beside})
        at = " and ".join(_named(size) for size in sizes)
        yield (
            f"over what the covariance of least squares says, to first order in s, it is "
            f"{_extent(list(beside.values()))} at m, k, d = {at}, from the fewest examples to the most"
        )


def _phases(rows: Sequence[Row]) -> Iterator[str]:
    breaks = breaking_levels(rows)
    if not breaks:
        return
    order = sorted(breaks.items(), key=lambda pair: np.inf if pair[1] is None else pair[1])
    words = [
        f"the {PHASES[name]} " + ("at no noise measured" if level is None else f"at s = {level:g}")
        for name, level in order
    ]
    said = f"of the six phases' errors, {', '.join(words)} is twice what it is without noise"
    loudest = max(of_kind(rows, "phases"), key=lambda row: float(row["level"]))
    crude, refined = middle(loudest["crude"]), middle(loudest["refined"])
    if crude is not None and refined is not None and refined > crude:
        said += (
            f", and at s = {loudest['level']:g} the refined sum ({refined:.2g}) is worse than the crude one "
            f"({crude:.2g})"
        )
    yield said


def _others(rows: Sequence[Row]) -> Iterator[str]:
    """Adam beside the simple law, and linear regression."""
    adam = sorted(over_law(rows, "adam").items())
    if adam:
        ratios = ", ".join(f"{np.mean(values):.2g}" for _, values in adam)
        levels = ", ".join(f"{level:g}" for level, _ in adam)
        examples = " or ".join(sorted({str(row["examples"]) for row in of_kind(rows, "adam")}))
        yield (
            f"Adam, which takes {examples} examples and each of them once, has {ratios} times the squared error of "
            f"the simple law at s = {levels}"
        )
    linear = sorted((row["level"], middle(row["error"])) for row in of_kind(rows, "linear"))
    if len(linear) > 1:
        (least_at, least), (level, most) = linear[0], linear[-1]
        yield (
            f"linear regression, off by its bias, goes from an error of {least:.3f} at s = {least_at:g} to {most:.3f} "
            f"at s = {level:g}"
        )


def _better(rows: Sequence[Row]) -> Iterator[str]:
    """With how many examples maximum likelihood beats squared loss on every layer, and with how many it does not."""
    better, worse = where_likelier_is_better(rows)
    by_size: dict[tuple[int, int, int], list[str]] = {}
    for size, gain in sorted({*better, *worse}, key=lambda key: (key[0][2], key)):
        yes, no = better.get((size, gain)), worse.get((size, gain))
        here = [f"with {_either(yes)} examples"] if yes else []
        here += [f"not with {_either(no)}"] if no else []
        by_size.setdefault(size, []).append(f"at gain {gain:g} {' and '.join(here)}")
    parts = [f"at m, k, d = {_named(size)}: {', '.join(said)}" for size, said in by_size.items()]
    if parts:
        yield f"on every layer maximum likelihood beats squared loss {', and '.join(parts)}"


def _classes(rows: Sequence[Row]) -> Iterator[str]:
    there = most_examples(rows)
    if not there:
        return
    first, last = (
        min(there, key=lambda row: abs(row["level"] - 1.0)),
        max(there, key=lambda r: r["level"]),
    )
    parts = [
        f"at gain {row['level']:g} to {middle(row['squared']):.2g} (floor {middle(row['floor']):.2g}) and "
        f"{middle(row['likelihood']):.2g}"
        for row in ([first] if first is last else [first, last])
    ]
    yield (
        f"from {first['examples']} examples with classes for labels, squared loss and maximum likelihood come "
        f"{', '.join(parts)}"
    )
    if all(max(row["squared_law"]) < min(row["likelihood_law"]) for row in of_kind(rows, "sampled")):
        yield "squared loss has by its law the smaller sampling error in every case, but it has a floor"


def _likelihood(rows: Sequence[Row]) -> Iterator[str]:
    over = [
        f"{' and '.join(f'{ratio:.2f} at {n}' for n, ratio in _ends(ratios))} examples at gain {gain:g}"
        for gain, ratios in likelihood_over_bound(rows).items()
    ]
    if over:
        yield f"the error of maximum likelihood is, over its Cramer-Rao bound, {', '.join(over)}"
    slopes = [f"N^{mean_words(values)} at gain {gain:g}" for gain, values in likelihood_slopes(rows).items()]
    if slopes:
        said = f"it goes as {', '.join(slopes)}, intervals over the same layers"
        steep = steep_slopes(rows)
        if steep:
            gains = " and ".join(f"{gain:g}" for gain in steep)
            said += (
                f", steeper than N^-1/2 at gain {gains}, where it is above its bound from the fewest examples and on "
                "it from the most"
            )
        yield said


def _ends(ratios: Mapping[int, float]) -> list[tuple[int, float]]:
    """The ratio with the fewest and with the most examples."""
    return [(n, ratios[n]) for n in sorted({min(ratios), max(ratios)})]


def _extent(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"


def _either(numbers: Sequence[int]) -> str:
    *first, last = map(str, sorted(numbers))
    return f"{', '.join(first)} or {last}" if first else last


def _listed(parts: Sequence[str]) -> str:
    *first, last = parts
    return f"{', '.join(first)}, and {last}" if first else last


def _named(size: tuple[int, int, int]) -> str:
    return ", ".join(map(str, size))
