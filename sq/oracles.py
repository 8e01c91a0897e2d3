"""Oracles of statistical queries: the base class, oracles that know the family, and one that draws examples."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from attention import BooleanInputs, ExampleOracle, Inputs
from attention.inputs import Rng
from attention.validation import NonNegativeInt, Whole, checked
from lower import FAMILIES, HardInstance, all_sign_matrices, family_of
from sq.answers import Answers, TrueAnswers
from sq.hidden_part import HiddenPart
from sq.models import QueryModel
from sq.queries import (
    CorrelationalQueries,
    CorrelationalQuery,
    GroupQuery,
    as_sequence,
    require_norms,
    statistical_means,
)
from sq.target_family import TargetFamily

__all__ = ["ExactOracle", "FamilyOracle", "HonestOracle", "SQOracle"]

# With at most this many inputs, norms are computed exactly; otherwise on this many random inputs.
_NORM_INPUTS = 4096
_AT_ONCE = 1 << 22  # values of a vector of queries in memory at once: 32 MiB


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
    A subclass defines its replies by `_reply`, and by `_replies` for many queries together. A correlational model
    answers a `GroupQuery` or a `CorrelationalQuery`. The other models answer any callable on (x, y), from any package,
    that declares its range by `low` and `high`.
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

    def query_many(self, queries: Iterable[Any], /) -> Float[np.ndarray, " q"]:
        """The replies to a sequence of scalar queries, or to a vector of them: each counts one."""
        queries = as_sequence(queries)
        if not isinstance(queries, CorrelationalQueries) or not self.model.correlational:
            # members of a family with means all declare the same range
            for query in queries[:1] if hasattr(queries, "means") else queries:
                self._require(query)
        replies = self._replies(queries)
        self._asked += len(replies)
        return replies

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

    def _replies(self, queries: Sequence[Any]) -> np.ndarray:
        return np.array([self._reply(query) for query in queries])


class FamilyOracle(SQOracle):
    """Computes replies from the true answers on the candidates of a family; a subclass defines how."""

    def __init__(self, model: QueryModel, family: TargetFamily) -> None:
        super().__init__(model, family)
        if getattr(family, "noisy", False):
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
        return float(self._replies([query])[0])

    def _replies(self, queries: Sequence[Any]) -> np.ndarray:
        # compute all answers before the first reply: a refused query must not change the state
        numbers = self._in_question()
        if self.model.correlational:
            answers = self._answers.to_correlational(queries, numbers)
            references = np.zeros(len(answers))
        else:
            answers = self._answers.to_statistical(queries, numbers)
            references = self._references(queries)
        return np.array(
            [self._settle(one, float(reference)) for one, reference in zip(answers, references, strict=True)]
        )

    def _references(self, queries: Sequence[Any]) -> np.ndarray:
        return self._answers.reference(queries)


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

    def _references(self, queries: Sequence[Any]) -> np.ndarray:
        return np.zeros(len(queries))


class HonestOracle(SQOracle):
    """Replies with the mean over fresh examples of the target.

    Parameters
    ----------
    model : QueryModel
        What may be asked. A learner relies on the tolerance, but a mean over n examples keeps it only with high
        probability.
    examples : ExampleOracle
        Where the examples come from; it counts them.
    batch : int
        How many examples are drawn for a call of `query`, or of `query_many`: queries asked together share them.
    part : HiddenPart, optional
        The public facts of the target. Correlational queries need them, because they ask about the hidden part.
    family : TargetFamily, optional
        For group queries: the functions they combine.
    inputs : Inputs, optional
        The distribution of the tokens, for the norms of correlational queries; uniform signs when left out.

    Notes
    -----
    For STAT, a reply misses tau with probability at most 2 exp(-n tau^2 / 2), by Hoeffding's inequality. A
    correlational reply about a parity has variance 2/n at most. If the query is the hidden part of one target, the
    reply misses tau with probability at most 2 exp(-n tau^2 / 4). So n = 4 ln(2 Q / delta) / tau^2 examples suffice for
    Q such queries with probability 1 - delta. (For a character chi the terms are 2 u_0^2 chi, and their moment
    generating function cosh(s)^2 is at most exp(s^2). For the target's own hidden part the terms differ from their mean
    by 1 or -1.)

    The norm of a correlational query that is a plain function is checked on separate inputs: all 2^(k d), or 4096
    random ones if there are more. They have no labels and do not count as examples.

    Examples
    --------
    >>> from sq import STAT, StatisticalQuery, make_parity_instance
    >>> oracle = HonestOracle.for_instance(STAT(0.1), make_parity_instance(dim=8, bits=1, rng=0), batch=2000, rng=1)
    >>> gate = StatisticalQuery(lambda x, y: (x[:, 0, 0] != x[:, 1, 0]).astype(float), low=0.0)
    >>> abs(oracle.query(gate) - 0.5) < 0.1, oracle.asked, oracle.examples_used
    (True, 1, 2000)
    """

    @checked
    def __init__(
        self,
        model: QueryModel,
        examples: ExampleOracle,
        *,
        batch: Annotated[int, Whole(1, 10**9)],
        part: HiddenPart | None = None,
        family: TargetFamily | None = None,
        inputs: Inputs | None = None,
    ) -> None:
        super().__init__(model, family)
        self._examples, self._part, self.batch = examples, part, batch
        self._inputs = BooleanInputs(examples.tokens, examples.dim) if inputs is None else inputs
        self._groups = None if family is None else TrueAnswers(family)

    @classmethod
    @checked
    def for_instance(
        cls,
        model: QueryModel,
        instance: HardInstance,
        *,
        batch: int,
        family: TargetFamily | None = None,
        rng: Rng = None,
    ) -> "HonestOracle":
        """An oracle over examples of an instance's layer, the real attention heads, with the noise of its family.

        Noise at rate eta costs 1/(1 - 2 eta)^2 times the examples: replies are divided by 1 - 2 eta.
        """
        return cls(
            model,
            family_of(instance).examples(instance, rng=rng)
            if instance.family in FAMILIES
            else ExampleOracle(instance.layer, instance.inputs, rng=rng),
            batch=batch,
            part=HiddenPart.of(instance) if model.correlational else None,
            family=family,
            inputs=instance.inputs,
        )

    @property
    def examples_used(self) -> int:
        """How many examples were drawn."""
        return self._examples.drawn

    def _reply(self, query: Any) -> float:
        return float(self._replies([query])[0])

    def _replies(self, queries: Sequence[Any]) -> np.ndarray:
        if not self.model.correlational:
            return statistical_means(queries, *self._examples.draw(self.batch))
        if self._part is None:
            raise ValueError(
                "A correlational query asks about the hidden part of the target, and the oracle was not given what is "
                "public about it: pass part=HiddenPart.of(instance), or use HonestOracle.for_instance."
            )
        asked = [queries] if isinstance(queries, CorrelationalQueries) else queries
        for query in asked:
            self._require_norm(query)
        x, y = self._examples.draw(self.batch)
        hidden = self._part.of_labels(x, y)
        return np.concatenate([self._means(query, x, hidden) for query in asked])

    def _means(self, query: Any, x: np.ndarray, hidden: np.ndarray) -> np.ndarray:
        sums, start = 0.0, 0
        for block in _blocks(x, getattr(query, "size", 1)):
            f = hidden[start : start + len(block)]
            start += len(block)
            h = self._group(query, block) if isinstance(query, GroupQuery) else query(block)
            sums = sums + f.ravel() @ h.reshape(f.size, -1)
        means = np.asarray(sums) / len(x)
        if not np.isfinite(means).all():
            raise ValueError(
                f"The {query.name} took values on the examples that are not finite numbers: it has no mean."
            )
        return means

    def _group(self, query: GroupQuery, x: np.ndarray) -> np.ndarray:
        assert self.family is not None
        h = np.zeros(x.shape[:2])
        for number, weight in zip(query.numbers, query.weights, strict=True):
            h += weight * self.family.hidden(int(number), x)
        return h

    def _require_norm(self, query: Any) -> None:
        if not isinstance(query, GroupQuery):
            values = (query(block) for block in _blocks(self._own_inputs, getattr(query, "size", 1)))
            require_norms(values, name=query.name, sampled=self._sampled)
        elif self._groups is None:
            raise ValueError(
                "A group query combines the hidden parts of a family: give the oracle the family."
            )
        else:
            self._groups.to_group(query)

    @property
    def _sampled(self) -> bool:
        few = 2 ** (self._examples.tokens * self._examples.dim) <= _NORM_INPUTS
        return not (few and isinstance(self._inputs, BooleanInputs))

    @cached_property
    def _own_inputs(self) -> np.ndarray:
        k, d = self._examples.tokens, self._examples.dim
        if not self._sampled:
            return all_sign_matrices(k, d)
        # learners cannot see these inputs, so they may be the same in every call
        return self._inputs.sample(_NORM_INPUTS, rng=[k, d, _NORM_INPUTS])


def _blocks(x: np.ndarray, many: int) -> Iterator[np.ndarray]:
    """The inputs in blocks on which so many functions take 32 MiB."""
    rows = max(1, _AT_ONCE // (many * x.shape[1]))
    for start in range(0, len(x), rows):
        yield x[start : start + rows]
