"""Examples in files, without a known target: a learner's error is measured on those that are held out."""

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float

from arena.cells import may_use_torch
from arena.learned import Learned
from arena.records import LearnerRecord
from arena.targets import Target
from attention import AttentionLayer, BooleanInputs, ExampleOracle, FileFormatError, Fit, Outcome
from attention.evaluation import HeldOut, orbits, which_held_out
from attention.files import FilePath, stored_tensors
from attention.fits import Progress
from attention.learning import Access
from runs import single_thread
from upper import certify_layer
from upper.newton.causal import examples_are_causal
from upper.newton.certificate import LayerCertificate

# With these outcomes examples that the learner never saw have no larger error, or they contradict it.
_TO_ROUNDING, _CONTRADICTED = (Outcome.EXACT, Outcome.PRECISION_FLOOR), 1e-6
# A certificate of so many unknown entries takes half a minute.
_MOST_CERTIFIED, _MOST_EXAMPLES = 2000, 1000


@dataclass(frozen=True, eq=False)
class GivenExamples:
    """Token matrices and their labels, read from files: a source for `arena.learn`."""

    x: Float[np.ndarray, "n k d"]  #: the token matrices
    y: Float[np.ndarray, "n k d"]  #: their labels
    files: tuple[Path, ...] = ()  #: where they are from
    what: ClassVar[str] = "given examples"
    access: ClassVar[Sequence[Access]] = ("random examples", "samples of rounding")
    usual_settings: ClassVar[Mapping[str, Any]] = {"heads": None, "biases": "auto"}

    @classmethod
    def read(cls, files: Sequence[FilePath]) -> "GivenExamples":
        """The examples in two files with one array each, or in one with x and y.

        FileFormatError if the files hold no examples. ValueError if there are not one or two files.
        """
        if len(files) not in (1, 2):
            raise ValueError(
                f"{len(files)} files are named: the token matrices and their labels, or one file of both."
            )
        paths = tuple(Path(file) for file in files)
        given = ExampleOracle.from_files(*paths)
        return cls(*given.draw(given.remaining or 0), paths)

    def stand_in(self, heads: int | str | None) -> Target:
        """A target with the shape and the mask of the examples, to set a learner up; only these are used."""
        k, d = self.x.shape[1:]
        zero = np.zeros((heads if isinstance(heads, int) else 1, d, d))
        layer = AttentionLayer(theta=zero, w=zero, causal=examples_are_causal(self.x, self.y))
        return Target("examples", layer, BooleanInputs(k, d))

    def learned(
        self, record: LearnerRecord, learner: Any, *, seed: int, progress: Progress | None
    ) -> Learned:
        """The fit of a learner, its error on held-out examples, and what the examples determine."""
        x, y = self.x, self.y
        for_split, for_learner = (np.random.default_rng([seed, stream]) for stream in range(2))
        held = _held_out(x, for_split)
        oracle = ExampleOracle.from_arrays(x[~held], y[~held], held_out=(x[held], y[held]))
        with single_thread(torch=may_use_torch(learner)):
            fit = learner.fit(oracle, rng=for_learner, progress=progress)
            error = HeldOut(x[held], y[held], x[~held]).error(fit.predict)
            if fit.outcome in _TO_ROUNDING and error > _CONTRADICTED:
                fit = replace(fit, outcome=Outcome.OVERFITTED)
            fitted = np.flatnonzero(~held)[: fit.examples_used]
            rank = getattr(learner, "rank", None)
            certificate, why = _certified(fit, x[fitted], y[fitted], rank, for_split)
        (n, k, d), unseen = x.shape, int(held.sum())
        source = f"{n} examples of {k} tokens in {d} dimensions: {n - unseen} to fit, {unseen} held out"
        sizes = {"examples": n, "tokens": k, "dim": d, "held_out": unseen}
        data = {"files": [str(file) for file in self.files], **sizes}
        measures = {"held_out_error": error}
        return Learned(
            record, seed, fit, source, measures, data=data, certificate=certificate, uncertified=why
        )


def holds_examples(file: Path) -> bool:
    """Whether a file holds examples x and y, and not a layer; if it cannot be read, reading it later gives the error.

    ValueError if it holds something else that `arena.learn` cannot learn from, and another call can.
    """
    if file.suffix == ".npy":
        raise ValueError(f"{file} holds an array and no layer: give examples as two files, X.npy and Y.npy.")
    if file.suffix.lower() == ".npz":
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                names = set(archive.namelist())
            if "b.npy" in names and "x.npy" not in names:
                raise ValueError(
                    f"{file} holds samples, not examples of a layer: give it to attention-bounds attack."
                )
        return True
    try:
        names = set(stored_tensors(file))
    except FileFormatError:
        return False
    return {"x", "y"} <= names and "theta" not in names


def _certified(
    fit: Fit,
    x: Float[np.ndarray, "n k d"],
    y: Float[np.ndarray, "n k d"],
    rank: int | None,
    rng: np.random.Generator,
) -> tuple[LayerCertificate | None, str]:
    """What some of the examples determine of the layer of a fit that reproduces them, or why that is not known.

    More examples determine no less.
    """
    layer, fits = fit.layer, fit.outcome.succeeded or fit.outcome is Outcome.UNCONFIRMED
    if layer is None:
        return None, "the learner fits no layer"
    if not layer.heads or not fits:
        return None, "the fit did not succeed"
    if (entries := layer.heads * layer.dim * (layer.dim + layer.biased)) > _MOST_CERTIFIED:
        return None, (
            f"Theta and c have {entries:,} entries, and more than {_MOST_CERTIFIED:,} take minutes; "
            "upper.certify_layer takes any number"
        )
    some = np.sort(rng.permutation(len(x))[:_MOST_EXAMPLES])
    return certify_layer(layer, x[some], y=y[some], rank=rank), ""


def _held_out(x: Float[np.ndarray, "n k d"], rng: np.random.Generator) -> Bool[np.ndarray, " n"]:
    """Which examples are held out; the choice is random, because files may be sorted."""
    if len(set(orbits(x).tolist())) < 2:
        raise ValueError(f"The {len(x)} examples are all of one input: two at least are needed.")
    order = rng.permutation(len(x))
    held = np.zeros(len(x), dtype=bool)
    held[order] = which_held_out(x[order])
    return held
