"""Dimensions of families: the SQ dimension by cliques, statistical dimension with average correlation, and VSTAT."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np
from jaxtyping import Float

from attention.validation import PositiveInt, checked
from lower.bounds import Number, exact_fraction
from sq.family import TargetFamily
from sq.johnson import MOST_DENSE, OverlapGram
from sq.secret_set import SecretSet

_ROUNDING = 1e-12  # a correlation above the threshold by at most this counts as equal


@checked
def gram_matrix(family: TargetFamily) -> Float[np.ndarray, "N N"]:
    """The Gram matrix E sum_a f_S(X)_a f_T(X)_a of a family's targets by its own formula, for at most 4096 targets."""
    if family.secrets.size > MOST_DENSE:
        raise ValueError(
            f"There are {family.secrets.size} targets: matrices are written out for at most {MOST_DENSE}; take an "
            "OverlapGram."
        )
    return np.stack([family.correlations(number) for number in range(family.secrets.size)])


@checked
def sq_dimension(gram: Float[np.ndarray, "N N"], correlation: Number) -> int:
    """The SQ dimension: the size of the largest set of targets with pairwise |correlations| of at most gamma.

    Parameters
    ----------
    gram : array (N, N)
        The correlations: `gram_matrix` of a family, or `OverlapGram.dense`.
    correlation : float, Fraction or str
        gamma, at least 0; entries up to 1e-12 above it count as rounding.

    Notes
    -----
    It is the largest clique of the graph that joins such targets, found by networkx: exact, and exponential in the
    worst case. All 84 sets of 3 among 9 coordinates that share at most one take half a second. A learner of the whole
    family must tell these targets apart. So (size - 1) / `lower.eliminated_per_query(tau, correlation=gamma)` bounds
    its correlational queries from below.

    References
    ----------
    Blum, Furst, Jackson, Kearns, Mansour, Rudich 1994. Conventions for the threshold differ (1/size, or a power of
    it); here the caller chooses gamma.

    Examples
    --------
    >>> fano = OverlapGram(SecretSet(dim=8, bits=3), (0, 0, Fraction(1, 2), 1))
    >>> sq_dimension(fano.dense(), 0)
    7
    """
    import networkx

    gamma = exact_fraction("correlation", correlation)
    if gamma < 0:
        raise ValueError(f"correlation is {correlation}: a number of at least 0 is needed.")
    joined = np.abs(gram) <= float(gamma) + _ROUNDING
    np.fill_diagonal(joined, False)
    graph = networkx.from_numpy_array(joined & joined.T)
    return int(networkx.max_weight_clique(graph, weight=None)[1])


@dataclass(frozen=True)
class StatisticalDimension:
    """A lower bound on the statistical dimension with average correlation.

    `whole` may be above `value`, because set sizes are whole numbers.
    """

    value: Fraction  #: N/s for the real s from which average correlations are at most gamma
    whole: int  #: the largest whole q that follows
    ruled_out: int  #: the most candidates that a query of VSTAT(1/(3 gamma)) rules out


@checked
def statistical_dimension(gram: OverlapGram, correlation: Number) -> StatisticalDimension:
    """A lower bound on SDA(gamma): the largest q with average correlation <= gamma on all sets of >= N/q targets.

    `lower.SecretPairs.statistical_dimension` is its other form, with events of pairs in place of sets of targets; for
    orthogonal targets it is the square root of this one.

    Parameters
    ----------
    gram : OverlapGram
        The chi^2 Gram matrix <D_S/D_0 - 1, D_T/D_0 - 1> under a reference D_0: `reference_gram` for parities.
    correlation : float, Fraction or str
        gamma, above 0 and below the largest |entry|. At larger gamma every set qualifies, and q has no bound.

    Notes
    -----
    The average over a set of s targets is at most the average of the s largest |entries| of a row. `value` is N/s for
    the real s at which the latter average is gamma, so sets of at least N/value targets qualify. For orthogonal targets
    the bound is attained: `value` is gamma N / diagonal, which is 2 gamma N for parities, and `whole` is exactly the
    number of the definition.

    References
    ----------
    Feldman, Grigorescu, Reyzin, Vempala, Xiao 2017, "Statistical algorithms and a lower bound for detecting planted
    cliques", for the definition. Here it has the form of later papers: all sets of at least N/q, average at most gamma.

    Examples
    --------
    >>> statistical_dimension(reference_gram(SecretSet(dim=8, bits=3)), 0.1)
    StatisticalDimension(value=Fraction(7, 1), whole=8, ruled_out=4)
    """
    real = _qualifying_size(gram, exact_fraction("correlation", correlation))
    if real is None:
        return StatisticalDimension(Fraction(0), 0, gram.size)
    ruled_out = ceil(real) - 1
    return StatisticalDimension(gram.size / real, ceil(Fraction(gram.size, ruled_out)) - 1, ruled_out)


