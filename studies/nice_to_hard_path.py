"""A path from a nice random layer to one that hides a parity, and what is known without the secret."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from scipy.special import comb, expit

from attention import AttentionLayer, make_nice_layer
from attention.generators import make_low_rank_layer
from lower import Heads
from sq import parity_heads
from sq.parities import heads_needed

__all__ = ["STEEPEST", "ParityPath", "PathPoint", "draw_path"]

STEEPEST = 8.0
"""The factor on the slopes of all heads at s = 1."""
_GATE = 0
_SIGMA = 2.0  # standard deviation of the logits of the nice end


@dataclass(frozen=True, eq=False)
class ParityPath:
    """Layers between a nice one and the minimal parity (construction D of `sq.parity_heads`) of a secret set.

    Attributes
    ----------
    nice : AttentionLayer
        The end at t = 0, s = 0.
    secret : array of int (l,)
        The coordinates of the parity, none of them the gate, which is 0.

    Notes
    -----
    With N_i and A_i the nice Theta_i and W_i, sigma = 2 the standard deviation of the nice logits, H_i the parity's
    Theta_i at s = 0, eta_i its norm and E = e_0 e_0^T,

        Theta_i = f sigma^(1-a) eta_i^a [(1-a) N_i / sigma + a H_i / eta_i] / hypot(1-a, a),
        W_i = d^((1-b)/2) |c_i|^b [(1-b) A_i / sqrt(d) + b sign(c_i) E] / hypot(1-b, b).

    The norms of N_i and A_i are sigma and sqrt(d) on average. So directions move on a straight line and norms move
    geometrically: shape and slope vary independently. All slopes are multiplied by f = `STEEPEST` ** s, and the c_i
    solve the parity's equations at those slopes: at a = b = 1 the layer is an exact parity for every s. For a < 1 the
    matrices Theta_i have full rank; their stable rank falls, and the heads become parallel.

    References
    ----------
    Derived here.
    """

    nice: AttentionLayer
    secret: Int[np.ndarray, " l"]

    @property
    def dim(self) -> int:
        """The dimension d."""
        return self.nice.dim

    @cached_property
    def parity(self) -> Heads:
        """The heads of the parity at s = 0."""
        return parity_heads("D", bits=len(self.secret))

    def point(
        self, shape: float = 0.0, slope: float = 0.0, *, projections: float | None = None
    ) -> "PathPoint":
        """The point of shape t = a = b and slope s, from 0 to 1; `projections`, if given, is b, and `shape` a."""
        b = shape if projections is None else projections
        return PathPoint(self, attention=shape, projections=b, factor=STEEPEST**slope)


@dataclass(frozen=True, eq=False)
class PathPoint:
    """A layer of a path, and what is known of it without the secret.

    Attributes
    ----------
    path : ParityPath
        The path.
    attention, projections : float
        The shares a and b.
    factor : float
        The factor f on the slopes.
    """

    path: ParityPath
    attention: float
    projections: float
    factor: float

    @cached_property
    def heads(self) -> Heads:
        """The heads of the parity at this slope."""
        slopes = (self.factor * self.path.parity.slopes).tolist()
        return parity_heads("D", bits=len(self.path.secret), slopes=slopes)

    @cached_property
    def layer(self) -> AttentionLayer:
        """The layer."""
        hard = self.path.parity.placed(self.path.secret, dim=self.path.dim, gate=_GATE).layer()
        return AttentionLayer(theta=self._generic_theta + _heads(self._steepness) * hard.theta, w=self._w)

    def by_count(self, x: Float[np.ndarray, "n 2 d"]) -> Float[np.ndarray, "counts n 2 d"]:
        """The layer's output if the tokens differ in N = 0, ..., l of the secret coordinates.

        Notes
        -----
        The secret enters only by that number N: a row's logits differ by x_a G (x_a - x_b) + 2 beta (N - t [gate]).
        """
        gap = x - x[:, ::-1]
        generic = np.einsum("nrd,mde,nre->mnr", x, self._generic_theta, gap, optimize=True)
        gate = np.asarray(gap[:, 0, _GATE] != 0, dtype=float)[:, None]
        outputs = []
        for number in range(len(self.path.secret) + 1):
            threshold = self.path.parity.thresholds[:, None, None] * gate
            logit = generic + 2 * _heads(self._steepness * self.path.parity.slopes) * (number - threshold)
            # p x_a + (1 - p) x_b
            read = x[:, ::-1] + expit(logit)[..., None] * gap
            outputs.append(np.einsum("mnrd,mde->nre", read, self._w, optimize=True))
        return np.stack(outputs)

    def known(self, x: Float[np.ndarray, "n 2 d"]) -> Float[np.ndarray, "n 2 d"]:
        """The known part without the secret: the mean over all secrets, given everything else; exact.

        Notes
        -----
        Over secrets N is hypergeometric given the number of coordinates in which the tokens differ. At a = b = 1 it is
        the known part of the parity plus the mean of all parities, whose norm is 1 / sqrt(C(d - 1, l)). At a = 0 the
        layer has no secret. The known part is then the mean over nice layers: heads attend evenly, and only the part
        of W_i along E remains.
        """
        if self.attention == 0:
            mean = np.broadcast_to(x.mean(axis=1, keepdims=True), x.shape)
            return np.asarray(mean @ self._hard_w.sum(axis=0))
        return np.asarray(np.einsum("cn,cnrd->nrd", self._chances(x), self.by_count(x)))

    def visible_share(self, x: Float[np.ndarray, "n 2 d"]) -> float | None:
        """The share of the secret part's energy that is linear in N, given the rest of X; None without a secret.

        Notes
        -----
        This share reveals one coordinate of the secret at a time. It is 1 for heads that are nearly linear. For the
        parity it is small, but not zero, because the number of differing coordinates is given.
        """
        if self.attention == 0:
            return None
        chances, outputs = self._chances(x), self.by_count(x)
        number = np.arange(len(chances))[:, None]
        centred = number - (chances * number).sum(axis=0)
        variance = (chances * centred**2).sum(axis=0)
        covariance = np.einsum("cn,cnrd->nrd", chances * centred, outputs)
        seen = (covariance**2).sum(axis=(1, 2)) / np.where(variance > 0, variance, 1.0)
        hidden = outputs - np.einsum("cn,cnrd->nrd", chances, outputs)
        return float(seen.sum() / np.einsum("cn,cnrd->", chances, hidden**2))

    def _chances(self, x: Float[np.ndarray, "n 2 d"]) -> Float[np.ndarray, "counts n"]:
        """The law of N over secrets."""
        others, bits = self.path.dim - 1, len(self.path.secret)
        differ = np.delete(x[:, 0] != x[:, 1], _GATE, axis=1).sum(axis=1)
        number = np.arange(bits + 1)[:, None]
        chances = comb(differ, number) * comb(others - differ, bits - number) / comb(others, bits)
        return np.asarray(chances)

    @cached_property
    def _norms(self) -> Float[np.ndarray, " m"]:
        """The norms eta of the parity's attention matrices at s = 0."""
        parity = self.path.parity
        return np.asarray(parity.slopes * np.sqrt(len(self.path.secret) + parity.thresholds**2))

    @cached_property
    def _scale(self) -> Float[np.ndarray, " m"]:
        a = self.attention
        scale = self.factor * _SIGMA ** (1 - a) * self._norms**a / np.hypot(1 - a, a)
        return np.asarray(scale)

    @cached_property
    def _steepness(self) -> Float[np.ndarray, " m"]:
        """The factor on each H_i."""
        return np.asarray(self._scale * self.attention / self._norms)

    @cached_property
    def _generic_theta(self) -> Float[np.ndarray, "m d d"]:
        share = self._scale * ((1 - self.attention) / _SIGMA)
        return np.asarray(_heads(share) * self.path.nice.theta)

    @cached_property
    def _w_scale(self) -> Float[np.ndarray, " m"]:
        b = self.projections
        root = np.sqrt(self.path.dim)
        return np.asarray(root ** (1 - b) * np.abs(self.heads.coefficients) ** b / np.hypot(1 - b, b))

    @cached_property
    def _hard_w(self) -> Float[np.ndarray, "m d d"]:
        hard = np.zeros((len(self.heads), self.path.dim, self.path.dim))
        hard[:, _GATE, _GATE] = self._w_scale * self.projections * np.sign(self.heads.coefficients)
        return hard

    @cached_property
    def _w(self) -> Float[np.ndarray, "m d d"]:
        share = self._w_scale * ((1 - self.projections) / np.sqrt(self.path.dim))
        return np.asarray(_heads(share) * self.path.nice.w + self._hard_w)


def draw_path(*, dim: int, bits: int, low_rank: bool = False, rng: np.random.Generator) -> ParityPath:
    """Draw a nice end and a secret set with the given number of bits; O(m d^2).

    Parameters
    ----------
    dim, bits : int
        The dimension d and the number l of hidden bits; the number of heads is the smallest that hides l bits.
    low_rank : bool
        Whether the nice end has the parity's ranks, l + 1 in Theta_i and 1 in W_i, in random directions.
    rng : numpy.random.Generator
        Draws both.
    """
    heads = heads_needed("D", bits)
    secret = np.sort(1 + rng.choice(dim - 1, size=bits, replace=False))
    if low_rank:
        nice = make_low_rank_layer(heads=heads, dim=dim, rank=bits + 1, w_rank=1, sigma=_SIGMA, rng=rng)
    else:
        nice = make_nice_layer(heads=heads, dim=dim, sigma=_SIGMA, rng=rng)
    return ParityPath(nice, secret)


def _heads(numbers: Float[np.ndarray, " m"]) -> Float[np.ndarray, "m 1 1"]:
    """A number a head, to multiply matrices with."""
    return numbers[:, None, None]
