"""Oracles of statistical queries: what every one does, the exact one, and the honest one that draws examples."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from attention import BooleanInputs, ExampleOracle
from attention.inputs import Rng
from attention.validation import count, require_instance
from lower import HardInstance, all_sign_matrices
from sq.enumerated_answers import EnumeratedAnswers
from sq.group_answers import GroupAnswers
from sq.hidden_part import HiddenPart
from sq.models import QueryModel
from sq.queries import CorrelationalQueries, CorrelationalQuery, GroupQuery, as_sequence
from sq.query_checks import require_bounded, require_correlational, require_sampled_norms, statistical_means
from sq.target_family import TargetFamily, require_family, require_hard_instance

__all__ = ["ExactOracle", "HonestOracle", "SQOracle"]

# Norms are computed exactly where there are no more inputs than this, and on as many drawn ones otherwise.
_NORM_INPUTS = 4096
_AT_ONCE = 1 << 22  # values of a vector of queries, 32 MiB


class SQOracle(ABC):
    """Answers statistical queries and counts them: one scalar query counts one, a vector of d of them counts d.

    Parameters
    ----------
    model : QueryModel
        `CSQ`, `STAT` or `VSTAT`: what may be asked, and how far a reply may be off.
    family : TargetFamily, optional
        The candidates, if it is known which they are.

    Raises
    ------
    ValueError
        If `model` is not a model of queries.

    Notes
    -----
    A correlational model answers a `GroupQuery` or a `CorrelationalQuery`; the others anything callable on (x, y) that
    declares its range by `low` and `high`, whatever package it comes from. A query that is refused counts nothing.
    """

    def __init__(self, model: QueryModel, family: TargetFamily | None = None) -> None:
        # a class has the attributes of its instances
        if isinstance(model, type) or not isinstance(model, QueryModel):
            raise ValueError(f"model is {model!r}: CSQ(tau), STAT(tau) or VSTAT(n) is needed.")
        self._model, self._family = model, family
        self._asked = 0

    @property
    def model(self) -> QueryModel:
        """What may be asked, and how far a reply may be off."""
        return self._model

    @property
    def family(self) -> TargetFamily | None:
        """The candidates it answers for; None if it does not know them."""
        return self._family

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

        Raises
        ------
        ValueError
            If the model does not answer such queries, a value leaves the declared range, or a norm is above 1.
        """
        self._require(query)
        reply = self._reply(query)
        self._asked += 1
        return reply

    def query_many(self, queries: Iterable[Any], /) -> Float[np.ndarray, " q"]:
        """The replies to a sequence of scalar queries, or to a vector of them: each counts one.

        Raises
        ------
        ValueError
            As for `query`; then none of them counts.
        """
        queries = as_sequence(queries)
        if not isinstance(queries, CorrelationalQueries) or not self._model.correlational:
            # members of a family with means all declare the same range
            for query in queries[:1] if hasattr(queries, "means") else queries:
                self._require(query)
        replies = self._replies(queries)
        self._asked += len(replies)
        return replies

    def _require(self, query: Any) -> None:
        if self._model.correlational:
            require_correlational(query)
        else:
            require_bounded(query, self._model)

    @abstractmethod
    def _reply(self, query: Any) -> float: ...

    def _replies(self, queries: Sequence[Any]) -> np.ndarray:
        return np.array([self._reply(query) for query in queries])


_MOST_EXAMPLES = 10**9  # of one query: more would not be drawn in a day


