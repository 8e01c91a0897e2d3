"""Comparisons: a measured value, the expected value, and the rule that compares them."""

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from studies.intervals import Interval


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
        The chance that the rule refuses a true claim; 0 unless it is about an interval of random draws.
    """

    what: str
    measured: str
    expected: str
    rule: str
    holds: bool
    false_alarm: float = 0.0


def equal(what: str, measured: Any, expected: Any) -> Comparison:
    """Require whole or rational numbers, symbols, truth values or lists of them to be equal.

    Raises
    ------
    TypeError
        If one of them holds floating-point numbers that are not whole: these are for `close`.
    """
    measured, expected = _plain(measured), _plain(expected)
    for value in (measured, expected):
        if _has_fraction(value):
            raise TypeError(f"{what}: {value!r} is a floating-point number; compare it by close().")
    return Comparison(what, _shown(measured), _shown(expected), "equal", measured == expected)


def close(
    what: str, measured: float, expected: float, *, absolute: float = 0.0, relative: float = 0.0
) -> Comparison:
    """Require two finite numbers to agree within ``absolute + relative * |expected|``.

    Raises
    ------
    ValueError
        If neither tolerance is positive.
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
    return Comparison(what, _shown(measured), f"<= {_shown(bound)}", "bound", bool(measured <= bound))


def at_least(what: str, measured: float, bound: float) -> Comparison:
    """Require a number to be at least a bound; NaN fails."""
    return Comparison(what, _shown(measured), f">= {_shown(bound)}", "bound", bool(measured >= bound))


def covers(what: str, interval: Interval, expected: float, *, margin: float = 0.0) -> Comparison:
    """Require an interval, widened by a margin for the expected number itself, to contain that number."""
    shown = _shown(expected) + (f" ± {margin:.2g}" if margin else "")
    holds = interval.low - margin <= expected <= interval.high + margin
    return _statistical(what, interval, shown, "covered by the interval", holds)


def may_be_at_most(what: str, interval: Interval, bound: float) -> Comparison:
    """Require that an interval allows a number of at most the bound: its low end is not above the bound."""
    return _statistical(what, interval, f"<= {_shown(bound)}", "not refuted", interval.low <= bound)


def surely_below(what: str, interval: Interval, bound: float) -> Comparison:
    """Require the whole interval to be below the bound, for figures that are far from it.

    It refuses claims that are only just true more often than the interval's confidence says.
    """
    return _statistical(what, interval, f"< {_shown(bound)}", "the whole interval", interval.high < bound)


def surely_above(what: str, interval: Interval, bound: float) -> Comparison:
    """Require the whole interval to be above the bound; see `surely_below`."""
    return _statistical(what, interval, f"> {_shown(bound)}", "the whole interval", interval.low > bound)


def _statistical(what: str, interval: Interval, expected: str, rule: str, holds: bool) -> Comparison:
    measured = f"{_shown(interval.estimate)} [{_shown(interval.low)}, {_shown(interval.high)}]"
    rule = f"{rule}, {100 * interval.confidence:.6g} %, {interval.method}"
    return Comparison(what, measured, expected, rule, bool(holds), round(1 - interval.confidence, 9))


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value


def _has_fraction(value: Any) -> bool:
    if isinstance(value, list):
        return any(_has_fraction(entry) for entry in value)
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
        return ", ".join(_shown(entry) for entry in value)
    return str(value)
