"""What a learner learns from, beside targets: examples in files, and a function that is asked."""

import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from arena.learned import Learned
from arena.names import object_of_file
from arena.records import LearnerRecord
from arena.target import Target, may_use_torch
from attention import AttentionLayer, BooleanInputs, ExampleOracle, FileFormatError, Fit, Outcome, ValueOracle
from attention.errors import relative_error
from attention.evaluation import HeldOut, orbits, which_held_out
from attention.files import FilePath, stored_tensors
from attention.fits import Progress
from attention.learning import Access, asks_any_length
from runs import fingerprint, single_thread
from upper import Newton, certify_layer
from upper.floor import counting_floor
from upper.newton.causal import examples_are_causal
from upper.newton.certificate import LayerCertificate

# With these outcomes examples that the learner never saw have no larger error, or they contradict it.
_TO_ROUNDING, _CONTRADICTED = (Outcome.EXACT, Outcome.PRECISION_FLOOR), 1e-6
# A certificate of so many unknown entries takes half a minute.
_MOST_CERTIFIED, _MOST_EXAMPLES = 2000, 1000
_FRESH = 100  # queries on which the error of a function's fit is measured
# Answers to a batch and to its parts are the same up to rounding, of bfloat16 too.
_SAME = 0.05


@dataclass(frozen=True, eq=False)
class GivenExamples:
    """Token matrices and their labels, read from files: a source for `arena.learn`."""

    x: Float[np.ndarray, "n k d"]  #: the token matrices
    y: Float[np.ndarray, "n k d"]  #: their labels
    files: tuple[Path, ...] = ()  #: where they are from
    what: ClassVar[str] = "given examples"
    access: ClassVar[Sequence[Access]] = ("random examples", "samples of rounding")
    usual_settings: ClassVar[Mapping[str, Any]] = {"heads": None, "biases": "auto"}
    layer: ClassVar[None] = None  #: of a target: its layer

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

    @cached_property
    def causal(self) -> bool:
        """Whether the labels of a token do not depend on later tokens."""
        return examples_are_causal(self.x, self.y)

    @property
    def content(self) -> str:
        """What distinguishes them from other examples, also from others in the same files."""
        return fingerprint((self.x, self.y))

    def stand_in(self, heads: int | str | None) -> Target:
        """A target with the shape and the mask of the examples, to set a learner up; only these are used."""
        k, d = self.x.shape[1:]
        zero = np.zeros((heads if isinstance(heads, int) else 1, d, d))
        return Target("examples", AttentionLayer(zero, zero, causal=self.causal), BooleanInputs(k, d))

    def learned(
        self, record: LearnerRecord, learner: Any, *, seed: int, progress: Progress | None
    ) -> Learned:
        """The fit of a learner, its error on held-out examples, and what the examples determine."""
        fit, error, certificate, why = self._fitted(learner, seed, progress)
        (n, k, d), unseen = self.x.shape, self._held_out(seed).sum()
        source = f"{n} examples of {k} tokens in {d} dimensions: {n - unseen} to fit, {unseen} held out"
        data = {"files": [str(file) for file in self.files], "examples": n, "tokens": k, "dim": d}
        measures = {"held_out_error": error}
        return Learned(
            record,
            seed,
            fit,
            source,
            measures,
            data=data | {"held_out": int(unseen)},
            certificate=certificate,
            uncertified=why,
        )

    def measured(self, learner: Any, *, seed: int) -> tuple[Fit, dict[str, float | None]]:
        """A learner's fit, its error on held-out examples, the certificate's bound on that in Theta, and its share."""
        fit, error, certificate, _ = self._fitted(learner, seed, None)
        theta = None if certificate is None else max(certificate.theta_error)
        share = None if certificate is None else sum(certificate.theta) / sum(certificate.free)
        return fit, {"error": error, "theta_error": theta, "determined": share}

    def _fitted(
        self, learner: Any, seed: int, progress: Progress | None
    ) -> tuple[Fit, float, LayerCertificate | None, str]:
        x, y, held = self.x, self.y, self._held_out(seed)
        oracle = ExampleOracle.from_arrays(x[~held], y[~held], held_out=(x[held], y[held]))
        with single_thread(torch=may_use_torch(learner)):
            fit = learner.fit(oracle, rng=np.random.default_rng([seed, 1]), progress=progress)
            error = HeldOut(x[held], y[held], x[~held]).error(fit.predict)
            if fit.outcome in _TO_ROUNDING and error > _CONTRADICTED:
                fit = replace(fit, outcome=Outcome.OVERFITTED)
            return (
                fit,
                error,
                *self._certified(fit, np.flatnonzero(~held)[: fit.examples_used], learner, seed),
            )

    def _held_out(self, seed: int) -> np.ndarray:
        """Which examples are held out; the choice is random, because files may be sorted."""
        if len(set(orbits(self.x).tolist())) < 2:
            raise ValueError(f"The {len(self.x)} examples are all of one input: two at least are needed.")
        order = np.random.default_rng([seed, 0]).permutation(len(self.x))
        held = np.zeros(len(self.x), dtype=bool)
        held[order] = which_held_out(self.x[order])
        return held

    def _certified(
        self, fit: Fit, fitted: np.ndarray, learner: Any, seed: int
    ) -> tuple[LayerCertificate | None, str]:
        """What some of the fitted examples determine of the layer, or why that is not known.

        More examples determine no less.
        """
        layer, fits = fit.layer, fit.outcome.succeeded or fit.outcome is Outcome.UNCONFIRMED
        if not isinstance(layer, AttentionLayer):
            return None, "the learner fits no layer"
        if not layer.heads or not fits:
            return None, "the fit did not succeed"
        if (entries := layer.heads * layer.dim * (layer.dim + layer.biased)) > _MOST_CERTIFIED:
            return None, (
                f"Theta and c have {entries:,} entries, and more than {_MOST_CERTIFIED:,} take minutes; "
                "upper.certify_layer takes any number"
            )
        some = np.sort(np.random.default_rng([seed, 2]).permutation(fitted)[:_MOST_EXAMPLES])
        rank = getattr(learner, "rank", None)
        return certify_layer(layer, self.x[some], y=self.y[some], rank=rank), ""


