"""One fit of a layer: its error on fresh examples, and the errors of the six phases if they ran."""

from typing import Any

import numpy as np
from numpy.random import Generator

from attention import ExampleOracle, GroundTruth, Inputs, Learner
from upper.six_phase import SixPhase

__all__ = ["fit_errors"]

# the places of the errors in the trace of a six-phase run
_TRACED = {
    "crude": (1, "sum_error"),
    "sampling": (1, "standard_error"),
    "refined": (3, "sum_error"),
    "span": (5, "span_error"),
}


def fit_errors(
    learner: Learner,
    truth: GroundTruth,
    inputs: Inputs,
    *,
    for_examples: Generator,
    for_learner: Generator,
    noise: float = 0.0,
) -> dict[str, Any]:
    """The error on fresh tokens of the same distribution.

    For the six phases also the errors of the crude sum, of its sampling, of the refined sum and of the span; None for
    phases that were not reached.

    Parameters
    ----------
    learner : Learner
        Fits the layer.
    truth : GroundTruth
        The target and the fresh tokens.
    inputs : Inputs
        The tokens of the examples.
    for_examples, for_learner : Generator
        Draw the examples and the learner's random choices.
    noise : float
        Standard deviation of the labels' noise, in units of their root mean square.
    """
    size = float(np.sqrt(np.mean(truth.y**2)))
    oracle = ExampleOracle(truth.layer, inputs, noise=noise * size, rng=for_examples)
    phases = isinstance(learner, SixPhase)
    fit = learner.fit(oracle, rng=for_learner, truth=truth if phases else None)
    errors: dict[str, Any] = {"error": truth.measure(predict=fit.predict)["relative_error"]}
    if phases:
        errors |= dict.fromkeys(_TRACED)
    for step in fit.trace if phases else ():
        errors |= {
            name: step.measures.get(measure)
            for name, (phase, measure) in _TRACED.items()
            if step.phase == phase
        }
    return errors
