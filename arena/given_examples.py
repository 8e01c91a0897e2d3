"""One learner on given examples, of which no target is known: what was learned is measured on some held out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from arena._fields import as_plain
from arena._phrases import plural
from arena.cells import single_thread
from arena.engines import engine_used, require_engine
from arena.learned import set_up, told_of_fit, written_of_fit
from arena.records import LearnerRecord, TargetRecord
from arena.students import Student
from arena.targets import Target
from attention import AttentionLayer, BooleanInputs, ExampleOracle, Fit, Learner, relative_error, save_layer
from attention.evaluation import orbits, which_held_out
from attention.files import FilePath
from attention.learning import Progress
from attention.validation import count
from upper import Newton

__all__ = ["LearnedExamples", "learn_examples"]


@dataclass(frozen=True, eq=False)
class LearnedExamples:
    """What one learner made of given examples.

    Attributes
    ----------
    names : tuple of str
        The files they are from.
    shape : tuple of int
        The numbers (n, k, d) of the examples given.
    learner : LearnerRecord
        The learner and the parameters it ran with.
    seed : int
        The seed of the fit, and of which examples were held out.
    fit : Fit
        What the learner returned.
    held_out : int
        So many examples the learner never saw.
    held_out_error : float
        The relative error on those: nothing else is known to measure against.
    engine : str
        What computed it; empty where that is not known.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    learner: LearnerRecord
    seed: int
    fit: Fit
    held_out: int
    held_out_error: float
    engine: str = ""

    @property
    def layer(self) -> AttentionLayer | None:
        """The fitted layer; None where the learner fits something else."""
        return self.fit.layer

    def __repr__(self) -> str:
        ended = f"{self.fit.outcome.name}, held-out error {self.held_out_error:.3g}"
        return f"<LearnedExamples: {self.learner.title} on {' and '.join(self.names)}, {ended}>"

    def __str__(self) -> str:
        n, k, d = self.shape
        lines = [
            f"{self.learner.title} on: {plural(n, 'example')} of {plural(k, 'token')} in {d} dimensions",
            f"  {self.fit.outcome}",
            f"  {'error on held-out examples':<28} {self.held_out_error:.3g} ({self.held_out} of them)",
        ]
        return "\n".join(lines + told_of_fit(self.fit, self.learner, given=n - self.held_out))

    def to_json(self) -> dict[str, Any]:
        """As JSON values, with the trace; what is not finite is None."""
        n, k, d = self.shape
        return as_plain(
            {
                "files": list(self.names),
                "examples": n,
                "tokens": k,
                "dim": d,
                "learner": self.learner.name,
                "seed": self.seed,
                "outcome": self.fit.outcome.name,
                "outcome_text": str(self.fit.outcome),
                "succeeded": self.fit.outcome.succeeded,
                "held_out": self.held_out,
                "held_out_error": self.held_out_error,
                **written_of_fit(self.fit, self.learner),
                "engine": self.engine,
                "trace": [step.to_json() for step in self.fit.trace],
            }
        )

    def save(self, path: FilePath) -> Path:
        """Write the fitted layer, and return where it is; the file says nothing of the distribution of the tokens.

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
            "examples": list(self.names),
            "seed": self.seed,
            "outcome": self.fit.outcome.name,
        }
        save_layer(path, self.layer, made=made)
        return Path(path)


def learn_examples(
    files: Sequence[FilePath],
    learner: str | Student | Learner = "newton",
    *,
    heads: int | Literal["auto"] | None = None,
    seed: int = 0,
    preset: str = "full",
    examples: int | None = None,
    work: int | None = None,
    rank: int | None = None,
    engine: str | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> LearnedExamples:
    """Run one learner on the examples in files, and measure on some of them that it never saw.

    Parameters
    ----------
    files : sequence of path
        Two files of one array each, the token matrices and their labels; or one safetensors file with x and y.
    learner : str, Learner or Student
        As for `arena.learn`; an attack that knows the family of its target has none here.
    heads : int or "auto"
        The heads of the layer to fit: examples do not say. Not for learners that fit no heads.
    seed : int
        Seed of every random choice, that of the examples held out among them.
    preset, examples, work, rank, engine, device, progress
        As for `arena.learn`.

    Raises
    ------
    FileFormatError
        If the files hold no examples.
    ValueError
        If there are fewer than two different ones, the heads are not given where they must be, or as for
        `arena.learn`.
    ImportError
        If torch is needed and not installed.

    Notes
    -----
    A twentieth is held out at random, with what follows from them by a symmetry; learners hold out some of the rest
    themselves. Without a budget of examples all of the rest are used. The order of the others is kept.
    """
    x, y = _read(files)
    n, k, d = x.shape
    chosen = set_up(
        _stand_in(k, d, 1 if heads is None or heads == "auto" else count("heads", heads)),
        learner,
        preset=preset,
        examples=examples,
        work=work,
        heads=heads,
        rank=rank,
        engine=engine,
        device=device,
    )
    if heads is None and hasattr(chosen.learner, "m"):
        raise ValueError(
            f"Examples do not say how many heads {chosen.student.title} is to fit: give --heads a number."
        )
    require_engine(engine, device)
    for_split, for_learner = (np.random.default_rng([seed, stream]) for stream in range(2))
    held = _held_out(x, for_split)
    oracle = ExampleOracle.from_arrays(x[~held], y[~held])
    learner_of_all = chosen.learner
    if isinstance(chosen.learner, Newton) and chosen.learner.examples is None:
        learner_of_all = replace(chosen.learner, examples=oracle.remaining)
    used = engine_used(learner_of_all, chosen.target)
    with single_thread(chosen.student.extra):
        fit = chosen.learner.fit(oracle, rng=for_learner, progress=progress)
        predicted = np.asarray(fit.predict(x[held]), dtype=np.float64)
    return LearnedExamples(
        names=tuple(str(file) for file in files),
        shape=(n, k, d),
        learner=chosen.student.record([chosen.learner]),
        seed=seed,
        fit=fit,
        held_out=int(held.sum()),
        held_out_error=relative_error(predicted, y[held]),
        engine=used,
    )


def _read(files: Sequence[FilePath]) -> tuple[Float[np.ndarray, "n k d"], Float[np.ndarray, "n k d"]]:
    if isinstance(files, str) or len(files) not in (1, 2):
        raise ValueError(
            "The examples are two files, the token matrices and their labels, or one with x and y."
        )
    oracle = ExampleOracle.from_files(*(Path(file) for file in files))
    return oracle.draw(oracle.remaining or 0)


def _held_out(x: Float[np.ndarray, "n k d"], rng: np.random.Generator) -> np.ndarray:
    """Which examples are held out, in a random order: files may be sorted."""
    if len(set(orbits(x).tolist())) < 2:
        raise ValueError(f"The {plural(len(x), 'example')} are all of one input: two at least are needed.")
    order = rng.permutation(len(x))
    held = np.zeros(len(x), dtype=bool)
    held[order] = which_held_out(x[order])
    return held


def _stand_in(k: int, d: int, heads: int) -> Target:
    """A target of the examples' shape, for setting a learner up: nothing else of it is looked at."""
    zero = np.zeros((heads, d, d))
    record = TargetRecord(
        name="examples", title="Examples", kind="file", heads=heads, tokens=k, dim=d, inputs={}, how=""
    )
    return Target(record, AttentionLayer(theta=zero, w=zero), BooleanInputs(k, d), instance=None, made={})
