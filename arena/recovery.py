"""The attention layers of a trained model, or its blocks, each learned back and compared with the truth: a page."""

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
from arena.targets import InputsName, checkpoint_target, inputs_named, layer_target
from arena.views.page import data_link, template
from attention import Block, Fit, RotaryLayer, ValueOracle, read_checkpoint_layer
from attention.checkpoint_blocks import StoredBlock, read_checkpoint_block
from attention.checkpoints import checkpoint_layers
from attention.evaluation import CONFIDENCE, percent
from attention.files import write_whole
from attention.foreign import json_text
from attention.validation import NonNegativeInt, PositiveInt, checked
from runs import Cell, run, single_thread
from upper import BlockByQueries, ByQueries, Newton, RotaryByQueries, counting_floor

Way = Literal["examples", "queries"]

_RECOVERED = 1e-6  # a relative error below this counts as recovered
_ERRORS = {
    "F": "relative_error",
    "Theta": "theta_error",
    "W": "w_error",
    "c": "key_bias_error",
    "b": "bias_error",
}
_BLOCK_ERRORS = _ERRORS | {"neurons": "network_error", "norms": "norm_error"}
# "M" is of the worst score map of a head and a frequency
_ROTARY_ERRORS = {"F": "relative_error", "M": "score_error", "W": "w_error", "b": "bias_error"}
_SHAPE = ("layer", "heads", "dim", "head_dim", "biased", "ranks", "rotary", "neurons")
_READING: dict[str, Any] = {"heads": None, "prefix": None, "biases": "kept", "coordinates": None}
_FRESH = 500  # inputs on which the function is compared
_LONG, _FRESH_LONG = (
    512,
    4,
)  # tokens and number of those of layers with rotary positions: longer than what is asked
# From sequences of a few tokens an annealed prior finds every head: attention to few tokens is nearer to a linear
# function. Heads whose attention is nearly all or nothing keep a large error there, and more tokens determine them. The
# rough fit ends at this error.
_FEW_TOKENS, _ROUGH, _ROUGH_FLOORS = 4, 0.3, 4


