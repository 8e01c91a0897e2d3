"""Attention weightings other than exp: which parts of the learning of layers still work, phase by phase."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from attention import BooleanInputs, ExampleOracle, make_nice_layer, relative_error
from runs import Scale
from runs.figures import FAINT, axes_in, canvas, legend_above, line_look, scales
from studies.intervals import proportion_interval
from studies.line_figure import number_text, title_axes
from studies.rows import chosen, of_all, with_interval
from studies.study import Parameters, Row, Study
from studies.weightings_descent import descend
from studies.weightings_hull import (
    agreement_counts,
    best_equations,
    is_homogeneous,
    one_hot_sum,
    phase_one_bias,
    span_basis,
    span_error,
)
from studies.weightings_layers import (
    NormalisedPower,
    NormalisedSigmoid,
    Softmax,
    Sparsemax,
    WeightedLayer,
    Weighting,
)
from upper import Newton
from upper.floor import counting_floor
from upper.six_phase import estimate_projection_sum, refine_by_consistency

__all__ = ["STUDY"]

_WEIGHTINGS: Mapping[str, Weighting] = {
    "softmax": Softmax(),
    "sparsemax": Sparsemax(),
    "shifted power": NormalisedPower(power=4.0, shift=4.0),
    "positive square": NormalisedPower(power=2.0),
    "square": NormalisedPower(power=2.0, magnitude=True),
    "sigmoid": NormalisedSigmoid(),
}
_LINEAR = ("softmax", "sparsemax", "shifted power", "positive square")  # patterns with equations
_SPARSE = ("sparsemax", "positive square")  # one-hot patterns of positive probability
_SYMBOLS = {"shifted power": "(4+z)₊⁴", "positive square": "z₊²", "square": "z²"}
_TOLERANCES = (0.01, 0.02, 0.04, 0.08)  # in a weight of a pattern
_SIGMA = 2.0
_EQUATIONS = 6  # rows accepted, in units of d^2
_PASSES, _NEWTON_PASSES, _NEWTON_FLOORS = 600, 6000, 8
_TESTED = 2000  # fresh examples for measuring errors
_EXACT = 1e-4


def _cells(scale: Scale) -> Sequence[Parameters]:
    quick = scale is Scale.QUICK
    cells: list[Parameters] = []

    def add(part: str, names: Sequence[str], shape: Sequence[int], draws: int, **more: Any) -> None:
        sizes = dict(zip(("heads", "tokens", "dim"), shape, strict=True))
        cells.extend(
            {"part": part, "weighting": name, **sizes, "draw": draw, **more}
            for name in names
            for draw in range(draws)
        )

    every = tuple(_WEIGHTINGS)
    for shape in ((2, 2, 16), (2, 2, 32)) if quick else ((2, 2, 16), (2, 2, 32), (2, 2, 64), (2, 3, 32)):
        add("bias", every, shape, 1 if quick else 3, examples=40_000 if quick else 150_000)
    for shape in ((2, 3, 16),) if quick else ((2, 2, 32), (2, 3, 32), (3, 2, 32)):
        add("agreement", every, shape, 1 if quick else 3, examples=40_000 if quick else 150_000)
    for accept in (0.01, 0.003) if quick else (0.01, 0.003, 0.001):
        for shape in ((2, 2, 16),) if quick else ((2, 2, 16), (2, 3, 16)):
            add("hull", _LINEAR, shape, 1 if quick else 3, accept=accept)
    for floors in (4, 8):
        for shape in ((2, 3, 8),) if quick else ((2, 2, 16), (2, 3, 16)):
            add("descent", every, shape, 2 if quick else 8, floors=floors)
    for shape in ((2, 3, 8),) if quick else ((2, 2, 16), (2, 3, 16), (2, 3, 32)):
        add("newton", every, shape, 1 if quick else 4)
    return cells


def _measure(
    *,
    part: str,
    weighting: str,
    heads: int,
    tokens: int,
    dim: int,
    draw: int,
    rng: Generator,
    examples: int = 0,
    accept: float = 0.0,
    floors: int = 0,
) -> Mapping[str, Any]:
    """A part of the learning of one layer: phase 1's bias, agreement, the span of the heads, or a whole learner."""
    nice = make_nice_layer(heads=heads, dim=dim, sigma=_SIGMA, rng=rng)
    layer = WeightedLayer(theta=nice.theta, w=nice.w, weighting=_WEIGHTINGS[weighting])
    inputs = BooleanInputs(tokens, dim)
    if part == "bias":
        return {"bias": phase_one_bias(layer, inputs, examples=examples, rng=rng)}
    if part == "agreement":
        counts = agreement_counts(layer, inputs.sample(examples, rng=rng), np.array(_TOLERANCES))
        return {name: value.tolist() for name, value in counts.items()}
    if part == "hull":
        return _hull(layer, inputs, accept, weighting in _SPARSE, rng)
    floor = counting_floor(heads=heads, tokens=tokens, dim=dim)
    if part == "descent":
        x = inputs.sample(floors * floor, rng=rng)
        start = rng.standard_normal(layer.theta.shape) / dim
        end, passes = descend(x, layer(x), start, layer.weighting, passes=_PASSES)
        fresh = inputs.sample(_TESTED, rng=rng)
        return {"error": relative_error(end(fresh), layer(fresh)), "passes": passes}
    learner = Newton(
        heads=heads, examples=_NEWTON_FLOORS * floor, starts=3, work=_NEWTON_PASSES, engine="numpy"
    )
    fit = learner.fit(ExampleOracle(layer, inputs, rng=rng), rng=rng)
    fresh = inputs.sample(_TESTED, rng=rng)
    return {"error": relative_error(np.asarray(fit.predict(fresh)), layer(fresh))}


