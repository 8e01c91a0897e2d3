"""Value queries against the dimension.

How does the number of value queries grow with d, on nice layers and on layers that hide a secret, beside examples
and lower bounds?
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from attention import BooleanInputs, ExampleOracle, GroundTruth, Inputs, ValueOracle, make_nice_layer
from attention.evaluation import Predictor
from lower import FAMILIES, Key
from lwe import LWRFamily
from runs import Scale
from sq import SQFamily
from studies.line_figure import Panel, line_figure
from studies.rows import chosen, curve, grouped, median, of_all
from studies.study import Parameters, Row, Table
from upper import ByQueries, Newton, counting_floor

_HEADS = 4  # of nice layers
_FOUND = 1e-8  # errors on what is not known in advance
_FRESH = 500  # inputs on which errors are measured
_TOLERANCE = 0.1  # of the statistical queries that are counted beside value queries

# the hard families with a lower bound for statistical queries, and their parameters beside d
_SQ: Mapping[str, partial[SQFamily]] = {
    "parity of 3 bits": partial(FAMILIES["sq-parity"].preset, bits=3),
    "parity of 7 bits": partial(FAMILIES["sq-parity"].preset, bits=7),
    "hidden gate": partial(FAMILIES["sq-hidden-gate"].preset, bits=3),
    "pair": partial(FAMILIES["sq-pair"].preset),
    "bump": partial(FAMILIES["sq-bump"].preset, bits=8),
    "two slopes": partial(FAMILIES["sq-two-slope"].preset, bits=8),
    "designed steps": partial(FAMILIES["sq-designed-steps"].preset, bits=6, heads_count=4),
    "centre thresholds": partial(FAMILIES["sq-centre-threshold"].preset, bits=16, heads_count=4),
    "parity of each token": partial(FAMILIES["sq-token-parity"].preset, bits=2, tokens=3),
}
# nice layers by what is counted: value queries of two tokens or of any number of them, or Newton's examples of two
_NICE = {
    "two tokens": "By queries of two tokens",
    "any tokens": "By queries of any number of tokens",
    "examples": "Newton, examples of two tokens",
}
# the lower bounds that are shown; those of other families are small at these d
_BOUNDS = {"two tokens": "Lower bound, queries of two tokens"} | {
    name: f"Statistical queries, at least: {name}"
    for name in ("parity of 3 bits", "parity of 7 bits", "hidden gate")
}
_ROUNDING, _MODULUS, _LEVELS = "rounding", 64, 2


def cells(scale: Scale) -> list[Parameters]:
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
        if name == _ROUNDING or dim > _SQ[name].keywords.get("bits", 1) + 1
    ]


def measure(*, rng: np.random.Generator, part: str, name: str, dim: int, draw: int) -> Mapping[str, Any]:
    for_target, for_oracle, for_learner, for_tests = rng.spawn(4)
    inputs: Inputs = BooleanInputs(tokens=2, dim=dim)
    known: Predictor | None = None
    if part == "nice":
        layer = make_nice_layer(heads=_HEADS, dim=dim, rng=for_target)
        bound: int | None = counting_floor(heads=_HEADS, tokens=2, dim=dim)
    else:
        family: SQFamily | LWRFamily = (
            LWRFamily(n=dim - 1, q=_MODULUS, p=_LEVELS) if name == _ROUNDING else _SQ[name](dim=dim)
        )
        instance = family.instance(rng=for_target)
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


_Curve = Sequence[tuple[int, float]]  # dimensions, each with a value


def _found(row: Row) -> bool:
    """Whether the function is found; on hard families parameters need not be determined."""
    return row["error"] is not None and row["error"] < _FOUND


def _curve(rows: Sequence[Row], value: str = "count", **wanted: Any) -> _Curve:
    """The medians by dimension, over the draws in which the function was found."""
    return curve(filter(_found, chosen(rows, **wanted)), "dim", value)


def _slope(points: _Curve) -> str:
    """The slope in log-log scale, from the largest dimension down to the first of at most half of it."""
    lower = [point for point in points if 2 * point[0] <= points[-1][0]]
    if not lower:
        return "-"
    (dim, value), (last, most) = lower[-1], points[-1]
    return f"{math.log(most / value) / math.log(last / dim):.2f}"


def numbers(rows: Sequence[Row]) -> dict[str, Any]:
    nice, hard = chosen(rows, part="nice"), chosen(rows, part="hard")
    numbers: dict[str, Any] = {
        "nice": of_all(_found(row) for row in nice if row["name"] != "examples"),
        "newton": of_all(map(_found, chosen(nice, name="examples"))),
        "hard": of_all(map(_found, hard)),
        "slope_two_tokens": _slope(_curve(nice, name="two tokens")),
        "slope_any_tokens": _slope(_curve(nice, name="any tokens")),
    }
    for short, name in (
        ("pairs", "two tokens"),
        ("three", "parity of 3 bits"),
        ("seven", "parity of 7 bits"),
    ):
        for dim, asked in _curve(rows, name=name)[-1:]:
            needed = median(chosen(rows, name=name, dim=dim), "bound") or math.nan
            numbers |= {f"{short}_dim": dim, f"{short}_floors": f"{asked / needed:.2f}"}
            numbers |= {f"{short}_asked": f"{asked:,.0f}", f"{short}_needed": f"{needed:,.0f}"}
    return numbers


def tables(rows: Sequence[Row]) -> dict[str, Table]:
    dims, lines = sorted({row["dim"] for row in rows}), []
    for (name,), those in grouped(rows, "name").items():
        titles = {"count": _NICE.get(name, f"By queries: {name}")}
        titles |= {"bound": _BOUNDS[name]} if name in _BOUNDS else {}
        for value, title in titles.items():
            points = _curve(those, value)
            medians = {dim: f"{count:,.0f}" for dim, count in points}
            lines.append(
                {"count": title, **{f"d = {dim}": medians.get(dim, "") for dim in dims}}
                | {"slope": _slope(points), "found": of_all(map(_found, those)) if value == "count" else ""}
            )
    return {"counts": lines}


def figure(rows: Sequence[Row]) -> Any:
    panels = []
    titles = {
        "nice": f"queries or examples, nice layers of {_HEADS} heads",
        "hard": "value queries, hidden secrets",
    }
    for part, title in titles.items():
        own = chosen(rows, part=part)
        curves = {_NICE.get(name, name): _curve(those) for (name,), those in grouped(own, "name").items()}
        bounds = {bound: _curve(own, "bound", name=name) for name, bound in _BOUNDS.items()}
        panels.append(Panel("d", title, curves, log_x=True, bounds=bounds))
    return line_figure(panels)
