"""Compute few heads from a learned tensor: minimise the rank over the part that does not affect outputs."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from attention._arrays import to_numpy
from attention.inputs import Rng
from attention.validation import PositiveInt, Real, checked, random_generator
from upper.linear_attention.head_search import HeadSearch, balanced, symmetrised
from upper.linear_attention.model import LinearAttention

Tensor = Float[np.ndarray, "p d d d"]
# a share of the tensor's norm: the zero model is within 1 of every tensor
Tolerance = Annotated[float, Real(above=0, below=1)]

_TOLERANCE = 1e-7  # relative distance of tensors that counts as none
_ROUNDING = 1e-14  # a symmetric part below this share of its tensor has cancelled
_PROBES = 64


@dataclass(frozen=True, eq=False)
class HeadsFound:
    """Heads that represent a tensor, and what is known about their number.

    Attributes
    ----------
    model : LinearAttention
        The heads, balanced: orthogonal as vectors (V_h) and (Q_h), |V_h| = |Q_h|, largest first. One zero head for
        a tensor that does not act.
    tail : float
        Relative distance |sym M - S| / |S| of the model's symmetrised tensor from the one given.
    tolerance : float
        The tail up to which heads count as a representation.
    lower_bound : int
        Number of heads below which no model has a tail within the tolerance: proved, see `fewest_heads_bound`.
    strategy : str
        The method that found them.
    tried : tuple of (int, float)
        The numbers of heads that were tried, rising, with the least tail of each.
    """

    model: LinearAttention
    tail: float
    tolerance: float
    lower_bound: int
    strategy: str
    tried: tuple[tuple[int, float], ...]

    @property
    def heads(self) -> int:
        """The number of heads needed by the model: 0 for the zero model."""
        return self.model.heads if bool(np.any(to_numpy(self.model.v))) else 0

    @property
    def exact(self) -> bool:
        """Whether the tail is within the tolerance."""
        return self.tail <= self.tolerance

    @property
    def minimal(self) -> bool:
        """Whether it is proved that no fewer heads are within the tolerance."""
        return self.exact and self.heads == self.lower_bound

    def __str__(self) -> str:
        if self.heads == 0:
            return "No head is needed: the tensor does not act."
        found = (
            f"{self.heads} head{'s' * (self.heads != 1)} by {self.strategy}, relative error {self.tail:.1e}"
        )
        usual = self.exact and self.tolerance == _TOLERANCE
        within = "" if usual else f" within {self.tolerance:.1e} of the coefficients"
        if self.minimal:
            return f"{found}: the fewest possible{within} (proved)."
        needed = f"at least {self.lower_bound} needed{within} (proved)"
        if not self.exact:
            return f"{found}: {needed}; no representation was found."
        fewer = dict(self.tried).get(self.heads - 1)
        searched = "were not tried" if fewer is None else f"left {fewer:.1e}, as far as searched"
        return f"{found}: {needed}; {self.heads - 1} {searched}."


@checked
def fit_heads(
    regression: Any,
    *,
    heads: PositiveInt | None = None,
    tolerance: Tolerance = _TOLERANCE,
    restarts: PositiveInt = 60,
    rng: Rng = 0,
) -> HeadsFound:
    """Find as few heads as possible for a learned tensor.

    Parameters
    ----------
    regression : CubicRegression, LinearAttention or array (p, d, d, d)
        Whose tensor M_abce is to be represented; only its symmetric part in b and c acts.
    heads : int, optional
        Fit exactly this many heads instead of the fewest (or min(p d, d^2) if that is less).
    tolerance : float
        Relative tail |sym M - S| / |S| that counts as a representation. For noisy labels give a few times the relative
        error of the coefficients: below it noise is fitted.
    restarts : int
        Starts of Levenberg-Marquardt before a number of heads is given up.
    rng : SPEC 7 generator or seed
        Of the starts and of the directions of the lower bound.

    Returns
    -------
    HeadsFound
        If `heads` are not enough, the best representation found, with ``exact`` false.

    Raises
    ------
    ValueError
        If the shape is no (p, d, d, d), an entry is not finite, or a number is out of range.

    Notes
    -----
    At each number of heads: alternating from a random antisymmetric part, finished by Levenberg-Marquardt; then
    Levenberg-Marquardt from reweighted starts. From the proved lower bound the number rises by 1, 1, 2, 4, ... with
    three starts each, and then falls by one as long as `restarts` starts find a representation. A failed search proves
    nothing; ``minimal`` says whether the lower bound proves that the number is the least. A start costs about twenty
    steps of O((H p d)^2 p d^3) if p <= d. Beyond H min(p, d) d = 2048, only alternating is tried.

    Examples
    --------
    >>> from upper.linear_attention.model import make_linear_attention
    >>> found = fit_heads(make_linear_attention(heads=3, dim=4, rng=0))
    >>> found.heads, found.minimal, found.tail < 1e-13
    (3, True, True)
    """
    tensor = getattr(regression, "tensor", regression)
    average = bool(getattr(regression, "average", False))
    unit, norm = _unit_symmetric(tensor() if callable(tensor) else tensor)
    if not norm:
        return HeadsFound(_model(unit, 1, 0.0, average), 0.0, tolerance, 0, "cancellation", ())
    draw, most = random_generator(rng), min(unit.shape[:2]) * unit.shape[1]
    bound = fewest_heads_bound(unit, tolerance=tolerance, rng=draw)
    search = HeadSearch(unit, tolerance, draw)
    if heads is None:
        number = search.fewest(min(bound, most), most, restarts)
    else:
        number = min(heads, most)
        search.succeeds(number, restarts)
    _, strategy, found = search.best[number]
    model = _model(found, number, norm, average)
    tail = float(np.linalg.norm(unit - symmetrised(model.tensor() / norm)))
    tails = tuple((n, tail) for n, (tail, _, _) in sorted(search.best.items()))
    return HeadsFound(model, tail, tolerance, bound, strategy, tails)


@checked
def heads_of_tensor(tensor: Tensor, *, average: bool = False) -> LinearAttention:
    """A model for a tensor (p, d, d, d), its antisymmetric part included, by singular value decomposition.

    It has one head for each singular value above rounding, balanced as in `HeadsFound`. O(p^2 d^4).

    Examples
    --------
    >>> from upper.linear_attention.model import make_linear_attention
    >>> model = make_linear_attention(heads=2, dim=3, rng=0)
    >>> again = heads_of_tensor(model.tensor())
    >>> again.heads, bool(np.allclose(again.tensor(), model.tensor()))
    (2, True)
    """
    scale = float(np.max(np.abs(tensor))) or 1.0
    values = balanced(tensor / scale)[2]
    number = max(1, int(np.sum(values > tensor.shape[1] ** 2 * np.finfo(float).eps * values[0])))
    return _model(tensor / scale, number, scale, average)


@checked
def fewest_heads_bound(
    tensor: Tensor, *, tolerance: Annotated[float, Real(least=0, below=1)] = _TOLERANCE, rng: Rng = 0
) -> int:
    """A lower bound for the number of heads of every real model within a tolerance of the tensor.

    S is the symmetric part of the tensor, and sym M that of a model M of H heads. The model is within the tolerance if
    |sym M - S| <= tolerance |S|. Two facts, proved here, then bound H from below (up to rounding). Let g, u, f be unit
    vectors.

    * For sym M in place of S, the p x d matrix sum_bc S_abce g_b g_c is sum_h (V_h g)_a (Q_h^T g)_e, of rank at most H.
      The matrix of S is within tolerance |S| of it. So its singular values beyond the first H have at most that norm.
    * For sym M, the d x d matrix sum_ae S_abce u_a f_e is the symmetric part of sum_h (V_h^T u)(Q_h f)^T. Each term has
      at most one positive and one negative eigenvalue. So for S the positive eigenvalues beyond the first H have at
      most the norm tolerance |S|. The same holds for the negative ones. For p < d this can give a larger bound.

    The result is the largest bound over 64 random directions; each direction gives a valid one. It is at most d. It is
    0 for a tensor that has no effect on outputs. O(64 (p d^3 + d^3)).

    Examples
    --------
    >>> from upper.linear_attention.model import make_linear_attention
    >>> fewest_heads_bound(make_linear_attention(heads=3, dim=4, rng=0).tensor())
    3
    """
    unit, norm = _unit_symmetric(tensor)
    if not norm:
        return 0
    allowed = max(tolerance, 1e-12)
    outputs, d = unit.shape[:2]
    draw = random_generator(rng)
    g, u, f = (_directions(draw, size) for size in (d, outputs, d))
    contracted = np.einsum("zb,abce,zc->zae", g, unit, g, optimize=True)
    singular = np.linalg.svd(contracted, compute_uv=False)
    eigenvalues = np.linalg.eigvalsh(np.einsum("za,abce,ze->zbc", u, unit, f, optimize=True))
    positive = np.maximum(eigenvalues[:, ::-1], 0)
    negative = np.maximum(-eigenvalues, 0)
    return max(1, *(_needed(values, allowed) for values in (singular, positive, negative)))


@checked
def symmetric_rank(tensor: Tensor) -> int:
    """The rank of the unfolding (a b), (c e) of the symmetrised tensor (p, d, d, d).

    It is d^2 already for one generic head with p = d, so it does not measure the number of heads. O(p^2 d^4).

    Examples
    --------
    >>> from upper.linear_attention.model import make_linear_attention
    >>> symmetric_rank(make_linear_attention(heads=1, dim=4, rng=0).tensor())
    16
    """
    unit, norm = _unit_symmetric(tensor)
    values = balanced(unit)[2]
    return int(np.sum(values > _TOLERANCE * values[0])) if norm else 0


def _model(tensor: np.ndarray, heads: int, norm: float, average: bool) -> LinearAttention:
    """The heads of a tensor of unit norm, balanced and at its scale."""
    v, q = (one[:heads] * np.sqrt(norm) for one in balanced(tensor)[:2])
    return LinearAttention(v, q, average)


@checked
def _unit_symmetric(tensor: Tensor) -> tuple[np.ndarray, float]:
    """The symmetric part at unit Frobenius norm, and its norm: 0 where it cancels to rounding."""
    largest = float(np.max(np.abs(tensor)))
    if not largest:
        return tensor, 0.0
    symmetric = symmetrised(tensor / largest)  # neither overflows nor underflows when squared
    norm = float(np.linalg.norm(symmetric))
    if norm <= _ROUNDING * float(np.linalg.norm(tensor / largest)):
        return np.zeros_like(tensor), 0.0
    return symmetric / norm, norm * largest


def _directions(rng: np.random.Generator, size: int) -> np.ndarray:
    draw = rng.standard_normal((_PROBES, size))
    return draw / np.linalg.norm(draw, axis=1, keepdims=True)


def _needed(values: np.ndarray, allowed: float) -> int:
    """The most, over the rows, of the leading values without which the rest has a norm above `allowed`."""
    rest = np.sqrt(np.cumsum(values[:, ::-1] ** 2, axis=1))
    return int(np.max(np.sum(rest > allowed, axis=1)))
