"""The heads that compute a parity of l bits, whatever the secret: linear, saturated, exact, minimal (A, B, C, D)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from attention import AttentionLayer
from attention._arrays import shown
from attention.validation import count, non_negative, one_of, real_array
from lower import SATURATED_SLOPE, LinearKnownPart, Staircase
from sq.realisation import (
    error_along,
    require_layer_memory,
    require_layer_secret,
    require_realisable,
    supremum_error,
)

__all__ = ["Construction", "ParityHeads", "heads_needed", "parity_heads"]

Construction = Literal["A", "B", "C", "D"]

_PRECISION_LIMIT = 1e-9


@dataclass(frozen=True, eq=False)
class ParityHeads:
    """The heads that compute (-1)^N, up to a constant, from the number N of coordinates where tokens differ.

    The same heads serve every secret, so they are known in advance: sum_i c_i tanh(beta_i (N - t_i)) is
    c0 + (-1)^N for N = 0, ..., `bits`. The heads of A are linear in the token attended to: they see
    L = x_1g sum_{j in S} (x_1j - x_2j)/2 = -l, ..., l in the place of N, and (-1)^L = (-1)^N.

    Attributes
    ----------
    construction : {"A", "B", "C", "D"}
        Which of the four.
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

    def layer(
        self, secret: ArrayLike, *, dim: int, gate: int = 0, direction: np.ndarray | None = None
    ) -> AttentionLayer:
        """The layer that hides the parity of the coordinates `secret` of `dim`; O(m d^2) numbers.

        Head i has Theta_i = beta_i e_g (1_S - t_i e_g)^T in A and beta_i (sum_{j in S} e_j e_j^T - t_i e_g e_g^T)
        else; all have W_i = c_i e_g w^T.
        """
        dim = count("dim", dim)
        require_layer_secret(secret, gate, direction, dim)
        require_layer_memory(self.heads, dim)
        if self.construction != "A":
            return self.staircase(secret, dim=dim, gate=gate, direction=direction).layer()
        w = np.zeros((self.heads, dim, dim))
        w[:, gate, :] = np.outer(self.coefficients, np.eye(dim)[gate] if direction is None else direction)
        theta = np.zeros_like(w)
        theta[:, gate, np.asarray(secret, dtype=np.int64)] = self.slopes[:, None]
        theta[:, gate, gate] = -self.slopes * self.thresholds
        return AttentionLayer(theta=theta, w=w)

    def staircase(
        self, secret: ArrayLike, *, dim: int, gate: int = 0, direction: np.ndarray | None = None
    ) -> Staircase:
        """The staircase that hides the parity of the coordinates `secret` of `dim`.

        Raises
        ------
        ValueError
            If the construction is A, whose heads are no staircase.
        """
        if self.construction == "A":
            raise ValueError(
                "Construction A is linear, no staircase: take its layer, or construction B, C or D."
            )
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

    def known(self, *, gate: int, direction: np.ndarray) -> LinearKnownPart:
        """The known part C a_g [1; 1] w^T + c0 u_g [1; -1] w^T."""
        return LinearKnownPart.from_gate(self.c, self.c0, gate=gate, direction=direction)

    def error(self) -> float:
        """The supremum of |layer - ideal target| along a direction of norm 1, rounded outward.

        Notes
        -----
        `supremum_error` over N = 0, ..., `bits` (A: L = -`bits`, ..., `bits`) on the gate and C off it.
        """
        least = -self.bits if self.construction == "A" else 0
        return supremum_error(
            {n: Fraction(self.c0) + (-1) ** abs(n) for n in range(least, self.bits + 1)},
            thresholds=self.thresholds,
            coefficients=self.coefficients,
            slopes=self.slopes,
            c=self.c,
        )

    def layer_error(self, direction: np.ndarray) -> float:
        """An upper bound on the row norm of layer minus ideal target: `error` along `direction`, rounded outward."""
        return error_along(self.error(), self.coefficients, direction)


