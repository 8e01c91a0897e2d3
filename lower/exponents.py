"""A running time and a query bound as powers of d, side by side."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from attention.validation import count
from lower.bounds import Number, exact_fraction

if TYPE_CHECKING:
    import sympy

__all__ = ["ExponentComparison", "compare_exponents"]


# a line is printed for each
_MOST_HEADS = 10_000


@dataclass(frozen=True)
class ExponentComparison:
    """The powers of d in a running time (dk)^(c m^3) and in a query bound, side by side.

    The bound is that of the parities of m heads: d^(2m - 1 - 2t) for two tokens. Where the number of tokens grows
    with d only the parities of each token are at hand, of m bits: d^(m - 2t).

    Attributes
    ----------
    constant : Fraction
        c.
    tokens_exponent : Fraction
        kappa, where k = d^kappa; 0 for two tokens.
    tolerance_exponent : Fraction
        t, where tau = d^-t; 0 for a fixed tolerance.
    heads : tuple of int
        The numbers m compared.
    """

    constant: Fraction
    tokens_exponent: Fraction
    tolerance_exponent: Fraction
    heads: tuple[int, ...]

    def upper(self, heads: int) -> Fraction:
        """The exponent of the running time: c (1 + kappa) m^3."""
        return self.constant * (1 + self.tokens_exponent) * count("heads", heads) ** 3

    def lower(self, heads: int) -> Fraction:
        """The exponent of the query bound: 2m - 1 - 2t, or m - 2t where k grows, and not below 0."""
        factor, shift = self._line
        return max(Fraction(0), factor * count("heads", heads) - shift)

    @property
    def _line(self) -> tuple[int, Fraction]:
        """The exponent of the query bound as a m - b."""
        if self.tokens_exponent:
            return 1, 2 * self.tolerance_exponent
        return 2, 1 + 2 * self.tolerance_exponent

    @property
    def contradicted(self) -> tuple[int, ...]:
        """The numbers of heads at which the running time's exponent lies below the query bound's."""
        return tuple(m for m in self.heads if self.upper(m) < self.lower(m))

    @property
    def least_constant(self) -> Fraction:
        """The least c at which no number of heads at all is contradicted.

        Notes
        -----
        (a m - b) / m^3 rises up to m = 3 b / (2 a) and falls from there on: one of the two whole numbers beside it, or
        m = 1, has the largest.
        """
        factor, shift = self._line
        turn = Fraction(3, 2) * shift / factor
        beside = {max(1, math.floor(turn)), max(1, math.ceil(turn))}
        return max(self.lower(m) / ((1 + self.tokens_exponent) * m**3) for m in beside)

    def crossings(self) -> "tuple[sympy.Expr, ...]":
        """The real numbers m > 0 at which the two exponents are the same, exactly, in increasing order.

        Between the first and the second the query bound's exponent is the larger one.
        """
        import sympy

        m = sympy.Symbol("m", positive=True)
        slope, offset = self._line
        factor, shift = (
            sympy.Rational(value.numerator, value.denominator)
            for value in (self.constant * (1 + self.tokens_exponent), Fraction(offset))
        )
        roots = sympy.real_roots(sympy.Poly(factor * m**3 - slope * m + shift, m))
        return tuple(sorted({root for root in roots if root > 0}))

    def __str__(self) -> str:
        claimed = f"(dk)^({self.constant} m^3)"
        power = "m" if self.tokens_exponent else "2m-1"
        bound = (
            f"d^({power})" if not self.tolerance_exponent else f"d^({power}-{2 * self.tolerance_exponent})"
        )
        given = [f"k = d^{self.tokens_exponent}" if self.tokens_exponent else "k = 2"]
        given.append(f"tau = d^-{self.tolerance_exponent}" if self.tolerance_exponent else "tau fixed")
        lines = [
            f"Powers of d in a running time {claimed} and in the query bound {bound} ({', '.join(given)})",
            f"{'m':>4} {'time':>10} {'queries':>10}",
        ]
        for m in self.heads:
            upper, lower = self.upper(m), self.lower(m)
            verdict = "below the query bound" if upper < lower else "above it" if upper > lower else "equal"
            lines.append(f"{m:>4} {_decimal(upper):>10} {_decimal(lower):>10}  {verdict}")
        where = ", ".join(f"{float(root):.4g}" for root in self.crossings()) or "nowhere"
        lines.append(
            f"The exponents cross at m = {where}; from c = {self.least_constant} on the time is never below."
        )
        lines.append(
            "Below: for large d, too fast for any learner by correlational queries of that tolerance."
        )
        if self.tokens_exponent:
            lines.append(
                "A time that is to hold for every k is held to d^(2m-1) at k = 2 as well: leave kappa out."
            )
        lines.append("Learners that ask no statistical queries are not bound.")
        return "\n".join(lines)


def compare_exponents(
    constant: Number | int,
    *,
    tokens_exponent: Number | int = 0,
    tolerance_exponent: Number | int = 0,
    most_heads: int = 6,
) -> ExponentComparison:
    """A caller's running time (dk)^(c m^3) beside the query bound d^(2m - 1), as powers of d.

    Parameters
    ----------
    constant : int, float, Fraction or str
        c, above 0. The paper leaves it inside an O(): it is the caller's.
    tokens_exponent : int, float, Fraction or str
        kappa, for k = d^kappa tokens; 0 is for two tokens, whatever d.
    tolerance_exponent : int, float, Fraction or str
        t, for queries of tolerance d^-t: the bound falls to d^(2m - 1 - 2t). 0 leaves the tolerance fixed.
    most_heads : int
        m runs from 1 to this.

    Raises
    ------
    ValueError
        If `constant` is not above 0 or another exponent is negative.

    References
    ----------
    The form (dk)^O(m^3) of the time is the paper's (Chen and Li 2025), and so is d^Omega(m) of the bound; the exponent
    2m - 1 is derived here, for two tokens.

    Examples
    --------
    >>> print(compare_exponents("1/4", most_heads=3))
    Powers of d in a running time (dk)^(1/4 m^3) and in the query bound d^(2m-1) (k = 2, tau fixed)
       m       time    queries
       1       0.25          1  below the query bound
       2          2          3  below the query bound
       3       6.75          5  above it
    The exponents cross at m = 0.5173, 2.534; from c = 1 on the time is never below.
    Below: for large d, too fast for any learner by correlational queries of that tolerance.
    Learners that ask no statistical queries are not bound.
    """
    c = exact_fraction("constant", constant)
    if c <= 0:
        raise ValueError(f"constant is {constant}: a number above 0 is needed.")
    kappa = exact_fraction("tokens_exponent", tokens_exponent)
    t = exact_fraction("tolerance_exponent", tolerance_exponent)
    for name, value in (("tokens_exponent", kappa), ("tolerance_exponent", t)):
        if value < 0:
            raise ValueError(f"{name} is {float(value):.6g}: a number of at least 0 is needed.")
    return ExponentComparison(
        c, kappa, t, tuple(range(1, count("most_heads", most_heads, most=_MOST_HEADS) + 1))
    )


def _decimal(value: Fraction) -> str:
    return f"{float(value):.6g}"
