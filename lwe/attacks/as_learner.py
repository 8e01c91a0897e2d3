"""Any attack as a learner of attention layers, so that both stand in one comparison."""

from dataclasses import dataclass, field

import numpy as np

from attention import (
    AttentionLayer,
    ExampleOracle,
    Fit,
    GroundTruth,
    Outcome,
    Recorder,
    check_budget,
    draw_examples,
)
from attention.evaluation import orbits, verdict
from attention.inputs import Rng
from attention.learning import Progress
from attention.validation import count, non_negative, require_callable, require_instance
from lwe.attack import Attack, AttackOutcome, AttackResult, Budget, LabelPredictor
from lwe.attacks.tokens import labels_of_outputs, outputs_of_labels, rows_of_tokens
from lwe.heads import lwr_layer, lwr_staircase
from lwe.parameters import LWRParameters, covariate_form, require_parameters
from lwe.samples import LWRSamples

__all__ = ["AttackLearner", "LabelOutputs"]

_EXAMPLES = 20_000
_MOST_NUMBERS = 1 << 24
# Bits of labels beyond those of the secret: a wrong one has them all with probability 2^-10.
_SURPLUS_BITS = 10

_OUTCOMES = {
    AttackOutcome.BUDGET_SPENT: Outcome.WORK_SPENT,
    AttackOutcome.REFUSED: Outcome.WORK_SPENT,
    AttackOutcome.NOT_APPLICABLE: Outcome.NOT_APPLICABLE,
    AttackOutcome.BROKEN: Outcome.RESIDUAL_FLOOR,  # the labels that remain wrong are noise
}


