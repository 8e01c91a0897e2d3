"""Structured layers: targets that break one non-degeneracy condition each, on purpose and by a known amount."""

import math

import numpy as np
from jaxtyping import Float

from attention.inputs import Rng
from attention.layer import AttentionLayer, require_layer_memory
from attention.validation import count, non_negative, random_generator

__all__ = [
    "make_affinely_dependent_layer",
    "make_block_diagonal_layer",
    "make_close_heads_layer",
    "make_diagonal_layer",
    "make_low_rank_layer",
    "make_repeated_singular_values_layer",
]


def make_diagonal_layer(*, heads: int, dim: int, sigma: float = 2.0, rng: Rng = None) -> AttentionLayer:
    """Draw a layer whose attention matrices are diagonal: Theta_jj from N(0, sigma^2/d), W as of a nice layer.

    Parameters
    ----------
    heads, dim : int
        The numbers m of heads and d of coordinates.
    sigma : float
        Standard deviation of a logit between two different Boolean tokens.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7).

    Raises
    ------
    ValueError
        If `heads` or `dim` is below 1, or `sigma` is negative or not finite.

    Notes
    -----
    A column has one non-zero entry, so the logits of a token lie on a lattice, and the logit of a token on
    itself is the constant Tr(Theta), not small beside the others. O(m d^2).

    References
    ----------
    Derived here; diagonal attention is among the questions on how the conditions of Chen and Li
    (arXiv 2402.04084) may fail.

    Examples
    --------
    >>> layer = make_diagonal_layer(heads=1, dim=3, rng=0)
    >>> (layer.theta[0] != 0).sum(axis=0)
    array([1, 1, 1])
    """
    return make_block_diagonal_layer(heads=heads, dim=dim, block=1, sigma=sigma, rng=rng)


def make_block_diagonal_layer(
    *, heads: int, dim: int, block: int, sigma: float = 2.0, rng: Rng = None
) -> AttentionLayer:
    """Draw a layer whose attention matrices are block diagonal with equal Gaussian blocks.

    Parameters
    ----------
    heads, dim : int
        The numbers m of heads and d of coordinates.
    block : int
        The size of a block, at most d; the last block is smaller where it does not divide d.
    sigma : float
        Standard deviation of a logit between two different Boolean tokens.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7).

    Raises
    ------
    ValueError
        If a number is out of range.

    Notes
    -----
    The entries inside the blocks are N(0, sigma^2 / their number), W as of a nice layer. O(m d^2).

    References
    ----------
    Derived here.
    """
    heads, dim, sigma = _sizes(heads, dim, sigma)
    block = _at_most("block", block, least=1, most=dim, why="the dimension")
    rng = random_generator(rng)
    part = np.arange(dim) // block
    mask = part[:, None] == part
    theta = rng.standard_normal((heads, dim, dim)) * (sigma / math.sqrt(mask.sum())) * mask
    return AttentionLayer(theta=theta, w=_nice_w(heads, dim, rng))


def make_low_rank_layer(
    *, heads: int, dim: int, rank: int, w_rank: int | None = None, sigma: float = 2.0, rng: Rng = None
) -> AttentionLayer:
    """Draw a layer whose attention matrices have low rank: products of Gaussian d x rank factors.

    Parameters
    ----------
    heads, dim : int
        The numbers m of heads and d of coordinates.
    rank : int
        The rank of every Theta_i, at most d.
    w_rank : int, optional
        The rank of every W_i; full if None.
    sigma : float
        Standard deviation of a logit between two different Boolean tokens.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7).

    Raises
    ------
    ValueError
        If a number is out of range.

    Notes
    -----
    The factors are scaled so that an entry of Theta has variance (sigma/d)^2 and one of W variance 1/d, as
    in a nice layer. The heads of trained transformers are of this kind, of rank d_h. O(m d^2 rank).

    References
    ----------
    Derived here.
    """
    heads, dim, sigma = _sizes(heads, dim, sigma)
    rank = _at_most("rank", rank, least=1, most=dim, why="the dimension")
    rng = random_generator(rng)
    theta = _product(heads, dim, rank, rng) * (sigma / dim)
    if w_rank is None:
        return AttentionLayer(theta=theta, w=_nice_w(heads, dim, rng))
    w_rank = _at_most("w_rank", w_rank, least=1, most=dim, why="the dimension")
    return AttentionLayer(theta=theta, w=_product(heads, dim, w_rank, rng) / math.sqrt(dim))


def make_close_heads_layer(
    *, heads: int, dim: int, gap: float, sigma: float = 2.0, rng: Rng = None
) -> AttentionLayer:
    """Draw a layer of nearly equal attention matrices: |Theta_i - Theta_j| = gap |Theta_i| for every pair.

    Parameters
    ----------
    heads, dim : int
        The numbers m >= 2 of heads and d of coordinates; m < d^2 is needed.
    gap : float
        The relative Frobenius distance of every two heads, from 0 (equal) to sqrt(2) (orthogonal).
    sigma : float
        Standard deviation of a logit between two different Boolean tokens: here the norm of every Theta_i.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7).

    Raises
    ------
    ValueError
        If a number is out of range.

    Notes
    -----
    Theta_i = sigma (cos(a) U + sin(a) V_i) with U, V_1, .., V_m orthonormal and otherwise random, and
    sin(a) = gap / sqrt(2): all norms are equal and all distances are. W as of a nice layer. O(m^2 d^2).

    References
    ----------
    Derived here.
    """
    heads, dim, sigma = _sizes(heads, dim, sigma)
    gap = non_negative("gap", gap)
    if heads < 2:
        raise ValueError(f"heads is {heads}: at least 2 are needed for a gap between them.")
    if gap > math.sqrt(2):
        raise ValueError(f"gap is {gap}: at most sqrt(2), that of orthogonal heads, is allowed.")
    if heads >= dim**2:
        raise ValueError(f"heads is {heads} and dim {dim}: fewer than dim^2 = {dim**2} heads are needed.")
    rng = random_generator(rng)
    common, *own = np.linalg.qr(rng.standard_normal((dim**2, heads + 1)))[0].T.reshape(-1, dim, dim)
    sine = min(gap / math.sqrt(2), 1.0)
    theta = sigma * (math.sqrt((1 - sine) * (1 + sine)) * common + sine * np.stack(own))
    return AttentionLayer(theta=theta, w=_nice_w(heads, dim, rng))


