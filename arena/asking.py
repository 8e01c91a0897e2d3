"""A function of one's own that answers value queries: its layer is learned, and the examples it would have taken."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from arena.learned import Learned
from arena.own_files import object_of_file
from arena.records import LearnerRecord
from arena.targets import Target
from attention import AttentionLayer, BooleanInputs, ValueOracle
from attention.errors import relative_error
from attention.fits import Progress
from attention.learning import Access
from runs import single_thread
from upper import Newton
from upper.floor import counting_floor

# Fresh queries on which the error is measured.
_FRESH = 100
# Answers to a batch and to its parts are the same up to rounding, of bfloat16 too.
_SAME = 0.05


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
        tokens, dim, function = self.tokens, self.dim, self.function
        name = (
            function if isinstance(function, str) else getattr(function, "__name__", type(function).__name__)
        )
        asked = _named(function) if isinstance(function, str) else function
        oracle = ValueOracle.from_callable(answering(asked, tokens, dim), tokens, dim)
        for_learner, for_check = np.random.default_rng(seed).spawn(2)
        with single_thread(torch="torch" in sys.modules):
            fit = learner.fit(oracle, rng=for_learner, progress=progress)
            x = for_check.standard_normal((_FRESH, tokens, dim))
            error = relative_error(fit.predict(x), oracle.ask(x))
        counts: dict[str, Any] = {"counting_floor": None, "examples_for_newton": None}
        if (layer := fit.layer) is not None and fit.outcome.succeeded:
            known = {"heads": layer.heads, "biases": layer.biased, "causal": layer.causal}
            newton = Newton(**known).default_examples(layer.heads, tokens, dim)
            floor = counting_floor(tokens=tokens, dim=dim, **known)
            counts = {"counting_floor": floor, "examples_for_newton": newton}
        source = f"{name}, {tokens} tokens in {dim} dimensions"
        data = {"function": name, "tokens": tokens, "dim": dim, **counts}
        return Learned(record, seed, fit, source, {"error": error}, data=data)


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
        return lambda x: np.stack([_as_array(function(one)) for one in x])
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
    multihead = isinstance(module, torch.nn.MultiheadAttention)
    tokens = torch.as_tensor(x, **where)
    training = module.training
    module.eval()
    try:
        with torch.no_grad():
            if multihead:
                flip = not module.batch_first
                tokens = tokens.transpose(0, 1) if flip else tokens
                output = module(tokens, tokens, tokens, need_weights=False)[0]
                output = output.transpose(0, 1) if flip else output
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
