"""How far the heads a layer stores are from the ideal they stand for: a supremum, rounded outward."""

from collections.abc import Mapping
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from attention._arrays import shown, to_numpy
from attention.memory import require_memory
from attention.validation import count, real_array
from lower import outward_context, rounded_up

__all__ = [
    "MOST_BITS",
    "MOST_SAMPLES",
    "error_along",
    "require_layer_memory",
    "require_layer_secret",
    "require_realisable",
    "secret_coordinates",
    "supremum_error",
    "unit_direction",
]

MOST_SAMPLES = 10**9
"""Of more inputs drawn at random no check is begun: it would not end in a day."""

MOST_BITS = 2048
"""Beyond so many hidden bits no heads are made: their errors, to 50 digits, would take hours."""


def require_realisable(bits: int) -> None:
    """Refuse more hidden bits than heads are made for.

    Raises
    ------
    ValueError
        If there are more than `MOST_BITS`.
    """
    if bits > MOST_BITS:
        raise ValueError(
            f"bits is {_shortly(bits)}: at most {MOST_BITS} are allowed, as the errors of more heads take hours."
        )


def require_layer_secret(secret: ArrayLike, gate: int, direction: ArrayLike | None, dim: int) -> None:
    """Refuse a secret, a gate or a direction that a layer of so many coordinates cannot have.

    Raises
    ------
    ValueError
        If a coordinate is none of 0, ..., `dim` - 1, or the direction has another length or is not finite.
    """
    count("gate", gate, least=0, most=dim - 1)
    secret_coordinates(secret, dim)
    if direction is not None:
        real_array("direction", direction, (dim,))


def secret_coordinates(secret: ArrayLike, dim: int) -> Int[np.ndarray, " l"]:
    """A secret as an array of coordinates, at least one and each once; truth values would be a mask, and are none.

    Raises
    ------
    ValueError
        If they are no such whole numbers from 0 to `dim` - 1.
    """
    chosen = real_array("secret", secret)
    mask = chosen.size > 0 and np.asarray(to_numpy(secret)).dtype.kind == "b"
    if mask or chosen.ndim != 1 or np.any(chosen % 1) or np.any((chosen < 0) | (chosen >= dim)):
        raise ValueError(f"secret is {shown(secret)}: coordinates from 0 to {dim - 1} are needed.")
    if not 0 < len(chosen) == len(np.unique(chosen)):
        raise ValueError(f"secret is {shown(secret)}: distinct coordinates, at least one, are needed.")
    return chosen.astype(np.int64)


def require_layer_memory(heads: int, dim: int) -> None:
    """Refuse a layer that does not fit into memory, before it is made.

    Raises
    ------
    NotEnoughMemoryError
        If theta and w, and the copies that a layer and its known part make, do not fit.
    """
    require_memory(
        f"A layer of {heads} heads in dim {_shortly(dim)}", 8 * (4 * heads + 2) * dim**2, advice="lower dim"
    )


def _shortly(number: int) -> str:
    return str(number) if number < 10**20 else f"about 10^{int(0.30103 * number.bit_length())}"


def supremum_error(
    ideal: Mapping[int, Fraction],
    *,
    thresholds: Float[np.ndarray, " m"],
    coefficients: Float[np.ndarray, " m"],
    slopes: Float[np.ndarray, " m"],
    c: float,
) -> float:
    """The largest of |sum_i c_i tanh(beta_i (N - t_i)) - ideal(N)| over N and |sum_i c_i - C|, rounded outward.

    Parameters
    ----------
    ideal : mapping of int to Fraction
        What the sum should be at every N that is reached.
    thresholds, coefficients, slopes : array (m,)
        t_i, c_i and beta_i > 0.
    c : float
        C, what the coefficients should add up to.

    Notes
    -----
    Computed to 50 digits on the numbers that a layer stores: beta_i and the float64 product beta_i t_i. The limit's
    distance from the ideal is an exact fraction and 1 - tanh|z| = 2 e^(-2|z|) / (1 + e^(-2|z|)) is not subtracted
    from 1, so the digits hold far below 1e-16 as well. O(m) exponentials for each N.

    Examples
    --------
    >>> import numpy as np
    >>> half, one = np.array([0.5]), np.ones(1)
    >>> error = supremum_error({0: Fraction(-1), 1: Fraction(1)}, thresholds=half, coefficients=one, slopes=one, c=1.0)
    >>> round(error * (np.e + 1), 15)
    2.0
    """
    exact = [Fraction(float(one)) for one in coefficients]
    worst = abs(_decimal(sum(exact, Fraction(0)) - Fraction(c)))
    with localcontext(outward_context()):
        # slack for the cancellation between heads, relative to what cancels
        slack = Decimal("1e-40")
        for n, wanted in ideal.items():
            gap = _decimal(
                sum((one if n > t else -one for one, t in zip(exact, thresholds, strict=True)), Fraction(0))
                - wanted
            )
            total, size = gap, abs(gap)
            for one, beta, t in zip(coefficients, slopes, thresholds, strict=True):
                z = Decimal(float(beta)) * n - Decimal(float(beta * t))
                decay = (-2 * abs(z)).exp()
                # the sign of z is that of n - t unless rounding took the whole distance away
                turned = (z > 0) != (n > t)
                off = 2 - 2 * decay / (1 + decay) if turned else 2 * decay / (1 + decay)
                step = Decimal(float(one)) * off * (-1 if n > t else 1)
                total, size = total + step, size + abs(step)
            worst = max(worst, abs(total) + slack * size)
    return rounded_up(worst, positive=True)


def error_along(error: float, coefficients: Float[np.ndarray, " m"], direction: np.ndarray) -> float:
    """An upper bound on the row norm of layer minus ideal target: `error` along `direction`, rounded outward.

    The layer stores the float64 products c_i w_j. Unless `direction` is a unit vector of a coordinate, they are
    rounded, which adds at most 2^-53 |w| sum_i |c_i| (and nothing to the known part, which keeps w itself).
    """
    w = [abs(Fraction(float(one))) for one in direction if one]
    if w == [1]:
        return error
    # |w|^2 as a fraction; its root by 50 digits
    with localcontext(outward_context()):
        norm = _decimal(sum((one * one for one in w), Fraction(0))).sqrt()
        total = sum((abs(Decimal(float(one))) for one in coefficients), Decimal(0))
        # products below the normal numbers lose up to 2^-1075 each
        lost = norm * total * Decimal(2) ** -53 + Decimal(len(w) * len(coefficients)) * Decimal(2) ** -1075
        return rounded_up(Decimal(error) * norm + lost, positive=True)


def unit_direction(direction: ArrayLike | None, dim: int) -> Float[np.ndarray, " d"]:
    """The output direction w scaled to norm 1; the first coordinate's unit vector when left out.

    Raises
    ------
    ValueError
        If it has not `dim` finite entries, or they are all zero.
    """
    if direction is None:
        w = np.zeros(dim)
        w[0] = 1.0
        return w
    w = real_array("direction", direction)
    if w.shape != (dim,) or not w.any():
        raise ValueError(f"direction has shape {w.shape}: {dim} entries, not all zero, are needed.")
    largest = np.abs(w).max()
    if not 1e-100 < largest < 1e100:  # the squares of the norm would overflow, or vanish
        w = w / largest
    return w / np.linalg.norm(w)


def _decimal(value: Fraction) -> Decimal:
    with localcontext(outward_context()):
        return Decimal(value.numerator) / Decimal(value.denominator)
