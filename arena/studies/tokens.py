"""Study: tokens k against dimensions d: what certificates of agreement are worth as k nears d."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from arena._canvas import canvas
from arena.paper_figure import PaperFigure, dimension_axis, legend_above, line_look, paper_figure
from arena.phase_axes import axes_in, decade_limits, decade_ticks, name_axes
from arena.studies._tokens_certificates import draw_rows, judge_certificates, residual_law
from arena.studies.study import Parameters, Row, Study, Table
from attention import BooleanInputs, ExampleOracle, GroundTruth, make_nice_layer
from paper_checks import Scale, mean_interval
from upper import Newton
from upper.six_phase import SixPhase, estimate_projection_sum

__all__ = ["STUDY"]

_SIGMA = 2.0
_ALLOWED = 1.0  # logits: a certified row whose heads disagree by more is false
_PLANTED = 0.1  # logits: how far the heads of a planted agreement disagree
_SUMS = {"exact": "exact sum", "crude": "phase 1's sum"}
_STYLES: Mapping[str, Any] = {"exact": (0, (1.5, 1.5)), "crude": "-"}
_LEAST = 1e-5  # shown in place of no false certificate, which a logarithm cannot show
_EXACT = 1e-9  # an end with a smaller relative error is exact
_PASSES = 3000


def _cells(scale: Scale) -> list[Parameters]:
    quick = scale is Scale.QUICK
    certificates: list[Parameters] = [
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
    ends: list[Parameters] = [
        {"part": "ends", "dim": dim, "tokens": tokens, "draw": draw}
        for dim, several in wanted.items()
        for tokens in several
        for draw in range(1 if quick else (3 if dim == 16 else 2))
    ]
    return certificates + ends


def _measure(
    *, rng: np.random.Generator, part: str, dim: int, tokens: int, draw: int, rows: int = 0
) -> Mapping[str, Any]:
    layer = make_nice_layer(heads=2, dim=dim, sigma=_SIGMA, rng=rng)
    inputs = BooleanInputs(tokens, dim)
    if part == "ends":
        return _ends(layer, inputs, rng)
    if tokens >= dim:
        return {"refused": SixPhase(m=2).fit(ExampleOracle(layer, inputs, rng=rng), rng=rng).outcome.name}
    x = inputs.sample(-(-rows // tokens), rng=rng)
    drawn = draw_rows(layer, x, planted_gap=_PLANTED, rng=rng)
    # as many rows as the learner's 1000 d examples have at k = 2
    crude = estimate_projection_sum(ExampleOracle(layer, inputs, rng=rng), 2000 * dim // tokens)
    return {
        "refused": None,
        "sum_error": crude.error(layer),
        **residual_law(drawn),
        "exact": judge_certificates(drawn, layer.w.sum(axis=0), allowed=_ALLOWED),
        "crude": judge_certificates(drawn, crude.w, allowed=_ALLOWED),
    }


def _ends(layer: Any, inputs: BooleanInputs, rng: np.random.Generator) -> Mapping[str, Any]:
    truth = GroundTruth.draw(layer, inputs, rng=rng)
    examples, learner = (int(one) for one in rng.integers(2**63, size=2))
    phases = SixPhase(m=2, work=_PASSES).fit(
        ExampleOracle(layer, inputs, rng=examples), rng=learner, truth=truth
    )
    newton = Newton(m=2, work=_PASSES).fit(
        ExampleOracle(layer, inputs, rng=examples), rng=learner, truth=truth
    )

    def told(beginning: str, name: str) -> float | None:
        steps = [step for step in phases.trace if step.name.startswith(beginning) and name in step.measures]
        return float(steps[-1].measures[name]) if steps else None

    return {
        "outcome": phases.outcome.name,
        "error": truth.measure(layer=phases.layer)["relative_error"],
        "sum_error": told("Phase 3", "sum_error"),
        "log_ratio_error": told("Phase 4", "agreement_error"),
        "span_error": told("Phase 5", "span_error"),
        "before_newton": told("Phase 6: fit within the span", "relative_error"),
        "examples": phases.examples_used,
        "newton_outcome": newton.outcome.name,
        "newton_error": truth.measure(layer=newton.layer)["relative_error"],
        "newton_examples": newton.examples_used,
    }


Point = tuple[int, int]


def _points(rows: Sequence[Row], part: str) -> dict[Point, list[Row]]:
    """The rows of a part that were not refused, by d and k."""
    groups: dict[Point, list[Row]] = {}
    for row in rows:
        if row["part"] == part and row.get("refused") is None:
            groups.setdefault((row["dim"], row["tokens"]), []).append(row)
    return groups


def _mean(members: Sequence[Row], of: Callable[[Row], float | None]) -> float | None:
    values = [value for value in map(of, members) if value is not None]
    return float(np.mean(values)) if values else None


def _judged(which: str, name: str) -> Callable[[Row], float | None]:
    return lambda row: row[which][name]


def _median(members: Sequence[Row], name: str) -> float | None:
    values = [row[name] for row in members if row[name] is not None]
    return float(np.median(values)) if values else None


def _found(rows: Sequence[Row]) -> str:
    told = [one for one in (_found_own(rows), _found_law(rows), _found_fair(rows), _found_ends(rows)) if one]
    text = "; ".join(told) or "every cell measured was refused, as k is not below d"
    return text[:1].upper() + text[1:] + "."


def _found_own(rows: Sequence[Row]) -> str:
    points = _points(rows, "certificates")
    shares = {
        point: share
        for point, members in points.items()
        if (share := _mean(members, _judged("exact", "accepted_false"))) is not None
    }
    if not shares:
        return ""
    parts = []
    for k in sorted({k for _, k in shares}):
        several = [share for (_, tokens), share in shares.items() if tokens == k]
        if k <= 4:
            parts.append(f"{_span(several)} at k = {k}")
    usable = {point: _mean(members, _judged("exact", "usable")) for point, members in points.items()}
    never = [k for (_, k), share in usable.items() if share == 0]
    some = [k for (_, k), share in usable.items() if share]
    gone = [k for k in never if k > max(some)] if some else never
    said = (
        f"of the rows accepted with the exact sum {', '.join(parts)} disagree by over a logit (range over d)"
    )
    return (said if parts else "") + (f", and none is usable from k = {min(gone)}" if gone and parts else "")


def _found_law(rows: Sequence[Row]) -> str:
    worst = [
        abs((_mean(members, lambda row: row["left"]) or 0.0) / members[0]["left_predicted"] - 1)
        for members in _points(rows, "certificates").values()
    ]
    return f"the squared residual of disagreement is within {max(worst):.1%} of 1 - (k-1)/d" if worst else ""


def _found_fair(rows: Sequence[Row]) -> str:
    points = _points(rows, "certificates")
    parts = []
    for dim in sorted({dim for dim, _ in points}):
        rates = {
            k: rate
            for (d, k), members in points.items()
            if d == dim and (rate := _mean(members, _judged("crude", "false_rate"))) is not None
        }
        if rates and dim in (min(points)[0], max(points)[0]):
            least = min(rates, key=lambda k: rates[k])
            parts.append(
                f"{rates[max(rates)]:.2g} at k = {max(rates)} of d = {dim} (least {rates[least]:.2g} at k = {least})"
            )
    exact = [_mean(members, _judged("exact", "false_rate")) or 0.0 for members in points.values()]
    if not parts:
        return ""
    return (
        f"where nine of ten planted agreements pass, the false rate with phase 1's sum is {' and '.join(parts)}, with "
        f"the exact one at most {max(exact):.2g}"
    )


def _found_ends(rows: Sequence[Row]) -> str:
    points = _points(rows, "ends")
    if not points:
        return ""
    parts = []
    for dim in sorted({dim for dim, _ in points}):
        exact = {
            k: all(row["error"] < _EXACT for row in members) for (d, k), members in points.items() if d == dim
        }
        failing = [k for k in sorted(exact) if not exact[k]]
        below = [k for k in sorted(exact) if not failing or k < failing[0]]
        if below:
            parts.append(f"up to k = {below[-1]} at d = {dim}")
    every = [row for members in points.values() for row in members]
    newton = sum(row["newton_error"] < _EXACT for row in every)
    six = f"the six phases end exact {' and '.join(parts)}" if parts else "the six phases never end exact"
    return f"{six}, Newton in {newton} of {len(every)} runs"


def _span(values: Sequence[float]) -> str:
    low, high = f"{min(values):.0%}", f"{max(values):.0%}"
    return low if low == high else f"{low[:-1]}-{high}"


def _table(rows: Sequence[Row]) -> Table:
    certificates, ends = _points(rows, "certificates"), _points(rows, "ends")
    shown = sorted(set(certificates) | set(ends))
    kept = [
        point for point in shown if len(shown) <= 25 or point in ends or point[1] in (2, 4, 8, point[0] - 1)
    ]
    refused = sorted({(row["dim"], row["tokens"]) for row in rows if row.get("refused")} - set(kept))
    header = (
        "d",
        "k",
        "usable",
        "accepted rows that are false",
        "their log-ratios off by",
        "false rate, exact sum",
        "false rate, phase 1's",
        "six phases before Newton",
        "six phases",
        "Newton",
    )
    body = [
        (str(d), str(k), *_judgements(certificates.get((d, k), [])), *_end_words(ends.get((d, k), [])))
        for d, k in kept
    ]
    body += [(str(d), str(k), "refused", *([""] * (len(header) - 3))) for d, k in refused]
    return Table(header, tuple(sorted(body, key=lambda row: (int(row[0]), int(row[1])))))


def _judgements(members: Sequence[Row]) -> tuple[str, ...]:
    if not members:
        return ("",) * 5
    logits = _mean(members, _judged("exact", "log_ratio_error"))
    return (
        _percent(_mean(members, _judged("exact", "usable"))),
        _percent(_mean(members, _judged("exact", "accepted_false"))),
        "-" if logits is None else f"{logits:.2g}",
        *(_with_interval([row[which]["false_rate"] for row in members]) for which in _SUMS),
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.2g}"


def _with_interval(values: Sequence[float | None]) -> str:
    given = [value for value in values if value is not None]
    if not given:
        return "-"
    if len(given) < 2:
        return f"{given[0]:.2g}"
    interval = mean_interval(given, confidence=0.95)
    return f"{interval.estimate:.2g} ± {interval.high - interval.estimate:.1g}"


def _end_words(members: Sequence[Row]) -> tuple[str, str, str]:
    if not members:
        return "", "", ""
    if all(row["outcome"] == "NOT_APPLICABLE" for row in members):
        return "refused", "refused", f"{_median(members, 'newton_error'):.1g}"
    before = _median(members, "before_newton")
    return (
        "-" if before is None else f"{before:.2g}",
        f"{_median(members, 'error'):.2g}",
        f"{_median(members, 'newton_error'):.1g}",
    )


def _draw(rows: Sequence[Row]) -> PaperFigure:
    certificates, ends = _points(rows, "certificates"), _points(rows, "ends")
    dims = sorted({dim for dim, _ in (*certificates, *ends)}) or [rows[0]["dim"]]
    with canvas(8.4, 3.5) as figure:
        own, fair, end = (axes_in(figure, (left, 0.15, 0.255, 0.55)) for left in (0.06, 0.4, 0.73))
        _draw_own(own, certificates, dims)
        _draw_fair(fair, certificates, dims)
        _draw_ends(end, ends, dims)
        legend_above(figure, columns=4)
        return paper_figure(
            figure,
            "The share of accepted rows that is false against k, the false rate at nine tenths of true certificates "
            "against k/d, and the end errors of the six phases and of Newton against k",
        )


def _draw_own(axes: Any, points: Mapping[Point, list[Row]], dims: Sequence[int]) -> None:
    for which, style in _STYLES.items():
        for place, dim in enumerate(dims):
            line = [
                (k, share)
                for (d, k), members in sorted(points.items())
                if d == dim and (share := _mean(members, _judged(which, "accepted_false"))) is not None
            ]
            if line:
                look = {**line_look(place), "linestyle": style}
                axes.plot(*zip(*line, strict=True), **look, label=f"d = {dim}, {_SUMS[which]}")
    dimension_axis(axes, [2, 4, 8, 16])
    axes.set_ylim(-0.04, 1.04)
    _named(axes, "tokens k", "accepted rows that are false")


def _draw_fair(axes: Any, points: Mapping[Point, list[Row]], dims: Sequence[int]) -> None:
    shown = [1.0, 0.01]
    for which, style in _STYLES.items():
        for place, dim in enumerate(dims):
            line = [
                (k / d, max(rate, _LEAST))
                for (d, k), members in sorted(points.items())
                if d == dim and (rate := _mean(members, _judged(which, "false_rate"))) is not None
            ]
            if line:
                axes.plot(*zip(*line, strict=True), **{**line_look(place), "linestyle": style})
                shown += [rate for _, rate in line]
    axes.set_yscale("log")
    low, high = decade_limits(shown)
    axes.set_ylim(low, high)
    decade_ticks(axes.yaxis, low, high)
    axes.set_xlim(0, 1.03)
    _named(axes, "k / d", "false rate at 9 of 10 true")


def _draw_ends(axes: Any, points: Mapping[Point, list[Row]], dims: Sequence[int]) -> None:
    lines = {"before_newton": "six phases before Newton", "error": "six phases", "newton_error": "Newton"}
    styles = {"before_newton": (0, (1.5, 1.5)), "error": "-", "newton_error": (0, (6, 2, 1.5, 2))}
    shown = [1.0, 1e-14]
    for name in lines:
        for place, dim in enumerate(dims):
            line = [
                (k, max(value, 1e-16))
                for (d, k), members in sorted(points.items())
                if d == dim and (value := _median(members, name)) is not None
            ]
            if line:
                axes.plot(*zip(*line, strict=True), **{**line_look(place), "linestyle": styles[name]})
                shown += [value for _, value in line]
    for name, label in lines.items():
        axes.plot([], [], color="#5d6875", linestyle=styles[name], label=label)
    axes.set_yscale("log")
    low, high = decade_limits(shown)
    axes.set_ylim(low, high)
    decade_ticks(axes.yaxis, low, high)
    dimension_axis(axes, [2, 4, 8, 16, 24])
    _named(axes, "tokens k", "relative error at the end")


def _named(axes: Any, below: str, above: str) -> None:
    name_axes(axes, below, "")
    axes.set_title(above, fontsize=9.5, loc="left")


STUDY = Study(
    name="tokens",
    title="Tokens against dimensions",
    question="How near to d may the number k of tokens come before certificates of agreement are false, and what "
    "does that do to the learner?",
    expected="The specification of the six phases (after Chen and Li, who take k much smaller than d) says that "
    "there are no false positives because k, m << d, and that k >= d is refused: so certificates should be good at "
    "small k/d and fail as k nears d.",
    limits="Two heads, nice layers of sigma 2 and Boolean tokens only: with weaker attention more rows are usable "
    "at large k; and agreement within a logit is too rare at k > 4 to be seen but by planting it.",
    how="Certificates: nice layers of two heads, sigma 2, Boolean tokens, 40,000 rows and 4 layers a point (12,000 "
    "and 2 at the quick scale), certified with the exact sum of the projections and with that of phase 1 from 2000 d "
    "/ k examples. The learner accepts the hundredth of all rows with the least residual among the usable ones, "
    "those with every entry of the pattern above .05; an accepted row is false if its heads disagree by more than "
    "one logit. Because rows that agree are rare as eps^((m-1)(k-1)), agreement is planted beside them: labels in "
    "which the second head attends as the first up to a tenth of a logit. The false rate is the share of rows that "
    "disagree by more than a logit and have a residual below that of nine of ten planted ones; intervals are 95 % by "
    "Student's t over layers. The squared share that the regression leaves of what disagreement adds to a row is "
    "compared with 1 - (k-1)/d, the mean of the law Beta((d-k+1)/2, (k-1)/2) of a random direction off the affine "
    "span of k points (derived here). Ends: the practical SixPhase and Newton, both of 2 heads with 3000 passes and "
    "their own numbers of examples, 3 targets at d = 16 and 2 at d = 24; before Newton is the fit within the span; "
    "errors are relative test errors, medians over targets; exact is below 1e-9.",
    cells=_cells,
    measure=_measure,
    found=_found,
    table=_table,
    draw=_draw,
)
