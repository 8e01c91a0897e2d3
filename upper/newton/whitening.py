"""Whitening: coordinates in which the tokens of a model are isotropic, on the subspace that they span."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer

# Newton whitens tokens if their largest spread is above this many times their smallest.
_ISOTROPIC = 10.0
# With fewer tokens than this many per coordinate, the variances of a sample are too uncertain to judge.
_TOKENS_PER_COORDINATE = 4


@dataclass(frozen=True, eq=False)
class Whitening:
    """Coordinates z of tokens, x = mean + z S with S = diag(spread) basis^T; the last d - r coordinates of z are 0.

    Parameters
    ----------
    mean : array (d,)
        The mean of the tokens; zero if layers have no biases, since a mean needs them.
    basis : array (d, r)
        Orthonormal directions, which the tokens span.
    spread : array (r,)
        The standard deviation of the tokens along each direction, in descending order.

    Notes
    -----
    A layer becomes a layer of the same class, of the same rank:

        Theta' = S Theta S^T,  W' = S W,  c' = S (c + Theta^T mean),  b' = b + mean (W_1 + ... + W_m)

    since what is equal along a row of logits cancels. The way back takes the pseudo-inverse of S. It gives the
    parameters on the span and zero across it, which the tokens do not determine.
    """

    mean: Float[np.ndarray, " d"]
    basis: Float[np.ndarray, "d r"]
    spread: Float[np.ndarray, " r"]

    @property
    def rank(self) -> int:
        """The number r of directions that the tokens span."""
        return len(self.spread)

    def __call__(self, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k d"]:
        """The coordinates z of tokens; equal tokens get equal coordinates, to the last bit."""
        rows, place = np.unique(x.reshape(-1, x.shape[-1]), axis=0, return_inverse=True)
        return ((rows - self.mean) @ self._inverse)[place.ravel()].reshape(x.shape)

    def restore(self, z: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k d"]:
        """The tokens of these coordinates."""
        return self.mean + z @ self._padded(self.spread * self.basis).T

    def into(self, layer: AttentionLayer) -> AttentionLayer:
        """The layer that does on coordinates z what `layer` does on tokens x."""
        forward, moved = self._padded(self.spread * self.basis).T, np.any(self.mean)
        key_bias, bias = layer.key_bias, layer.bias
        if moved:
            key_bias = self._constant(layer.theta) + (0 if key_bias is None else key_bias)
            bias = self._constant(layer.w).sum(axis=0) + (0 if bias is None else bias)
        return AttentionLayer(
            forward @ layer.theta @ forward.T,
            forward @ layer.w,
            None if key_bias is None else key_bias @ forward.T,
            bias,
            layer.causal,
        )

    def back(self, layer: AttentionLayer) -> AttentionLayer:
        """The layer on tokens x that `layer` is on coordinates z, zero across the span."""
        inverse, moved = self._inverse, np.any(self.mean)
        theta, w = inverse @ layer.theta @ inverse.T, inverse @ layer.w
        key_bias = None if layer.key_bias is None else layer.key_bias @ inverse.T
        bias = layer.bias
        if moved:
            key_bias = (0 if key_bias is None else key_bias) - self._constant(theta)
            bias = (0 if bias is None else bias) - self._constant(w).sum(axis=0)
        return AttentionLayer(theta, w, key_bias, bias, layer.causal)

    @property
    def _inverse(self) -> Float[np.ndarray, "d d"]:
        return self._padded(self.basis / self.spread)

    def _padded(self, columns: np.ndarray) -> Float[np.ndarray, "d d"]:
        return np.pad(columns, ((0, 0), (0, len(columns) - self.rank)))

    def _constant(self, matrices: Float[np.ndarray, "m d d"]) -> Float[np.ndarray, "m d"]:
        """What the mean gives through each matrix, which no longer depends on the token."""
        return np.einsum("a,mab->mb", self.mean, matrices)


def whitening_of(x: Float[np.ndarray, "n k d"], *, centred: bool) -> Whitening:
    """The whitening of tokens, about their mean if `centred` and else about zero.

    Directions are spanned if their spread is above the share eps^(5/6) of the largest: 1.7e-6 if all entries are
    numbers of float32, and else 9e-14. From a QR factorisation, O(n k d^2). A ValueError if all tokens are equal to the
    mean, or zero.
    """
    rows = x.reshape(-1, x.shape[-1]).astype(np.float64)
    with np.errstate(over="ignore"):
        single = bool((rows == rows.astype(np.float32)).all())
    least = float(np.finfo(np.float32 if single else np.float64).eps) ** (5 / 6)
    unit = float(np.abs(rows).max()) or 1.0  # so that no square over- or underflows
    rows /= unit
    mean = rows.mean(axis=0) if centred else np.zeros(rows.shape[1])
    values, directions = np.linalg.svd(np.linalg.qr(rows - mean, mode="r"), full_matrices=False)[1:]
    # a mean that dominates leaves its rounding in the differences
    largest = max(float(values[0]), float(np.linalg.norm(mean)) * np.sqrt(len(rows)))
    rank = int(np.sum(values > least * largest))
    if rank == 0:
        raise ValueError("All tokens are equal: they determine nothing of an attention layer.")
    return Whitening(unit * mean, directions[:rank].T, values[:rank] * (unit / np.sqrt(len(rows))))


def needed_whitening(x: Float[np.ndarray, "n k d"], *, centred: bool) -> Whitening | None:
    """The whitening of tokens that are far from isotropic; None if they are not, or too few to tell."""
    n, k, d = x.shape
    if n * k < _TOKENS_PER_COORDINATE * d or (x == x[:1, :1]).all():
        return None
    whitening = whitening_of(x, centred=centred)
    narrow = whitening.rank < d or whitening.spread[0] > _ISOTROPIC * whitening.spread[-1]
    return whitening if narrow else None