@checked
def vstat_calls(gram: OverlapGram, samples: PositiveInt) -> int:
    """The least number of calls to VSTAT(n) that tell the targets from the reference.

    The error of VSTAT(n) is at most max(1/n, sqrt(p(1-p)/n)), where p is the true mean of the query in [0, 1].

    Parameters
    ----------
    gram : OverlapGram
        The chi^2 Gram matrix under the reference.
    samples : int
        n.

    Notes
    -----
    The fewest calls of a deterministic learner that can rule out all candidates against the reference: ceil(N / M),
    where M is the most that one call rules out. It is about SDA(1/(3n)), which is 2N/(3n) for parities. To tell the
    targets from each other, N - 1 takes the place of N.

    Proof. The oracle answers p_0, the mean under the reference. Let p_0 <= 1/2; otherwise take 1 - q for q. The answer
    is invalid on S only if D = |p - p_0| > max(1/n, sqrt(p(1-p)/n)). Then D^2 > p_0/(3n), by two cases. If p <= 2 p_0/3
    or p > 2/3, then D >= p_0/3 and D > 1/n. Otherwise p(1-p) >= p_0/3. Let A be the set of the a candidates on which
    the answer is invalid. The sum over A of |<q, D_S/D_0 - 1>| is above a sqrt(p_0/(3n)). It is at most
    |q| a sqrt(average correlation of A), with |q|^2 <= p_0. So A has an average correlation above 1/(3n).

    References
    ----------
    Feldman, Grigorescu, Reyzin, Vempala, Xiao 2017, the theorem on VSTAT(1/(3 gamma)), in the form of later papers; the
    proof above is self-contained.

    Examples
    --------
    >>> parities = reference_gram(SecretSet(dim=40, bits=4))
    >>> float(statistical_dimension(parities, Fraction(1, 30)).value), vstat_calls(parities, 10)
    (5483.4, 5876)
    """
    # a query that may rule out all candidates leaves one call
    return ceil(Fraction(gram.size, statistical_dimension(gram, Fraction(1, 3 * samples)).ruled_out))


@checked
def reference_gram(secrets: SecretSet) -> OverlapGram:
    """The chi^2 Gram matrix of the two-token parities: I/2, under a reference with a fair sign on the gate.

    D_S/D_0 - 1 is plus or minus chi_S on the gate, of probability 1/2, and 0 off it: orthogonal for different S.
    """
    return OverlapGram(secrets, (*([0] * secrets.bits), Fraction(1, 2)))


def _qualifying_size(gram: OverlapGram, gamma: Fraction) -> Fraction | None:
    # the least real s for which the average of the s largest |entries| of a row is at most gamma; None if none
    before, lower = 0, Fraction(0)
    for size, total in gram.top_sums():
        if not before and not 0 < gamma < total / size:
            raise ValueError(
                f"correlation is {float(gamma):.6g}: a number above 0 and below the largest entry "
                f"{float(total / size):.6g} is needed; from there on every set of targets qualifies."
            )
        if before and total <= gamma * size:
            slope = (total - lower) / (size - before)
            # between the two the sums lie on the chord, or below it
            return (
                min((lower - slope * before) / (gamma - slope), Fraction(size))
                if slope < gamma
                else Fraction(size)
            )
        before, lower = size, total
    return None
