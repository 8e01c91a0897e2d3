"""A certificate: which directions of the parameters of a layer do examples determine, head by head?"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer
from attention.layer import read_tokens
from attention.memory import require_memory
from attention.validation import PositiveFloat, PositiveInt, checked
from upper.newton.whitening import Whitening, whitening_of

__all__ = ["LayerCertificate", "certify_layer"]

# Examples whose derivatives are held at once.
_AT_ONCE = 128
# Singular values of a head above this share of its largest make its rank.
_RANK_SHARE = 1e-9
# Singular values below these shares, of the derivative before the best change of W is taken off, and of the W_i and b,
# are rounding.
_ROUNDED, _CANCELLED = 1e-7, 1e-13
# A head takes part in an unseen direction if its share of the unit vector is above this.
_TAKES_PART = 1e-3


@dataclass(frozen=True, eq=False)
class LayerCertificate:
    """What examples determine of a layer, to first order at the layer itself, in whitened coordinates.

    Attributes
    ----------
    whitening : Whitening
        The coordinates, and the r directions that the tokens span; nothing is determined across them.
    free : list of int
        For each head, the number of directions in which Theta_i and c_i can change: e r, where e = r + 1 with biases
        and else r; or q (e + r - q) for heads of a known rank q.
    theta_values : array (sum of free,)
        Singular values, descending, of the derivative of the outputs in the Theta_i and c_i, along these directions,
        after the best change of the W_i and b is taken off.
    w_values : array (m r,) or (m r + 1,)
        Singular values of the regression of the outputs on what the heads read: of the W_i, and of b with biases.
    theta_unseen, w_unseen : list of array (e r, u_i) and (r, v_i)
        For each head, orthonormal directions of (Theta_i, c_i), and of the columns of W_i, that can change, alone or
        together with others, while the outputs on these tokens stay the same.
    tolerance : float
        A direction is determined if its singular value is above this share of the largest.
    """

    whitening: Whitening
    free: list[int]
    theta_values: Float[np.ndarray, " p"]
    w_values: Float[np.ndarray, " q"]
    theta_unseen: list[np.ndarray]
    w_unseen: list[np.ndarray]
    tolerance: float

    @property
    def theta(self) -> list[int]:
        """For each head, the number of directions of Theta_i and c_i that are determined."""
        return [free - unseen.shape[1] for free, unseen in zip(self.free, self.theta_unseen, strict=True)]

    @property
    def w(self) -> list[int]:
        """For each head, the number of directions of the columns of W_i that are determined."""
        return [len(unseen) - unseen.shape[1] for unseen in self.w_unseen]

    @property
    def determined(self) -> bool:
        """Whether every direction on the span of the tokens is determined, for all heads."""
        return not any(unseen.size for unseen in (*self.theta_unseen, *self.w_unseen))

    def project(self, layer: AttentionLayer) -> AttentionLayer:
        """What the examples determine of a layer with the same heads in the same order; the rest is zero.

        Two layers with these outputs agree in it, to first order. Compare a fitted layer with a known one so.
        """
        r = self.whitening.rank
        needed = len(self.w_unseen), len(self.whitening.mean)
        if (layer.heads, layer.dim) != needed:
            raise ValueError(
                f"The layer has {layer.heads} heads in {layer.dim} dimensions: {needed[0]} in {needed[1]} are needed."
            )
        here = self.whitening.into(layer)
        theta, w = np.zeros_like(here.theta), np.zeros_like(here.w)
        key_bias = None if here.key_bias is None else np.zeros_like(here.key_bias)
        for i, (of_theta, of_w) in enumerate(zip(self.theta_unseen, self.w_unseen, strict=True)):
            rows = [here.theta[i, :r, :r]]
            if len(of_theta) > r * r:
                rows.append(np.zeros((1, r)) if here.key_bias is None else here.key_bias[i : i + 1, :r])
            flat = np.concatenate(rows).ravel()
            kept = (flat - of_theta @ (of_theta.T @ flat)).reshape(-1, r)
            theta[i, :r, :r], columns = kept[:r], here.w[i, :r]
            w[i, :r] = columns - of_w @ (of_w.T @ columns)
            if key_bias is not None and len(kept) > r:
                key_bias[i, :r] = kept[r]
        return self.whitening.back(AttentionLayer(theta, w, key_bias, here.bias, here.causal))

    def __str__(self) -> str:
        r, d = self.whitening.rank, len(self.whitening.mean)
        spread = self.whitening.spread
        lines = [
            f"The tokens span {r} of {d} directions; along these, their spread is {spread[0]:.3g} to {spread[-1]:.3g}."
        ]
        for i, (theta, w) in enumerate(zip(self.theta, self.w, strict=True)):
            lines.append(
                f"Head {i}: {theta} of {self.free[i]} directions of Theta and c are determined, {w} of {r} of W."
            )
        for name, values in (("Theta and c", self.theta_values), ("W and b", self.w_values)):
            lines.append(f"Singular values for {name}: {values[0]:.3g} to {values[-1]:.3g}.")
        if not self.determined and self.free == [len(unseen) for unseen in self.theta_unseen]:
            lines.append(
                "Some directions are not determined if heads may have full rank; with a lower rank, they may be."
            )
        return "\n".join(lines)


@checked
def certify_layer(
    layer: AttentionLayer,
    x: Float[np.ndarray, "n k d"],
    *,
    rank: PositiveInt | None = None,
    tolerance: PositiveFloat = 1e-6,
) -> LayerCertificate:
    """Which directions of the parameters of `layer` its outputs on the tokens `x` determine.

    Parameters
    ----------
    layer : AttentionLayer
        The layer at which the derivative is taken, such as one that was learned. If it has biases, these are unknown.
    x : array (n, k, d)
        Tokens.
    rank : int, optional
        The rank q of every Theta_i, if it is known to be low, as in `Newton`. Fewer examples then determine Theta_i
        and c_i.
    tolerance : float
        Singular values below this share of the largest count as zero. Errors of outputs may grow by its inverse.

    Raises
    ------
    ValueError
        If shapes do not match, or all tokens are equal.
    NotEnoughMemoryError
        If the square matrix of m r e unknowns does not fit.

    Notes
    -----
    Derived here. F is linear in the W_i and b: F = Z W with Z = [P_1 X ... P_m X 1], so `w_values` are those of Z, over
    the square root of its rows. To first order, a change of Theta_i moves F_a by z_a dTheta_i M_a with
    M_a = sum_b P_ab (z_b - mean) V_b across the pattern, V = X W_i. The part that a change of W and b can undo is taken
    off by an orthonormal basis of the range of Z. Singular values are roots of eigenvalues of the products' matrix. So
    values below 1e-7 of the derivative without that change are rounding, and count as zero.

    With a known rank q, [Theta_i; c_i^T] is a matrix of rank q, and changes along the manifold of these matrices:
    U U^T D + D V V^T - U U^T D V V^T for its singular vectors U and V. A head of lower rank than q is at no smooth
    point of the manifold, and all its directions count, as without a rank. The W_i are free in both cases, so a
    known rank of the W_i may determine more than the certificate says, never less.

    Time
    O(n k (m r)^2 (e^2 + e d)) + O((m r e)^3), and n k m r (d + m r) + 4 (m r e)^2 numbers.

    Examples
    --------
    >>> from attention import make_nice_layer
    >>> x = np.random.default_rng(0).standard_normal((200, 3, 4))
    >>> x[:, :, 3] = x[:, :, 0]
    >>> certificate = certify_layer(make_nice_layer(heads=1, dim=4, rng=1), x)
    >>> certificate.whitening.rank, certificate.theta, certificate.w
    (3, [9], [3])
    """
    if layer.dim != x.shape[2]:
        raise ValueError(f"x has {x.shape[2]} coordinates: {layer.dim}, those of the layer, are needed.")
    biased, m = layer.biased, layer.heads
    whitening = whitening_of(x, centred=biased)
    r, (n, k, d) = whitening.rank, x.shape
    e = r + biased
    require_memory(
        f"A certificate of {m} heads on {r} directions of tokens",
        8 * (4 * (m * r * e) ** 2 + n * k * (m * r + 1) + _AT_ONCE * k * (m * r) * (m * r + d)),
        advice="certify fewer heads, or tokens cut to fewer coordinates",
    )
    here, z = whitening.into(layer), whitening(x)[:, :, :r]
    key_bias = None if here.key_bias is None else here.key_bias[:, :r]
    pattern, reads = read_tokens(z, here.theta[:, :r, :r], key_bias, causal=here.causal)
    if biased:
        reads = np.concatenate([reads, np.ones((n * k, 1))], axis=1)
    basis, w_values, w_vectors = np.linalg.svd(reads / np.sqrt(n * k), full_matrices=False)
    least = tolerance * float(w_values[0])
    kept = int(np.sum(w_values > least))
    basis, w_null = basis[:, :kept], np.linalg.svd(w_vectors[:kept])[2][kept:].T
    whole, undone = _derivative(z, pattern, here.w[:, :r], basis, biased)
    size = np.linalg.norm(here.w[:, :r]) + (0.0 if here.bias is None else np.linalg.norm(here.bias))
    rounding = max(_ROUNDED * np.sqrt(np.trace(whole)), _CANCELLED * size)
    gram = whole - undone.T @ undone
    heads = here.theta[:, :r, :r]
    heads = heads if key_bias is None else np.concatenate([heads, key_bias[:, None]], axis=1)
    directions = [_directions(np.pad(one, ((0, e - len(one)), (0, 0))), rank) for one in heads]
    free, parts = [one.shape[1] for one in directions], range(0, m * e * r, e * r)
    rows = np.vstack([one.T @ gram[i : i + e * r] for one, i in zip(directions, parts, strict=True)])
    gram = np.hstack([rows[:, i : i + e * r] @ one for one, i in zip(directions, parts, strict=True)])
    values, vectors = np.linalg.eigh(gram)
    theta_values = np.sqrt(np.maximum(values, 0.0))
    theta_null = vectors[:, theta_values <= max(tolerance * theta_values[-1], rounding)]
    of_heads = np.split(theta_null, np.cumsum(free)[:-1])
    theta_unseen = [one @ null for one, null in zip(directions, of_heads, strict=True)]
    # the W that undo what changes of the Theta do to the outputs are not determined either
    undoing = (undone @ np.vstack(theta_unseen)).reshape(kept, d * theta_null.shape[1])
    undoing = w_vectors[:kept].T @ (undoing / w_values[:kept, None])
    w_null = np.hstack([w_null, undoing])
    return LayerCertificate(
        whitening=whitening,
        free=free,
        theta_values=theta_values[::-1],
        w_values=w_values,
        theta_unseen=[_range(one) for one in theta_unseen],
        w_unseen=[_range(w_null[i * r : (i + 1) * r]) for i in range(m)],
        tolerance=tolerance,
    )


def _derivative(
    z: Float[np.ndarray, "n k r"],
    pattern: Float[np.ndarray, "n k m k"],
    w: Float[np.ndarray, "m r d"],
    basis: Float[np.ndarray, "rows q"],
    biased: bool,
) -> tuple[Float[np.ndarray, "mer mer"], Float[np.ndarray, "qd mer"]]:
    """J^T J and Q^T J, J the derivative of the outputs in (Theta_i, c_i) over the root of their number, heads first.

    Q is the basis.
    """
    (n, k, r), (m, _, d), q = z.shape, w.shape, basis.shape[1]
    e = r + biased
    whole = np.zeros((e * e, (m * r) ** 2))
    seen = np.zeros((q * e, m * r * d))
    for first in range(0, n, _AT_ONCE):
        few = slice(first, first + _AT_ONCE)
        tokens, p = z[few], pattern[few]
        values = np.einsum("nbr,mrd->nmbd", tokens, w)
        own = np.einsum("namb,nbr->namr", p, tokens)
        by_head = p.transpose(0, 2, 1, 3)  # (n, m, k, k)
        mean = by_head @ values
        # sum_b P_ab z_bq V_bo, and the product of the means taken off
        product = np.einsum("nbr,nmbd->nmbrd", tokens, values).reshape(len(tokens), m, k, r * d)
        moved = (by_head @ product).reshape(len(tokens), m, k, r, d)
        moved -= own.transpose(0, 2, 1, 3)[..., None] * mean[..., None, :]
        moved = moved.transpose(0, 2, 1, 3, 4).reshape(-1, m * r, d)
        left = tokens.reshape(-1, r)
        left = np.pad(left, ((0, 0), (0, 1)), constant_values=1.0) if biased else left
        inner = (moved @ moved.transpose(0, 2, 1)).reshape(len(left), -1)
        whole += (left[:, :, None] * left[:, None, :]).reshape(len(left), -1).T @ inner
        rows = basis[first * k : first * k + len(left)]
        seen += (rows[:, :, None] * left[:, None, :]).reshape(len(left), -1).T @ moved.reshape(len(left), -1)
    size = m * e * r
    gram = whole.reshape(e, e, m, r, m, r).transpose(2, 0, 3, 4, 1, 5).reshape(size, size)
    seen = seen.reshape(q, e, m, r, d).transpose(0, 4, 2, 1, 3).reshape(q * d, size)
    return gram / (n * k), seen / np.sqrt(n * k)


def _directions(matrix: Float[np.ndarray, "e r"], rank: int | None) -> Float[np.ndarray, "er free"]:
    """Orthonormal directions in which a matrix can change among those of its rank; all if it has another rank."""
    left, values, right = np.linalg.svd(matrix)
    if rank is None or rank >= len(right) or np.sum(values > _RANK_SHARE * values[0]) != rank:
        return np.eye(matrix.size)
    along = np.ones((len(left), len(right)), dtype=bool)
    along[rank:, rank:] = False
    return np.kron(left, right.T)[:, along.ravel()]


def _range(block: Float[np.ndarray, "p u"]) -> Float[np.ndarray, "p v"]:
    """Orthonormal directions that the columns of a block of a null space span."""
    left, values, _ = np.linalg.svd(block, full_matrices=False)
    return left[:, values > _TAKES_PART]
