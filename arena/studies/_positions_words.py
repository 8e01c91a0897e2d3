"""What the study of positions found: in words and as a table."""

from collections.abc import Sequence

import numpy as np

from arena._phrases import listed, sentence
from arena.studies.study import Row

__all__ = [
    "CENTRED",
    "NAMES",
    "RAW",
    "exact",
    "found_in_words",
    "least_floors",
    "median",
    "newton_rows",
    "rows_of",
    "scales_of",
    "tokens_in",
]

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
_BROKEN = 2.0  # times the error with logits as large and no positions
_TOGETHER = 1.25  # ratio of scales up to which phases break at about the same one
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


def values_of(rows: Sequence[Row], what: str, way: str = "") -> list[float]:
    """The errors of rows, 1 for what failed."""
    found = [row[what][way] if way else row[what] for row in rows]
    return [1.0 if value is None else float(value) for value in found]


def median(rows: Sequence[Row], what: str, way: str = "") -> float:
    return float(np.median(values_of(rows, what, way)))


def exact(rows: Sequence[Row], what: str, way: str = "") -> tuple[int, int]:
    values = values_of(rows, what, way)
    return sum(value <= _EXACT for value in values), len(values)


def least_floors(rows: Sequence[Row]) -> int:
    """The fewest counting floors of examples that Newton has: those it has at every scale."""
    return min((row["floors"] for row in rows_of(rows, "newton")), default=4)


def newton_rows(rows: Sequence[Row], floors: int | None = None, **wanted: object) -> list[Row]:
    """Newton's rows with so many counting floors of examples; None is the fewest."""
    floors = least_floors(rows) if floors is None else floors
    return [row for row in rows_of(rows, "newton", **wanted) if row["floors"] == floors]  # type: ignore[arg-type]


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
        _against_gram(rows),
        _adam(rows),
    )
    parts = [part for part in told if part]
    text = "; ".join(parts)
    return sentence(text) if text else "Nothing was measured."


def positioned_in(rows: Sequence[Row], part: str, tokens: int | None = None) -> list[Row]:
    return [row for row in rows_of(rows, part, tokens) if row["kind"] in _KINDS]


def tokens_in(rows: Sequence[Row], part: str) -> list[int]:
    return sorted({row["tokens"] for row in rows_of(rows, part)})


def scales_of(rows: Sequence[Row]) -> list[float]:
    return sorted({row["scale"] for row in rows})


def _ratio(rows: Sequence[Row], here: Sequence[Row], what: str, way: str, scale: float) -> float:
    """The median error at a scale over that with logits as large and no positions, or that of plain tokens."""
    k = here[0]["tokens"]
    usual = rows_of(rows, "phases", k, kind="larger logits", scale=scale) or rows_of(
        rows, "phases", k, kind="none"
    )
    return median([row for row in here if row["scale"] == scale], what, way) / median(usual, what, way)


def _breaks_at(rows: Sequence[Row], here: Sequence[Row], what: str, way: str) -> float | None:
    """The scale at which the error of a phase is twice that with logits as large, by interpolation of logarithms.

    Between two measured scales; the first one if it is more there already. None if it stays below.
    """
    before: tuple[float, float] | None = None
    for scale in scales_of(here):
        ratio = _ratio(rows, here, what, way, scale)
        if ratio > _BROKEN:
            if before is None:
                return scale
            last, below = before
            share = np.log(_BROKEN / below) / np.log(ratio / below)
            return float(last * (scale / last) ** share)
        before = scale, ratio
    return None


def _judged(rows: Sequence[Row]) -> list[int]:
    """The k that were measured with positions and without."""
    return [
        k
        for k in tokens_in(rows, "phases")
        if rows_of(rows, "phases", k, kind="none") and positioned_in(rows, "phases", k)
    ]


def _answer(rows: Sequence[Row]) -> str:
    ks, newton = _judged(rows), [row for row in newton_rows(rows) if row["kind"] in _KINDS]
    if not ks or not newton:
        return ""
    return f"{_how_far(rows, newton)}, {_what_breaks(rows, ks)}{_what_centring_mends(rows, ks)}"


