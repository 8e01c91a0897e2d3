"""Statistical dimensions: nearly orthogonal sets, average correlation, and calls to VSTAT."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from attention.validation import count, require_instance
from lower import exact_fraction
from lower.bounds import Number
from sq.caps import Bound, shown
from sq.cliques import Clique, correlation_clique
from sq.correlation import top_averages
from sq.gram import GramMatrix
from sq.johnson import OverlapGram, require_gram
from sq.secret_set import SecretSet

__all__ = [
    "CliqueBound",
    "StatisticalDimension",
    "clique_dimension",
    "reference_gram",
    "statistical_dimension",
    "vstat_calls",
]

_FELDMAN = (
    "Feldman, Grigorescu, Reyzin, Vempala, Xiao 2017; definition and constant as later papers restate them, the "
    "original unchecked; proof of the inequality: here"
)


@dataclass(frozen=True)
class CliqueBound(Bound):
    """A lower bound on the number of nearly orthogonal targets, with the targets.

    Attributes
    ----------
    clique : Clique
        Their numbers, and whether there is no larger set.
    correlation : Fraction
        gamma, which no two of them exceed.
    """

    clique: Clique
    correlation: Fraction

    @property
    def polynomial_size(self) -> int:
        """min(size, floor(1/gamma)): a set of that size whose correlations are at most one over it.

        A lower bound on the statistical query dimension in the convention |correlations| <= 1/size.
        """
        if self.correlation == 0:
            return len(self.clique)
        return min(len(self.clique), int(1 / self.correlation))


def clique_dimension(
    gram: GramMatrix | OverlapGram, correlation: Number | int, *, nodes: int | None = None
) -> CliqueBound:
    """The largest set of targets with pairwise |correlations| <= gamma, as a clique of the correlation graph.

    Parameters
    ----------
    gram : GramMatrix or OverlapGram
        The correlations. For the second, one secret is fixed, as all look alike, and the bound on packings may
        end the search early.
    correlation : float, Fraction or str
        gamma, at least 0.
    nodes : int, optional
        How many branches the search may look at; without a limit the clique is a maximum one.

    Raises
    ------
    ValueError
        If gamma is negative, or an overlap kernel has more than 4096 targets.

    Notes
    -----
    It bounds the statistical query dimension from below, and `queries_needed(size, pairwise_cap(gamma, tau))` is a
    bound on queries for the whole family, as learning it means telling apart these. Exponential in the worst case.
    1e-12 above gamma counts as rounding: "no larger set" holds of gamma as it is, the set itself to within that.

    References
    ----------
    Blum, Furst, Jackson, Kearns, Mansour, Rudich 1994 for the dimension. Conventions for its threshold differ (1/size,
    or a power of it): gamma is left to the caller here.

    Examples
    --------
    >>> fano = OverlapGram(SecretSet(dim=8, bits=3), (0, 0, Fraction(1, 2), 1))
    >>> print(clique_dimension(fano, 0).inequality)
    at least 7 of 35 targets have pairwise |correlations| <= 0, and no larger set has
    """
    require_gram(gram)
    gamma = exact_fraction("correlation", correlation)
    if gamma < 0:
        raise ValueError(f"correlation is {correlation}: a number of at least 0 is needed.")
    clique = correlation_clique(gram, float(gamma), nodes=nodes)
    more = "no larger set has" if clique.exact else f"no set of more than {clique.at_most} has"
    return CliqueBound(
        "SQ dimension",
        len(clique),
        len(clique),
        f"at least {len(clique)} of {gram.size} targets have pairwise |correlations| <= {shown(gamma)}, and {more}",
        "Blum et al. 1994; maximum clique by exact search"
        if clique.exact
        else "Blum et al. 1994; clique by a search cut short",
        clique,
        gamma,
    )


@dataclass(frozen=True)
class StatisticalDimension(Bound):
    """Statistical dimension with average correlation, from below.

    Attributes
    ----------
    whole : int
        What the definition's largest whole number is at least. It may be above `value`, because sets have whole sizes.
    ruled_out : int
        No query of VSTAT(1/(3 gamma)) rules out more candidates than this.
    """

    ruled_out: int


def statistical_dimension(gram: GramMatrix | OverlapGram, correlation: Number | int) -> StatisticalDimension:
    """SDA(gamma): the largest q with average correlation <= gamma on every set of at least N/q targets, from below.

    Parameters
    ----------
    gram : GramMatrix or OverlapGram
        The chi^2 Gram matrix <D_S/D_0 - 1, D_T/D_0 - 1> under a reference D_0: `reference_gram` for parities.
    correlation : float, Fraction or str
        gamma, above 0 and below the largest diagonal entry.

    Raises
    ------
    ValueError
        If gamma is not so: from the largest diagonal entry on every set qualifies and no q is too large.

    Notes
    -----
    No set of s targets has an average above that of the s largest |entries| of a row; `value` is N over the real s at
    which that average is gamma, and sets of at least N/value targets qualify. For orthogonal targets that bound is
    attained: value is gamma N / diagonal, 2 gamma N for parities, and `whole` exactly the definition's number.

    References
    ----------
    Feldman, Grigorescu, Reyzin, Vempala, Xiao 2017, "Statistical algorithms and a lower bound for detecting planted
    cliques", for the definition, here as later papers restate it: all sets of at least N/q, average at most gamma.

    Examples
    --------
    >>> found = statistical_dimension(reference_gram(SecretSet(dim=8, bits=3)), 0.1)
    >>> found.value, found.whole
    (Fraction(7, 1), 8)
    """
    require_gram(gram)
    gamma = exact_fraction("correlation", correlation)
    real, smallest = _qualifying_size(gram, gamma)
    targets = gram.size
    value = Fraction(0) if real is None else targets / real
    whole = 0 if real is None else ceil(Fraction(targets, smallest - 1)) - 1
    return StatisticalDimension(
        "Statistical dimension with average correlation",
        value,
        whole,
        f"SDA({shown(gamma)}) >= N/s = {targets}/{shown(real) if real is not None else 'infinity'} = {shown(value)}, "
        f"s the size from which average correlations are <= {shown(gamma)}",
        "Feldman et al. 2017, the definition as later papers restate it; the bound is derived here",
        smallest - 1,
    )


def vstat_calls(gram: GramMatrix | OverlapGram, samples: int) -> Bound:
    """Calls to VSTAT(n) without which the targets are not told from the reference: SDA(1/(3n)), 2N/(3n) for parities.

    Parameters
    ----------
    gram : GramMatrix or OverlapGram
        The chi^2 Gram matrix under the reference.
    samples : int
        n: the oracle's error is at most max(1/n, sqrt(p(1-p)/n)), p the true mean of the query in [0, 1].

    Raises
    ------
    ValueError
        If 1/(3n) is not below the largest diagonal entry.

    Notes
    -----
    `value` is SDA's real form at gamma = 1/(3n), `whole` the fewest calls after which all candidates can be ruled out
    against the reference, ceil(N / M) with M the most that one call rules out: for deterministic learners. To tell
    the targets from each other N - 1 takes the place of N.

    Proof. The oracle answers p_0, the reference's mean; let p_0 <= 1/2, or take 1 - q for q. It errs on S only if
    D = |p - p_0| > max(1/n, sqrt(p(1-p)/n)), and then D^2 > p_0/(3n): if p <= 2 p_0/3 or p > 2/3, D >= p_0/3 and
    D > 1/n; else p(1-p) >= p_0/3. Let A be the set where it errs, of a candidates: the sum over A of |<q, D_S/D_0 - 1>|
    is above a sqrt(p_0/(3n)) and at most |q| a sqrt(average correlation of A), with |q|^2 <= p_0. So A has an average
    correlation above 1/(3n).

    References
    ----------
    Feldman, Grigorescu, Reyzin, Vempala, Xiao 2017, the theorem on VSTAT(1/(3 gamma)), as later papers restate it; the
    proof above is complete in itself.

    Examples
    --------
    >>> calls = vstat_calls(reference_gram(SecretSet(dim=40, bits=4)), 10)
    >>> float(calls), calls.whole
    (5483.4, 5876)
    """
    require_gram(gram)
    samples = count("samples", samples)
    dimension = statistical_dimension(gram, Fraction(1, 3 * samples))
    # a query that may rule out all candidates leaves one call
    whole = ceil(Fraction(gram.size, dimension.ruled_out))
    return Bound(
        f"Calls to VSTAT({samples})",
        dimension.value,
        whole,
        f"at least SDA(1/(3n)) = SDA(1/{3 * samples}) >= {shown(dimension.value)}; one call rules out at most "
        f"{dimension.ruled_out} of {gram.size}, so at least {whole}",
        _FELDMAN,
    )


def reference_gram(secrets: SecretSet) -> OverlapGram:
    """The chi^2 Gram matrix of the two-token parities: I/2, under a reference with a fair sign on the gate.

    D_S/D_0 - 1 is plus or minus chi_S on the gate, of probability 1/2, and 0 off it: orthogonal for different S.

    References
    ----------
    Derived here.
    """
    require_instance("secrets", secrets, SecretSet, needed="a SecretSet, such as a family's `secrets`,")
    return OverlapGram(secrets, (*([0] * secrets.bits), Fraction(1, 2)))


def _qualifying_size(gram: GramMatrix | OverlapGram, gamma: Fraction) -> tuple[Fraction | None, int]:
    # the real and the whole s from which the top-s average of a row is at most gamma; None and N + 1 if none is
    if isinstance(gram, OverlapGram):
        largest = max(gram.largest_off_diagonal(), abs(gram.values[-1]))
    else:
        largest = Fraction(float(np.abs(gram.matrix).max()))
    if not 0 < gamma < largest:
        raise ValueError(
            f"correlation is {float(gamma):.6g}: a number above 0 and below the largest entry {float(largest):.6g} is "
            "needed; from there on every set of targets qualifies."
        )
    if isinstance(gram, OverlapGram):
        size, total = 0, Fraction(0)
        groups = zip(gram.values, gram.overlap_counts, strict=True)
        for height, many in sorted(((abs(value), many) for value, many in groups), reverse=True):
            if many and total + many * height <= gamma * (size + many):
                real = (total - height * size) / (gamma - height)
                return real, ceil(real)
            size, total = size + many, total + many * height
        return None, gram.size + 1
    averages = top_averages(gram)
    # sums of floats: an average above gamma by less than this is at it
    meeting = averages <= float(gamma) + 1e-12
    meeting[0] = False
    if not meeting[-1]:
        return None, gram.size + 1
    smallest = int(np.argmax(meeting)) + 1
    before, after = (Fraction(float(averages[size - 1])) * size for size in (smallest - 1, smallest))
    slope = after - before
    if slope >= gamma:
        return Fraction(smallest), smallest
    # between whole sizes the sum of a row's largest entries lies below the chord
    return min((before - slope * (smallest - 1)) / (gamma - slope), Fraction(smallest)), smallest
