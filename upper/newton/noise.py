"""Noise: what a residual at its level looks like, how large it is, what a head is worth, and the verdict on a fit."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer
from attention.evaluation import EXACT_ERROR, HeldOut, one_of_each_orbit
from attention.layer import read_tokens
from upper.floor import LayerClass
from upper.newton.loop import Iterate


@dataclass(frozen=True)
class Noise:
    """When final iterates are at the level of the noise: wider bounds take local minima for noise, narrower ones no."""

    held_out_ratio: float = 1.2  #: for the random spread of the error on few held-out examples
    #: squared residuals of runs into one minimum differ by less than this times the share that fitting takes of squared
    #: noise, and never by more than the second
    apart: float = 0.1
    most_apart: float = 0.02
    #: no local minimum of a nice layer was seen below this residual; a smaller one is noise, such as inputs rounded to
    #: float32, which is larger on some examples than on others, so that wider bounds hold
    low: float = 1e-4
    low_held_out_ratio: float = 3.0
    low_apart: float = 0.5

    def same_residual(self, ends: Sequence[Iterate], *, share: float = 0.2, several: int = 2) -> bool:
        """Whether the `several` best final iterates have the same residual, as runs into the same minimum have."""
        best = sorted(end.residual for end in ends)
        if len(best) < several:
            return False
        low = best[several - 1] < self.low
        return best[several - 1] <= best[0] * math.sqrt(
            1 + (self.low_apart if low else min(self.most_apart, self.apart * share))
        )

    def at_level(self, end: Iterate, held_out: HeldOut, *, share: float) -> bool:
        """Whether held-out examples have the residual of the fitted ones, up to the reduction by fitting.

        For noise of variance 1, a fit has the squared residual 1 - `share` on fitted examples and 1 + excess on others.
        With many examples, the excess equals the share. At four counting floors, up to 3.3 times the share was
        measured.
        """
        ratio = self.held_out_ratio if end.residual > self.low else self.low_held_out_ratio
        return held_out.error(end.layer) < ratio * math.sqrt((1 + 4 * share) / (1 - share)) * end.residual


def noise_level(residual: float, y: Float[np.ndarray, "n k d"], share: float) -> float:
    """The standard deviation of the noise on an entry of a label, from the relative residual at the minimum.

    |Y - F(X)|^2 has expectation s^2 (n k d - p) there, to leading order in s.
    """
    return residual * float(np.linalg.norm(y)) / math.sqrt(y.size * (1 - share))


def depends_on_tokens(x: Float[np.ndarray, "n k d"], residual: Float[np.ndarray, "n k d"]) -> bool:
    """Whether the residual R = Y - F(X) is a function of the tokens, in part, and so not noise of the labels.

    Notes
    -----
    For features phi, the sum of <phi_i, phi_j> over pairs i != j of examples has the mean zero if the R_i are noise: a
    flip of the sign of each R_i leaves its distribution as it is, and gives the standard error (derived here). No fit
    is needed, so a few hundred examples tell, far fewer than fit one more head. The features are sum_a r_a for missing
    biases; X^T R; sum_a x_a ⊗ r_a ⊗ C with C the covariance of the tokens of an example, which is all that a head's
    output depends on to first order in its logits; and all x_a ⊗ r_a for a mask, whose rows see other tokens.
    O(n^2 d^2), from a limited number of examples, one of each orbit.
    """
    d = x.shape[2]
    first = one_of_each_orbit(x)[: min(1000, (1 << 25) // d**2)]
    x, residual = x[first], residual[first]
    centred = x - x.mean(axis=1, keepdims=True)
    covariance = np.matrix_transpose(centred) @ centred
    residual = residual / np.abs(residual).max(initial=1e-300)
    linear = inner_products(np.matrix_transpose(x) @ residual)
    parts = (
        inner_products(residual.sum(axis=1)),
        linear,
        linear * inner_products(covariance - covariance.mean(axis=0)),
        sum(inner_products(x[:, a]) * inner_products(residual[:, a]) for a in range(x.shape[1])),
    )
    # standard errors; a fit to noise takes of the last three: on 36 fits of at least three floors linear and cubic were
    # below -.6, on 24 the rows were below .9
    return any(u_statistic(part) > most for part, most in zip(parts, (4.0, 3.0, 3.0, 3.0), strict=True))


def u_statistic(products: Float[np.ndarray, "n n"]) -> float:
    """The sum of the products over pairs i != j, in standard errors under flips of signs; overwrites the diagonal."""
    np.fill_diagonal(products, 0.0)
    return float(products.sum()) / (math.sqrt(2 * float(np.sum(products**2))) or 1.0)


def inner_products(features: np.ndarray) -> Float[np.ndarray, "n n"]:
    """The inner products of the features of every two examples."""
    rows = features.reshape(len(features), -1)
    return rows @ rows.T


def needs_biases(
    x: Float[np.ndarray, "n k d"],
    biased: float,
    unbiased: float,
    *,
    heads: int,
    rank: int | None,
    tolerance: float,
) -> bool:
    """Whether examples need biases, from the relative residuals of the same heads fitted with them and without.

    Not if the heads alone reach the tolerance, and not if biases take less of the squared residual than Schwarz's
    criterion (BIC) asks for their number, log N units of white noise each for N labels. Where noise is rounding, such
    as to float32, it is not white: it gives biases up to a few hundredths, and they need a third.
    """
    noise, (_, k, d) = Noise(), x.shape
    if unbiased <= tolerance:
        return False
    if unbiased < noise.low:
        return unbiased**2 > (1 + noise.low_apart) * biased**2
    counts = [LayerClass(rank, biases).unknowns(heads, k, d) for biases in (True, False)]
    gained = x.size * 2 * math.log(unbiased / max(biased, EXACT_ERROR))
    return gained > (counts[0] - counts[1]) * math.log(x.size)


def cost_of_each_head(x: Float[np.ndarray, "n k d"], layer: AttentionLayer) -> Float[np.ndarray, " m"]:
    """The growth of the squared residual if a head is dropped and the other projections are refitted, for each head.

    `x` are the fitted examples, and the projections W_i are a least-squares fit. With Z = [P_1 X ... P_m X] and
    H = (Z^T Z)^-1, the growth is tr(W_i^T (H_ii)^-1 W_i), the Wald statistic of linear regression. It is zero for
    W_i = 0 and for Theta_i = Theta_j. With biases, Z has a column of ones. O(n k (m d)^2 + (m d)^3).
    """
    m, d, _ = layer.theta.shape
    _, read = read_tokens(x, layer.theta, layer.key_bias, causal=layer.causal)
    if layer.key_bias is not None:
        read = np.pad(read, ((0, 0), (0, 1)), constant_values=1.0)
    gram = read.T @ read
    # equal heads make it singular; with this ridge, the cost of each of them is zero up to rounding
    ridge = 1e-12 * np.trace(gram) / len(gram) or 1.0
    blocks = np.linalg.inv(gram + ridge * np.eye(len(gram)))[: m * d, : m * d].reshape(m, d, m, d)
    each = np.stack([blocks[i, :, i, :] for i in range(m)])
    return np.einsum("iab,iab->i", layer.w, np.linalg.solve(each, layer.w))


def no_worse(errors: Float[np.ndarray, " rows"], than: Float[np.ndarray, " rows"]) -> bool:
    """Whether the mean of `errors` is at most that of `than`, up to two standard errors of the difference.

    Examples
    --------
    >>> no_worse(np.array([1.0, 2.0, 3.0]), np.array([1.1, 1.9, 3.0]))
    True
    >>> no_worse(np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.6, 2.5]))
    False
    """
    exact = EXACT_ERROR**2
    if than.mean() < exact or not np.isfinite(errors).all():
        return bool(errors.mean() < exact)
    difference = errors - than
    spread = float(difference.std(ddof=1)) / math.sqrt(len(difference)) if len(difference) > 1 else 0.0
    return bool(difference.mean() <= 2 * spread)
