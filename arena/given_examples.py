"""One learner on given examples without a known target; the error is measured on held-out examples."""

import dataclasses
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from arena.cells import may_use_torch
from arena.learned import Learned
from arena.learners import LearnerEntry
from arena.learning import one_learner, set_up
from arena.records import TargetRecord
from arena.targets import Target
from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    Fit,
    Learner,
    Outcome,
)
from attention.evaluation import HeldOut, orbits, which_held_out
from attention.files import FilePath
from attention.fits import Progress
from attention.learning import access_of
from attention.validation import count
from runs import single_thread
from upper import certify_layer
from upper.newton.causal import examples_are_causal
from upper.newton.certificate import LayerCertificate

__all__ = ["learn_examples"]

# With these outcomes examples that the learner never saw have no larger error, or they contradict it.
_TO_ROUNDING, _CONTRADICTED = (Outcome.EXACT, Outcome.PRECISION_FLOOR), 1e-6
# A certificate of so many unknown entries takes half a minute.
_MOST_CERTIFIED, _MOST_EXAMPLES = 2000, 1000


def learn_examples(
    files: Sequence[FilePath],
    learner: str | LearnerEntry | Learner = "newton",
    *,
    heads: int | str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    **settings: Any,
) -> Learned:
    """Run one learner on the examples in files, and measure its error on examples that were held out.

    Parameters
    ----------
    files : sequence of path
        Two files with one array each, the token matrices and their labels; or one safetensors file with x and y.
    learner : str, Learner or LearnerEntry
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
    entry = one_learner(learner)
    built = set_up(stand_in, entry, heads=heads, **settings)
    fields = {field.name for field in dataclasses.fields(built)}
    if access_of(built) == "value queries":
        raise ValueError(
            f"{entry.title} learns from value queries, which given examples cannot answer: choose a learner of random "
            "examples, such as newton."
        )
    if heads is None and "heads" in fields:
        raise ValueError(
            f"Examples do not say how many heads {entry.title} is to fit: give --heads a number."
        )
    if "biases" in fields and settings.get("biases") is None and not isinstance(learner, Learner):
        built = replace(built, biases="auto")
    for_split, for_learner = (np.random.default_rng([seed, stream]) for stream in range(2))
    held = _held_out(x, for_split)
    oracle = ExampleOracle.from_arrays(x[~held], y[~held], held_out=(x[held], y[held]))
    with single_thread(torch=may_use_torch(built)):
        fit = built.fit(oracle, rng=for_learner, progress=progress)
        error = HeldOut(x[held], y[held], x[~held]).error(fit.predict)
        if fit.outcome in _TO_ROUNDING and error > _CONTRADICTED:
            fit = replace(fit, outcome=Outcome.OVERFITTED)
        learned = np.flatnonzero(~held)[: fit.examples_used]
        certified = _certified(fit, x[learned], y[learned], getattr(built, "rank", None), for_split)
    (n, k, d), unseen = x.shape, int(held.sum())
    return Learned(
        entry.record([built]),
        seed,
        fit,
        source=f"{n} examples of {k} tokens in {d} dimensions: {n - unseen} to fit, {unseen} held out",
        measures={"held_out_error": error},
        data={
            "files": [str(file) for file in files],
            **{"examples": n, "tokens": k, "dim": d, "held_out": unseen},
        },
        certificate=None if isinstance(certified, str) else certified,
        uncertified=certified if isinstance(certified, str) else "",
    )


def _certified(
    fit: Fit,
    x: Float[np.ndarray, "n k d"],
    y: Float[np.ndarray, "n k d"],
    rank: int | None,
    rng: np.random.Generator,
) -> LayerCertificate | str:
    """What some of the examples determine of the layer of a fit that reproduces them, or why that is not known.

    More examples determine no less.
    """
    layer, fits = fit.layer, fit.outcome.succeeded or fit.outcome is Outcome.UNCONFIRMED
    if layer is None:
        return "the learner fits no layer"
    if not layer.heads or not fits:
        return "the fit did not succeed"
    if (entries := layer.heads * layer.dim * (layer.dim + layer.biased)) > _MOST_CERTIFIED:
        return (
            f"Theta and c have {entries:,} entries, and more than {_MOST_CERTIFIED:,} take minutes; "
            "upper.certify_layer takes any number"
        )
    some = np.sort(rng.permutation(len(x))[:_MOST_EXAMPLES])
    return certify_layer(layer, x[some], y=y[some], rank=rank)


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
