"""How far each phase of the six-phase learner and Newton get on one layer, and which phase breaks first."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from arena.studies._violations import NICE
from arena.studies.study import Row
from attention import AttentionLayer, BooleanInputs, ExampleOracle, Fit, GroundTruth
from upper import Newton
from upper.floor import counting_floor
from upper.six_phase import SixPhase

__all__ = [
    "BREAKS_AT",
    "EXACT",
    "PHASES",
    "baseline_runs",
    "broken_phase",
    "broken_phases",
    "ends_by",
    "exact_runs",
    "is_alone",
    "median_error",
    "mostly_broken",
    "newton_budgets",
    "newton_error",
    "newton_exact",
    "phase_errors",
    "phase_ratio",
    "ratios",
    "setting_rows",
    "stopped_modes",
]

Mode = Literal["practical", "paper"]

PHASES: Mapping[str, tuple[int, ...]] = {"paper": (1, 2, 3, 4, 5, 6), "practical": (1, 3, 4, 5, 6)}
"""The phases that have an error of their own in each mode."""
BREAKS_AT = 3.0
"""A phase breaks where its error is more than so many times the baseline's median, or where it ends the run."""
EXACT = 1e-10
"""Below this relative error on fresh inputs a layer counts as found to machine precision."""

# by the phase: of several records the last one that has the measure
_MEASURES = {1: "sum_error", 2: "agreement_error", 3: "sum_error", 4: "agreement_error", 5: "span_error"}
# of phase 6 the step before any Newton iterate
_BEFORE_NEWTON = {"paper": "candidates", "practical": "starts"}
_TRUTH = 400
_PASSES = 4000  # of Newton, some six times what a nice layer takes
_LARGEST = 1e6  # of an error that is divided by a true sum of nearly zero


def phase_errors(
    layer: AttentionLayer, mode: Mode, *, tokens: int, rng: np.random.Generator
) -> dict[str, Any]:
    """One run of the six phases: the error of each phase by its number, and how it ended.

    Parameters
    ----------
    layer : AttentionLayer
        The target.
    mode : "practical" or "paper"
        Of the learner.
    tokens : int
        The number k.
    rng : Generator
        The examples, the learner's own draws and the inputs to measure on come from streams of their own.

    Returns
    -------
    dict
        ``errors``, with None for a phase that was not reached; the phase ``failed``, or None; the ``outcome``; the
        ``examples`` used; and the ``error`` of the layer in the end.

    Notes
    -----
    Phases 1 and 3: the relative error of the sum of the projections. Phases 2 and 4: up to how many logits the true
    heads satisfy the certified equations, over the root mean square of their norms. Phase 5: the worst head's
    distance from the span, over its norm. Phase 6: the relative error on fresh inputs of the best of the net, or of the
    fit within the span, before Newton's iterates.
    """
    for_oracle, for_learner, for_truth = rng.spawn(3)
    inputs = BooleanInputs(tokens, layer.dim)
    truth = GroundTruth.draw(layer, inputs, _TRUTH, rng=for_truth)
    learner = SixPhase(m=layer.heads, mode=mode)
    told = learner.run(ExampleOracle(layer, inputs, rng=for_oracle), rng=for_learner, truth=truth)
    return {
        "errors": _errors(told.fit, mode, math.sqrt(float(np.mean(np.sum(layer.theta**2, axis=(1, 2)))))),
        "failed": told.failed,
        "outcome": told.fit.outcome.name,
        "examples": told.fit.examples_used,
        "error": _capped(truth.measure(predict=told.fit.predict)["relative_error"]),
    }


def _errors(fit: Fit, mode: Mode, size: float) -> dict[str, float | None]:
    errors: dict[str, float | None] = {str(phase): None for phase in PHASES[mode]}
    for step in fit.trace:
        phase = step.phase
        if phase == 6 and _BEFORE_NEWTON[mode] in step.measures:
            errors["6"] = _capped(step.measures["relative_error"])
        elif phase in _MEASURES:
            unit = size if phase in (2, 4) else 1.0
            errors[str(phase)] = _capped(step.measures[_MEASURES[phase]] / unit)
    return errors


def _capped(error: float) -> float:
    return min(error, _LARGEST) if not math.isnan(error) else _LARGEST


