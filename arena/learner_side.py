"""The learner's side of the curves: the tolerance that six phases need, and the one that hides the parities."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attention._arrays import shown
from attention.validation import count
from lower import number_of_parities, parity_exponent
from sq import visible_below
from upper.six_phase import QueryPlan, six_phase_queries

__all__ = ["LEARNER_SIDE_DIMS", "LEARNER_SIDE_HEADS", "LearnerSide", "learner_side"]

LEARNER_SIDE_DIMS = (8, 16, 32, 64, 128, 256, 512, 1024)
"""The dimensions d that are drawn."""
LEARNER_SIDE_HEADS = (2, 4, 8, 16)
"""The heads m of the hard families beside them; each hides a parity of 2m - 1 bits."""


@dataclass(frozen=True)
class LearnerSide:
    """What six phases ask in d dimensions, beside one family of parities.

    Attributes
    ----------
    dim, heads, bits : int
        d, the heads m of the hard family, and the 2m - 1 bits that they hide.
    queries : int
        Q: the scalar queries of phases 1 to 5 on a nice target of two heads and two tokens.
    tolerance : float
        The smallest tolerance among them.
    targets : int
        N = C(d - 1, 2m - 1).
    visible_below : float
        From this tolerance on, Q queries of STAT cannot tell the N targets apart.
    """

    dim: int
    heads: int
    bits: int
    queries: int
    tolerance: float
    targets: int
    visible_below: float

    @property
    def invisible(self) -> bool:
        """Whether Q queries of the tolerance that the learner needs on nice targets cannot tell the parities apart."""
        return self.tolerance >= self.visible_below

    def row(self) -> dict[str, Any]:
        """The fields as JSON values."""
        shown: dict[str, Any] = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**shown, "invisible": self.invisible}


def learner_side(
    dims: Sequence[int] = LEARNER_SIDE_DIMS, heads: Sequence[int] = LEARNER_SIDE_HEADS
) -> tuple[LearnerSide, ...]:
    """The curve of the six-phase learner: nothing is asked, its plan is counted.

    Parameters
    ----------
    dims : sequence of int
        d, at least 3; pairs with fewer than two targets are left out.
    heads : sequence of int
        m of the hard families.

    Returns
    -------
    tuple of LearnerSide
        By dimension, then heads.

    Notes
    -----
    Exact: the count of queries, for the plan as it is. A rule of thumb, checked on nice targets of d up to 32: that the
    tolerances of the plan are what it needs. Proved: from `visible_below` on, no learner of so many queries tells
    the parities apart (labels two-valued on the gate, `sq.full_query_cap`). Not shown: that it does below; and the
    plan is that of two heads for every family: more heads agree on fewer rows and need smaller tolerances.

    Examples
    --------
    >>> [(one.dim, one.heads, one.invisible) for one in learner_side([64, 1024], [2, 16])]
    [(64, 2, False), (64, 16, False), (1024, 2, False), (1024, 16, True)]
    """
    dims, heads = (_whole_numbers(name, one) for name, one in (("dims", dims), ("heads", heads)))
    found = []
    for dim in (count("dim", one) for one in dims):
        counts = six_phase_queries(QueryPlan(m=2, k=2, d=dim))
        queries, tolerance = sum(one.count for one in counts), min(one.tolerance for one in counts)
        for m in heads:
            bits = parity_exponent(m)
            if bits >= dim - 1:
                continue
            targets = number_of_parities(dim, bits)
            edge = visible_below(targets, queries, full=True)
            found.append(LearnerSide(dim, m, bits, queries, tolerance, targets, edge))
    return tuple(found)


def _whole_numbers(name: str, values: Any) -> list[int]:
    try:
        found = list(values)
    except TypeError:
        raise ValueError(f"{name} is {shown(values)}: a list of whole numbers is needed.") from None
    return [count(name, one) for one in found]
