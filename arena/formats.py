"""Formats: numbers in a few characters, plurals and sentences, columns of text, values as JSON, rows as CSV."""

import csv
import io
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any


def error_text(error: float | int | None) -> str:
    """An error in at most six characters; None (not finite) is an infinity.

    Examples
    --------
    >>> [error_text(error) for error in (4.4e-16, 0.0, 0.0042, 0.3141, 1.042, 31.4, 1e5, None)]
    ['4e-16', '0', '0.0042', '0.314', '1.04', '31', '1e5', 'inf']
    """
    if error is None or math.isinf(error):
        return "inf"
    if error == 0:
        return "0"
    # the rounded number decides, so that 0.9996 is 1.00 and not 1.000
    if (digits := float(f"{error:.2e}")) >= 1:
        return f"{error:.2f}" if digits < 9.995 else f"{error:.0f}" if digits < 9999 else _power(error)
    return f"{error:.3f}" if digits >= 0.01 else f"{error:.4f}" if digits >= 0.001 else _power(error)


def _power(value: float | int) -> str:
    mantissa, exponent = f"{value:.0e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def count_text(count: float | int | None) -> str:
    """A number of examples in at most five characters.

    Examples
    --------
    >>> [count_text(count) for count in (0, 344, 2048, 768_000, 1_500_000, None)]
    ['0', '344', '2.0k', '768k', '1.5M', '-']
    """
    if count is None or math.isnan(count):
        return "-"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= 0.9995 * size:
            scaled = count / size
            return f"{scaled:.1f}{unit}" if scaled < 9.95 else f"{scaled:.0f}{unit}"
    return f"{count:.0f}"


def number_text(value: float | int | tuple[float, ...]) -> str:
    """A count in full, any other number as `error_text` gives it, and several with commas between them.

    Examples
    --------
    >>> [number_text(value) for value in (1568.0, 0.0457, (19600.4, math.inf), math.nan)]
    ['1,568', '0.046', '2e4, inf', '-']
    """
    if isinstance(value, tuple):
        return ", ".join(map(number_text, value))
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) < 1e9 and value == round(value) else error_text(value)


def seconds_text(seconds: float | int | None) -> str:
    """A time in at most six characters.

    Examples
    --------
    >>> [seconds_text(seconds) for seconds in (0.0004, 0.51, 7.31, 83.2, 5400, None)]
    ['<1 ms', '0.51 s', '7.3 s', '83 s', '90 min', '-']
    """
    if seconds is None or math.isnan(seconds):
        return "-"
    if seconds < 0.001:
        return "<1 ms"
    if seconds < 0.0995:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 600:
        digits = 2 if seconds < 0.995 else 1 if seconds < 9.95 else 0
        return f"{seconds:.{digits}f} s"
    return f"{seconds / 60:.0f} min" if seconds < 36000 else f"{seconds / 3600:.0f} h"


def aligned(rows: Sequence[Sequence[str]], *, left: int = 0) -> str:
    """Columns of text; the first `left` columns are aligned left and the others right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = (
        "  ".join(
            text.ljust(width) if place < left else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def folded(sentences: Sequence[str]) -> list[str]:
    """Sentences wrapped at a hundred characters; lines after the first are indented."""
    return [line for one in sentences for line in textwrap.wrap(one, 100, subsequent_indent="  ")]


def plural(n: int, one: str, many: str | None = None) -> str:
    """The number `n` followed by the noun in the right form.

    Examples
    --------
    >>> plural(1, "head"), plural(2, "head"), plural(2, "study", "studies")
    ('1 head', '2 heads', '2 studies')
    """
    return f"{n} {one}" if n == 1 else f"{n} {many or one + 's'}"


def sentence(text: str) -> str:
    """`text` with a capital at the beginning and one full stop at the end.

    Examples
    --------
    >>> sentence("it ended"), sentence("It ended.")
    ('It ended.', 'It ended.')
    """
    return text[:1].upper() + text[1:].rstrip(".") + "."


def as_plain(value: Any) -> Any:
    """`value` after a round trip through JSON: lists for tuples, Python's numbers, None for NaN and infinities."""
    if isinstance(value, Mapping):
        return {str(key): as_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(item) for item in value]
    if hasattr(value, "item") and not isinstance(value, bool | int | float | str):
        value = value.item()
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    raise TypeError(f"a {type(value).__name__} has no place there")


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    r"""Rows as CSV, with the columns of all of them: floats are exact, and no text is a formula for a spreadsheet.

    Examples
    --------
    >>> csv_text([{"target": "=1+1", "error": 0.1}])
    "target,error\r\n'=1+1,0.1\r\n"
    """
    out = io.StringIO()
    writer = csv.writer(out)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer.writerow(columns)
    writer.writerows([_csv_value(row.get(name)) for name in columns] for row in rows)
    return out.getvalue()


def _csv_value(value: Any) -> Any:
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(float(value))
    harmful = isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r")
    return f"'{value}" if harmful else value
