"""The progress of each phase of the six-phase learner, and of Newton, on one layer."""

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from attention import AttentionLayer, BooleanInputs, ExampleOracle, Fit, GroundTruth
from studies.fits import fit_errors
from upper import Newton
from upper.floor import counting_floor
from upper.six_phase import SixPhase

__all__ = ["BREAKS_AT", "PHASES", "Mode", "broken_phase", "newton_error", "phase_errors"]

Mode = Literal["paper", "practical"]

PHASES: Mapping[Mode, tuple[int, ...]] = {"paper": (1, 2, 3, 4, 5, 6), "practical": (1, 3, 4, 5, 6)}
"""The phases with their own error in each mode."""
BREAKS_AT = 3.0
"""A phase breaks if its error exceeds the usual one by more than this factor."""

_TRUTH = 400
_PASSES = 4000  # of Newton, about six times the number for a nice layer
_LARGEST = 1e6  # the cap on an error that is divided by a true sum of nearly zero
_MEASURES = {1: "sum_error", 2: "agreement_error", 3: "sum_error", 4: "agreement_error", 5: "span_error"}
_BEFORE_NEWTON = {"paper": "candidates", "practical": "starts"}  # of phase 6


def phase_errors(layer: AttentionLayer, mode: Mode, *, tokens: int, rng: Generator) -> dict[str, Any]:
    """Run the six phases once.

    Returns
    -------
    dict
        ``errors`` by phase, None if a phase was not reached; the phase that ``failed``, or None; the ``examples`` used;
        and the final ``error`` of the layer.

    Notes
    -----
    Phases 1 and 3: the error is the relative error of the sum of the projections. Phases 2 and 4: it is the residual of
    the true heads in the certified equations, in logits, divided by the root mean square of their norms. Phase 5: it is
    the worst head's distance from the span, divided by its norm. Phase 6: it is the relative error on fresh inputs of
    the best tuple of the net, or of the fit within the span, before Newton's iterates.
    """
    for_oracle, for_learner, for_truth = rng.spawn(3)
    inputs = BooleanInputs(tokens, layer.dim)
    truth = GroundTruth.draw(layer, inputs, _TRUTH, rng=for_truth)
    learner = SixPhase(heads=layer.heads, mode=mode)
    fit = learner.fit(ExampleOracle(layer, inputs, rng=for_oracle), rng=for_learner, truth=truth)
    return {
        "errors": _errors(fit, mode, math.sqrt(float(np.mean(np.sum(layer.theta**2, axis=(1, 2)))))),
        "failed": fit.details.failed,
        "examples": fit.examples_used,
        "error": _capped(truth.measure(predict=fit.predict)["relative_error"]),
    }


def _errors(fit: Fit, mode: Mode, size: float) -> dict[str, float | None]:
    errors: dict[str, float | None] = {str(phase): None for phase in PHASES[mode]}
    for step in fit.trace:  # if a phase has several steps, the last one counts
        phase = step.phase
        if phase == 6 and _BEFORE_NEWTON[mode] in step.measures:
            errors["6"] = _capped(step.measures["relative_error"])
        elif phase in _MEASURES:
            errors[str(phase)] = _capped(step.measures[_MEASURES[phase]] / (size if phase in (2, 4) else 1.0))
    return errors


def _capped(error: float) -> float:
    return min(error, _LARGEST) if not math.isnan(error) else _LARGEST


def newton_error(layer: AttentionLayer, *, tokens: int, floors: int, rng: Generator) -> float:
    """The relative error of Newton's layer on fresh inputs, from the given number of counting floors of examples."""
    for_examples, for_learner, for_truth = rng.spawn(3)
    inputs = BooleanInputs(tokens, layer.dim)
    truth = GroundTruth.draw(layer, inputs, _TRUTH, rng=for_truth)
    examples = floors * counting_floor(heads=layer.heads, tokens=tokens, dim=layer.dim)
    # NumPy's engine: the same numbers with and without PyTorch
    learner = Newton(heads=layer.heads, examples=examples, engine="numpy", work=_PASSES)
    found = fit_errors(learner, truth, inputs, for_examples=for_examples, for_learner=for_learner)
    return _capped(found["error"])


def broken_phase(run: Mapping[str, Any], usual: Mapping[str, float]) -> int | None:
    """The first phase whose error exceeds three times the usual one, or that ends the run; None if there is none."""
    errors = (
        (phase, error) for phase, error in run["errors"].items() if error is not None and phase in usual
    )
    broken = [int(phase) for phase, error in errors if error > BREAKS_AT * usual[phase]]
    return min([*broken, *([] if run["failed"] is None else [run["failed"]])], default=None)
