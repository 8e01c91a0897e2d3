"""One learner on one target: `learn` runs it, and `Learned` is the result."""

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from arena.cells import fit_target
from arena.engines import engine_used, require_engine
from arena.formats import as_plain
from arena.records import LearnerRecord, TargetRecord
from arena.students import Student, as_students, choose_effort
from arena.targets import Target, load_target
from attention import AttentionLayer, Fit, Inputs, Learner, Outcome, save_layer
from attention.evaluation import CONFIDENCE, percent
from attention.files import FilePath
from attention.fits import Progress
from attention.inputs import inputs_from_json
from attention.validation import NonNegativeFloat, check

__all__ = ["Learned", "LearnerRun", "SetUp", "UnusedSettingError", "learn", "set_up"]

_ONE_TOKEN = (
    "With one token a pattern is always 1: examples tell nothing of Theta, and of the W only their sum; an exact layer "
    "may have other matrices."
)
_COUNTED = {"value queries": "queries asked"}


class UnusedSettingError(ValueError):
    """A learner got a setting that it does not have.

    Attributes
    ----------
    title, setting : str
        The learner, and the setting's name.
    """

    def __init__(self, title: str, setting: str) -> None:
        super().__init__(f"{title} has no use for {setting}: leave it out.")
        self.title, self.setting = title, setting


@dataclass(frozen=True, eq=False)
class LearnerRun:
    """One run of a learner: the fields shared by runs on targets and on given examples.

    Attributes
    ----------
    learner : LearnerRecord
        The learner and its parameters in this run.
    seed : int
        The seed of the fit.
    fit : Fit
        What the learner returned.
    engine : str
        The engine, such as "numpy" or "torch cpu bfloat16"; empty if unknown.
    """

    learner: LearnerRecord
    seed: int
    fit: Fit
    engine: str

    @property
    def layer(self) -> AttentionLayer | None:
        """The fitted layer; None if the learner fits something else."""
        return self.fit.layer

    @property
    def found(self) -> dict[str, Any]:
        """The results of the fit besides its layer, and its costs, as JSON values.

        ``noise_level`` and ``expected_excess`` are Newton's estimates if it ended at the level of noise.
        If Newton searched for the number of heads, ``heads_found`` is that number, and ``heads_trusted`` says whether a
        layer with ``heads_found`` heads explains the examples.
        """
        fit, at_floor = self.fit, self.fit.outcome is Outcome.NOISE_FLOOR
        last: Mapping[str, float] = fit.trace[-1].measures if fit.trace and at_floor else {}
        counted = self.learner.parameters.get("heads") == "auto" and fit.layer is not None
        return {
            "noise_level": last.get("noise_level"),
            "expected_excess": last.get("expected_excess"),
            "alone": fit.alone,
            "heads_found": fit.layer.heads if counted and fit.layer is not None else None,
            "heads_trusted": fit.outcome.succeeded,
            "examples_used": fit.examples_used,
            "examples_needed": fit.examples_needed,
            "seconds": fit.seconds,
        }

    def text(self, title: str, rows: Mapping[str, str]) -> str:
        """The run as lines of text: its target, its outcome, and a label and a value for each row."""
        found, fit = self.found, self.fit
        doubt = "" if found["heads_trusted"] else " (not to be trusted: no such layer explains the examples)"
        left = fit.trace[-1].measures.get("residual") if fit.outcome is Outcome.RESIDUAL_FLOOR else None
        needed = "" if fit.examples_needed is None else f", and about {fit.examples_needed} are needed"
        shown = {
            **rows,
            "wrong on at most": (
                ""
                if fit.error_rate_bound is None
                else f"{percent(fit.error_rate_bound)} of inputs, with confidence {CONFIDENCE:g}"
            ),
            # random examples are the rule
            "learned from": "" if self.learner.access == "random examples" else self.learner.access,
            "found by": f"{fit.alone} alone" if fit.alone else "",
            "noise on the labels, found": _digits(found["noise_level"], " on an entry (standard deviation)"),
            "expected excess error": _digits(found["expected_excess"], " on an entry (squared)"),
            "residual, not noise": _digits(left, " of the labels (not squared)"),
            "precision of the answers": "" if fit.precision is None else str(fit.precision),
            "heads found": "" if found["heads_found"] is None else f"{found['heads_found']}{doubt}",
            _COUNTED.get(self.learner.access, "examples used"): f"{fit.examples_used}{needed}",
            "seconds": f"{fit.seconds:.2f}",
        }
        lines = [f"{self.learner.title} on: {title}", f"  {fit.explanation}"]
        lines += [f"  {label:<28} {value}" for label, value in shown.items() if value]
        explanation = getattr(fit.details, "explanation", "")
        return "\n".join([*lines, f"  {explanation}"] if explanation else lines)

    def to_json(self) -> dict[str, Any]:
        """As JSON values, with the trace; what is not finite is None."""
        return as_plain(
            {
                "learner": self.learner.name,
                "access": self.learner.access,
                "seed": self.seed,
                "outcome": self.fit.outcome.name,
                "outcome_text": self.fit.explanation,
                "succeeded": self.fit.outcome.succeeded,
                "error_rate_bound": self.fit.error_rate_bound,
                **self.found,
                "engine": self.engine,
                "details": self.fit.details.to_json() if hasattr(self.fit.details, "to_json") else None,
                "trace": [step.to_json() for step in self.fit.trace],
            }
        )

    def save(self, path: FilePath) -> Path:
        """Write the fitted layer and its origin to a file that `load_target` reads.

        Returns
        -------
        Path
            The path of the file.

        Raises
        ------
        ValueError
            If the fit has no layer.
        OSError
            If the file cannot be written; an existing file is then kept.
        """
        if self.layer is None:
            raise ValueError(f"{self.learner.title} ended without a layer: there is nothing to save.")
        inputs, source = self._learned_from()
        made = {"generator": f"learn {self.learner.name}", **source, "seed": self.seed}
        save_layer(path, self.layer, inputs=inputs, made=made | {"outcome": self.fit.outcome.name})
        return Path(path)

    def _learned_from(self) -> tuple[Inputs | None, dict[str, Any]]:
        """The distribution of the tokens, if known, and the other facts on the data that a file stores."""
        return None, {}