def _hull(
    layer: WeightedLayer, inputs: BooleanInputs, accept: float, sparse: bool, rng: Generator
) -> dict[str, float]:
    d, total = inputs.dim, layer.w.sum(axis=0)
    oracle = ExampleOracle(layer, inputs, rng=rng)
    crude = estimate_projection_sum(oracle, 1000 * d).w
    refined = refine_by_consistency(oracle, crude, examples=20_000).w
    one_hot = one_hot_sum(layer, inputs, crude, examples=20_000, rng=rng)
    contrasts = best_equations(
        layer,
        inputs,
        one_hot if sparse else refined,
        accept=accept,
        rows=int(_EQUATIONS * d * d / accept),
        rng=rng,
    )
    basis = span_basis(contrasts, layer.heads, homogeneous=is_homogeneous(layer.weighting))
    errors = (float(np.linalg.norm(w - total) / np.linalg.norm(total)) for w in (refined, one_hot))
    return {**dict(zip(("refined", "one_hot"), errors, strict=True)), "span": span_error(basis, layer.theta)}


def _largest(rows: Sequence[Row], part: str, **wanted: object) -> list[Row]:
    """The rows of a part at the largest numbers of tokens and dimensions, for two heads."""
    here = chosen(rows, part=part, heads=2, **wanted)
    shape = max(((row["tokens"], row["dim"]) for row in here), default=None)
    return [row for row in here if (row["tokens"], row["dim"]) == shape]


def _median(rows: Sequence[Row], name: str) -> float:
    return float(np.median([row[name] for row in rows]))


def _share(rows: Sequence[Row], count: Callable[[Row], int]) -> float:
    return float(sum(map(count, rows)) / sum(row["rows"] for row in rows))


def _slope(rows: Sequence[Row]) -> float | None:
    """The slope of ln(useful rows) over ln(tolerance), weighted by the counts."""
    counts = np.sum([row["useful"] for row in rows], axis=0)
    seen = counts > 0
    if seen.sum() < 2:
        return None
    x, y = np.log(np.array(_TOLERANCES)[seen]), np.log(counts[seen])
    return float(np.polyfit(x, y, 1, w=np.sqrt(counts[seen]))[0])


