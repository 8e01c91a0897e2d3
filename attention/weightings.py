"""Attention weightings in place of the exponential: from logits to patterns, and back along the derivative."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Shaped

from attention._arrays import as_floating, namespace
from attention._kernels import below_largest, contract, derivative, in_type, mix, softmax, wide
from attention.layer import AttentionLayer, require_no_overflow
from attention.validation import non_negative, require_finite, require_flag

__all__ = [
    "LogitEquation",
    "NormalisedPower",
    "NormalisedSigmoid",
    "Softmax",
    "Sparsemax",
    "WeightedLayer",
    "Weighting",
]


class LogitEquation(NamedTuple):
    """What two entries p_b, p_c > 0 of a known pattern say about their logits: ``left z_b - right z_c = value``."""

    left: Shaped[Any, "*batch"]
    right: Shaped[Any, "*batch"]
    value: Shaped[Any, "*batch"]


@runtime_checkable
class Weighting(Protocol):
    """A map from the logits of a row to a probability vector, the same for every row and head."""

    def pattern(self, logits: Shaped[Any, "*batch k"]) -> Shaped[Any, "*batch k"]:
        """The pattern of the logits along the last axis: entries of at least zero and of sum one."""

    def vjp(
        self, logits: Shaped[Any, "*batch k"], cotangent: Shaped[Any, "*batch k"]
    ) -> Shaped[Any, "*batch k"]:
        """The derivative of <pattern(logits), cotangent> with respect to the logits."""

    def equation(self, first: Shaped[Any, "*batch"], second: Shaped[Any, "*batch"]) -> LogitEquation:
        """The linear equation that two positive entries of a pattern put on their logits."""


@dataclass(frozen=True)
class Softmax:
    """p_b = exp(z_b / T) / sum_c exp(z_c / T).

    Parameters
    ----------
    temperature : float
        T; the layer is that of Theta / T at temperature 1.

    Examples
    --------
    >>> import numpy as np
    >>> Softmax().pattern(np.array([0.0, np.log(3.0)]))
    array([0.25, 0.75])
    """

    temperature: float = 1.0

    def __post_init__(self) -> None:
        _positive(self, "temperature")

    def pattern(self, logits: Shaped[Any, "*batch k"]) -> Shaped[Any, "*batch k"]:
        """The softmax over the last axis, stable for finite logits."""
        logits, xp = _checked(logits)
        return in_type(softmax(below_largest(logits, self.temperature, xp), xp), logits.dtype, xp)

    def vjp(
        self, logits: Shaped[Any, "*batch k"], cotangent: Shaped[Any, "*batch k"]
    ) -> Shaped[Any, "*batch k"]:
        """P * (u - <p, u>) / T."""
        logits, cotangent, dtype, xp = _checked_both(logits, cotangent, self.temperature)
        p = self.pattern(logits)
        return derivative(lambda: p * _centred(p, cotangent, xp) / self.temperature, dtype, xp)

    def equation(self, first: Shaped[Any, "*batch"], second: Shaped[Any, "*batch"]) -> LogitEquation:
        """z_b - z_c = T ln(p_b / p_c)."""
        xp = namespace(first, second)
        one = xp.ones_like(first)
        return LogitEquation(one, one, self.temperature * xp.log(first / second))


@dataclass(frozen=True)
class Sparsemax:
    """The Euclidean projection of the logits z / T on the simplex: p_b = max(z_b / T - tau, 0), tau for a sum of 1.

    Parameters
    ----------
    temperature : float
        T; the layer is that of Theta / T at temperature 1.

    Notes
    -----
    By sorting, O(k log k) a row. The pattern is piecewise linear in the logits; where an entry is just about to leave
    the support the derivative is one of the two one-sided ones.

    References
    ----------
    Martins and Astudillo, arXiv 1602.02068.

    Examples
    --------
    >>> import numpy as np
    >>> Sparsemax().pattern(np.array([0.5, 0.25, -3.0]))
    array([0.625, 0.375, 0.   ])
    """

    temperature: float = 1.0

    def __post_init__(self) -> None:
        _positive(self, "temperature")

    def pattern(self, logits: Shaped[Any, "*batch k"]) -> Shaped[Any, "*batch k"]:
        """The projection over the last axis."""
        logits, xp = _checked(logits)
        z = below_largest(logits, self.temperature, xp)
        # what is 1 or more below the largest is never in the support: cut off there, sums stay small
        z = xp.maximum(z, xp.full_like(z, -2.0))
        ordered = xp.sort(z, axis=-1, descending=True)
        sums = xp.cumulative_sum(ordered, axis=-1)
        places = xp.arange(1, z.shape[-1] + 1, dtype=z.dtype)
        inside = xp.astype(1 + places * ordered > sums, z.dtype)
        size = xp.sum(inside, axis=-1, keepdims=True)
        tau = (xp.sum(inside * ordered, axis=-1, keepdims=True) - 1) / size
        p = xp.maximum(z - tau, xp.zeros_like(z))
        p = p / xp.sum(p, axis=-1, keepdims=True)  # to the last digit
        return in_type(p, logits.dtype, xp)

    def vjp(
        self, logits: Shaped[Any, "*batch k"], cotangent: Shaped[Any, "*batch k"]
    ) -> Shaped[Any, "*batch k"]:
        """U less its mean over the support, on the support; zero off it."""
        logits, cotangent, dtype, xp = _checked_both(logits, cotangent, self.temperature)
        inside = xp.astype(self.pattern(logits) > 0, cotangent.dtype)
        share = inside / xp.sum(inside, axis=-1, keepdims=True)
        return derivative(lambda: inside * _centred(share, cotangent, xp) / self.temperature, dtype, xp)

    def equation(self, first: Shaped[Any, "*batch"], second: Shaped[Any, "*batch"]) -> LogitEquation:
        """z_b - z_c = T (p_b - p_c), both in the support."""
        one = namespace(first, second).ones_like(first)
        return LogitEquation(one, one, self.temperature * (first - second))


@dataclass(frozen=True)
class NormalisedPower:
    """p_b proportional to max(shift + z_b, 0)^power, or to abs(shift + z_b)^power with `magnitude`.

    Parameters
    ----------
    power : float
        At least 1, so that the derivative is finite.
    shift : float
        At least 0; with 0 the pattern does not change when all logits are multiplied by a positive number.
    magnitude : bool
        Whether the absolute value is taken instead of the positive part.

    Notes
    -----
    Where all weights are zero the pattern is uniform, and its derivative is taken to be zero: the pattern jumps there,
    unlike any of the others. With power = shift = c the weights (1 + z/c)_+^c tend to exp(z) as c grows.
    Without `magnitude` the logits that share a pattern are a ray, so equations hold for all of them: homogeneous ones
    without a shift. With it they are one of up to 2^k rays, and there is none.

    Examples
    --------
    >>> import numpy as np
    >>> NormalisedPower(power=1.0).pattern(np.array([[3.0, 1.0, -2.0], [-1.0, -1.0, -1.0]]))
    array([[0.75      , 0.25      , 0.        ],
           [0.33333333, 0.33333333, 0.33333333]])
    """

    power: float = 2.0
    shift: float = 0.0
    magnitude: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "shift", non_negative("shift", self.shift))
        power = non_negative("power", self.power)
        if power < 1:
            raise ValueError(f"power is {power}: at least 1 is needed, or the derivative is infinite at 0.")
        object.__setattr__(self, "power", power)
        require_flag("magnitude", self.magnitude)

    def pattern(self, logits: Shaped[Any, "*batch k"]) -> Shaped[Any, "*batch k"]:
        """The normalised weights over the last axis."""
        logits, xp = _checked(logits)
        weights, _, total, _ = self._parts(logits, xp)
        return in_type(weights / total, logits.dtype, xp)

    def vjp(
        self, logits: Shaped[Any, "*batch k"], cotangent: Shaped[Any, "*batch k"]
    ) -> Shaped[Any, "*batch k"]:
        """g'(z) (u - <p, u>) / sum_c g(z_c), g the weight of a logit."""
        logits, cotangent, dtype, xp = _checked_both(logits, cotangent, self.power, self.shift)
        weights, base, total, unit = self._parts(logits, xp)
        if bool(xp.any((unit > 0) & (unit < self.power / xp.finfo(unit.dtype).max))):
            raise ValueError(
                "The logits of a row are so small that the derivative overflows: scale them up or use a wider type."
            )
        z, none = logits + self.shift, unit == 0
        # of g at a kink, where its slope may jump, the flat side
        along = xp.astype(z > 0, z.dtype) - (xp.astype(z < 0, z.dtype) if self.magnitude else 0)
        scale = xp.where(none, xp.ones_like(unit), unit) * total
        slope = xp.where(none, xp.zeros_like(base), self.power * base ** (self.power - 1) / scale * along)
        return derivative(lambda: slope * _centred(weights / total, cotangent, xp), dtype, xp)

    def equation(self, first: Shaped[Any, "*batch"], second: Shaped[Any, "*batch"]) -> LogitEquation:
        """(shift + z_b) p_c^(1/power) = (shift + z_c) p_b^(1/power).

        Raises
        ------
        ValueError
            With `magnitude`: the signs of the logits are not known from the pattern.
        """
        if self.magnitude:
            raise ValueError(
                "A pattern of magnitudes leaves the signs of the logits open: no linear equation holds. Use the "
                "positive part, magnitude=False."
            )
        b, c = first ** (1 / self.power), second ** (1 / self.power)
        return LogitEquation(c, b, self.shift * (b - c))

    def _parts(self, logits: Any, xp: Any) -> tuple[Any, Any, Any, Any]:
        """Weights and their bases over the largest base, the sum of the weights, and that base: 0 where all are."""
        with np.errstate(over="ignore"):
            z = wide(logits, xp, self.power, self.shift) + self.shift
        if not bool(xp.all(xp.isfinite(z))):
            raise ValueError(f"The logits overflow when shift, {self.shift}, is added: scale both down.")
        base = xp.abs(z) if self.magnitude else xp.maximum(z, xp.zeros_like(z))
        most = xp.max(base, axis=-1, keepdims=True)
        none = most == 0
        # over the largest one, so that no power over- or underflows
        base = xp.where(none, xp.ones_like(base), base / xp.where(none, xp.ones_like(most), most))
        weights = base**self.power
        return weights, base, xp.sum(weights, axis=-1, keepdims=True), most


