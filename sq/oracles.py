"""Oracles of statistical queries: the base class, oracles that know the family, and one that draws examples."""

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from attention import BooleanInputs
from attention.inputs import Rng
from attention.validation import NonNegativeInt, Whole, checked
from lower import HardInstance, all_sign_matrices
from sq.answers import Answers, TrueAnswers
from sq.family import TargetFamily
from sq.labels import hidden_of_labels
from sq.models import QueryModel
from sq.queries import CorrelationalQuery, GroupQuery, require_norm, statistical_mean

# With at most this many inputs, norms are computed exactly; otherwise on this many random inputs.
_NORM_INPUTS = 4096


class SQOracle(ABC):
    """Answers statistical queries and counts them: one scalar query counts one, a vector of d of them counts d.

    Parameters
    ----------
    model : QueryModel
        `CSQ`, `STAT` or `VSTAT`: what may be asked, and the largest error of a reply.
    family : TargetFamily, optional
        The candidates, if they are known.

    Notes
    -----
    A subclass defines its replies by `_reply`. A correlational model answers a `GroupQuery` or a `CorrelationalQuery`.
    The other models answer any callable on (x, y), from any package, that declares its range by `low` and `high`.
    """

    def __init__(self, model: QueryModel, family: TargetFamily | None = None) -> None:
        if not isinstance(model, QueryModel):
            raise ValueError(f"model is {model!r}: CSQ(tau), STAT(tau) or VSTAT(n) is needed.")
        self.model, self.family = model, family
        self._asked = 0

    @property
    def asked(self) -> int:
        """How many scalar queries were answered so far."""
        return self._asked

    @property
    def examples_used(self) -> int | None:
        """How many examples were drawn for the answers; None for an oracle that draws none."""
        return None

    def query(self, query: Any, /) -> float:
        """The reply to one scalar query.

        ValueError if the model does not answer such queries, a value leaves the declared range, or a norm is above 1.
        Such a query does not count.
        """
        self._require(query)
        reply = self._reply(query)
        self._asked += 1
        return reply

    def _require(self, query: Any) -> None:
        if self.model.correlational:
            if not isinstance(query, GroupQuery | CorrelationalQuery):
                raise ValueError(
                    f"The query is a {type(query).__name__}: a GroupQuery or a CorrelationalQuery is needed, a "
                    "function of the tokens alone."
                )
            return
        if not (callable(query) and hasattr(query, "low") and hasattr(query, "high")):
            raise ValueError(
                f"The query is a {type(query).__name__}: a function of x and y with a declared range, low and high, is "
                "needed, such as a StatisticalQuery."
            )
        low, high = float(query.low), float(query.high)
        if not self.model.low <= low <= high <= self.model.high:
            raise ValueError(
                f"The {getattr(query, 'name', 'query')} declares the range [{low:g}, {high:g}]: "
                f"{type(self.model).__name__} answers queries with values in "
                f"[{self.model.low:g}, {self.model.high:g}]."
            )

    @abstractmethod
    def _reply(self, query: Any) -> float: ...


class FamilyOracle(SQOracle):
    """Computes replies from the true answers on the candidates of a family; a subclass defines how."""

    def __init__(self, model: QueryModel, family: TargetFamily) -> None:
        super().__init__(model, family)
        if family.noisy:
            raise ValueError(
                f"The labels of {family.name} have noise: HonestOracle is needed, or the family without noise."
            )
        self._answers = TrueAnswers(family)

    @abstractmethod
    def _settle(self, answers: Answers, reference: float) -> float:
        """The reply; `reference` is the answer that does not distinguish the targets."""

    @abstractmethod
    def _in_question(self) -> np.ndarray:
        """The candidates whose answers are needed."""

    def _reply(self, query: Any) -> float:
        if isinstance(query, GroupQuery):
            return self._settle(self._answers.to_group(query), 0.0)
        numbers = self._in_question()
        if self.model.correlational:
            return self._settle(self._answers.to_correlational(query, numbers), 0.0)
        return self._settle(self._answers.to_statistical(query, numbers), self._reference(query))

    def _reference(self, query: Any) -> float:
        return self._answers.reference(query)


class ExactOracle(FamilyOracle):
    """Replies with the true answer of target `number`, as if the tolerance were 0.

    A group query takes O(s) steps over orthonormal hidden parts; a plain function is evaluated on all 2^(k d) inputs,
    which must be 2^16 at most.

    Examples
    --------
    >>> from sq import CSQ, GroupQuery, ParityFamily
    >>> oracle = ExactOracle(CSQ(0.1), ParityFamily(dim=16, bits=3), 7)
    >>> oracle.query(GroupQuery.single(7)), oracle.query(GroupQuery.single(8)), oracle.asked
    (1.0, 0.0, 2)
    """

    @checked
    def __init__(self, model: QueryModel, family: TargetFamily, number: NonNegativeInt) -> None:
        super().__init__(model, family)
        if number >= family.secrets.size:
            raise ValueError(
                f"number is {number}: there are {family.secrets.size} targets, and one of them is needed."
            )
        self._number = number

    def _settle(self, answers: Answers, reference: float) -> float:
        return answers.on(self._number)

    def _in_question(self) -> np.ndarray:
        return np.array([self._number])

    def _reference(self, query: Any) -> float:
        return 0.0


