"""Learners that ask for many characters at once: sums of them, and differences of sums."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from attention.inputs import Rng
from attention.validation import count, require_instance
from lower import eliminated_per_query, exact_fraction
from sq.candidates import Candidates
from sq.group_answers import GroupAnswers
from sq.oracles import SQOracle
from sq.queries import GroupQuery
from sq.sq_result import Account, SQResult, require_correlational_oracle
from sq.target_family import TargetFamily, require_family

__all__ = ["GroupLearner", "SignedGroupLearner", "group_learner_bound"]


def group_learner_bound(targets: int, tolerance: float) -> int:
    """ceil((N - 1)/M*) + ceil(log2 M*): what `GroupLearner` asks at most where every reply settles its group.

    Parameters
    ----------
    targets : int
        The number N of orthonormal candidates.
    tolerance : float
        tau, above 0 and below 1.

    Notes
    -----
    A reply settles the group A if it rules out either all of A or all others. Those of an exact oracle do, and those
    of `ReferenceAdversary`, as 1/sqrt(M*) > tau; any valid reply does if 1/sqrt|A| > 2 tau. This holds at every float
    tau, also where 1/sqrt(M*) and tau round to the same float: M* and validity are exact there (`CSQ.allows_even`).

    References
    ----------
    Derived here.

    Examples
    --------
    >>> group_learner_bound(455, 0.3)
    46
    """
    targets, most = count("targets", targets), eliminated_per_query(tolerance)
    return math.ceil(Fraction(targets - 1, most)) + (most - 1).bit_length()


@dataclass(frozen=True)
class GroupLearner:
    """Asks for h_A = sum_{S in A} f_S / sqrt|A| with |A| = M*, group after group, and bisects the group that is hit.

    Parameters
    ----------
    queries : int, optional
        The most queries it asks.

    Notes
    -----
    |A| = min(M*, candidates left - 1), M* = ceil(1/tau^2) - 1: the answer on every member of A is 1/sqrt|A| > tau.
    Against `ReferenceAdversary` it asks ceil((N - 1)/M*) queries, which is the lower bound. A reply between 0 and
    1/sqrt|A| can leave everyone in; then it turns to groups so small that 1/sqrt|A| > 2 tau, whose every valid reply
    rules out A or all others, and refuses if not even one character is that large (tau >= 1/2).

    References
    ----------
    Derived here.

    Examples
    --------
    >>> from sq import CSQ, ParityFamily, ReferenceAdversary
    >>> family = ParityFamily(dim=16, bits=3)
    >>> GroupLearner().learn(ReferenceAdversary(CSQ(0.1), family), family).asked
    5
    """

    queries: int | None = None

    def __post_init__(self) -> None:
        if self.queries is not None:
            object.__setattr__(self, "queries", count("queries", self.queries))

    def learn(self, oracle: SQOracle, family: TargetFamily, *, rng: Rng = None) -> SQResult:
        """Ask until one candidate is left, or no reply can be relied on to rule one out.

        Parameters
        ----------
        oracle : SQOracle
            Of the model CSQ.
        family : TargetFamily
            The candidates, orthonormal.
        rng : optional
            Not used: the learner is deterministic.

        Raises
        ------
        ValueError
            If the oracle is not correlational, or the hidden parts not orthonormal.
        """
        tau = _checked(oracle, family, "group learner")
        account = Account("group learner", oracle, family)
        candidates, answers = Candidates(family.secrets.size, oracle.model), GroupAnswers(family)
        most, sure = eliminated_per_query(tau), _surely_settled(tau)
        careful = bisecting = False
        while (left := len(candidates)) > 1:
            if account.asked == self.queries:
                return account.spent(candidates)
            size = min(sure if careful else most, left // 2 if bisecting else left - 1)
            if size < 1:
                return account.ended(candidates, _in_between(tau, left, "1/2"))
            query = GroupQuery.signed(candidates.first(size))
            reply = oracle.query(query)
            true = answers(query)
            out = candidates.update(true, reply)
            # a hit: the answer on all others, 0, is ruled out
            bisecting = bisecting or not true.allowed(oracle.model, np.zeros(1), reply)[0]
            if out == 0:
                if careful:
                    return account.ended(candidates, _in_between(tau, left, "1/2"))
                careful = True
        return account.ended(candidates, "")


@dataclass(frozen=True)
class SignedGroupLearner:
    """Asks for h = (sum_{A+} f - sum_{A-} f) / sqrt|A|: every valid reply rules out one sign's half, or more.

    Parameters
    ----------
    queries : int, optional
        The most queries it asks.

    Notes
    -----
    |A| = min(M*, candidates left), A- the half rounded down. The answers on A+ and A- are 2/sqrt|A| > 2 tau apart, so
    no reply is valid for both: at least floor(|A|/2) candidates go with each query while M* >= 2. With M* = 1, tau >=
    1/sqrt 2, a reply in the middle keeps any two candidates, whatever is asked, and the learner refuses.

    References
    ----------
    Derived here.

    Examples
    --------
    >>> from sq import CSQ, MostPreservingAdversary, ParityFamily
    >>> family = ParityFamily(dim=16, bits=3)
    >>> SignedGroupLearner().learn(MostPreservingAdversary(CSQ(0.3), family), family).asked
    93
    """

    queries: int | None = None

    def __post_init__(self) -> None:
        if self.queries is not None:
            object.__setattr__(self, "queries", count("queries", self.queries))

    def learn(self, oracle: SQOracle, family: TargetFamily, *, rng: Rng = None) -> SQResult:
        """Ask until one candidate is left, or a reply rules out none; arguments as for `GroupLearner.learn`.

        Raises
        ------
        ValueError
            If the oracle is not correlational, or the hidden parts not orthonormal.
        """
        tau = _checked(oracle, family, "signed-group learner")
        account = Account("signed-group learner", oracle, family)
        candidates, answers = Candidates(family.secrets.size, oracle.model), GroupAnswers(family)
        most = eliminated_per_query(tau)
        while (left := len(candidates)) > 1:
            if account.asked == self.queries:
                return account.spent(candidates)
            group = candidates.first(min(most, left))
            half = len(group) - len(group) // 2
            query = GroupQuery.signed(group[:half], group[half:])
            out = candidates.update(answers(query), oracle.query(query))
            if out == 0:
                return account.ended(candidates, _in_between(tau, left, "1/sqrt 2"))
        return account.ended(candidates, "")


def _checked(oracle: SQOracle, family: TargetFamily, learner: str) -> float:
    require_instance("oracle", oracle, SQOracle, needed="an oracle such as ExactOracle or HonestOracle")
    require_family(family)
    tau = require_correlational_oracle(oracle, learner)
    if not family.orthonormal:
        raise ValueError(
            f"The family {family.name!r} is not known to be orthonormal: the {learner} relies on it; take the scan."
        )
    return tau


def _surely_settled(tau: float) -> int:
    """The largest |A| with 1/sqrt|A| > 2 tau; 0 if there is none."""
    twice = 2 * exact_fraction("tolerance", tau)
    return eliminated_per_query(twice) if twice < 1 else 0


def _in_between(tau: float, left: int, edge: str) -> str:
    return (
        f"The reply lay between the answers of the candidates and ruled out none; {left} are left. At tolerance "
        f"{tau:g} such replies are valid: below {edge} this learner can do without luck."
    )
