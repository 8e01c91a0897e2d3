"""Any learner of attention layers as an attack, and any attack as a learner, so that both can be compared."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from attention import (
    AttentionLayer,
    Block,
    ExampleOracle,
    Fit,
    GroundTruth,
    Learner,
    Outcome,
    Recorder,
    draw_examples,
)
from attention.evaluation import CONFIDENCE, Predictor, Verdict, orbits, verdict
from attention.layer import Layer
from attention.learning import Access, LearnerBase
from attention.validation import PositiveInt, checked, random_generator
from lwe.attacks.attack import Attack, AttackEndedError, AttackOutcome, AttackResult, Attempt, Budget, Finding
from lwe.costs.deviations import deviations
from lwe.heads import lwr_heads
from lwe.parameters import LWEParameters, covariate_form
from lwe.samples import LWRSamples
from lwe.tokens import (
    SampleOracle,
    labels_of_outputs,
    outputs_of_labels,
    realised,
    rows_of_tokens,
    samples_from_examples,
    token_examples,
)

_READINGS = 8
_EXAMPLES = 20_000
_MOST_NUMBERS = 1 << 24
_MOST_HEADS = 64
_SURPLUS_BITS = 10  # bits of labels beyond those of the secret: a wrong secret passes with probability 2^-10
_TOLERANCE = 1e-3  # an output farther from the pattern of labels means another kind of layer


@dataclass(frozen=True)
@checked
class LearnerAttack(Attack):
    """Hand the samples to a learner as labelled token matrices, and read its predictions back as labels.

    Applies where heads realise the samples: binary, ternary and gadget matrices, and uniform ones modulo a power of
    two, whose rows are written in bits.

    Notes
    -----
    The two tokens differ in the coordinates where the row has ones, and in the gate. The first token is random, so each
    use of a sample gives a new example, without end (`SampleOracle`). The prediction for a row is the mean, over eight
    first tokens, of the labels that both outputs stand for, rounded to the nearest label. See `lwe.LWRFamily` for the
    layer.

    The budget's seconds are checked at each step that the learner records and at each draw. When they are spent, the
    last recorded predictor is judged: BUDGET_SPENT only if it predicts nothing.

    Examples
    --------
    An attack handed in as a learner, so the samples go through token matrices and back:

    >>> from lwe import ExhaustiveAttack, make_samples
    >>> parameters = LWEParameters(n=6, q=8, p=2)
    >>> samples, _ = make_samples(parameters, 500, rng=0)
    >>> result = LearnerAttack(AttackLearner(ExhaustiveAttack(), parameters))(samples, parameters, rng=0)
    >>> result.outcome.name, result.details["fit"]
    ('BROKEN', 'EXACT')
    """

    #: Any learner with the protocol of `attention.Learner`, or a function that makes one with so many heads. The
    #: learner manages its own budget in examples.
    learner: Learner | Callable[[int], Learner]
    #: Whether to leave out examples off the gate, where outputs are 0 whatever the secret. A learner whose theorem
    #: assumes uniform signs needs them, as many as examples on the gate.
    on_gate_only: bool = True
    name: str = "learner"

    def __post_init__(self) -> None:
        if isinstance(self.learner, type):
            raise ValueError(f"learner is the class {self.learner.__name__}: an instance of it is needed.")

    def run(self, attempt: Attempt, rng: np.random.Generator) -> Iterator[Finding]:
        """Make examples, let it learn, and read its predictions."""
        parameters = realised(attempt.parameters)
        if attempt.samples.rounding != "down":
            raise AttackEndedError(
                AttackOutcome.NOT_APPLICABLE,
                "The labels of heads are rounded down, and these are rounded to the nearest.",
            )
        if parameters is None:
            raise AttackEndedError(
                AttackOutcome.NOT_APPLICABLE,
                f"No heads realise uniform rows mod {attempt.parameters.q}, which is no power of two.",
            )
        learner = self.learner(trainable_heads(parameters)) if callable(self.learner) else self.learner
        number, kind = len(attempt.training), type(learner).__name__
        distinct = number if self.on_gate_only else 2 * number
        least = learner.minimum_examples(2, parameters.dim)
        if distinct < least:
            raise AttackEndedError(
                AttackOutcome.TOO_FEW_SAMPLES,
                f"The {number} samples give {distinct} examples; {kind} needs {least}.",
            )

        def check(number: int) -> None:
            attempt.check()
            attempt.require_memory(32 * number * parameters.dim, f"{number} examples of two tokens")

        oracle = SampleOracle(
            attempt.training, parameters, rng=rng, on_gate_only=self.on_gate_only, check=check
        )
        unit = np.eye(parameters.dim)[None]
        last = _LastRecorded(AttentionLayer(theta=unit, w=unit), np.zeros((1, 2, parameters.dim)))
        stopped: AttackEndedError | None = None
        try:
            fit = learner.fit(oracle, rng=rng, truth=last, progress=lambda step: attempt.check())
            predict, ending, words = fit.predict, fit.outcome.name, str(fit.outcome)
        except AttackEndedError as ended:
            if not last.predictors:
                raise
            stopped, predict, ending, words = ended, last.predictors[-1], "STOPPED", "it was not done."
        except ImportError as error:
            raise AttackEndedError(AttackOutcome.MISSING, str(error)) from None
        except ValueError as error:
            raise AttackEndedError(
                AttackOutcome.FAILED, f"The learner refused the examples: {error}"
            ) from None
        attempt.details.update({"fit": ending, "examples": oracle.drawn})
        values = label_values(predict, parameters, seed=int(rng.integers(1 << 62)))
        yield Finding(
            f"{kind} on {oracle.drawn} examples of {number} samples: {words}",
            predict=lambda public: np.rint(values(public)).astype(np.int64),
        )
        if stopped is not None:
            raise stopped


@dataclass(frozen=True)
@checked
class AttackLearner(LearnerBase):
    """Learn a layer whose outputs are learning-with-rounding labels by attacking them.

    Notes
    -----
    It predicts the layer's ideal outputs. EXACT if they match all examples, held-out samples included, to 1e-10;
    REACHED_TOLERANCE if to 1e-3; UNCONFIRMED if the labels have fewer than ten bits more than the secret;
    NOISE_FLOOR if the labels are predicted as well as their noise allows; WORK_SPENT if the attack's limits are
    reached (there is no time limit); EXAMPLES_SPENT or EXAMPLES_RAN_OUT if there are too few samples; NOT_APPLICABLE if
    the examples are not two tokens of signs with outputs of the pattern; LOCAL_MINIMUM if the attack found nothing or
    only a partial prediction. Without success it predicts what was found, or 0. The fit has a layer if a secret was
    found and its heads take at most 2^24 numbers. Derived here.

    Examples
    --------
    >>> from attention import ExampleOracle
    >>> from lwe import ExhaustiveAttack, LWRFamily
    >>> instance = LWRFamily(n=8, q=4, p=2).instance(rng=0)
    >>> parameters = LWEParameters(n=8, q=4, p=2)
    >>> learner = AttackLearner(ExhaustiveAttack(), parameters, examples=500)
    >>> learner.fit(ExampleOracle(instance.layer, instance.inputs, rng=1), rng=0).outcome.name
    'EXACT'
    """

    access: ClassVar[Access] = "samples of rounding"

    attack: Attack  #: the attack
    parameters: LWEParameters  #: what is known of the layer in advance: all but its secret
    #: The budget in examples; if left out, 20000, or all given examples. About half of them are on the gate, and each
    #: of those is a sample.
    examples: PositiveInt | None = None

    def __post_init__(self) -> None:
        if self.parameters.matrix == "uniform":
            raise ValueError(
                f"{self.parameters} has a uniform matrix, which no heads realise: take matrix='gadget' with q a power "
                "of two."
            )

    def minimum_examples(self, tokens: int, dim: int) -> int:
        """D + 10: fewer may hold fewer than five samples, and cannot determine d - 1 entries."""
        return dim + 10

    def _learn(
        self, oracle: ExampleOracle, recorder: Recorder, budget: int | None, rng: np.random.Generator
    ) -> Fit:
        number = _EXAMPLES if budget is None else budget
        x, y = draw_examples(oracle, max(number, self.minimum_examples(oracle.tokens, oracle.dim)))
        recorder.step("Draw examples", predict=np.zeros_like)
        try:
            samples = samples_from_examples(x, y, self.parameters, allowed_error=_TOLERANCE)
        except ValueError:
            return recorder.fit(Outcome.NOT_APPLICABLE, predict=np.zeros_like)
        spent = Outcome.EXAMPLES_RAN_OUT if oracle.remaining == 0 else Outcome.EXAMPLES_SPENT
        if len(samples) < 5:
            return recorder.fit(spent, predict=np.zeros_like)
        result = self.attack(samples, self.parameters, rng=rng, budget=Budget(seconds=None))
        if result.outcome is AttackOutcome.MISSING:
            raise ImportError(result.explanation)
        predict = np.zeros_like if result.predict is None else _ideal_outputs(result.predict, self.parameters)
        worst = float(np.abs(predict(x) - y).max())
        layer = self._layer(result)
        accuracy = 0.0 if result.accuracy is None else result.accuracy
        recorder.step("Attack", predict=predict, layer=layer, largest_error=worst, fresh_accuracy=accuracy)
        ended: Outcome | Verdict = {
            AttackOutcome.TOO_FEW_SAMPLES: spent,
            AttackOutcome.BUDGET_SPENT: Outcome.WORK_SPENT,
            AttackOutcome.REFUSED: Outcome.WORK_SPENT,
            AttackOutcome.NOT_APPLICABLE: Outcome.NOT_APPLICABLE,
            # some labels remain wrong: because of noise, or because training labels were not all learned
            AttackOutcome.BROKEN: Outcome.NOISE_FLOOR if self.parameters.noisy else Outcome.LOCAL_MINIMUM,
        }.get(result.outcome, Outcome.LOCAL_MINIMUM)
        if result.outcome is AttackOutcome.BROKEN and worst <= _TOLERANCE:
            ended = verdict(
                fitted=worst,
                held_out=worst,
                evidence=_evidence(samples, self.parameters),
                otherwise=spent,
                tolerance=_TOLERANCE,
            )
        return recorder.fit(ended, predict=predict, layer=layer)

    def _layer(self, result: AttackResult) -> AttentionLayer | None:
        if result.secret is None:
            return None
        parameters = self.parameters
        form = covariate_form(result.secret, parameters)
        heads = 2 * parameters.p * float(np.abs(form).sum()) / parameters.q + 4
        if heads * parameters.dim**2 > _MOST_NUMBERS:
            return None
        return lwr_heads(form, parameters).layer()


def label_values(
    predict: Predictor, parameters: LWEParameters, *, seed: int
) -> Callable[[np.ndarray], np.ndarray]:
    """Labels of rows in [0, p - 1] from a predictor of outputs: the mean over eight random first tokens."""

    def values(public: np.ndarray) -> np.ndarray:
        gate, labels = np.ones(len(public), dtype=bool), np.zeros(len(public), dtype=np.int64)
        generator, total = random_generator(seed), np.zeros(len(public))
        for _ in range(_READINGS):
            x, _ = token_examples(gate, public, labels, parameters, rng=generator)
            total += labels_of_outputs(x, np.asarray(predict(x), dtype=np.float64), parameters)
        return total / _READINGS

    return values


def trainable_heads(parameters: LWEParameters) -> int:
    """More heads than the layer has on average, p E|v|_1 / q and two pads, but no more than a learner can train."""
    size = 0.25 if parameters.gadget else min(0.25, deviations(parameters).secret / parameters.q)
    return min(_MOST_HEADS, max(16, math.ceil(1.25 * parameters.p * parameters.covariates * size) + 4))


@dataclass(frozen=True, eq=False)
class _LastRecorded(GroundTruth):
    """A substitute for the ground truth, which an attack does not have: it keeps the last predictor."""

    predictors: list[Predictor] = field(default_factory=list)

    def measure(
        self, *, predict: Predictor | None = None, layer: Layer | Block | None = None
    ) -> dict[str, float]:
        """Nothing."""
        predictor = layer if predict is None else predict
        if predictor is not None:
            self.predictors[:] = [predictor]
        return {}


def _ideal_outputs(predict: Callable[[np.ndarray], np.ndarray], parameters: LWEParameters) -> Predictor:
    def outputs(x: np.ndarray) -> np.ndarray:
        rows, _ = rows_of_tokens(x, parameters)
        return outputs_of_labels(np.asarray(x, dtype=np.float64), predict(rows), parameters)

    return outputs


def _evidence(samples: LWRSamples, parameters: LWEParameters) -> int:
    """How many held-out samples vouch for a secret as much as all samples do, which may have found it; 0 for too few.

    Of S secrets, one that is wrong on a share q of rows fits n samples with probability at most S (1 - q)^n. That is
    .05 at 1 - q = (.05 / S)^(1/n), the bound of n log(.05) / log(.05 / S) held-out samples.
    """
    rows = len(np.unique(orbits(samples.public[:, None].astype(np.float64))))
    secrets = parameters.n * np.log(parameters.q)
    # copies and negated rows add no bits to those of the secret
    if rows * np.log(parameters.p) - secrets < _SURPLUS_BITS * np.log(2):
        return 0
    miss = np.log(1 - CONFIDENCE)
    return int(len(samples) * miss / (miss - secrets))
