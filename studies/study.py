"""What a study is: a question, the cells that answer it, and what is shown of them; and which studies there are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from runs import Scale

__all__ = ["STUDIES", "Parameters", "Row", "Study", "find_studies"]

Parameters = Mapping[str, Any]
"""One cell: the arguments of the measurement, JSON values."""
Row = Mapping[str, Any]
"""A cell and what was measured of it, in one: JSON values."""


@dataclass(frozen=True)
class Study:
    """A question answered with numbers; its page in the documentation says what they mean.

    Attributes
    ----------
    name : str
        What the command line calls it: lower-case words with hyphens.
    title : str
        The heading of its page.
    question : str
        What is asked, a sentence.
    cells : callable
        The cells of a scale; each has other parameters than every other.
    measure : callable
        ``measure(rng=rng, **cell)`` gives what was measured of a cell, JSON values by name. A function of a module; it
        runs in a process of its own, in one thread.
    numbers : callable
        What the sentences of its page quote, by name: numbers, or short texts such as "45 of 100".
    table : callable
        The rows as a table that fits a page: a mapping from column to text for each line, all of the same columns.
    figure : callable
        The rows as a figure of matplotlib.
    stream : tuple of str or None
        The parameters that decide what is drawn at random: cells that differ in others only draw the same. None for
        all of them.
    needs : tuple of str
        Optional packages it cannot do without.

    Notes
    -----
    `numbers`, `table` and `figure` get the rows of the cells that were measured, in the order of the cells. Some may be
    missing; `numbers` may then leave out names.
    """

    name: str
    title: str
    question: str
    cells: Callable[[Scale], Sequence[Parameters]]
    measure: Callable[..., Mapping[str, Any]]
    numbers: Callable[[Sequence[Row]], Mapping[str, Any]]
    table: Callable[[Sequence[Row]], Sequence[Mapping[str, str]]]
    figure: Callable[[Sequence[Row]], Any]
    stream: tuple[str, ...] | None = None
    needs: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """The packages it needs that are not installed."""
        return tuple(name for name in self.needs if find_spec(name) is None)


STUDIES = (
    "conditions",
    "violations",
    "inputs",
    "noise",
    "tokens",
    "agreement",
    "symmetry",
    "nice-to-hard",
    "weightings",
    "positions",
    "cost",
    "linear-random",
    "linear-ranks",
    "linear-heads",
    "linear-adam",
    "linear-key-value",
    "linear-automata",
    "linear-turing",
    "linear-softmax",
)
"""Names of the studies in the order of their pages; the module of each has its name with underscores."""


def find_studies(names: Sequence[str]) -> list[Study]:
    """The studies of these names in the order given, each once; "all" stands for every one.

    Raises
    ------
    ValueError
        If there is no study of a name.

    Examples
    --------
    >>> [study.title for study in find_studies(["linear-heads"])]
    ['From coefficients to heads']
    """
    if unknown := [name for name in names if name not in (*STUDIES, "all")]:
        raise ValueError(f"There is no study {unknown[0]!r}: choose among {', '.join(STUDIES)}, or all.")
    wanted = STUDIES if "all" in names else dict.fromkeys(names)
    return [import_module(f"studies.{name.replace('-', '_')}").STUDY for name in wanted]