@dataclass(frozen=True)
class AttackLearner:
    """Learn a layer whose outputs are learning-with-rounding labels by attacking them.

    Parameters
    ----------
    attack : Attack
        The attack.
    parameters : LWRParameters
        What is known of the layer in advance: all but its secret.
    examples : int, optional
        The budget in examples; 20000 if left out, and all that are given. About half of them are on the gate, and each
        of those is a sample.
    budget : Budget
        Of the attack. By default no seconds, so that results do not depend on the machine: limit the work of an
        attack by its own options.
    tolerance : float
        How far an output may be off the pattern of labels before the layer counts as another kind.

    Raises
    ------
    ValueError
        If a number is out of its range, or no heads realise the parameters.

    Notes
    -----
    It predicts the layer's ideal outputs. EXACT if they are all examples' to 1e-10 and held-out samples were among
    them, REACHED_TOLERANCE if to the tolerance, UNCONFIRMED if their labels hold fewer than ten bits more than the
    secret; RESIDUAL_FLOOR if the labels are predicted as well as
    their noise allows; WORK_SPENT if the budget is; EXAMPLES_SPENT or EXAMPLES_RAN_OUT if samples are too few;
    NOT_APPLICABLE if the examples are not two tokens of signs with outputs of the pattern; LOCAL_MINIMUM if the
    attack found nothing, or predicts only in part. Without success it predicts what it has, or 0.

    The layer is given where a secret was found and its heads take at most 2^24 numbers.

    References
    ----------
    Derived here.

    Examples
    --------
    >>> from attention import ExampleOracle
    >>> from lwe import make_lwr_instance
    >>> from lwe.attacks.exhaustive import ExhaustiveAttack
    >>> instance = make_lwr_instance(secret_dim=8, modulus=4, levels=2, rng=0)
    >>> parameters = LWRParameters(secret_dim=8, modulus=4, levels=2)
    >>> learner = AttackLearner(ExhaustiveAttack(), parameters, examples=500)
    >>> learner.fit(ExampleOracle(instance.layer, instance.inputs, rng=1), rng=0).outcome.name
    'EXACT'
    """

    attack: Attack
    parameters: LWRParameters
    examples: int | None = None
    budget: Budget = field(default_factory=lambda: Budget(seconds=None))
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        require_parameters(self.parameters)
        require_instance("budget", self.budget, Budget, needed="a Budget")
        require_callable("The run of the attack", getattr(self.attack, "run", None), needed="an attack")
        if self.parameters.matrix == "uniform":
            raise ValueError(
                f"{self.parameters} has a uniform matrix, which no heads realise: take matrix='gadget' with q a power "
                "of two."
            )
        if self.examples is not None:
            object.__setattr__(self, "examples", count("examples", self.examples))
        object.__setattr__(self, "tolerance", non_negative("tolerance", self.tolerance, strictly=True))
        if self.tolerance >= 0.5:
            raise ValueError(
                f"tolerance is {self.tolerance}: below 1/2, half the distance of labels, is needed."
            )

    def minimum_examples(self, k: int, d: int) -> int:
        """D + 10: fewer cannot hold five samples for sure, nor determine d - 1 entries."""
        return d + 10

    def fit(
        self,
        oracle: ExampleOracle,
        *,
        rng: Rng = None,
        truth: GroundTruth | None = None,
        progress: Progress | None = None,
    ) -> Fit:
        """Draw examples, read them as samples, attack.

        Parameters
        ----------
        oracle, rng, truth, progress
            As in `attention.Learner`.

        Raises
        ------
        ValueError
            If the examples are too few, misshapen or not finite.
        ImportError
            If a package that the attack needs is not installed.
        """
        recorder = Recorder(oracle, truth=truth, progress=progress)
        budget = check_budget(self, oracle)
        number = _EXAMPLES if budget is None else budget
        x, y = draw_examples(oracle, max(number, self.minimum_examples(oracle.k, oracle.d)))
        recorder.step("Draw examples", predict=np.zeros_like)
        samples = self._samples(x, y)
        if samples is None:
            return recorder.fit(Outcome.NOT_APPLICABLE, predict=np.zeros_like)
        spent = Outcome.EXAMPLES_RAN_OUT if oracle.remaining == 0 else Outcome.EXAMPLES_SPENT
        if len(samples) < 5:
            return recorder.fit(spent, predict=np.zeros_like)
        result = self.attack(samples, self.parameters, rng=rng, budget=self.budget)
        if result.outcome is AttackOutcome.MISSING:
            raise ImportError(result.explanation)
        predict = np.zeros_like if result.predict is None else LabelOutputs(result.predict, self.parameters)
        worst = float(np.abs(predict(x) - y).max())
        layer = self._layer(result)
        accuracy = 0.0 if result.accuracy is None else result.accuracy
        recorder.step("Attack", predict=predict, layer=layer, largest_error=worst, fresh_accuracy=accuracy)
        if result.predict is not None and result.outcome is AttackOutcome.BROKEN and worst <= self.tolerance:
            outcome = verdict(
                fitted=worst,
                held_out=worst,
                evidence=lambda: _surplus_bits(samples, self.parameters),
                enough=_SURPLUS_BITS,
                otherwise=spent,
                tolerance=self.tolerance,
            )
        elif result.outcome is AttackOutcome.TOO_FEW_SAMPLES:
            outcome = spent
        elif result.outcome is AttackOutcome.BROKEN and not self.parameters.noisy:
            outcome = Outcome.LOCAL_MINIMUM  # the labels held out, but not all of the others
        else:
            outcome = _OUTCOMES.get(result.outcome, Outcome.LOCAL_MINIMUM)
        return recorder.fit(outcome, predict=predict, layer=layer)

    def _samples(self, x: np.ndarray, y: np.ndarray) -> LWRSamples | None:
        """The samples on the gate; None where an example is not of the pattern."""
        parameters = self.parameters
        if x.shape[1:] != (2, parameters.dim) or not np.all(np.abs(x) == 1):
            return None
        rows, on_gate = rows_of_tokens(x, parameters)
        labels = np.rint(labels_of_outputs(x, y, parameters)).astype(np.int64)
        if np.abs(outputs_of_labels(x, labels, parameters) - y).max() > self.tolerance:
            return None
        if not on_gate.any():
            return LWRSamples(rows[:1], labels[:1])
        return LWRSamples(rows[on_gate], labels[on_gate])

    def _layer(self, result: AttackResult) -> AttentionLayer | None:
        if result.secret is None:
            return None
        parameters = self.parameters
        form = covariate_form(result.secret, parameters)
        heads = 2 * parameters.levels * float(np.abs(form).sum()) / parameters.modulus + 4
        if heads * parameters.dim**2 > _MOST_NUMBERS:
            return None
        return lwr_layer(lwr_staircase(form, parameters), parameters.matrix)


def _surplus_bits(samples: LWRSamples, parameters: LWRParameters) -> int:
    """What the labels of all rows say beyond the secret, where copies and rows of the other sign say nothing new."""
    rows = len(np.unique(orbits(samples.public[:, None].astype(np.float64))))
    return int(rows * np.log2(parameters.levels) - parameters.secret_dim * np.log2(parameters.modulus))


@dataclass(frozen=True, eq=False)
class LabelOutputs:
    """The layer's ideal outputs, by predicted labels."""

    predict: LabelPredictor
    parameters: LWRParameters

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Outputs (N, 2, d)."""
        rows, _ = rows_of_tokens(x, self.parameters)
        return outputs_of_labels(np.asarray(x, dtype=np.float64), self.predict(rows), self.parameters)