@dataclass(frozen=True, eq=False)
class AskedFunction:
    """A function that is asked at inputs of a learner's choice: a source for `arena.learn`."""

    #: a function of a token matrix (k, d) or of several, (n, k, d), to outputs of the same shape; a module of torch; or
    #: FILE.py:NAME of one: the file is executed alone
    function: str | Callable[[Any], Any]
    tokens: int  #: k of a query
    dim: int  #: d of a query
    what: ClassVar[str] = "a function"
    access: ClassVar[Sequence[Access]] = ("value queries",)
    usual_settings: ClassVar[Mapping[str, Any]] = {"heads": "auto"}

    def stand_in(self, heads: int | str | None) -> Target:
        """A target with the shape of the queries, to set a learner up."""
        zero = np.zeros((1, self.dim, self.dim))
        return Target("function", AttentionLayer(zero, zero), BooleanInputs(self.tokens, self.dim))

    def learned(
        self, record: LearnerRecord, learner: Any, *, seed: int, progress: Progress | None
    ) -> Learned:
        """The fit of a learner, its error on fresh queries, and the random examples that it would have taken."""
        tokens, dim, function, name = self.tokens, self.dim, self.function, self.function
        if isinstance(function, str):
            function = _named(function)
        else:
            name = getattr(function, "__name__", type(function).__name__)
        of_query = None if asks_any_length(learner) else tokens
        oracle = ValueOracle.from_callable(answering(function, tokens, dim), of_query, dim)
        for_learner, for_check = np.random.default_rng(seed).spawn(2)
        with single_thread(torch="torch" in sys.modules):
            fit = learner.fit(oracle, rng=for_learner, progress=progress)
            x = for_check.standard_normal((_FRESH, tokens, dim))
            error = relative_error(fit.predict(x), oracle.ask(x))
        counts: dict[str, Any] = {"counting_floor": None, "examples_for_newton": None}
        if isinstance(layer := fit.layer, AttentionLayer) and fit.outcome.succeeded:
            known: dict[str, Any] = {"heads": layer.heads, "biases": layer.biased, "causal": layer.causal}
            newton = Newton(**known).default_examples(layer.heads, tokens, dim)
            floor = counting_floor(tokens=tokens, dim=dim, **known)
            counts = {"counting_floor": floor, "examples_for_newton": newton}
        source = f"{name}, {tokens} tokens in {dim} dimensions"
        data = {"function": name, "tokens": tokens, "dim": dim, **counts}
        return Learned(record, seed, fit, source, {"error": error}, data=data)


