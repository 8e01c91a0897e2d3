"""Adversarial oracles: each reply is valid for some candidate and chosen to help the learner least."""

from abc import abstractmethod

import numpy as np
from jaxtyping import Float, Int

from attention.validation import checked
from sq.answers import Answers, Candidates
from sq.family import TargetFamily
from sq.models import ROUNDING, QueryModel
from sq.oracles import FamilyOracle


class _Adversary(FamilyOracle):
    """Keeps the candidates for which all its replies were valid; there is always one."""

    @checked
    def __init__(self, model: QueryModel, family: TargetFamily) -> None:
        super().__init__(model, family)
        self._left = Candidates(family.secrets.size, model)

    @property
    def survivors(self) -> Int[np.ndarray, " left"]:
        """The candidates for which every reply so far was valid, in increasing order; never empty."""
        return self._left.numbers

    @abstractmethod
    def _choose(self, values: np.ndarray, many: np.ndarray, reference: float, group: int | None) -> float:
        """The reply, where value i of `values` is the true answer on `many[i]` of the remaining candidates."""

    def _in_question(self) -> np.ndarray:
        return self.survivors

    def _settle(self, answers: Answers, reference: float) -> float:
        numbers, values, others = self._left.listed(answers)
        # by number, so that the lowest comes first among equals
        if not (numbers[1:] > numbers[:-1]).all():
            values = values[np.argsort(numbers)]
        many = np.ones(len(values) + (others > 0), dtype=np.int64)
        if others:
            values, many[-1] = np.append(values, answers.others), others
        reply = self._choose(values, many, reference, answers.group)
        self._left.update(answers, reply)
        assert len(self._left) > 0, "a reply was valid for no candidate"
        return reply


class ReferenceAdversary(_Adversary):
    """Replies with the reference value as long as that is valid for some surviving candidate.

    The reference value of a correlational query is 0, the answer of the known part alone. The reference value of a
    statistical query is its mean when each input draws a new sign for the hidden part of target 0; for parities such
    labels do not distinguish the targets. If no survivor allows the reference value, the oracle takes the survivor
    whose true answer is nearest to it, the lowest number among equals. It replies with the nearest value that is valid
    for this survivor. Nothing is random.

    Notes
    -----
    Against orthonormal candidates a correlational query rules out at most M* = ceil(1/tau^2) - 1 of them, by Bessel's
    inequality. `lower.query_lower_bound` follows from this. A group query takes O(s) steps over orthonormal hidden
    parts and O(s N) over others; a plain function is evaluated on all 2^(k d) inputs, for each survivor.

    References
    ----------
    Blum et al. 1994 for the argument.

    Examples
    --------
    >>> from sq import CSQ, GroupQuery, ParityFamily
    >>> oracle = ReferenceAdversary(CSQ(0.5), ParityFamily(dim=5, bits=1))
    >>> oracle.query(GroupQuery.single(2)), oracle.survivors.tolist(), oracle.asked
    (0.0, [0, 1, 3], 1)
    """

    def _choose(self, values: np.ndarray, many: np.ndarray, reference: float, group: int | None) -> float:
        if self.model.allows(values, reference, group).any():
            return reference
        nearest = float(values[np.argmin(abs(values - reference))])
        error = float(self.model.errors(nearest))
        for kept in (error, error - ROUNDING):
            reply = float(np.clip(reference, nearest - kept, nearest + kept))
            # in exact arithmetic the rounded end may lie outside the interval by its last digit
            if self.model.allows(np.array([nearest]), reply, group)[0]:
                return reply
        return nearest


class MostPreservingAdversary(_Adversary):
    """Replies with a valid value that keeps the most candidates.

    The values that keep the most form intervals. The reply is the middle of one interval: the middle nearest to the
    reference value of `ReferenceAdversary`, the lower one among equals. Nothing is random.

    Notes
    -----
    Each candidate allows an interval of replies. Sorting the ends of the intervals finds the value in most of them. The
    choice is greedy: it considers the present query only. Cost as for `ReferenceAdversary`, plus O(s log s).

    Examples
    --------
    >>> from sq import CSQ, GroupQuery, ParityFamily
    >>> oracle = MostPreservingAdversary(CSQ(0.5), ParityFamily(dim=5, bits=1))
    >>> oracle.query(GroupQuery.single(2)), oracle.survivors.tolist()  # in between: within 0.5 of 0 and of 1
    (0.5, [0, 1, 2, 3])
    """

    def _choose(self, values: np.ndarray, many: np.ndarray, reference: float, group: int | None) -> float:
        # touching intervals share their end, whichever way it was rounded
        middles = _middles(values, many, self.model.errors(values) + self.model.allowance(group) / 2)
        best = np.lexsort((middles, abs(middles - reference)))[0]
        return float(np.clip(middles[best], self.model.low, self.model.high))


def _middles(
    values: Float[np.ndarray, " s"], weights: Int[np.ndarray, " s"], errors: Float[np.ndarray, " s"] | float
) -> Float[np.ndarray, " i"]:
    """The middles of those intervals of replies that the most candidates allow."""
    starts, ends = values - errors, values + errors
    by_start, by_end = np.argsort(starts, kind="stable"), np.argsort(ends, kind="stable")
    starts, ends = starts[by_start], ends[by_end]
    begun = np.cumsum(weights[by_start])
    finished = np.concatenate([[0], np.cumsum(weights[by_end])])
    # equal starts: count them all
    begun = begun[np.searchsorted(starts, starts, side="right") - 1]
    # a start has just raised the depth to its greatest value; this depth lasts until the next end
    depth = begun - finished[np.searchsorted(ends, starts, side="left")]
    deepest = np.unique(starts[depth == depth.max()])
    return (deepest + ends[np.searchsorted(ends, deepest, side="left")]) / 2
