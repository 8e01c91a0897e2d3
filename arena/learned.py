"""One learner on one target: `learn` runs it, and `Learned` is the result."""

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
from attention import AttentionLayer, Fit, Learner, Outcome, save_layer
from attention.files import FilePath
from attention.inputs import inputs_from_json
from attention.learning import Progress
from attention.validation import non_negative
from upper import Newton

__all__ = ["Learned", "SetUp", "UnusedSettingError", "learn", "set_up", "told_of_fit", "written_of_fit"]

_ONE_TOKEN = (
    "With one token a pattern is always 1: examples tell nothing of Theta, and of the W only their sum; an exact layer "
    "may have other matrices."
)


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
    noise : float
        Standard deviation of the noise that was added to the labels; the measures are of labels without it.
    """

    target: TargetRecord
    learner: LearnerRecord
    seed: int
    fit: Fit
    measures: dict[str, float]
    engine: str = ""
    noise: float = 0.0

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
            "noise on the labels, added": self.noise or None,
        }
        lines = [f"{self.learner.title} on: {self.target.title}", f"  {self.fit.outcome}"]
        lines += [f"  {name:<28} {value:.3g}" for name, value in rows.items() if value is not None]
        if self.target.tokens == 1 and "theta_error" in self.measures:
            lines += [f"  {_ONE_TOKEN}"]
        return "\n".join(lines + told_of_fit(self.fit, self.learner))

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
                "noise": self.noise,
                **written_of_fit(self.fit, self.learner),
                "engine": self.engine,
                "trace": [step.to_json() for step in self.fit.trace],
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
        made: dict[str, Any] = {
            "generator": f"learn {self.learner.name}",
            "target": self.target.name,
            "seed": self.seed,
            "outcome": self.fit.outcome.name,
        }
        if self.noise:
            made["noise"] = self.noise
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
    noise: float = 0.0,
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
    noise : float
        Standard deviation of Gaussian noise that is added to every entry of the labels learned from. Those that what
        was learned is measured on have none.
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
    noise = non_negative("noise", noise)
    fit, measures = fit_target(
        chosen.target, chosen.learner, seed, noise=noise, extra=chosen.student.extra, progress=progress
    )
    return chosen.learned(seed, fit, measures, noise=noise)


def told_of_fit(fit: Fit, learner: LearnerRecord, *, given: int | None = None) -> list[str]:
    """The rows of words that are the same with ground truth and without: noise and heads found, and what it cost.

    Where examples were `given`, how many of them were used is said of them.
    """
    found = written_of_fit(fit, learner)
    rows = {"found by": f"{fit.alone} alone: the learner's other parts found nothing"} if fit.alone else {}
    if found["noise_level"] is not None:
        excess = found["expected_excess"]
        rows["noise on the labels, found"] = (
            f"{found['noise_level']:.3g} an entry (expected excess squared error {excess:.2g})"
        )
    if found["heads_found"] is not None:
        # at the level of the noise starts agree, and so do held-out examples
        told = fit.outcome.succeeded or fit.outcome is Outcome.RESIDUAL_FLOOR
        doubt = "" if told else " (not to be trusted: no layer of that many heads explains the examples)"
        rows["heads found"] = f"{found['heads_found']}{doubt}"
    used = str(fit.examples_used) if given is None else f"{fit.examples_used} of {given}"
    if fit.examples_needed is not None:
        used += f", and about {fit.examples_needed} are needed"
    rows |= {"examples used": used, "seconds": f"{fit.seconds:.2f}"}
    return [f"  {name:<28} {words}" for name, words in rows.items()]


def written_of_fit(fit: Fit, learner: LearnerRecord) -> dict[str, Any]:
    """The same as values.

    ``noise_level`` and ``expected_excess`` are Newton's estimates where it ended at the level of noise, else None;
    ``heads_found`` is the number where it was to be found.
    """
    last = fit.trace[-1].measures if fit.trace and fit.outcome is Outcome.RESIDUAL_FLOOR else {}
    counted = learner.parameters.get("m") == "auto" and fit.layer is not None
    return {
        "noise_level": last.get("noise_level"),
        "expected_excess": last.get("expected_excess"),
        "alone": fit.alone,
        "examples_needed": fit.examples_needed,
        "heads_found": fit.layer.heads if counted and fit.layer is not None else None,
        "examples_used": fit.examples_used,
        "seconds": fit.seconds,
    }


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

    def learned(self, seed: int, fit: Fit, measures: dict[str, float], *, noise: float = 0.0) -> Learned:
        """What came of it, learned from labels with that noise."""
        record, engine = self.student.record([self.learner]), engine_used(self.learner, self.target)
        return Learned(self.target.record, record, seed, fit, measures, engine, noise)


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
    changed = _changed(student.build(target, effort), settings, student.title)
    if examples is not None and isinstance(changed, Newton):
        _require_enough(changed, examples, target)
    return SetUp(target, student, changed)


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


def _require_enough(newton: Newton, examples: int, target: Target) -> None:
    """Raise below the fewest examples, which leave nothing to tell a layer from another: say the usual number too."""
    k, d = target.record.tokens, target.record.dim
    least = newton.minimum_examples(k, d)
    if examples >= least:
        return
    said = (
        "and that for a single head"
        if newton.m == "auto"
        else "which hardly tell a layer from others that fit them too; by default it takes "
        f"{newton.default_examples(newton.m, k, d)}"
    )
    raise ValueError(
        f"Newton has {examples} examples of {k} tokens in {d} dimensions: at least {least} are needed, {said}."
    )