@dataclass(frozen=True)
class NormalisedSigmoid:
    """p_b proportional to 1 / (1 + exp(-z_b)).

    Notes
    -----
    The logits that share a pattern form a curve, not a line: a pattern puts no linear equation on them.
    """

    def pattern(self, logits: Shaped[Any, "*batch k"]) -> Shaped[Any, "*batch k"]:
        """The normalised sigmoids over the last axis."""
        logits, xp = _checked(logits)
        return in_type(softmax(_log_sigmoid(wide(logits, xp), xp), xp), logits.dtype, xp)

    def vjp(
        self, logits: Shaped[Any, "*batch k"], cotangent: Shaped[Any, "*batch k"]
    ) -> Shaped[Any, "*batch k"]:
        """P (1 - sigmoid(z)) (u - <p, u>)."""
        logits, cotangent, dtype, xp = _checked_both(logits, cotangent)
        p = self.pattern(logits)
        return derivative(
            lambda: p * xp.exp(_log_sigmoid(-logits, xp)) * _centred(p, cotangent, xp), dtype, xp
        )

    def equation(self, first: Shaped[Any, "*batch"], second: Shaped[Any, "*batch"]) -> LogitEquation:
        """There is none.

        Raises
        ------
        ValueError
            Always.
        """
        raise ValueError(
            "The logits of a pattern of normalised sigmoids form a curve: no linear equation holds for them."
        )


