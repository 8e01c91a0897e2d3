"""Fields of frozen records held to their kinds, so that JSON gives back what was written."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from attention._arrays import shown

__all__ = [
    "as_number",
    "as_plain",
    "encodes",
    "finite_or_none",
    "for_spreadsheet",
    "listed_of",
    "require_mapping",
    "require_one_of",
    "require_real",
    "require_texts",
    "require_truth",
    "require_whole",
    "wrong",
]


def wrong(record: Any, name: str, needed: str) -> ValueError:
    """The error for a field that holds what it may not."""
    shown = repr(getattr(record, name, "of another kind"))
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    return ValueError(f"{type(record).__name__}.{name} is {shown}: {needed} is needed.")


def require_texts(record: Any, *names: str) -> None:
    """Raise unless the named fields are text that UTF-8 can hold."""
    for name in names:
        value = getattr(record, name)
        if not isinstance(value, str) or not encodes(value):
            raise wrong(record, name, "text (of characters that UTF-8 has)")


def require_one_of(record: Any, name: str, allowed: Sequence[str]) -> None:
    """Raise unless the field is one of the allowed words."""
    if getattr(record, name) not in allowed:
        raise wrong(record, name, "one of " + ", ".join(allowed))


def require_truth(record: Any, name: str) -> None:
    """Raise unless the field is true or false."""
    value = getattr(record, name)
    if type(value).__name__ not in ("bool", "bool_"):
        raise wrong(record, name, "true or false")
    object.__setattr__(record, name, bool(value))


def require_whole(record: Any, name: str, *, least: int | None, optional: bool = False) -> None:
    """Raise unless the field is a whole number of at least `least`, or None where `optional`."""
    try:
        value = as_plain(getattr(record, name))
    except TypeError:
        raise wrong(record, name, "a whole number") from None
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
        raise wrong(record, name, "a whole number" + ("" if least is None else f" of at least {least}"))
    object.__setattr__(record, name, value)


def require_real(record: Any, name: str) -> None:
    """Raise unless the field is None or a number of at least 0; NaN and infinities become None."""
    try:
        value = as_number(as_plain(getattr(record, name)))
    except TypeError:
        value = -1.0
    if value is not None and value < 0:
        raise wrong(record, name, "a number of at least 0, or null,")
    object.__setattr__(record, name, value)


def as_number(value: Any) -> float | None:
    """`value` as a finite float, or None where it is not finite; TypeError when it is no number."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    try:
        return finite_or_none(float(value))
    except OverflowError:  # a whole number past the floats
        return None


def require_mapping(record: Any, name: str) -> None:
    """Raise unless the field is a mapping with text keys that JSON can hold; it becomes JSON's own."""
    value = getattr(record, name)
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise wrong(record, name, "a mapping with text keys")
    try:
        object.__setattr__(record, name, as_plain(value))
    except TypeError as error:
        raise ValueError(f"{type(record).__name__}.{name} does not go into JSON: {error}.") from None


def as_plain(value: Any) -> Any:
    """`value` as JSON gives it back: lists for tuples, Python's numbers, None for NaN and infinities."""
    if isinstance(value, Mapping):
        return {str(key): as_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(item) for item in value]
    if hasattr(value, "item") and not isinstance(value, bool | int | float | str):
        value = value.item()
    if isinstance(value, float):
        return finite_or_none(float(value))
    if isinstance(value, str) and not encodes(value):
        raise TypeError("text with characters that UTF-8 lacks has no place there")
    if value is None or isinstance(value, bool | int | str):
        return value
    raise TypeError(f"a {type(value).__name__} has no place there")


def encodes(text: str) -> bool:
    """Whether UTF-8 can hold `text`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def finite_or_none(value: float) -> float | None:
    """`value`, or None for NaN and the infinities."""
    return float(value) if math.isfinite(value) else None


def for_spreadsheet(value: Any) -> Any:
    """`value` as a field of CSV: floats to their last bit, and no text that a spreadsheet takes for a formula.

    Examples
    --------
    >>> [for_spreadsheet(value) for value in ("=1+1", "fine", 0.1, None)]
    ["'=1+1", 'fine', '0.1', None]
    """
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return repr(value) if isinstance(value, float) else value


def listed_of(name: str, values: Any, kind: type, *, least: int = 0) -> list[Any]:
    """A sequence of one kind of records as a list.

    Raises
    ------
    ValueError
        If it is no sequence, holds something else, or too little.
    """
    try:
        found = list(values)
    except TypeError:
        raise ValueError(f"{name} is {shown(values)}: a list of {kind.__name__} is needed.") from None
    if len(found) < least or not all(isinstance(one, kind) for one in found):
        raise ValueError(f"{name} is {shown(values)}: a list of {kind.__name__} is needed.")
    return found
