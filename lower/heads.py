"""Heads behind a gate, given by their numbers: the layer that they make, and a proved bound on its error."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from attention import AttentionLayer
from attention.memory import require_memory
from attention.validation import NonNegativeInt, checked

SATURATED_SLOPE = 40.0
"""At this slope the float64 softmax is exactly 0 or 1 half a unit away from a threshold (38 is already enough)."""

Numbers = Sequence[float] | Float[np.ndarray, " m"]

_UNIT = Fraction(1, 2**53)  # the largest relative change of a float64 number by rounding
_BITS = 240  # the precision of intervals: about 70 digits


@dataclass(frozen=True, eq=False)
@checked
class Heads:
    """Heads behind a gate: Theta_i = beta_i (sum_j v_j E_j - t_i E_o) and W_i = c_i e_g w^T.

    E_j is 1 at one place of coordinate j and 0 elsewhere: at (j, j) unless `rows` or `columns` say otherwise. With two
    tokens in {-1, 1}^d and T = <v, 1[x_1j != x_2j]>, heads at (j, j) give

    * on the gate (x_1g != x_2g): x_1g s(T) w in row 1 and x_2g s(T) w in row 2,
      where s(T) = sum_i c_i tanh(beta_i (T - t_i)),
    * off the gate: x_1g (sum_i c_i) w in both rows.

    With all E_j in the column of the gate and tokens that have 1 and -1 there, whatever their other coordinates, row r
    is sum_i c_i tanh(beta_i (<v, x_r> - t_i x_rg)) w.

    ValueError if the shapes do not fit, or the form is not 0 at the offset.

    Notes
    -----
    Let u = (x_1 - x_2)/2 and a = (x_1 + x_2)/2. Then a_j u_j = 0 and u_j^2 = 1[x_1j != x_2j]. So on the gate the logit
    difference x_1 Theta_i (x_1 - x_2)^T is 2 beta_i (T - t_i), and that of row 2 is its negative. A softmax over two
    logits that differ by z has p_1 - p_2 = tanh(z/2). If all E_j are in the row of the gate, T is x_1g <v, u>: its
    terms take the values -1, 0 and 1 in place of 0 and 1.

    Examples
    --------
    A bump: 1 where T is 1 or 2, else 0.

    >>> half = np.array([0.5, -0.5])
    >>> heads = Heads(np.array([0, 1, 1, 1]), np.array([0.5, 2.5]), coefficients=half, slopes=np.full(2, 40.0))
    >>> heads.limit(np.arange(4))
    array([0., 1., 1., 0.])
    >>> heads.layer()
    AttentionLayer(heads=2, dim=4, dtype=float64)
    """

    form: Int[np.ndarray, " d"]  #: the coefficients v
    #: t_i, c_i and beta_i
    thresholds: Float[np.ndarray, " m"]
    coefficients: Float[np.ndarray, " m"]
    slopes: Float[np.ndarray, " m"]
    #: the output direction w; the gate's unit vector when left out
    direction: Float[np.ndarray, " d"] | None = None
    gate: NonNegativeInt = 0  #: the gate coordinate g
    #: the row and the column of every E_j, if all E_j share it
    rows: NonNegativeInt | None = None
    columns: NonNegativeInt | None = None
    offset: NonNegativeInt | None = None  #: the coordinate o, with v_o = 0; the gate when left out
    #: the constant c0 that the sum of the heads has on the gate beside what it hides, known in advance
    c0: float = 0.0

    def __post_init__(self) -> None:
        if self.offset is None:
            object.__setattr__(self, "offset", self.gate)
        for name in ("gate", "rows", "columns", "offset"):
            if (getattr(self, name) or 0) >= self.dim:
                raise ValueError(
                    f"{name} is {getattr(self, name)}: a coordinate from 0 to {self.dim - 1} is needed."
                )
        if self.form[self.offset] != 0:
            raise ValueError(f"form is {self.form[self.offset]} at coordinate {self.offset}: 0 is needed.")
        if self.direction is None:
            w = np.zeros(self.dim)
            w[self.gate] = 1.0
            object.__setattr__(self, "direction", w)

    @classmethod
    def counting(
        cls, bits: int, thresholds: Numbers, coefficients: Numbers, slopes: Numbers, **others: Any
    ) -> "Heads":
        """Heads that read how many of `bits` coordinates, the first after the gate, differ; `placed` moves them."""
        require_memory(f"Heads on {bits} coordinates", 32 * bits, advice="take fewer bits")
        form = np.append(0, np.ones(bits, dtype=np.int64))
        numbers = [np.asarray(one, dtype=np.float64) for one in (thresholds, coefficients, slopes)]
        return cls(form, numbers[0], numbers[1], numbers[2], **others)

    def placed(
        self,
        secret: ArrayLike,
        *,
        dim: int,
        gate: int = 0,
        direction: Float[np.ndarray, " d"] | None = None,
        **others: int,
    ) -> "Heads":
        """The heads that read the coordinates `secret` of `dim` behind a gate; `others`: rows, columns, offset."""
        form = np.zeros(dim, dtype=np.int64)
        form[np.asarray(secret)] = 1
        shared: dict[str, Any] = {
            "rows": None if self.rows is None else gate,
            "columns": None,
            "offset": None,
            **others,
        }
        return replace(self, form=form, gate=gate, direction=direction, **shared)

    def __len__(self) -> int:
        return len(self.slopes)

    @property
    def bits(self) -> int:
        """The number l of coordinates that the heads read."""
        return int(np.count_nonzero(self.form))

    @property
    def c(self) -> float:
        """C, the sum of the coefficients: it appears off the gate."""
        return math.fsum(self.coefficients)

    @property
    def dim(self) -> int:
        """The number d of coordinates of a token."""
        return len(self.form)

    def layer(self) -> AttentionLayer:
        """The attention layer of these heads; O(m d^2) numbers. NotEnoughMemoryError if it does not fit."""
        m, d = len(self), self.dim
        require_memory(f"A layer of {m} heads in dim {d}", 8 * (4 * m + 2) * d**2, advice="lower dim")
        theta, w = np.zeros((m, d, d)), np.zeros((m, d, d))
        places = [np.arange(d) if one is None else np.full(d, one) for one in (self.rows, self.columns)]
        with np.errstate(over="ignore"):  # the layer refuses numbers that overflow
            theta[:, places[0], places[1]] = np.outer(self.slopes, self.form)
            theta[:, places[0][self.offset], places[1][self.offset]] = -self.slopes * self.thresholds
            w[:, self.gate] = np.outer(self.coefficients, np.asarray(self.direction))
        return AttentionLayer(theta=theta, w=w)

    def limit(self, t: Any) -> Float[np.ndarray, "*n"]:
        """The step function sum_i c_i sign(T - t_i): the limit of s(T) as all slopes grow."""
        return np.sign(np.asarray(t)[..., None] - self.thresholds) @ self.coefficients

    def error(self, ideal: Mapping[int, Fraction], *, c: float, shift: float = 0.0) -> float:
        """The supremum of |s(T) - ideal(T)| over the T of `ideal`, and of |sum_i c_i - C| off the gate, rounded up.

        `shift` is the most by which other tokens may move a head, in units of half a logit.

        Notes
        -----
        Interval arithmetic on the numbers that a layer stores: beta_i and the float64 product beta_i t_i, for
        entries 0 and 1 of the form. The limit is compared exactly, and 1 - tanh z = 2/(e^(2z) + 1) is not subtracted
        from 1. So errors far below 1e-16 keep their digits. O(m) for each T.

        Examples
        --------
        >>> heads = Heads(np.arange(2), np.array([0.5]), coefficients=np.ones(1), slopes=np.ones(1))
        >>> round(heads.error({0: Fraction(-1), 1: Fraction(1)}, c=1.0) * (math.e + 1), 12)
        2.0
        """
        exact = [Fraction(one) for one in self.coefficients.tolist()]
        thresholds, slopes = self.thresholds.tolist(), self.slopes.tolist()
        products = [Fraction(beta * t) for beta, t in zip(slopes, thresholds, strict=True)]
        slopes = [Fraction(beta) for beta in slopes]

        @cache
        def deficit(z: Fraction) -> Any:
            low, high = (_interval(z) + side * _interval(Fraction(shift)) for side in (-1, 1))
            return 2 / (_intervals().exp(2 * _intervals().mpf([low.a, high.b])) + 1)

        worst = _up(abs(_interval(sum(exact) - Fraction(c))))
        for n, wanted in ideal.items():
            signs = [1 if n > t else -1 for t in thresholds]
            gap = _interval(sum(sign * one for sign, one in zip(signs, exact, strict=True)) - wanted)
            for sign, one, beta, product in zip(signs, exact, slopes, products, strict=True):
                gap -= _interval(sign * one) * deficit(sign * (beta * n - product))
            worst = max(worst, _up(abs(gap)))
        return worst

    def one_slope_error(self) -> float:
        """A proved bound on the supremum of |s(T) - limit(T)| for heads of one slope and distinct half-integers t_i.

        Notes
        -----
        4 max|c| e^-beta / (1 - e^(-2 beta)). Proof: 1 - tanh z is at most 2 e^(-2z) for z >= 0, so head i differs from
        its limit by at most 2 |c_i| e^(-2 beta |T - t_i|). The distances of a whole number from distinct half-integers
        lie in {1/2, 3/2, ...}. Each distance occurs at most twice, once on either side. So the sum is at most
        4 max|c| sum_{j>=0} e^(-beta (2j+1)), a geometric series. If the products beta v_j and beta t_i are not exact
        in float64, half a logit is off by at most delta = 2^-53 beta (|v|_1 + max|t|), and the bound is multiplied by
        e^(2 delta). It is never above 2 sum_i |c_i|.
        """
        beta, sizes = float(self.slopes[0]), [Fraction(abs(one)) for one in self.coefficients.tolist()]
        furthest = Fraction(float(np.abs(self.thresholds).max()))
        largest = max(Fraction(int(np.abs(self.form).max())), furthest)
        # twice a threshold is whole: these products have at most 53 bits, so they are stored exactly
        stored = 2 * beta.as_integer_ratio()[0] * largest < 2**53
        moved = 0 if stored else Fraction(beta) * (int(np.abs(self.form).sum()) + furthest) * _UNIT
        if moved > 1:  # no digit of the logits is sure any more
            return _up(_interval(2 * sum(sizes)))
        b, iv = _interval(Fraction(beta)), _intervals()
        closed = 4 * iv.exp(-b) / (1 - iv.exp(-2 * b)) * iv.exp(2 * _interval(Fraction(moved)))
        return min(_up(_interval(max(sizes)) * closed), _up(_interval(2 * sum(sizes))))

    def along(self, error: float) -> float:
        """A bound on the row norm of a layer's error, from the `error` along a direction of norm 1; rounded outward.

        Products c_i w_j are rounded unless w is a unit vector of a coordinate. Rounding adds at most
        2^-53 |w| sum_i |c_i|.
        """
        w = [Fraction(abs(one)) for one in np.asarray(self.direction).tolist() if one]
        if w == [1]:
            return error
        norm = _intervals().sqrt(_interval(sum((one * one for one in w), Fraction(0))))
        total = sum(Fraction(abs(one)) for one in self.coefficients.tolist())
        # each product in the subnormal range loses up to 2^-1075
        lost = norm * _interval(total * _UNIT) + _interval(Fraction(len(w) * len(self), 2**1075))
        return _up(_interval(Fraction(error)) * norm + lost)


@cache
def _intervals() -> Any:
    from mpmath.ctx_iv import MPIntervalContext  # a tenth of a second; only makers and verifiers need it

    context = MPIntervalContext()
    context.prec = _BITS
    return context


def _interval(number: Fraction | int) -> Any:
    number = Fraction(number)
    return _intervals().mpf(number.numerator) / number.denominator


def _up(number: Any) -> float:
    """The least float64 number that is not below an interval."""
    nearest = float(number.b)
    above = _intervals().mpf(nearest) >= number.b
    return nearest if above else math.nextafter(nearest, math.inf)
