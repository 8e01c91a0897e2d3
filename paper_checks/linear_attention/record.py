"""What an experiment gives: tables and curves beside the figures they are to agree with, as plain records."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

__all__ = ["Cell", "Curve", "Experiment", "HeldFigure", "Plot", "Report", "Table", "experiment_from_json"]

Cell: TypeAlias = "str | int | float | bool | None"
Report = Callable[[str], None]
"""Called with a few words after each piece of work."""


@dataclass(frozen=True)
class HeldFigure:
    """A figure that was measured, what it is to be, and whether it is.

    Attributes
    ----------
    claim : str
        What is claimed, in words.
    expected : str
        The figure it is held to.
    measured : str
        The figure here.
    holds : bool
        Whether they agree.
    """

    claim: str
    expected: str
    measured: str
    holds: bool


@dataclass(frozen=True)
class Table:
    """A table of an experiment.

    Attributes
    ----------
    name, title : str
        What its file is called, and what stands above it.
    columns : tuple of str
        The header; columns that end in "(reference)" hold figures of an independent prototype.
    rows : tuple of tuples
        Text, numbers, or None where there is nothing to say.
    note : str
        What is to be known to read it.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"A row of the table {self.name} has {len(row)} entries: {len(self.columns)} are needed."
                )
        rows = tuple(tuple(_plain(value) for value in row) for row in self.rows)
        object.__setattr__(self, "rows", rows)

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        records: Iterable[Any],
        columns: Mapping[str, str | Callable[[Any], Cell]],
        note: str = "",
    ) -> "Table":
        """A row a record, with the attribute of that name, or what the function makes of it, in each column."""
        rows = tuple(
            tuple(getattr(one, how) if isinstance(how, str) else how(one) for how in columns.values())
            for one in records
        )
        return cls(name, title, tuple(columns), rows, note)


@dataclass(frozen=True)
class Curve:
    """A line of a plot, or marks alone; points that are not finite leave a gap."""

    label: str
    x: tuple[float | int, ...]
    y: tuple[float | int, ...]
    marks_only: bool = False

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"The curve {self.label} has {len(self.x)} places and {len(self.y)} values.")
        for name in ("x", "y"):
            object.__setattr__(self, name, tuple(float(value) for value in getattr(self, name)))


@dataclass(frozen=True)
class Plot:
    """A plot of an experiment, to be drawn.

    Attributes
    ----------
    name, words : str
        What its file is called, and what is drawn, in a line.
    x_label, y_label : str
        What the axes are.
    curves : tuple of Curve
        The lines.
    log_x, log_y : bool
        Which axes are logarithmic.
    verticals : mapping of str to float
        Places of interest along the horizontal axis, by name.
    """

    name: str
    words: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    log_x: bool = False
    log_y: bool = True
    verticals: Mapping[str, float | int] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """An experiment that was run.

    Attributes
    ----------
    name, title : str
        What the command line calls it, and its heading.
    question : str
        What is asked and how it is set up, in a paragraph.
    findings : tuple of str
        What was found: sentences.
    checks : tuple of HeldFigure
        Figures held against those they are to be.
    tables : tuple of Table
        The tables.
    plots : tuple of Plot
        The plots.
    seed : int
        Where its randomness came from.
    """

    name: str
    title: str
    question: str
    findings: tuple[str, ...]
    checks: tuple[HeldFigure, ...]
    tables: tuple[Table, ...]
    plots: tuple[Plot, ...] = ()
    seed: int = 0

    @property
    def holds(self) -> bool:
        """Whether every check holds."""
        return all(check.holds for check in self.checks)

    def table(self, name: str) -> Table:
        """The table of that name.

        Raises
        ------
        ValueError
            If there is none.
        """
        for one in self.tables:
            if one.name == name:
                return one
        raise ValueError(
            f"There is no table {name!r}: {', '.join(one.name for one in self.tables)} are there."
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON has it; numbers that are not finite become None."""
        return {
            "name": self.name,
            "title": self.title,
            "question": self.question,
            "seed": self.seed,
            "holds": self.holds,
            "findings": list(self.findings),
            "checks": [vars(check) for check in self.checks],
            "tables": [
                {
                    "name": one.name,
                    "title": one.title,
                    "note": one.note,
                    "columns": list(one.columns),
                    "rows": [list(row) for row in one.rows],
                }
                for one in self.tables
            ],
            "plots": [
                {
                    **{key: value for key, value in vars(plot).items() if key not in ("curves", "verticals")},
                    "verticals": dict(plot.verticals),
                    "curves": [
                        {
                            "label": curve.label,
                            "x": [_plain(value) for value in curve.x],
                            "y": [_plain(value) for value in curve.y],
                            "marks_only": curve.marks_only,
                        }
                        for curve in plot.curves
                    ],
                }
                for plot in self.plots
            ],
        }


def experiment_from_json(data: Mapping[str, Any]) -> Experiment:
    """The experiment that `Experiment.to_json` wrote.

    Raises
    ------
    ValueError
        If something else is there.
    """
    try:
        return Experiment(
            name=data["name"],
            title=data["title"],
            question=data["question"],
            findings=tuple(data["findings"]),
            checks=tuple(HeldFigure(**check) for check in data["checks"]),
            tables=tuple(
                Table(
                    name=one["name"],
                    title=one["title"],
                    columns=tuple(one["columns"]),
                    rows=tuple(tuple(row) for row in one["rows"]),
                    note=one["note"],
                )
                for one in data["tables"]
            ),
            plots=tuple(
                Plot(**{**plot, "curves": tuple(_curve(curve) for curve in plot["curves"])})
                for plot in data["plots"]
            ),
            seed=data["seed"],
        )
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"This is no experiment: one as it was written is needed ({error}).") from None


def _curve(data: Mapping[str, Any]) -> Curve:
    x, y = (_floats(data[name]) for name in ("x", "y"))
    return Curve(data["label"], x, y, data["marks_only"])


def _floats(values: Sequence[float | None]) -> tuple[float, ...]:
    return tuple(math.nan if value is None else float(value) for value in values)


def _plain(value: Any) -> Cell:
    """A value as JSON has it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
