"""Random layers: nice ones, ones that violate one non-degeneracy condition each, and ones like trained transformers.

In all functions, `heads` is the number m of heads and `dim` the number d of coordinates. `sigma` is the standard
deviation of a logit between two different Boolean tokens. `rng` is anything that `numpy.random.default_rng` accepts.
Ranks, blocks and multiplicities are at most d. Projections W_i have entries N(0, 1/d) unless stated otherwise.
"""

import math
from typing import Annotated

import numpy as np
from jaxtyping import Float

from attention._arrays import shown
from attention.head_measures import HeadMeasures
from attention.inputs import Rng
from attention.layer import AttentionLayer
from attention.memory import require_memory
from attention.validation import (
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    Real,
    Whole,
    checked,
    random_generator,
)

# The share t_i of the head least similar to the others, relative to that of the two most similar heads.
_LEAST_SHARE = 0.3


@checked
def make_nice_layer(
    *, heads: PositiveInt, dim: PositiveInt, sigma: NonNegativeFloat = 2.0, rng: Rng = None
) -> AttentionLayer:
    """Draw a nice layer: Theta entries N(0, (sigma/d)^2), W entries N(0, 1/d).

    A nice layer is an easy target of the provable learner. Random Gaussian heads meet the non-degeneracy conditions
    increasingly well as d grows. O(m d^2).

    Examples
    --------
    >>> make_nice_layer(heads=2, dim=8, rng=0)
    AttentionLayer(heads=2, dim=8, dtype=float64)
    """
    rng = _begin(heads, dim, rng)
    theta = rng.standard_normal((heads, dim, dim)) * (sigma / dim)
    return AttentionLayer(theta=theta, w=_nice_w(heads, dim, rng))


@checked
def make_block_diagonal_layer(
    *,
    heads: PositiveInt,
    dim: PositiveInt,
    block: PositiveInt,
    sigma: NonNegativeFloat = 2.0,
    rng: Rng = None,
) -> AttentionLayer:
    """Draw a layer whose attention matrices are block diagonal with Gaussian blocks of size `block`.

    The last block is smaller if `block` does not divide d. Entries inside the blocks are N(0, sigma^2 / s), with s
    their number in one matrix. With blocks of 1, logits lie on a lattice, and that of a token on itself is the
    constant Tr(Theta). O(m d^2).
    """
    rng = _begin(heads, dim, rng, block=block)
    part = np.arange(dim) // block
    mask = part[:, None] == part
    theta = rng.standard_normal((heads, dim, dim)) * (sigma / math.sqrt(mask.sum())) * mask
    return AttentionLayer(theta=theta, w=_nice_w(heads, dim, rng))


@checked
def make_low_rank_layer(
    *,
    heads: PositiveInt,
    dim: PositiveInt,
    rank: PositiveInt,
    w_rank: PositiveInt | None = None,
    sigma: NonNegativeFloat = 2.0,
    rng: Rng = None,
) -> AttentionLayer:
    """Draw a layer whose attention matrices have rank `rank`, and W_i `w_rank`: products of Gaussian d x rank factors.

    The W_i have full rank if `w_rank` is None. An entry of Theta has variance (sigma/d)^2 and an entry of W 1/d, as in
    a nice layer. Heads of trained transformers have such a low rank, d_h. O(m d^2 rank).
    """
    rng = _begin(heads, dim, rng, rank=rank, w_rank=w_rank or 1)

    def product(rank: int) -> np.ndarray:
        left, right = rng.standard_normal((2, heads, dim, rank))
        return left @ right.swapaxes(1, 2) / math.sqrt(rank)

    theta = product(rank) * (sigma / dim)
    w = _nice_w(heads, dim, rng) if w_rank is None else product(w_rank) / math.sqrt(dim)
    return AttentionLayer(theta=theta, w=w)


