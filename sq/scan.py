"""The plainest learner: ask for one character after another until one is seen."""

from dataclasses import dataclass

import numpy as np

from attention.inputs import Rng
from attention.validation import count, random_generator
from sq.candidates import Candidates
from sq.group_answers import GroupAnswers
from sq.oracles import SQOracle
from sq.queries import GroupQuery
from sq.sq_result import Account, SQResult, require_correlational_oracle
from sq.target_family import TargetFamily, require_family

__all__ = ["ScanLearner"]


@dataclass(frozen=True)
class ScanLearner:
    """Asks for the correlation with each candidate's own hidden part, in order, each at most once.

    Parameters
    ----------
    shuffled : bool
        Whether the order is drawn with `rng`; by number otherwise.
    queries : int, optional
        The most queries it asks; as many as there are candidates when left out.

    Notes
    -----
    Over N orthonormal candidates and with an answer within tau < 1/2, one query a candidate up to the right one, and
    the last is known without asking: min(place, N - 1) queries, (N + 1)/2 - 1/N on average. Candidates ruled out before
    their turn, as in families that are not orthogonal, are passed over.

    References
    ----------
    Derived here.

    Examples
    --------
    >>> from sq import CSQ, ExactOracle, ParityFamily
    >>> family = ParityFamily(dim=10, bits=2)
    >>> result = ScanLearner().learn(ExactOracle(CSQ(0.3), family, 20), family)
    >>> result.secret, result.asked
    ((3, 9), 21)
    """

    shuffled: bool = False
    queries: int | None = None

    def __post_init__(self) -> None:
        if self.queries is not None:
            object.__setattr__(self, "queries", count("queries", self.queries))

    def learn(self, oracle: SQOracle, family: TargetFamily, *, rng: Rng = None) -> SQResult:
        """Ask until one candidate is left.

        Parameters
        ----------
        oracle : SQOracle
            Of the model CSQ.
        family : TargetFamily
            The candidates.
        rng : optional
            Anything `numpy.random.default_rng` accepts (SPEC 7); draws the order if it is shuffled.

        Raises
        ------
        ValueError
            If the oracle is not correlational.
        """
        require_family(family)
        require_correlational_oracle(oracle, "scan")
        account = Account("scan", oracle, family)
        size = family.secrets.size
        candidates, answers = Candidates(size, oracle.model), GroupAnswers(family)
        order = random_generator(rng).permutation(size) if self.shuffled else np.arange(size)
        for number in map(int, order):
            if len(candidates) <= 1:
                break
            if account.asked == self.queries:
                return account.spent(candidates)
            if not candidates.holds(number):
                continue
            query = GroupQuery.single(number)
            candidates.update(answers(query), oracle.query(query))
        return account.ended(
            candidates,
            f"All candidates left were asked for and {len(candidates)} are consistent with all replies: at this "
            "tolerance a reply can lie between that of the right one and that of the others.",
        )
