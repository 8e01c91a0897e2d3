"""Fixed positions added to the tokens: their effect on each phase, on Newton and on Adam."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    PositionedInputs,
    make_nice_layer,
    relative_error,
)
from runs import Scale
from studies.line_figure import Panel, curve_of, line_figure
from studies.positions_phases import (
    gram_condition,
    later_phases,
    phase_one_errors,
    positions_of,
    predicted_biases,
    projection_sums,
)
from studies.rows import chosen, grouped, of_all, with_interval
from studies.study import Parameters, Row, Study
from upper import GradientDescent, Newton
from upper.floor import counting_floor

__all__ = ["STUDY"]

_NAMES = {
    "none": "none",
    "sinusoidal": "sinusoidal",
    "gaussian": "Gaussian",
    "one-hot": "one-hot",
    "larger logits": "no positions, larger logits",
}
_STAGES = {"crude": "phase 1", "refined": "phase 3", "span": "span"}  # each is measured before Newton runs
_EXACT = 1e-6
_BROKEN = 2.0  # times the error with equally large logits and no positions
_LOST = 0.5  # a span with a larger error contains little of the heads
_RAW, _CENTRED = "as it is", "centred"
_SIGMA = 2.0
_KINDS = ("sinusoidal", "gaussian", "one-hot")
_SCALES = (0.25, 0.5, 1.0, 2.0)
_TESTED = 2000  # fresh examples for measuring errors
_EXAMPLES = 2000  # of phase 1, in units of d
_FLOORS, _MORE_FLOORS = 4, 28  # of Newton's examples; the second at the largest scale only
_NEWTON_WORK, _ADAM_STEPS, _ADAM_BATCH = 6000, 600, 256


def _cells(scale: Scale) -> list[Parameters]:
    quick = scale is Scale.QUICK
    kinds, scales = (_KINDS[:2], (0.5, 2.0)) if quick else (_KINDS, _SCALES)
    where: list[Mapping[str, Any]] = [
        {"kind": "none", "scale": 0.0},
        *({"kind": kind, "scale": size} for kind in kinds for size in scales),
        *({"kind": "larger logits", "scale": size} for size in scales),
    ]
    # part, (m, k, d), draws
    parts = (
        [("phases", (2, 2, 12), 1), ("newton", (2, 2, 12), 1), ("adam", (2, 2, 12), 1)]
        if quick
        else [
            ("phases", (2, 2, 16), 5),
            ("phases", (2, 3, 16), 3),
            ("newton", (2, 2, 16), 8),
            ("newton", (2, 3, 16), 8),
            ("adam", (2, 2, 16), 3),
        ]
    )
    return [
        {"part": part, "heads": m, "tokens": k, "dim": d, **one, "floors": floors, "draw": draw}
        for part, (m, k, d), draws in parts
        for one in where
        for floors in (_floors(one, max(scales)) if part == "newton" else (None,))
        if not (quick and part == "adam" and one["kind"] not in ("none", "gaussian"))  # the longest cells
        for draw in range(draws)
    ]


def _floors(where: Mapping[str, Any], largest: float) -> tuple[int, ...]:
    return (_FLOORS, _MORE_FLOORS) if where["scale"] == largest else (_FLOORS,)


def _measure(
    *,
    rng: np.random.Generator,
    part: str,
    heads: int,
    tokens: int,
    dim: int,
    kind: str,
    scale: float,
    floors: int | None,
    draw: int,
) -> Mapping[str, Any]:
    larger = kind == "larger logits"
    sigma = _SIGMA * (1 + scale**2) if larger else _SIGMA
    layer = make_nice_layer(heads=heads, dim=dim, sigma=sigma, rng=rng)
    normal = rng.standard_normal((tokens, dim))
    if kind in _KINDS:
        positions = positions_of(kind, tokens, dim, scale=scale, normal=normal)
    else:
        positions = np.zeros((tokens, dim))
    inputs = PositionedInputs(BooleanInputs(tokens, dim), positions)
    if part == "phases":
        return _phases(layer, inputs, rng)
    oracle = ExampleOracle(layer, inputs, rng=rng)
    fresh = inputs.sample(_TESTED, rng=rng)
    if part == "adam":
        adam = GradientDescent(
            heads=heads, work=_ADAM_STEPS, batch=_ADAM_BATCH, learning_rate=0.01, dtype="float64"
        )
        return {"error": _error(adam.fit(oracle, rng=rng).predict, layer, fresh)}
    examples = (floors or _FLOORS) * counting_floor(heads=heads, tokens=tokens, dim=dim)
    newton = Newton(heads=heads, examples=examples, starts=3, work=_NEWTON_WORK, engine="numpy")
    fit = newton.fit(oracle, rng=rng)
    passes = fit.trace[-1].measures.get("passes")
    return {
        "error": _error(fit.predict, layer, fresh),
        "outcome": fit.outcome.name,
        "passes": None if passes is None else int(passes),
        "condition": gram_condition(layer, fresh),
    }


def _phases(layer: AttentionLayer, inputs: PositionedInputs, rng: np.random.Generator) -> dict[str, Any]:
    x = inputs.sample(_EXAMPLES * inputs.dim, rng=rng)
    sums = projection_sums(x, layer(x), inputs.positions)
    before, after = predicted_biases(layer, inputs.positions, x[:_TESTED])
    seed = int(rng.integers(2**32))  # both continue from the same examples
    later = {
        name: later_phases(layer, inputs, sums[name], rng=np.random.default_rng(seed))
        for name in (_RAW, _CENTRED)
    }
    return {
        "crude": phase_one_errors(sums, layer),
        "predicted": {_RAW: before, _CENTRED: after},
        **{what: {name: found[what] for name, found in later.items()} for what in later[_CENTRED]},
    }


def _error(predict: Any, layer: AttentionLayer, fresh: np.ndarray) -> float:
    return relative_error(np.asarray(predict(fresh), dtype=np.float64), layer(fresh))


def _positioned(rows: Sequence[Row], part: str, **wanted: Any) -> list[Row]:
    return [row for row in chosen(rows, part=part, **wanted) if row["kind"] in _KINDS]


def _values(rows: Sequence[Row], what: str, way: str = "") -> list[float]:
    """The errors of rows, 1 for what failed."""
    found = [row[what][way] if way else row[what] for row in rows]
    return [1.0 if value is None else float(value) for value in found]


def _median(rows: Sequence[Row], what: str, way: str = "") -> float:
    return float(np.median(_values(rows, what, way)))


def _exact(rows: Sequence[Row], what: str, way: str = "") -> str:
    values = _values(rows, what, way)
    return of_all(value <= _EXACT for value in values)


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.2g} to {max(values):.2g}"


def _breaks_at(rows: Sequence[Row], here: Sequence[Row], what: str, way: str) -> float | None:
    """The scale at which a phase's error is twice that with equally large logits, by interpolation of logarithms.

    It lies between two measured scales; it is the first scale if the error is larger there already. None if the error
    stays below.
    """
    before: tuple[float, float] | None = None
    for scale in sorted({row["scale"] for row in here}):
        k = here[0]["tokens"]
        usual = chosen(rows, part="phases", tokens=k, kind="larger logits", scale=scale)
        usual = usual or chosen(rows, part="phases", tokens=k, kind="none")
        at = [row for row in here if row["scale"] == scale]
        ratio = _median(at, what, way) / _median(usual, what, way) if usual else 0.0
        if ratio > _BROKEN:
            if before is None:
                return float(scale)
            last, below = before
            return float(last * (scale / last) ** (np.log(_BROKEN / below) / np.log(ratio / below)))
        before = scale, ratio
    return None


def _scale_text(scale: float | None) -> str:
    return "never" if scale is None else f"{scale:.2g}" if scale > _SCALES[0] else f"{scale:.2g} or less"


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    tokens = sorted({row["tokens"] for row in chosen(rows, part="phases")})
    for way, ending in ((_RAW, ""), (_CENTRED, "_centred")):
        for k in tokens:
            here = _positioned(rows, "phases", tokens=k)
            for what in _STAGES:
                named[f"breaks_{what}_{k}{ending}"] = _scale_text(_breaks_at(rows, here, what, way))
        if at := _positioned(rows, "phases", scale=2.0, tokens=2):
            errors = [
                _median([row for row in at if row["kind"] == kind], "crude", way)
                for kind in _KINDS
                if any(row["kind"] == kind for row in at)
            ]
            named[f"crude{ending}"] = _range(errors)
        for scale in (1.0, 2.0):
            if at := _positioned(rows, "phases", scale=scale):
                named[f"final_{scale:.0f}{ending}"] = _exact(at, "final", way)
    for kind in _KINDS:
        scales = [
            _breaks_at(rows, here, what, _CENTRED)
            for k in tokens
            if (here := chosen(rows, part="phases", tokens=k, kind=kind))
            for what in _STAGES
        ]
        found = [scale for scale in scales if scale is not None]
        named[f"centred_{kind.replace('-', '_')}"] = _scale_text(min(found, default=None))
    if plain := chosen(rows, part="phases", kind="none", tokens=2):
        named["crude_plain"] = f"{_median(plain, 'crude', _RAW):.2g}"
    for k in tokens:
        spans = {
            "": _positioned(rows, "phases", tokens=k, scale=1.0),
            "_logits": chosen(rows, part="phases", tokens=k, scale=1.0, kind="larger logits"),
            "_plain": chosen(rows, part="phases", tokens=k, kind="none"),
        }
        named |= {
            f"span_{k}{name}": _range(_values(at, "span", _CENTRED)) for name, at in spans.items() if at
        }
    ends = [
        span
        for way in (_RAW, _CENTRED)
        for span, end in zip(
            *(_values(_positioned(rows, "phases"), what, way) for what in ("span", "final")), strict=True
        )
        if end <= _EXACT
    ]
    named["lost"] = f"{sum(span > _LOST for span in ends)} of {len(ends)}"
    newton = _positioned(rows, "newton")
    fine = [
        scale
        for scale in _SCALES
        if max(_values([row for row in newton if row["scale"] <= scale], "error"), default=1.0) <= _EXACT
    ]
    named["newton_until"] = f"{max(fine, default=0):g}"
    last = chosen(rows, part="newton", scale=_SCALES[-1])
    for floors in (_FLOORS, _MORE_FLOORS):
        named[f"newton_{floors}"] = _exact(_positioned(last, "newton", floors=floors), "error")
    for kind, name in (("sinusoidal", "sinusoidal"), ("larger logits", "larger_logits")):
        named[f"newton_4_{name}"] = _exact(chosen(last, part="newton", floors=_FLOORS, kind=kind), "error")
    gram = chosen(rows, part="newton", floors=_FLOORS, scale=2.0, kind="sinusoidal")
    named |= {
        f"gram_{k}": f"{np.median([row['condition'] for row in gram if row['tokens'] == k]):.0f}"
        for k in sorted({row["tokens"] for row in gram})
    }
    if plain := chosen(rows, part="adam", kind="none"):
        named["adam"] = f"{_median(plain, 'error'):.1g}"
    for kind in ("gaussian", "larger logits"):
        if at := chosen(rows, part="adam", kind=kind, scale=2.0):
            named[f"adam_{kind.replace(' ', '_')}"] = f"{_median(at, 'error'):.2g}"
    return named


def _table(rows: Sequence[Row]) -> list[dict[str, str]]:
    places = sorted(
        {(row["tokens"], row["kind"], row["scale"]) for row in rows},
        key=lambda place: (place[0], list(_NAMES).index(place[1]), place[2]),
    )
    lines = []
    for k, kind, scale in places:
        where = {"tokens": k, "kind": kind, "scale": scale}
        phases, adam = chosen(rows, part="phases", **where), chosen(rows, part="adam", **where)
        few = chosen(rows, part="newton", **where, floors=_FLOORS)
        more = chosen(rows, part="newton", **where, floors=_MORE_FLOORS)
        lines.append(
            {
                "k": str(k),
                "positions and scale": f"{_NAMES[kind]}, {scale:g}",
                "phase 1 (derived)": _with_derived(phases, _RAW),
                "centred (derived)": _with_derived(phases, _CENTRED),
                "span": _cell(phases, lambda at: f"{_median(at, 'span', _RAW):.1e}"),
                "span, centred": _cell(phases, lambda at: f"{_median(at, 'span', _CENTRED):.1e}"),
                "after Newton's iterates, centred": _cell(phases, lambda at: _exact(at, "final", _CENTRED)),
                "Newton, 4 floors": _cell(few, _success),
                "Newton, 28 floors": _cell(more, _success),
                "Gram": _cell(few, lambda at: f"{np.median([row['condition'] for row in at]):.0f}"),
                "Adam's error": _cell(adam, lambda at: f"{_median(at, 'error'):.1e}"),
            }
        )
    return lines


def _cell(rows: Sequence[Row], text: Callable[[Sequence[Row]], str]) -> str:
    return text(rows) if rows else "–"


def _with_derived(rows: Sequence[Row], way: str) -> str:
    return _cell(rows, lambda at: f"{_median(at, 'crude', way):.2g} ({_median(at, 'predicted', way):.2g})")


def _success(rows: Sequence[Row]) -> str:
    return with_interval(value <= _EXACT for value in _values(rows, "error"))


def _figure(rows: Sequence[Row]) -> Any:
    """Median errors of phase 1 and of the span for two tokens, by scale and kind, as they are and centred."""
    panels = []
    for what, title in (("crude", "error of phase 1, k = 2"), ("span", "error of the span, k = 2")):
        curves = {}
        for kind, name in _NAMES.items():
            here = chosen(rows, part="phases", tokens=2, kind=kind)
            for way, words in ((_RAW, name), (_CENTRED, f"{name}, centred")):
                if kind in _KINDS or (way == _RAW and kind != "none"):
                    by_scale = grouped(here, "scale").items()
                    curves[words] = curve_of({scale: _median(at, what, way) for (scale,), at in by_scale})
        panels.append(Panel("scale of the positions", title, curves, log_x=True))
    return line_figure(panels)


STUDY = Study(
    name="positions",
    title="Tokens with positions added",
    question="Do the learners still work when a fixed position vector is added to each token, and which phase breaks "
    "first?",
    cells=_cells,
    measure=_measure,
    numbers=_numbers,
    table=_table,
    figure=_figure,
    stream=("part", "heads", "tokens", "dim", "draw"),
    needs=("torch",),
)
