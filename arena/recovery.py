"""The attention layers of a trained model, each learned back and compared with the truth: cells, records, a page."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from arena.formats import aligned, as_plain, error_text, seconds_text
from arena.records import Record
from arena.target import Target, identity
from arena.targets import InputsName, checkpoint_target, inputs_named
from arena.views.page import data_link, template
from attention import Fit, ValueOracle, read_checkpoint_layer
from attention.checkpoints import checkpoint_layers
from attention.evaluation import CONFIDENCE, percent
from attention.files import write_whole
from attention.foreign import json_text
from attention.validation import NonNegativeInt, PositiveInt, checked
from runs import Cell, run, single_thread
from upper import ByQueries, Newton, counting_floor

Way = Literal["examples", "queries"]

_RECOVERED = 1e-6  # a relative error below this counts as recovered
_ERRORS = {
    "F": "relative_error",
    "Theta": "theta_error",
    "W": "w_error",
    "c": "key_bias_error",
    "b": "bias_error",
}
_SHAPE = ("layer", "heads", "dim", "head_dim", "biased", "ranks")
_READING: dict[str, Any] = {"heads": None, "prefix": None, "biases": "kept", "coordinates": None}
_FRESH = 500  # inputs on which the function is compared
# Trained heads need more examples than random ones: with Newton's default, a layer of 12 heads of rank 32 overfits.
_EXAMPLES = 3  # times Newton's default
# From sequences of a few tokens an annealed prior finds every head: attention to few tokens is nearer to a linear
# function. Heads whose attention is nearly all or nothing keep a large error there, and more tokens determine them. The
# rough fit ends at this error.
_FEW_TOKENS, _ROUGH, _ROUGH_FLOORS = 4, 0.3, 5


@dataclass(frozen=True)
class LayerRecovery(Record):
    """One layer of a checkpoint: its shape, and how well it was recovered."""

    layer: int  #: its number in the model, from 0
    heads: int
    dim: int  #: coordinates of a token
    head_dim: int  #: the dimension of a head, which bounds the ranks
    biased: bool
    ranks: tuple[int, int]  #: the smallest and the largest rank of a Theta or W
    status: Literal["done", "failed", "timed out"]
    message: str = ""  #: why it is not done; empty otherwise
    notes: tuple[str, ...] = ()  #: what the model does beyond the layer, and the precision of the file
    outcome: str = ""  #: name of the `attention.Outcome`
    explanation: str = ""  #: its sentence
    succeeded: bool = False
    error_rate_bound: float | None = None  #: of a success, as in `attention.Fit`
    violated: tuple[str, ...] = ()  #: the non-degeneracy conditions that do not hold
    heads_found: int | None = None
    #: relative: of the function "F" on fresh inputs, and of the worst head's "Theta", "W", "c", and of "b"; None where
    #: as many heads were not found, of c and b also where the layer has no biases
    errors: dict[str, float | None] = field(default_factory=dict)
    used: int | None = None  #: examples drawn, or queries asked
    seconds: float | None = None
    engine: str = ""  #: where Newton computed; torch for large layers, if the processor multiplies bfloat16

    @property
    def recovered(self) -> tuple[str, ...]:
        """Of the function and the kinds of parameters, those with an error below 1e-6."""
        return tuple(name for name, error in self.errors.items() if error is not None and error < _RECOVERED)


@dataclass(frozen=True, eq=False)
class Recovery(Record):
    """The layers of one checkpoint, with what they were recovered from; prints as a table."""

    name: str  #: of the file or folder
    by: Way
    settings: dict[str, Any]  #: tokens, inputs and the like
    layers: tuple[LayerRecovery, ...]  #: by number
    missing: int = 0  #: how many layers an interruption left out

    def table(self) -> list[tuple[str, ...]]:
        """The header and a row for each layer, as text."""
        known = ("Layer", "Heads", "Rank", "Conditions", "Recovered")
        rows = [(*known, *_ERRORS, self.by.title(), "Time", "Outcome")]
        for layer in self.layers:
            ranks = " to ".join(dict.fromkeys(map(str, layer.ranks)))
            of = f"{layer.heads_found} of " if layer.heads_found not in (None, layer.heads) else ""
            row = (f"{layer.layer}", f"{of}{layer.heads}", ranks)
            if layer.status != "done":
                rows.append((*row, *["-"] * (4 + len(_ERRORS)), layer.status))
                continue
            conditions = f"{len(layer.violated)} violated" if layer.violated else "all hold"
            errors = ["-" if error is None else error_text(error) for error in layer.errors.values()]
            cost = (f"{layer.used:,}", seconds_text(layer.seconds))
            outcome = layer.outcome.lower().replace("_", " ")
            if layer.error_rate_bound is not None:
                outcome += f", <={percent(layer.error_rate_bound)}"
            rows.append((*row, conditions, " ".join(layer.recovered) or "nothing", *errors, *cost, outcome))
        return rows

    @property
    def legend(self) -> tuple[str, ...]:
        """What the columns mean, and the layers that were not measured."""
        return (
            "F: relative error of the function on fresh inputs. Theta, W, c, b: relative error of the worst head.",
            f"Recovered: what has an error below {_RECOVERED:g}.",
            f"<=7%: with confidence {CONFIDENCE:g}, the fit is wrong on at most 7% of inputs.",
            *dict.fromkeys(note for one in self.layers for note in one.notes),
            *(f"Layer {one.layer}: {one.message}" for one in self.layers if one.message),
        )

    def __str__(self) -> str:
        title = f"Layers of {self.name}, learned from {self.by}"
        return "\n".join([title, "", aligned(self.table()), "", *self.legend])

    def to_json(self) -> dict[str, Any]:
        """As JSON values: the settings, and a record for each layer."""
        layers = [{**asdict(one), "recovered": one.recovered} for one in self.layers]
        return as_plain({"checkpoint": self.name, "by": self.by, **self.settings, "layers": layers})

    def save(self, folder: Path) -> Path:
        """Write recovered.json and index.html into a folder; returns the page."""
        text = json_text(self.to_json()) + "\n"
        write_whole(folder / "recovered.json", text.encode())
        page = template("recover.html.j2").render(told=self, data=data_link("application/json", text))
        write_whole(folder / "index.html", page.encode())
        return folder / "index.html"


@checked
def recover(
    checkpoint: str | Path,
    *,
    layers: Sequence[int] | str = "all",
    by: Way = "examples",
    tokens: PositiveInt = 4,
    inputs: InputsName = "boolean",
    examples: PositiveInt | None = None,
    seed: NonNegativeInt = 0,
    **options: Any,
) -> Recovery:
    """Learn the attention layers of a trained model back, and compare each with the truth.

    Parameters
    ----------
    checkpoint : path
        A safetensors or PyTorch file, its index, or its folder.
    layers : str or sequence of int
        all, or numbers from 0 and ranges, such as 0,2-4.
    by : "examples" or "queries"
        What the learner sees: random examples, for Newton with the dimension of a head as rank; or answers to queries.
    tokens : int
        Number k of tokens. From more than four, Newton starts from a rough fit to sequences of four, from five counting
        floors of them.
    inputs : {"boolean", "gaussian", "sphere"}
        Distribution of the tokens.
    examples : int, optional
        Budget in examples or queries for each layer; by default enough: for Newton three times its default.
    seed : int
        Seed of every random choice.
    **options
        As for `attention.read_checkpoint_layer`: heads, prefix, biases, coordinates. As for `runs.run`: jobs, timeout,
        cluster, store, fresh, isolated, progress.

    Returns
    -------
    Recovery
        The layers. One that crashed or took too long says so; after an interruption `missing` counts the others.

    Raises
    ------
    FileFormatError, ValueError
        If a layer cannot be read, or a setting is out of range.
    """
    settings = {"by": by, "tokens": tokens, "inputs": inputs, "examples": examples, "seed": seed}
    reading = {name: options.pop(name, default) for name, default in _READING.items()}
    path, cells = Path(checkpoint), []
    for number in _chosen(layers, checkpoint_layers(path, prefix=reading["prefix"])):
        with single_thread():  # the last digits of products depend on the number of threads
            imported = read_checkpoint_layer(path, layer=number, **reading)
        layer = imported.layer
        ranks = np.linalg.matrix_rank(np.concatenate([layer.theta, layer.w]))
        shape = (
            number,
            layer.heads,
            layer.dim,
            imported.head_dim,
            layer.biased,
            [int(ranks.min()), int(ranks.max())],
        )
        # known by the layer's content: a moved or renamed file is the same
        arguments = dict(zip(_SHAPE, shape, strict=True)) | settings | {"content": identity(layer)}
        cells.append(Cell(_recovered, arguments, {"source": (path.absolute(), reading)}, f"layer {number}"))
    recovered: list[LayerRecovery] = []
    with suppress(KeyboardInterrupt):
        for result in run(cells, retry_failed=True, **options):
            known = {name: result.cell.arguments[name] for name in _SHAPE}
            ended = {"status": result.status, "message": result.message}
            recovered.append(msgspec.convert(known | ended | (result.value or {}), LayerRecovery))
    ordered = tuple(sorted(recovered, key=lambda layer: layer.layer))
    return Recovery(path.resolve().name, by, settings | reading, ordered, missing=len(cells) - len(ordered))


def _chosen(layers: Sequence[int] | str, known: Sequence[int]) -> list[int]:
    """The numbers of layers that are named, each once, in order."""
    text = layers if isinstance(layers, str) else ",".join(map(str, layers))
    if text.strip().lower() == "all":
        return list(known)
    wanted: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,9})(?:-([0-9]{1,9}))?\s*", part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise ValueError(
                f"layers is {text!r}: all, or numbers and ranges with commas between them, as in 0,2-4, are needed."
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if missing := [number for number in (first, last) if number not in known]:
            raise ValueError(
                f"layers is {text!r}: there is no layer {missing[0]}, only {', '.join(map(str, known))}."
            )
        wanted |= {number for number in known if first <= number <= last}
    return sorted(wanted)


def _recovered(source: tuple[Path, dict[str, Any]], layer: int, head_dim: int, by: Way, **given: Any) -> Any:
    """What a layer's record holds beside its shape."""
    path, reading = source
    shape = {"tokens": given["tokens"], "inputs": given["inputs"]}
    target = checkpoint_target(path, layer=layer, **shape, **reading)
    oracle, fits = None, list[Fit]()
    if by == "queries":
        learner: Any = ByQueries(examples=given["examples"])
        oracle = ValueOracle(target.layer)  # of any number of tokens: far fewer queries are needed then
    else:
        learner, fits = _newton(target, head_dim, given)
    fit, measures = _fitted(target, learner, given["seed"], oracle)
    fits.append(fit)
    recovery = {
        "notes": target.made["notes"],
        "outcome": fit.outcome.name,
        "explanation": fit.explanation,
        "succeeded": fit.outcome.succeeded,
        "error_rate_bound": fit.error_rate_bound,
        "violated": target.conditions.violated,
        "heads_found": None if fit.layer is None else fit.layer.heads,
        "errors": {name: measures.get(measure) for name, measure in _ERRORS.items()},
        "used": sum(fit.examples_used for fit in fits),
        "seconds": sum(fit.seconds for fit in fits),
        "engine": fit.engine,
    }
    return as_plain(recovery)


