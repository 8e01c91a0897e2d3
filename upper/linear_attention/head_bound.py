"""How few heads a tensor can have at best: a proved lower bound, and a rank that is none."""

from typing import Any

import numpy as np
from jaxtyping import Float

from attention._arrays import as_floating, namespace, to_numpy
from attention.inputs import Rng
from attention.validation import non_negative, random_generator, require_finite, require_shape
from upper.linear_attention.head_search import symmetrised

__all__ = [
    "TOLERANCE",
    "checked_tensor",
    "checked_tolerance",
    "fewest_heads_bound",
    "symmetric_rank",
    "unfolded",
    "unit_symmetric",
]

TOLERANCE = 1e-7
"""Relative distance of tensors that counts as none."""

_ROUNDING = 1e-14  # a symmetric part below this share of its tensor has cancelled
_PROBES = 64


def fewest_heads_bound(
    tensor: Float[np.ndarray, "p d d d"], *, tolerance: float = TOLERANCE, rng: Rng = 0
) -> int:
    """A number of heads below which no real model comes within a tolerance of the tensor.

    Parameters
    ----------
    tensor : array (p, d, d, d)
        M_abce; its symmetric part S is used.
    tolerance : float
        Relative distance |sym M - S| / |S| that a model is allowed, below 1.
    rng : SPEC 7 generator or seed
        Of the directions; whatever they are, the bound holds.

    Returns
    -------
    int
        d at most, and 0 for a tensor that does not act.

    Raises
    ------
    ValueError
        If the shape is no (p, d, d, d), an entry is not finite, or the tolerance is 1 or more.

    Notes
    -----
    Proved (up to rounding), for unit vectors g, u, f:

    * sum_bc S_abce g_b g_c = sum_h (V_h g)_a (Q_h^T g)_e has rank H at most, and a model within the tolerance
      moves this p x d matrix by at most tolerance |S|. So H singular values suffice to that distance.
    * sum_ae S_abce u_a f_e is the symmetric part of sum_h (V_h^T u)(Q_h f)^T, and each term has at most one positive
      and one negative eigenvalue. So the positive ones beyond the first H are below that distance, and the negative
      ones too. It says more than the first where p < d.

    The greatest over 64 random directions. It cannot exceed d: for more heads minimality stays unproved here.
    O(64 (p d^3 + d^3)).

    Examples
    --------
    >>> from upper.linear_attention.model import make_linear_attention
    >>> fewest_heads_bound(make_linear_attention(heads=3, dim=4, rng=0).tensor())
    3
    """
    tolerance = checked_tolerance(tolerance, strictly=False)
    unit, norm = unit_symmetric(tensor)
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


def symmetric_rank(tensor: Float[np.ndarray, "p d d d"], *, tolerance: float = TOLERANCE) -> int:
    """The rank of the unfolding (a b), (c e) of the symmetrised tensor: what plain SVD would take for the heads.

    Parameters
    ----------
    tensor : array (p, d, d, d)
        M_abce.
    tolerance : float
        Singular values below this share of the largest count as zero; itself below 1.

    Returns
    -------
    int
        d^2 for one generic head with p = d already: no measure of the number of heads.

    Raises
    ------
    ValueError
        If the shape is no (p, d, d, d), an entry is not finite, or the tolerance is 1 or more.

    Notes
    -----
    O(p^2 d^4).

    Examples
    --------
    >>> from upper.linear_attention.model import make_linear_attention
    >>> symmetric_rank(make_linear_attention(heads=1, dim=4, rng=0).tensor())
    16
    """
    tolerance = checked_tolerance(tolerance, strictly=False)
    unit, norm = unit_symmetric(tensor)
    values = np.linalg.svd(unfolded(unit), compute_uv=False)
    return int(np.sum(values > tolerance * values[0])) if norm else 0


def checked_tensor(tensor: Any) -> Float[np.ndarray, "p d d d"]:
    """A tensor (p, d, d, d) of any library in double precision; a ValueError for anything else."""
    xp = namespace(tensor)
    require_shape("The tensor", tensor, ("p", "d", "d", "d"))
    outputs, d = tensor.shape[:2]
    require_shape("The tensor", tensor, (outputs, d, d, d))
    tensor = as_floating(tensor, xp.float64, xp)
    require_finite("The tensor", tensor)
    return np.asarray(to_numpy(tensor), dtype=np.float64)


def checked_tolerance(tolerance: float, *, strictly: bool = True) -> float:
    """A tolerance relative to the tensor: below 1, which no model at all is within."""
    tolerance = non_negative("tolerance", tolerance, strictly=strictly)
    if tolerance >= 1:
        raise ValueError(
            f"tolerance is {tolerance:g}: it is a share of the tensor's norm and must be below 1, as the zero model is "
            "within 1 of every tensor."
        )
    return tolerance


def unit_symmetric(tensor: Any) -> tuple[np.ndarray, float]:
    """The symmetric part at unit Frobenius norm, and its norm: 0 where it cancels to rounding."""
    tensor = checked_tensor(tensor)
    largest = float(np.max(np.abs(tensor)))
    if not largest:
        return tensor, 0.0
    symmetric = symmetrised(tensor / largest)  # neither overflows nor underflows when squared
    norm = float(np.linalg.norm(symmetric))
    if norm <= _ROUNDING * float(np.linalg.norm(tensor / largest)):
        return np.zeros_like(tensor), 0.0
    return symmetric / norm, norm * largest


def unfolded(tensor: Float[np.ndarray, "p d d d"]) -> Float[np.ndarray, "pd dd"]:
    """The matrix (a b), (c e) of a tensor M_abce."""
    return tensor.reshape(tensor.shape[0] * tensor.shape[1], -1)


def _directions(rng: np.random.Generator, size: int) -> np.ndarray:
    draw = rng.standard_normal((_PROBES, size))
    return draw / np.linalg.norm(draw, axis=1, keepdims=True)


def _needed(values: np.ndarray, allowed: float) -> int:
    """The most, over the rows, of the leading values without which the rest has a norm above `allowed`."""
    rest = np.sqrt(np.cumsum(values[:, ::-1] ** 2, axis=1))
    return int(np.max(np.sum(rest > allowed, axis=1)))