def _equations(rows: Sequence[Row]) -> float | None:
    """Equations of a row that agrees usefully up to the largest tolerance."""
    useful = sum(row["useful"][-1] for row in rows)
    return float(sum(row["equations"][-1] for row in rows) / useful) if useful else None


def _exact(rows: Sequence[Row]) -> list[bool]:
    return [row["error"] <= _EXACT for row in rows]


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for name in _WEIGHTINGS:
        key, own = name.replace(" ", "_"), [row for row in rows if row["weighting"] == name]
        if bias := _largest(own, "bias", tokens=2):
            named[f"bias_{key}"] = f"{_median(bias, 'bias'):.2g}"
        for m, k in ((2, 3), (3, 2)):
            agreement = chosen(own, part="agreement", heads=m, tokens=k)
            usual = chosen(rows, part="agreement", weighting="softmax", heads=m, tokens=k)
            if agreement and usual and name in ("softmax", *_SPARSE):
                named |= {f"{what}_{m}{k}_{key}": text for what, text in _agreement(agreement, usual).items()}
        for accept in (0.01, 0.001):
            if hull := chosen(own, part="hull", tokens=2, accept=accept):
                named[f"span_{accept * 1000:g}_{key}"] = f"{_median(hull, 'span'):.2g}"
        for floors in (4, 8):
            named[f"exact_{floors}_{key}"] = of_all(_exact(chosen(own, part="descent", floors=floors)))
        failed = [row for row in chosen(own, part="descent") if row["error"] > _EXACT]
        if failed:
            named[f"spent_{key}"] = of_all(row["passes"] >= _PASSES for row in failed)
        if newton := _largest(own, "newton"):
            named[f"newton_{key}"] = f"{_median(newton, 'error'):.2g}"
    return named


def _agreement(rows: Sequence[Row], usual: Sequence[Row]) -> dict[str, str]:
    """A sentence on agreement for the page; `usual` are the rows of softmax."""
    slope = _slope(rows)
    useful, of_softmax = (_share(some, lambda row: row["useful"][0]) for some in (rows, usual))
    return {
        "power": "-" if slope is None else f"{slope:.1f}",
        "equal": f"{_share(rows, lambda row: row['exact']):.2g}",
        "uniform": f"{_share(rows, lambda row: row['uniform']):.2g}",
        "equations": number_text(_equations(rows)),
        "often": f"{useful / of_softmax:.2g}" if of_softmax else "-",
    }


def _table(rows: Sequence[Row]) -> list[dict[str, str]]:
    hull = chosen(rows, part="hull", tokens=2)
    least = min((row["accept"] for row in hull), default=0.0)
    parts = {
        "bias": _largest(rows, "bias", tokens=2),
        "agreement": _largest(rows, "agreement"),
        "hull": [row for row in hull if row["accept"] == least],
        "descent": _largest(rows, "descent", floors=8),
        "newton": _largest(rows, "newton"),
    }
    at = {part: "({heads},{tokens},{dim})".format(**some[0]) if some else "" for part, some in parts.items()}
    columns: dict[str, tuple[str, Callable[[list[Row]], str]]] = {
        f"bias {at['bias']}": ("bias", lambda some: f"{_median(some, 'bias'):.3f}"),
        f"equal rows {at['agreement']}": (
            "agreement",
            lambda some: number_text(_share(some, lambda row: row["exact"])),
        ),
        "useful to .01": ("agreement", lambda some: f"{_share(some, lambda row: row['useful'][0]):.1e}"),
        "useful to .08": ("agreement", lambda some: f"{_share(some, lambda row: row['useful'][-1]):.1e}"),
        "power": ("agreement", lambda some: number_text(_slope(some))),
        "equations a row": (
            "agreement",
            lambda some: number_text(_equations(some)) if some[0]["weighting"] in _LINEAR else "-",
        ),
        f"sum W {at['hull']}": (
            "hull",
            lambda some: f"{min(_median(some, 'refined'), _median(some, 'one_hot')):.1e}",
        ),
        f"span, best {100 * least:g} % of rows": ("hull", lambda some: f"{_median(some, 'span'):.1e}"),
        f"exact, 8 floors {at['descent']}": ("descent", lambda some: with_interval(_exact(some))),
        f"softmax Newton {at['newton']}": ("newton", lambda some: f"{_median(some, 'error'):.1e}"),
    }
    return [
        {"weighting": _SYMBOLS.get(name, name)}
        | {
            title: told(some) if (some := [row for row in parts[part] if row["weighting"] == name]) else "-"
            for title, (part, told) in columns.items()
        }
        for name in _WEIGHTINGS
    ]