class HonestOracle(SQOracle):
    """Replies with the mean over fresh examples of an instance's layer, the real heads, with the noise of its family.

    Parameters
    ----------
    model : QueryModel
        What may be asked. A learner relies on the tolerance, but a mean over n examples keeps it only with high
        probability.
    instance : HardInstance
        The target, of a `TargetFamily`.
    batch : int
        How many examples are drawn for a query.
    rng : optional
        Anything `numpy.random.default_rng` accepts; draws the examples.

    Notes
    -----
    For STAT, a reply misses tau with probability at most 2 exp(-n tau^2 / 2), by Hoeffding's inequality. A
    correlational reply about a parity has variance 2/n at most. If the query is the hidden part of one target, the
    reply misses tau with probability at most 2 exp(-n tau^2 / 4). So n = 4 ln(2 Q / delta) / tau^2 examples suffice for
    Q such queries with probability 1 - delta. (For a character chi the terms are 2 u_0^2 chi, and their moment
    generating function cosh(s)^2 is at most exp(s^2). For the target's own hidden part the terms differ from their mean
    by 1 or -1.) Noise at rate eta costs 1/(1 - 2 eta)^2 times the examples: replies are divided by 1 - 2 eta.

    The norm of a correlational query that is a plain function is checked on separate inputs: all 2^(k d), or 4096
    random ones if there are more. They have no labels and do not count as examples.

    Examples
    --------
    >>> from sq import STAT, StatisticalQuery, make_parity_instance
    >>> oracle = HonestOracle(STAT(0.1), make_parity_instance(dim=8, bits=1, rng=0), batch=2000, rng=1)
    >>> gate = StatisticalQuery(lambda x, y: (x[:, 0, 0] != x[:, 1, 0]).astype(float), low=0.0)
    >>> abs(oracle.query(gate) - 0.5) < 0.1, oracle.asked, oracle.examples_used
    (True, 1, 2000)
    """

    @checked
    def __init__(
        self,
        model: QueryModel,
        instance: HardInstance,
        *,
        batch: Annotated[int, Whole(1, 10**9)],
        rng: Rng = None,
    ) -> None:
        family = instance.family
        if not isinstance(family, TargetFamily):
            raise ValueError(
                f"The instance is of the family {family.name}: one of numbered targets is needed."
            )
        super().__init__(model, family)
        self._instance, self.batch = instance, batch
        self._examples = family.examples(instance, rng=rng)

    @property
    def examples_used(self) -> int:
        """How many examples were drawn."""
        return self._examples.drawn

    def _reply(self, query: Any) -> float:
        if not self.model.correlational:
            return statistical_mean(query, *self._examples.draw(self.batch))
        self._require_norm(query)
        x, y = self._examples.draw(self.batch)
        h = self._group(query, x) if isinstance(query, GroupQuery) else query(x)
        mean = float(np.sum(hidden_of_labels(self._instance, x, y) * h)) / len(x)
        if not math.isfinite(mean):
            raise ValueError(
                f"The {query.name} took values on the examples that are not finite numbers: it has no mean."
            )
        return mean

    def _group(self, query: GroupQuery, x: np.ndarray) -> np.ndarray:
        assert self.family is not None
        h = np.zeros(x.shape[:2])
        for number, weight in zip(query.numbers, query.weights, strict=True):
            h += weight * self.family.hidden(int(number), x)
        return h

    def _require_norm(self, query: Any) -> None:
        if isinstance(query, GroupQuery):
            self._groups.to_group(query)
        else:
            require_norm(query(self._own_inputs), name=query.name, sampled=self._sampled)

    @cached_property
    def _groups(self) -> TrueAnswers:
        assert self.family is not None
        return TrueAnswers(self.family)

    @property
    def _sampled(self) -> bool:
        inputs = self._instance.inputs
        return not isinstance(inputs, BooleanInputs) or 2 ** (inputs.tokens * inputs.dim) > _NORM_INPUTS

    @cached_property
    def _own_inputs(self) -> np.ndarray:
        inputs = self._instance.inputs
        if not self._sampled:
            return all_sign_matrices(inputs.tokens, inputs.dim)
        # learners cannot see these inputs, so they may be the same in every call
        return inputs.sample(_NORM_INPUTS, rng=[inputs.tokens, inputs.dim, _NORM_INPUTS])
