"""Any learner of attention layers as an attack: it is given the samples as examples of the layer that has them."""

from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float, Int

from attention import AttentionLayer, GroundTruth, Learner
from attention.learning import Predictor
from attention.validation import random_generator
from lwe.attack import AttackOutcome, AttackResult, BudgetSpentError
from lwe.attacks.sample_oracle import SampleOracle
from lwe.attacks.tokens import examples_of_samples, labels_of_outputs, realised
from lwe.attempt import Attempt, BaseAttack
from lwe.parameters import LWRParameters
from lwe.samples import LWRSamples

__all__ = ["LabelReader", "LearnerAttack"]

_READINGS = 8


@dataclass(frozen=True)
class LearnerAttack(BaseAttack):
    """Hand the samples to a learner as labelled token matrices, and read its predictions back as labels.

    Applies where heads realise the samples: binary, ternary and gadget matrices, and uniform ones modulo a power of
    two, whose rows are written in bits.

    Parameters
    ----------
    learner : Learner
        Any learner of `attention.Learner`'s protocol; its own budget in examples is its own matter.
    on_gate_only : bool
        Whether examples off the gate, where outputs are 0 whatever the secret, are left out. A learner whose theorem
        is for uniform signs needs them, as many as of the others.

    Raises
    ------
    ValueError
        If it is no learner.

    Notes
    -----
    The two tokens differ in the coordinates where the row has ones, and in the gate; the first token is random, so a
    sample is another example each time it is used, and there is no end of them (`SampleOracle`). The prediction of a
    row is the mean over eight first tokens of what both outputs stand for, rounded to the nearest label.

    The seconds of the budget are looked at with each step that the learner records and each draw. What it recorded last
    is judged then: BUDGET_SPENT only if that predicts nothing.

    The complexity is the learner's, on examples of two tokens in n + 1 coordinates.

    References
    ----------
    Derived here; see `lwe.lwr_instance` for the layer.

    Examples
    --------
    An attack handed in as a learner, so the samples go through token matrices and back:

    >>> from lwe.attacks.as_learner import AttackLearner
    >>> from lwe.attacks.exhaustive import ExhaustiveAttack
    >>> from lwe.samples import make_samples
    >>> parameters = LWRParameters(secret_dim=6, modulus=8, levels=2)
    >>> samples, _ = make_samples(parameters, 500, rng=0)
    >>> result = LearnerAttack(AttackLearner(ExhaustiveAttack(), parameters))(samples, parameters, rng=0)
    >>> result.attack, result.outcome.name, result.details["fit"]
    ('learner AttackLearner', 'BROKEN', 'EXACT')
    """

    learner: Learner
    on_gate_only: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.learner, type) or not isinstance(self.learner, Learner):
            raise ValueError(f"learner is {self.learner!r}: examples, minimum_examples and fit are needed.")

    @property
    def name(self) -> str:
        """What learns."""
        return f"learner {type(self.learner).__name__}"

    def run(self, attempt: Attempt, generator: np.random.Generator) -> AttackResult:
        """Make examples, let it learn, and read its predictions."""
        parameters = realised(attempt.parameters)
        if parameters is None:
            return attempt.ended(
                AttackOutcome.NOT_APPLICABLE,
                f"No heads realise uniform rows mod {attempt.parameters.modulus}, which is no power of two.",
            )
        number, kind = len(attempt.training), type(self.learner).__name__
        distinct = number if self.on_gate_only else 2 * number
        least = self.learner.minimum_examples(2, parameters.dim)
        if distinct < least:
            return attempt.ended(
                AttackOutcome.TOO_FEW_SAMPLES,
                f"The {number} samples give {distinct} examples; {kind} needs {least}.",
            )

        def before_draw(examples: int) -> None:
            attempt.check()
            attempt.require_memory(32 * examples * parameters.dim, f"{examples} examples of two tokens")

        oracle = SampleOracle(
            attempt.training,
            parameters,
            rng=generator,
            on_gate_only=self.on_gate_only,
            before_draw=before_draw,
        )
        last = _LastRecorded.of(parameters.dim)
        try:
            fit = self.learner.fit(oracle, rng=generator, truth=last, progress=lambda step: attempt.check())
            predict, ending, said = fit.predict, fit.outcome.name, str(fit.outcome)
        except BudgetSpentError as spent:
            if last.predictor is None:
                raise
            predict, ending, said = last.predictor, "STOPPED", f"{spent} This is what it had by then."
        except ImportError as error:
            return attempt.ended(AttackOutcome.MISSING, str(error))
        except ValueError as error:
            return attempt.ended(AttackOutcome.FAILED, f"The learner refused the examples: {error}")
        attempt.details |= {"fit": ending, "examples": oracle.drawn}
        result = attempt.predicts(
            LabelReader(predict, parameters, seed=int(generator.integers(1 << 62))),
            f"{kind} on {oracle.drawn} examples of {number} samples: {said}",
        )
        if ending == "STOPPED" and not result.outcome.succeeded:
            return replace(result, outcome=AttackOutcome.BUDGET_SPENT)
        return result


@dataclass(frozen=True, eq=False)
class _LastRecorded(GroundTruth):
    """In the place of ground truth, which an attack has none of: keeps the last predictor instead of measuring it."""

    kept: list[Predictor] = field(default_factory=list)

    @classmethod
    def of(cls, dim: int) -> "_LastRecorded":
        """With a layer that stands for the target: what a learner measures against it is passed over."""
        unit = np.eye(dim)[None]
        return cls(layer=AttentionLayer(theta=unit, w=unit), x=np.zeros((1, 2, dim)))

    @property
    def predictor(self) -> Predictor | None:
        """The last one recorded."""
        return self.kept[-1] if self.kept else None

    def measure(
        self, *, predict: Predictor | None = None, layer: AttentionLayer | None = None
    ) -> dict[str, float]:
        """Nothing."""
        found = layer if predict is None else predict
        if found is not None:
            self.kept[:] = [found]
        return {}


@dataclass(frozen=True, eq=False)
class LabelReader:
    """Labels of rows as a predictor of outputs has them, over eight random first tokens; `values` before rounding."""

    predict: Predictor
    parameters: LWRParameters
    seed: int

    def values(self, public: Int[np.ndarray, "N n"]) -> Float[np.ndarray, " N"]:
        """Real numbers in [0, p - 1]."""
        samples = LWRSamples(public, np.zeros(len(public), dtype=np.int64))
        generator, total = random_generator(self.seed), np.zeros(len(public))
        for _ in range(_READINGS):
            x, _ = examples_of_samples(samples, self.parameters, rng=generator, on_gate_only=True)
            total += labels_of_outputs(x, np.asarray(self.predict(x), dtype=np.float64), self.parameters)
        return total / _READINGS

    def __call__(self, public: Int[np.ndarray, "N n"]) -> Int[np.ndarray, " N"]:
        """The nearest labels."""
        return np.rint(self.values(public)).astype(np.int64)