def heads_needed(construction: Construction, bits: int) -> int:
    """The number m of heads that a construction takes for l bits: A 2l, B and C l, D floor(l/2) + 1."""
    one_of("construction", construction, get_args(Construction))
    bits = count("bits", bits)
    return {"A": 2 * bits, "B": bits, "C": bits, "D": bits // 2 + 1}[construction]


def parity_heads(
    construction: Construction,
    *,
    bits: int,
    beta: float | None = None,
    slopes: Sequence[float] | None = None,
) -> ParityHeads:
    """The heads of construction A (linear), B (saturated), C (exact) or D (minimal) for a parity of `bits` bits.

    Parameters
    ----------
    construction : {"A", "B", "C", "D"}
        A: 2l heads of one slope, linear in the token attended to, thresholds -l + 1/2, ..., l - 1/2, coefficients
        (-1)^(i+l). B: l heads, one slope beta, thresholds i - 1/2, coefficients (-1)^i. C: the thresholds of B at
        any slope, the coefficients solving a linear system. D: m = floor(l/2) + 1 heads of one threshold m - 1/2
        and distinct slopes, the coefficients solving a linear system.
    bits : int
        The number l of hidden bits.
    beta : float, optional
        The slope of constructions A, B (40 when left out) and C (1 when left out); D does not use it.
    slopes : sequence of float, optional
        The m distinct slopes of D, to choose them oneself.

    Raises
    ------
    ValueError
        If `bits` is below 1, a slope not positive, `slopes` given to another construction than D or not m distinct
        numbers, or the linear system of C or D so near singular that the coefficients lose their digits: l too
        large, beta too small, or two slopes that both saturate.

    Notes
    -----
    The systems are solved to 30 digits and then rounded, so that every machine makes the same heads.
    A: the limit at L is 2 sum_{i <= L + l} (-1)^(i+l) - C = (-1)^L - (-1)^l with C = 0, so c0 = (-1)^(l+1). B: the
    limit at N is 2 sum_{i <= N} (-1)^i - C = (-1)^N - 1 - C, so c0 = -1 - C with C = -1 for odd l and 0 for even l.
    With one slope the error is at most 4/(e^beta + 1): in the sum over heads the deficits 2/(e^(2 beta |N - t|) + 1)
    alternate in sign on either side of N and decrease, so each side adds at most its first, 2/(e^beta + 1).
    C: l + 1 unknowns, the coefficients and a constant -c0, and the l + 1 equations
    sum_i c_i tanh(beta (N - t_i)) - c0 = (-1)^N; thresholds and equations are symmetric about l/2, so C = 0 for
    even l and c0 = 0 for odd l. D: N - t runs through the half-integers from 1/2 - m, tanh is odd and so is (-1)^N
    about t = m - 1/2, so the m equations sum_b c_b tanh(beta_b (a - 1/2)) = (-1)^(m-1+a), a = 1, ..., m, give
    (-1)^N for all of N = 0, ..., 2m - 1, with c0 = 0. Slopes: (1/2, 1) and (1/2, 1, 2) for m = 2 and 3, a
    geometric sequence from 1/m to 2, rounded to 20 binary digits, beyond (doubling ones make the system
    ill-conditioned). O(m^3).

    References
    ----------
    Derived here. That no fewer heads do is a numerical observation, not a theorem; Hsu, arXiv 2605.12171, proves a
    related bound.

    Examples
    --------
    >>> heads = parity_heads("D", bits=3)
    >>> [round(float(c), 4) for c in heads.coefficients], round(heads.c, 4)
    ([-19.0359, 12.2529], -6.7831)
    >>> heads = parity_heads("C", bits=2, beta=1.0)
    >>> round(float(abs(heads.coefficients).sum()), 3), heads.c, round(heads.c0, 3)
    (8.312, 0.0, -2.841)
    """
    one_of("construction", construction, get_args(Construction))
    bits = count("bits", bits)
    require_realisable(bits)
    if slopes is not None and construction != "D":
        raise ValueError(
            f"slopes is {shown(slopes)} with construction {construction}: it has one slope, beta; only D takes more."
        )
    if construction == "D":
        return _minimal(bits, slopes)
    beta = (1.0 if construction == "C" else SATURATED_SLOPE) if beta is None else beta
    beta = non_negative("beta", beta, strictly=True)
    if construction == "A":
        order = np.arange(1, 2 * bits + 1)
        thresholds, coefficients = order - bits - 0.5, (-1.0) ** (order + bits)
        return ParityHeads(
            "A", bits, thresholds, coefficients, np.full(2 * bits, beta), c=0.0, c0=(-1.0) ** (bits + 1)
        )
    order = np.arange(1, bits + 1)
    if construction == "C":
        return _exact(bits, order - 0.5, beta)
    c = -1.0 if bits % 2 else 0.0
    return ParityHeads("B", bits, order - 0.5, (-1.0) ** order, np.full(bits, beta), c=c, c0=-1.0 - c)


def _exact(bits: int, thresholds: np.ndarray, beta: float) -> ParityHeads:
    blame = f"beta is {beta} and bits {bits}"
    advice = "take a larger beta, fewer bits, or construction B."
    with localcontext(_DIGITS):
        # N - t is one of 2l half-integers
        step = {half: _tanh(Decimal(beta) * half / 2) for half in range(1 - 2 * bits, 2 * bits, 2)}
        system = [[Decimal(1), *(step[2 * n - 2 * i - 1] for i in range(bits))] for n in range(bits + 1)]
        solution = _solved(system, [(-1) ** n for n in range(bits + 1)], blame, advice)
    coefficients = np.array(solution[1:])
    c0 = 0.0 if bits % 2 else -solution[0]
    c = math.fsum(coefficients)
    heads = ParityHeads("C", bits, thresholds, coefficients, np.full(bits, beta), c=c, c0=c0)
    if not heads.error() <= _PRECISION_LIMIT:
        raise ValueError(
            f"{blame}: the exact heads miss the parity by {heads.error():.1e} in float64; {advice}"
        )
    return heads


def _minimal(bits: int, slopes: Sequence[float] | None) -> ParityHeads:
    m = bits // 2 + 1
    if slopes is not None:
        own = np.array(real_array("slopes", slopes))
        if own.shape != (m,) or np.any(own <= 0) or len(np.unique(own)) != m:
            raise ValueError(
                f"slopes is {shown(slopes)}: {m} distinct numbers above 0 are needed for {bits} bits."
            )
    else:
        # 20 binary digits: the layer's products of slope and threshold are then exact, and lose the parity nothing
        own = (
            np.array(_MINIMAL_SLOPES[m])
            if m in _MINIMAL_SLOPES
            else np.rint(np.geomspace(1 / m, 2, m) * 2.0**20) / 2.0**20
        )
    blame, advice = f"bits is {bits}", "take at most 19 bits, or construction B."
    if slopes is not None:
        blame = f"slopes is {shown(slopes)}"
        advice = "take slopes further apart, at most one of them above 20, or fewer bits."
    with localcontext(_DIGITS):
        system = [
            [_tanh(Decimal(slope) * (2 * a - 1) / 2) for slope in own.tolist()] for a in range(1, m + 1)
        ]
        coefficients = np.array(
            _solved(system, [(-1) ** (m - 1 + a) for a in range(1, m + 1)], blame, advice)
        )
    heads = ParityHeads("D", bits, np.full(m, m - 0.5), coefficients, own, c=math.fsum(coefficients), c0=0.0)
    if not heads.error() <= _PRECISION_LIMIT:
        raise ValueError(
            f"{blame}: {m} minimal heads miss the parity by {heads.error():.1e} in float64; {advice}"
        )
    return heads


def _solved(system: list[list[Decimal]], right: list[int], blame: str, advice: str) -> list[float]:
    """The float64 numbers nearest to the solution, whatever the rounding errors of this machine's linear algebra.

    Each round corrects the solution by what is left of the right side, to the digits of the context; O(n^2) a round.
    """
    solution, left = [Decimal(0)] * len(right), [Decimal(one) for one in right]
    last = float(np.finfo(np.float64).max)
    try:
        inverse = np.linalg.inv(np.array(system, dtype=np.float64))
    except np.linalg.LinAlgError:
        inverse = np.full((len(right), len(right)), np.nan)
    while last > 1e-30 * float(max(map(abs, solution))):
        change = inverse @ np.array(left, dtype=np.float64)
        size = np.abs(change).max()
        if not size <= last / 2:
            raise ValueError(f"{blame}: the equations for the coefficients are singular in float64; {advice}")
        last = size
        solution = [one + Decimal(more) for one, more in zip(solution, change.tolist(), strict=True)]
        left = [
            wanted - sum((a * b for a, b in zip(row, solution, strict=True)), Decimal(0))
            for wanted, row in zip(right, system, strict=True)
        ]
    return [float(one) for one in solution]


def _tanh(z: Decimal) -> Decimal:
    decay = (-2 * abs(z)).exp()
    return ((1 - decay) / (1 + decay)).copy_sign(z)


_DIGITS = Context(prec=60)
_MINIMAL_SLOPES = {1: (1.0,), 2: (0.5, 1.0), 3: (0.5, 1.0, 2.0)}
