"""Experiments on linear attention in plain text: aligned tables, checks and findings."""

from arena.plain import aligned, folded
from paper_checks.linear_attention import Cell, Experiment, Table

__all__ = ["cell_text", "experiment_text", "table_text"]


def cell_text(value: Cell) -> str:
    """An entry of a table as people read it: numbers to three digits.

    Examples
    --------
    >>> [cell_text(value) for value in (None, True, 1152, 0.25, 3.3786, 1e-13, 0.0, "Haar")]
    ['-', 'yes', '1152', '0.25', '3.38', '1.0e-13', '0', 'Haar']
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if value == 0:
            return "0"
        if abs(value) < 1e-3 or abs(value) >= 1e5:
            return f"{value:.1e}"
        return f"{value:.3g}"
    return str(value)


def table_text(table: Table) -> str:
    """A table in aligned columns, text to the left and numbers to the right, with its title and its note."""
    left = 0
    for column in range(len(table.columns)):
        if not all(isinstance(row[column], str) for row in table.rows):
            break
        left = column + 1
    rows = [table.columns, *(tuple(cell_text(value) for value in row) for row in table.rows)]
    lines = [table.title, "", aligned(rows, left=left)]
    return "\n".join([*lines, *(["", *folded([table.note])] if table.note else [])])


def experiment_text(experiment: Experiment) -> str:
    """Everything an experiment says, in a hundred columns."""
    lines = [experiment.title, "=" * len(experiment.title), ""]
    for table in experiment.tables:
        lines += [table_text(table), ""]
    for check in experiment.checks:
        mark = "holds" if check.holds else "DOES NOT HOLD"
        lines += folded([f"{mark}: {check.claim}: {check.measured} (expected {check.expected})"])
    lines += ["", *folded(experiment.findings)]
    return "\n".join(lines)
