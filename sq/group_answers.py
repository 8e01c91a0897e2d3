"""The true answers to group queries on every candidate, in closed form."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from sq.models import CSQ, QueryModel
from sq.queries import GroupQuery
from sq.target_family import TargetFamily

__all__ = ["Answers", "GroupAnswers"]

_NORM_SLACK = 1e-9


@dataclass(frozen=True, eq=False)
class Answers:
    """The true answer to one query on every candidate.

    Attributes
    ----------
    numbers : array of int (s,) or None
        The candidates listed, distinct; None for all of them in order.
    values : array (s,)
        Their answers.
    others : float
        The answer on every candidate that is not listed.
    even : int or None
        s where the answers listed are exactly 1/sqrt(s) or -1/sqrt(s) and the others 0, so that validity can be decided
        beyond float64; None where that is not known.
    """

    numbers: Int[np.ndarray, " s"] | None
    values: Float[np.ndarray, " s"]
    others: float = 0.0
    even: int | None = None

    def allowed(
        self, model: QueryModel, values: Float[np.ndarray, " n"], reply: float
    ) -> Bool[np.ndarray, " n"]:
        """For which of some of these answers the reply is valid."""
        if self.even is not None and isinstance(model, CSQ):
            return model.allows_even(values, reply, self.even)
        return model.allows(values, reply)

    def at_edge(self, model: QueryModel) -> bool:
        """Whether validity is decided exactly, as rounding would decide otherwise (`CSQ.at_edge`)."""
        return self.even is not None and isinstance(model, CSQ) and model.at_edge(self.even)


class GroupAnswers:
    """Answers group queries on every candidate of a family: E sum_a h(X)_a f_T(X)_a for each T.

    Parameters
    ----------
    family : TargetFamily
        The candidates.

    Notes
    -----
    O(s) for orthonormal hidden parts: the weights, and 0 on all others. Otherwise O(s N), one row of correlations at a
    time; |h|^2 is the weights' quadratic form in the Gram matrix. The N x N matrix is never formed. A norm above 1 by
    rounding is divided out: no query rules out more than one of norm 1 could.

    Examples
    --------
    >>> from sq import GroupQuery, ParityFamily
    >>> answers = GroupAnswers(ParityFamily(dim=40, bits=4))(GroupQuery.single(82250))
    >>> answers.numbers.tolist(), answers.values.tolist(), answers.others
    ([82250], [1.0], 0.0)
    """

    def __init__(self, family: TargetFamily) -> None:
        self._family, self._size = family, family.secrets.size
        self._orthonormal = family.orthonormal

    def __call__(self, query: GroupQuery) -> Answers:
        """The answers.

        Raises
        ------
        ValueError
            If the group names a target that does not exist, or |h| is above 1 (by more than 1e-9, for rounding).
        """
        largest = query.numbers.max()
        if largest >= self._size:
            raise ValueError(f"The {query.name} names target {largest}: there are {self._size}, from 0 on.")
        if self._orthonormal:
            if query.even:
                return Answers(query.numbers, query.weights, even=len(query.numbers))
            return Answers(query.numbers, query.weights / _divisor(query.norm, query.name))
        values = np.zeros(self._size)
        for number, weight in zip(query.numbers, query.weights, strict=True):
            values += weight * self._family.correlations(int(number))
        square = float(query.weights @ values[query.numbers])
        return Answers(None, values / _divisor(float(np.sqrt(max(square, 0.0))), query.name))


def _divisor(norm: float, name: str) -> float:
    if not norm <= 1 + _NORM_SLACK:
        raise ValueError(
            f"The {name} has norm {norm:.6g}: a correlational query has E sum_a h(X)_a^2 of at most 1; divide it by "
            "its norm."
        )
    return max(norm, 1.0)
