"""What differs from run to run, taken out: lines on standard error, and seconds in results."""

import re
from dataclasses import replace


def without_progress(text):
    """The text without how far a run is, which a command says only where it takes seconds, as on a slow machine."""
    return re.sub(r"^\d+ of \d+\b.*\n", "", text, flags=re.M)


def without_seconds(results):
    """The results without times and without how the run was started, to compare two runs bit for bit."""
    cells = (
        replace(cell, seconds=None, trace=tuple(replace(point, seconds=None) for point in cell.trace))
        for cell in results.cells
    )
    made = {name: results.made[name] for name in ("preset", "versions", "seeds")}
    return replace(results, made=made, cells=tuple(cells))
