"""Layers shaped like those of trained transformers: many heads of low rank, uneven, and alike."""

import math

import numpy as np
from jaxtyping import Float

from attention._arrays import shown
from attention._head_measures import HeadMeasures
from attention.inputs import Rng
from attention.layer import AttentionLayer, require_layer_memory
from attention.validation import count, non_negative, random_generator

__all__ = ["make_transformer_shaped_layer"]

# How much of the common subspace the head that is least like the others takes, of what the two most alike take.
_LEAST_SHARE = 0.3


def make_transformer_shaped_layer(
    *,
    heads: int = 12,
    dim: int = 96,
    rank: int = 32,
    exponent: float = 0.5,
    incoherence: float = 0.45,
    strengths: tuple[float, float] = (2.0, 8.0),
    rng: Rng = None,
) -> AttentionLayer:
    """Draw a layer of low-rank heads with power-law spectra, unequal strengths and a given incoherence.

    Parameters
    ----------
    heads, dim, rank : int
        The numbers m of heads and d of coordinates, and the rank of every Theta_i and W_i, at most d.
    exponent : float
        The j-th singular value of every matrix is proportional to j^-exponent: 0 is isotropic, and at .5 a matrix of
        rank 32 has stable rank 4.
    incoherence : float
        The largest |<A_i, A_j>| / (|A_i| |A_j|) over the pairs of heads, from 0 to 1 (below 1), of the Theta_i and
        likewise of the W_i; where independent heads of this shape are more alike than that, they are left so.
    strengths : (float, float)
        The least and the largest |Theta_i|, which is the standard deviation of a logit between two different Boolean
        tokens. Strengths are spread evenly between them in the logarithm; those of the W_i have the same ratio, in
        another order, and root mean square sqrt(d), as in a nice layer. A single head gets the
        least.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7).

    Raises
    ------
    ValueError
        If a number is out of range, or `strengths` are not two.

    Notes
    -----
    Theta_i = s_i U_i diag(j^-exponent) V_i^T with orthonormal columns U_i, V_i, each the orthonormal part of
    t_i U_0 + sqrt(1 - t_i^2) G_i: U_0 is common to all heads, G_i is the head's own. The shares t_i fall evenly
    from the same value for the two heads that are most alike to .3 of it, and that value is the one at which the
    incoherence is reached. The W_i are made alike. Both are what `attention.check_conditions` measures as "incoherence"
    (worst head), "stable rank" and "norm ratio". O(m d^2 (rank + m)) a step of the search for the value.

    Trained layers measured so far had incoherence up to .46, stable ranks down to 3 and norms from 2 to 12; that
    their singular values follow a power law is an assumption of this generator, not a measurement.

    References
    ----------
    Derived here.

    Examples
    --------
    >>> layer = make_transformer_shaped_layer(heads=3, dim=16, rank=4, rng=0)
    >>> [int(np.linalg.matrix_rank(head)) for head in layer.theta]
    [4, 4, 4]
    """
    heads, dim, rank = count("heads", heads), count("dim", dim), count("rank", rank)
    exponent, incoherence = non_negative("exponent", exponent), non_negative("incoherence", incoherence)
    if not isinstance(strengths, tuple | list | np.ndarray) or np.shape(strengths)[:1] != (2,):
        raise ValueError(
            f"strengths are {shown(strengths)}: two numbers are needed, the least and the largest."
        )
    weakest, strongest = (non_negative("strengths", one, strictly=True) for one in strengths)
    if rank > dim:
        raise ValueError(f"rank is {rank}: at most the dimension, {dim}, is allowed.")
    if incoherence >= 1:
        raise ValueError(f"incoherence is {incoherence}: below 1, that of parallel heads, is needed.")
    if weakest > strongest:
        raise ValueError(f"strengths are {strengths}: the least comes first, then the largest.")
    require_layer_memory(heads, dim, arrays=8)
    rng = random_generator(rng)
    sizes = np.geomspace(weakest, strongest, heads)
    theta = _alike(heads, dim, rank, exponent, incoherence, rng) * rng.permutation(sizes)[:, None, None]
    w = _alike(heads, dim, rank, exponent, incoherence, rng) * rng.permutation(sizes)[:, None, None]
    return AttentionLayer(theta=theta, w=w * math.sqrt(dim * heads / np.sum(sizes**2)))


def _alike(
    heads: int, dim: int, rank: int, exponent: float, incoherence: float, rng: np.random.Generator
) -> Float[np.ndarray, "heads dim dim"]:
    """Matrices of norm 1 with these spectra and this incoherence."""
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
    from scipy.optimize import brentq  # slow to import, and seldom needed

    return at(brentq(excess, 0.0, 1.0, xtol=1e-12))


def _orthonormal(matrices: np.ndarray) -> np.ndarray:
    # with the signs that make the factor a continuous function of the matrix
    q, r = np.linalg.qr(matrices)
    signs = np.sign(np.diagonal(r, axis1=-2, axis2=-1))
    return q * signs[..., None, :]
