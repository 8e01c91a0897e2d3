"""Plain text of a fixed width: aligned columns and folded sentences."""

import textwrap
from collections.abc import Sequence

__all__ = ["aligned", "folded"]

_WIDTH = 100


def aligned(rows: Sequence[Sequence[str]], *, left: int = 0) -> str:
    """Columns of text, the first `left` of them against the left edge and the others against the right one."""
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
    """Sentences as lines of at most a hundred letters, those after the first indented."""
    return [line for one in sentences for line in textwrap.wrap(one, _WIDTH, subsequent_indent="  ")]
