"""Statistical dimensions: nearly orthogonal sets, average correlation, and calls to VSTAT."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from attention.validation import PositiveInt, checked
from lower.bounds import Number, exact_fraction
from sq.caps import Bound, shown
from sq.cliques import correlation_clique
from sq.gram import GramMatrix
from sq.johnson import Gram, OverlapGram
from sq.secret_set import SecretSet

__all__ = [
    "StatisticalDimension",
    "clique_dimension",
    "reference_gram",
    "statistical_dimension",
    "vstat_calls",
]


@checked
def clique_dimension(gram: Gram, correlation: Number) -> Bound:
    """The size of the largest set with pairwise |correlations| <= gamma, a clique; for at most 4096 targets.

    Notes
    -----
    `sq.cliques.correlation_clique` gives the targets. Their number bounds the statistical query dimension from below.
    A learner of the whole family must tell these targets apart, so (number - 1) / `szorenyi_cap(gamma, tau)` bounds its
    queries from below. Exponential in the worst case. Up to 1e-12 above gamma counts as rounding: "no larger set" holds
    for gamma itself, and the set meets gamma up to 1e-12.

    References
    ----------
    Blum, Furst, Jackson, Kearns, Mansour, Rudich 1994 for the dimension. Conventions for its threshold differ (1/size,
    or a power of it); here the caller chooses gamma.

    Examples
    --------
    >>> fano = OverlapGram(SecretSet(dim=8, bits=3), (0, 0, Fraction(1, 2), 1))
    >>> print(clique_dimension(fano, 0).inequality)
    at least 7 of 35 targets have pairwise |correlations| <= 0, and no larger set has
    """
    gamma = exact_fraction("correlation", correlation)
    if gamma < 0:
        raise ValueError(f"correlation is {correlation}: a number of at least 0 is needed.")
    size = len(correlation_clique(gram, float(gamma)))
    return Bound(
        "SQ dimension",
        size,
        size,
        f"at least {size} of {gram.size} targets have pairwise |correlations| <= {shown(gamma)}, and no larger "
        "set has",
        "Blum et al. 1994; maximum clique by exact search",
    )


@dataclass(frozen=True)
class StatisticalDimension(Bound):
    """A lower bound on the statistical dimension with average correlation.

    `whole` may be above `value`, because set sizes are whole numbers. No query of VSTAT(1/(3 gamma)) rules out more
    than `ruled_out` candidates.
    """

    ruled_out: int


@checked
def statistical_dimension(gram: Gram, correlation: Number) -> StatisticalDimension:
    """A lower bound on SDA(gamma): the largest q with average correlation <= gamma on all sets of >= N/q targets.

    Parameters
    ----------
    gram : GramMatrix or OverlapGram
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
    >>> found = statistical_dimension(reference_gram(SecretSet(dim=8, bits=3)), 0.1)
    >>> found.value, found.whole
    (Fraction(7, 1), 8)
    """
    gamma = exact_fraction("correlation", correlation)
    real = _qualifying_size(gram, gamma)
    targets = gram.size
    ruled_out = targets if real is None else ceil(real) - 1
    value = Fraction(0) if real is None else targets / real
    return StatisticalDimension(
        "Statistical dimension with average correlation",
        value,
        0 if real is None else ceil(Fraction(targets, ruled_out)) - 1,
        f"SDA({shown(gamma)}) >= N/s = {targets}/{shown(real) if real is not None else 'infinity'} = {shown(value)}, "
        f"s the size from which average correlations are <= {shown(gamma)}",
        "Feldman et al. 2017, the definition as later papers restate it; the bound is derived here",
        ruled_out,
    )


@checked
def vstat_calls(gram: Gram, samples: PositiveInt) -> Bound:
    """The least number of calls to VSTAT(n) that tell the targets from the reference.

    It is SDA(1/(3n)), which is 2N/(3n) for parities.

    Parameters
    ----------
    gram : GramMatrix or OverlapGram
        The chi^2 Gram matrix under the reference.
    samples : int
        n: the oracle's error is at most max(1/n, sqrt(p(1-p)/n)), where p is the true mean of the query in [0, 1].

    Notes
    -----
    `value` is the real form of SDA at gamma = 1/(3n). `whole`, for deterministic learners, is the fewest calls that can
    rule out all candidates against the reference: ceil(N / M), where M is the most that one call rules out. To tell the
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
    >>> calls = vstat_calls(reference_gram(SecretSet(dim=40, bits=4)), 10)
    >>> float(calls), calls.whole
    (5483.4, 5876)
    """
    dimension = statistical_dimension(gram, Fraction(1, 3 * samples))
    # a query that may rule out all candidates leaves one call
    whole = ceil(Fraction(gram.size, dimension.ruled_out))
    return Bound(
        f"Calls to VSTAT({samples})",
        dimension.value,
        whole,
        f"at least SDA(1/(3n)) = SDA(1/{3 * samples}) >= {shown(dimension.value)}; one call rules out at most "
        f"{dimension.ruled_out} of {gram.size}, so at least {whole}",
        "Feldman, Grigorescu, Reyzin, Vempala, Xiao 2017; definition and constant as later papers restate them, the "
        "original unchecked; proof of the inequality: here",
    )


@checked
def reference_gram(secrets: SecretSet) -> OverlapGram:
    """The chi^2 Gram matrix of the two-token parities: I/2, under a reference with a fair sign on the gate.

    D_S/D_0 - 1 is plus or minus chi_S on the gate, of probability 1/2, and 0 off it: orthogonal for different S.
    """
    return OverlapGram(secrets, (*([0] * secrets.bits), Fraction(1, 2)))


def _qualifying_size(gram: Gram, gamma: Fraction) -> Fraction | None:
    # the least real s for which the average of the s largest |entries| of a row is at most gamma; None if none
    rounding = Fraction("1e-12") if isinstance(gram, GramMatrix) else 0  # sums of floats
    before, lower = 0, Fraction(0)
    for size, total in gram.top_sums():
        if not before and not 0 < gamma < total / size:
            raise ValueError(
                f"correlation is {float(gamma):.6g}: a number above 0 and below the largest entry "
                f"{float(total / size):.6g} is needed; from there on every set of targets qualifies."
            )
        if before and total <= (gamma + rounding) * size:
            slope = (total - lower) / (size - before)
            # between the two the sums lie on the chord, or below it
            return (
                min((lower - slope * before) / (gamma - slope), Fraction(size))
                if slope < gamma
                else Fraction(size)
            )
        before, lower = size, total
    return None
