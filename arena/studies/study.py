"""What a study is: a question, what the sources lead one to expect, cells to measure, and what is made of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from arena.paper_figure import PaperFigure
from paper_checks import Scale
from paper_checks.fingerprint import fingerprint

__all__ = ["Parameters", "Row", "Study", "Table"]

Parameters = Mapping[str, Any]
"""One cell: the arguments of the measurement, plain JSON values."""
Row = Mapping[str, Any]
"""A cell and what was measured of it, in one: plain JSON values."""


@dataclass(frozen=True)
class Table:
    """A table of a study, in words.

    Attributes
    ----------
    header : tuple of str
        The columns.
    rows : tuple of tuple of str
        The cells, as they are shown.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        uneven = [row for row in self.rows if len(row) != len(self.header)]
        if uneven:
            raise ValueError(f"A row has {len(uneven[0])} cells where the header has {len(self.header)}.")


@dataclass(frozen=True)
class Study:
    """A question answered with numbers.

    Attributes
    ----------
    name : str
        What the command line calls it: lower-case words with hyphens.
    title : str
        The heading of its page.
    question : str
        What is asked, a sentence.
    expected : str
        What the sources lead one to expect, a sentence that names them.
    limits : str
        What it does not show, a sentence.
    how : str
        What is measured, of what, how often: a paragraph.
    cells : callable
        The cells of a scale; each has other parameters than every other.
    measure : callable
        ``measure(rng=rng, **cell)`` gives what was measured of a cell, plain JSON values by name. A function of a
        module, which runs in a process of its own, in one thread.
    found : callable
        What was found, a sentence made of the rows.
    table : callable
        The rows as a table that fits a page.
    draw : callable
        The rows as a figure.
    stream : tuple of str or None
        The parameters that decide what is drawn at random: cells that differ in others only draw the same. None for
        all of them.
    needs : tuple of str
        Optional packages it cannot do without.

    Notes
    -----
    `found`, `table` and `draw` get the rows of the cells that were measured, in the order of the cells, and must do
    with fewer than all of them.
    """

    name: str
    title: str
    question: str
    expected: str
    limits: str
    how: str
    cells: Callable[[Scale], Sequence[Parameters]]
    measure: Callable[..., Mapping[str, Any]]
    found: Callable[[Sequence[Row]], str]
    table: Callable[[Sequence[Row]], Table]
    draw: Callable[[Sequence[Row]], PaperFigure]
    stream: tuple[str, ...] | None = None
    needs: tuple[str, ...] = ()

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the code that chooses and measures cells; what the library does is no part of it."""
        return fingerprint(self.cells, self.measure, extra=(repr(self.stream),), within="arena.studies")
