"""A study: a question and the cells that answer it; how the cells are measured; the list of studies."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from attention.validation import NonNegativeInt
from runs import Cell, Scale, fingerprint, run, versions

Scalar = str | int | float | bool | None
Parameters = Mapping[str, Any]
"""One cell: the arguments of the measurement, each a scalar."""
Row = Mapping[str, Any]
"""The parameters of a cell and its measurements, each a scalar."""
Table = Sequence[Mapping[str, Any]]
"""Lines with the same columns: numbers, texts, or None."""

STUDIES = (
    "conditions",
    "violations",
    "inputs",
    "noise",
    "agreement",
    "symmetry",
    "nice-to-hard",
    "weightings",
    "positions",
    "queries-by-dimension",
    "query-noise",
    "block-queries",
    "two-blocks",
    "serving",
    "low-degree",
    "linear-learning",
    "linear-tasks",
)
"""Names of the studies in the order of their pages; the module of each has its name with underscores.

The docstring of a module is the title and the question. Its functions `cells`, `measure`, `numbers`, `tables` and
`figure`, and its constants `STREAM` and `NEEDS`, if it has them, are those of `Study`.
"""


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
        ``measure(rng=rng, **cell)`` returns the measurements of a cell, scalars by name, or several such rows. It must
        be a function of a module; it runs in a separate process, in one thread.
    numbers : callable
        The values that its page quotes, by name: numbers, or short texts such as "45 of 100".
    tables : callable
        The tables of its page, by name; `studies.rows.table` makes one.
    figure : callable
        The rows as a figure of matplotlib; `studies.line_figure` makes one.
    stream : tuple of str or None
        The parameters that decide what is drawn at random. Cells that differ only in other parameters draw the same.
        None means all parameters.
    needs : tuple of str
        Optional packages that it needs.
    objects : mapping
        Further arguments of `measure`, the same for all cells, that are no scalars. Cells must distinguish them.
    following : callable
        Further cells, by the rows measured so far; it is asked until it names no new cell.
    seconds : float, optional
        How long a cell may take by default.
    timed_out : mapping, optional
        The measurements of a cell that took too long; without it such a cell fails.

    Notes
    -----
    `numbers`, `tables`, `figure` and `following` get the rows of the measured cells, in the order of the cells. Some
    cells may be missing; `numbers` may then leave out names.
    """

    name: str
    title: str
    question: str
    cells: Callable[[Scale], Iterable[Parameters]]
    measure: Callable[..., Mapping[str, Any] | Sequence[Mapping[str, Any]]]
    numbers: Callable[[Sequence[Row]], Mapping[str, Any]]
    tables: Callable[[Sequence[Row]], Mapping[str, Table]]
    figure: Callable[[Sequence[Row]], Any]
    stream: tuple[str, ...] | None = None
    needs: tuple[str, ...] = ()
    objects: Mapping[str, Any] = field(default_factory=dict)
    following: Callable[[Sequence[Row]], Sequence[Parameters]] = lambda rows: ()
    seconds: float | None = None
    timed_out: Mapping[str, Any] | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        """The required packages that are not installed."""
        return tuple(name for name in self.needs if find_spec(name) is None)


@dataclass(frozen=True)
class StudyResult:
    """The rows of a study, in the order of its cells, and where they come from.

    Attributes
    ----------
    study : str
        Its name.
    scale : Scale
        Which cells were requested.
    seed : int
        The seed of everything drawn at random.
    rows : tuple of Row
        The rows of the measured cells.
    failures : tuple of str
        One sentence for each other cell: why it has no measurements.
    versions : mapping of str to str
        Versions of the packages that the numbers depend on.
    """

    study: str
    scale: Scale
    seed: int
    rows: tuple[Row, ...]
    failures: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)


def find_studies(names: Sequence[str]) -> list[Study]:
    """The studies with these names in the order given, each once; "all" stands for every study.

    Raises
    ------
    ValueError
        If a name is not a study.

    Examples
    --------
    >>> [study.title for study in find_studies(["conditions"])]
    ['Who meets the non-degeneracy conditions']
    """
    if unknown := [name for name in names if name not in (*STUDIES, "all")]:
        raise ValueError(f"There is no study {unknown[0]!r}: choose among {', '.join(STUDIES)}, or all.")
    wanted = STUDIES if "all" in names else dict.fromkeys(names)
    return [_of_module(name) for name in wanted]


