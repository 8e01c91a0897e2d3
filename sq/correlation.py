"""Correlations of the targets of a family: Gram matrices three ways that must agree, and their averages."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb, log, sqrt

import numpy as np
from jaxtyping import Float, Int

from attention import BooleanInputs
from attention._arrays import shown
from attention.inputs import Rng
from attention.validation import count, finite_number, non_negative, random_generator
from sq.gram import MOST_DENSE, GramMatrix
from sq.johnson import OverlapGram, require_gram
from sq.realisation import MOST_SAMPLES
from sq.target_family import TargetFamily, require_family
from sq.walsh import fourier_spectrum, target_numbers

__all__ = [
    "LargestAverage",
    "average_correlation",
    "closed_form_gram",
    "enumerated_gram",
    "largest_average_correlation",
    "sampled_gram",
    "top_averages",
]

# Subsets that are tried one by one before bounds take over.
_MOST_SUBSETS = 50_000
# Targets for which a number each is kept: 160 MB.
_MOST_LISTED = 20_000_000
# Numbers in a batch of Monte Carlo, for all targets together: 64 MiB.
_BATCH = 1 << 23

Numbers = Sequence[int] | np.ndarray


def closed_form_gram(family: TargetFamily, numbers: Numbers | None = None) -> GramMatrix:
    """The Gram matrix by the family's own formula.

    Parameters
    ----------
    family : TargetFamily
        The family; its `correlations` are asked.
    numbers : sequence of int, optional
        Which targets; all when left out.

    Raises
    ------
    ValueError
        If there are more than 4096 targets, or a number is out of range.

    Notes
    -----
    For larger families take `sq.johnson.overlap_gram`, which never writes the matrix out.
    """
    require_family(family)
    chosen = _few_targets(family, numbers)
    matrix = np.stack([family.correlations(int(number))[chosen] for number in chosen])
    return GramMatrix(matrix, chosen, "closed form")


def enumerated_gram(family: TargetFamily, numbers: Numbers | None = None) -> GramMatrix:
    """The Gram matrix by full enumeration: Fourier coefficients over all 2^(k d) inputs, and Parseval.

    Parameters
    ----------
    family : TargetFamily
        The family; of its members only `hidden` is asked, never a closed form.
    numbers : sequence of int, optional
        Which targets; all when left out.

    Raises
    ------
    ValueError
        If the inputs have more than 24 bits, there are more than 4096 targets, or a number is out of range.

    Notes
    -----
    Exact but for float64 rounding, which `GramMatrix.rounding` allows for: what is left out of the coefficients
    as zero is measured, not assumed. Cost as in `sq.walsh.fourier_spectrum`.
    """
    require_family(family)
    chosen = _few_targets(family, numbers)
    spectrum = fourier_spectrum(family, chosen)
    matrix = spectrum.gram()
    # |<f + e, g + e'> - <f, g>| <= |e| |g| + |f| |e'| + |e| |e'|
    norm = sqrt(float(np.diag(matrix).max()))
    lost = spectrum.dropped * (2 * norm + spectrum.dropped)
    samples = 1 << (family.tokens * family.dim)
    return GramMatrix(matrix, chosen, "full enumeration", rounding=1e-11 + lost, samples=samples)


def sampled_gram(
    family: TargetFamily,
    numbers: Numbers | None = None,
    *,
    samples: int = 20_000,
    confidence: float = 0.99,
    bound: float | int | None = None,
    rng: Rng = None,
) -> GramMatrix:
    """The Gram matrix by Monte Carlo, with intervals for each entry and for all of them at once.

    Parameters
    ----------
    family : TargetFamily
        The family; of its members only `hidden` is asked, never a closed form.
    numbers : sequence of int, optional
        Which targets; all when left out.
    samples : int
        How many inputs to draw, at least 2.
    confidence : float
        The level of the intervals, in (0, 1).
    bound : float, optional
        A number that |sum_a f_S(X)_a f_T(X)_a| never exceeds. With it the intervals are Hoeffding's and hold at
        every sample size; without it they come from the sample variance and the central limit theorem, and hold
        in the limit: an entry whose products did not vary on the sample gets an interval of width 0.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7).

    Raises
    ------
    ValueError
        If the confidence is not in (0, 1), a product exceeds `bound`, or the targets are too many or out of range.

    Notes
    -----
    O(samples k^2 N^2) operations in batches. The simultaneous intervals divide the level among the N (N + 1) / 2
    entries (Bonferroni): whatever the dependence, all hold at once with probability `confidence`.

    References
    ----------
    Hoeffding 1963, Theorem 2, for the intervals with `bound`.
    """
    require_family(family)
    confidence = finite_number("confidence", confidence)
    chosen, samples = _few_targets(family, numbers), count("samples", samples, least=2, most=MOST_SAMPLES)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}: a number above 0 and below 1 is needed.")
    bound = None if bound is None else non_negative("bound", bound, strictly=True)
    rng = random_generator(rng)
    k, size = family.tokens, len(chosen)
    inputs = BooleanInputs(k, family.dim)
    batch = max(1, min(samples, _BATCH // (k * max(k * size, family.dim))))
    sums, squares = np.zeros((size, size)), np.zeros((size, size))
    for start in range(0, samples, batch):
        x = inputs.sample(min(batch, samples - start), rng=rng)
        values = np.stack([family.hidden(int(number), x) for number in chosen])
        sums += (flat := values.reshape(size, -1)) @ flat.T
        if bound is None:
            # (sum_a f_a g_a)^2 = sum_ab (f_a f_b)(g_a g_b): again one product of matrices
            pairs = (values[..., :, None] * values[..., None, :]).reshape(size, -1)
            squares += pairs @ pairs.T
        else:
            # by Cauchy and Schwarz no product exceeds the largest squared norm: look at that first
            seen = float(np.max(np.sum(values**2, axis=-1)))
            if seen > bound * (1 + 1e-12):
                products = np.einsum("sna,tna->nst", values, values)
                seen = float(np.abs(products).max())
            if seen > bound * (1 + 1e-12):
                raise ValueError(f"bound is {bound}: a product of hidden parts is {seen:.6g}, above it.")
    mean = sums / samples
    many = size * (size + 1) // 2
    if bound is None:
        variance = np.maximum(squares / samples - mean**2, 0.0) * (samples / (samples - 1))
        widths = [_normal_quantile(1 - (1 - confidence) / entries) for entries in (1, many)]
        half, all_half = (width * np.sqrt(variance / samples) for width in widths)
    else:
        half, all_half = (
            np.full((size, size), bound * sqrt(2 * log(2 * entries / (1 - confidence)) / samples))
            for entries in (1, many)
        )
    return GramMatrix(
        mean,
        chosen,
        "Monte Carlo",
        confidence=float(confidence),
        half_widths=half,
        simultaneous=all_half,
        proved=bound is not None,
        samples=samples,
    )


def average_correlation(gram: GramMatrix | OverlapGram, subset: Numbers | None = None) -> float:
    """(1/|A|^2) sum_{S, T in A} |<f_S, f_T>| over a subset A, the diagonal included.

    Parameters
    ----------
    gram : GramMatrix or OverlapGram
        The correlations.
    subset : sequence of int, optional
        Which rows of the matrix, distinct; all when left out.

    Raises
    ------
    ValueError
        If the subset is empty, repeats a row, or has one that is not there.

    References
    ----------
    Feldman, Grigorescu, Reyzin, Vempala, Xiao 2017, "Statistical algorithms and a lower bound for detecting
    planted cliques", the definition of average correlation.
    """
    require_gram(gram)
    if subset is None:
        if isinstance(gram, OverlapGram):
            total = sum(abs(v) * many for v, many in zip(gram.values, gram.overlap_counts, strict=True))
            return float(Fraction(total) / gram.size)
        return float(np.abs(gram.matrix).mean())
    rows = np.asarray(subset) if np.ndim(np.asarray(subset, dtype=object)) == 1 else np.zeros(0)
    distinct = rows.ndim == 1 and len(rows) and len(np.unique(rows)) == len(rows)
    if not distinct or rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= gram.size:
        raise ValueError(
            f"The subset is {subset!r}: distinct rows from 0 to {gram.size - 1}, at least one, are needed."
        )
    if isinstance(gram, OverlapGram):
        return float(np.mean([np.abs(gram.row(int(row))[rows]).mean() for row in rows]))
    return float(np.abs(gram.matrix[np.ix_(rows, rows)]).mean())


@dataclass(frozen=True)
class LargestAverage:
    """The largest average correlation over subsets of one size, or bounds that enclose it.

    Attributes
    ----------
    size : int
        The number of targets in a subset.
    least, most : float
        It lies between them; equal where it is known.
    subset : array of int (size,)
        A subset that has `least`.
    """

    size: int
    least: float
    most: float
    subset: Int[np.ndarray, " size"]

    @property
    def exact(self) -> bool:
        """Whether the bounds meet, to float64 accuracy."""
        return self.most - self.least <= 1e-12 * max(1.0, self.most)

    def __str__(self) -> str:
        found = f"= {self.most:.6g}" if self.exact else f"between {self.least:.6g} and {self.most:.6g}"
        return f"Largest average correlation of {self.size} targets {found}."


def largest_average_correlation(gram: GramMatrix | OverlapGram, size: int) -> LargestAverage:
    """The largest average correlation over subsets of `size` targets: exact where that is tractable.

    Parameters
    ----------
    gram : GramMatrix or OverlapGram
        The correlations.
    size : int
        The number of targets in a subset.

    Raises
    ------
    ValueError
        If `size` is above the number of targets, or there are more than twenty million of those.

    Notes
    -----
    Every subset is tried where there are at most 50000. Otherwise the upper bound is the average over the
    `size` largest |entries| of a row, as each row of a subset has no more; the lower bound is what a greedy subset
    has. The two meet for orthogonal targets, for the whole family if its rows sum alike, and wherever a greedy
    subset takes the largest entries of each of its rows (of secrets that share l - 1 coordinates, say). Finding
    the maximum in general is a densest-subgraph problem, and those are NP-hard.

    References
    ----------
    Derived here.
    """
    require_gram(gram)
    size = count("size", size)
    if size > gram.size:
        raise ValueError(f"size is {shown(size)}: at most {gram.size}, the number of targets, is needed.")
    if gram.size > _MOST_LISTED:
        raise ValueError(
            f"There are {gram.size} targets: subsets of at most {_MOST_LISTED} are searched; statistical_dimension "
            "bounds the averages of any number."
        )
    if gram.size <= MOST_DENSE and comb(gram.size, size) <= _MOST_SUBSETS:
        matrix = np.abs((gram.dense() if isinstance(gram, OverlapGram) else gram).matrix)
        best, value = np.arange(size), -1.0
        for tried in combinations(range(gram.size), size):
            rows = np.array(tried)
            if (here := float(matrix[np.ix_(rows, rows)].sum())) > value:
                best, value = rows, here
        return LargestAverage(size, value / size**2, value / size**2, best)
    subset = _greedy(gram, size)
    least = average_correlation(gram, subset)
    most = _top_average(gram, size) if isinstance(gram, OverlapGram) else float(top_averages(gram)[size - 1])
    return LargestAverage(size, least, max(least, most), subset)


def top_averages(gram: GramMatrix | OverlapGram) -> Float[np.ndarray, " N"]:
    """For s = 1 to N, the largest average of s |entries| of one row: no s targets have a larger average correlation.

    It never grows with s, so it bounds all subsets of s targets or more. O(N^2 log N), or O(N) from overlaps.

    Raises
    ------
    ValueError
        If there are more than twenty million targets: those are as many numbers.
    """
    require_gram(gram)
    if gram.size > _MOST_LISTED:
        raise ValueError(
            f"There are {gram.size} targets: an average for each number of them is listed for at most {_MOST_LISTED}; "
            "statistical_dimension finds the size at which they fall below a threshold, for any number."
        )
    if isinstance(gram, OverlapGram):
        sums = np.cumsum(np.concatenate([np.full(many, float(height)) for height, many in _falling(gram)]))
    else:
        sums = np.zeros(gram.size)
        for row in gram.matrix:
            np.maximum(sums, np.cumsum(-np.sort(-np.abs(row))), out=sums)
    return sums / np.arange(1, gram.size + 1)


def _top_average(gram: OverlapGram, size: int) -> float:
    # one entry of top_averages, without the others
    left, total = size, Fraction(0)
    for height, many in _falling(gram):
        taken = min(left, many)
        left, total = left - taken, total + taken * height
    return float(total / size)


def _falling(gram: OverlapGram) -> list[tuple[Fraction, int]]:
    # the |entries| of a row, the largest first, each with how often it is there
    entries = zip(gram.values, gram.overlap_counts, strict=True)
    return sorted(((abs(value), many) for value, many in entries), reverse=True)


def _greedy(gram: GramMatrix | OverlapGram, size: int) -> np.ndarray:
    # from the row of largest norm, add the target most correlated with those chosen
    matrix = None if isinstance(gram, OverlapGram) else np.abs(gram.matrix)
    chosen = [0 if matrix is None else int(np.argmax(np.diag(matrix)))]
    gain = np.zeros(gram.size)
    while len(chosen) < size:
        gain += np.abs(gram.row(chosen[-1])) if isinstance(gram, OverlapGram) else matrix[chosen[-1]]  # type: ignore[index]
        gain[chosen[-1]] = -np.inf
        chosen.append(int(np.argmax(gain)))
    return np.array(chosen)


def _few_targets(family: TargetFamily, numbers: Numbers | None) -> np.ndarray:
    many = family.secrets.size if numbers is None else np.size(np.asarray(numbers, dtype=object))
    if many > MOST_DENSE:
        raise ValueError(
            f"There are {many} targets: matrices are written out for at most {MOST_DENSE}; name fewer of them, or take "
            "overlap_gram."
        )
    return target_numbers(family, numbers)


def _normal_quantile(two_sided: float) -> float:
    from scipy.special import ndtri

    # by the lower tail: near 1 the upper one has no digits left
    return float(-ndtri((1 - two_sided) / 2))
