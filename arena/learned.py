"""One learner on one target: `learn` runs it, and `Learned` is what came of it."""

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from arena._fields import as_plain
from arena.cells import fit_target
from arena.engines import asked_settings, engine_used, require_engine
from arena.records import LearnerRecord, TargetRecord
from arena.students import Student, as_students, choose_effort
from arena.targets import Target, load_target
from attention import AttentionLayer, Fit, Learner, inputs_from_json, save_layer
from attention.files import FilePath
from attention.learning import Progress
from upper import Newton

__all__ = ["Learned", "SetUp", "UnusedSettingError", "learn", "set_up"]


class UnusedSettingError(ValueError):
    """A learner was given a setting that it does not have.

    Attributes
    ----------
    title, setting : str
        The learner, and the setting's name.
    """

    def __init__(self, title: str, setting: str) -> None:
        super().__init__(f"{title} has no use for {setting}: leave it out.")
        self.title, self.setting = title, setting


@dataclass(frozen=True, eq=False)
class Learned:
    """What one learner made of one target.

    Attributes
    ----------
    target : TargetRecord
        What it was run on.
    learner : LearnerRecord
        The learner and the parameters it ran with.
    seed : int
        The seed of the fit.
    fit : Fit
        What the learner returned.
    measures : dict of str to float
        Errors on fresh inputs: ``relative_error``, ``unknown_part_error`` and, where the fitted layer has the target's
        shape, ``theta_error`` and ``w_error`` of the worst head.
    engine : str
        What computed it, as in "numpy" or "torch cpu bfloat16"; empty where that is not known.
    """

    target: TargetRecord
    learner: LearnerRecord
    seed: int
    fit: Fit
    measures: dict[str, float]
    engine: str = ""

    @property
    def layer(self) -> AttentionLayer | None:
        """The fitted layer; None where the learner fits something else."""
        return self.fit.layer

    @property
    def error(self) -> float:
        """The error on the unknown part: 1.0 means that nothing was learned beyond what is known in advance."""
        return self.measures["unknown_part_error"]

    def __repr__(self) -> str:
        ended = f"{self.fit.outcome.name}, error {self.error:.3g}"
        return f"<Learned: {self.learner.title} on {self.target.title}, {ended}>"

    def __str__(self) -> str:
        rows = {
            "relative error": self.measures["relative_error"],
            "error on the unknown part": self.error,
            "worst head's error in Theta": self.measures.get("theta_error"),
            "worst head's error in W": self.measures.get("w_error"),
        }
        lines = [f"{self.learner.title} on: {self.target.title}", f"  {self.fit.outcome}"]
        lines += [f"  {name:<28} {value:.3g}" for name, value in rows.items() if value is not None]
        if self.learner.parameters.get("m") == "auto" and self.layer is not None:
            lines += [f"  {'heads found':<28} {self.layer.heads}"]
        lines += [f"  {'examples used':<28} {self.fit.examples_used}"]
        return "\n".join([*lines, f"  {'seconds':<28} {self.fit.seconds:.2f}"])

    def to_json(self) -> dict[str, Any]:
        """As JSON values, with the trace; what is not finite is None."""
        return as_plain(
            {
                "learner": self.learner.name,
                "seed": self.seed,
                "outcome": self.fit.outcome.name,
                "outcome_text": str(self.fit.outcome),
                "succeeded": self.fit.outcome.succeeded,
                "relative_error": self.measures["relative_error"],
                "unknown_part_error": self.error,
                "theta_error": self.measures.get("theta_error"),
                "w_error": self.measures.get("w_error"),
                "examples_used": self.fit.examples_used,
                "seconds": self.fit.seconds,
                "engine": self.engine,
                "trace": [dataclasses.asdict(step) for step in self.fit.trace],
            }
        )

    def save(self, path: FilePath) -> Path:
        """Write the fitted layer as a file that `load_target` reads, and return where it is.

        Raises
        ------
        ValueError
            If the fit has no layer.
        OSError
            If the file cannot be written; then what was there stays.
        """
        if self.layer is None:
            raise ValueError(f"{self.learner.title} ended without a layer: there is nothing to save.")
        made = {
            "generator": f"learn {self.learner.name}",
            "target": self.target.name,
            "seed": self.seed,
            "outcome": self.fit.outcome.name,
        }
        save_layer(path, self.layer, inputs=inputs_from_json(self.target.inputs), made=made)
        return Path(path)


