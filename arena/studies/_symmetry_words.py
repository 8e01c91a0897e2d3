"""What the study of symmetry found: in words and as a table."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from arena._phrases import sentence
from arena.studies._symmetry_descent import Optimiser
from arena.studies._symmetry_measure import GAPS
from arena.studies.study import Row, Table
from paper_checks import proportion_interval, slope_interval

__all__ = ["found_in_words", "median_of", "part_of", "symmetry_table"]

_PLAIN: Optimiser = "gradient descent"
_ADAM: Optimiser = "Adam"
_SHOWN_GAP = 1e-6
_NEARLY = 0.1  # starts with a smaller share of their own are nearly equal
_EXACT = 0.02  # of a single head's error, as what is measured has it
_NEAR_ONE = 0.8  # of a single head's error: as good as where L-BFGS is not tried any more
_EVEN = 2.0  # times as many steps more from one gap to the next are still as the logarithm has it
_STILL = 20  # halved heads that are equal are followed for this part of the steps of the others


def part_of(rows: Sequence[Row], part: str, optimiser: str | None = None) -> list[Row]:
    return [row for row in rows if row["part"] == part and optimiser in (None, row["optimiser"])]


def _ratios(rows: Sequence[Row]) -> list[float]:
    """Measured growth over predicted growth, of every run of gradient descent that stayed near long enough."""
    return [
        growth / row["growth_predicted"]
        for row in rows
        if row["growth_predicted"]
        for growth in row["growths"]
        if growth is not None
    ]


def found_in_words(rows: Sequence[Row]) -> str:
    """The answer and its figures, made of whatever was measured."""
    parts = (
        _found_equal(rows),
        _found_failed(rows),
        _found_alone(rows),
        _found_steps(rows),
        _found_ends(rows),
        _found_growth(rows),
        _found_predicted(rows),
        _found_time(rows),
    )
    told = [one for one in parts if one]
    text = "; ".join(told) or "too few cells were measured"
    return sentence(text)


def _other_starts(rows: Sequence[Row]) -> list[Row]:
    return [row for row in part_of(rows, "train") if row["start_gap"] != 0]


def _arrived(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["end"] == "exact"]


def _by_itself(row: Row) -> bool:
    return bool(row["error"] <= _EXACT * row["one_head_error"])


def _found_equal(rows: Sequence[Row]) -> str:
    """The answer: whether they part, and when."""
    equal = [row["equal_distance"] for row in part_of(rows, "escape")]
    equal += [row["distance"] for row in part_of(rows, "train") if row["start_gap"] == 0]
    told = []
    if equal:
        stayed = sum(one == 0 for one in equal)
        told.append(f"exactly equal heads stay equal to the last bit in {stayed} of {len(equal)} runs")
    if nearly := _starts(rows, True):
        parted = sum(row["parted"] is not None for row in nearly)
        told.append(f"nearly equal ones part in {parted} of {len(nearly)}{_when(nearly)}")
    return ", ".join(told)


def _when(nearly: Sequence[Row]) -> str:
    """After how many steps those nearest at the start part, on the smallest nice targets."""
    nice = [row for row in nearly if row["target"] == "nice"]
    if not nice:
        return ""
    dim, gap = min(row["dim"] for row in nice), min(row["start_gap"] for row in nice)
    spans: list[str] = []
    for optimiser, words in ((_PLAIN, "gradient descent"), (_ADAM, "Adam")):
        steps = [
            row["parted"]
            for row in nice
            if (row["dim"], row["start_gap"], row["optimiser"]) == (dim, gap, optimiser)
        ]
        if steps and None not in steps:
            spans.append(
                f"{_range(float(min(steps)), float(max(steps)))}{'' if spans else ' steps'} of {words}"
            )
    where = f"from {gap:g} apart, on nice targets of d = {dim}"
    return f": {where}, after {' and '.join(spans)}" if spans else ""


def _range(low: float, high: float) -> str:
    return f"{low:.0f}" if low == high else f"{low:.0f}-{high:.0f}"


def _found_failed(rows: Sequence[Row]) -> str:
    """The starts that do not lead to the target, and whether they parted."""
    told = []
    for words, nearly in (("nearly equal", True), ("independent", False)):
        if those := _starts(rows, nearly):
            told.append(f"{words} in {len(_arrived(those))} of {len(those)}")
    if not told:
        return ""
    said = f"the target is reached, with L-BFGS after training, from starts that are {' and '.join(told)}"
    failed = [row for row in _other_starts(rows) if row["end"] != "exact"]
    together = sum(row["parted"] is None for row in failed)
    apart = [row for row in failed if row["parted"] is not None]
    if together:
        said += f", and {together} of the others had not parted within their steps"
    if not apart:
        return said
    left = [row["error"] / row["one_head_error"] for row in apart]
    nearest = max(
        (row["error"] / row["one_head_error"] for row in _arrived(_other_starts(rows))), default=0.0
    )
    # which side of the line a run ends on may be a matter of a few steps
    beside = (
        f" (the nearest that it was given to, at {nearest:.3f}, ended exact)" if nearest > _NEAR_ONE else ""
    )
    return (
        f"{said}; {len(apart)} had parted but were still at {_range_of(left)} of a single head's error, and L-BFGS is "
        f"given to none above nine tenths, so that they may only be slow{beside}"
    )


def _range_of(values: Sequence[float]) -> str:
    low, high = f"{min(values):.3f}", f"{max(values):.3f}"
    return low if low == high else f"{low}-{high}"


def _found_alone(rows: Sequence[Row]) -> str:
    """How many arrivals are those of training and how many of L-BFGS after it."""
    arrived = _arrived(_other_starts(rows))
    told = []
    for words, optimisers, targets in (
        ("all targets", (_PLAIN, _ADAM), {row["target"] for row in rows}),
        *((f"nice targets and {one}", (one,), {"nice"}) for one in (_PLAIN, _ADAM)),
    ):
        those = [row for row in arrived if row["optimiser"] in optimisers and row["target"] in targets]
        left = [row["error"] / row["one_head_error"] for row in those if not _by_itself(row)]
        if left:
            told.append(f"{len(left)} of {len(those)} on {words} (from {min(left):.0%} to {max(left):.0%})")
    return (
        f"training left above {_EXACT:.0%} of a single head's error, and L-BFGS brought down, {' and '.join(told)}"
        if told
        else ""
    )


def _found_steps(rows: Sequence[Row]) -> str:
    still = part_of(rows, "escape")
    random = [row for row in part_of(rows, "train") if row["start_gap"] == 0]
    told = []
    if still:
        steps = max(row["steps"] // _STILL for row in still)
        told.append(
            f"{len(still)} begin at the best single head, halved, a stationary point, and are followed for up to "
            f"{steps} steps"
        )
    if random:
        told.append(
            f"{len(random)} begin at random heads, for up to {max(row['steps'] for row in random)} steps"
        )
    return f"of the runs of equal heads {' and '.join(told)}" if told else ""


def _found_growth(rows: Sequence[Row]) -> str:
    plain = part_of(rows, "escape", _PLAIN)
    ratios = _ratios(plain)
    if not ratios:
        return ""
    # two rates halve the same heads
    heads = {(row["target"], row["tokens"], row["dim"], row["draw"]): row["curvature"] for row in plain}
    strict = sum(curvature < 0 for curvature in heads.values())
    worst = max(abs(ratio - 1) for ratio in ratios)
    many = f"all of {len(heads)}" if strict == len(heads) else f"{strict} of {len(heads)}"
    said = (
        f"{many} halved single heads are strict saddles, which gradient descent leaves at the predicted rate within "
        f"{worst:.1g} of it"
    )
    close = [row for row in plain if row["target"] != "nice"]
    if len({row["target"] for row in close}) > 2:
        slope = slope_interval(
            np.log([float(row["target"]) for row in close]),
            np.log([-row["curvature"] for row in close]),
            confidence=0.95,
        )
        said += (
            f" and whose curvature goes as the gap of the target's heads to the {slope.estimate:.2f} "
            f"({slope.low:.2f}-{slope.high:.2f})"
        )
    return said


def _found_time(rows: Sequence[Row]) -> str:
    """The steps from the halved single head, by gap, beside the logarithm's and the predicted ones."""
    parts: list[str] = []
    uneven: list[str] = []
    for optimiser, words in ((_PLAIN, "gradient descent"), (_ADAM, "Adam")):
        chosen = [
            row
            for row in part_of(rows, "escape", optimiser)
            if row["target"] == "nice" and (row["tokens"], row["dim"]) == (2, 16) and row["rate"] != 0.5
        ]
        steps = [median_of([row["breaking"][place] for row in chosen]) for place in range(len(GAPS))]
        known = [one for one in steps if one is not None]
        if len(known) < len(steps):
            continue
        parts.append(f"{', '.join(f'{one:.0f}' for one in known)}{'' if parts else ' steps'} of {words}")
        if not _even(known):
            uneven.append(words)
    if not parts:
        return ""
    gaps = ", ".join(f"{gap:g}" for gap in GAPS)
    contrary = (
        f": contrary to the picture expected, the steps of {' and '.join(uneven)} do not follow log(1/gap)"
        if uneven
        else ", as log(1/gap) has it"
    )
    return (
        f"from the halved single head moved {gaps} apart nice heads part at k = 2, d = 16 after {' and '.join(parts)}"
        f"{contrary}"
    )


