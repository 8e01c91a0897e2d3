"""What the study of positions found: in words and as a table."""

from collections.abc import Sequence

import numpy as np

from arena._phrases import sentence
from arena.studies.study import Row, Table
from paper_checks import proportion_interval

__all__ = ["CENTRED", "NAMES", "RAW", "found_in_words", "positions_table", "rows_of", "tokens_in"]

NAMES = {
    "sinusoidal": "sinusoidal",
    "gaussian": "Gaussian",
    "one-hot": "one-hot",
    "larger logits": "no positions, larger logits",
}
_KINDS = ("sinusoidal", "gaussian", "one-hot")
_STAGES = {
    "crude": "phase 1",
    "refined": "phase 3",
    "span": "the span",
}  # each measured before Newton has a part
_EXACT = 1e-6
_BROKEN = 2.0  # times the error without positions
_LOST = 0.5  # a span that is off by more holds little of the heads
RAW, CENTRED = "as it is", "centred"


def rows_of(rows: Sequence[Row], part: str, tokens: int | None = None, **wanted: object) -> list[Row]:
    return [
        row
        for row in rows
        if row["part"] == part
        and tokens in (None, row["tokens"])
        and all(row[name] == value for name, value in wanted.items())
    ]


def _values(rows: Sequence[Row], what: str, way: str = "") -> list[float]:
    """The errors of rows, 1 for what failed."""
    found = [row[what][way] if way else row[what] for row in rows]
    return [1.0 if value is None else float(value) for value in found]


def _median(rows: Sequence[Row], what: str, way: str = "") -> float:
    return float(np.median(_values(rows, what, way)))


def _exact(rows: Sequence[Row], what: str, way: str = "") -> tuple[int, int]:
    values = _values(rows, what, way)
    return sum(value <= _EXACT for value in values), len(values)


def _least_tokens(rows: Sequence[Row], part: str) -> int | None:
    return min((row["tokens"] for row in rows_of(rows, part)), default=None)


def found_in_words(rows: Sequence[Row]) -> str:
    """One sentence, made of whatever was measured."""
    told = (
        _answer(rows),
        _phase_one(rows),
        _firsts(rows),
        _spans(rows),
        _later(rows),
        _newton(rows),
        _adam(rows),
    )
    parts = [part for part in told if part]
    text = "; ".join(parts)
    return sentence(text) if text else "Nothing was measured."


def _positioned(rows: Sequence[Row], part: str, tokens: int | None = None) -> list[Row]:
    return [row for row in rows_of(rows, part, tokens) if row["kind"] in _KINDS]


def tokens_in(rows: Sequence[Row], part: str) -> list[int]:
    return sorted({row["tokens"] for row in rows_of(rows, part)})


def _scales(rows: Sequence[Row]) -> list[float]:
    return sorted({row["scale"] for row in rows})


def _first_broken(rows: Sequence[Row], what: str, way: str, tokens: int) -> float | None:
    """The first scale where the median error over kinds and targets is more than twice that without positions."""
    plain, here = rows_of(rows, "phases", tokens, kind="none"), _positioned(rows, "phases", tokens)
    most = _BROKEN * _median(plain, what, way)
    broken = (
        scale
        for scale in _scales(here)
        if _median([row for row in here if row["scale"] == scale], what, way) > most
    )
    return next(broken, None)


def _judged(rows: Sequence[Row]) -> list[int]:
    """The k that were measured with positions and without."""
    return [
        k
        for k in tokens_in(rows, "phases")
        if rows_of(rows, "phases", k, kind="none") and _positioned(rows, "phases", k)
    ]


def _answer(rows: Sequence[Row]) -> str:
    ks, newton = _judged(rows), _positioned(rows, "newton")
    if not ks or not newton:
        return ""
    return f"{_how_far(newton)}, while {_what_breaks(rows, ks)}{_what_centring_mends(rows, ks)}"


def _how_far(newton: Sequence[Row]) -> str:
    scales = _scales(newton)
    failed = [
        scale
        for scale in scales
        if (count := _exact([row for row in newton if row["scale"] == scale], "error"))
        and count[0] < count[1]
    ]
    if not failed:
        return f"Newton from random starts is exact in every run up to scale {scales[-1]:g}"
    fine = [scale for scale in scales if scale < failed[0]]
    return (
        f"Newton from random starts is exact in every run up to scale {fine[-1]:g} and not at {failed[0]:g}"
        if fine
        else f"Newton from random starts fails in some runs already at scale {failed[0]:g}"
    )


