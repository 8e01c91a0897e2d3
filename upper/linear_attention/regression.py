"""Learning linear attention from examples: least squares in the cubic features."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Shaped

from attention.validation import checked
from upper.linear_attention.features import (
    as_tokens,
    blocks,
    cubic_features,
    cubic_kernel,
    feature_count,
    features_of_gram,
    pairs_of,
    predicted,
    tensor_from_features,
)
from upper.linear_attention.least_squares import (
    MEMORY,
    Block,
    FeatureMoments,
    FeatureRegression,
    Stream,
    by_kernel,
    by_moments,
    by_normal_equations,
    by_singular_values,
    require_feature_memory,
)
from upper.linear_attention.model import LinearAttention

Method = Literal["auto", "cholesky", "svd", "kernel"]

_NEAR = 1.5  # with fewer rows per feature, the normal equations are too ill-conditioned
_ALIKE = 64.0  # one unit is enough for all coordinates if their sizes are within this factor


@dataclass(frozen=True, eq=False)
class CubicRegression(FeatureRegression):
    """Linear attention as learned by regression; see `fit_heads` for its heads.

    Attributes
    ----------
    dim : int
        Dimension d of the tokens.
    average : bool
        Whether G is the mean over the tokens.
    """

    dim: int
    average: bool = False

    @cached_property
    def tensor(self) -> Float[np.ndarray, "p d d d"]:
        """M_abce, symmetric in b and c."""
        return tensor_from_features(self.coefficients, self.dim)

    def __call__(self, x: Shaped[Any, "*batch n d"]) -> Shaped[Any, "*batch p"]:
        """The outputs at the last token, in the array type of `x`."""
        x = as_tokens(x, self.dim)
        return predicted(lambda part: cubic_features(part, average=self.average), x, self.coefficients)

    def of_gram(
        self, gram: Float[np.ndarray, "*batch d d"], queries: Float[np.ndarray, "*batch r d"]
    ) -> Float[np.ndarray, "*batch r p"]:
        """The outputs at queries, from the Gram matrices, or means with `average`, of the tokens."""
        return np.asarray(features_of_gram(gram[..., None, :, :], queries) @ self.coefficients)


Model = LinearAttention | CubicRegression
"""By heads or by coefficients: called with tokens, or `of_gram` with their Gram matrix and queries."""


@checked
def regress(
    x: Shaped[np.ndarray, "N n d"],
    y: Shaped[np.ndarray, "N p"],
    *,
    method: Method = "auto",
    least_norm: bool = False,
    average: bool = False,
) -> CubicRegression:
    """Learn linear attention from examples by least squares in the cubic features.

    Parameters
    ----------
    x : array (N, n, d)
        Sequences of tokens, one per row; the last token is the query.
    y : array (N, p)
        Labels.
    method : {"auto", "cholesky", "svd", "kernel"}
        The method: normal equations with corrections, singular values, or the N x N kernel. "auto" uses normal
        equations from 1.5 D examples on, and the kernel below D examples, if these are well conditioned. Otherwise it
        uses singular values.
    least_norm : bool
        Whether fewer examples than features are allowed; the solution is then the one of least norm.
    average : bool
        Whether G is the mean over the tokens.

    Raises
    ------
    ValueError
        Before any work: if there are fewer examples than D and `least_norm` is not set; if an entry is not finite; if
        the matrix does not fit 2 GiB. After it: if the method is "cholesky" and the rank of the equations is unclear.

    Notes
    -----
    O(N D^2 + D^3) time and D^2 numbers for any p, with D = d^2 (d + 1)/2; the kernel takes O(N^2 (N + d^2)) and N^2.
    Coordinates whose sizes differ by more than a factor of 64 are scaled to equal size; the least norm is still that in
    the given units. With fewer examples than features, all coordinates share one unit.

    References
    ----------
    Yau et al., arXiv 2410.10101, Algorithm 1 and Theorem 2.2; this form is derived here.

    Examples
    --------
    >>> from upper.linear_attention import make_linear_attention
    >>> model = make_linear_attention(heads=2, dim=3, rng=0)
    >>> x = np.random.default_rng(1).standard_normal((80, 6, 3))
    >>> learned = regress(x, model(x))
    >>> learned.rank, bool(learned.residual < 1e-12)
    (18, True)
    """
    d = x.shape[-1]
    rows, features = len(x), feature_count(d)
    if rows < features and not least_norm:
        raise ValueError(
            f"There are {rows} examples and {features} features: the examples do not determine the model. Give at "
            f"least {features}, or ask for the solution of least norm (least_norm=True)."
        )
    small = method == "kernel" or (method == "auto" and rows < features)
    require_feature_memory(rows if small else features)
    # scaling by powers of two is exact, and prevents overflow of products of six entries
    units, y_unit = _units(x, each=not small), _power(float(np.max(np.abs(y), initial=0.0)))
    b, c = pairs_of(d)
    scales = ((units[b] * units[c])[:, None] * units).reshape(-1)
    x, y = x / units, y / y_unit

    def stream() -> Iterator[Block]:
        for part in blocks(rows, features):
            yield cubic_features(x[part], average=average), y[part]

    found = None
    if small:
        # the features of few examples fit into memory; their singular values are more accurate than the kernel
        roomy = method == "auto" and 48 * rows * features < MEMORY
        kernel = cubic_kernel(x, x, average=average)
        found = by_kernel(stream, kernel, y, features, dependent=not roomy)
    elif method == "cholesky" or (method == "auto" and rows >= _NEAR * features):
        # the units affect only the least norm, and one unit for all does not
        found = by_normal_equations(stream, features, y.shape[1], dependent=not np.ptp(scales))
    if found is None and method == "cholesky":
        raise ValueError(
            f"The {features} features are so nearly dependent on these {rows} examples that normal equations do "
            'not tell their rank: use the method "svd".'
        )
    found = found or by_singular_values(stream, scales)
    with np.errstate(all="ignore"):  # refused in the next lines
        coefficients = found.coefficients / scales[:, None] * y_unit
    if not np.isfinite(coefficients).all() or (found.rank and not coefficients.any() and y.any()):
        raise ValueError(
            f"The tokens are of size {units.max():.0e} and the labels of {y_unit:.0e}: the coefficients between them "
            "are beyond the range of the numbers. Give both in other units."
        )
    return CubicRegression(**vars(found) | {"coefficients": coefficients}, dim=d, average=average)


def regress_blocks(stream: Stream, rows: int, features: int, outputs: int) -> FeatureRegression:
    """Least squares of least norm on a stream of blocks (phi, y) of `rows` in all; it is read up to six times."""
    found = by_normal_equations(stream, features, outputs) if rows >= features else None
    return found or by_singular_values(stream, np.ones(features))


@checked
def regress_moments(moments: FeatureMoments) -> CubicRegression:
    """Least squares from moments only; the solution of least norm if several are best.

    The relative error is about 1e-16 times the squared condition of the features. Singular values above 3e-7 of the
    largest count. A residual below 1e-6 is inaccurate. O(D^3). A ValueError if no examples were added. Yau et al.,
    arXiv 2410.10101, Algorithm 1.
    """
    if moments.dim is None:
        raise ValueError("No examples were added to the moments: add some first.")
    return CubicRegression(**vars(by_moments(moments)), dim=moments.dim, average=moments.average)


def _power(size: float) -> float:
    """The power of two nearest to a size; 1 for zero."""
    return float(2.0 ** np.round(np.log2(size))) if size else 1.0


def _units(x: np.ndarray, *, each: bool) -> np.ndarray:
    """Units of the coordinates: one for all if their sizes are within a factor of 64, else one for each."""
    largest = np.abs(x).max(axis=(0, 1))
    units = np.array([_power(float(one)) for one in largest])
    there = units[largest > 0]
    if not each or len(there) == 0 or there.max() <= _ALIKE * there.min():
        return np.full(len(units), there.max() if len(there) else 1.0)
    return units
