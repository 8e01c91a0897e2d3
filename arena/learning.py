"""Run one learner on a target, on given examples, or on a function that answers queries, and measure its error."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from arena.learned import Learned
from arena.learner_table import PRESETS, LearnerEntry
from arena.learners import one_learner, require_engine
from arena.sources import AskedFunction, GivenExamples, holds_examples
from arena.target import Target
from arena.targets import InputsName, load_target
from attention import Learner
from attention.fits import Progress
from attention.learning import access_of
from attention.validation import NonNegativeFloat, NonNegativeInt, PositiveInt, checked
from upper.engine import EngineName

Source = Target | GivenExamples | AskedFunction
"""What a learner learns from."""


@dataclass(frozen=True)
@checked
class LearnerSettings:
    """What a caller may set of a learner that is given by name.

    Parameters
    ----------
    heads : int or "auto", optional
        Heads to fit; by default the target's, 8 at most if it is hard. With auto, newton, six-phase and by-queries find
        out.
    rank : int, optional
        Rank of every head, if known, for newton: it then needs fewer examples.
    biases : bool, optional
        Whether newton learns biases too; by default where the target has some, or the examples need them.
    causal : bool, optional
        Whether newton learns a causal layer; by default where the target is one, or the examples show it.
    examples : int, optional
        Budget in examples, or in queries.
    work : int, optional
        Budget in passes over the examples (Adam: in steps; six-phase-paper: in tuples of its net).
    engine : {"auto", "numpy", "torch"}, optional
        What Newton computes with: numpy (the default), torch, or auto: torch for large problems.
    device : str, optional
        Where Newton and Adam compute, by PyTorch: cpu, cuda, or cuda:1 for the second GPU.
    """

    heads: PositiveInt | Literal["auto"] | None = None
    rank: PositiveInt | None = None
    biases: bool | None = None
    causal: bool | None = None
    examples: PositiveInt | None = None
    work: PositiveInt | None = None
    engine: EngineName | None = None
    device: str | None = None

    @property
    def given(self) -> dict[str, Any]:
        """Those that are set."""
        return {name: value for name, value in vars(self).items() if value is not None}


@checked
def learn(
    source: Source | str | os.PathLike | Sequence[str | os.PathLike] | Callable[[Any], Any],
    learner: str | LearnerEntry | Learner | None = None,
    *,
    noise: NonNegativeFloat | None = None,
    tokens: PositiveInt | None = None,
    dim: PositiveInt | None = None,
    inputs: InputsName | None = None,
    preset: Literal["quick", "full"] = "full",
    seed: NonNegativeInt = 0,
    progress: Progress | None = None,
    **settings: Any,
) -> Learned:
    """Run one learner on a source and measure its error on what it has not seen.

    Parameters
    ----------
    source : Target, path, paths, or callable
        A target, or a file of one; one file of examples x and y, or two files of one array each, of shape (n, k, d); or
        a function of token matrices (k, d) or (n, k, d), a module of torch, or FILE.py:NAME of one.
    learner : str, Learner or LearnerEntry, optional
        A name of `LEARNERS`, or a learner that is set up. The default is newton; by-queries for a function, and
        rotary for a layer with rotary positions.
    noise : float, optional
        Standard deviation of Gaussian noise that is added to every entry of the labels, or of answers to queries; the
        labels for measuring have none. Of a function: of the noise that its answers have; by default it is found.
    tokens : int, optional
        Number k of tokens: of a file that does not say it or of which it is not wanted, and of a function's inputs.
    dim : int, optional
        Number d of coordinates of a token, of a function's inputs.
    inputs : {"boolean", "gaussian", "sphere"}, optional
        Distribution of the tokens, instead of the file's.
    preset : {"quick", "full"}
        Budgets of a learner given by name: quick or full.
    seed : int
        Seed of every random choice, also of which given examples are held out.
    progress : callable, optional
        Called with each `attention.Step` as it is recorded.
    **settings
        Of the learner, in place of its own: heads, rank, biases, causal, examples, work, engine, device, as of
        `arena.learning.LearnerSettings`.

    Raises
    ------
    FileFormatError
        If a file is no layer and no instance, and holds no examples.
    DoesNotApplyError
        If the learner is an attack on another kind of target.
    ValueError
        If the learner is not known, a setting is out of range or neither the learner nor the source uses it, the device
        is missing, there are fewer than two different examples, or a function gives no finite arrays of their shape.
    ImportError
        If torch is needed and not installed.

    Notes
    -----
    Apart from the seconds, the same target, learner and seed give the same numbers as in `compare`.

    Of given examples a twentieth is held out at random, together with all examples that follow from it by a symmetry.
    Learners judge their fits by the same examples; six-phase in paper mode and elimination hold out others too. Without
    a budget all of the rest are used, in their order. A fit that a learner calls exact and that these examples
    contradict is overfitted.

    Examples
    --------
    >>> from arena import nice_target
    >>> learned = learn(nice_target(heads=1, tokens=2, dim=4, seed=1), "newton", seed=2)
    >>> learned.fit.outcome.name, learned.error < 1e-12
    ('EXACT', True)
    """
    own = LearnerSettings(**settings).given
    opened = open_source(source, tokens=tokens, dim=dim, inputs=inputs)
    target = opened if isinstance(opened, Target) else opened.stand_in(own.get("heads"))
    usual = usual_learner(opened)
    entry = one_learner(learner or usual)
    built: Any = entry.build(target, PRESETS[preset])
    if noise is not None and isinstance(opened, AskedFunction):
        own["noise"] = noise
    known = {field.name for field in fields(built)}
    for name in own:
        if name not in known:
            raise ValueError(f"{entry.title} has no use for {name}: leave it out.")
    require_engine(own.get("engine"), own.get("device"))
    if not isinstance(opened, Target):
        if (access := access_of(built)) not in opened.access:
            raise ValueError(
                f"{entry.title} learns from {access}, which {opened.what} cannot answer: choose a learner of "
                f"{opened.access[0]}, such as {usual}."
            )
        if not isinstance(learner, Learner):
            defaults = opened.usual_settings.items()
            own = {name: value for name, value in defaults if name in known} | own
            if "heads" in own and own["heads"] is None:
                raise ValueError(
                    f"Examples do not say how many heads {entry.title} is to fit: give heads a number."
                )
    built = replace(built, **own)
    record = entry.record([built])
    if isinstance(opened, Target):
        added = noise or 0.0
        fit, measures = opened.fit(built, seed, noise=added, progress=progress)
        return Learned(record, seed, fit, opened.title, measures, opened, added)
    if isinstance(opened, GivenExamples) and noise is not None:
        raise ValueError("noise is for labels that are drawn: leave it out, given examples are as they are.")
    return opened.learned(record, built, seed=seed, progress=progress)


def usual_learner(source: Source) -> str:
    """The learner of a source if none is named."""
    if isinstance(source, Target) and source.rotary:
        return "rotary"
    return "by-queries" if isinstance(source, AskedFunction) else "newton"


def open_source(
    source: Any, *, tokens: int | None = None, dim: int | None = None, inputs: InputsName | None = None
) -> Source:
    """A source as `learn` takes it, read and checked. The arguments and the errors are those of `learn`."""
    own = callable(source) or (isinstance(source, str) and ".py:" in source)
    if own and not isinstance(source, Source):
        if inputs is not None:
            raise ValueError("inputs is for tokens that are drawn: a function is asked, so leave it out.")
        if tokens is None or dim is None:
            raise ValueError(
                "A function does not say what it takes: give tokens and dim, the shape of a query."
            )
        return AskedFunction(source, tokens, dim)
    if dim is not None:
        raise ValueError(
            "dim is for a function that is asked: leave it out, a layer or examples have their own."
        )
    several = isinstance(source, Sequence) and not isinstance(source, str)
    if isinstance(source, Source) or several or holds_examples(Path(source)):
        for name, value in (("tokens", tokens), ("inputs", inputs)):
            if value is not None:
                raise ValueError(f"{name} is for examples that are drawn from a file: leave it out.")
        return source if isinstance(source, Source) else GivenExamples.read(source if several else [source])
    return load_target(source, tokens=tokens, inputs=inputs)