@checked
def make_close_heads_layer(
    *,
    heads: Annotated[int, Whole(2)],
    dim: PositiveInt,
    gap: Annotated[float, Real(least=0, most=math.sqrt(2))],
    sigma: NonNegativeFloat = 2.0,
    rng: Rng = None,
) -> AttentionLayer:
    """Draw a layer of nearly equal attention matrices: |Theta_i - Theta_j| = gap |Theta_i| for every pair.

    The `gap` is from 0 (equal heads) to sqrt(2) (orthogonal heads), and m is below d^2.
    Theta_i = sigma (cos(a) U + sin(a) V_i) with U, V_1, .., V_m orthonormal and otherwise random, and
    sin(a) = gap / sqrt(2). All norms are equal, and all distances are equal. O(m^2 d^2).
    """
    if heads >= dim**2:
        raise ValueError(f"heads is {heads} and dim {dim}: fewer than dim^2 = {dim**2} heads are needed.")
    rng = _begin(heads, dim, rng)
    common, *own = np.linalg.qr(rng.standard_normal((dim**2, heads + 1)))[0].T.reshape(-1, dim, dim)
    sine = min(gap / math.sqrt(2), 1.0)
    theta = sigma * (math.sqrt((1 - sine) * (1 + sine)) * common + sine * np.stack(own))
    return AttentionLayer(theta=theta, w=_nice_w(heads, dim, rng))