def _how_far(rows: Sequence[Row], newton: Sequence[Row]) -> str:
    scales = scales_of(newton)
    counts = {scale: exact([row for row in newton if row["scale"] == scale], "error") for scale in scales}
    failed = [scale for scale, (hits, trials) in counts.items() if hits < trials]
    if not failed:
        return f"Newton is exact up to scale {scales[-1]:g}"
    fine = [scale for scale in scales if scale < failed[0]]
    least = least_floors(rows)
    text = f"at scale {failed[0]:g} in {_of(counts[failed[0]])} runs with {least} counting floors of examples"
    for floors in sorted({row["floors"] for row in rows_of(rows, "newton")} - {least}):
        more = [row for row in newton_rows(rows, floors, scale=failed[0]) if row["kind"] in _KINDS]
        if more:
            text += f" and {_of(exact(more, 'error'))} with {floors}"
    return f"Newton is exact up to scale {fine[-1]:g}, {text}" if fine else f"Newton is exact {text}"


def _of(count: tuple[int, int]) -> str:
    return f"{count[0]} of {count[1]}"


def _what_breaks(rows: Sequence[Row], ks: Sequence[int]) -> str:
    """Which phases are off by twice as much at about the least scale, by the number of tokens."""
    told: dict[str, list[int]] = {}
    for k in ks:
        here = positioned_in(rows, "phases", k)
        firsts = {
            name: at
            for what, name in _STAGES.items()
            if (at := _breaks_at(rows, here, what, RAW)) is not None
        }
        if firsts:
            least = min(firsts.values())
            names = [name for name, at in firsts.items() if at <= _TOGETHER * least]
            told.setdefault(f"{_first(names)} first, at about scale {least:.2g}", []).append(k)
    if not told:
        return "no phase is off by twice as much as with larger logits alone"
    (said, tokens), *others = told.items()
    if not others and len(tokens) == len(ks):
        return said
    return " and ".join(f"{said} (k = {' and '.join(map(str, at))})" for said, at in told.items())


def _first(names: Sequence[str]) -> str:
    if not names[1:]:
        return f"{names[0]} breaks"
    if all(name.startswith("phase ") for name in names):
        return f"phases {' and '.join(name.removeprefix('phase ') for name in names)} break"
    return f"{listed(names)} break"


def _what_centring_mends(rows: Sequence[Row], ks: Sequence[int]) -> str:
    """For which positions centring leaves nothing that larger logits alone do not explain."""
    mended: list[str] = []
    left: list[str] = []
    for kind in _KINDS:
        ways = {RAW: False, CENTRED: False}
        for k in ks:
            here = rows_of(rows, "phases", k, kind=kind)
            for way in ways:
                ways[way] |= bool(here) and any(
                    _breaks_at(rows, here, what, way) is not None for what in _STAGES
                )
        if ways[RAW]:
            (left if ways[CENTRED] else mended).append(NAMES[kind])
    if not mended:
        return ", and centring by position does not mend all that breaks" if left else ""
    return f", and centring mends that for {' and '.join(mended)} positions" + (" only" if left else "")


def _at(rows: Sequence[Row], tokens: int, scale: float) -> list[Row]:
    return [row for row in positioned_in(rows, "phases", tokens) if row["scale"] == scale]


def _firsts(rows: Sequence[Row]) -> str:
    told = []
    for way in (RAW, CENTRED):
        for k in _judged(rows):
            each = ", ".join(_each_kind(rows, positioned_in(rows, "phases", k), way))
            told.append(f"{each} ({way}, k = {k})")
    return f"errors are twice those with larger logits alone from scale {', '.join(told)}" if told else ""


def _each_kind(rows: Sequence[Row], here: Sequence[Row], way: str) -> list[str]:
    firsts = {name: _breaks_at(rows, here, what, way) for what, name in _STAGES.items()}
    first = scales_of(here)[0]
    return [
        f"{'never' if at is None else f'{at:.2g} or less' if at == first else f'{at:.2g}'} for {name}"
        for name, at in firsts.items()
    ]


def _spans(rows: Sequence[Row]) -> str:
    told = []
    for k in _judged(rows):
        here = positioned_in(rows, "phases", k)
        scale = max((one for one in scales_of(here) if one <= 1), default=scales_of(here)[0])
        control = rows_of(rows, "phases", k, kind="larger logits", scale=scale)
        beside = f", {_range(control, 'span')} with larger logits alone" if control else ""
        told.append(
            f"{_range(_at(rows, k, scale), 'span')} at k = {k} and scale {scale:g} "
            f"({_range(rows_of(rows, 'phases', k, kind='none'), 'span')} without positions{beside})"
        )
    return f"centred phases end with a span that is off by {', '.join(told)}" if told else ""


