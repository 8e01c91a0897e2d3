"""One learner on given examples without a known target; the error is measured on held-out examples."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from arena.engines import engine_used
from arena.formats import as_plain
from arena.learned import LearnerRun, set_up
from arena.records import TargetRecord
from arena.students import Student
from arena.targets import Target
from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    Fit,
    Inputs,
    Learner,
    Outcome,
)
from attention.evaluation import HeldOut, orbits, which_held_out
from attention.files import FilePath
from attention.fits import Progress
from attention.validation import count
from runs import single_thread
from upper import Newton, certify_layer
from upper.newton.causal import examples_are_causal
from upper.newton.certificate import LayerCertificate

__all__ = ["LearnedExamples", "learn_examples"]

_ABOUT = {"biases": "biased", "causal": "causal"}
# With these outcomes examples that the learner never saw have no larger error, or they contradict it.
_TO_ROUNDING, _CONTRADICTED = (Outcome.EXACT, Outcome.PRECISION_FLOOR), 1e-6
# A certificate of so many unknown entries takes half a minute.
_MOST_CERTIFIED, _MOST_EXAMPLES = 2000, 1000


@dataclass(frozen=True, eq=False)
class LearnedExamples(LearnerRun):
    """The result of one learner on given examples.

    Attributes
    ----------
    learner, seed, fit, engine
        As in `arena.learned.LearnerRun`; the seed also decides which examples are held out.
    files : tuple of str
        The files of the examples.
    shape : tuple of int
        The numbers (n, k, d) of the examples given.
    held_out : int
        The number of examples that the learner never saw.
    held_out_error : float
        The relative error on the held-out examples, the only data to measure against; absolute if their labels are 0.
    certificate : LayerCertificate or None
        Which directions of the parameters the examples determine, and to what error, from at most 1000 of them; None if
        the learner is not Newton or did not reproduce them, or if Theta and c have more than 2000 entries
        (`certify_layer` takes any).
    uncertified : str
        Why there is no certificate; empty if there is one.
    """

    files: tuple[str, ...]
    shape: tuple[int, ...]
    held_out: int
    held_out_error: float
    certificate: LayerCertificate | None = None
    uncertified: str = ""

    def __repr__(self) -> str:
        ended = f"{self.fit.outcome.name}, held-out error {self.held_out_error:.3g}"
        return f"<LearnedExamples: {self.learner.title} on {' and '.join(self.files)}, {ended}>"

    def __str__(self) -> str:
        n, k, d = self.shape
        title = f"{n} examples of {k} tokens in {d} dimensions: {n - self.held_out} to fit, {self.held_out} held out"
        rows = {"error on held-out examples": f"{self.held_out_error:.3g} of the labels (not squared)"}
        if self.learner.parameters.get("biases") == "auto" and self.layer is not None:
            rows["biases"] = "found" if self.layer.biased else "none are needed"
        if self.layer is not None and self.layer.causal:
            rows["mask"] = "causal"
        text = self.text(title, rows)
        left_out = f"The certificate of the determined directions is left out: {self.uncertified}."
        found = left_out if self.certificate is None else str(self.certificate)
        return "\n  ".join([text, *found.splitlines()])

    def to_json(self) -> dict[str, Any]:
        """As JSON values, with the trace; values that are not finite are None."""
        own = {"files": list(self.files), "held_out": self.held_out, "held_out_error": self.held_out_error}
        shape = dict(zip(("examples", "tokens", "dim"), self.shape, strict=True))
        own["certificate"], own["uncertified"] = _as_json(self.certificate), self.uncertified
        own |= {name: None if self.layer is None else getattr(self.layer, of) for name, of in _ABOUT.items()}
        return as_plain({**own, **shape}) | super().to_json()

    def _learned_from(self) -> tuple[Inputs | None, dict[str, Any]]:
        return None, {"examples": list(self.files)}


def learn_examples(
    files: Sequence[FilePath],
    learner: str | Student | Learner = "newton",
    *,
    heads: int | str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    **settings: Any,
) -> LearnedExamples:
    """Run one learner on the examples in files, and measure its error on examples that were held out.

    Parameters
    ----------
    files : sequence of path
        Two files with one array each, the token matrices and their labels; or one safetensors file with x and y.
    learner : str, Learner or Student
        As for `arena.learn`, but not an attack on a family: there is no target with a family here.
    heads : int or "auto"
        The number of heads to fit, which examples do not show. Not for learners that fit no heads.
    seed : int
        Seed of every random choice, including the choice of held-out examples.
    progress, **settings
        As for `arena.learn`: preset, examples, work, rank, biases, causal, engine, device. By default, Newton learns
        biases if the examples need them, and a causal layer if `upper.newton.examples_are_causal`.

    Raises
    ------
    FileFormatError
        If the files hold no examples.
    ValueError
        If there are fewer than two different examples, the learner needs the number of heads and it is not given, or
        it learns from value queries; also as for `arena.learn`.
    ImportError
        If torch is needed and not installed.

    Notes
    -----
    A twentieth is held out at random, together with all examples that follow from it by a symmetry. Learners judge
    their fits by the same examples; six-phase in paper mode and elimination hold out others too. Without a budget of
    examples all of the rest are used. Their order is kept. A fit that a learner calls exact and that these examples
    contradict is overfitted.
    """
    if isinstance(files, str) or len(files) not in (1, 2):
        raise ValueError(
            "The examples are two files, the token matrices and their labels, or one with x and y."
        )
    given = ExampleOracle.from_files(*(Path(file) for file in files))
    x, y = given.draw(given.remaining or 0)
    number = 1 if heads is None or heads == "auto" else count("heads", heads)
    stand_in = _stand_in(given.tokens, given.dim, number, causal=examples_are_causal(x, y))
    chosen = set_up(stand_in, learner, heads=heads, **settings)
    if (
        isinstance(chosen.learner, Newton)
        and not isinstance(learner, Newton)
        and settings.get("biases") is None
    ):
        chosen = replace(chosen, learner=replace(chosen.learner, biases="auto"))
    if chosen.record.access == "value queries":
        raise ValueError(
            f"{chosen.student.title} learns from value queries, which given examples cannot answer: choose a learner "
            "of random examples, such as newton."
        )
    if heads is None and hasattr(chosen.learner, "heads"):
        raise ValueError(
            f"Examples do not say how many heads {chosen.student.title} is to fit: give --heads a number."
        )
    for_split, for_learner = (np.random.default_rng([seed, stream]) for stream in range(2))
    held = _held_out(x, for_split)
    oracle = ExampleOracle.from_arrays(x[~held], y[~held], held_out=(x[held], y[held]))
    placed = chosen.learner
    if isinstance(placed, Newton) and placed.examples is None:
        placed = replace(placed, examples=oracle.remaining)
    engine = engine_used(placed, chosen.target)
    with single_thread(torch=engine.startswith("torch")):
        fit = chosen.learner.fit(oracle, rng=for_learner, progress=progress)
        error = HeldOut(x[held], y[held], x[~held]).error(fit.predict)
        if fit.outcome in _TO_ROUNDING and error > _CONTRADICTED:
            fit = replace(fit, outcome=Outcome.OVERFITTED)
        learned = np.flatnonzero(~held)[: fit.examples_used]
        certified = _certified(placed, fit, x[learned], y[learned], for_split)
    return LearnedExamples(
        learner=chosen.record,
        seed=seed,
        fit=fit,
        engine=engine,
        files=tuple(str(file) for file in files),
        shape=x.shape,
        held_out=int(held.sum()),
        held_out_error=error,
        certificate=None if isinstance(certified, str) else certified,
        uncertified=certified if isinstance(certified, str) else "",
    )


def _certified(
    learner: Learner,
    fit: Fit,
    x: Float[np.ndarray, "n k d"],
    y: Float[np.ndarray, "n k d"],
    rng: np.random.Generator,
) -> LayerCertificate | str:
    """What some of the examples determine of the layer of a fit that reproduces them, or why that is not known.

    More examples determine no less.
    """
    layer, fits = fit.layer, fit.outcome.succeeded or fit.outcome is Outcome.UNCONFIRMED
    if not isinstance(learner, Newton):
        return "only layers of Newton get one"
    if layer is None or not layer.heads or not fits:
        return "the fit did not succeed"
    if (entries := layer.heads * layer.dim * (layer.dim + layer.biased)) > _MOST_CERTIFIED:
        return (
            f"Theta and c have {entries:,} entries, and more than {_MOST_CERTIFIED:,} take minutes; "
            "upper.certify_layer takes any number"
        )
    some = np.sort(rng.permutation(len(x))[:_MOST_EXAMPLES])
    return certify_layer(layer, x[some], y=y[some], rank=learner.rank)


def _as_json(certificate: LayerCertificate | None) -> dict[str, Any] | None:
    if certificate is None:
        return None
    names = (
        "determined",
        "theta",
        "free",
        "w",
        "theta_error",
        "key_bias_error",
        "w_error",
        "rounding",
        "tolerance",
    )
    return {"span": certificate.whitening.rank, **{name: getattr(certificate, name) for name in names}}


def _held_out(x: Float[np.ndarray, "n k d"], rng: np.random.Generator) -> Bool[np.ndarray, " n"]:
    """Which examples are held out; the choice is random, because files may be sorted."""
    if len(set(orbits(x).tolist())) < 2:
        raise ValueError(f"The {len(x)} examples are all of one input: two at least are needed.")
    order = rng.permutation(len(x))
    held = np.zeros(len(x), dtype=bool)
    held[order] = which_held_out(x[order])
    return held


def _stand_in(k: int, d: int, heads: int, *, causal: bool) -> Target:
    """A target with the shape and the mask of the examples, to set a learner up; only these are used."""
    zero = np.zeros((heads, d, d))
    record = TargetRecord(
        name="examples", title="Examples", kind="file", heads=heads, tokens=k, dim=d, inputs={}, how=""
    )
    return Target(
        record, AttentionLayer(theta=zero, w=zero, causal=causal), BooleanInputs(k, d), instance=None, made={}
    )