def newton_error(layer: AttentionLayer, *, tokens: int, floors: int, rng: np.random.Generator) -> float:
    """The relative error on fresh inputs of what Newton finds, at so many times the counting floor of examples."""
    for_oracle, for_learner, for_truth = rng.spawn(3)
    inputs = BooleanInputs(tokens, layer.dim)
    truth = GroundTruth.draw(layer, inputs, _TRUTH, rng=for_truth)
    # NumPy's engine: the same numbers with and without PyTorch
    examples = floors * counting_floor(heads=layer.heads, tokens=tokens, dim=layer.dim)
    learner = Newton(m=layer.heads, examples=examples, engine="numpy", work=_PASSES)
    fit = learner.fit(ExampleOracle(layer, inputs, rng=for_oracle), rng=for_learner)
    return _capped(truth.measure(predict=fit.predict)["relative_error"])


def ratios(run: Mapping[str, Any], baseline: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The error of every phase that was reached over the baseline's median of that phase."""
    found = {}
    for phase, error in run["errors"].items():
        usual = [one["errors"][phase] for one in baseline if one["errors"][phase] is not None]
        if error is not None and usual:
            found[phase] = error / float(np.median(usual))
    return found


def broken_phase(run: Mapping[str, Any], baseline: Sequence[Mapping[str, Any]]) -> int | None:
    """The first phase that breaks; None if none does."""
    broken = [int(phase) for phase, ratio in ratios(run, baseline).items() if ratio > BREAKS_AT]
    if run["failed"] is not None:
        broken.append(run["failed"])
    return min(broken, default=None)


def baseline_runs(rows: Sequence[Row], row: Row, mode: str) -> list[Any]:
    """The runs on nice layers of the same size; none if they were not measured."""
    same = [one for one in rows if one["violation"] == NICE and one["heads"] == row["heads"]]
    return [run for one in same for run in one.get(mode, [])]


def broken_phases(rows: Sequence[Row], row: Row, mode: str) -> Counter[int | None]:
    """How many runs break first in which phase."""
    baseline = baseline_runs(rows, row, mode)
    return Counter(broken_phase(run, baseline) for run in row[mode])


def mostly_broken(rows: Sequence[Row], row: Row, mode: str) -> str:
    """Which phase breaks first in more than half of the runs."""
    phase, times = broken_phases(rows, row, mode).most_common(1)[0]
    if 2 * times <= len(row[mode]):
        return "by the draw"
    return "nowhere" if phase is None else f"phase {phase}"


def setting_rows(rows: Sequence[Row]) -> list[Row]:
    """Those with runs of the six phases, one a setting; others are Newton's alone, with more examples."""
    return [row for row in rows if row["modes"]]


def newton_budgets(rows: Sequence[Row], row: Row) -> dict[int, Row]:
    """The rows of Newton on a setting by their number of counting floors."""
    same = [one for one in rows if all(one[name] == row[name] for name in ("violation", "step", "heads"))]
    return {one["floors"]: one for one in sorted(same, key=lambda one: one["floors"])}


def newton_exact(row: Row) -> tuple[int, int]:
    """In how many draws Newton is exact, of how many."""
    return sum(error <= EXACT for error in row["newton_errors"]), len(row["newton_errors"])


def exact_runs(row: Row) -> int:
    """In how many runs practical mode is exact."""
    return sum(run["error"] <= EXACT for run in row["practical"])


def is_alone(row: Row) -> bool:
    """Whether no other condition fails in any draw."""
    return not any(row["beside"])


def stopped_modes(row: Row) -> dict[str, bool]:
    """Of each mode that was run: whether a run fails (paper), or is not exact (practical)."""
    stopped = {"practical": exact_runs(row) < len(row["practical"])}
    if "paper" in row["modes"]:
        stopped["paper"] = any(run["failed"] is not None for run in row["paper"])
    return stopped


def phase_ratio(rows: Sequence[Row], row: Row, mode: str, phase: int) -> float | None:
    """The median ratio of a phase's error to its usual one; None where less than half of the runs reach it."""
    baseline = baseline_runs(rows, row, mode)
    times = [there[str(phase)] for run in row[mode] if str(phase) in (there := ratios(run, baseline))]
    return float(np.median(times)) if times and 2 * len(times) >= len(row[mode]) else None


def ends_by(row: Row, mode: str, phase: int) -> bool:
    """Whether most runs have ended with a failure in this phase or before it."""
    ended = sum(run["failed"] is not None and run["failed"] <= phase for run in row[mode])
    return 2 * ended > len(row[mode])


def median_error(runs: Sequence[Mapping[str, Any]]) -> float:
    """Of the layers in the end."""
    return float(np.median([run["error"] for run in runs]))