def _range(rows: Sequence[Row], what: str) -> str:
    values = values_of(rows, what, CENTRED)
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
                told.append(f"{median(at, 'crude', way):.2g} ({NAMES[kind]})")
        return ", ".join(told)

    plain = rows_of(here, "phases", kind="none")
    beside = f", against {median(plain, 'crude', RAW):.2g} without positions" if plain else ""
    return f"at scale {most:g} phase 1 is off by {each(RAW)}, centred by {each(CENTRED)}{beside}"


def _later(rows: Sequence[Row]) -> str:
    positioned = positioned_in(rows, "phases")
    told = []
    for scale in _last_two(positioned):
        here = [row for row in positioned if row["scale"] == scale]
        raw, centred = exact(here, "final", RAW), exact(here, "final", CENTRED)
        told.append(f"{raw[0]} of {raw[1]} at scale {scale:g} ({centred[0]} centred)")
    if not told:
        return ""
    ends = [
        span
        for way in (RAW, CENTRED)
        for span, end in zip(
            values_of(positioned, "span", way), values_of(positioned, "final", way), strict=True
        )
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
    """At the last scale by the kind and the examples, against larger logits alone and the Gram matrix."""
    here = newton_rows(rows)
    positioned = [row for row in here if row["kind"] in _KINDS]
    if not positioned:
        return ""
    most = scales_of(positioned)[-1]
    told = []
    for floors in sorted({row["floors"] for row in rows_of(rows, "newton")}):
        counts = _newton_counts(rows, floors, most)
        each = ", ".join(f"{_of(count)} ({NAMES[kind]})" for kind, count in counts.items())
        if each:
            told.append(f"{each} with {floors} counting floors of examples")
    return f"Newton at scale {most:g} is exact in {', '.join(told)}"


def _newton_counts(rows: Sequence[Row], floors: int, scale: float) -> dict[str, tuple[int, int]]:
    return {
        kind: exact(at, "error")
        for kind in NAMES
        if (at := newton_rows(rows, floors, kind=kind, scale=scale))
    }


def _against_gram(rows: Sequence[Row]) -> str:
    """Whether the positions with the worst Gram matrix are those that Newton does best on."""
    least, scales = (
        least_floors(rows),
        scales_of([row for row in rows_of(rows, "newton") if row["kind"] in _KINDS]),
    )
    if not scales:
        return ""
    scale = scales[-1]
    counts = _newton_counts(rows, least, scale)
    conditions = {
        kind: [
            float(np.median([row["condition"] for row in at]))
            for k in tokens_in(rows, "newton")
            if (at := newton_rows(rows, kind=kind, scale=scale, tokens=k))
        ]
        for kind in counts
    }
    if len(counts) < 2 or len({len(each) for each in conditions.values()}) > 1:
        return ""
    worst = max(counts, key=lambda kind: min(conditions[kind]))
    others = [kind for kind in counts if kind != worst]
    largest = all(x > y for kind in others for x, y in zip(conditions[worst], conditions[kind], strict=True))
    if not largest or any(_share(counts[worst]) <= _share(counts[kind]) for kind in others):
        return ""
    shown = " and ".join(f"{one:.0f}" for one in conditions[worst])
    return (
        f"with {least} counting floors Newton does best on {NAMES[worst]} positions, whose Gram matrix has the largest "
        f"condition number ({shown}), contrary to what was expected"
    )


def _share(count: tuple[int, int]) -> float:
    return count[0] / count[1]


def _adam(rows: Sequence[Row]) -> str:
    here = rows_of(rows, "adam")
    plain = rows_of(here, "adam", kind="none")
    positioned = [row for row in here if row["kind"] in _KINDS]
    if not plain or not positioned:
        return ""
    told = [f"{median(plain, 'error'):.1g} without positions"]
    for scale in _last_two(positioned):
        at = {kind: one for kind in NAMES if (one := rows_of(here, "adam", kind=kind, scale=scale))}
        each = ", ".join(f"{median(one, 'error'):.2g} ({NAMES[kind]})" for kind, one in at.items())
        told.append(f"at scale {scale:g} {each}")
    return f"Adam's error is {', '.join(told)}"


def _last_two(rows: Sequence[Row]) -> list[float]:
    return sorted({row["scale"] for row in rows})[-2:]
