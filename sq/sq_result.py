"""What a learner that asks statistical queries returns, and what it is."""

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from attention.inputs import Rng
from attention.validation import require_instance
from sq.candidates import Candidates
from sq.oracles import SQOracle
from sq.target_family import TargetFamily, require_family

__all__ = ["Account", "SQLearner", "SQResult", "require_correlational_oracle"]


@dataclass(frozen=True)
class SQResult:
    """What a learner found by statistical queries, or why it found nothing.

    Attributes
    ----------
    learner : str
        Its name.
    asked : int
        How many scalar queries it asked: a vector of d of them, such as a gradient, counts d.
    explanation : str
        What was found and how, or what stood in the way: a sentence.
    number : int or None
        The number of the target, None if the learner does not name one. A target named is the only candidate for
        which all replies were valid, so it is the right one if the oracle keeps its tolerance.
    secret : tuple of int or None
        Its secret.
    survivors : int or None
        How many candidates were consistent with all replies in the end; None if the learner does not keep them.
    examples : int or None
        How many examples the oracle drew; None if it draws none.
    least_tolerance : float or None
        The smallest tolerance that queries of a learner handed in declare they need; None if they declare none.
    answer : optional
        What a learner that was handed in returned.
    """

    learner: str
    asked: int
    explanation: str
    number: int | None = None
    secret: tuple[int, ...] | None = None
    survivors: int | None = None
    examples: int | None = None
    least_tolerance: float | None = None
    answer: Any = field(default=None, repr=False, compare=False)

    @property
    def found(self) -> bool:
        """Whether the learner named a target, or one that was handed in returned an answer."""
        return self.number is not None or self.answer is not None

    def __str__(self) -> str:
        return f"{self.learner}, {self.asked} queries: {self.explanation}"

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON values, without `answer`."""
        shown = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "answer"}
        return shown | {"secret": None if self.secret is None else list(self.secret)}


@runtime_checkable
class SQLearner(Protocol):
    """A learner that knows the family and asks an oracle which of its targets it hides."""

    def learn(self, oracle: SQOracle, family: TargetFamily, *, rng: Rng = None) -> SQResult:
        """Ask until one candidate is left, or say honestly why not."""


class Account:
    """The queries and examples of one run: an oracle may have served others before.

    Raises
    ------
    ValueError
        If the oracle answers for another family than the learner's.
    """

    def __init__(self, learner: str, oracle: SQOracle, family: TargetFamily | None = None) -> None:
        require_instance("oracle", oracle, SQOracle, needed="an oracle such as ExactOracle or HonestOracle")
        if family is not None:
            require_family(family)
        if family is not None:
            _require_same_family(oracle, family, learner)
        self._learner, self._oracle, self._family = learner, oracle, family
        self._asked, self._examples = oracle.asked, oracle.examples_used

    @property
    def asked(self) -> int:
        """Scalar queries of this run so far."""
        return self._oracle.asked - self._asked

    def ended(self, candidates: Candidates, why_not: str) -> SQResult:
        """The one candidate left, or a refusal: `why_not`, unless none is left at all."""
        left = len(candidates)
        if left == 1:
            return self.named(
                int(candidates.first(1)[0]), "It is the only candidate consistent with all replies."
            )
        if left == 0:
            why_not = (
                "No candidate is consistent with all replies: one of them was off by more than the tolerance. Take "
                "larger batches, or a larger tolerance."
            )
        return self.refused(why_not, survivors=left)

    def spent(self, candidates: Candidates) -> SQResult:
        """A refusal, as many queries as the learner may ask were asked."""
        left = len(candidates)
        return self.ended(
            candidates, f"The budget of {self.asked} queries was spent with {left} candidates left."
        )

    def named(self, number: int, explanation: str) -> SQResult:
        """One target, the only one consistent with all replies."""
        assert self._family is not None
        secret = tuple(int(one) for one in self._family.secrets.unrank(number))
        return self.result(explanation, number=number, secret=secret, survivors=1)

    def refused(self, explanation: str, *, survivors: int | None = None) -> SQResult:
        """No target."""
        return self.result(explanation, survivors=survivors)

    def result(self, explanation: str, **found: Any) -> SQResult:
        """The counts of this run, and what was found."""
        used = self._oracle.examples_used
        examples = None if used is None else used - (self._examples or 0)
        return SQResult(
            learner=self._learner, asked=self.asked, explanation=explanation, examples=examples, **found
        )


def require_correlational_oracle(oracle: SQOracle, learner: str) -> float:
    """The tolerance of a correlational oracle.

    Raises
    ------
    ValueError
        If the oracle's model is another.
    """
    require_instance("oracle", oracle, SQOracle, needed="an oracle such as ExactOracle or HonestOracle")
    tolerance = getattr(oracle.model, "tolerance", None)
    if not oracle.model.correlational or tolerance is None:
        raise ValueError(
            f"The oracle answers {type(oracle.model).__name__} queries: the {learner} asks correlational ones; give "
            "the oracle the model CSQ(tau)."
        )
    return float(tolerance)


def _require_same_family(oracle: SQOracle, family: TargetFamily, learner: str) -> None:
    """As far as names, sizes, and the first and the last secret tell; an oracle need not know its family."""
    own = getattr(oracle, "family", None)
    if own is None or own is family:
        return
    ours, theirs = _described(family), _described(own)
    if ours != theirs:
        raise ValueError(
            f"The oracle answers for the family {theirs}, and the {learner} was given {ours}: give both the same."
        )


def _described(family: TargetFamily) -> str:
    size = family.secrets.size
    first, last = (" ".join(map(str, family.secrets.unrank(number))) for number in (0, size - 1))
    return (
        f"{family.name!r} of {size} secrets, {{{first}}} to {{{last}}}, in {family.tokens} tokens of dimension "
        f"{family.dim}"
    )