@checked
def make_affinely_dependent_layer(
    *, heads: Annotated[int, Whole(3)], dim: PositiveInt, sigma: NonNegativeFloat = 2.0, rng: Rng = None
) -> AttentionLayer:
    """Draw a layer whose attention matrices are affinely dependent: their affine hull has dimension m-2.

    The layer is a nice layer with m <= d^2. It is projected so that the mean of the first half of the Theta_i equals
    the mean of the others (of three heads, the last is half-way between the first two). `sigma` is the root mean
    square over the heads. Affine dependence implies linear dependence, and so an incoherence of at least 1/(m-1), by
    Gershgorin's theorem on the normalised Gram matrix. O(m^2 d^2).

    Examples
    --------
    >>> theta = make_affinely_dependent_layer(heads=3, dim=4, rng=0).theta
    >>> bool(abs((theta[0] + theta[1]) / 2 - theta[2]).max() < 1e-12)
    True
    """
    if heads > dim**2:
        raise ValueError(f"heads is {heads} and dim {dim}: at most dim^2 = {dim**2} heads are possible.")
    rng = _begin(heads, dim, rng)
    halves = np.where(np.arange(heads) < (heads + 1) // 2, 1 / ((heads + 1) // 2), -1 / (heads // 2))
    relation = halves / np.linalg.norm(halves)
    theta = rng.standard_normal((heads, dim, dim)) * (sigma / dim)
    theta = theta - relation[:, None, None] * np.tensordot(relation, theta, axes=1)
    return AttentionLayer(theta=theta * math.sqrt(heads / (heads - 1)), w=_nice_w(heads, dim, rng))


@checked
def make_transformer_shaped_layer(
    *,
    heads: PositiveInt = 12,
    dim: PositiveInt = 96,
    rank: PositiveInt = 32,
    exponent: NonNegativeFloat = 0.5,
    incoherence: Annotated[float, Real(least=0, below=1)] = 0.45,
    strengths: tuple[PositiveFloat, ...] = (2.0, 8.0),
    rng: Rng = None,
) -> AttentionLayer:
    """Draw a layer of low-rank heads with power-law spectra, unequal strengths and a given incoherence.

    Parameters
    ----------
    rank : int
        The rank of every Theta_i and W_i, at most d.
    exponent : float
        The j-th singular value of every matrix is proportional to j^-exponent. Exponent 0 is isotropic; with .5, a
        matrix of rank 32 has stable rank 4.
    incoherence : float
        The largest |<A_i, A_j>| / (|A_i| |A_j|) over the pairs of heads, at least 0 and below 1, of the Theta_i and
        also of the W_i. If independent heads of this shape have a larger incoherence, they stay as they are.
    strengths : (float, float)
        The least and the largest |Theta_i|; this norm is the standard deviation of a logit between two different
        Boolean tokens. The strengths are evenly spaced on a logarithmic scale. The |W_i| have the same ratios in
        another order, and root mean square sqrt(d), as in a nice layer. A single head gets the least.

    Notes
    -----
    Theta_i = s_i U_i diag(j^-exponent) V_i^T with orthonormal columns U_i, V_i. Each of U_i and V_i is the orthonormal
    factor of t_i U_0 + sqrt(1 - t_i^2) G_i, where U_0 is common to all heads and G_i is the head's own. The two most
    similar heads have the same share t; the other shares t_i fall evenly from t to .3 t. A search finds the t that
    gives the incoherence. The W_i are made in the same way. `attention.check_conditions` measures all these values.
    Trained layers had incoherence up to .46, stable ranks down to 3 and norms from 2 to 12. A power law for their
    singular values is an assumption. O(m d^2 (rank + m)) for each step of the search.

    Examples
    --------
    >>> layer = make_transformer_shaped_layer(heads=3, dim=16, rank=4, rng=0)
    >>> [int(np.linalg.matrix_rank(head)) for head in layer.theta]
    [4, 4, 4]
    """
    if len(strengths) != 2 or strengths[0] > strengths[1]:
        raise ValueError(
            f"strengths is {strengths}: two numbers are needed, first the least, then the largest."
        )
    rng = _begin(heads, dim, rng, rank=rank)
    sizes = np.geomspace(*strengths, heads)
    theta = _alike(heads, dim, rank, exponent, incoherence, rng) * rng.permutation(sizes)[:, None, None]
    w = _alike(heads, dim, rank, exponent, incoherence, rng) * rng.permutation(sizes)[:, None, None]
    return AttentionLayer(theta=theta, w=w * math.sqrt(dim * heads / np.sum(sizes**2)))


def _alike(
    heads: int, dim: int, rank: int, exponent: float, incoherence: float, rng: np.random.Generator
) -> Float[np.ndarray, "heads dim dim"]:
    """Matrices of norm 1 with power-law spectra and this incoherence."""
    common = rng.standard_normal((2, dim, rank))
    own = rng.standard_normal((heads, 2, dim, rank))
    values = np.arange(1, rank + 1) ** -exponent
    values /= np.linalg.norm(values)
    shares = np.linspace(1.0, _LEAST_SHARE, max(heads - 1, 1))
    shares = rng.permutation(np.concatenate([[1.0], shares])[:heads])[:, None, None, None]

    def at(share: float) -> np.ndarray:
        mixed = share * shares * common + np.sqrt(1 - (share * shares) ** 2) * own
        left, right = np.moveaxis(_orthonormal(mixed), 1, 0)
        return (left * values) @ np.swapaxes(right, 1, 2)

    def excess(share: float) -> float:
        return float(HeadMeasures(at(share)).incoherence().max()) - incoherence

    if heads == 1 or excess(0.0) >= 0:
        return at(0.0)
    from scipy.optimize import brentq  # slow to import and rarely needed

    return at(brentq(excess, 0.0, 1.0, xtol=1e-12))


def _orthonormal(matrices: np.ndarray) -> np.ndarray:
    # choose the signs so that the factor is a continuous function of the matrix
    q, r = np.linalg.qr(matrices)
    signs = np.sign(np.diagonal(r, axis1=-2, axis2=-1))
    return q * signs[..., None, :]


def _begin(heads: int, dim: int, rng: Rng, **at_most: int) -> np.random.Generator:
    """The random generator; first check that the named numbers are at most `dim` and the layer fits into memory."""
    for name, value in at_most.items():
        if value > dim:
            raise ValueError(f"{name} is {value}: at most {dim}, the dimension, is allowed.")
    require_memory(
        f"A layer of {shown(heads)} heads in {shown(dim)} dimensions",
        48 * heads * dim**2,
        advice="take fewer heads or fewer dimensions",
    )
    return random_generator(rng)


def _nice_w(heads: int, dim: int, rng: np.random.Generator) -> Float[np.ndarray, "m d d"]:
    return rng.standard_normal((heads, dim, dim)) / math.sqrt(dim)
