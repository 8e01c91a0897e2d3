"""Rounding outward: bounds computed to many digits, stored in float64 without falling below their value."""

import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, DivisionByZero, InvalidOperation, Overflow
from typing import Annotated

from attention.validation import Whole, checked

__all__ = ["outward_context", "rounded_up"]

_SLACK = Decimal("1e-30")
_LEAST = Decimal("1e-400")


@checked
def outward_context(digits: Annotated[int, Whole(1, 10**6)] = 50) -> Context:
    """A decimal context of `digits` digits whose exponents are wide enough for e^-beta at any float64 slope."""
    return Context(
        prec=digits,
        Emin=MIN_EMIN,
        Emax=MAX_EMAX,
        traps=[InvalidOperation, DivisionByZero, Overflow],
    )


@checked
def rounded_up(value: Decimal, *, positive: bool) -> float:
    """A float64 number that is at least `value`, a non-negative decimal right to 30 digits or more.

    Parameters
    ----------
    value : Decimal
        The bound as computed.
    positive : bool
        Whether the true number is positive: then the result is too, however small `value` is.

    Examples
    --------
    >>> rounded_up(Decimal("1e-434"), positive=True), rounded_up(Decimal(0), positive=False)
    (5e-324, 0.0)
    """
    if not value.is_finite() or value < 0:
        raise ValueError(f"value is {value}: a finite Decimal of at least 0 is needed.")
    with_slack = Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX).multiply(value, 1 + _SLACK)
    target = max(with_slack, _LEAST) if positive else with_slack
    nearest = float(target)
    return nearest if Decimal(nearest) >= target else math.nextafter(nearest, math.inf)
