"""CSV as all files of this package are written."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from arena._fields import for_spreadsheet

__all__ = ["csv_text"]


def csv_text(names: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    r"""A header and rows as CSV.

    Parameters
    ----------
    names : sequence of str
        The header.
    rows : iterable of iterables
        The values of each row, in the order of the header: floats are written to their last bit, and text that a
        spreadsheet would run is disarmed.

    Returns
    -------
    str
        Lines that end as RFC 4180 has it, in a carriage return and a line feed.

    Examples
    --------
    >>> csv_text(("name", "value"), [("=1+1", 0.1), ("a\rb", None)])
    'name,value\r\n\'=1+1,0.1\r\n"a\rb",\r\n'
    """
    out = io.StringIO()
    # what is in the ending is quoted in a field, a lone carriage return too
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(names)
    writer.writerows([for_spreadsheet(value) for value in row] for row in rows)
    return out.getvalue()
