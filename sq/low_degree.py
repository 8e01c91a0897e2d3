"""The low-degree learner: every Fourier coefficient up to a degree, each by one query."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations, islice
from math import comb

import numpy as np

from attention import BooleanInputs
from attention.inputs import Rng
from attention.validation import count
from lower import all_sign_matrices
from sq.confirm import confirmed, nearest_candidate
from sq.models import ROUNDING
from sq.oracles import SQOracle
from sq.queries import CorrelationalQueries
from sq.sq_result import Account, SQResult, require_correlational_oracle
from sq.target_family import TargetFamily, require_family

__all__ = ["LowDegreeLearner"]

_AT_ONCE = 64
_MOST_BITS = 12
_SHOWN = 4


@dataclass(frozen=True)
class LowDegreeLearner:
    """Asks for the coefficients of all monomials of degree at most r in the k d entries of X, in each of the k rows.

    Parameters
    ----------
    degree : int
        r, at least 0.
    samples : int
        How many random inputs it compares candidates on where there are more than 2^12: no examples, the learner draws
        them itself.

    Notes
    -----
    k sum_{i <= r} C(k d, i) queries. A coefficient is seen if its reply is off 0 by more than tau: then it is not 0.
    The hidden part of a parity of l bits has none below degree 2l + 1, and there 4 of +-1/2, so the learner finds
    nothing unless r >= 2l + 1, and then tau < 1/2. What is seen suggests the candidate nearest to it, and one more
    query confirms or refutes it.

    References
    ----------
    Linial, Mansour and Nisan 1993 for the idea; as counted queries derived here.

    Examples
    --------
    >>> from sq import CSQ, ExactOracle, ParityFamily
    >>> family = ParityFamily(dim=4, bits=1)
    >>> print(LowDegreeLearner(degree=2).learn(ExactOracle(CSQ(0.3), family, 1), family).explanation)
    None of the 74 coefficients of degree at most 2 was seen: every reply is within 0.3 of 0.
    >>> result = LowDegreeLearner(degree=3).learn(ExactOracle(CSQ(0.3), family, 1), family)
    >>> result.secret, result.asked
    ((2,), 187)
    """

    degree: int
    samples: int = 4096

    def __post_init__(self) -> None:
        object.__setattr__(self, "degree", count("degree", self.degree, least=0))
        object.__setattr__(self, "samples", count("samples", self.samples))

    def queries(self, tokens: int, dim: int) -> int:
        """How many coefficients there are: the queries, but for the one that confirms."""
        return tokens * sum(comb(tokens * dim, degree) for degree in range(self.degree + 1))

    def learn(self, oracle: SQOracle, family: TargetFamily, *, rng: Rng = None) -> SQResult:
        """Ask for all coefficients, and name the target if they give it away.

        Parameters
        ----------
        oracle : SQOracle
            Of the model CSQ.
        family : TargetFamily
            The candidates.
        rng : optional
            Anything `numpy.random.default_rng` accepts (SPEC 7); draws the inputs that candidates are compared on.

        Raises
        ------
        ValueError
            If the oracle is not correlational.
        """
        require_family(family)
        tau = require_correlational_oracle(oracle, "low-degree learner")
        account = Account("low-degree learner", oracle, family)
        k, d = family.tokens, family.dim
        seen: list[tuple[int, tuple[int, ...], float]] = []
        for chunk in self._chunks(k, d):
            replies = oracle.query_many(CorrelationalQueries(_Monomials(chunk), len(chunk), name="monomials"))
            big = np.abs(replies) > tau + ROUNDING
            seen += [(*chunk[i], float(replies[i])) for i in np.flatnonzero(big)]
        if not seen:
            return account.refused(
                f"None of the {account.asked} coefficients of degree at most {self.degree} was seen: every reply is "
                f"within {tau:g} of 0."
            )
        x = (
            all_sign_matrices(k, d)
            if k * d <= _MOST_BITS
            else BooleanInputs(k, d).sample(self.samples, rng=rng)
        )
        monomials = _Monomials([(row, entries) for row, entries, _ in seen])(x)
        number, _ = nearest_candidate(monomials @ np.array([reply for *_, reply in seen]), x, family)
        return confirmed(account, oracle, family, number, _seen_sentence(seen, d))

    def _chunks(self, k: int, d: int) -> Iterator[list[tuple[int, tuple[int, ...]]]]:
        by_degree = (combinations(range(k * d), degree) for degree in range(self.degree + 1))
        every = ((row, entries) for entries in chain.from_iterable(by_degree) for row in range(k))
        while chunk := list(islice(every, _AT_ONCE)):
            yield chunk


@dataclass(frozen=True, eq=False)
class _Monomials:
    """prod_{e in entries} X_e in one row of the output and 0 in the others, for each of some (row, entries)."""

    chunk: list[tuple[int, tuple[int, ...]]]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        n, k, d = x.shape
        flat = np.ascontiguousarray(x.reshape(n, k * d).T)
        values = np.zeros((n, k, len(self.chunk)))
        for place, (row, entries) in enumerate(self.chunk):
            values[:, row, place] = flat[list(entries)].prod(axis=0)
        return values


def _seen_sentence(seen: list[tuple[int, tuple[int, ...], float]], d: int) -> str:
    shown = [
        f"{reply:.3g} on {' '.join(f'x{entry // d + 1},{entry % d}' for entry in entries) or '1'} in row {row + 1}"
        for row, entries, reply in seen[:_SHOWN]
    ]
    more = f" and {len(seen) - _SHOWN} more" if len(seen) > _SHOWN else ""
    degree = min(len(entries) for _, entries, _ in seen)
    return f"Coefficients were seen from degree {degree} on: {'; '.join(shown)}{more}."