@dataclass(frozen=True, eq=False)
class Learned(LearnerRun):
    """The result of one learner on one target.

    Attributes
    ----------
    learner, seed, fit, engine
        As of `LearnerRun`.
    target : TargetRecord
        The target of the run.
    measures : dict of str to float
        Errors on fresh inputs: ``relative_error`` and ``unknown_part_error``. If the fitted layer has the target's
        shape, also ``theta_error`` and ``w_error`` of the worst head.
    noise : float
        Standard deviation of the noise added to the training labels; the measures use labels without noise.
    """

    target: TargetRecord
    measures: dict[str, float]
    noise: float = 0.0

    @property
    def error(self) -> float:
        """The error on the unknown part: 1.0 means that nothing beyond the known part was learned."""
        return self.measures["unknown_part_error"]

    def __repr__(self) -> str:
        ended = f"{self.fit.outcome.name}, error {self.error:.3g}"
        return f"<Learned: {self.learner.title} on {self.target.title}, {ended}>"

    def __str__(self) -> str:
        rows = {
            "relative error": _digits(self.measures["relative_error"]),
            "error on the unknown part": _digits(self.error),
            "worst head's error in Theta": _digits(self.measures.get("theta_error")),
            "worst head's error in W": _digits(self.measures.get("w_error")),
            "worst head's error in c": _digits(self.measures.get("key_bias_error")),
            "error in b": _digits(self.measures.get("bias_error")),
            "noise on the labels, added": _digits(self.noise or None),
        }
        text = self.text(self.target.title, rows)
        hidden = self.target.tokens == 1 and "theta_error" in self.measures
        return f"{text}\n  {_ONE_TOKEN}" if hidden else text

    def to_json(self) -> dict[str, Any]:
        """As JSON values, with the trace; what is not finite is None."""
        names = (
            "relative_error",
            "unknown_part_error",
            "theta_error",
            "w_error",
            "key_bias_error",
            "bias_error",
        )
        measures = {name: self.measures.get(name) for name in names}
        return super().to_json() | as_plain({**measures, "noise": self.noise})

    def _learned_from(self) -> tuple[Inputs | None, dict[str, Any]]:
        noise = {"noise": self.noise} if self.noise else {}
        return inputs_from_json(self.target.inputs), {"target": self.target.name, **noise}


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
    biases: bool | None = None,
    causal: bool | None = None,
    accuracy: float | None = None,
    noise: float = 0.0,
    engine: str | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> Learned:
    """Run one learner on one target and measure its error on fresh examples.

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
        They override the learner's own settings: its budget in examples, its budget in passes over them (Adam: in
        steps), and the number of heads it fits. With "auto", Newton and the six phases find the number themselves.
    rank : int, optional
        For Newton: the rank of every head, if known.
    biases : bool, optional
        For Newton: whether it learns biases too; by default where the target has some.
    causal : bool, optional
        For Newton: whether it learns a causal layer; by default where the target is one.
    accuracy : float, optional
        For value queries: the relative rounding unit of the answers; found if not given.
    noise : float
        Standard deviation of Gaussian noise that is added to every entry of the training labels, or of the answers to
        value queries. The labels used for measuring have no noise.
    engine, device : str, optional
        They override the learner's engine ("auto", "numpy" or "torch") and its device ("cpu", "cuda", "cuda:1").
    progress : callable, optional
        Called with each `attention.Step` as it is recorded.

    Raises
    ------
    FileFormatError
        If the file is neither a layer nor an instance.
    DoesNotApplyError
        If the learner is an attack on another kind of target.
    ValueError
        If the learner or the preset is not known, a setting is out of range or the learner does not use it, or the
        device is missing.
    ImportError
        If torch is needed and not installed.

    Notes
    -----
    Apart from the seconds, the same target, learner and seed give the same numbers as in `compare`.

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
        biases=biases,
        causal=causal,
        accuracy=accuracy,
        engine=engine,
        device=device,
    )
    return chosen.run(seed, noise=noise, progress=progress)


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

    @property
    def record(self) -> LearnerRecord:
        """The learner and its parameters."""
        return self.student.record([self.learner])

    def run(self, seed: int, *, noise: float = 0.0, progress: Progress | None = None) -> Learned:
        """Learn, and measure the error on fresh examples."""
        noise = check("noise", noise, NonNegativeFloat)
        fit, measures = fit_target(self.target, self.learner, seed, noise=noise, progress=progress)
        engine = engine_used(self.learner, self.target)
        return Learned(self.record, seed, fit, engine, self.target.record, measures, noise)


def set_up(
    target: Target | str | os.PathLike[str],
    learner: str | Student | Learner,
    *,
    preset: str = "full",
    heads: int | str | None = None,
    engine: str | None = None,
    device: str | None = None,
    **settings: Any,
) -> SetUp:
    """One learner with its settings for the target; the parameters are those of `learn`.

    Raises
    ------
    FileFormatError, DoesNotApplyError, ValueError, ImportError
        As `learn` does.
    """
    students = as_students(learner if isinstance(learner, str) else [learner])
    if len(students) > 1:
        raise ValueError(f"{len(students)} learners are named: learn runs one; compare runs several.")
    student, effort = students[0], choose_effort(preset)
    target = target if isinstance(target, Target) else load_target(target)
    built = student.build(target, effort)
    settings |= {"heads": heads, "engine": engine, "device": device}
    changed = {name: value for name, value in settings.items() if value is not None}
    fields = {field.name for field in dataclasses.fields(built)}  # type: ignore[arg-type]
    for name in changed:
        if name not in fields:
            raise UnusedSettingError(student.title, name)
    require_engine(engine, device)
    return SetUp(target, student, dataclasses.replace(built, **changed))  # type: ignore[type-var]


def _digits(value: float | None, unit: str = "") -> str:
    return "" if value is None else f"{value:.3g}{unit}"
