"""Attention layers with other patterns than softmax: patterns, their derivatives and their equations."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from attention.layer import contract, mix, softmax

__all__ = [
    "LogitEquation",
    "NormalisedPower",
    "NormalisedSigmoid",
    "Softmax",
    "Sparsemax",
    "WeightedLayer",
    "Weighting",
]

Rows = Float[np.ndarray, "*batch k"]
Entries = Float[np.ndarray, "*batch"]


class LogitEquation(NamedTuple):
    """The equation ``left z_b - right z_c = value`` of two entries p_b, p_c > 0 of a pattern."""

    left: np.ndarray
    right: np.ndarray
    value: np.ndarray


class Weighting:
    """A map from the logits of a row to a probability vector, the same for every row and head."""

    def pattern(self, logits: Rows) -> Rows:
        """The pattern of the logits along the last axis: entries of at least zero and of sum one."""
        raise NotImplementedError

    def vjp(self, logits: Rows, cotangent: Rows) -> Rows:
        """The derivative of <pattern(logits), cotangent> with respect to the logits."""
        raise NotImplementedError

    def equation(self, first: Entries, second: Entries) -> LogitEquation:
        """The linear equation that two positive entries of a pattern put on their logits; ValueError if none."""
        raise ValueError("The logits that share a pattern form no line: they have no linear equation.")


@dataclass(frozen=True)
class Softmax(Weighting):
    """p_b = exp(z_b) / sum_c exp(z_c)."""

    def pattern(self, logits: Rows) -> Rows:
        """The softmax over the last axis."""
        return softmax(logits, np)

    def vjp(self, logits: Rows, cotangent: Rows) -> Rows:
        """P * (u - <p, u>)."""
        p = self.pattern(logits)
        return p * _centred(p, cotangent)

    def equation(self, first: Entries, second: Entries) -> LogitEquation:
        """z_b - z_c = ln(p_b / p_c)."""
        one = np.ones_like(first)
        return LogitEquation(one, one, np.log(first / second))


@dataclass(frozen=True)
class Sparsemax(Weighting):
    """The Euclidean projection of the logits on the simplex: p_b = max(z_b - tau, 0), tau for a sum of 1.

    References
    ----------
    Martins and Astudillo, arXiv 1602.02068.

    Examples
    --------
    >>> import numpy as np
    >>> Sparsemax().pattern(np.array([0.5, 0.25, -3.0]))
    array([0.625, 0.375, 0.   ])
    """

    def pattern(self, logits: Rows) -> Rows:
        """The projection over the last axis, by sorting."""
        z = logits - logits.max(axis=-1, keepdims=True)
        # logits that are 1 or more below the largest are outside the support; clipping there keeps sums small
        z = np.maximum(z, -2.0)
        ordered = np.sort(z, axis=-1)[..., ::-1]
        inside = 1 + np.arange(1.0, z.shape[-1] + 1) * ordered > np.cumsum(ordered, axis=-1)
        total = np.sum(inside * ordered, axis=-1, keepdims=True)
        p = np.maximum(z - (total - 1) / inside.sum(axis=-1, keepdims=True), 0.0)
        return p / p.sum(axis=-1, keepdims=True)  # rounding

    def vjp(self, logits: Rows, cotangent: Rows) -> Rows:
        """On the support, u minus its mean over the support; zero elsewhere."""
        inside = (self.pattern(logits) > 0).astype(float)
        share = inside / inside.sum(axis=-1, keepdims=True)
        return inside * _centred(share, cotangent)

    def equation(self, first: Entries, second: Entries) -> LogitEquation:
        """z_b - z_c = p_b - p_c, both in the support."""
        one = np.ones_like(first)
        return LogitEquation(one, one, first - second)


@dataclass(frozen=True)
class NormalisedPower(Weighting):
    """p_b proportional to max(shift + z_b, 0)^power, or to abs(shift + z_b)^power with `magnitude`.

    If all weights are zero, the pattern is uniform and its derivative is defined as zero. Without a shift the pattern
    does not depend on the scale of the logits. The weights (1 + z/c)_+^c tend to exp(z) as c grows.
    """

    power: float = 2.0
    shift: float = 0.0
    magnitude: bool = False

    def pattern(self, logits: Rows) -> Rows:
        """The normalised weights over the last axis."""
        weights, _, total, _ = self._parts(logits)
        return weights / total

    def vjp(self, logits: Rows, cotangent: Rows) -> Rows:
        """g'(z) (u - <p, u>) / sum_c g(z_c), g the weight of a logit."""
        weights, base, total, unit = self._parts(logits)
        z, none = logits + self.shift, unit == 0
        # at a kink, the derivative of the flat side
        along = np.sign(z) if self.magnitude else (z > 0).astype(float)
        scale = np.where(none, 1.0, unit) * total
        slope = np.where(none, 0.0, self.power * base ** (self.power - 1) / scale * along)
        return slope * _centred(weights / total, cotangent)

    def equation(self, first: Entries, second: Entries) -> LogitEquation:
        """(shift + z_b) p_c^(1/power) = (shift + z_c) p_b^(1/power)."""
        if self.magnitude:  # the signs of the logits are open
            return super().equation(first, second)
        b, c = first ** (1 / self.power), second ** (1 / self.power)
        return LogitEquation(c, b, self.shift * (b - c))

    def _parts(self, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Weights and their bases over the largest base, the sum of the weights, and that base: 0 where all are."""
        z = logits + self.shift
        base = np.abs(z) if self.magnitude else np.maximum(z, 0.0)
        most = base.max(axis=-1, keepdims=True)
        none = most == 0
        # divided by the largest one, so that no power over- or underflows
        base = np.where(none, 1.0, base / np.where(none, 1.0, most))
        weights = base**self.power
        return weights, base, weights.sum(axis=-1, keepdims=True), most


@dataclass(frozen=True)
class NormalisedSigmoid(Weighting):
    """p_b proportional to 1 / (1 + exp(-z_b)); the logits that share a pattern form a curve."""

    def pattern(self, logits: Rows) -> Rows:
        """The normalised sigmoids over the last axis."""
        return softmax(_log_sigmoid(logits), np)

    def vjp(self, logits: Rows, cotangent: Rows) -> Rows:
        """P (1 - sigmoid(z)) (u - <p, u>)."""
        p = self.pattern(logits)
        return p * np.exp(_log_sigmoid(-logits)) * _centred(p, cotangent)


@dataclass(frozen=True, eq=False)
class WeightedLayer:
    """A multi-head attention layer with another weighting, F(X) = sum_i weighting(X Theta_i X^T) X W_i.

    Examples
    --------
    >>> import numpy as np
    >>> layer = WeightedLayer(theta=np.eye(2)[None], w=np.eye(2)[None], weighting=Sparsemax())
    >>> layer(np.array([[1.0, 0.5], [-1.0, 1.0]]))  # each token attends to itself alone
    array([[ 1. ,  0.5],
           [-1. ,  1. ]])
    """

    theta: Float[np.ndarray, "m d d"]
    w: Float[np.ndarray, "m d d"]
    weighting: Weighting

    @property
    def heads(self) -> int:
        """The number m of heads."""
        return len(self.theta)

    @property
    def dim(self) -> int:
        """The number d of coordinates of a token."""
        return self.theta.shape[1]

    def __call__(self, x: Float[np.ndarray, "*batch k d"]) -> Float[np.ndarray, "*batch k d"]:
        """The layer's output on the token matrices `x`."""
        read = mix(self.weighting.pattern(contract(x, self.theta, np)), x, np)
        return (read @ self.w.reshape(-1, self.dim)).reshape(x.shape)

    def logits(self, x: Float[np.ndarray, "*batch k d"]) -> Float[np.ndarray, "*batch m k k"]:
        """The attention logits x_a Theta_i x_b of every head."""
        return np.moveaxis(contract(x, self.theta, np), -2, -3)

    def patterns(self, x: Float[np.ndarray, "*batch k d"]) -> Float[np.ndarray, "*batch m k k"]:
        """The attention patterns of every head: rows are probability vectors over the tokens."""
        return self.weighting.pattern(self.logits(x))


def _centred(p: np.ndarray, cotangent: np.ndarray) -> np.ndarray:
    return cotangent - np.sum(p * cotangent, axis=-1, keepdims=True)


def _log_sigmoid(z: np.ndarray) -> np.ndarray:
    return -np.logaddexp(-z, 0.0)
