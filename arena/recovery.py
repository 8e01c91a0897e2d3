"""The attention layers of a trained model, each learned back and compared with the truth: cells, records, a page."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from arena.cells import fit_target, identity
from arena.drawing import Drawing
from arena.formats import as_plain, error_text, seconds_text
from arena.records import make_printable
from arena.recovery_map import head_map
from arena.targets import Target, checkpoint_target, inputs_named
from arena.views.page import template
from arena.views.table import LINES, rendered
from attention import AttentionLayer, Learner, ValueOracle, parameter_errors, read_checkpoint_layer
from attention.evaluation import CONFIDENCE, percent
from attention.files import write_whole
from attention.foreign import json_text
from runs import Cell, run, single_thread
from upper import ByQueries, Newton, counting_floor

__all__ = ["HeadRecovery", "LayerRecovery", "Recovery", "Way", "recover_layers", "recovery_cells"]

Way = Literal["examples", "queries"]

_RECOVERED = 1e-6  # a relative error below this counts as recovered
_ERRORS = {
    "F": "relative_error",
    "Theta": "theta_error",
    "W": "w_error",
    "c": "key_bias_error",
    "b": "bias_error",
}
_FRESH = 500  # inputs on which the function is compared
# Trained heads need more examples than random ones: with Newton's default, a layer of 12 heads of rank 32 overfits.
_EXAMPLES = 3  # times Newton's default
# From sequences of a few tokens an annealed prior finds every head: attention to few tokens is nearer to a linear
# function. Heads whose attention is nearly all or nothing keep a large error there, and more tokens determine them. The
# rough fit ends at this error.
_FEW_TOKENS, _ROUGH, _ROUGH_FLOORS = 4, 0.3, 5


@dataclass(frozen=True)
class HeadRecovery:
    """One head: the measures of the true head, and the errors of the one found."""

    theta_norm: float  #: |Theta_i|
    w_norm: float  #: |W_i|
    theta_rank: int
    w_rank: int
    theta_incoherence: float | None  #: as in `attention.check_conditions`; None if the layer has one head
    w_incoherence: float | None
    theta_error: float | None = None  #: relative; None if no layer of as many heads was found
    w_error: float | None = None


@dataclass(frozen=True)
class LayerRecovery:
    """One layer of a checkpoint: its shape, and how well it was recovered."""

    layer: int  #: its number in the model, from 0
    heads: int
    dim: int  #: coordinates of a token
    head_dim: int  #: the dimension of a head, which bounds the ranks
    biased: bool
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
    per_head: tuple[HeadRecovery, ...] = ()

    def __post_init__(self) -> None:
        make_printable(self)

    @property
    def recovered(self) -> tuple[str, ...]:
        """Of the function and the kinds of parameters, those with an error below 1e-6."""
        return tuple(name for name, error in self.errors.items() if error is not None and error < _RECOVERED)

    @property
    def ranks(self) -> str:
        """The rank of the heads, or the smallest and the largest one."""
        found = {rank for head in self.per_head for rank in (head.theta_rank, head.w_rank)} or {self.head_dim}
        return f"{min(found)}" if len(found) == 1 else f"{min(found)} to {max(found)}"


@dataclass(frozen=True, eq=False)
class Recovery:
    """The layers of one checkpoint, with what they were recovered from; prints as a table."""

    name: str  #: of the file or folder
    by: Way
    settings: dict[str, Any]  #: tokens, inputs and the like
    layers: tuple[LayerRecovery, ...]  #: by number

    def __post_init__(self) -> None:
        make_printable(self)

    def table(self) -> list[tuple[str, ...]]:
        """The header and a row for each layer, as text."""
        known = ("Layer", "Heads", "Rank", "Conditions", "Recovered")
        rows = [(*known, *_ERRORS, self.by.title(), "Time", "Outcome")]
        for one in self.layers:
            found = f"{one.heads_found} of " if one.heads_found not in (None, one.heads) else ""
            shape = (f"{one.layer}", f"{found}{one.heads}", one.ranks)
            if one.status != "done":
                rows.append((*shape, *["-"] * (4 + len(_ERRORS)), one.status))
                continue
            conditions = f"{len(one.violated)} violated" if one.violated else "all hold"
            errors = ["-" if error is None else error_text(error) for error in one.errors.values()]
            cost = (f"{one.used:,}", seconds_text(one.seconds))
            outcome = one.outcome.lower().replace("_", " ")
            if one.error_rate_bound is not None:
                outcome += f", <={percent(one.error_rate_bound)}"
            rows.append((*shape, conditions, " ".join(one.recovered) or "nothing", *errors, *cost, outcome))
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
        from rich.box import Box
        from rich.table import Table

        header, *rows = self.table()
        table = Table(box=Box(LINES, ascii=True), show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        for name in header:
            side: Any = "left" if name in ("Conditions", "Recovered", "Outcome") else "right"
            table.add_column(name, justify=side)
        for row in rows:
            table.add_row(*row)
        title = f"Layers of {self.name}, learned from {self.by}"
        return "\n".join([title, "", rendered(table, width=130), *self.legend])

    def to_json(self) -> dict[str, Any]:
        """As JSON values: the settings, and a record for each layer."""
        layers = [{**asdict(one), "recovered": one.recovered} for one in self.layers]
        return as_plain({"checkpoint": self.name, "by": self.by, **self.settings, "layers": layers})

    @cached_property
    def drawing(self) -> Drawing:
        """The map of heads."""
        return head_map({one.layer: [vars(head) for head in one.per_head] for one in self.layers})

    def save(self, folder: Path) -> Path:
        """Write recovered.json, heads.svg and index.html into a folder; returns the page."""
        text = json_text(self.to_json()) + "\n"
        write_whole(folder / "recovered.json", text.encode())
        self.drawing.save(folder / "heads.svg")
        data = base64.b64encode(text.encode()).decode()
        page = template("recover.html.j2").render(
            told=self, drawing=self.drawing, data=f"data:application/json;charset=utf-8;base64,{data}"
        )
        write_whole(folder / "index.html", page.encode())
        return folder / "index.html"


def recovery_cells(
    path: Path,
    layers: Sequence[int],
    *,
    by: Way = "examples",
    tokens: int = 4,
    inputs: str = "boolean",
    examples: int | None = None,
    seed: int = 0,
    **reading: Any,
) -> list[Cell]:
    """A cell for each layer of a checkpoint, keyed by the content of the layer: a moved or renamed file is the same.

    Parameters
    ----------
    path : path
        The checkpoint.
    layers : sequence of int
        Numbers of layers.
    by : "examples" or "queries"
        Newton on random examples, with the dimension of a head as rank; or `ByQueries`.
    tokens, inputs : int, str
        The number k of tokens and their distribution.
    examples : int, optional
        Budget in examples or queries. By default Newton gets three times its default. If there are more than four
        tokens, it starts from a rough fit to sequences of four, from five counting floors of them.
    seed : int
        Of every random choice.
    **reading
        As for `attention.read_checkpoint_layer`: heads, prefix, biases, coordinates.

    Raises
    ------
    FileFormatError, ValueError
        If a layer cannot be read, or a setting is out of range.
    """
    cells = []
    settings = {"by": by, "tokens": tokens, "inputs": inputs, "examples": examples, "seed": seed}
    for number in layers:
        with single_thread():  # the last digits of products depend on the number of threads
            imported = read_checkpoint_layer(path, layer=number, **reading)
        layer = imported.layer
        inputs_named(inputs, tokens, layer.dim)
        shape = {
            "heads": layer.heads,
            "dim": layer.dim,
            "head_dim": imported.head_dim,
            "biased": layer.biased,
        }
        arguments = {"layer": number, **shape, **settings, "content": identity(layer)}
        cells.append(Cell(_recovered, arguments, {"source": (path.absolute(), reading)}, f"layer {number}"))
    return cells


def recover_layers(
    cells: Sequence[Cell], *, on_layer: Callable[[LayerRecovery], None] | None = None, **options: Any
) -> tuple[LayerRecovery, ...]:
    """Recover the layers of `recovery_cells`; results are in the order of the numbers.

    Options are those of `runs.run`: jobs, timeout, store, fresh, isolated. `on_layer` is called with each layer when
    it is found in the store or done. A layer that crashed or took too long says so.

    Examples
    --------
    >>> recover_layers([])
    ()
    """
    found = []
    for result in run(cells, retry_failed=True, **options):
        if result.status == "done":
            one = msgspec.convert(result.value, LayerRecovery)
        else:
            shape = {
                name: result.cell.arguments[name] for name in ("layer", "heads", "dim", "head_dim", "biased")
            }
            one = LayerRecovery(**shape, status=result.status, message=result.message)
        found.append(one)
        if on_layer is not None:
            on_layer(one)
    return tuple(sorted(found, key=lambda one: one.layer))


def _recovered(
    source: tuple[Path, dict[str, Any]],
    layer: int,
    head_dim: int,
    by: Way,
    tokens: int,
    inputs: str,
    examples: int | None,
    seed: int,
    **content: Any,
) -> dict[str, Any]:
    path, reading = source
    target = checkpoint_target(path, layer=layer, tokens=tokens, inputs=inputs, **reading)
    truth = target.layer
    # queries may have any number of tokens: far fewer are needed then
    oracle = ValueOracle(truth) if by == "queries" else None
    learner: Learner = ByQueries(examples=examples)
    if by == "examples":
        learner = _newton(truth, head_dim, tokens, examples)
    measured = partial(fit_target, seed=seed, oracle=oracle, fresh=_FRESH, each_step=False)
    fits = []
    if isinstance(learner, Newton) and examples is None and tokens > _FEW_TOKENS:
        short = replace(target, inputs=inputs_named(inputs, _FEW_TOKENS, truth.dim))
        fits.append(measured(short, _roughly(learner, truth))[0])
        learner = replace(learner, start=fits[0].layer or "random")
    fit, measures = measured(target, learner)
    fits.append(fit)
    found = fit.layer
    one = LayerRecovery(
        layer,
        truth.heads,
        truth.dim,
        head_dim,
        truth.biased,
        "done",
        notes=tuple(target.made["notes"]),
        outcome=fit.outcome.name,
        explanation=fit.explanation,
        succeeded=fit.outcome.succeeded,
        error_rate_bound=fit.error_rate_bound,
        violated=() if target.conditions is None else target.conditions.violated,
        heads_found=None if found is None else found.heads,
        errors={name: measures.get(measure) for name, measure in _ERRORS.items()},
        used=sum(one.examples_used for one in fits),
        seconds=sum(one.seconds for one in fits),
        engine=fit.engine,
        per_head=_heads(target, found),
    )
    return as_plain(asdict(one))


def _newton(truth: AttentionLayer, head_dim: int, tokens: int, examples: int | None) -> Newton:
    rank = head_dim if head_dim < truth.dim else None
    newton = Newton(truth.heads, rank=rank, biases=truth.biased, causal=truth.causal, engine="auto")
    usual = _EXAMPLES * newton.default_examples(truth.heads, tokens, truth.dim)
    return replace(newton, examples=usual if examples is None else examples)


def _roughly(newton: Newton, truth: AttentionLayer) -> Newton:
    """The same learner for a rough fit to short sequences."""
    shape = {"heads": truth.heads, "tokens": _FEW_TOKENS, "dim": truth.dim}
    floor = counting_floor(**shape, rank=newton.rank, biases=truth.biased, causal=truth.causal)
    return replace(newton, examples=_ROUGH_FLOORS * floor, tolerance=_ROUGH)


def _heads(target: Target, found: AttentionLayer | None) -> tuple[HeadRecovery, ...]:
    truth, m = target.layer, target.layer.heads
    measures: dict[str, Any] = {}
    for name in ("theta", "w"):
        heads = getattr(truth, name)
        incoherence = None if target.conditions is None else target.conditions[f"{name}_incoherence"].per_head
        measures[f"{name}_norm"] = np.linalg.norm(heads, axis=(1, 2)).tolist()
        measures[f"{name}_rank"] = np.linalg.matrix_rank(heads).tolist()
        measures[f"{name}_incoherence"] = incoherence or [None] * m
    if found is not None and found.heads == m:
        errors = parameter_errors(found, truth)
        measures |= {"theta_error": errors.theta.tolist(), "w_error": errors.w.tolist()}
    return tuple(HeadRecovery(**{name: values[i] for name, values in measures.items()}) for i in range(m))
