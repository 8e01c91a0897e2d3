"""Phases 2 and 4, first half: certify the rows on which all heads have the same attention pattern."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float
from scipy.linalg import helmert

from attention import AttentionLayer
from attention.validation import real_array, require_finite, require_shape
from upper.six_phase.common import scaled_to_square

__all__ = ["Certificates", "Contrasts", "certify_agreement", "contrasts_of", "has_repeated_tokens"]

# Differences of projected tokens whose Gram matrix is this close to singular determine no pattern.
_SINGULAR = 1e-10
# squares of tokens below it have lost their digits, and a share of them is zero
_SUBNORMAL = 1e-290


@dataclass(frozen=True, eq=False)
class Certificates:
    """For each row of each example, the common pattern that explains it best and what it leaves unexplained.

    Attributes
    ----------
    pattern : array (n, k, k)
        The weights p with sum 1 for which p X W^ is closest to Y_a; entries may be negative where heads disagree.
    residual : array (n, k)
        |Y_a - p X W^| / |Y_a|; infinite for examples that determine no pattern.
    """

    pattern: Float[np.ndarray, "n k k"]
    residual: Float[np.ndarray, "n k"]


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Linear equations <x_a (x) v_j, Theta> = t_j that hold, nearly, for every head at once.

    Attributes
    ----------
    rows : array (n, d)
        The attending tokens x_a.
    differences : array (n, k-1, d)
        Orthonormal contrasts v_j = sum_b H_jb x_b of the tokens (H the Helmert contrasts: rows of sum zero).
    log_ratios : array (n, k-1)
        The same contrasts of the log-pattern, t_j = sum_b H_jb ln p_b, in logits.
    weights : array (n,)
        Weight of a row, 1 / sum_b p_b^-2: the same error of a pattern weighs more in the logarithm of a small p_b.

    Notes
    -----
    Orthonormal contrasts instead of differences to one token, so that no token is special. Their k - 1 equations are
    equivalent to x_a Theta (x_b - x_c) = ln(p_b / p_c) for all b and c.
    """

    rows: Float[np.ndarray, "n d"]
    differences: Float[np.ndarray, "n k1 d"]
    log_ratios: Float[np.ndarray, "n k1"]
    weights: Float[np.ndarray, " n"]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def equations(self) -> int:
        """The number of scalar equations, k - 1 a row."""
        return int(self.log_ratios.size)

    def apply(self, theta: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "n k1"]:
        """<x_a (x) v_j, Theta> for every equation, without forming a vector of d^2 entries; O(n d^2)."""
        return np.einsum("nkd,nd->nk", self.differences, self.rows @ theta)

    def transpose_apply(self, values: Float[np.ndarray, "n k1"]) -> Float[np.ndarray, "d d"]:
        """The sum of values_j x_a (x) v_j; O(n d^2)."""
        return self.rows.T @ np.einsum("nk,nkd->nd", values, self.differences)

    def chosen(self, which: Any) -> "Contrasts":
        """The equations of the rows that `which`, an index or a mask, chooses."""
        return Contrasts(*(getattr(self, name)[which] for name in _FIELDS))

    @classmethod
    def joined(cls, parts: "Sequence[Contrasts]") -> "Contrasts":
        """The equations of all `parts`, of which there must be one."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in _FIELDS))

    def error(self, layer: AttentionLayer) -> float:
        """Weighted root mean square of <x_a (x) v_j, Theta_i> - t_j over equations and heads, in logits."""
        misses = [np.mean((self.apply(theta) - self.log_ratios) ** 2, axis=1) for theta in layer.theta]
        return float(np.sqrt(np.average(np.mean(misses, axis=0), weights=self.weights)))


_FIELDS = ("rows", "differences", "log_ratios", "weights")


def certify_agreement(
    x: Float[np.ndarray, "n k d"],
    y: Float[np.ndarray, "n k d"],
    projection_sum: Float[np.ndarray, "d d"],
    *,
    method: Literal["least-squares", "linear-program"] = "least-squares",
) -> Certificates:
    """Regress every output row on the projected tokens X W^ with weights that sum to 1.

    Parameters
    ----------
    x, y : array (n, k, d)
        Examples.
    projection_sum : array (d, d)
        W^, the estimate of sum_i W_i.
    method : "least-squares" or "linear-program"
        Whether the pattern minimises the Euclidean norm of the residual (closed form, weights of any sign), or the
        largest entry of the residual over patterns with p >= 0 (HiGHS; one sparse program for all rows).

    Returns
    -------
    Certificates
        The pattern and the relative residual of each row.

    Raises
    ------
    ValueError
        If the shapes do not fit, an entry is not finite, k < 2, or k >= d: then any row is a combination of the
        projected tokens, and a small residual certifies nothing.

    Notes
    -----
    If every head has the pattern p in row a, then Y_a = p X (sum_i W_i) and the residual is of the size of the error
    of W^. The converse, small residual implies agreement, holds because k and m are much smaller than d: the m k
    vectors x_b W_i are in general position, so that no other combination of patterns lands in the span of X W^.
    That is an argument about generic W_i, not a theorem here; projections of rank one break it. The constraint
    matters: without it the scale of W^ is free. Two equal tokens make the regression singular, and with two
    opposite ones 0 is among the mixtures of tokens, so that the scale is free again: such examples get an
    infinite residual. Patterns and residuals do not depend on the unit that labels and W^
    are measured in, however large or small it is. O(n k^2 d + n k d^2) for least squares.

    References
    ----------
    Chen and Li, arXiv 2402.04084, phase 2; batched form and sum-to-one constraint as derived here.
    """
    require_shape("x", x, ("n", "k", "d"))
    n, k, d = x.shape
    require_shape("y", y, (n, k, d))
    require_shape("projection_sum", projection_sum, (d, d))
    for name, array in (("x", x), ("y", y), ("projection_sum", projection_sum)):
        require_finite(name, array)
    if k < 2 or k >= d:
        raise ValueError(
            f"The examples have k = {k} tokens in d = {d} coordinates: 2 <= k < d is needed to certify agreement, "
            "because k projected tokens span everything from k = d on."
        )
    if not isinstance(method, str) or method not in _METHODS:
        raise ValueError(f"method is {method!r}: {' or '.join(map(repr, _METHODS))} is needed.")
    # one product of all tokens: NumPy makes n small ones of a stack of matrices
    values = (x.reshape(n * k, d) @ projection_sum).reshape(n, k, d)
    y, values = scaled_to_square(y, values)
    pattern, residual = _METHODS[method](values, y)
    size = _lengths(y)
    relative = _lengths(residual) / np.where(size > 0, size, 1.0)
    ruined = has_repeated_tokens(x)[:, None] | (size == 0) | ~np.isfinite(relative)
    return Certificates(pattern=pattern, residual=np.where(ruined, np.inf, relative))


def has_repeated_tokens(x: Float[np.ndarray, "n k d"]) -> Bool[np.ndarray, " n"]:
    """Which examples have two tokens equal or opposite, to rounding; O(n k^2 d)."""
    (x,) = scaled_to_square(real_array("x", x, ("n", "k", "d")))
    size = _lengths(x)
    repeated = np.zeros(len(x), dtype=bool)
    for a, b in combinations(range(x.shape[1]), 2):
        product = np.abs(np.einsum("nd,nd->n", x[:, a], x[:, b]))
        repeated |= product >= (1 - 1e-12) * size[:, a] * size[:, b]
    return repeated


def contrasts_of(
    x: Float[np.ndarray, "n k d"], pattern: Float[np.ndarray, "n k k"], accepted: Bool[np.ndarray, "n k"]
) -> Contrasts:
    """The equations in Theta that the accepted rows give; O(n k^2 d) for the accepted ones.

    Raises
    ------
    ValueError
        If an accepted row's pattern has an entry that is not positive: it has no logarithm.
    """
    x, pattern = real_array("x", x), real_array("pattern", pattern)
    if x.ndim != 3 or not x.shape[1]:  # no example at all is well
        raise ValueError(f"x has shape {x.shape}: (n, k, d) is needed.")
    n, k, _ = x.shape
    require_shape("pattern", pattern, (n, k, k))
    require_shape("accepted", accepted, (n, k))
    if accepted.dtype != bool:
        raise ValueError(f"accepted is an array of {accepted.dtype}: True or False for every row is needed.")
    example, row = np.nonzero(accepted)
    p = pattern[example, row]
    if np.any(p <= 0):
        raise ValueError(
            "An accepted row has a pattern with an entry of 0 or less: accept positive ones only."
        )
    helmert_contrasts = helmert(x.shape[1])
    weights = 1 / np.sum(1 / p**2, axis=1)
    return Contrasts(
        rows=x[example, row],
        differences=np.matmul(helmert_contrasts, x[example]),
        log_ratios=np.log(p) @ helmert_contrasts.T,
        weights=weights,
    )


def _lengths(vectors: np.ndarray) -> np.ndarray:
    return np.sqrt(np.einsum("nad,nad->na", vectors, vectors))


def _least_squares(values: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    k = values.shape[1]
    if k == 2:
        return _least_squares_of_pairs(values, y)
    # the last weight is 1 minus the others; no token is special, the solution does not depend on which
    base = values[:, -1:]
    differences, target = values[:, :-1] - base, y - base
    gram = np.matmul(differences, np.swapaxes(differences, 1, 2))
    scale = np.einsum("njj->n", gram)[:, None, None] / (k - 1)
    safe = gram + _SINGULAR * np.where(scale > _SUBNORMAL, scale, 1.0) * np.eye(k - 1)
    moments = np.matmul(target, np.swapaxes(differences, 1, 2))
    free = np.swapaxes(np.linalg.solve(safe, np.swapaxes(moments, 1, 2)), 1, 2)
    pattern = np.concatenate([free, 1 - free.sum(axis=-1, keepdims=True)], axis=-1)
    return pattern, target - np.matmul(free, differences)


def _least_squares_of_pairs(values: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One unknown a row: no systems to solve, no products of tiny matrices."""
    base = values[:, 1]
    difference, residual = values[:, 0] - base, y - base[:, None]
    gram = np.einsum("nd,nd->n", difference, difference)
    safe = gram + _SINGULAR * np.where(gram > 0, gram, 1.0)
    free = np.einsum("nad,nd->na", residual, difference) / safe[:, None]
    residual -= free[:, :, None] * difference[:, None]
    return np.stack([free, 1 - free], axis=-1), residual