def _even(steps: Sequence[float]) -> bool:
    """Whether each hundredth of the gap costs about the same number of steps more."""
    more = [first - second for first, second in pairwise(steps)]
    return min(more) > 0 and max(more) <= _EVEN * min(more)


def _found_predicted(rows: Sequence[Row]) -> str:
    off = [
        steps / predicted - 1
        for row in part_of(rows, "escape", _PLAIN)
        for steps, predicted in zip(row["breaking"], row["predicted"], strict=True)
        if steps is not None and predicted
    ]
    return (
        f"the steps until they part are {min(off):+.0%} to {max(off):+.0%} off the predicted ones, which hold only "
        "while the heads are near"
        if off
        else ""
    )


def _found_ends(rows: Sequence[Row]) -> str:
    parts = []
    for words, nearly in (("nearly equal", True), ("independent", False)):
        for optimiser in (_PLAIN, _ADAM):
            chosen = [
                row
                for row in _starts(rows, nearly)
                if row["optimiser"] == optimiser and row["target"] == "nice"
            ]
            if chosen:
                exact = sum(row["end"] == "exact" for row in chosen)
                parts.append(f"{exact} of {len(chosen)} ({words}, {optimiser})")
    if not parts:
        return ""
    said = f"from random heads training, with L-BFGS after it, leads to the nice target in {', '.join(parts)}"
    close = []
    for optimiser in (_PLAIN, _ADAM):
        chosen = [
            row for row in _starts(rows, True) if row["optimiser"] == optimiser and row["target"] != "nice"
        ]
        if chosen:
            close.append(f"{sum(row['end'] == 'exact' for row in chosen)} of {len(chosen)} ({optimiser})")
    beside = (
        f", to targets whose own heads are close, from nearly equal ones, in {', '.join(close)}"
        if close
        else ""
    )
    return said + beside