def _figure(rows: Sequence[Row]) -> Any:
    """Phase 1's bias, the error of the span, and the number of exact runs of descent."""
    with canvas(9.0, 3.5) as figure:
        bias, span, success = (axes_in(figure, (left, 0.15, 0.24, 0.63)) for left in (0.055, 0.385, 0.735))
        # a bias within its noise cannot be drawn on a logarithmic axis
        _draw_medians(bias, chosen(rows, part="bias", heads=2, tokens=2), "dim", "bias", least=1e-3)
        _draw_medians(span, chosen(rows, part="hull", tokens=2), "accept", "span", least=0.0)
        _draw_descents(success, _largest(rows, "descent"))
        for axes, below, above in (
            (bias, "d", "bias of phase 1, m = k = 2"),
            (span, "share of rows accepted", "error of the span, m = k = 2"),
            (success, "share of exact descents", "by examples in floors, k = 3"),
        ):
            title_axes(axes, below, above)
        legend_above(figure, columns=6)
        return figure


def _draw_medians(axes: Any, rows: Sequence[Row], key: str, name: str, *, least: float) -> None:
    shown = []
    for place, weighting in enumerate(_WEIGHTINGS):
        own = [row for row in rows if row["weighting"] == weighting]
        at = sorted({row[key] for row in own})
        medians = [max(_median([row for row in own if row[key] == one], name), least) for one in at]
        axes.plot(at, medians, label=_SYMBOLS.get(weighting, weighting), **line_look(place))
        shown += medians
    if shown:
        scales(axes, sorted({row[key] for row in rows}), shown)


def _draw_descents(axes: Any, rows: Sequence[Row]) -> None:
    for place, name in enumerate(_WEIGHTINGS):
        for shift, floors in ((-0.15, 4), (0.15, 8)):
            own = chosen(rows, part="descent", weighting=name, floors=floors)
            if own:
                interval = proportion_interval(sum(_exact(own)), len(own), confidence=0.95)
                look = line_look(place)
                axes.hlines(place + shift, interval.low, interval.high, color=look["color"], linewidth=1.0)
                axes.plot([interval.estimate], [place + shift], **{**look, "linestyle": "none"})
                axes.text(1.08, place + shift, str(floors), fontsize=7, va="center", color=FAINT)
    axes.set_xlim(-0.05, 1.05)
    axes.set_ylim(len(_WEIGHTINGS) - 0.5, -0.5)
    axes.set_yticks(range(len(_WEIGHTINGS)), [_SYMBOLS.get(name, name) for name in _WEIGHTINGS])


STUDY = Study(
    name="weightings",
    title="Other weightings than exp",
    question="What does the learning of attention layers need of exp: what stands when patterns are made of the logits "
    "by sparsemax, by powers or by sigmoids?",
    cells=_cells,
    measure=_measure,
    numbers=_numbers,
    table=_table,
    figure=_figure,
    stream=("part", "heads", "tokens", "dim", "draw", "floors"),
)