@dataclass(frozen=True, eq=False)
class WeightedLayer:
    """A multi-head attention layer with another weighting, F(X) = sum_i weighting(X Theta_i X^T) X W_i.

    Parameters
    ----------
    theta, w : array (m, d, d)
        As of `AttentionLayer`.
    weighting : Weighting
        What makes patterns of logits, row by row.

    Raises
    ------
    ValueError
        As `AttentionLayer`, and if the weighting is none.

    Notes
    -----
    With `Softmax` it is `AttentionLayer`. One call costs O(n k d^2 m + n k^2 d m) operations and the weighting's own.

    Examples
    --------
    >>> import numpy as np
    >>> layer = WeightedLayer(theta=np.eye(2)[None], w=np.eye(2)[None], weighting=Sparsemax())
    >>> layer(np.array([[1.0, 0.5], [-1.0, 1.0]]))  # each token attends to itself alone
    array([[ 1. ,  0.5],
           [-1. ,  1. ]])
    """

    theta: Shaped[Any, "m d d"]
    w: Shaped[Any, "m d d"]
    weighting: Weighting
    softmax_layer: AttentionLayer = field(init=False, repr=False)
    """The layer of the same matrices with softmax: for what compares parameters."""

    def __post_init__(self) -> None:
        if not isinstance(self.weighting, Weighting) or isinstance(self.weighting, type):
            kind = (
                self.weighting.__name__ if isinstance(self.weighting, type) else type(self.weighting).__name__
            )
            raise ValueError(f"weighting is a {kind}: an object such as Softmax() or Sparsemax() is needed.")
        layer = AttentionLayer(theta=self.theta, w=self.w)
        for name, value in (("softmax_layer", layer), ("theta", layer.theta), ("w", layer.w)):
            object.__setattr__(self, name, value)

    @property
    def heads(self) -> int:
        """The number m of heads."""
        return self.softmax_layer.heads

    @property
    def dim(self) -> int:
        """The number d of coordinates of a token."""
        return self.softmax_layer.dim

    def __repr__(self) -> str:
        return f"WeightedLayer(heads={self.heads}, dim={self.dim}, weighting={self.weighting!r})"

    def __call__(self, x: Shaped[Any, "*batch k d"]) -> Shaped[Any, "*batch k d"]:
        """The layer's output on the token matrices `x`, in the array type of `x`.

        Raises
        ------
        ValueError
            If `x` is not (..., k, d), or an array of another library than the parameters, or the products overflow.
        """
        x, xp = self.softmax_layer._tokens(x)
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is found by the checks
            logits = contract(x, xp.astype(self.theta, x.dtype), xp)
            require_no_overflow("logits", logits, xp)
            read = mix(self.weighting.pattern(logits), x, xp)
            w = xp.reshape(xp.astype(self.w, x.dtype), (-1, self.dim))
            output = xp.reshape(xp.matmul(read, w), tuple(x.shape))
        require_no_overflow("output", output, xp)
        return output

    def logits(self, x: Shaped[Any, "*batch k d"]) -> Shaped[Any, "*batch m k k"]:
        """The attention logits x_a Theta_i x_b of every head."""
        return self.softmax_layer.logits(x)

    def patterns(self, x: Shaped[Any, "*batch k d"]) -> Shaped[Any, "*batch m k k"]:
        """The attention patterns of every head: rows are probability vectors over the tokens."""
        return self.weighting.pattern(self.logits(x))