def _what_breaks(rows: Sequence[Row], ks: Sequence[int]) -> str:
    told: dict[str, list[int]] = {}
    for k in ks:
        firsts = {what: _first_broken(rows, what, RAW, k) for what in _STAGES}
        least = min((scale for scale in firsts.values() if scale is not None), default=None)
        names = [_STAGES[what] for what, scale in firsts.items() if scale is not None and scale == least]
        said = f"{' and '.join(names)} (from scale {least:g})" if names else "none"
        told.setdefault(said, []).append(k)
    if list(told) == ["none"]:
        return "no phase is off by twice as much as without positions"
    each = [f"{said} at k = {' and '.join(map(str, at))}" for said, at in told.items()]
    if len(each) == 1:
        return f"of the six phases {each[0]} breaks first"
    return f"of the six phases there break first {' and '.join(each)}"


def _what_centring_mends(rows: Sequence[Row], ks: Sequence[int]) -> str:
    """Whether the first sum is mended, and whether the span is."""
    largest = _scales(_positioned(rows, "phases"))[-1]

    def broken(what: str, way: str) -> float:
        found = [_first_broken(rows, what, way, k) for k in ks]
        return min((scale for scale in found if scale is not None), default=float("inf"))

    first, sums, span = broken("crude", RAW), broken("crude", CENTRED), broken("span", CENTRED)
    if first > largest:
        return ""
    until = "at every scale" if sums > largest else f"below scale {sums:g}"
    if sums <= first:
        return ", and centring by position does not mend phase 1"
    if span > largest:
        return f", and centring by position mends phase 1 {until} and the span at every scale"
    return f", and centring by position mends phase 1 {until} but not the span from scale {span:g} on"


def _at(rows: Sequence[Row], tokens: int, scale: float) -> list[Row]:
    return [row for row in _positioned(rows, "phases", tokens) if row["scale"] == scale]


def _firsts(rows: Sequence[Row]) -> str:
    told = []
    for way in (RAW, CENTRED):
        for k in _judged(rows):
            each = (
                f"{'nowhere' if first is None else f'{first:g}'} for {name}"
                for what, name in _STAGES.items()
                for first in [_first_broken(rows, what, way, k)]
            )
            told.append(f"{', '.join(each)} ({way}, k = {k})")
    return (
        f"the first scale with an error over twice that without positions is {', '.join(told)}"
        if told
        else ""
    )


def _spans(rows: Sequence[Row]) -> str:
    told = []
    for k in _judged(rows):
        here = _positioned(rows, "phases", k)
        scale = max((one for one in _scales(here) if one <= 1), default=_scales(here)[0])
        control = rows_of(rows, "phases", k, kind="larger logits", scale=scale)
        beside = f", {_range(control, 'span')} with larger logits alone" if control else ""
        told.append(
            f"{_range(_at(rows, k, scale), 'span')} at k = {k} and scale {scale:g} "
            f"({_range(rows_of(rows, 'phases', k, kind='none'), 'span')} without positions{beside})"
        )
    return f"centred phases end with a span that is off by {', '.join(told)}" if told else ""


def _range(rows: Sequence[Row], what: str) -> str:
    values = _values(rows, what, CENTRED)
    return f"{min(values):.2g} to {max(values):.2g}"


def _phase_one(rows: Sequence[Row]) -> str:
    here = rows_of(rows, "phases", _least_tokens(rows, "phases"))
    positioned = [row for row in here if row["kind"] in _KINDS]
    if not positioned:
        return ""
    most = max(row["scale"] for row in positioned)
    kinds = [kind for kind in NAMES if any(row["kind"] == kind for row in positioned)]

    def each(way: str) -> str:
        told = []
        for kind in kinds:
            if at := [row for row in positioned if (row["kind"], row["scale"]) == (kind, most)]:
                told.append(f"{_median(at, 'crude', way):.2g} ({NAMES[kind]})")
        return ", ".join(told)

    plain = rows_of(here, "phases", kind="none")
    beside = f", against {_median(plain, 'crude', RAW):.2g} without positions" if plain else ""
    return f"at scale {most:g} phase 1 is off by {each(RAW)}, centred by {each(CENTRED)}{beside}"


