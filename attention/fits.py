"""What a learner returns: a trace of steps, and the fit; and the ground truth that measures both."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Shaped

from attention.block import Block, network_errors
from attention.errors import parameter_errors, relative_error, unknown_part_error
from attention.evaluation import CONFIDENCE, Predictor, percent
from attention.feed_forward import FeedForward
from attention.inputs import Inputs, Rng
from attention.layer import AttentionLayer, Layer
from attention.outcome import Outcome
from attention.rotary import RotaryLayer, distinct_frequencies, rotary_errors
from attention.validation import PositiveInt, checked
from attention.value_oracle import AnswerPrecision


@dataclass(frozen=True)
class Step:
    """One record of a trace: a phase or step, the cost of the fit up to its end, and what was measured."""

    name: str  #: the step; a step of a phase is named as in the paper where the paper names it
    examples: int  #: examples drawn since the fit began
    seconds: float  #: seconds since the fit began, without the time for measuring
    #: what the step measured, floats or tuples of floats; with ground truth at least ``relative_error`` and
    #: ``unknown_part_error``
    measures: Mapping[str, Any] = field(default_factory=dict)
    phase: int | None = None  #: the number of the phase, for a learner that has phases
    #: the engine, such as "numpy" or "torch cuda:0 bfloat16", for a learner with several; else empty
    engine: str = ""
    #: the layer at this step, if there is one. Only `progress` gets it; a trace does not keep it, since
    #: the layers of all steps take much memory
    layer: Layer | Block | None = field(default=None, repr=False, compare=False)

    @property
    def title(self) -> str:
        """The name for a reader, with its phase if it has one."""
        return self.name if self.phase is None else f"Phase {self.phase}: {self.name}"

    def to_json(self) -> dict[str, Any]:
        """The numbers as JSON values, without the layer."""
        values = {name: getattr(self, name) for name in ("name", "examples", "seconds")}
        values["measures"] = dict(self.measures)
        if self.phase is not None:
            values["phase"] = self.phase
        return values | {"engine": self.engine} if self.engine else values


Progress = Callable[[Step], None]


@dataclass(frozen=True, repr=False)
class Fit:
    """What a learner returns; its text is the sentence of the outcome and a line of counts."""

    predict: Predictor  #: maps token matrices (n, k, d) to predicted labels (n, k, d)
    layer: Layer | Block | None  #: the fitted layer or block; None for improper learners
    outcome: Outcome  #: how it ended, as a sentence
    examples_used: int  #: examples drawn from the oracle
    seconds: float  #: wall-clock seconds, without measuring against ground truth
    trace: tuple[Step, ...] = ()  #: one record per phase or step
    #: the part of the learner that did all the work because the others found nothing, such as "Newton" in
    #: the six phases; else empty
    alone: str = ""
    #: about how many examples the learner needs, if it had fewer and did not succeed
    examples_needed: int | None = None
    #: what the oracle counts, "example" or "query": what is drawn, held out and spent
    counted: Literal["example", "query"] = "example"
    held_out_error: float = math.nan  #: the relative error on the examples held out; NaN if none were
    #: of a success, the upper confidence bound on its error rate: with confidence .95, the fit is worse than on all
    #: held-out examples on at most this share of inputs, drawn as those were. Inputs on which the fitted examples
    #: determine every layer, by a symmetry or as all tokens are equal, count neither as held out nor in the share
    error_rate_bound: float | None = None
    precision: AnswerPrecision | None = None  #: how exact the answers to value queries were
    #: what the learner found besides its layer, in a type of its own, such as `upper.six_phase.SixPhases`
    details: Any = field(default=None, compare=False)

    @property
    def explanation(self) -> str:
        """The sentence of the outcome, which says queries where those were counted."""
        return self.outcome.sentence(self.counted)

    @property
    def engine(self) -> str:
        """The engine, such as "numpy" or "torch cpu bfloat16"; empty for a learner without a choice."""
        return next((step.engine for step in reversed(self.trace) if step.engine), "")

    def __repr__(self) -> str:
        return f"<Fit: {self.outcome.name}, {self._counts()}>"

    def __str__(self) -> str:
        lines = [self.explanation, f"  {self._counts()}"]
        if self.error_rate_bound is not None:
            share = percent(self.error_rate_bound)
            lines.append(f"  wrong on at most {share} of inputs, with confidence {CONFIDENCE:g}")
        if self.precision is not None:
            lines.append(f"  answers: {self.precision}")
        return "\n".join(lines)

    def _counts(self) -> str:
        heads = "no layer" if self.layer is None else _plural(self.layer.heads, "head")
        examples, steps = _plural(self.examples_used, self.counted), _plural(len(self.trace), "step")
        by = f", by {self.alone} alone" if self.alone else ""
        if self.examples_needed is not None:
            examples += f" of about {self.examples_needed} needed"
        return f"{heads}, {examples}, {self.seconds:.2f} seconds, {steps} in the trace{by}"


def _plural(number: int, noun: str) -> str:
    several = noun.removesuffix("y") + "ies" if noun.endswith("y") else noun + "s"
    return f"{number} {noun if number == 1 else several}"


@dataclass(frozen=True, eq=False)
@checked
class GroundTruth:
    """The target, its known part and fresh inputs, to measure errors; a learner never learns from them.

    Parameters
    ----------
    layer : AttentionLayer, RotaryLayer, Block or FeedForward
        The target.
    x : array (n, k, d)
        Fresh inputs, drawn independently of every oracle.
    known : callable, optional
        The part of the target known in advance; zero for nice layers.
    """

    layer: Layer | Block | FeedForward
    x: Shaped[Any, "n k d"]
    known: Predictor | None = None

    def __post_init__(self) -> None:
        if self.x.shape[2] != self.layer.dim:
            raise ValueError(
                f"x has {self.x.shape[2]} coordinates: {self.layer.dim}, those of the layer, are needed."
            )

    @classmethod
    @checked
    def draw(
        cls,
        layer: Layer | Block | FeedForward,
        inputs: Inputs,
        n: PositiveInt = 2000,
        *,
        known: Predictor | None = None,
        rng: Rng = None,
    ) -> "GroundTruth":
        """Ground truth on `n` fresh inputs."""
        return cls(layer=layer, x=inputs.sample(n, rng=rng), known=known)

    @cached_property
    def attention(self) -> Layer:
        """The target, or of a block its attention, centred."""
        if isinstance(self.layer, FeedForward):
            raise ValueError(f"{self.layer!r} has no attention: a layer or a block is needed.")
        return _attention(self.layer)

    @cached_property
    def y(self) -> Float[np.ndarray, "n k d"]:
        """The target's outputs on `x`."""
        return self.layer(self.x)

    @cached_property
    def y_known(self) -> Float[np.ndarray, "n k d"] | None:
        """The known part on `x`; None for zero."""
        return None if self.known is None else np.asarray(self.known(self.x))

    @checked
    def measure(
        self, *, predict: Predictor | None = None, layer: Layer | Block | None = None
    ) -> dict[str, float]:
        """Errors of a predictor or a layer: relative and on the unknown part; for a layer, also of its parameters.

        ``theta_error`` and ``w_error`` are errors of the worst head, with heads matched by the Hungarian algorithm.
        They are given only if both layers have the same shape; ``key_bias_error`` and ``bias_error`` only if one of
        them has biases. Of layers with rotary positions, ``score_error``, of the worst score map, takes the place of
        Theta's and c's. Of blocks they are those of the attention, ``network_error`` is that of the worst neuron, and
        ``norm_error`` that of the worst gain and offset behind the sums.
        """
        predict = layer if predict is None else predict
        measures: dict[str, float] = {}
        if predict is not None:
            predicted = np.asarray(predict(self.x), dtype=np.float64)
            measures["relative_error"] = relative_error(predicted, self.y)
            measures["unknown_part_error"] = unknown_part_error(predicted, self.y, self.y_known)
        if (
            layer is not None
            and not isinstance(self.layer, FeedForward)
            and (layer.heads, layer.dim) == (self.layer.heads, self.layer.dim)
        ):
            measures |= _parameter_measures(_attention(layer), _attention(self.layer))
        if isinstance(layer, Block) and isinstance(self.layer, Block):
            blocks = layer.centred(), self.layer.centred()
            fitted, true = (block.network for block in blocks)
            if (fitted.width, fitted.activation, fitted.residual) == (
                true.width,
                true.activation,
                true.residual,
            ):
                of_network = network_errors(fitted, true)
                measures["network_error"] = float(np.max([of_network.w1, of_network.w2, of_network.b1]))
            if not any(block.norms is None or block.norm_first for block in blocks):
                norms, true_norms = ([[n.gain, n.offset] for n in block.norms or ()] for block in blocks)
                measures["norm_error"] = max(map(relative_error, np.array(norms), np.array(true_norms)))
        return measures


def _attention(layer: Layer | Block) -> Layer:
    return layer.centred().layer if isinstance(layer, Block) else layer


def _parameter_measures(layer: Layer, truth: Layer) -> dict[str, float]:
    """The errors of two layers of one kind and shape; none if they do not compare."""
    biased = layer.biased or truth.biased
    if isinstance(layer, AttentionLayer) and isinstance(truth, AttentionLayer):
        errors = parameter_errors(layer, truth)
        measures = {"theta_error": float(errors.theta.max()), "w_error": float(errors.w.max())}
        biases = {"key_bias_error": float(errors.key_bias.max()), "bias_error": errors.bias}
        return measures | biases if biased else measures
    if not (isinstance(layer, RotaryLayer) and isinstance(truth, RotaryLayer)):
        return {}
    if not np.array_equal(*(np.sign(distinct_frequencies(one)) for one in (layer, truth))):
        return {}
    rotary = rotary_errors(layer, truth)
    measures = {"score_error": float(rotary.score_maps.max()), "w_error": float(rotary.w.max())}
    return measures | {"bias_error": rotary.bias} if biased else measures
