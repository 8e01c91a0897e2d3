"""One condition violated at a time.

How do the six phases degrade as each non-degeneracy condition is violated alone, which phase breaks first, and does
Newton still find the layer?
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.random import Generator

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    GroundTruth,
    check_conditions,
    make_close_heads_layer,
    make_low_rank_layer,
    make_nice_layer,
)
from runs import Scale
from studies.line_figure import Panel, line_figure
from studies.rows import chosen, median, table
from studies.study import Parameters, Row, Table
from upper import Newton
from upper.floor import counting_floor
from upper.six_phase import SixPhase

STREAM = ("heads", "dim")

NICE = "nothing"
"""The name of the baseline, a nice layer that meets all conditions."""

_TOKENS, _TRUTH, _TRIES = 2, 400, 25
_EXACT = 1e-10
_BREAKS_AT = 3.0  # a phase breaks if its error exceeds the usual one by more than this factor
_PASSES = 4000  # of Newton, about six times the number for a nice layer
_LARGEST = 1e6  # the cap on an error that is divided by a true sum of nearly zero
_NEWTON = {"Newton 4": 4, "Newton 28": 28}  # counting floors of examples: the default, and a generous number
_PAPER = "paper"  # the mode of the six phases
_MEASURES = dict(
    enumerate(
        ("sum_error", "agreement_error", "sum_error", "agreement_error", "span_error", "relative_error"), 1
    )
)
_ERRORS = {phase: f"phase_{phase}" for phase in _MEASURES}
Stack = Float[np.ndarray, "2 d d"]


class Violation(NamedTuple):
    """A way to violate a condition of Theta or W: amounts from mild to extreme, and the change."""

    condition: str
    amounts: tuple[float, ...]
    change: Callable[[Stack, float, Generator], Stack]


def _sizes(stack: Stack) -> Float[np.ndarray, "2 1 1"]:
    return np.linalg.norm(stack, axis=(1, 2), keepdims=True)


def _alike(stack: Stack, cosine: float, rng: Generator, *, sign: int = 1) -> Stack:
    """The second of two matrices, rotated to a given cosine with the first, and scaled to its norm."""
    (first, second), cosine = stack, sign * cosine
    size = np.linalg.norm(first)
    across = second - np.vdot(first, second) / size**2 * first
    across *= math.sqrt(max(0.0, (1 - cosine) * (1 + cosine))) * size / np.linalg.norm(across)
    return np.stack([first, cosine * first + across])


def _weak(stack: Stack, ratio: float, rng: Generator) -> Stack:
    first, second = stack
    return np.stack([first, second * (np.linalg.norm(first) / np.linalg.norm(second) / ratio)])


def _low_rank(stack: Stack, rank: float, rng: Generator, *, of_w: bool = False) -> Stack:
    d = stack.shape[1]
    ranks = {"rank": d, "w_rank": int(rank)} if of_w else {"rank": int(rank)}
    layer = make_low_rank_layer(heads=2, dim=d, rng=rng, **ranks)
    low = layer.w if of_w else layer.theta
    return low * (_sizes(stack) / _sizes(low))


def _near_signs(stack: Stack, spread: float, rng: Generator) -> Stack:
    """Entries plus or minus one value, up to a relative spread."""
    theta = np.sign(stack) * (1 + spread * rng.standard_normal(stack.shape))
    return theta * (_sizes(stack) / _sizes(theta))


VIOLATIONS: Mapping[str, Violation] = {
    NICE: Violation("theta_stable_rank", (0.0,), lambda stack, amount, rng: stack),
    "close heads": Violation(
        "theta_incoherence",
        (0.6, 0.2, 0.05),
        lambda stack, gap, rng: make_close_heads_layer(heads=2, dim=stack.shape[1], gap=gap, rng=rng).theta,
    ),
    "opposed heads": Violation("theta_incoherence", (0.5, 0.9, 1.0), partial(_alike, sign=-1)),
    "low rank": Violation("theta_stable_rank", (4.0, 1.0), _low_rank),
    "weak head": Violation("theta_norms_comparable", (6.0, 20.0, 100.0), _weak),
    "large norms": Violation(
        "theta_norms", (16.0, 32.0), lambda stack, size, rng: stack * (size / _sizes(stack))
    ),
    "lattice": Violation("theta_non_arithmetic", (0.1, 0.03, 0.0), _near_signs),
    "alike W": Violation("w_incoherence", (0.5, 0.9, 0.99), _alike),
    "opposed W": Violation("w_incoherence", (0.5, 0.9, 1.0), partial(_alike, sign=-1)),
    "low-rank W": Violation("w_stable_rank", (4.0, 2.0, 1.0), partial(_low_rank, of_w=True)),
    "weak W": Violation("w_norms_comparable", (6.0, 100.0), _weak),
}
"""Every violation by its name, and the baseline."""


def violated_layer(
    name: str, amount: float, *, dim: int, rng: Generator
) -> tuple[AttentionLayer, float | None, tuple[str, ...]]:
    """Draw nice layers and violate them until no other condition fails, up to 25 times; some violations imply others.

    Returns
    -------
    layer : AttentionLayer
        The one with the fewest other violations.
    measured : float or None
        The measure of the condition.
    beside : tuple of str
        The other conditions that fail.
    """
    for_nice, for_rest = rng.spawn(2)  # two violations with the same seed start with the same nice layer
    (condition, _, change), tries = VIOLATIONS[name], []
    for _ in range(_TRIES):
        nice = _nice(dim, for_nice)
        if condition.startswith("w_"):
            layer = AttentionLayer(theta=nice.theta, w=change(nice.w, amount, for_rest))
        else:
            layer = AttentionLayer(theta=change(nice.theta, amount, for_rest), w=nice.w)
        report = check_conditions(layer, tokens=_TOKENS)
        beside = tuple(other for other in report.violated if other != condition)
        tries.append((layer, report[condition].measured, beside))
        if not beside:
            break
    return min(tries, key=lambda one: len(one[2]))


def _nice(dim: int, rng: Generator) -> AttentionLayer:
    for _ in range(100):
        layer = make_nice_layer(heads=2, dim=dim, rng=rng)
        if check_conditions(layer, tokens=_TOKENS).satisfied:
            break
    return layer


def cells(scale: Scale) -> Sequence[Parameters]:
    quick = scale is Scale.QUICK
    amounts = {name: kind.amounts for name, kind in VIOLATIONS.items()}
    if quick:
        amounts = {NICE: (0.0,), "close heads": (0.05,), "opposed heads": (1.0,), "lattice": (0.03,)}
    runs = {NICE: 6, "close heads": 5}
    return [
        {"violation": name, "amount": amount, "heads": 2, "dim": 16, "learner": learner}
        | {"runs": 1 if quick else 8 if learner in _NEWTON else runs.get(name, 3)}
        for name, several in amounts.items()
        for amount in several
        for learner in (_PAPER, *_NEWTON)
    ]


def measure(
    *, violation: str, amount: float, heads: int, dim: int, learner: str, runs: int, rng: Generator
) -> Mapping[str, Any]:
    """The violation and the successes of a learner in several draws, and the median error of each phase."""
    results = []
    for stream in rng.spawn(runs):
        for_layer, for_newton, for_paper = stream.spawn(3)
        layer, value, beside = violated_layer(violation, amount, dim=dim, rng=for_layer)
        result = run_learner(layer, learner, for_paper if learner == _PAPER else for_newton)
        results.append({**result, "measured": value, "alone": not beside})
    failed = float(np.median([result["failed"] or math.inf for result in results]))
    return {
        "measured": median(results, "measured"),
        "alone": all(result["alone"] for result in results),
        "successes": sum(result["success"] for result in results),
        "failed": failed if failed < math.inf else None,
        **{name: median(results, name) for name in (_ERRORS.values() if learner == _PAPER else ())},
    }


def run_learner(layer: AttentionLayer, learner: str, rng: Generator) -> dict[str, Any]:
    """Run a learner once: whether it succeeds, the phase that failed, and the errors of the phases.

    Notes
    -----
    Paper mode succeeds if it ends, Newton if it is exact. Phases 1 and 3: the error is the relative error of the
    sum of the projections. Phases 2 and 4: it is the residual of the true heads in the certified equations, in logits,
    divided by the root mean square of their norms. Phase 5: it is the worst head's distance from the span, divided by
    its norm. Phase 6: it is the relative error on fresh inputs of the best tuple of the net.
    """
    for_examples, for_learner, for_truth = rng.spawn(3)
    inputs = BooleanInputs(_TOKENS, layer.dim)
    truth = GroundTruth.draw(layer, inputs, _TRUTH, rng=for_truth)
    oracle = ExampleOracle(layer, inputs, rng=for_examples)
    if learner in _NEWTON:
        examples = _NEWTON[learner] * counting_floor(heads=layer.heads, tokens=_TOKENS, dim=layer.dim)
        # NumPy's engine: the same numbers with and without PyTorch
        newton = Newton(heads=layer.heads, examples=examples, engine="numpy", work=_PASSES)
        error = truth.measure(predict=newton.fit(oracle, rng=for_learner).predict)["relative_error"]
        return {"success": error <= _EXACT, "failed": None}
    fit = SixPhase(heads=layer.heads, mode="paper").fit(oracle, rng=for_learner, truth=truth)
    result: dict[str, Any] = {"success": fit.details.failed is None, "failed": fit.details.failed}
    size = math.sqrt(float(np.mean(np.sum(layer.theta**2, axis=(1, 2)))))
    for step in fit.trace:  # if a phase has several steps, the last one counts; of phase 6 that of the net
        if step.phase in _MEASURES and (step.phase != 6 or "candidates" in step.measures):
            error = step.measures[_MEASURES[step.phase]] / (size if step.phase in (2, 4) else 1.0)
            result[_ERRORS[step.phase]] = min(error, _LARGEST) if not math.isnan(error) else _LARGEST
    return result


def breaks(row: Row, usual: Row) -> int | None:
    """The first phase whose median error exceeds three times the usual one, or that ends most runs."""
    measured = {phase: name for phase, name in _ERRORS.items() if row.get(name) and usual.get(name)}
    broken = [phase for phase, name in measured.items() if row[name] > _BREAKS_AT * usual[name]]
    return min([*broken, *([] if row["failed"] is None else [int(row["failed"])])], default=None)


def _with_breaks(rows: Sequence[Row]) -> list[Row]:
    """The rows with the phase that breaks first, successes as text, and errors over those on nice layers."""
    usual = {row["learner"]: row for row in chosen(rows, violation=NICE)}
    return [
        {**row, "breaks": breaks(row, nice), "share": f"{row['successes']}/{row['runs']}"}
        | {name: row[name] / nice[name] for name in _ERRORS.values() if row.get(name) and nice.get(name)}
        for row in rows
        for nice in [usual[row["learner"]]]
    ]


def numbers(rows: Sequence[Row]) -> dict[str, Any]:
    settings = [row for row in _with_breaks(rows) if row["violation"] != NICE]
    paper = chosen(settings, learner=_PAPER)
    return {
        "all": len(paper),
        "alone": len(chosen(paper, alone=True)),
        "paper_third": len(chosen(paper, breaks=3)),
        "paper_breaks": sum(row["breaks"] is not None for row in paper),
        **{
            f"{learner.lower().replace(' ', '_')}_fails": sum(
                row["successes"] < row["runs"] for row in chosen(settings, learner=learner, alone=True)
            )
            for learner in (_PAPER, *_NEWTON)
        },
    }


def tables(rows: Sequence[Row]) -> dict[str, Table]:
    def of(learner: str, name: str) -> Callable[[Sequence[Row]], Any]:
        return lambda learners: next((row[name] for row in chosen(learners, learner=learner)), None)

    columns = {
        "measured": of("Newton 4", "measured"),
        "alone": lambda learners: "yes" if of("Newton 4", "alone")(learners) else "no",
        "paper breaks": of(_PAPER, "breaks"),
        "paper ends": of(_PAPER, "share"),
        **{f"{learner} exact": of(learner, "share") for learner in _NEWTON},
    }
    return {"settings": table(_with_breaks(rows), {"violated": "violation", "amount": "amount"}, columns)}


def figure(rows: Sequence[Row]) -> Any:
    """The error of every phase over the usual one, for the largest amount of each violation."""
    last = {row["violation"]: row for row in chosen(_with_breaks(rows), learner=_PAPER)}
    curves = {name: [(place, row[error]) for place, error in _ERRORS.items()] for name, row in last.items()}
    return line_figure([Panel("phase", "error / usual error, paper mode", curves, horizontals=(_BREAKS_AT,))])