def _newton(target: Target, head_dim: int, given: dict[str, Any]) -> tuple[Newton, list[Fit]]:
    """Newton for a layer of known rank, and the rough fit at which it starts, if there are more than a few tokens."""
    truth, tokens, examples = target.layer, given["tokens"], given["examples"]
    shape: dict[str, Any] = {"biases": truth.biased, "causal": truth.causal}
    shape["rank"] = head_dim if head_dim < truth.dim else None
    newton = Newton(truth.heads, engine="auto", **shape)
    enough = _EXAMPLES * newton.default_examples(truth.heads, tokens, truth.dim)
    newton = replace(newton, examples=enough if examples is None else examples)
    if examples is not None or tokens <= _FEW_TOKENS:
        return newton, []
    floor = counting_floor(heads=truth.heads, tokens=_FEW_TOKENS, dim=truth.dim, **shape)
    rough = replace(newton, examples=_ROUGH_FLOORS * floor, tolerance=_ROUGH)
    short = replace(target, inputs=inputs_named(given["inputs"], _FEW_TOKENS, truth.dim))
    fit, _ = _fitted(short, rough, given["seed"])
    return replace(newton, start=fit.layer or "random"), [fit]


def _fitted(target: Target, learner: Any, seed: int, oracle: ValueOracle | None = None) -> Any:
    return target.fit(learner, seed, oracle=oracle, fresh=_FRESH, each_step=False)
