"""Run one learner on one target, and measure its error on fresh examples."""

import dataclasses
import os
from typing import Any, Literal

from arena.cells import fit_target
from arena.engines import require_engine
from arena.learned import Learned
from arena.learners import LearnerEntry, as_learners, choose_budgets
from arena.targets import Target, load_target
from attention import Learner
from attention.fits import Progress
from attention.validation import NonNegativeFloat, check

__all__ = ["UnusedSettingError", "learn", "one_learner", "set_up"]


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


def learn(
    target: Target | str | os.PathLike[str],
    learner: str | LearnerEntry | Learner = "newton",
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
    learner : str, Learner or LearnerEntry
        A name of `LEARNERS`, or a learner that is set up.
    seed : int
        Seed of every random choice.
    preset : {"quick", "full"}
        The budgets of a learner given by name.
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
    noise = check("noise", noise, NonNegativeFloat)
    entry = one_learner(learner)
    target = target if isinstance(target, Target) else load_target(target)
    built = set_up(
        target,
        entry,
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
    fit, measures = fit_target(target, built, seed, noise=noise, progress=progress)
    return Learned(entry.record([built]), seed, fit, target.record.title, measures, target.record, noise)


def one_learner(learner: str | LearnerEntry | Learner) -> LearnerEntry:
    """The entry of a learner. ValueError if it is not known, or several are named."""
    entries = as_learners(learner if isinstance(learner, str) else [learner])
    if len(entries) > 1:
        raise ValueError(f"{len(entries)} learners are named: learn runs one; compare runs several.")
    return entries[0]


def set_up(target: Target, entry: LearnerEntry, *, preset: str = "full", **settings: Any) -> Any:
    """The learner of an entry with its settings for the target; a setting that is None is the learner's own.

    Raises
    ------
    DoesNotApplyError, ValueError, ImportError
        As `learn` does.
    """
    built: Any = entry.build(target, choose_budgets(preset))
    changed = {name: value for name, value in settings.items() if value is not None}
    fields = {field.name for field in dataclasses.fields(built)}
    for name in changed:
        if name not in fields:
            raise UnusedSettingError(entry.title, name)
    require_engine(settings.get("engine"), settings.get("device"))
    return dataclasses.replace(built, **changed)
