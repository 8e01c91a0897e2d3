"""A study (a question, the cells that answer it, a table and a figure), and the list of studies."""

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
"""A cell together with its measurements: JSON values."""


@dataclass(frozen=True)
class Study:
    """A question answered with numbers; its page in the documentation explains them.

    Attributes
    ----------
    name : str
        The name on the command line: lower-case words with hyphens.
    title : str
        The heading of its page.
    question : str
        The question, as one sentence.
    cells : callable
        The cells of a scale; no two have the same parameters.
    measure : callable
        ``measure(rng=rng, **cell)`` returns the measurements of a cell, JSON values by name. It must be a function of a
        module; it runs in a separate process, in one thread.
    numbers : callable
        The values that its page quotes, by name: numbers, or short texts such as "45 of 100".
    table : callable
        The rows as a table that fits a page: for each line a mapping from column to text, with the same columns.
    figure : callable
        The rows as a figure of matplotlib.
    stream : tuple of str or None
        The parameters that decide what is drawn at random. Cells that differ only in other parameters draw the same.
        None means all parameters.
    needs : tuple of str
        Optional packages that it needs.

    Notes
    -----
    `numbers`, `table` and `figure` get the rows of the measured cells, in the order of the cells. Some cells may be
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
        """The required packages that are not installed."""
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
    "queries-by-dimension",
    "query-noise",
    "low-degree",
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
    """The studies with these names in the order given, each once; "all" stands for every study.

    Raises
    ------
    ValueError
        If a name is not a study.

    Examples
    --------
    >>> [study.title for study in find_studies(["linear-heads"])]
    ['From coefficients to heads']
    """
    if unknown := [name for name in names if name not in (*STUDIES, "all")]:
        raise ValueError(f"There is no study {unknown[0]!r}: choose among {', '.join(STUDIES)}, or all.")
    wanted = STUDIES if "all" in names else dict.fromkeys(names)
    return [import_module(f"studies.{name.replace('-', '_')}").STUDY for name in wanted]
