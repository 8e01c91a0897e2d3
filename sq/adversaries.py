"""Oracles that answer with whatever is valid for some candidate and helps the learner least."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from sq.candidates import Candidates
from sq.enumerated_answers import EnumeratedAnswers
from sq.group_answers import Answers, GroupAnswers
from sq.models import ROUNDING, QueryModel
from sq.oracles import SQOracle
from sq.queries import BoundedQuery, CorrelationalQueries, GroupQuery
from sq.target_family import TargetFamily, require_family

__all__ = ["MostPreservingAdversary", "ReferenceAdversary"]


class _Adversary(SQOracle):
    """Keeps the candidates for which all its replies were valid; there is always one."""

    def __init__(self, model: QueryModel, family: TargetFamily) -> None:
        require_family(family)
        super().__init__(model, family)
        self._candidates = family
        self._left = Candidates(family.secrets.size, model)
        self._group_answers = GroupAnswers(family)
        self._enumerated: EnumeratedAnswers | None = None

    @property
    def survivors(self) -> Int[np.ndarray, " left"]:
        """The candidates for which every reply so far was valid, in increasing order; never empty."""
        return self._left.numbers

    @abstractmethod
    def _choose(
        self, numbers: np.ndarray, values: np.ndarray, many: int, reference: float, answers: Answers
    ) -> float:
        """The reply where `numbers` are left of those listed, with `values`, and `many` that are not listed."""

    def _reply(self, query: Any) -> float:
        if isinstance(query, GroupQuery):
            return self._settle(self._group_answers(query), 0.0)
        return float(self._replies([query])[0])

    def _replies(self, queries: Sequence[Any]) -> np.ndarray:
        # all answers before the first reply: a query that is refused must not leave a trace
        if self._model.correlational:
            return np.array([self._settle(answers, 0.0) for answers in self._correlational(queries)])
        numbers = self.survivors
        enumerated = self._all_inputs()
        values = enumerated.statistical(_bounded(queries), numbers)
        references = enumerated.reference(_bounded(queries))
        return np.array(
            [
                self._settle(self._full(numbers, answers), float(reference))
                for answers, reference in zip(values.T, references, strict=True)
            ]
        )

    def _settle(self, answers: Answers, reference: float) -> float:
        numbers, values, many = self._left.answers_left(answers)
        reply = self._choose(numbers, values, many, reference, answers)
        self._left.update(answers, reply)
        assert len(self._left) > 0, "a reply was valid for no candidate"
        return reply

    def _correlational(self, queries: Sequence[Any]) -> list[Answers]:
        if isinstance(queries, CorrelationalQueries):
            numbers = self.survivors
            values = self._all_inputs().correlational(queries, numbers)
            return [self._full(numbers, answers) for answers in values.T]
        return [
            self._group_answers(query)
            if isinstance(query, GroupQuery)
            else self._full(self.survivors, self._all_inputs().correlational(query, self.survivors)[:, 0])
            for query in queries
        ]

    def _full(self, numbers: np.ndarray, values: np.ndarray) -> Answers:
        # candidates ruled out already are not listed, and what stands for them is not looked at
        every = np.zeros(self._candidates.secrets.size)
        every[numbers] = values
        return Answers(None, every)

    def _all_inputs(self) -> EnumeratedAnswers:
        if self._enumerated is None:
            self._enumerated = EnumeratedAnswers(self._candidates)
        return self._enumerated


def _bounded(queries: Sequence[Any]) -> Sequence[BoundedQuery]:
    return queries


class ReferenceAdversary(_Adversary):
    """Replies with the reference value as long as that is valid for some surviving candidate.

    The reference value of a correlational query is 0, what the known part alone gives. Of a statistical query it is the
    mean when the hidden part of target 0 has a sign drawn anew for each input: for parities, the labels that tell no
    target from another. Where no survivor allows it, the reply is the value nearest to it that is valid for the
    survivor whose true answer is nearest to it, the lowest number among equals. Nothing is random.

    Parameters
    ----------
    model : QueryModel
        `CSQ`, `STAT` or `VSTAT`.
    family : TargetFamily
        The candidates.

    Notes
    -----
    Against orthonormal candidates a correlational query rules out at most M* = ceil(1/tau^2) - 1 of them, by Bessel's
    inequality, which is where `lower.query_lower_bound` comes from. A group query takes O(s) steps over orthonormal
    hidden parts and O(s N) over others; a plain function is evaluated on all 2^(k d) inputs, for each survivor.

    References
    ----------
    Blum et al. 1994 for the argument; in this form derived here.

    Examples
    --------
    >>> from sq import CSQ, GroupQuery, ParityFamily
    >>> oracle = ReferenceAdversary(CSQ(0.5), ParityFamily(dim=5, bits=1))
    >>> oracle.query(GroupQuery.single(2)), oracle.survivors.tolist(), oracle.asked
    (0.0, [0, 1, 3], 1)
    """

    def _choose(
        self, numbers: np.ndarray, values: np.ndarray, many: int, reference: float, answers: Answers
    ) -> float:
        if many:
            values = np.append(values, answers.others)
        if answers.allowed(self._model, values, reference).any():
            return reference
        # numbers increase, so the first of equals has the lowest
        order = np.lexsort(
            (np.append(numbers, self._candidates.secrets.size)[: len(values)], abs(values - reference))
        )
        nearest = float(values[order[0]])
        error = float(self._model.errors(nearest))
        for kept in (error, error - ROUNDING):
            reply = float(np.clip(reference, nearest - kept, nearest + kept))
            # in exact arithmetic the end of the interval may be one digit beyond it
            if answers.allowed(self._model, np.array([nearest]), reply)[0]:
                return reply
        return nearest


class MostPreservingAdversary(_Adversary):
    """Replies with a valid value that keeps the most candidates.

    Of the values that keep the most, it takes the middle of an interval of them: the interval whose middle is nearest
    to the reference value of `ReferenceAdversary`, the lower one among equals. Nothing is random.

    Parameters
    ----------
    model : QueryModel
        `CSQ`, `STAT` or `VSTAT`.
    family : TargetFamily
        The candidates.

    Notes
    -----
    Each candidate allows an interval of replies, and the value in most of them is found by sorting their ends. Greedy:
    it looks no query ahead. Cost as for `ReferenceAdversary`, and O(s log s). Where answers of one size are twice the
    tolerance apart up to rounding (`CSQ.at_edge`), it takes the best of the values around the middles.

    References
    ----------
    Derived here.

    Examples
    --------
    >>> from sq import CSQ, GroupQuery, ParityFamily
    >>> oracle = MostPreservingAdversary(CSQ(0.5), ParityFamily(dim=5, bits=1))
    >>> oracle.query(GroupQuery.single(2)), oracle.survivors.tolist()  # in between: within 0.5 of 0 and of 1
    (0.5, [0, 1, 2, 3])
    """

    def _choose(
        self, numbers: np.ndarray, values: np.ndarray, many: int, reference: float, answers: Answers
    ) -> float:
        if many:
            values = np.append(values, answers.others)
        weights = np.ones(len(values), dtype=np.int64)
        if many:
            weights[-1] = many
        # touching intervals share their end, whichever way it was rounded
        middles = _middles(values, weights, self._model, ROUNDING / 2)
        if answers.at_edge(self._model):
            # there only an exact comparison tells what touches: whatever the float64 around an end is valid for counts
            ends = _middles(values, weights, self._model, 0.0)
            apart = _middles(values, weights, self._model, -ROUNDING / 2)
            middles = np.concatenate([middles, ends, *(np.nextafter(ends, to) for to in (-2.0, 2.0)), apart])
            kept = [weights @ answers.allowed(self._model, values, reply) for reply in middles]
            middles = middles[kept == np.max(kept)]
        best = np.lexsort((middles, abs(middles - reference)))[0]
        return float(np.clip(middles[best], self._model.low, self._model.high))


def _middles(
    values: Float[np.ndarray, " s"], weights: Int[np.ndarray, " s"], model: QueryModel, allowance: float
) -> Float[np.ndarray, " i"]:
    """The middles of the intervals of replies that the greatest weight of true answers allows."""
    errors = model.errors(values) + allowance
    starts, ends = values - errors, values + errors
    by_start, by_end = np.argsort(starts, kind="stable"), np.argsort(ends, kind="stable")
    starts, ends = starts[by_start], ends[by_end]
    begun = np.cumsum(weights[by_start])
    finished = np.concatenate([[0], np.cumsum(weights[by_end])])
    # equal starts: count them all
    begun = begun[np.searchsorted(starts, starts, side="right") - 1]
    # where the depth is greatest it was just raised by a start; it lasts until the next end
    depth = begun - finished[np.searchsorted(ends, starts, side="left")]
    deepest = np.unique(starts[depth == depth.max()])
    return (deepest + ends[np.searchsorted(ends, deepest, side="left")]) / 2