def holds_examples(file: Path) -> bool:
    """Whether a file holds examples x and y, and not a layer; if it cannot be read, reading it later gives the error.

    ValueError if it holds something else that `arena.learn` cannot learn from, and another call can.
    """
    if file.suffix == ".npy":
        raise ValueError(
            f"{file} holds an array and no layer: give examples as two files, by --examples-from X.npy Y.npy."
        )
    if file.suffix == ".py":
        raise ValueError(
            f"{file} is code: a function in it is asked by --ask {file}:NAME, with --tokens and --dim."
        )
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


def answering(function: Any, k: int, d: int) -> Callable[[np.ndarray], Any]:
    """The function as one of arrays (n, k, d); found out are modules of torch, and functions of one token matrix."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(function, torch.nn.Module):
        return lambda x: _of_module(torch, function, x)
    x = np.random.default_rng(0).standard_normal((2, k, d))
    answers: list[np.ndarray | None] = []
    wrong: list[str] = []
    for given in (x, x[0]):
        try:
            answer = _as_array(function(given))
        except Exception as error:
            answers.append(None)
            wrong.append(f"on an array {given.shape} it raised {type(error).__name__}: {error}")
            continue
        answers.append(answer if answer.shape == given.shape else None)
        wrong.append(f"on an array {given.shape} it gave the shape {answer.shape}")
    batch, alone = answers
    if batch is not None and (alone is None or relative_error(batch[0], alone) <= _SAME):
        return lambda x: _as_array(function(x))
    if alone is not None:
        return lambda x: np.stack([_as_array(function(matrix)) for matrix in x])
    raise ValueError(
        f"The function that is asked is none of token matrices ({k}, {d}) or of arrays (n, {k}, {d}) to outputs of the "
        f"same shape: {'; '.join(wrong)}."
    )


def _as_array(answer: Any) -> np.ndarray:
    return np.asarray(answer.detach().cpu().numpy() if hasattr(answer, "detach") else answer)


def _of_module(torch: Any, module: Any, x: np.ndarray) -> np.ndarray:
    """The output of a module in evaluation mode, in the module's own precision."""
    first = next(module.parameters(), None)
    where = {"dtype": torch.float64} if first is None else {"dtype": first.dtype, "device": first.device}
    tokens, training = torch.as_tensor(x, **where), module.training
    module.eval()
    try:
        with torch.no_grad():
            if isinstance(module, torch.nn.MultiheadAttention):
                order = (0, 1) if module.batch_first else (1, 0)
                tokens = tokens.permute(*order, 2)
                output = module(tokens, tokens, tokens, need_weights=False)[0].permute(*order, 2)
            else:
                output = module(tokens)
    finally:
        module.train(training)
    output = output[0] if isinstance(output, tuple | list) else getattr(output, "last_hidden_state", output)
    wide = output.dtype in (torch.float64, torch.float32)
    return np.asarray((output if wide else output.float()).cpu().numpy())


def _named(place: str) -> Any:
    if ".py:" not in place:
        raise ValueError(f"The function to ask is {place!r}: FILE.py:NAME is needed.")
    function, (path, _, name) = object_of_file(place, "a function to ask"), place.rpartition(":")
    if function is None or not callable(function) or isinstance(function, type):
        what = "" if function is None else f"{type(function).__name__} {name}, and "
        raise ValueError(
            f"{path} has {what}no function {name!r}: a function of token matrices, or a torch module, is needed."
        )
    return function
