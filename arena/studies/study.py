"""What a study is: a question, what the sources lead one to expect, cells to measure, and what is made of them."""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from arena.paper_figure import PaperFigure
from paper_checks import Scale
from paper_checks.fingerprint import fingerprint

__all__ = ["Parameters", "Row", "Study", "Table", "require_scale"]

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

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
        What was found, made of the rows: the answer and its figures, clauses parted by "; ", of which the first
        answers the question and is the sentence that is quoted, and the others are listed after it.
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

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ValueError(
                f"The study's name is {self.name!r}: files are named by it, so lower-case words with hyphens are "
                f"needed."
            )
        object.__setattr__(self, "cells", _by_scale(self.cells))

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the code that chooses and measures cells; what the library does is no part of it."""
        return fingerprint(self.cells, self.measure, extra=(repr(self.stream),), within="arena.studies")


def require_scale(scale: Any) -> Scale:
    """A scale, also by its name."""
    try:
        return Scale(scale)
    except ValueError:
        raise ValueError(
            f"scale is {scale!r}: {' or '.join(repr(one.value) for one in Scale)} is needed."
        ) from None


def _by_scale(cells: Callable[[Scale], Sequence[Parameters]]) -> Callable[[Scale], Sequence[Parameters]]:
    """The cells, with a scale that is none refused: what is not quick would pass for full."""

    @functools.wraps(cells)
    def of(scale: Scale) -> Sequence[Parameters]:
        return cells(require_scale(scale))

    return of
