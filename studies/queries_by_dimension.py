"""Value queries against the dimension: on nice layers and on hard families, beside examples and lower bounds."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attention import BooleanInputs, ExampleOracle, GroundTruth, Inputs, ValueOracle, make_nice_layer
from attention.evaluation import Predictor
from lower import FAMILIES, HardInstance, Key
from lwe import LWRFamily
from runs import Scale
from runs.figures import FAINT, axes_in, canvas, dimension_axis, legend_above, line_look
from sq import SQFamily
from studies.line_figure import decade_axis, title_axes
from studies.rows import chosen, curve, grouped, of_all
from studies.study import Parameters, Row, Study, Table
from upper import ByQueries, Newton, counting_floor

_HEADS = 4  # of nice layers
_FOUND = 1e-8  # errors on what is not known in advance
_FRESH = 500  # inputs on which errors are measured
_TOLERANCE = 0.1  # of the statistical queries that are counted beside value queries
_BOUND = {"color": FAINT, "linewidth": 1.1, "zorder": 3, "linestyle": (0, (4, 2))}
# the looks of the two learners: their places in the list of a comparison, as in its figures
_NEWTON, _QUERIES = line_look(0), line_look(9)

# the hard families with a lower bound for statistical queries, and their parameters beside d
_SQ: Mapping[str, Mapping[str, Any]] = {
    "parity of 3 bits": {"family": "sq-parity", "bits": 3},
    "parity of 7 bits": {"family": "sq-parity", "bits": 7},
    "hidden gate": {"family": "sq-hidden-gate", "bits": 3},
    "pair": {"family": "sq-pair"},
    "bump": {"family": "sq-bump", "bits": 8},
    "two slopes": {"family": "sq-two-slope", "bits": 8},
    "designed steps": {"family": "sq-designed-steps", "bits": 6, "heads_count": 4},
    "centre thresholds": {"family": "sq-centre-threshold", "bits": 16, "heads_count": 4},
    "parity of each token": {"family": "sq-token-parity", "bits": 2, "tokens": 3},
}
# the families whose lower bounds are shown; the others' are small at these d
_BOUNDED = ("parity of 3 bits", "parity of 7 bits", "hidden gate")
_COLUMNS = 5  # of small panels
# nice layers by what is counted: value queries of two tokens or of any number of them, or Newton's examples of two
_NICE = {
    "two tokens": "By queries of two tokens",
    "any tokens": "By queries of any number of tokens",
    "examples": "Newton, examples of two tokens",
}
_ROUNDING, _MODULUS, _LEVELS = "rounding", 64, 2


def _cells(scale: Scale) -> list[Parameters]:
    quick = scale is Scale.QUICK
    dims = (8, 16) if quick else (8, 16, 32, 64, 128, 256)
    cells: list[Parameters] = [
        {"part": "nice", "name": name, "dim": dim, "draw": draw}
        for name in _NICE
        for dim in (dims if name != "examples" else dims[:1] if quick else dims[:3])
        for draw in range(1 if quick or dim > 128 else 3)
    ]
    return cells + [
        {"part": "hard", "name": name, "dim": dim, "draw": 0}
        for name in (("parity of 3 bits", _ROUNDING) if quick else (*_SQ, _ROUNDING))
        for dim in ((12,) if quick else (12, 24, 48))
        if name == _ROUNDING or dim > _SQ[name].get("bits", 1) + 1
    ]


def _measure(*, rng: np.random.Generator, part: str, name: str, dim: int, draw: int) -> Mapping[str, Any]:
    for_target, for_oracle, for_learner, for_tests = rng.spawn(4)
    inputs: Inputs = BooleanInputs(tokens=2, dim=dim)
    known: Predictor | None = None
    if part == "nice":
        layer = make_nice_layer(heads=_HEADS, dim=dim, rng=for_target)
        bound: int | None = counting_floor(heads=_HEADS, tokens=2, dim=dim)
    else:
        instance = _instance(name, dim, for_target)
        layer, inputs, known = instance.layer, instance.inputs, instance.known
        # the proved number of correlational queries of tolerance .1 that the family needs
        needed = instance.certificate.get(Key.QUERIES, _TOLERANCE)
        bound = needed if isinstance(needed, int) else None
    truth = GroundTruth.draw(layer, inputs, _FRESH, known=known, rng=for_tests)
    if name == "examples":
        fit = Newton(heads=_HEADS).fit(ExampleOracle(layer, inputs, rng=for_oracle), rng=for_learner)
    else:
        oracle = ValueOracle(layer, tokens=None if name == "any tokens" else inputs.tokens)
        fit = ByQueries().fit(oracle, rng=for_learner)
    error = truth.measure(predict=fit.predict)["unknown_part_error"]
    return {
        "count": fit.examples_used,
        "outcome": fit.outcome.name,
        "error": error if math.isfinite(error) else None,
        "bound": bound,
    }


def _instance(name: str, dim: int, rng: np.random.Generator) -> HardInstance:
    if name in _SQ:
        parameters = dict(_SQ[name])
        family = FAMILIES[parameters.pop("family")].preset(dim=dim, **parameters)
        assert isinstance(family, SQFamily)
        return family.instance(rng=rng)
    return LWRFamily(n=dim - 1, q=_MODULUS, p=_LEVELS).instance(rng=rng)


_Curve = tuple[list[int], list[float]]  # dimensions and values


def _found(row: Row) -> bool:
    """Whether the function is found; on hard families parameters need not be determined."""
    return row["error"] is not None and row["error"] < _FOUND


def _curve(rows: Sequence[Row], value: str = "count", **wanted: Any) -> _Curve:
    """The median of a value by dimension, over the draws in which the function was found."""
    medians = curve([row for row in chosen(rows, **wanted) if _found(row)], "dim", value)
    return [dim for dim, _ in medians], [count for _, count in medians]


def _slope(curve: _Curve) -> float | None:
    """The slope in log-log scale, from the largest dimension down to the first of at most half of it."""
    dims, values = curve
    lower = [place for place, dim in enumerate(dims) if 2 * dim <= dims[-1]]
    if not lower:
        return None
    return math.log(values[-1] / values[lower[-1]]) / math.log(dims[-1] / dims[lower[-1]])


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    nice, hard = chosen(rows, part="nice"), chosen(rows, part="hard")
    dims, counts = _curve(nice, name="two tokens")
    named: dict[str, Any] = {
        "nice": of_all(_found(row) for row in nice if row["name"] != "examples"),
        "newton": of_all(_found(row) for row in nice if row["name"] == "examples"),
        "hard": of_all(map(_found, hard)),
        **{f"slope_{name.replace(' ', '_')}": _text(_slope(_curve(nice, name=name))) for name in _NICE},
    }
    if dims:
        floor = _curve(nice, "bound", name="two tokens")[1][-1]
        named |= {"dim_two_tokens": dims[-1], "floors_two_tokens": f"{counts[-1] / floor:.2f}"}
    for bits in (3, 7):
        asked, needed = (_curve(hard, value, name=f"parity of {bits} bits") for value in ("count", "bound"))
        if asked[0]:
            named[f"parity_{bits}_dim"] = asked[0][-1]
            named |= {
                f"parity_{bits}_asked": f"{asked[1][-1]:,.0f}",
                f"parity_{bits}_needed": f"{needed[1][-1]:,.0f}",
            }
    return named


def _text(slope: float | None) -> str:
    return "-" if slope is None else f"{slope:.2f}"


def _tables(rows: Sequence[Row]) -> dict[str, Table]:
    dims, lines = sorted({row["dim"] for row in rows}), []
    for (part, name), those in grouped(rows, "part", "name").items():
        counts = {_NICE.get(name, f"By queries: {name}"): "count"}
        if name in (*_BOUNDED, "two tokens"):
            bounded = "Statistical queries, at least: {}" if part == "hard" else "Lower bound, queries of {}"
            counts[bounded.format(name)] = "bound"
        for title, value in counts.items():
            medians = dict(zip(*_curve(those, value), strict=True))
            lines.append(
                {"count": title}
                | {f"d = {dim}": f"{medians[dim]:,.0f}" if dim in medians else "" for dim in dims}
                | {"slope": _text(_slope(_curve(those, value)))}
                | {"found": of_all(map(_found, those)) if value == "count" else ""}
            )
    return {"counts": lines}


def _figure(rows: Sequence[Row]) -> Any:
    """Left nice layers; right a panel for each hard family, with the others in grey."""
    nice, hard = chosen(rows, part="nice"), chosen(rows, part="hard")
    left = {
        _NICE["examples"]: (_curve(nice, name="examples"), _NEWTON),
        _NICE["two tokens"]: (_curve(nice, name="two tokens"), _QUERIES),
        _NICE["any tokens"]: (_curve(nice, name="any tokens"), _QUERIES | {"marker": "o", "linestyle": ":"}),
        "Lower bound, queries of two tokens": (_curve(nice, "bound", name="two tokens"), _BOUND),
    }
    asked = {name: _curve(hard, name=name) for name in (*_SQ, _ROUNDING)}
    asked = {name: counts for name, counts in asked.items() if counts[0]}
    needed = {name: _curve(hard, "bound", name=name) for name in _BOUNDED if name in asked}
    with canvas(10.8, 4.9) as figure:
        axes = axes_in(figure, (0.05, 0.1, 0.29, 0.66))
        for label, (counts, look) in left.items():
            axes.plot(*counts, label=label, clip_on=False, **look)
        _scale(axes, [counts for counts, _ in left.values()])
        title_axes(axes, "dimension d", f"Nice layers, {_HEADS} heads: queries or examples")
        for place, name in enumerate(asked):
            row, column = divmod(place, _COLUMNS)
            axes = axes_in(figure, (0.395 + 0.122 * column, 0.46 - 0.36 * row, 0.105, 0.24))
            for counts in asked.values():
                axes.plot(*counts, color=FAINT, alpha=0.3, linewidth=0.8, zorder=2)
            axes.plot(*asked[name], clip_on=False, **_QUERIES)
            if name in needed:
                label = "Statistical queries of tolerance 0.1, at least"
                axes.plot(*needed[name], clip_on=False, label=label, **_BOUND | {"linestyle": (0, (1, 1.5))})
            _scale(axes, [*asked.values(), *needed.values()])
            axes.tick_params(labelleft=column == 0, labelsize=8)
            title_axes(axes, "dimension d" if place + _COLUMNS >= len(asked) else "", "")
            axes.set_title(name, loc="left", fontsize=8)
        title = "Layers that hide a secret: queries, a panel for each family; the others are grey"
        figure.text(0.395, 0.8, title)
        legend_above(figure, columns=3)
        return figure


def _scale(axes: Any, curves: Sequence[_Curve]) -> None:
    """Logarithmic axes that hold all curves."""
    decade_axis(axes.yaxis, [value for _, counts in curves for value in counts] or [1.0])
    dimension_axis(axes, [dim for dims, _ in curves for dim in dims] or [1])


STUDY = Study(
    name="queries-by-dimension",
    title="Value queries against the dimension",
    question="How does the number of value queries grow with d, on nice layers and on layers that hide a secret, "
    "beside examples and lower bounds?",
    cells=_cells,
    measure=_measure,
    numbers=_numbers,
    tables=_tables,
    figure=_figure,
)