@dataclass(frozen=True)
class LayerRecovery(Record):
    """One layer of a checkpoint, or the block around it: its shape, and how well it was recovered."""

    layer: int  #: its number in the model, from 0
    heads: int
    dim: int  #: coordinates of a token
    head_dim: int  #: the dimension of a head, which bounds the ranks
    biased: bool
    ranks: tuple[
        int, int
    ]  #: the smallest and the largest rank of a Theta or W, with rotary positions of a Q or W
    status: Literal["done", "failed", "timed out"]
    message: str = ""  #: why it is not done; empty otherwise
    notes: tuple[str, ...] = ()  #: what the model does beyond the layer, and the precision of the file
    outcome: str = ""  #: name of the `attention.Outcome`
    explanation: str = ""  #: its sentence
    succeeded: bool = False
    error_rate_bound: float | None = None  #: of a success, as in `attention.Fit`
    violated: tuple[str, ...] = ()  #: the non-degeneracy conditions that do not hold
    heads_found: int | None = None
    rotary: bool = False  #: whether queries and keys are rotated by position
    neurons: int | None = None  #: of a block
    neurons_found: int | None = None
    #: relative: of the function "F" on fresh inputs, and of the worst head's "Theta", "W", "c", and of "b", and of the
    #: worst of a block's "neurons" and "norms"; None where as many heads were not found, of c and b also where there
    #: are no biases, and of norms that stand first, which are part of the matrices behind them. With rotary positions
    #: "M", of the worst score map, takes the place of Theta and c
    errors: dict[str, float | None] = field(default_factory=dict)
    used: int | None = None  #: examples drawn, or queries asked
    seconds: float | None = None
    undetermined: tuple[str, ...] = ()  #: of a block, what no queries determine
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

    @property
    def blocks(self) -> bool:
        """Whether whole blocks were learned, not attention layers alone."""
        return self.settings.get("blocks", False) is True

    def table(self) -> list[tuple[str, ...]]:
        """The header and a row for each layer, as text."""
        usual = tuple(_BLOCK_ERRORS if self.blocks else _ERRORS)
        names = next((tuple(layer.errors) for layer in self.layers if layer.errors), usual)
        known = ("Heads", "Neurons") if self.blocks else ("Heads", "Rank", "Conditions")
        rows: list[tuple[str, ...]] = [
            ("Layer", *known, "Recovered", *names, self.by.title(), "Time", "Outcome")
        ]
        for layer in self.layers:
            row: tuple[str, ...] = (f"{layer.layer}", _found_of(layer.heads_found, layer.heads))
            if self.blocks:
                row += (_found_of(layer.neurons_found, layer.neurons),)
            else:
                violated = f"{len(layer.violated)} violated" if layer.violated else "all hold"
                row += (" to ".join(dict.fromkeys(map(str, layer.ranks))),)
                row += (violated if layer.status == "done" and not layer.rotary else "-",)
            if layer.status != "done":
                rows.append((*row, *["-"] * (3 + len(names)), layer.status))
                continue
            errors = ["-" if layer.errors[name] is None else error_text(layer.errors[name]) for name in names]
            cost = (f"{layer.used:,}", seconds_text(layer.seconds))
            outcome = layer.outcome.lower().replace("_", " ")
            if layer.error_rate_bound is not None:
                outcome += f", <={percent(layer.error_rate_bound)}"
            rows.append((*row, " ".join(layer.recovered) or "nothing", *errors, *cost, outcome))
        return rows

    @property
    def legend(self) -> tuple[str, ...]:
        """What the columns mean, and the layers that were not measured."""
        errors = "F: relative error of the function on fresh inputs. Theta, W, c, b: relative error of the worst head."
        if any(layer.rotary for layer in self.layers):
            errors = (
                f"F: relative error of the function on fresh sequences of {_LONG} tokens, longer than those asked. M, "
                "W: of the worst map of a head, for M also of a frequency."
            )
        if self.blocks:
            errors += " neurons: of the worst one's W1, W2, b1. norms: gain and offset."
        return (
            errors,
            f"Recovered: what has an error below {_RECOVERED:g}.",
            f"<=7%: with confidence {CONFIDENCE:g}, the fit is wrong on at most 7% of inputs.",
            *dict.fromkeys(note for one in self.layers for note in one.notes),
            *dict.fromkeys(
                f"Not determined: {'; '.join(one.undetermined)}." for one in self.layers if one.undetermined
            ),
            *(
                f"Layer {one.layer}: {one.message or one.explanation}"
                for one in self.layers
                if one.message or not one.succeeded
            ),
        )

    def __str__(self) -> str:
        return "\n".join([self.title, "", aligned(self.table()), "", *self.legend])

    @property
    def title(self) -> str:
        """What was learned, and from what."""
        return f"{'Blocks' if self.blocks else 'Layers'} of {self.name}, learned from {self.by}"

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
    blocks: bool = False,
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
    blocks : bool
        Learn whole blocks, attention and network with norms and residuals, by queries to each block alone.
    tokens : int
        Number k of tokens; with rotary positions it is 512, more than are asked. From more than four, Newton starts
        from a rough fit to sequences of four, from four counting floors of them.
    inputs : {"boolean", "gaussian", "sphere"}
        Distribution of the tokens.
    examples : int, optional
        Budget in examples or queries for each layer; by default enough: for Newton three times its default, and where
        heads overfit twice as many, again and again.
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
    settings: dict[str, Any] = {
        "by": by,
        "tokens": tokens,
        "inputs": inputs,
        "examples": examples,
        "seed": seed,
    }
    settings |= {"blocks": True} if blocks else {}
    reading = {name: options.pop(name, default) for name, default in _READING.items()}
    if blocks and (by != "queries" or reading["biases"] != "kept" or reading["coordinates"] is not None):
        raise ValueError(
            "Blocks are learned by queries, whole: give --blocks with --by queries, and no --biases or --coordinates."
        )
    path, cells = Path(checkpoint), []
    for number in _chosen(layers, checkpoint_layers(path, prefix=reading["prefix"])):
        with single_thread():  # the last digits of products depend on the number of threads
            block = _block(path, number, reading) if blocks else None
            source: Any = block or read_checkpoint_layer(path, layer=number, **reading)
            layer = source.layer if block is None else block.block.layer
        rotary = isinstance(layer, RotaryLayer)
        if rotary and by != "queries":
            raise ValueError(
                f"Layer {number} of {path} has rotary positions, which are learned by queries: give --by queries."
            )
        maps = (layer.queries if isinstance(layer, RotaryLayer) else layer.theta, layer.w)
        ranks = np.concatenate([np.linalg.matrix_rank(part) for part in maps])
        shape = {
            "layer": number,
            "heads": layer.heads,
            "dim": layer.dim,
            "head_dim": source.head_dim,
            "biased": layer.biased,
            "ranks": [int(ranks.min()), int(ranks.max())],
        }
        shape |= {"rotary": True} if rotary else {}
        shape |= {} if block is None else {"neurons": block.network.width}
        # known by the content: a moved or renamed file is the same
        content = {"content": identity(block or layer)}
        arguments = shape | settings | content
        cells.append(Cell(_recovered, arguments, {"source": (path.absolute(), reading)}, f"layer {number}"))
    recovered: list[LayerRecovery] = []
    with suppress(KeyboardInterrupt):
        for result in run(cells, retry_failed=True, **options):
            known = {name: value for name, value in result.cell.arguments.items() if name in _SHAPE}
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