def _positive(weighting: Any, name: str) -> None:
    object.__setattr__(weighting, name, non_negative(name, getattr(weighting, name), strictly=True))


def _checked(logits: Any, name: str = "logits") -> tuple[Any, Any]:
    """The logits as finite numbers of floating point, and their namespace."""
    xp = namespace(logits)
    if logits.ndim < 1 or logits.shape[-1] < 1:
        raise ValueError(f"The {name} have shape {tuple(logits.shape)}: (..., k) with k >= 1 is needed.")
    if not xp.isdtype(logits.dtype, "real floating"):
        logits = as_floating(logits, xp.asarray(0.0).dtype, xp)
    require_finite(f"The {name}", logits)
    return logits, xp


def _checked_both(logits: Any, cotangent: Any, *numbers: float) -> tuple[Any, Any, Any, Any]:
    """Logits and a cotangent of the same shape in a wide type, the type of what comes of them, their namespace."""
    xp = namespace(logits, cotangent)
    if tuple(logits.shape) != tuple(cotangent.shape):
        raise ValueError(
            f"The logits have shape {tuple(logits.shape)} and the cotangent has {tuple(cotangent.shape)}: the same "
            "shape is needed."
        )
    logits, cotangent = _checked(logits)[0], _checked(cotangent, "cotangents")[0]
    dtype = xp.result_type(logits.dtype, cotangent.dtype)
    logits, cotangent = (wide(in_type(one, dtype, xp), xp, *numbers) for one in (logits, cotangent))
    return logits, cotangent, dtype, xp


def _centred(p: Any, cotangent: Any, xp: Any) -> Any:
    return cotangent - xp.sum(p * cotangent, axis=-1, keepdims=True)


def _log_sigmoid(z: Any, xp: Any) -> Any:
    return -xp.logaddexp(-z, xp.zeros_like(z))
