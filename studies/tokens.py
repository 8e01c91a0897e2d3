"""Tokens k against dimensions d: the reliability of certificates of agreement as k approaches d."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.random import Generator

from attention import AttentionLayer, BooleanInputs, ExampleOracle, GroundTruth, make_nice_layer
from attention.layer import softmax
from runs import Scale
from studies.intervals import mean_interval
from studies.line_figure import Panel, curve_of, line_figure
from studies.rows import chosen, curve, grouped, median, of_all, table, values
from studies.study import Parameters, Row, Study, Table
from upper import Newton
from upper.six_phase import SixPhase, estimate_projection_sum
from upper.six_phase.agreement import certify_agreement, disagreement

__all__ = ["STUDY", "planted_labels"]

_SIGMA = 2.0
_PLANTED = 0.1  # logits: the disagreement of the heads in a planted agreement
_ALLOWED = 1.0  # logits: a certified row whose heads disagree by more is false
_ACCEPT = 0.01  # of all rows: the practical learner's share
_SMALLEST_WEIGHT = 0.05  # the learner uses no pattern with a smaller entry
_PASSING = 0.9  # the share of planted agreements that the fair threshold lets through
_PASSES = 3000
_EXACT = 1e-9
_LEAST = 1e-5  # a false rate of zero is drawn here
_SUMS = {"exact": "exact sum", "crude": "phase 1's sum"}
_FITS = {
    "before_newton": "six phases before Newton",
    "error": "six phases",
    "newton_error": "Newton alone",
}


def _cells(scale: Scale) -> Sequence[Parameters]:
    quick = scale is Scale.QUICK
    some = (2, 3, 4, 8) if quick else (2, 3, 4, 6, 8, 12)
    rows = 12_000 if quick else 40_000
    ends = (
        {16: (2, 4, 8, 16)} if quick else {16: (2, 3, 4, 6, 8, 12, 15, 16, 17), 24: (2, 4, 6, 8, 16, 23, 24)}
    )
    return [
        {"part": "certificates", "dim": dim, "tokens": tokens, "draw": draw, "rows": rows}
        for dim in ((16, 24) if quick else (16, 24, 32, 48))
        for tokens in sorted({*some, dim // 2, 3 * dim // 4, dim - 4, dim - 2, dim - 1})
        for draw in range(2 if quick else 4)
    ] + [
        {"part": "ends", "dim": dim, "tokens": tokens, "draw": draw}
        for dim, several in ends.items()
        for tokens in several
        for draw in range(1 if quick else (3 if dim == 16 else 2))
    ]


def _measure(
    *, part: str, dim: int, tokens: int, draw: int, rng: Generator, rows: int = 0
) -> Mapping[str, Any]:
    """The quality of certificates of rows, or the final errors of the six phases and Newton."""
    layer = make_nice_layer(heads=2, dim=dim, sigma=_SIGMA, rng=rng)
    inputs = BooleanInputs(tokens, dim)
    return _ends(layer, inputs, rng) if part == "ends" else _certificates(layer, inputs, rows, rng)


def _certificates(layer: AttentionLayer, inputs: BooleanInputs, rows: int, rng: Generator) -> dict[str, Any]:
    """Certify rows with the exact sum of the projections and with that of phase 1, and count false certificates.

    ``agreeing``: the share of rows whose heads disagree by at most one logit. ``usable``: the share with every entry of
    the pattern above .05. ``false``: of the usable rows of least residual, a hundredth of all rows, the share that is
    false; None if there are none. ``rate``: the share of disagreeing rows below the threshold that passes nine of ten
    planted agreements.
    """
    x = inputs.sample(-(-rows // inputs.tokens), rng=rng)
    gaps, planted = disagreement(layer, x), planted_labels(layer, x, gap=_PLANTED, rng=rng)
    # the number of rows in the learner's 1000 d examples at k = 2
    crude = estimate_projection_sum(ExampleOracle(layer, inputs, rng=rng), 2000 * inputs.dim // inputs.tokens)
    measured: dict[str, Any] = {"agreeing": float(np.mean(gaps <= _ALLOWED))}
    for name, projection_sum in (("exact", layer.w.sum(axis=0)), ("crude", crude.w)):
        certified = certify_agreement(x, layer(x), projection_sum)
        residual = certified.residual
        usable = np.isfinite(residual) & (certified.pattern.min(axis=-1) > _SMALLEST_WEIGHT)
        best = np.sort(residual[usable])[: math.ceil(_ACCEPT * residual.size)]
        false = gaps[usable & (residual <= best[-1])] > _ALLOWED if best.size else None
        fair = certify_agreement(x, planted, projection_sum).residual
        threshold = np.quantile(fair[np.isfinite(fair)], _PASSING)
        disagreeing = residual[(gaps > _ALLOWED) & np.isfinite(residual)]
        measured |= {
            f"usable_{name}": float(np.mean(usable)),
            f"false_{name}": None if false is None else float(np.mean(false)),
            f"rate_{name}": float(np.mean(disagreeing <= threshold)) if disagreeing.size else None,
        }
    return measured


def planted_labels(
    layer: AttentionLayer, x: Float[np.ndarray, "n k d"], *, gap: float, rng: Generator
) -> Float[np.ndarray, "n k d"]:
    """Labels of a layer of two heads whose second head attends like the first one, up to a gap in logits."""
    logits = layer.logits(x)[:, 0]
    noise = rng.standard_normal(logits.shape)
    noise *= gap / (noise.max(axis=-1, keepdims=True) - noise.min(axis=-1, keepdims=True))
    first, second = softmax(logits, np), softmax(logits + noise, np)
    return np.asarray(first @ x @ layer.w[0] + second @ x @ layer.w[1])


def _ends(layer: AttentionLayer, inputs: BooleanInputs, rng: Generator) -> dict[str, Any]:
    truth = GroundTruth.draw(layer, inputs, rng=rng)
    examples, learner = (int(seed) for seed in rng.integers(2**63, size=2))
    phases, newton = (
        one.fit(ExampleOracle(layer, inputs, rng=examples), rng=learner, truth=truth)
        for one in (SixPhase(heads=2, work=_PASSES), Newton(heads=2, work=_PASSES))
    )
    starts = (step.measures for step in phases.trace if step.phase == 6 and "starts" in step.measures)
    before = next(starts, None)
    return {
        "error": phases.layer and truth.measure(layer=phases.layer)["relative_error"],
        "before_newton": None if before is None else float(before["relative_error"]),
        "newton_error": truth.measure(layer=newton.layer)["relative_error"],
    }


def _means(rows: Sequence[Row], name: str) -> dict[tuple[int, int], float]:
    """The mean of what was measured at each d and k."""
    points = sorted(grouped(rows, "dim", "tokens").items())
    return {point: float(np.mean(there)) for point, group in points if (there := values(group, name))}


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    certificates, ends = chosen(rows, part="certificates"), chosen(rows, part="ends")
    rates, exact_rates = (_means(certificates, f"rate_{which}") for which in ("crude", "exact"))
    numbers: dict[str, Any] = {}
    for k in (2, 3, 4):
        agreeing = [share for (_, tokens), share in _means(certificates, "agreeing").items() if tokens == k]
        numbers[f"agree_{k}"] = f"{100 * np.mean(agreeing):.2g} %"
        for which in _SUMS:
            false = _means(certificates, f"false_{which}")
            shares = [100 * share for (_, tokens), share in false.items() if tokens == k]
            low, high = f"{min(shares):.0f}", f"{max(shares):.0f}"
            numbers[f"{which}_false_{k}"] = f"{low} %" if low == high else f"{low} to {high} %"
    dims = sorted(dim for dim, _ in rates)
    for name, dim in (("low", dims[0]), ("high", dims[-1])):
        least = min(rate for (d, _), rate in rates.items() if d == dim)
        numbers |= {name: dim, f"{name}_near": f"{rates[dim, dim - 1]:.2g}", f"{name}_least": f"{least:.2g}"}
    before = [median(group, "before_newton") for group in grouped(ends, "dim", "tokens").values()]
    errors = [error for error in before if error is not None]
    usable = _means(certificates, "usable_exact")
    return numbers | {
        "exact_rate": f"{max(exact_rates.values()):.2g}",
        "unusable": min(k for (_, k), share in usable.items() if not share),
        "exact_to": max(row["tokens"] for row in ends if (row["error"] or 1.0) < _EXACT),
        "before_least": f"{min(errors):.2g}",
        "before_most": f"{max(errors):.2g}",
        "newton": of_all(row["newton_error"] < _EXACT for row in ends),
    }


def _rate(some: Sequence[Row], which: str) -> str | None:
    rates = values(some, f"rate_{which}")
    if len(rates) < 2:
        return None
    interval = mean_interval(rates, confidence=0.95)
    return f"{interval.estimate:.2g} ± {interval.high - interval.estimate:.1g}"


def _mean(some: Sequence[Row], name: str) -> str | None:
    measured = values(some, name)
    return f"{np.mean(measured):.2g}" if measured else None


def _tables(rows: Sequence[Row]) -> dict[str, Table]:
    ends = {(row["dim"], row["tokens"]) for row in chosen(rows, part="ends")}
    shown = [row for row in rows if row["tokens"] in (2, 4, 8, row["dim"] // 2, row["dim"] - 1)]
    shown += [row for row in rows if row not in shown and (row["dim"], row["tokens"]) in ends]
    return {
        "certificates": table(
            sorted(shown, key=lambda row: (row["dim"], row["tokens"])),
            {"d": "dim", "k": "tokens"},
            {
                "rows that agree": lambda some: _mean(some, "agreeing"),
                "usable": lambda some: _mean(some, "usable_exact"),
                "accepted that are false": lambda some: _mean(some, "false_exact"),
                **{f"false rate, {title}": partial(_rate, which=which) for which, title in _SUMS.items()},
                **{title: name for name, title in _FITS.items()},
            },
        )
    }


def _figure(rows: Sequence[Row]) -> Any:
    """False certificates against k and k/d, and the errors of whole fits against k."""
    dims = sorted({row["dim"] for row in rows})
    false, rate = {}, {}
    for which, title in _SUMS.items():
        for dim in (dims[0], dims[-1]):
            name = f"d = {dim}, {title}"
            there = chosen(rows, part="certificates", dim=dim)
            false[name] = curve_of({k: share for (_, k), share in _means(there, f"false_{which}").items()})
            rates = _means(there, f"rate_{which}")
            rate[name] = curve_of({k / dim: max(share, _LEAST) for (_, k), share in rates.items()})
    ends = chosen(rows, part="ends", dim=dims[0])
    errors = {title: curve(ends, "tokens", name) for name, title in _FITS.items()}
    return line_figure(
        [
            Panel("tokens k", "accepted rows that are false", false, log_x=True, log_y=False),
            Panel("k / d", "false rate, 9 of 10 agreements pass", rate),
            Panel("tokens k", f"relative error at the end, d = {dims[0]}", errors, log_x=True),
        ]
    )


STUDY = Study(
    name="tokens",
    title="Tokens against dimensions",
    question="How near to d may the number k of tokens come before certificates of agreement are false, and what "
    "does that do to the learner?",
    cells=_cells,
    measure=_measure,
    numbers=_numbers,
    tables=_tables,
    figure=_figure,
)
