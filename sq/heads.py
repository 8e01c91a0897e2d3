"""The heads that compute a parity of up to l bits, whatever the secret: saturated (B) and minimal (D)."""

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from attention._arrays import count, non_negative
from lower import (
    SATURATED_SLOPE,
    LinearKnownPart,
    Staircase,
    outward_context,
    rounded_up,
)

__all__ = ["Construction", "ParityHeads", "parity_heads"]

Construction = Literal["B", "D"]

_PRECISION_LIMIT = 1e-9


@dataclass(frozen=True, eq=False)
class ParityHeads:
    """The heads that compute (-1)^N, up to a constant, from the number N of coordinates where tokens differ.

    The same heads serve every secret, so they are known in advance: sum_i c_i tanh(beta_i (N - t_i)) is
    c0 + (-1)^N for N = 0, ..., `bits`.

    Attributes
    ----------
    construction : {"B", "D"}
        Which of the two.
    bits : int
        The most hidden bits l they serve.
    thresholds, coefficients, slopes : array (m,)
        t_i, c_i and beta_i.
    c, c0 : float
        C = sum_i c_i, seen off the gate, and the constant c0 on it: they make the known part.
    """

    construction: Construction
    bits: int
    thresholds: np.ndarray
    coefficients: np.ndarray
    slopes: np.ndarray
    c: float
    c0: float

    @property
    def heads(self) -> int:
        """The number m of heads."""
        return len(self.thresholds)

    def staircase(
        self, secret: ArrayLike, *, dim: int, gate: int = 0, direction: np.ndarray | None = None
    ) -> Staircase:
        """The staircase that hides the parity of the coordinates `secret` of `dim`."""
        form = np.zeros(dim, dtype=np.int64)
        form[np.asarray(secret, dtype=np.int64)] = 1
        return Staircase(
            form=form,
            thresholds=self.thresholds,
            coefficients=self.coefficients,
            slopes=self.slopes,
            gate=gate,
            direction=direction,
        )

    def known(self, *, gate: int, direction: ArrayLike) -> LinearKnownPart:
        """The known part C a_g [1; 1] w^T + c0 u_g [1; -1] w^T."""
        return LinearKnownPart.from_gate(self.c, self.c0, gate=gate, direction=direction)

    def error(self) -> float:
        """The supremum of |layer - ideal target| along a direction of norm 1, rounded outward.

        Notes
        -----
        Computed to 50 digits for N = 0, ..., `bits` on the gate and for C off it, on the numbers that a layer
        stores: beta_i and the float64 product beta_i t_i. The limit's distance from c0 + (-1)^N is an exact
        fraction and 1 - tanh|z| = 2 e^(-2|z|) / (1 + e^(-2|z|)) is not subtracted from 1, so the digits hold
        far below 1e-16 as well.
        """
        c0, exact = Fraction(self.c0), [Fraction(float(c)) for c in self.coefficients]
        worst = abs(_decimal(sum(exact, Fraction(0)) - Fraction(self.c)))
        with localcontext(outward_context()):
            # slack for the cancellation between heads, relative to what cancels
            slack = Decimal("1e-40")
            for n in range(self.bits + 1):
                gap = _decimal(
                    sum(c if n > t else -c for c, t in zip(exact, self.thresholds, strict=True))
                    - c0
                    - (-1) ** n
                )
                total, size = gap, abs(gap)
                for c, beta, t in zip(self.coefficients, self.slopes, self.thresholds, strict=True):
                    z = Decimal(float(beta)) * n - Decimal(float(beta * t))
                    decay = (-2 * abs(z)).exp()
                    # the sign of z is that of n - t unless rounding took the whole distance away
                    turned = (z > 0) != (n > t)
                    off = 2 - 2 * decay / (1 + decay) if turned else 2 * decay / (1 + decay)
                    step = Decimal(float(c)) * off * (-1 if n > t else 1)
                    total, size = total + step, size + abs(step)
                worst = max(worst, abs(total) + slack * size)
        return rounded_up(worst, positive=True)

    def layer_error(self, direction: np.ndarray) -> float:
        """An upper bound on the row norm of layer minus ideal target: `error` along `direction`, rounded outward.

        The layer stores the float64 products c_i w_j. Unless `direction` is a unit vector of a coordinate, they
        are rounded, which adds at most 2^-53 |w| sum_i |c_i| (and nothing to the known part, which keeps w
        itself).
        """
        w = [abs(Fraction(float(one))) for one in direction if one]
        if w == [1]:
            return self.error()
        # |w|^2 as a fraction; its root by 50 digits
        with localcontext(outward_context()):
            norm = _decimal(sum((one * one for one in w), Fraction(0))).sqrt()
            total = sum((abs(Decimal(float(c))) for c in self.coefficients), Decimal(0))
            # products below the normal numbers lose up to 2^-1075 each
            lost = norm * total * Decimal(2) ** -53 + Decimal(len(w) * self.heads) * Decimal(2) ** -1075
            return rounded_up(Decimal(self.error()) * norm + lost, positive=True)


