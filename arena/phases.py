"""A six-phase learner on one target, phase by phase: as records, a table, figures and a page."""

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from arena.drawing import Drawing
from arena.formats import as_plain, error_text, number_text, seconds_text
from arena.learned import Learned, set_up
from arena.page import template
from arena.phase_figures import draw_phases
from arena.phase_record import PhaseRecord, phase_records
from arena.students import Student
from arena.table import LINES, rendered
from arena.targets import Target
from attention import AttentionLayer, Fit, Learner
from attention.files import FilePath, write_whole
from attention.foreign import json_text
from attention.learning import Progress
from upper.six_phase import Phases, SixPhase

__all__ = ["LAYER_FILE", "LearnedPhases", "is_six_phase", "learn_phases"]

LAYER_FILE = "fitted.safetensors"
"""File name of the fitted layer in the folder that `LearnedPhases.save` fills."""


@dataclass(frozen=True, eq=False)
class LearnedPhases:
    """The result of a six-phase learner on one target, with the record of every phase.

    Attributes
    ----------
    learned : Learned
        The run, as `learn` returns it.
    phases : Phases
        The records of the phases.
    target : Target
        The target of the run.
    mode : str
        "practical" or "paper".
    """

    learned: Learned
    phases: Phases
    target: Target
    mode: str

    @property
    def fit(self) -> Fit:
        """The fit that the learner returned."""
        return self.learned.fit

    @property
    def layer(self) -> AttentionLayer | None:
        """The fitted layer: a provisional one where a phase failed."""
        return self.learned.layer

    @property
    def error(self) -> float:
        """The error on the unknown part: 1.0 means that nothing beyond the known part was learned."""
        return self.learned.error

    @cached_property
    def records(self) -> tuple[PhaseRecord, ...]:
        """The six phases."""
        return phase_records(self.phases, self.mode)

    @cached_property
    def drawings(self) -> Mapping[str, Drawing]:
        """The figures by name; a phase that was not reached has none."""
        return draw_phases(self.phases, self.target.layer)

    def __repr__(self) -> str:
        return repr(self.learned).replace("<Learned:", "<LearnedPhases:")

    def __str__(self) -> str:
        """The table of the phases, as `attention-bounds explain` prints it."""
        from rich.box import Box
        from rich.table import Table

        record, fit = self.target.record, self.fit
        table = Table(box=Box(LINES, ascii=True), show_edge=False, pad_edge=False)
        table.add_column("Phase", width=26)
        table.add_column("Examples", justify="right")
        table.add_column("Measured")
        table.add_column("", justify="right")
        table.add_column("State")
        for one in self.records:
            measured = one.found | one.errors
            values = "\n".join(map(number_text, measured.values()))
            title, labels = f"{one.number}. {one.title}", "\n".join(measured)
            table.add_row(title, f"{one.examples:,}", labels, values, one.state, end_section=True)
        return "\n".join(
            [
                f"{self.learned.learner.title} on: {record.title}",
                f"  m = {record.heads}, k = {record.tokens}, d = {record.dim}; heads looked for: {self.phases.heads}",
                "",
                rendered(table),
                self.phases.explanation,
                f"Error on fresh inputs: {error_text(self.error)}, after {fit.examples_used:,} examples and "
                f"{seconds_text(fit.seconds)}.",
            ]
        )

    def page(self) -> str:
        """The six phases as one self-contained HTML page with their figures, without a script."""
        figures: dict[int, list[tuple[str, str]]] = {number: [] for number in range(1, 7)}
        for name, drawing in self.drawings.items():
            figures[int(name.split("-")[1])].append((drawing.inline(), drawing.words))
        data = base64.b64encode(_json_text(self.to_json()).encode()).decode()
        page = template("phases.html.j2").render(
            told=self,
            target=self.target.record,
            figures=figures,
            data="data:application/json;charset=utf-8;base64," + data,
        )
        return page.lstrip()

    def to_json(self) -> dict[str, Any]:
        """As JSON values: those of `Learned.to_json`, the outcome, the phase that failed, and all phases."""
        phases = self.phases
        told = {
            "mode": self.mode,
            "heads": phases.heads,
            "failed": phases.failed,
            "explanation": phases.explanation,
            "phases": [one.to_json() for one in self.records],
        }
        return as_plain({**self.learned.to_json(), **told})

    def save(self, folder: FilePath, *, result: Mapping[str, Any] | None = None) -> Path:
        """Fill a folder with index.html, an SVG file for every figure, result.json and the fitted layer.

        Parameters
        ----------
        folder : path
            The folder, made if it is missing. Figures of an earlier run that this run does not have are deleted.
        result : mapping, optional
            The content of result.json; by default `to_json`.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        OSError
            If something cannot be written.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("phase-[1-6]-*.svg"):
            old.unlink()
        for name, drawing in self.drawings.items():
            drawing.save(folder / f"{name}.svg")
        write_whole(folder / "result.json", _json_text(self.to_json() if result is None else result).encode())
        self.learned.save(folder / LAYER_FILE)
        write_whole(folder / "index.html", self.page().encode())
        return folder


def learn_phases(
    target: Target | str | os.PathLike[str],
    learner: str | Student | Learner = "six-phase",
    *,
    seed: int = 0,
    noise: float = 0.0,
    progress: Progress | None = None,
    **settings: Any,
) -> LearnedPhases:
    """Run a six-phase learner on one target and keep the record of every phase.

    Parameters
    ----------
    target : Target or path
        The target, or a file of one.
    learner : str, Student or SixPhase
        "six-phase", "six-phase-paper", or a `SixPhase` that is set up.
    seed, noise, progress, **settings
        As for `learn`: preset, examples, work, heads.

    Raises
    ------
    ValueError
        If the learner is not a six-phase learner, or a setting is out of range; see `learn`.

    Notes
    -----
    The numbers are those of `learn` and of `compare` with the same target, learner and seed.

    Examples
    --------
    >>> from arena import nice_target
    >>> told = learn_phases(nice_target(heads=2, tokens=2, dim=16, seed=1), "six-phase-paper", seed=2)
    >>> [phase.state for phase in told.records]
    ['done', 'done', 'done', 'done', 'done', 'done']
    """
    chosen = set_up(target, learner, **settings)
    if not isinstance(chosen.learner, SixPhase):
        raise ValueError(f"{chosen.student.title} has no six phases: choose six-phase or six-phase-paper.")
    keeping = _Keeping(**vars(chosen.learner))
    learned = replace(chosen, learner=keeping).run(seed, noise=noise, progress=progress)
    return LearnedPhases(learned, keeping.phases, chosen.target, keeping.mode)


def is_six_phase(student: Student) -> bool:
    """Whether `learn_phases` can run that student."""
    return student.name in ("six-phase", "six-phase-paper")


class _Keeping(SixPhase):
    """The learner as it is set up; it keeps what its phases found."""

    phases: Phases

    def fit(self, *given: Any, **settings: Any) -> Fit:
        object.__setattr__(self, "phases", self.run(*given, **settings))
        return self.phases.fit


def _json_text(data: Mapping[str, Any]) -> str:
    return json_text(as_plain(data), indent=2) + "\n"
