"""From a function that resembles the hidden part to the name of the target: one more query."""

import numpy as np
from jaxtyping import Float

from sq.candidates import Candidates
from sq.group_answers import GroupAnswers
from sq.oracles import SQOracle
from sq.queries import GroupQuery
from sq.sq_result import Account, SQResult
from sq.target_family import TargetFamily

__all__ = ["confirmed", "nearest_candidate"]


def nearest_candidate(
    values: Float[np.ndarray, "n k"], x: Float[np.ndarray, "n k d"], family: TargetFamily
) -> tuple[int, float]:
    """The candidate whose hidden part is nearest to a function, and the mean square distance over the inputs.

    Parameters
    ----------
    values : array (n, k)
        The function on the inputs.
    x : array (n, k, d)
        The inputs.
    family : TargetFamily
        The candidates.

    Notes
    -----
    Orthonormal hidden parts are sqrt 2 apart, so a mean square distance below 1/2 over all inputs is from one only.
    O(N n) evaluations of hidden parts, and no query: the learner knows the family.
    """
    size, n = family.secrets.size, len(x)
    distances = [float(np.sum((family.hidden(number, x) - values) ** 2)) / n for number in range(size)]
    best = int(np.argmin(distances))
    return best, distances[best]


def confirmed(account: Account, oracle: SQOracle, family: TargetFamily, number: int, why: str) -> SQResult:
    """Ask for the correlation with one target's hidden part; its name if only it is consistent with the reply.

    Parameters
    ----------
    account : Account
        The count of the run.
    oracle : SQOracle
        Of the model CSQ.
    family : TargetFamily
        The candidates.
    number : int
        The target thought to be the right one.
    why : str
        What suggested it, for the explanation.

    Notes
    -----
    If the target is the only candidate for which this reply is valid, it is the only one for which all replies are
    valid, whatever was asked before: there is one of those as long as the oracle keeps its tolerance.
    """
    query = GroupQuery.single(number)
    candidates = Candidates(family.secrets.size, oracle.model)
    reply = oracle.query(query)
    candidates.update(GroupAnswers(family)(query), reply)
    if len(candidates) == 1 and candidates.holds(number):
        return account.named(number, f"{why} The reply to its own character, {reply:.3g}, allows no other.")
    return account.refused(
        f"{why} But the reply to the character of target {number}, {reply:.3g}, does not single it out.",
        survivors=len(candidates),
    )