def _decimal(value: Fraction) -> Decimal:
    with localcontext(outward_context()):
        return Decimal(value.numerator) / Decimal(value.denominator)


def parity_heads(construction: Construction, *, bits: int, beta: float = SATURATED_SLOPE) -> ParityHeads:
    """The heads of construction B (saturated) or D (minimal) for a parity of `bits` bits.

    Parameters
    ----------
    construction : {"B", "D"}
        B: l heads, one slope beta, thresholds i - 1/2, coefficients (-1)^i. D: m = floor(l/2) + 1 heads of
        one threshold m - 1/2 and distinct slopes, the coefficients solving a linear system.
    bits : int
        The number l of hidden bits.
    beta : float
        The slope of construction B; D has its own slopes and does not use it.

    Raises
    ------
    ValueError
        If `bits` is below 1, `beta` not positive, or l so large that the coefficients of D lose their digits.

    Notes
    -----
    B: the limit at N is 2 sum_{i <= N} (-1)^i - C = (-1)^N - 1 - C, so c0 = -1 - C with C = -1 for odd l and
    0 for even l. D: N - t runs through the half-integers from 1/2 - m, tanh is odd and so is (-1)^N about
    t = m - 1/2, so the m equations sum_b c_b tanh(beta_b (a - 1/2)) = (-1)^(m-1+a), a = 1, ..., m, give
    (-1)^N for all of N = 0, ..., 2m - 1, with c0 = 0. Slopes: (1/2, 1) and (1/2, 1, 2) for m = 2 and 3, a
    geometric sequence from 1/m to 2, rounded to 20 binary digits, beyond (doubling ones make the system
    ill-conditioned). O(m^3).

    References
    ----------
    Derived here. That no fewer heads do is a numerical observation, not a theorem.

    Examples
    --------
    >>> heads = parity_heads("D", bits=3)
    >>> [round(float(c), 4) for c in heads.coefficients], round(heads.c, 4)
    ([-19.0359, 12.2529], -6.7831)
    """
    if construction not in get_args(Construction):
        raise ValueError(
            f"construction is {construction!r}: {' or '.join(get_args(Construction))} is needed."
        )
    bits = count("bits", bits)
    if construction == "B":
        order = np.arange(1, bits + 1)
        c = -1.0 if bits % 2 else 0.0
        slopes = np.full(bits, non_negative("beta", beta, strictly=True))
        return ParityHeads("B", bits, order - 0.5, (-1.0) ** order, slopes, c=c, c0=-1.0 - c)
    m = bits // 2 + 1
    # 20 binary digits: the layer's products of slope and threshold are then exact, and lose the parity nothing
    slopes = (
        np.array(_MINIMAL_SLOPES[m])
        if m in _MINIMAL_SLOPES
        else np.rint(np.geomspace(1 / m, 2, m) * 2.0**20) / 2.0**20
    )
    half = np.arange(1, m + 1)
    coefficients = np.linalg.solve(np.tanh(np.multiply.outer(half - 0.5, slopes)), (-1.0) ** (m - 1 + half))
    heads = ParityHeads(
        "D", bits, np.full(m, m - 0.5), coefficients, slopes, c=math.fsum(coefficients), c0=0.0
    )
    if not heads.error() <= _PRECISION_LIMIT:
        raise ValueError(
            f"bits is {bits}: {m} minimal heads miss the parity by {heads.error():.1e} in float64; "
            "take at most 19 bits, or construction B."
        )
    return heads


_MINIMAL_SLOPES = {1: (1.0,), 2: (0.5, 1.0), 3: (0.5, 1.0, 2.0)}
