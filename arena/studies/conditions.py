"""Study: which heads meet the non-degeneracy conditions as d grows: random, structured, and imported ones."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from arena._canvas import canvas
from arena.cells import single_thread
from arena.palette import FAINT, INK
from arena.paper_figure import PaperFigure, dimension_axis, legend_above, line_look, paper_figure
from arena.phase_axes import axes_in, decade_limits, decade_ticks, name_axes
from arena.studies._conditions_laws import HEADS, exponents, values_of
from arena.studies._conditions_words import IMPORTED, found_in_words, passed
from arena.studies.study import Parameters, Row, Study, Table
from attention import (
    AttentionLayer,
    check_conditions,
    convert_torch_module,
    make_affinely_dependent_layer,
    make_block_diagonal_layer,
    make_close_heads_layer,
    make_diagonal_layer,
    make_low_rank_layer,
    make_nice_layer,
    make_repeated_singular_values_layer,
    make_transformer_shaped_layer,
)
from paper_checks import Interval, Scale, proportion_interval

if TYPE_CHECKING:
    import torch

__all__ = ["STUDY"]

_HEADS = _TOKENS = HEADS
_LEAST_RANK, _GAP = 4, 0.05
_MADE: Mapping[str, Callable[..., AttentionLayer]] = {
    "random": make_nice_layer,
    "diagonal": make_diagonal_layer,
    "blocks of 4": lambda **sizes: make_block_diagonal_layer(**sizes, block=4),
    "rank 4": lambda **sizes: make_low_rank_layer(**sizes, rank=_LEAST_RANK),
    "5 % apart": lambda **sizes: make_close_heads_layer(**sizes, gap=_GAP),
    "values twice": make_repeated_singular_values_layer,
    "affinely dependent": make_affinely_dependent_layer,
    "transformer-shaped": lambda heads, dim, rng: make_transformer_shaped_layer(
        heads=heads, dim=dim, rank=dim // heads, strengths=(2.0, 12.0), rng=rng
    ),
}
_IMPORTED = IMPORTED
_STEPS, _BATCH, _LENGTH, _SYMBOLS = 600, 64, 8, 32  # of the training
_RATE = {16: 0.01, 32: 0.005, 64: 0.003}
_PANELS = {
    "theta_incoherence": "incoherence",
    "theta_stable_rank": "stable rank",
    "theta_trace": "Tr²/|Θ|²",
    "theta_heavy_column": "heaviest column",
    "theta_non_arithmetic": "lattice",
    "theta_norms": "largest |Θ|",
    "theta_distinct_singular_values": "gap of singular values",
    "theta_affine_independence": "affine independence",
}
_SHOWN = ("theta_incoherence", "theta_stable_rank", "theta_trace", "theta_non_arithmetic")
_LEAST_DRAWN = 1e-8  # where an axis of logarithms shows zero, and what is not far above it by rounding, as 0


def _cells(scale: Scale) -> list[Parameters]:
    if scale is Scale.QUICK:
        draws = {16: 40, 32: 40, 64: 16}
        few, trained = dict.fromkeys((16, 64), 2), dict.fromkeys((16, 32), 1)
    else:
        draws = {16: 100, 32: 100, 64: 60, 128: 30, 256: 16, 512: 8}
        few, trained = {16: 10, 64: 6, 256: 3}, {16: 5, 32: 5, 64: 4}
    sizes = {"random": draws, **{name: few for name in _MADE if name != "random"}}
    sizes |= dict.fromkeys(_IMPORTED, trained)
    return [
        {"family": family, "dim": dim, "draws": number}
        for family, numbers in sizes.items()
        for dim, number in numbers.items()
    ]


def _measure(*, rng: np.random.Generator, family: str, dim: int, draws: int) -> Mapping[str, Any]:
    values: dict[str, list[float | None]] = {}
    wanted: dict[str, float] = {}
    violated, rank, losses = [], [], []
    for _ in range(draws):
        if family in _MADE:
            layer = _MADE[family](heads=_HEADS, dim=dim, rng=rng)
        else:
            layer, loss = _imported(family, dim, rng)
            losses.append(loss)
        report = check_conditions(layer, tokens=_TOKENS)
        violated.append(list(report.violated))
        for one in report.conditions:
            value = one.measured
            values.setdefault(one.name, []).append(value if value is None or math.isfinite(value) else None)
            wanted[one.name] = one.threshold
        rank.append(float(np.mean(report["theta_stable_rank"].per_head or [math.nan])))
    return {
        "measured": values,
        "threshold": wanted,
        "violated": violated,
        "mean_stable_rank": rank,
        "loss": losses,
    }


def _imported(family: str, dim: int, rng: np.random.Generator) -> tuple[AttentionLayer, float]:
    """A PyTorch module, trained or not, by way of the conversion; and its loss over that of the best constant."""
    import torch

    train = {"imported, recall": _recall, "imported, masked": _masked}.get(family)
    with single_thread("torch"), torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(2**31)))
        module = torch.nn.MultiheadAttention(dim, _HEADS, bias=False, batch_first=True)
        loss = 1.0 if train is None else train(module, dim)
    return convert_torch_module(module).layer, loss


def _recall(module: "torch.nn.MultiheadAttention", dim: int) -> float:
    """Every token has a key, two keys it asks for, and a value; the layer is to give the two values."""
    import torch

    part = dim // 4

    def loss_of_batch() -> "torch.Tensor":
        key, value = torch.randn(2, _BATCH, _LENGTH, part)
        orders = [torch.rand(_BATCH, _LENGTH).argsort(dim=1) for _ in range(2)]
        asked = [key.gather(1, one[:, :, None].expand(-1, -1, part)) for one in orders]
        answers = [value.gather(1, one[:, :, None].expand(-1, -1, part)) for one in orders]
        x = torch.cat([key, *asked, value], dim=2)
        said = module(x, x, x, need_weights=False)[0][:, :, : 2 * part]
        return torch.mean((said - torch.cat(answers, dim=2)) ** 2)

    return _descended(list(module.parameters()), loss_of_batch, dim)  # the values have variance 1


def _masked(module: "torch.nn.MultiheadAttention", dim: int) -> float:
    """A random cyclic walk over symbols with one of them hidden; embeddings and readout are trained along."""
    import torch

    symbols = torch.nn.Embedding(_SYMBOLS + 1, dim)
    places = torch.nn.Embedding(_LENGTH, dim)
    readout = torch.nn.Linear(dim, _SYMBOLS)
    following = torch.stack([torch.randperm(_SYMBOLS) for _ in range(3)])  # three symbols may follow each

    def loss_of_batch() -> "torch.Tensor":
        text = torch.randint(_SYMBOLS, (_BATCH, 1))
        for _ in range(_LENGTH - 1):
            text = torch.cat([text, following[torch.randint(3, (_BATCH,)), text[:, -1]][:, None]], dim=1)
        hidden = torch.randint(_LENGTH, (_BATCH,))
        rows = torch.arange(_BATCH)
        seen = text.clone()
        seen[rows, hidden] = _SYMBOLS
        x = symbols(seen) + places.weight
        said = readout((x + module(x, x, x, need_weights=False)[0])[rows, hidden])
        return torch.nn.functional.cross_entropy(said, text[rows, hidden]) / math.log(_SYMBOLS)

    trained = [one for part in (module, symbols, places, readout) for one in part.parameters()]
    return _descended(trained, loss_of_batch, dim)


def _descended(parameters: list[Any], loss_of_batch: Callable[[], "torch.Tensor"], dim: int) -> float:
    """The mean loss of the last fiftieth of the steps; every batch is fresh."""
    import torch

    optimiser = torch.optim.Adam(parameters, lr=_RATE.get(dim, 0.003))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, _STEPS)
    last = []
    for step in range(_STEPS):
        loss = loss_of_batch()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step >= _STEPS - max(1, _STEPS // 50):
            last.append(loss.item())
    return float(np.mean(last))


def _largest(rows: Sequence[Row]) -> dict[str, Row]:
    """Every family at its largest d."""
    last: dict[str, Row] = {}
    for row in rows:
        if row["family"] not in last or row["dim"] >= last[row["family"]]["dim"]:
            last[row["family"]] = row
    return last


def _table(rows: Sequence[Row]) -> Table:
    header = (
        "heads",
        "d",
        "all hold",
        *(_PANELS[name] for name in _SHOWN),
        "conditions that fail, share of layers",
    )
    lines = [
        (
            family,
            str(row["dim"]),
            _share(*passed([row])),
            *(f"{np.median(values_of(row, name)):.2g}" for name in _SHOWN),
            _failing(row),
        )
        for family, row in _largest(rows).items()
    ]
    if slopes := exponents(rows):
        shown = [_PANELS[name] for name in _SHOWN]
        others = [name for name in slopes if name not in shown]
        for what, place in (("measured", 0), ("derived", 1)):
            words = {name: _exponent(pair[place]) for name, pair in slopes.items()}
            rest = ", ".join(f"{name}: {words[name]}" for name in others)
            lines.append((f"random: exponent {what}", "", "", *(words.get(name, "") for name in shown), rest))
    return Table(header, tuple(lines))


def _share(held: int, of: int) -> str:
    interval = proportion_interval(held, of)
    return f"{held} of {of} [{interval.low:.2f}, {interval.high:.2f}]"


def _exponent(one: Interval | float) -> str:
    return f"{one:.2f}" if isinstance(one, float) else f"{one.estimate:.2f} [{one.low:.2f}, {one.high:.2f}]"


def _failing(row: Row) -> str:
    counts: dict[str, int] = {}
    for names in row["violated"]:
        for name in names:
            counts[name] = counts.get(name, 0) + 1
    words = [
        f"{name} {100 * count / row['draws']:.0f} %"
        for name, count in sorted(counts.items(), key=lambda one: -one[1])
    ]
    return ", ".join(words).replace("_", " ") or "none"


def _draw(rows: Sequence[Row]) -> PaperFigure:
    families = [name for name in (*_MADE, *_IMPORTED) if any(row["family"] == name for row in rows)]
    dims = sorted({row["dim"] for row in rows})
    with canvas(9.6, 5.3) as figure:
        for place, (name, words) in enumerate(_PANELS.items()):
            column, line = place % 4, place // 4
            axes = axes_in(figure, (0.05 + 0.243 * column, 0.51 - 0.42 * line, 0.19, 0.28))
            bounds = {row["dim"]: row["threshold"][name] for row in rows}
            drawn = [*bounds.values()]
            for number, family in enumerate(families):
                here = [row for row in rows if row["family"] == family]
                heights = [max(float(np.median(values_of(row, name))), _LEAST_DRAWN) for row in here]
                axes.plot([row["dim"] for row in here], heights, **_look(family, number), label=family)
                drawn += heights
            across = [dims[0] / 2, *sorted(bounds), dims[-1] * 2]
            wanted = [bounds[min(max(dim, dims[0]), dims[-1])] for dim in across]
            small = name not in (
                "theta_stable_rank",
                "theta_distinct_singular_values",
                "theta_affine_independence",
            )
            look = {"color": FAINT, "linestyle": (0, (1, 1)), "linewidth": 1.2, "zorder": 3}
            axes.plot(across, wanted, **look, label="threshold")
            axes.set_yscale("log")
            low, high = decade_limits(drawn)
            axes.set_ylim(low, high)
            decade_ticks(axes.yaxis, low, high)
            if _LEAST_DRAWN in drawn:
                _name_zero(axes)
            dimension_axis(axes, dims)
            axes.tick_params(labelsize=8)
            name_axes(axes, "d" if line == 1 else "", "")
            axes.set_title(f"{words}, {'small' if small else 'large'} is good", fontsize=8.5, loc="left")
        legend_above(figure, columns=5)
        return paper_figure(
            figure,
            "Eight of the conditions against d, by family of heads, medians over layers, with the thresholds",
        )


def _name_zero(axes: Any) -> None:
    axes.set_yticks([tick for tick in axes.get_yticks() if tick > 1.1 * _LEAST_DRAWN])
    beside = {"xytext": (-4, 0), "textcoords": "offset points", "ha": "right", "va": "center", "fontsize": 8}
    axes.annotate("0", (0, _LEAST_DRAWN), xycoords=("axes fraction", "data"), **beside)


def _look(family: str, place: int) -> dict[str, Any]:
    """Random heads in ink, structured ones solid and thin, those like or of transformers dashed and thick."""
    look = {**line_look(place - 1 if place else place), "markersize": 4.0, "linestyle": "-", "linewidth": 1.0}
    if family == "random":
        return {**look, "color": INK, "linewidth": 2.2, "zorder": 6}
    if family in _IMPORTED or family == "transformer-shaped":
        return {**look, "linestyle": (0, (4, 1.5)), "linewidth": 1.8}
    return look


STUDY = Study(
    name="conditions",
    title="Who meets the non-degeneracy conditions",
    question="Do random, structured and imported heads satisfy the non-degeneracy conditions as d grows?",
    expected="The specification of the learners says that random Gaussian heads satisfy all conditions increasingly "
    "well as d grows (by their laws incoherence and Tr²/|Θ|² fall like 1/d, the stable rank rises like d/4) and that "
    "trained transformers do not: on a small BERT-family encoder incoherence was up to 0.46, stable rank down to 3, "
    "norms 2 to 12.",
    limits="The thresholds are this toolkit's and not the paper's; the trained layers are small, of two made-up tasks "
    "and a short training, and say nothing on large language models; four heads and four tokens only.",
    how="Layers of m = 4 heads, judged for k = 4 tokens by the conditions report with its default thresholds; the "
    "measure is that of the worst head or pair, the table and the figure show medians over layers. Random: 8 to 100 "
    "nice layers a size at the full scale. Structured: the makers of the toolkit, 3 to 10 a size. Imported: PyTorch "
    "modules without biases through the conversion, heads of dimension d/4, as they are at the start and after 600 "
    "steps of Adam on fresh batches of 64, 4 or 5 a size: in recall each of 8 random tokens asks for the values of two "
    "others by their keys; masked is a walk over 32 symbols, one of 8 hidden, to be guessed. Shares have 99.9 % "
    "intervals of Clopper and Pearson. Exponents are slopes of logarithms over all draws, with 99.9 % intervals by "
    "Student's t that hold only if a power law does; the stable rank there is the mean of the heads. The exponents "
    "derived, over the same sizes: of 1/d for a normalised inner product, of the largest of 4 d chi-squared "
    "columns, of the Marchenko-Pastur edge with the Tracy-Widom mean, of d^-3/2 for the smallest of d gaps that repel "
    "linearly.",
    cells=_cells,
    measure=_measure,
    found=found_in_words,
    table=_table,
    draw=_draw,
    needs=("torch",),
)