class ExactOracle(SQOracle):
    """Replies with the true answer, as if the tolerance were 0.

    Parameters
    ----------
    model : QueryModel
        What may be asked.
    family : TargetFamily
        The candidates.
    number : int
        Which of them is the target.

    Raises
    ------
    ValueError
        If there is no target of that number, or `model` is not a model of queries.

    Notes
    -----
    A group query takes O(s) steps over orthonormal hidden parts; a plain function is evaluated on all 2^(k d) inputs,
    which must be 2^16 at most.

    Examples
    --------
    >>> from sq import CSQ, GroupQuery, ParityFamily
    >>> oracle = ExactOracle(CSQ(0.1), ParityFamily(dim=16, bits=3), 7)
    >>> oracle.query(GroupQuery.single(7)), oracle.query(GroupQuery.single(8)), oracle.asked
    (1.0, 0.0, 2)
    """

    def __init__(self, model: QueryModel, family: TargetFamily, number: int) -> None:
        require_family(family)
        super().__init__(model, family)
        number = count("number", number, least=0)
        if number >= family.secrets.size:
            raise ValueError(
                f"number is {number}: there are {family.secrets.size} targets, and one of them is needed."
            )
        self._candidates, self._number = family, number
        self._group_answers = GroupAnswers(family)
        self._enumerated: EnumeratedAnswers | None = None

    def _reply(self, query: Any) -> float:
        if not isinstance(query, GroupQuery):
            return float(self._replies([query])[0])
        answers = self._group_answers(query)
        if answers.numbers is None:
            return float(answers.values[self._number])
        listed = answers.values[answers.numbers == self._number]
        return float(listed[0]) if len(listed) else answers.others

    def _replies(self, queries: Sequence[Any]) -> np.ndarray:
        target = np.array([self._number])
        if not self._model.correlational:
            return self._all_inputs().statistical(queries, target)[0]
        if isinstance(queries, CorrelationalQueries):
            return self._all_inputs().correlational(queries, target)[0]
        return np.array(
            [
                self._reply(query)
                if isinstance(query, GroupQuery)
                else self._all_inputs().correlational(query, target)[0, 0]
                for query in queries
            ]
        )

    def _all_inputs(self) -> EnumeratedAnswers:
        if self._enumerated is None:
            self._enumerated = EnumeratedAnswers(self._candidates)
        return self._enumerated