def _of_module(name: str) -> Study:
    module = import_module(f"studies.{name.replace('-', '_')}")
    title, _, question = (module.__doc__ or "").partition(".\n\n")
    parts: dict[str, Any] = {
        part: getattr(module, part) for part in ("cells", "measure", "numbers", "tables", "figure")
    }
    parts |= {"stream": getattr(module, "STREAM", None), "needs": getattr(module, "NEEDS", ())}
    return Study(name, title, " ".join(question.split()), **parts)


def run_study(
    study: Study,
    *,
    scale: Scale = Scale.QUICK,
    seed: NonNegativeInt = 0,
    **options: Any,
) -> StudyResult:
    """Measure every cell of a study that is not in the store.

    Parameters
    ----------
    study : Study
        One of `STUDIES`, or the caller's own.
    scale : Scale
        quick: seconds to a minute per study; full: the sizes of the documentation.
    seed : int
        Seed of every random choice.
    **options
        As of `runs.run`: jobs, timeout, store, fresh, isolated, cluster, progress.

    Raises
    ------
    ImportError
        If the study needs a package that is not installed.
    ValueError
        If a number is out of its range, or two cells are the same.
    StoreError
        If the store cannot be read or written.
    """
    if missing := study.missing:
        raise ImportError(
            f"The study {study.name} needs {' and '.join(missing)}: install it with pip install {' '.join(missing)}."
        )
    if options.get("timeout") is None and options.get("isolated", True):
        options["timeout"] = study.seconds
    cells = _cells(study, list(study.cells(scale)), seed)
    if len({cell.key for cell in cells}) != len(cells):
        raise ValueError(f"The study {study.name} has the same cell twice: give each parameters of its own.")
    rows: dict[str, list[Row]] = {}  # by key, in the order of the cells
    failures: dict[str, str] = {}
    while cells:
        rows |= {cell.key: [] for cell in cells}
        for result in run(cells, retry_failed=True, **options):
            key, cell = result.cell.key, result.cell.arguments["cell"]
            if result.status == "done":
                rows[key] = [{**cell, **measured} for measured in result.value]
            elif result.status == "timed out" and study.timed_out is not None:
                rows[key] = [{**cell, **study.timed_out}]
            else:
                failures[key] = f"{result.cell.label}: {result.message}"
        measured = tuple(row for own in rows.values() for row in own)
        cells = [cell for cell in _cells(study, study.following(measured), seed) if cell.key not in rows]
    failed = tuple(failures[key] for key in rows if key in failures)
    return StudyResult(study.name, scale, seed, measured, failed, versions())


def _cells(study: Study, given: Sequence[Parameters], seed: int) -> list[Cell]:
    """The cells of the engine; their labels are the parameters in which they differ."""
    code = fingerprint(study.measure)
    objects = {"measure": study.measure, "objects": study.objects}
    same = {name for name in given[0] if len({one.get(name) for one in given}) == 1} if given[1:] else set()
    cells = []
    for cell in given:
        deciding = {
            name: value for name, value in cell.items() if study.stream is None or name in study.stream
        }
        text = json.dumps([study.name, deciding], sort_keys=True, allow_nan=False)
        stream = [seed, int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")]
        arguments = {"study": study.name, "cell": dict(cell), "stream": stream, "code": code}
        label = ", ".join(f"{name} {value}" for name, value in cell.items() if name not in same)
        cells.append(Cell(_measured, arguments, objects, label))
    return cells


def _measured(
    study: str,
    cell: Parameters,
    stream: Sequence[int],
    code: str,
    measure: Callable[..., Any],
    objects: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """The rows of a cell."""
    measured = measure(rng=np.random.default_rng(stream), **cell, **objects)
    rows = [dict(row) for row in ([measured] if isinstance(measured, Mapping) else measured)]
    for row in rows:
        for name, value in row.items():
            if not isinstance(value, Scalar):
                raise TypeError(
                    f"The study {study} measured {name} as {type(value).__name__}: a row holds numbers, texts, bool "
                    "and None; return several rows for several values."
                )
    return rows
