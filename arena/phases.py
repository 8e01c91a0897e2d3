"""A six-phase learner on one target, phase by phase: what each found in words, as figures and as a page."""

import json
import os
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from arena._fields import as_plain
from arena._phrases import plural
from arena.cells import fit_target
from arena.drawing import Drawing
from arena.learned import Learned, set_up
from arena.phase_arrays import phase_arrays
from arena.phase_figures import FIGURES, draw_phases
from arena.phase_page import render_phases
from arena.phase_words import PhaseStory, digits, tell_phases
from arena.students import Student
from arena.targets import Target
from attention import AttentionLayer, ExampleOracle, Fit, GroundTruth, Learner
from attention.files import FilePath, write_whole
from attention.inputs import Rng
from attention.learning import Progress
from upper.six_phase import Phases, SixPhase

__all__ = ["LAYER_FILE", "LearnedPhases", "is_six_phase", "learn_phases"]

LAYER_FILE = "fitted.safetensors"
"""What the fitted layer is called in the folder that `LearnedPhases.save` fills."""


@dataclass(frozen=True, eq=False)
class LearnedPhases:
    """What a six-phase learner made of one target, with what every phase found.

    Attributes
    ----------
    learned : Learned
        What any learner's run tells.
    phases : Phases
        What every phase found.
    target : Target
        What it was run on.
    mode : str
        "practical" or "paper".
    """

    learned: Learned
    phases: Phases
    target: Target
    mode: str

    @property
    def fit(self) -> Fit:
        """What the learner returned."""
        return self.learned.fit

    @property
    def layer(self) -> AttentionLayer | None:
        """The fitted layer: a provisional one where a phase failed."""
        return self.learned.layer

    @property
    def error(self) -> float:
        """The error on the unknown part: 1.0 means that nothing was learned beyond what is known in advance."""
        return self.learned.error

    @cached_property
    def stories(self) -> tuple[PhaseStory, ...]:
        """The six phases in words."""
        return tell_phases(self.phases, self.target.layer, self.mode)

    @cached_property
    def drawings(self) -> Mapping[str, Drawing]:
        """The figures by name; a phase that was not reached has none."""
        return draw_phases(self.phases, self.target.layer, self.target.inputs)

    def __repr__(self) -> str:
        return repr(self.learned).replace("<Learned:", "<LearnedPhases:")

    def __str__(self) -> str:
        return self.words()

    def words(self, width: int = 100) -> str:
        """The six phases for a person at a terminal of that width."""
        return _Words(width).of(self)

    def page(self) -> str:
        """The six phases as one self-contained HTML page with their figures."""
        return render_phases(
            target=self.target.record,
            learned=self.learned,
            explanation=self.phases.explanation,
            heads=self.phases.heads,
            mode=self.mode,
            stories=self.stories,
            drawings=self.drawings,
            data=self._result(None),
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON values: those of `Learned.to_json`, how it ended and which phase failed, and the phases.

        A phase's ``acceptance``, the share of rows it used (None where it chooses none), ``measures`` and ``arrays``
        (see `phase_arrays`) are those of its last round. Of earlier rounds ``earlier_arrays`` has the arrays and
        ``trace`` the measures.
        """
        stories = []
        for story in self.stories:
            *earlier, arrays = phase_arrays(self.phases, story.number) or [{}]
            acceptance = story.measures.get("acceptance", story.measures.get("row_share"))
            stories.append(
                {
                    "number": story.number,
                    "title": story.title,
                    "state": story.state,
                    "does": story.does,
                    "found": list(story.found),
                    "error": list(story.error),
                    "ended": story.ended,
                    "examples": story.examples,
                    "acceptance": acceptance,
                    "measures": story.measures,
                    "arrays": arrays,
                    "earlier_arrays": earlier,
                }
            )
        phases = self.phases
        told = {"mode": self.mode, "heads": phases.heads, "failed": phases.failed}
        told["explanation"] = phases.explanation
        return as_plain({**self.learned.to_json(), **told, "phases": stories})

    def save(self, folder: FilePath, *, result: Mapping[str, Any] | None = None) -> Path:
        """Fill a folder with index.html, an SVG file for every figure, result.json and the fitted layer.

        Parameters
        ----------
        folder : path
            The folder, made if need be. Figures of an earlier run that this one has not are taken away.
        result : mapping, optional
            What result.json holds, by default `to_json`.

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
        for name in FIGURES:
            if name in self.drawings:
                self.drawings[name].save(folder / f"{name}.svg")
            else:
                (folder / f"{name}.svg").unlink(missing_ok=True)
        write_whole(folder / "result.json", self._result(result).encode())
        self.learned.save(folder / LAYER_FILE)
        write_whole(folder / "index.html", self.page().encode())
        return folder

    def _result(self, result: Mapping[str, Any] | None) -> str:
        told = self.to_json() if result is None else as_plain(result)
        return json.dumps(told, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def learn_phases(
    target: Target | str | os.PathLike[str],
    learner: str | Student | Learner = "six-phase",
    *,
    seed: int = 0,
    preset: str = "full",
    examples: int | None = None,
    work: int | None = None,
    heads: int | None = None,
    noise: float = 0.0,
    progress: Progress | None = None,
) -> LearnedPhases:
    """Run a six-phase learner on one target and keep what every phase found.

    Parameters
    ----------
    target : Target or path
        The target, or a file of one.
    learner : str, Student or SixPhase
        "six-phase", "six-phase-paper", or a `SixPhase` that is set up.
    seed, preset, examples, work, heads, noise, progress
        As for `learn`.

    Raises
    ------
    ValueError
        If the learner is another, or a setting is out of range; see `learn`.

    Notes
    -----
    The numbers are those of `learn` and of `compare` with the same target, learner and seed.

    Examples
    --------
    >>> from arena import nice_target
    >>> told = learn_phases(nice_target(heads=2, tokens=2, dim=16, seed=1), "six-phase-paper", seed=2)
    >>> print(told.stories[4].found[0])
    A span of 2 dimensions among d² = 256: for 2 heads.
    """
    chosen = set_up(target, learner, preset=preset, examples=examples, work=work, heads=heads)
    if not isinstance(chosen.learner, SixPhase):
        raise ValueError(f"{chosen.student.title} has no six phases: choose six-phase or six-phase-paper.")
    keeping = _Keeping(chosen.learner, [])
    fit, measures = fit_target(chosen.target, keeping, seed, noise=noise, progress=progress)
    return LearnedPhases(
        learned=chosen.learned(seed, fit, measures, noise=noise),
        phases=replace(keeping.kept[-1], fit=fit),
        target=chosen.target,
        mode=chosen.learner.mode,
    )


def is_six_phase(student: Student) -> bool:
    """Whether `learn_phases` can run that student."""
    return student.name in ("six-phase", "six-phase-paper")


@dataclass(frozen=True)
class _Keeping:
    """The learner as any other, what its phases found kept."""

    learner: SixPhase
    kept: list[Phases]

    @property
    def examples(self) -> int | None:
        return self.learner.examples

    @property
    def work(self) -> int | None:
        return self.learner.work

    def minimum_examples(self, k: int, d: int) -> int:
        return self.learner.minimum_examples(k, d)

    def fit(
        self,
        oracle: ExampleOracle,
        *,
        rng: Rng = None,
        truth: GroundTruth | None = None,
        progress: Progress | None = None,
    ) -> Fit:
        self.kept.append(self.learner.run(oracle, rng=rng, truth=truth, progress=progress))
        return self.kept[-1].fit


@dataclass(frozen=True)
class _Words:
    """Paragraphs at a terminal."""

    width: int

    def of(self, told: LearnedPhases) -> str:
        record, fit = told.target.record, told.fit
        lines = [
            f"The six phases in {told.mode} mode on: {record.title}",
            f"  m = {plural(record.heads, 'head')}, k = {plural(record.tokens, 'token')}, "
            f"d = {plural(record.dim, 'coordinate')}; the learner looks for {told.phases.heads}",
        ]
        for story in told.stories:
            lines += ["", f"Phase {story.number}: {story.title}", *self._folded("", story.does)]
            lines += self._folded("Found: ", " ".join(story.found))
            lines += self._folded("Against the truth: ", " ".join(story.error))
            if story.state != "done":
                lines += self._folded("", story.ended)
        lines += ["", *self._folded("", f"The end: {told.phases.explanation}")]
        lines += self._folded(
            "",
            f"Error on fresh inputs: {digits(told.error)}, after {fit.examples_used:,} examples and "
            f"{fit.seconds:.1f} seconds.",
        )
        return "\n".join(lines)

    def _folded(self, label: str, text: str) -> list[str]:
        if not text:
            return []
        return textwrap.wrap(
            label + text,
            max(self.width, 40),
            initial_indent="  ",
            subsequent_indent="    " if label else "  ",
        )