class HonestOracle(SQOracle):
    """Replies with the mean over fresh examples of the target.

    Parameters
    ----------
    model : QueryModel
        What may be asked. The tolerance is what a learner reckons with: a mean over n examples keeps it with a
        probability, not always.
    examples : ExampleOracle
        Where the examples come from; it counts them.
    batch : int
        How many examples are drawn for a call of `query`, or of `query_many`: queries asked together share them.
    part : HiddenPart, optional
        What is public about the target: for correlational queries, which ask about its hidden part.
    family : TargetFamily, optional
        For group queries: the functions they combine.

    Raises
    ------
    ValueError
        If the batch is empty, or `model` is not a model of queries.

    Notes
    -----
    For STAT, Hoeffding's inequality keeps a reply within tau but for a probability of 2 exp(-n tau^2 / 2). A
    correlational reply about a parity has variance 2/n at most, and is within tau but for 2 exp(-n tau^2 / 4) where the
    query is the hidden part of one target: n = 4 ln(2 Q / delta) / tau^2 for all of Q such queries, with probability
    1 - delta.

    Norms of correlational queries that are plain functions are checked on inputs of the oracle's own, uniform as the
    definition has them: all 2^(k d), or 4096 drawn ones if there are more. They have no labels and are no examples.

    References
    ----------
    The variance and the tail are derived here: with a character chi the terms are 2 u_0^2 chi, and their moment
    generating function cosh(s)^2 is at most exp(s^2); about the target itself they are 1 or -1 off their mean.

    Examples
    --------
    >>> from sq import STAT, StatisticalQuery, make_parity_instance
    >>> oracle = HonestOracle.for_instance(STAT(0.1), make_parity_instance(dim=8, bits=1, rng=0), batch=2000, rng=1)
    >>> gate = StatisticalQuery(lambda x, y: (x[:, 0, 0] != x[:, 1, 0]).astype(float), low=0.0)
    >>> abs(oracle.query(gate) - 0.5) < 0.1, oracle.asked, oracle.examples_used
    (True, 1, 2000)
    """

    def __init__(
        self,
        model: QueryModel,
        examples: ExampleOracle,
        *,
        batch: int,
        part: HiddenPart | None = None,
        family: TargetFamily | None = None,
    ) -> None:
        require_instance("examples", examples, ExampleOracle, needed="an ExampleOracle")
        if part is not None:
            require_instance("part", part, HiddenPart, needed="a HiddenPart")
        if family is not None:
            require_family(family)
        super().__init__(model, family)
        self._examples, self._part = examples, part
        self._batch = count("batch", batch, most=_MOST_EXAMPLES)
        self._inputs: np.ndarray | None = None

    @classmethod
    def for_instance(
        cls,
        model: QueryModel,
        instance: HardInstance,
        *,
        batch: int,
        family: TargetFamily | None = None,
        rng: Rng = None,
    ) -> "HonestOracle":
        """An oracle over examples of an instance's layer, the real attention heads.

        Raises
        ------
        ValueError
            If the model is correlational and the instance does not say along which direction its hidden part lies.
        """
        require_hard_instance(instance)
        return cls(
            model,
            ExampleOracle(instance.layer, instance.inputs, rng=rng),
            batch=batch,
            part=HiddenPart.of(instance) if model.correlational else None,
            family=family,
        )

    @property
    def batch(self) -> int:
        """How many examples a call draws."""
        return self._batch

    @property
    def examples_used(self) -> int:
        """How many examples were drawn."""
        return self._examples.drawn

    def _reply(self, query: Any) -> float:
        return float(self._replies([query])[0])

    def _replies(self, queries: Sequence[Any]) -> np.ndarray:
        if self._model.correlational:
            self._require_public(queries)
            self._require_norms(queries)
        x, y = self._examples.draw(self._batch)
        if not self._model.correlational:
            return statistical_means(queries, x, y)
        assert self._part is not None
        hidden = self._part.of_labels(x, y)
        if isinstance(queries, CorrelationalQueries):
            sums, start = np.zeros(queries.size), 0
            for block in _blocks(x, queries.size):
                h, f = queries(block), hidden[start : start + len(block)]
                start += len(block)
                sums += np.einsum("na,naq->q", f, h)
            return _require_numbers(sums / len(x), queries.name)
        return np.array(
            [
                _require_numbers(np.vdot(hidden, self._function(query, x)) / len(x), query.name)
                for query in queries
            ]
        )

    def _require_norms(self, queries: Sequence[Any]) -> None:
        """Of plain functions; those of groups are known."""
        plain = [queries] if isinstance(queries, CorrelationalQueries) else queries
        for query in plain:
            if isinstance(query, CorrelationalQueries | CorrelationalQuery):
                many = query.size if isinstance(query, CorrelationalQueries) else 1
                every = 2 ** (self._examples.k * self._examples.d) <= _NORM_INPUTS
                require_sampled_norms(query, _blocks(self._own_inputs(), many), every=every)

    def _own_inputs(self) -> np.ndarray:
        if self._inputs is None:
            k, d = self._examples.k, self._examples.d
            if 2 ** (k * d) <= _NORM_INPUTS:
                self._inputs = all_sign_matrices(k, d)
            else:
                # whoever asks cannot see them, so that they are the same every time gives nothing away
                self._inputs = BooleanInputs(k, d).sample(_NORM_INPUTS, rng=[k, d, _NORM_INPUTS])
        return self._inputs

    def _require_public(self, queries: Sequence[Any]) -> None:
        if self._part is None:
            raise ValueError(
                "A correlational query asks about the hidden part of the target, and the oracle was not given what is "
                "public about it: pass part=HiddenPart.of(instance), or use HonestOracle.for_instance."
            )
        if isinstance(queries, CorrelationalQueries):
            return
        for query in queries:
            if isinstance(query, GroupQuery):
                self._require_group(query)

    def _require_group(self, query: GroupQuery) -> None:
        if self._family is None:
            raise ValueError(
                "A group query combines the hidden parts of a family: give the oracle the family."
            )
        GroupAnswers(self._family)(query)  # for its errors

    def _function(self, query: Any, x: np.ndarray) -> np.ndarray:
        if not isinstance(query, GroupQuery):
            return np.asarray(query(x))
        assert self._family is not None
        h = np.zeros(x.shape[:2])
        for number, weight in zip(query.numbers, query.weights, strict=True):
            h += weight * self._family.hidden(int(number), x)
        return h


def _blocks(x: np.ndarray, many: int) -> Iterator[np.ndarray]:
    """The inputs in blocks on which so many functions take 32 MiB."""
    rows = max(1, _AT_ONCE // (many * x.shape[1]))
    for start in range(0, len(x), rows):
        yield x[start : start + rows]


def _require_numbers(reply: Any, name: str) -> Any:
    if not np.isfinite(reply).all():
        raise ValueError(
            f"The {name} took values on the examples that are not finite numbers: it has no mean."
        )
    return reply
