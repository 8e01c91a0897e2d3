"""What the study of positions found, as a table."""

from collections.abc import Sequence

import numpy as np

from arena.studies._positions_words import CENTRED, NAMES, RAW, exact, median, newton_rows, rows_of, scales_of
from arena.studies.study import Row, Table
from paper_checks import proportion_interval

__all__ = ["positions_table"]


def positions_table(rows: Sequence[Row]) -> Table:
    """A row for each kind and scale and each k."""
    header = (
        "k",
        "positions and scale",
        "phase 1 (derived)",
        "centred (derived)",
        "span",
        "span, centred",
        "after Newton's iterates, centred",
        "Newton alone",
        "Gram / Adam's error",
    )
    lines = []
    for k in sorted({row["tokens"] for row in rows}):
        for kind in ("none", *NAMES):
            here = [row for row in rows if (row["tokens"], row["kind"]) == (k, kind)]
            for scale in scales_of(here):
                at = rows_of(here, "phases", scale=scale)
                budgets = sorted({row["floors"] for row in rows_of(here, "newton", scale=scale)})
                solved, adam = newton_rows(here, scale=scale), rows_of(here, "adam", scale=scale)
                condition = f"{np.median([row['condition'] for row in solved]):.0f}" if solved else "–"
                lines.append(
                    (
                        str(k),
                        f"{NAMES.get(kind, kind)}, {scale:g}",
                        _with_derived(at, RAW),
                        _with_derived(at, CENTRED),
                        f"{median(at, 'span', RAW):.1e}" if at else "–",
                        f"{median(at, 'span', CENTRED):.1e}" if at else "–",
                        "{} of {}".format(*exact(at, "final", CENTRED)) if at else "–",
                        _success(solved, [newton_rows(here, floors, scale=scale) for floors in budgets[1:]]),
                        f"{condition} / {median(adam, 'error'):.1e}" if adam else f"{condition} / –",
                    )
                )
    return Table(header, tuple(lines))


def _with_derived(rows: Sequence[Row], way: str) -> str:
    return f"{median(rows, 'crude', way):.2g} ({median(rows, 'predicted', way):.2g})" if rows else "–"


def _success(rows: Sequence[Row], more: Sequence[Sequence[Row]] = ()) -> str:
    if not rows:
        return "–"
    hits, trials = exact(rows, "error")
    interval = proportion_interval(hits, trials, confidence=0.95)
    others = ("; {} of {} at {} floors".format(*exact(one, "error"), one[0]["floors"]) for one in more)
    return f"{hits} of {trials} ({interval.low:.2f} to {interval.high:.2f}){''.join(others)}"
