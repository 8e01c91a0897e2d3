"""What the study of token laws measures: Newton, the six phases and Adam on the same layers and other tokens."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from arena.studies._noise_measures import phase_errors
from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    GaussianInputs,
    GroundTruth,
    Inputs,
    SliceInputs,
    SphereInputs,
)
from upper import Adam, Newton
from upper.six_phase import SixPhase

__all__ = ["EXACT", "LAWS", "fitted", "tokens_of"]

LAWS = {"boolean": "Boolean", "gaussian": "Gaussian", "sphere": "sphere", "slice": "slice"}
"""The laws of the tokens; slice tokens are Boolean with as many 1 as -1."""
EXACT = 1e-6
"""The relative error on fresh tokens below which a fit is called exact."""
_FRESH = 1000
_STEPS = 600  # of Adam
_WORK = 3000  # passes of Newton


def tokens_of(law: str, tokens: int, dim: int) -> Inputs:
    """The tokens of a law by its name in `LAWS`."""
    if law == "slice":
        return SliceInputs((dim,), ((dim // 2,),) * tokens)
    kinds: Mapping[str, Callable[..., Inputs]] = {
        "boolean": BooleanInputs,
        "gaussian": GaussianInputs,
        "sphere": SphereInputs,
    }
    return kinds[law](tokens, dim)


def fitted(
    rng: np.random.Generator, learner: str, layer: AttentionLayer, inputs: Inputs, examples: int
) -> Mapping[str, Any]:
    """One fit of one layer from so many examples, and its error on fresh tokens of the same law."""
    for_truth, for_examples, for_learner = rng.spawn(3)
    truth = GroundTruth.draw(layer, inputs, _FRESH, rng=for_truth)
    chosen: Any = {
        "newton": lambda: Newton(layer.heads, examples=examples, starts=1, work=_WORK, engine="numpy"),
        "phases": lambda: SixPhase(layer.heads, examples=examples),
        "paper": lambda: SixPhase(layer.heads, mode="paper", examples=examples),
        "adam": lambda: Adam(layer.heads, work=_STEPS, batch=examples // _STEPS, learning_rate=0.01),
    }[learner]()
    phases = learner in ("phases", "paper")
    oracle = ExampleOracle(layer, inputs, rng=for_examples)
    fit = chosen.fit(oracle, rng=for_learner, truth=truth if phases else None)
    found: dict[str, Any] = {
        "error": truth.measure(predict=fit.predict)["relative_error"],
        "outcome": fit.outcome.name,
        "drawn": fit.examples_used,
    }
    return found | phase_errors(fit) if phases else found
