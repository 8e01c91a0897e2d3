"""Tokens k against dimensions d: the reliability of certificates of agreement as k approaches d."""

import math
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.random import Generator

from attention import AttentionLayer, BooleanInputs, ExampleOracle, GroundTruth, make_nice_layer
from runs import Scale
from runs.figures import axes_in, canvas, dimension_axis, legend_above, line_look
from studies.intervals import mean_interval
from studies.line_figure import decade_axis, title_axes
from studies.rows import chosen, grouped, of_all
from studies.study import Parameters, Row, Study
from studies.tokens_certificates import draw_rows, judge_certificates, residual_law
from upper import Newton
from upper.six_phase import SixPhase, estimate_projection_sum

__all__ = ["STUDY"]

_FITS = {
    "before_newton": "six phases before Newton",
    "error": "six phases",
    "newton_error": "Newton alone",
}
_SIGMA = 2.0
_PLANTED = 0.1  # logits: the disagreement of the heads in a planted agreement
_PASSES = 3000
_EXACT = 1e-9
_LEAST = 1e-5  # a false rate of zero is drawn here


def _cells(scale: Scale) -> Sequence[Parameters]:
    quick = scale is Scale.QUICK
    certificates = [
        {
            "part": "certificates",
            "dim": dim,
            "tokens": tokens,
            "draw": draw,
            "rows": 12_000 if quick else 40_000,
        }
        for dim in ((16, 24) if quick else (16, 24, 32, 48))
        for tokens in (
            (2, 3, 4, 8, dim - 2, dim - 1, dim)
            if quick
            else sorted({2, 3, 4, 6, 8, 12, dim // 2, 3 * dim // 4, dim - 4, dim - 2, dim - 1, dim})
        )
        for draw in range(2 if quick else 4)
    ]
    wanted = (
        {16: (2, 4, 8, 16)} if quick else {16: (2, 3, 4, 6, 8, 12, 15, 16, 17), 24: (2, 4, 6, 8, 16, 23, 24)}
    )
    return certificates + [
        {"part": "ends", "dim": dim, "tokens": tokens, "draw": draw}
        for dim, several in wanted.items()
        for tokens in several
        for draw in range(1 if quick else (3 if dim == 16 else 2))
    ]


def _measure(
    *, part: str, dim: int, tokens: int, draw: int, rng: Generator, rows: int = 0
) -> Mapping[str, Any]:
    """The quality of certificates of rows, or the final errors of the six phases and Newton."""
    layer = make_nice_layer(heads=2, dim=dim, sigma=_SIGMA, rng=rng)
    inputs = BooleanInputs(tokens, dim)
    if part == "ends":
        return _ends(layer, inputs, rng)
    if tokens >= dim:
        return {"refused": SixPhase(heads=2).fit(ExampleOracle(layer, inputs, rng=rng), rng=rng).outcome.name}
    x = inputs.sample(-(-rows // tokens), rng=rng)
    drawn = draw_rows(layer, x, planted_gap=_PLANTED, rng=rng)
    # the number of rows in the learner's 1000 d examples at k = 2
    crude = estimate_projection_sum(ExampleOracle(layer, inputs, rng=rng), 2000 * dim // tokens)
    return {
        "refused": None,
        **residual_law(drawn),
        "exact": judge_certificates(drawn, layer.w.sum(axis=0)),
        "crude": judge_certificates(drawn, crude.w),
    }


def _ends(layer: AttentionLayer, inputs: BooleanInputs, rng: Generator) -> Mapping[str, Any]:
    truth = GroundTruth.draw(layer, inputs, rng=rng)
    examples, learner = (int(one) for one in rng.integers(2**63, size=2))
    phases, newton = (
        one.fit(ExampleOracle(layer, inputs, rng=examples), rng=learner, truth=truth)
        for one in (SixPhase(heads=2, work=_PASSES), Newton(heads=2, work=_PASSES))
    )
    starts = (step.measures for step in phases.trace if step.phase == 6 and "starts" in step.measures)
    before = next(starts, None)
    return {
        "outcome": phases.outcome.name,
        "error": truth.measure(layer=phases.layer)["relative_error"],
        "before_newton": None if before is None else float(before["relative_error"]),
        "examples": phases.examples_used,
        "newton_error": truth.measure(layer=newton.layer)["relative_error"],
        "newton_examples": newton.examples_used,
    }


def _points(rows: Sequence[Row], part: str) -> dict[tuple[int, int], list[Row]]:
    """The rows of a part by d and k, without refused certificates."""
    return dict(sorted(grouped(chosen(rows, part=part, refused=None), "dim", "tokens").items()))


def _values(
    points: Mapping[tuple[int, int], Sequence[Row]],
    of: Callable[[Row], float | None],
    center: Callable[[Sequence[float]], Any] = np.mean,
) -> dict[tuple[int, int], float]:
    """The mean, or median, of each point that has values."""
    every = {
        point: [value for row in group if (value := of(row)) is not None] for point, group in points.items()
    }
    return {point: float(center(values)) for point, values in every.items() if values}


def _judgement(which: str, name: str) -> Callable[[Row], float | None]:
    return lambda row: row[which][name]


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    certificates, ends = _points(rows, "certificates"), _points(rows, "ends")
    if not certificates:
        return {}
    agreeing = _values(certificates, _judgement("exact", "agreeing"))
    rates = _values(certificates, _judgement("crude", "false_rate"))
    dims = [min(certificates)[0], max(certificates)[0]]
    named: dict[str, Any] = {"low": dims[0], "high": dims[1]}
    for k in (2, 3, 4):
        named[f"agree_{k}"] = (
            f"{100 * np.mean([share for (_, one), share in agreeing.items() if one == k]):.2g} %"
        )
        for which in ("exact", "crude"):
            false = _values(certificates, _judgement(which, "accepted_false"))
            shares = [100 * share for (_, one), share in false.items() if one == k]
            low, high = f"{min(shares, default=math.nan):.0f}", f"{max(shares, default=math.nan):.0f}"
            named[f"{which}_false_{k}"] = f"{low} %" if low == high else f"{low} to {high} %"
    for name, dim in zip(("low", "high"), dims, strict=True):
        named[f"{name}_near"] = f"{rates.get((dim, dim - 1), math.nan):.2g}"
        named[f"{name}_least"] = f"{min(rate for (d, _), rate in rates.items() if d == dim):.2g}"
    exact_rates = _values(certificates, _judgement("exact", "false_rate"))
    usable = _values(certificates, _judgement("exact", "usable"))
    law = {
        (d, k): left / (1 - (k - 1) / d) for (d, k), left in _values(certificates, itemgetter("left")).items()
    }
    exact = {k for (_, k), group in ends.items() if all(row["error"] < _EXACT for row in group)}
    before = _values(ends, itemgetter("before_newton"), np.median)
    every = [row for group in ends.values() for row in group]
    return named | {
        "exact_rate": f"{max(exact_rates.values()):.2g}",
        "unusable": min((k for (_, k), share in usable.items() if not share), default=None),
        "exact_to": max(exact, default=None),
        "before_least": f"{min(before.values(), default=math.nan):.2g}",
        "before_most": f"{max(before.values(), default=math.nan):.2g}",
        "newton": of_all(row["newton_error"] < _EXACT for row in every),
        "law": f"{100 * max(abs(one - 1) for one in law.values()):.2g} %",
    }


def _table(rows: Sequence[Row]) -> list[dict[str, str]]:
    certificates, ends = _points(rows, "certificates"), _points(rows, "ends")
    shown = {(d, k) for d, k in certificates if k in (2, 4, 8, d // 2, d - 1)} | set(ends)
    return [
        {"d": str(d), "k": str(k), **_judged(certificates.get((d, k), [])), **_ended(ends.get((d, k), []))}
        for d, k in sorted(shown)
    ]


def _judged(group: Sequence[Row]) -> dict[str, str]:
    def mean(name: str) -> str:
        values = [row["exact"][name] for row in group if row["exact"][name] is not None]
        return f"{np.mean(values):.2g}" if values else "-"

    def rate(which: str) -> str:
        values = [row[which]["false_rate"] for row in group if row[which]["false_rate"] is not None]
        if len(values) < 2:
            return "-"
        interval = mean_interval(values, confidence=0.95)
        return f"{interval.estimate:.2g} ± {interval.high - interval.estimate:.1g}"

    return {
        "rows that agree": mean("agreeing"),
        "usable": mean("usable"),
        "accepted that are false": mean("accepted_false"),
        "false rate, exact sum": rate("exact"),
        "false rate, phase 1's sum": rate("crude"),
    }


def _ended(group: Sequence[Row]) -> dict[str, str]:
    refused = bool(group) and all(row["outcome"] == "NOT_APPLICABLE" for row in group)
    cells = {}
    for name, title in _FITS.items():
        values = [row[name] for row in group if row[name] is not None]
        cells[title] = f"{np.median(values):.1e}" if values else "-"
        if refused and name != "newton_error":
            cells[title] = "refused"
    return cells


def _figure(rows: Sequence[Row]) -> Any:
    points = _points(rows, "certificates")
    ends = {
        point: [row for row in group if row["outcome"] != "NOT_APPLICABLE"]
        for point, group in _points(rows, "ends").items()
    }
    sums = {"exact": "exact sum", "crude": "phase 1's sum"}
    dims = sorted({d for d, _ in points})
    with canvas(9.0, 3.5) as figure:
        false, rate, end = (axes_in(figure, (left, 0.15, 0.255, 0.61)) for left in (0.055, 0.39, 0.73))
        for which, style in zip(sums, ("--", "-"), strict=True):
            accepted = _values(points, _judgement(which, "accepted_false"))
            rates = _values(points, _judgement(which, "false_rate"))
            for place, dim in ((0, dims[0]), (1, dims[-1])):
                look = {**line_look(place), "linestyle": style, "label": f"d = {dim}, {sums[which]}"}
                line = [(k, share) for (d, k), share in accepted.items() if d == dim]
                false.plot(*zip(*line, strict=True), **look)
                shape = [(k / d, max(share, _LEAST)) for (d, k), share in rates.items() if d == dim]
                rate.plot(*zip(*shape, strict=True), **look)
        for place, (name, label) in enumerate(_FITS.items(), 2):
            errors = _values(ends, itemgetter(name), np.median)
            line = [(k, error) for (d, k), error in errors.items() if d == dims[0]]
            if line:
                end.plot(*zip(*line, strict=True), **line_look(place), label=label)
        dimension_axis(false, [2, 3, 4, 6, 8])
        false.set_ylim(-0.04, 1.04)
        decade_axis(rate.yaxis, [_LEAST, 1.0])
        decade_axis(end.yaxis, [1e-15, 1.0])
        dimension_axis(end, [2, 4, 8, 16])
        for axes, below, above in (
            (false, "tokens k", "accepted rows that are false"),
            (rate, "k / d", "false rate, 9 of 10 agreements pass"),
            (end, "tokens k", f"relative error at the end, d = {dims[0]}"),
        ):
            title_axes(axes, below, above)
        legend_above(figure, columns=4)
        return figure


STUDY = Study(
    name="tokens",
    title="Tokens against dimensions",
    question="How near to d may the number k of tokens come before certificates of agreement are false, and what "
    "does that do to the learner?",
    cells=_cells,
    measure=_measure,
    numbers=_numbers,
    table=_table,
    figure=_figure,
)
