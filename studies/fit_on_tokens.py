"""One fit of a layer on tokens of a law: its error, and that of each of the six phases."""

from typing import Any

from numpy.random import Generator

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

__all__ = ["ADAM_STEPS", "LAWS", "fit_errors", "tokens_of"]

LAWS = {"boolean": "Boolean", "gaussian": "Gaussian", "sphere": "sphere", "slice": "slice"}
"""The laws of the tokens; slice tokens are Boolean with as many 1 as -1."""
ADAM_STEPS = 600
"""Each on a fresh batch."""

# where the trace of a run of the six phases has them
_TRACED = {
    "crude": (1, "sum_error"),
    "sampling": (1, "standard_error"),
    "refined": (3, "sum_error"),
    "span": (5, "span_error"),
}


def tokens_of(law: str, tokens: int, dim: int) -> Inputs:
    """The tokens of a law by its name in `LAWS`."""
    if law == "slice":
        return SliceInputs((dim,), ((dim // 2,),) * tokens)
    return {"boolean": BooleanInputs, "gaussian": GaussianInputs, "sphere": SphereInputs}[law](tokens, dim)


def fit_errors(
    rng: Generator, learner: str, layer: AttentionLayer, inputs: Inputs, examples: int
) -> dict[str, Any]:
    """The error on fresh tokens of the same law, the outcome, the examples drawn, and the errors of the six phases.

    Parameters
    ----------
    rng : Generator
        Draws the tokens and what the learner draws.
    learner : {"newton", "phases", "paper", "adam"}
        Newton from one start; the six phases in practical and in paper mode; Adam.
    layer : AttentionLayer
        The target.
    inputs : Inputs
        The tokens.
    examples : int
        The most that may be drawn.
    """
    for_truth, for_examples, for_learner = rng.spawn(3)
    truth = GroundTruth.draw(layer, inputs, 1000, rng=for_truth)
    chosen: Any = {
        "newton": lambda: Newton(layer.heads, examples=examples, starts=1, work=3000, engine="numpy"),
        "phases": lambda: SixPhase(layer.heads, examples=examples),
        "paper": lambda: SixPhase(layer.heads, mode="paper", examples=examples),
        "adam": lambda: Adam(layer.heads, work=ADAM_STEPS, batch=examples // ADAM_STEPS, learning_rate=0.01),
    }[learner]()
    phases = learner in ("phases", "paper")
    oracle = ExampleOracle(layer, inputs, rng=for_examples)
    fit = chosen.fit(oracle, rng=for_learner, truth=truth if phases else None)
    found: dict[str, Any] = {
        "error": truth.measure(predict=fit.predict)["relative_error"],
        "outcome": fit.outcome.name,
        "drawn": fit.examples_used,
    }
    if phases:
        found |= dict.fromkeys(_TRACED)
    for step in fit.trace if phases else ():
        found |= {
            name: step.measures.get(measure)
            for name, (phase, measure) in _TRACED.items()
            if step.phase == phase
        }
    return found
