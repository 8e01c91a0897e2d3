"""Phases 2 and 4, first half: the rows on which all heads have the same pattern, certified; and how often they do."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from attention import AttentionLayer, Inputs
from attention.inputs import Rng
from attention.validation import PositiveFloat, PositiveInt, checked, random_generator, real_array
from upper.six_phase.common import batch_size, scaled_to_square

__all__ = [
    "AgreementLaw",
    "Certificates",
    "certify_agreement",
    "disagreement",
    "has_repeated_tokens",
    "measure_agreement",
]

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


@checked
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

    Raises
    ------
    ValueError
        If the shapes do not fit, an entry is not finite, k < 2, or k >= d: then a small residual certifies nothing.

    Notes
    -----
    If every head has the pattern p in row a, then Y_a = p X (sum_i W_i), and the residual is of the size of the error
    of W^. Conversely a small residual implies agreement where the W_i are in general position and k and m much smaller
    than d; projections of rank one break it. Without the constraint the scale of W^ would be free. Two equal tokens
    make the regression singular, and two opposite ones free the scale: such examples get an infinite residual.
    Nothing depends on the unit of labels and W^. O(n k^2 d + n k d^2) for least squares.

    References
    ----------
    Chen and Li, arXiv 2402.04084, phase 2; batched form and sum-to-one constraint as derived here.
    """
    n, k, d = x.shape
    if k < 2 or k >= d:
        raise ValueError(
            f"The examples have k = {k} tokens in d = {d} coordinates: 2 <= k < d is needed to certify agreement, "
            "because k projected tokens span everything from k = d on."
        )
    # one product of all tokens: NumPy makes n small ones of a stack of matrices
    values = (x.reshape(n * k, d) @ projection_sum).reshape(n, k, d)
    y, values = scaled_to_square(y, values)
    pattern, residual = _METHODS[method](values, y)
    size = _lengths(y)
    relative = _lengths(residual) / np.where(size > 0, size, 1.0)
    ruined = _repeated(x)[:, None] | (size == 0) | ~np.isfinite(relative)
    return Certificates(pattern=pattern, residual=np.where(ruined, np.inf, relative))


@checked
def has_repeated_tokens(x: Float[np.ndarray, "n k d"]) -> Bool[np.ndarray, " n"]:
    """Which examples have two tokens equal or opposite, to rounding; O(n k^2 d)."""
    return _repeated(x)


@dataclass(frozen=True, eq=False)
class AgreementLaw:
    """Counts of agreement events.

    Attributes
    ----------
    tolerances : array (t,)
        In logits, ascending.
    counts : array (t,)
        Rows on which the heads agree up to each.
    rows : int
        Rows looked at.
    exponent : int
        (m - 1)(k - 1), the limit of the slope.
    """

    tolerances: Float[np.ndarray, " t"]
    counts: Int[np.ndarray, " t"]
    rows: int
    exponent: int

    @property
    def probabilities(self) -> Float[np.ndarray, " t"]:
        """The share of rows that agree."""
        return self.counts / self.rows

    @property
    def slope(self) -> float:
        """Slope of the logarithm of the count over that of the tolerance, each tolerance weighted by its count.

        Raises
        ------
        ValueError
            If fewer than two tolerances have an agreeing row.
        """
        seen = self.counts > 0
        if np.count_nonzero(seen) < 2:
            raise ValueError(
                f"{np.count_nonzero(seen)} of {len(seen)} tolerances have an agreeing row: look at more rows, or allow "
                "larger tolerances."
            )
        x, y = np.log(self.tolerances[seen]), np.log(self.counts[seen])
        return float(np.polyfit(x, y, 1, w=np.sqrt(self.counts[seen]))[0])


@checked
def disagreement(layer: AttentionLayer, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k"]:
    """How far the heads are from the same pattern in each row, in logits.

    It is the largest difference, over pairs of heads and of tokens b, c, of x_a Theta (x_b - x_c). In logits and not in
    patterns: saturated rows have nearly equal patterns whatever their logits are. O(n k m d (d + k) + n k^2 m^2).
    """
    logits = np.moveaxis(layer.logits(real_array("x", x, ("n", "k", layer.dim))), -3, -2)  # n, k, m, k
    worst = np.zeros(logits.shape[:2])
    for i in range(layer.heads - 1):
        gaps = logits[:, :, i + 1 :] - logits[:, :, i : i + 1]
        worst = np.maximum(worst, np.max(gaps.max(axis=-1) - gaps.min(axis=-1), axis=-1))
    return worst


@checked
def measure_agreement(
    layer: AttentionLayer,
    inputs: Inputs,
    *,
    rows: PositiveInt = 2_000_000,
    tolerances: Sequence[PositiveFloat] = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4),
    rng: Rng = None,
) -> AgreementLaw:
    """Count the rows on which all heads agree up to each tolerance.

    Parameters
    ----------
    layer : AttentionLayer
        The heads, at least two.
    inputs : Inputs
        The distribution of the tokens, at least two.
    rows : int
        Rows to look at, k an example.
    tolerances : sequence of float
        In logits; small against the spread of the logits' differences.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7).

    Raises
    ------
    ValueError
        If there is one head or one token: then every row agrees.

    Notes
    -----
    The (m - 1)(k - 1) differences of logits have a bounded density at zero for Gaussian tokens, and by a local limit
    theorem for Boolean ones down to tolerances that shrink with d; so the probability is of order
    tolerance^((m-1)(k-1)). O(rows m d (d + k)).

    References
    ----------
    Chen and Li, arXiv 2402.04084, phase 2; the measurement is derived here.
    """
    if not tolerances:
        raise ValueError("tolerances is empty: at least one number is needed.")
    m, k = layer.heads, inputs.k
    if m < 2 or k < 2:
        raise ValueError(f"There are {m} heads and {k} tokens: with one of either every row agrees.")
    edges = np.array(sorted(tolerances))
    rng = random_generator(rng)
    left = -(-rows // k)
    counts, seen = np.zeros(len(edges), dtype=np.int64), 0
    while left > 0:
        n = min(left, batch_size(k, inputs.d))
        worst = disagreement(layer, inputs.sample(n, rng=rng)).ravel()
        counts += np.searchsorted(np.sort(worst), edges, side="right")
        seen += worst.size
        left -= n
    return AgreementLaw(tolerances=edges, counts=counts, rows=seen, exponent=(m - 1) * (k - 1))


def _repeated(x: np.ndarray) -> np.ndarray:
    (x,) = scaled_to_square(x)
    size = _lengths(x)
    repeated = np.zeros(len(x), dtype=bool)
    for a, b in combinations(range(x.shape[1]), 2):
        product = np.abs(np.einsum("nd,nd->n", x[:, a], x[:, b]))
        repeated |= product >= (1 - 1e-12) * size[:, a] * size[:, b]
    return repeated


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