def _recovered(
    source: tuple[Path, dict[str, Any]],
    layer: int,
    head_dim: int,
    by: Way,
    blocks: bool = False,
    rotary: bool = False,
    **given: Any,
) -> Any:
    """What the record of a layer or block holds beside its shape."""
    path, reading = source
    shape = {"tokens": _LONG if rotary else given["tokens"], "inputs": given["inputs"]}
    learner: Any
    fits: list[Fit] = []
    stored = _block(path, layer, reading) if blocks else None
    if stored is None:
        target = checkpoint_target(path, layer=layer, **shape, **reading)
    else:
        target = layer_target(stored.block, made={"notes": stored.notes}, **shape)
    if by == "examples":
        oracle, (learner, fits) = None, _newton(target, head_dim, given)
    elif stored is None:  # queries may have any number of tokens: far fewer are needed then
        by_queries = RotaryByQueries if rotary else ByQueries
        oracle, learner = ValueOracle(target.layer), by_queries(examples=given["examples"])
    else:
        oracle = ValueOracle.from_callable(stored, None, stored.dim)
        learner = BlockByQueries(examples=given["examples"])
    how: dict[str, Any] = {"fresh": _FRESH_LONG if rotary else _FRESH, "each_step": False}
    fit, measures = target.fit(learner, given["seed"], oracle=oracle, **how)
    fits.append(fit)
    errors = _BLOCK_ERRORS if blocks else _ROTARY_ERRORS if rotary else _ERRORS
    recovery = {
        "notes": target.made["notes"],
        "outcome": fit.outcome.name,
        "explanation": f"{fit.explanation} {getattr(fit.details, 'explanation', '')}".rstrip()
        if fit.layer is None
        else fit.explanation,
        "succeeded": fit.outcome.succeeded,
        "error_rate_bound": fit.error_rate_bound,
        "violated": () if stored or target.conditions is None else target.conditions.violated,
        "heads_found": None if fit.layer is None else fit.layer.heads,
        "errors": {name: measures.get(measure) for name, measure in errors.items()},
        "used": sum(fit.examples_used for fit in fits),
        "seconds": sum(fit.seconds for fit in fits),
        "engine": fit.engine,
    }
    if stored is not None:
        recovery["neurons_found"] = fit.layer.network.width if isinstance(fit.layer, Block) else None
        recovery["undetermined"] = _undetermined(stored.block)
    return as_plain(recovery)


class _Trained(Newton):
    """Newton for trained heads: with its default, a layer of 12 heads of rank 32 overfits."""

    floors, low_rank_floors = 12, 24


def _newton(target: Target, head_dim: int, given: dict[str, Any]) -> tuple[Newton, list[Fit]]:
    """Newton for a layer of known rank, and the rough fit at which it starts, if there are more than a few tokens."""
    truth, tokens, examples = target.layer, given["tokens"], given["examples"]
    shape: dict[str, Any] = {"biases": truth.biased, "causal": truth.causal}
    shape["rank"] = head_dim if head_dim < truth.dim else None
    kind = _Trained if examples is None else Newton
    newton = kind(truth.heads, engine="auto", examples=examples, **shape)
    if examples is not None or tokens <= _FEW_TOKENS:
        return newton, []
    floor = counting_floor(heads=truth.heads, tokens=_FEW_TOKENS, dim=truth.dim, **shape)
    rough = replace(newton, examples=_ROUGH_FLOORS * floor, tolerance=_ROUGH)
    short = replace(target, inputs=inputs_named(given["inputs"], _FEW_TOKENS, truth.dim))
    fit, _ = short.fit(rough, given["seed"], fresh=_FRESH, each_step=False)
    start: Any = fit.layer or "random"
    return replace(newton, start=start), [fit]


def _block(path: Path, layer: int, reading: dict[str, Any]) -> StoredBlock:
    return read_checkpoint_block(path, layer=layer, heads=reading["heads"], prefix=reading["prefix"])


def _undetermined(block: Block) -> tuple[str, ...]:
    """What the function of a block with norms leaves open: its symmetries, that `Block.centred` and matching undo."""
    parts = ["the order of heads and of neurons", "the four maps of a head beyond Theta, W, c and b"]
    first, _ = block.norms or (None, None)
    if block.norm_first:
        parts.append("gains and offsets of norms, apart from the matrices behind them")
        if first is not None and first.centred:
            parts.append(
                "what these matrices do to the mean of a token, and the mean of b apart from that of b2"
            )
    else:
        parts.append("the offset of the first norm, apart from b1 and b2")
        parts.append(
            "one factor of the first gain, W2, b2 and the root of the second eps, which W1 takes back"
        )
        parts.append("the means that norms take off: those of outputs of heads and network")
    free = {
        "relu": "a positive factor of each neuron, which W2 takes back",
        "tanh": "the sign of each neuron",
    }
    return (*parts, *(free[name] for name in free if name == block.network.activation))


def _found_of(found: int | None, true: int | None) -> str:
    """A number, and before it the number found if it is another."""
    return f"{true}" if found in (None, true) else f"{found} of {true}"