def learn(
    target: Target | str | os.PathLike[str],
    learner: str | Student | Learner = "newton",
    *,
    seed: int = 0,
    preset: str = "full",
    examples: int | None = None,
    work: int | None = None,
    heads: int | Literal["auto"] | None = None,
    rank: int | None = None,
    engine: str | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> Learned:
    """Run one learner on one target and measure on fresh examples what was learned.

    Parameters
    ----------
    target : Target or path
        The target, or a file of one.
    learner : str, Learner or Student
        A name of `STUDENTS`, or a learner that is set up.
    seed : int
        Seed of every random choice.
    preset : {"quick", "full"}
        The effort of a learner given by name.
    examples, work, heads : int, optional
        Instead of the learner's own: its budget in examples, its budget in passes over them (Adam: in steps), and the
        heads of the layer it fits, which Newton finds out itself where they are "auto".
    rank : int, optional
        For Newton: the rank of every head, where it is known.
    engine, device : str, optional
        Likewise, what it computes with ("auto", "numpy" or "torch") and where ("cpu", "cuda", "cuda:1").
    progress : callable, optional
        Called with each `attention.Step` as it is recorded.

    Raises
    ------
    FileFormatError
        If the file is no layer or instance.
    DoesNotApplyError
        If the learner is an attack on another kind of target.
    ValueError
        If the learner or the preset is not known, a setting is out of range or of no use to the learner, or the
        device is not there.
    ImportError
        If torch is needed and not installed.

    Notes
    -----
    The same target, learner and seed give the same numbers as in `compare`, seconds aside.

    Examples
    --------
    >>> from arena import nice_target
    >>> learned = learn(nice_target(heads=1, tokens=2, dim=4, seed=1), "newton", seed=2)
    >>> learned.fit.outcome.name, learned.error < 1e-12
    ('EXACT', True)
    """
    chosen = set_up(
        target,
        learner,
        preset=preset,
        examples=examples,
        work=work,
        heads=heads,
        rank=rank,
        engine=engine,
        device=device,
    )
    require_engine(engine, device)
    fit, measures = fit_target(
        chosen.target, chosen.learner, seed, extra=chosen.student.extra, progress=progress
    )
    return chosen.learned(seed, fit, measures)


@dataclass(frozen=True, eq=False)
class SetUp:
    """One learner set up for one target: what `learn` runs.

    Attributes
    ----------
    target : Target
        The target.
    student : Student
        The learner by name.
    learner : Learner
        The learner with its settings.
    """

    target: Target
    student: Student
    learner: Learner

    def learned(self, seed: int, fit: Fit, measures: dict[str, float]) -> Learned:
        """What came of it."""
        record, engine = self.student.record([self.learner]), engine_used(self.learner, self.target)
        return Learned(self.target.record, record, seed, fit, measures, engine)


def set_up(
    target: Target | str | os.PathLike[str],
    learner: str | Student | Learner,
    *,
    preset: str = "full",
    examples: int | None = None,
    work: int | None = None,
    heads: int | Literal["auto"] | None = None,
    rank: int | None = None,
    engine: str | None = None,
    device: str | None = None,
) -> SetUp:
    """The one learner that is meant, with its settings for the target; the parameters are those of `learn`.

    Raises
    ------
    FileFormatError, DoesNotApplyError, ValueError
        As `learn` does.
    """
    students = as_students(learner if isinstance(learner, str) else [learner])
    if len(students) > 1:
        raise ValueError(f"{len(students)} learners are named: learn runs one; compare runs several.")
    student, effort = students[0], choose_effort(preset)
    target = target if isinstance(target, Target) else load_target(target)
    settings: dict[str, Any] = {"examples": examples, "work": work, "heads": heads, "rank": rank}
    settings |= asked_settings(engine, device)
    return SetUp(target, student, _changed(student.build(target, effort), settings, student.title))


def _changed(learner: Learner, settings: dict[str, Any], title: str) -> Learner:
    fields = {field.name for field in dataclasses.fields(learner)}  # type: ignore[arg-type]
    wanted = {name: value for name, value in settings.items() if value is not None}
    field_of = {name: "m" if name == "heads" else name for name in wanted}
    for name, field in field_of.items():
        if field not in fields:
            raise UnusedSettingError(title, name)
    if wanted.get("heads") == "auto" and not isinstance(learner, Newton):
        raise ValueError(f"{title} has to be told the number of heads: only newton takes 'auto'.")
    return dataclasses.replace(learner, **{field_of[name]: value for name, value in wanted.items()})  # type: ignore[type-var]
