"""One fit of a layer: its error on fresh examples, and the errors of the six phases if they ran."""

from typing import Any

import numpy as np
from numpy.random import Generator

from attention import ExampleOracle, GroundTruth, Inputs, Learner
from upper.six_phase import SixPhases


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
    fit = learner.fit(oracle, rng=for_learner)
    errors: dict[str, Any] = {"error": truth.measure(predict=fit.predict)["relative_error"]}
    if isinstance(fit.details, SixPhases):
        crude, refined, span = fit.details.crude_sum, fit.details.refined_sum, fit.details.span
        errors["crude"] = crude and crude.error(truth.attention)
        errors["sampling"] = crude and crude.standard_error
        errors["refined"] = refined and refined.error(truth.attention)
        errors["span"] = span and span.errors(truth.attention)["span_error"]
    return errors
