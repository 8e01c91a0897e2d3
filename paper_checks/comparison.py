"""Comparisons: a measured value, the expected value, and the rule that compares them."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from studies.intervals import Interval

__all__ = [
    "Comparison",
    "at_least",
    "at_most",
    "close",
    "covers",
    "equal",
    "may_be_at_least",
    "may_be_at_most",
    "surely_above",
    "surely_below",
]

_WHOLE = "the whole interval"


class Comparison(msgspec.Struct, frozen=True, omit_defaults=True):
    """One figure compared with the value in the claim.

    Attributes
    ----------
    what : str
        What was measured, in words.
    measured, expected : str
        The two values, as text.
    rule : str
        How they are compared, such as "within 1e-12" or "99.9 % interval".
    holds : bool
        Whether they agree.
    false_alarm : float
        The chance that the rule refuses a true claim; 0 unless it is statistical.
    """

    what: str
    measured: str
    expected: str
    rule: str
    holds: bool
    false_alarm: float = 0.0


def equal(what: str, measured: Any, expected: Any) -> Comparison:
    """Require whole or rational numbers, symbols, truth values or lists of them to be equal.

    Parameters
    ----------
    what : str
        What was measured.
    measured, expected
        Anything with ``==``; use `close` for floating-point numbers.

    Returns
    -------
    Comparison

    Raises
    ------
    TypeError
        If one of them holds floating-point numbers that are not whole.
    """
    measured, expected = _plain(measured), _plain(expected)
    for value in (measured, expected):
        if _has_fraction(value):
            raise TypeError(f"{what}: {value!r} is a floating-point number; compare it by close().")
    return Comparison(what, _shown(measured), _shown(expected), "equal", measured == expected)


def close(
    what: str, measured: float, expected: float, *, absolute: float = 0.0, relative: float = 0.0
) -> Comparison:
    """Require two numbers to agree within a tolerance, ``absolute + relative * |expected|``.

    Parameters
    ----------
    what : str
        What was measured.
    measured, expected : float
        The two numbers.
    absolute, relative : float
        The tolerance; at least one of them is positive.

    Returns
    -------
    Comparison
        It does not hold if a number is not finite.

    Raises
    ------
    ValueError
        If there is no tolerance.
    """
    if not (absolute > 0 or relative > 0):
        raise ValueError(f"{what}: close() needs a tolerance; give absolute or relative above 0.")
    parts = [f"{absolute:.3g}"] if absolute else []
    parts += [f"{100 * relative:.3g} %"] if relative else []
    difference = abs(float(measured) - float(expected))
    holds = math.isfinite(difference) and difference <= absolute + relative * abs(float(expected))
    return Comparison(what, _shown(measured), _shown(expected), f"within {' + '.join(parts)}", holds)


def at_most(what: str, measured: float, bound: float) -> Comparison:
    """Require a number to be at most a bound; NaN fails."""
    return _bounded(what, measured, "<=", bound)


def at_least(what: str, measured: float, bound: float) -> Comparison:
    """Require a number to be at least a bound; NaN fails."""
    return _bounded(what, measured, ">=", bound)


def covers(what: str, interval: Interval, expected: float, *, margin: float = 0.0) -> Comparison:
    """Require an interval to contain the expected number.

    Parameters
    ----------
    what : str
        What was measured.
    interval : Interval
        From `studies.intervals`.
    expected : float
        The claim's number.
    margin : float
        The uncertainty of the expected number itself, such as half its last digit.

    Returns
    -------
    Comparison
    """
    shown = _shown(expected) + (f" ± {margin:.2g}" if margin else "")
    return _statistical(
        what,
        interval,
        shown,
        "covered by the interval",
        lambda low, high: low - margin <= expected <= high + margin,
    )


def may_be_at_most(what: str, interval: Interval, bound: float) -> Comparison:
    """Require that an interval allows a number of at most the bound: its low end is not above the bound."""
    return _statistical(what, interval, f"<= {_shown(bound)}", "not refuted", lambda low, high: low <= bound)


def may_be_at_least(what: str, interval: Interval, bound: float) -> Comparison:
    """Require that an interval allows a number of at least the bound: its high end is not below the bound."""
    return _statistical(what, interval, f">= {_shown(bound)}", "not refuted", lambda low, high: high >= bound)


def surely_below(what: str, interval: Interval, bound: float) -> Comparison:
    """Require the whole interval to be below the bound.

    It refuses claims that are only just true more often than the interval's confidence says. Use it for figures that
    are far from the bound.
    """
    return _statistical(what, interval, f"< {_shown(bound)}", _WHOLE, lambda low, high: high < bound)


def surely_above(what: str, interval: Interval, bound: float) -> Comparison:
    """Require the whole interval to be above the bound; see `surely_below`."""
    return _statistical(what, interval, f"> {_shown(bound)}", _WHOLE, lambda low, high: low > bound)


def _bounded(what: str, measured: float, sign: str, bound: float) -> Comparison:
    holds = bool(measured <= bound if sign == "<=" else measured >= bound)
    return Comparison(what, _shown(measured), f"{sign} {_shown(bound)}", "bound", holds)


def _statistical(
    what: str, interval: Interval, expected: str, rule: str, holds: Callable[[float, float], bool]
) -> Comparison:
    return Comparison(
        what,
        f"{_shown(interval.estimate)} [{_shown(interval.low)}, {_shown(interval.high)}]",
        expected,
        f"{rule}, {100 * interval.confidence:.6g} %, {interval.method}",
        bool(holds(interval.low, interval.high)),
        1 - interval.confidence,
    )


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


def _has_fraction(value: Any) -> bool:
    if isinstance(value, list):
        return any(_has_fraction(one) for one in value)
    return isinstance(value, float) and not value.is_integer()


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, np.generic):
        return _shown(value.item())
    if isinstance(value, float):
        if math.isfinite(value) and value == round(value) and abs(value) < 1e6:
            return str(int(value))
        return f"{value:.4g}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_shown(one) for one in value)
    return str(value)