def _later(rows: Sequence[Row]) -> str:
    positioned = _positioned(rows, "phases")
    told = []
    for scale in _last_two(positioned):
        here = [row for row in positioned if row["scale"] == scale]
        raw, centred = _exact(here, "final", RAW), _exact(here, "final", CENTRED)
        told.append(f"{raw[0]} of {raw[1]} at scale {scale:g} ({centred[0]} centred)")
    if not told:
        return ""
    ends = [
        span
        for way in (RAW, CENTRED)
        for span, end in zip(_values(positioned, "span", way), _values(positioned, "final", way), strict=True)
        if end <= _EXACT
    ]
    lost = sum(span > _LOST for span in ends)
    return (
        f"after Newton's iterates, which end phase 6, the six phases are exact in {', '.join(told)}, but {lost} of all "
        f"{len(ends)} such ends began at a span that was off by over {_LOST:g}, so that they are Newton's"
        if lost
        else f"after Newton's iterates, which end phase 6, the six phases are exact in {', '.join(told)}"
    )


def _newton(rows: Sequence[Row]) -> str:
    here = rows_of(rows, "newton")
    positioned = [row for row in here if row["kind"] in _KINDS]
    told = []
    for scale in _last_two(positioned):
        hits, trials = _exact([row for row in positioned if row["scale"] == scale], "error")
        control = rows_of(here, "newton", kind="larger logits", scale=scale)
        beside = " ({} of {} with larger logits alone)".format(*_exact(control, "error")) if control else ""
        told.append(f"{hits} of {trials} at scale {scale:g}{beside}")
    return f"Newton from random starts is exact in {', '.join(told)}" if told else ""


def _adam(rows: Sequence[Row]) -> str:
    here = rows_of(rows, "adam")
    plain = [row for row in here if row["kind"] == "none"]
    positioned = [row for row in here if row["kind"] in _KINDS]
    if not plain or not positioned:
        return ""
    most = max(row["scale"] for row in positioned)
    there = [row for row in positioned if row["scale"] == most]
    first, last = _median(plain, "error"), _median(there, "error")
    return f"Adam's error is {first:.1g} without positions and {last:.1g} at {most:g}"


def _last_two(rows: Sequence[Row]) -> list[float]:
    return sorted({row["scale"] for row in rows})[-2:]


def positions_table(rows: Sequence[Row]) -> Table:
    """A row for each kind and scale and each k."""
    header = (
        "k",
        "positions and scale",
        "phase 1 (derived)",
        "centred (derived)",
        "span",
        "span, centred",
        "after Newton's iterates, centred",
        "Newton, random starts",
        "Gram / Adam's error",
    )
    lines = []
    for k in sorted({row["tokens"] for row in rows}):
        for kind in ("none", *NAMES):
            here = [row for row in rows if (row["tokens"], row["kind"]) == (k, kind)]
            for scale in _scales(here):
                at = rows_of(here, "phases", scale=scale)
                solved, adam = rows_of(here, "newton", scale=scale), rows_of(here, "adam", scale=scale)
                condition = f"{np.median([row['condition'] for row in solved]):.0f}" if solved else "–"
                lines.append(
                    (
                        str(k),
                        f"{NAMES.get(kind, kind)}, {scale:g}",
                        _with_derived(at, RAW),
                        _with_derived(at, CENTRED),
                        f"{_median(at, 'span', RAW):.1e}" if at else "–",
                        f"{_median(at, 'span', CENTRED):.1e}" if at else "–",
                        "{} of {}".format(*_exact(at, "final", CENTRED)) if at else "–",
                        _success(solved),
                        f"{condition} / {_median(adam, 'error'):.1e}" if adam else f"{condition} / –",
                    )
                )
    return Table(header, tuple(lines))


def _with_derived(rows: Sequence[Row], way: str) -> str:
    return f"{_median(rows, 'crude', way):.2g} ({_median(rows, 'predicted', way):.2g})" if rows else "–"


def _success(rows: Sequence[Row]) -> str:
    if not rows:
        return "–"
    hits, trials = _exact(rows, "error")
    interval = proportion_interval(hits, trials, confidence=0.95)
    return f"{hits} of {trials} ({interval.low:.2f} to {interval.high:.2f})"