def make_repeated_singular_values_layer(
    *, heads: int, dim: int, multiplicity: int = 2, sigma: float = 2.0, rng: Rng = None
) -> AttentionLayer:
    """Draw a layer whose attention matrices have every singular value several times.

    Parameters
    ----------
    heads, dim : int
        The numbers m of heads and d of coordinates.
    multiplicity : int
        How often a singular value occurs, from 2 to d; the smallest one occurs less often where this does
        not divide d. With d, every Theta_i is a multiple of an orthogonal matrix.
    sigma : float
        Standard deviation of a logit between two different Boolean tokens.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7).

    Raises
    ------
    ValueError
        If a number is out of range.

    Notes
    -----
    A nice layer with runs of neighbouring singular values replaced by their root mean square, which leaves
    every norm |Theta_i| as it was. O(m d^3).

    References
    ----------
    Derived here.
    """
    heads, dim, sigma = _sizes(heads, dim, sigma)
    multiplicity = _at_most("multiplicity", multiplicity, least=2, most=dim, why="the dimension")
    rng = random_generator(rng)
    left, values, right = np.linalg.svd(rng.standard_normal((heads, dim, dim)) * (sigma / dim))
    for first in range(0, dim, multiplicity):
        run = values[:, first : first + multiplicity]
        run[:] = np.sqrt(np.mean(run**2, axis=1, keepdims=True))
    return AttentionLayer(theta=(left * values[:, None, :]) @ right, w=_nice_w(heads, dim, rng))


def make_affinely_dependent_layer(
    *, heads: int, dim: int, sigma: float = 2.0, rng: Rng = None
) -> AttentionLayer:
    """Draw a layer whose attention matrices are affinely dependent: their hull has a dimension less.

    Parameters
    ----------
    heads, dim : int
        The numbers m >= 3 of heads and d of coordinates; m <= d^2 is needed.
    sigma : float
        Standard deviation of a logit between two different Boolean tokens, root mean square over the heads.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7).

    Raises
    ------
    ValueError
        If a number is out of range.

    Notes
    -----
    A nice layer projected so that the mean of the first half of the Theta_i equals the mean of the others
    (of three heads, the last is half-way between the first two); W as of a nice layer. Affine dependence
    implies linear dependence, and so an incoherence of at least 1/(m-1). O(m^2 d^2).

    References
    ----------
    Derived here (the bound is Gershgorin's theorem on the normalised Gram matrix).

    Examples
    --------
    >>> theta = make_affinely_dependent_layer(heads=3, dim=4, rng=0).theta
    >>> bool(abs((theta[0] + theta[1]) / 2 - theta[2]).max() < 1e-12)
    True
    """
    heads, dim, sigma = _sizes(heads, dim, sigma)
    if not 3 <= heads <= dim**2:
        raise ValueError(
            f"heads is {heads}: from 3, fewer being always independent or equal, to dim^2 = {dim**2} are needed."
        )
    rng = random_generator(rng)
    halves = np.where(np.arange(heads) < (heads + 1) // 2, 1 / ((heads + 1) // 2), -1 / (heads // 2))
    relation = halves / np.linalg.norm(halves)
    theta = rng.standard_normal((heads, dim, dim)) * (sigma / dim)
    theta = theta - relation[:, None, None] * np.tensordot(relation, theta, axes=1)
    return AttentionLayer(theta=theta * math.sqrt(heads / (heads - 1)), w=_nice_w(heads, dim, rng))


def _sizes(heads: int, dim: int, sigma: float) -> tuple[int, int, float]:
    heads, dim, sigma = count("heads", heads), count("dim", dim), non_negative("sigma", sigma)
    # with what factors, singular vectors and products take
    require_layer_memory(heads, dim, arrays=6)
    return heads, dim, sigma


def _at_most(name: str, value: int, *, least: int, most: int, why: str) -> int:
    value = count(name, value, least=least)
    if value > most:
        raise ValueError(f"{name} is {value}: at most {most}, {why}, is allowed.")
    return value


def _nice_w(heads: int, dim: int, rng: np.random.Generator) -> Float[np.ndarray, "m d d"]:
    return rng.standard_normal((heads, dim, dim)) / math.sqrt(dim)


def _product(heads: int, dim: int, rank: int, rng: np.random.Generator) -> Float[np.ndarray, "m d d"]:
    """Random matrices of the given rank whose entries have variance one."""
    left, right = rng.standard_normal((2, heads, dim, rank))
    return left @ right.swapaxes(1, 2) / math.sqrt(rank)
