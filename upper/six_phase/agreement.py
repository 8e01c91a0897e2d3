"""Certify the rows on which all heads have the same pattern, and their equations."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import scipy
from jaxtyping import Bool, Float

from attention import AttentionLayer

_FIELDS = ("rows", "differences", "log_ratios", "weights")


@dataclass(frozen=True, eq=False)
class Certificates:
    """For each row of each example, the common pattern that explains it best, and the residual.

    `pattern` has the weights p with sum 1 for which p X W^ is closest to Y_a; if heads disagree, some may be negative.
    `residual` is |Y_a - p X W^| / |Y_a|, and infinite for examples that determine no pattern.
    """

    pattern: Float[np.ndarray, "n k k"]
    residual: Float[np.ndarray, "n k"]


def certify_agreement(
    x: Float[np.ndarray, "n k d"],
    y: Float[np.ndarray, "n k d"],
    projection_sum: Float[np.ndarray, "d d"],
) -> Certificates:
    """Regress every output row on the projected tokens X W^ with weights that sum to 1.

    Parameters
    ----------
    x, y : array (n, k, d)
        Examples, 2 <= k < d. For k >= d, a small residual certifies nothing.
    projection_sum : array (d, d)
        W^, the estimate of sum_i W_i.

    Notes
    -----
    The weights may have any sign; the pattern minimises the Euclidean norm of the residual.
    If every head has the pattern p in row a, then Y_a = p X (sum_i W_i), and the residual is as large as the error of
    W^. Conversely, a small residual implies agreement if the W_i are incoherent and k and m are much smaller than d.
    For projections of rank one, and for W_1 = W_2, this fails. Without the constraint, the scale of W^ would be free.
    Two equal tokens make the regression singular, and two opposite tokens free the scale; such examples get an infinite
    residual. Patterns and residuals do not depend on the unit of labels and W^. O(n k^2 d + n k d^2).
    Source: Chen and Li, arXiv 2402.04084, phase 2; batched form and sum-to-one constraint as derived here.
    """
    n, k, d = x.shape
    if k < 2 or k >= d:
        raise ValueError(
            f"The examples have k = {k} tokens in d = {d} coordinates: 2 <= k < d is needed to certify agreement, "
            "because k projected tokens span everything from k = d on."
        )
    # one product of all tokens; for a stack of matrices NumPy would make n small products
    values = (x.reshape(n * k, d) @ projection_sum).reshape(n, k, d)
    pattern, residual = _least_squares(values, y)
    size = _lengths(y)
    relative = _lengths(residual) / np.where(size > 0, size, 1.0)
    ruined = has_repeated_tokens(x)[:, None] | (size == 0) | ~np.isfinite(relative)
    return Certificates(pattern=pattern, residual=np.where(ruined, np.inf, relative))


def has_repeated_tokens(x: Float[np.ndarray, "n k d"]) -> Bool[np.ndarray, " n"]:
    """Which examples have two tokens equal or opposite, to rounding; O(n k^2 d)."""
    size = _lengths(x)
    repeated = np.zeros(len(x), dtype=bool)
    for a, b in combinations(range(x.shape[1]), 2):
        product = np.abs(np.einsum("nd,nd->n", x[:, a], x[:, b]))
        repeated |= product >= (1 - 1e-12) * size[:, a] * size[:, b]
    return repeated


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Linear equations <x_a (x) v_j, Theta> = t_j that hold approximately for all heads.

    `rows` are the attending tokens x_a. `differences` are orthonormal contrasts v_j = sum_b H_jb x_b of the tokens. H
    has the Helmert contrasts (rows of sum zero). `log_ratios` are the same contrasts of the log-pattern, in logits. The
    `weights` of rows are 1 / sum_b p_b^-2, since an error of the pattern has a larger effect on the logarithm of a
    small p_b. No token is special: the k - 1 equations are equivalent to x_a Theta (x_b - x_c) = ln(p_b / p_c) for all
    b and c.

    Their moments are M = mean of w v v^T and b = mean of w t v over the equations <v, Theta> = t, the weights w of
    mean 1. For tokens of identity covariance, M has mean eigenvalue about 1.
    """

    rows: Float[np.ndarray, "n d"]
    differences: Float[np.ndarray, "n k1 d"]
    log_ratios: Float[np.ndarray, "n k1"]
    weights: Float[np.ndarray, " n"]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def equations(self) -> int:
        """The number of scalar equations, k - 1 per row."""
        return int(self.log_ratios.size)

    def apply(self, theta: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "n k1"]:
        """<x_a (x) v_j, Theta> for every equation, without a vector of d^2 entries; O(n d^2)."""
        return np.einsum("nkd,nd->nk", self.differences, self.rows @ theta)

    def transpose_apply(self, values: Float[np.ndarray, "n k1"]) -> Float[np.ndarray, "d d"]:
        """The sum of values_j x_a (x) v_j; O(n d^2)."""
        return self.rows.T @ np.einsum("nk,nkd->nd", values, self.differences)

    @cached_property
    def right(self) -> Float[np.ndarray, " d2"]:
        """B."""
        return self.transpose_apply(self._share * self.log_ratios).ravel()

    @cached_property
    def size(self) -> float:
        """Weighted root mean square of the t, in logits."""
        return float(np.sqrt(np.sum(self._share * self.log_ratios**2)))

    def moment_product(self, theta: Float[np.ndarray, " d2"]) -> Float[np.ndarray, " d2"]:
        """M Theta; O(n d^2), with no vector of d^2 entries a row."""
        d = self.rows.shape[1]
        return self.transpose_apply(self._share * self.apply(theta.reshape(d, d))).ravel()

    def misfit(self, theta: Float[np.ndarray, "d d"]) -> float:
        """Weighted root mean square of <v, Theta> - t, in logits."""
        return float(np.sqrt(np.sum(self._share * (self.apply(theta) - self.log_ratios) ** 2)))

    @cached_property
    def _share(self) -> Float[np.ndarray, "n 1"]:
        # as a column, since every equation of a row has the weight of the row
        return (self.weights / (self.weights.sum() * self.log_ratios.shape[1]))[:, None]

    def chosen(self, which: Any) -> "Contrasts":
        """The equations of the rows in `which`, an index or a mask."""
        return Contrasts(*(getattr(self, name)[which] for name in _FIELDS))

    @classmethod
    def joined(cls, parts: "Sequence[Contrasts]") -> "Contrasts":
        """The equations of all `parts`, at least one."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in _FIELDS))

    def error(self, layer: AttentionLayer) -> float:
        """Weighted root mean square of <x_a (x) v_j, Theta_i> - t_j over equations and heads, in logits."""
        misses = [np.mean((self.apply(theta) - self.log_ratios) ** 2, axis=1) for theta in layer.theta]
        return float(np.sqrt(np.average(np.mean(misses, axis=0), weights=self.weights)))


def contrasts_of(
    x: Float[np.ndarray, "n k d"], pattern: Float[np.ndarray, "n k k"], accepted: Bool[Any, "n k"]
) -> Contrasts:
    """The equations in Theta from the accepted rows; O(n k^2 d) for n accepted examples.

    A ValueError if the shapes do not match, or the pattern of an accepted row has an entry that is not positive, which
    has no logarithm.
    """
    example, row = np.nonzero(accepted)
    p = pattern[example, row]
    if np.any(p <= 0):
        raise ValueError("pattern has an entry of 0 or less in an accepted row: positive ones are needed.")
    helmert_contrasts = scipy.linalg.helmert(x.shape[1])
    return Contrasts(
        rows=x[example, row],
        differences=np.matmul(helmert_contrasts, x[example]),
        log_ratios=np.log(p) @ helmert_contrasts.T,
        weights=1 / np.sum(1 / p**2, axis=1),
    )


def _lengths(vectors: np.ndarray) -> np.ndarray:
    return np.sqrt(np.einsum("nad,nad->na", vectors, vectors))


def _least_squares(values: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    k = values.shape[1]
    # the last weight is 1 minus the others; the solution does not depend on the choice of that token
    base = values[:, -1:]
    differences, residual = values[:, :-1] - base, y - base
    # einsum, since matmul is slow on stacks of tiny matrices
    gram = np.einsum("nid,njd->nij", differences, differences)
    scale = np.einsum("njj->n", gram)[:, None, None] / (k - 1)
    # so close to singular, no pattern is determined
    safe = gram + 1e-10 * np.where(scale > 0, scale, 1.0) * np.eye(k - 1)
    moments = np.einsum("nid,nad->nia", differences, residual)
    free = np.linalg.solve(safe, moments) if k > 2 else moments / safe
    residual -= np.einsum("nia,nid->nad", free, differences)
    free = np.swapaxes(free, 1, 2)
    return np.concatenate([free, 1 - free.sum(axis=-1, keepdims=True)], axis=-1), residual