def _linear_program(values: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from scipy.optimize import linprog
    from scipy.sparse import block_array, bsr_array, csr_array, eye_array, kron

    n, k, d = values.shape
    rows = n * k
    labels, unit = y, np.sqrt(np.mean(y**2)) or 1.0
    values, y = values / unit, y / unit  # the solver's tolerances are absolute
    # unknowns: the k weights of each row, then one bound each; -bound <= Y_a - p X W^ <= bound, entry by entry
    blocks = np.repeat(np.swapaxes(values, 1, 2), k, axis=0)
    read = bsr_array((blocks, np.arange(rows), np.arange(rows + 1)), shape=(rows * d, rows * k))
    each = eye_array(rows)
    bound = kron(each, np.ones((d, 1)))
    right = y.reshape(rows * d)
    found = linprog(
        c=np.concatenate([np.zeros(rows * k), np.ones(rows)]),
        A_ub=block_array([[read, -bound], [-read, -bound]], format="csr"),
        b_ub=np.concatenate([right, -right]),
        A_eq=block_array([[kron(each, np.ones((1, k))), csr_array((rows, rows))]], format="csr"),
        b_eq=np.ones(rows),
        bounds=(0, None),
        method="highs",
    )
    if found.x is None:  # bounded and feasible by construction: uniform weights and large bounds
        raise ArithmeticError(f"The linear program of the certificates failed: {found.message}")
    pattern = found.x[: rows * k].reshape(n, k, k)
    return pattern, labels - unit * np.matmul(pattern, values)


_METHODS = {"least-squares": _least_squares, "linear-program": _linear_program}