def _starts(rows: Sequence[Row], nearly: bool) -> list[Row]:
    return [
        row
        for row in part_of(rows, "train")
        if (0 < row["start_gap"] < _NEARLY if nearly else row["start_gap"] >= _NEARLY)
    ]


def symmetry_table(rows: Sequence[Row]) -> Table:
    keys = dict.fromkeys(
        (row["target"], row["tokens"], row["dim"], row["optimiser"], row["rate"]) for row in rows
    )
    return Table(
        (
            "target",
            "k, d",
            "training",
            "least curvature",
            "growth / predicted",
            f"steps to part from {_SHOWN_GAP:g}",
            "predicted",
            "exact from nearly equal",
            "exact from independent",
            "still at one head's error",
        ),
        tuple(_line(rows, key) for key in keys),
    )


def _line(rows: Sequence[Row], key: tuple[Any, ...]) -> tuple[str, ...]:
    target, tokens, dim, optimiser, rate = key
    same = [
        row
        for row in rows
        if (row["target"], row["tokens"], row["dim"], row["optimiser"], row["rate"]) == key
    ]
    runs = part_of(same, "escape")
    place = GAPS.index(_SHOWN_GAP)
    ratios = _ratios(runs)
    trained = [*_starts(same, True), *_starts(same, False)]
    return (
        target if target == "nice" else f"gap {target}",
        f"{tokens}, {dim}",
        f"{optimiser}, {rate:g}" + (" / largest curvature" if optimiser == _PLAIN else ""),
        f"{np.median([row['curvature'] for row in runs]):.2g}" if runs else "",
        f"{min(ratios):.4f} to {max(ratios):.4f}" if ratios else "",
        _median_or_never(
            [row["breaking"][place] for row in runs], max((row["steps"] for row in runs), default=0)
        ),
        _median_or_never([row["predicted"][place] for row in runs], None),
        _share(_starts(same, True), "exact"),
        _share(_starts(same, False), "exact"),
        _share(trained, "one head"),
    )


def _median_or_never(values: Sequence[float | None], most: int | None) -> str:
    if (median := median_of(values)) is not None:
        return f"{median:.0f}"
    return f"over {most}" if values and most else ""


def median_of(values: Sequence[float | None]) -> float | None:
    """The median, what never came to it being above all others; None if it never came to the median."""
    median = float(np.median([np.inf if value is None else value for value in values])) if values else np.inf
    return median if np.isfinite(median) else None


def _share(rows: Sequence[Row], end: str) -> str:
    if not rows:
        return ""
    count = sum(row["end"] == end for row in rows)
    interval = proportion_interval(count, len(rows), confidence=0.95)
    return f"{count} of {len(rows)} ({interval.low:.2f}-{interval.high:.2f})"
