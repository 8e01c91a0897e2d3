"""Who meets the non-degeneracy conditions.

Do random, structured and imported heads meet the non-degeneracy conditions as d grows?
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from attention import (
    AttentionLayer,
    check_conditions,
    convert_torch_module,
    make_affinely_dependent_layer,
    make_block_diagonal_layer,
    make_close_heads_layer,
    make_low_rank_layer,
    make_nice_layer,
    make_transformer_shaped_layer,
)
from runs import Scale, single_thread
from studies.line_figure import Panel, line_figure
from studies.rows import chosen, curve, grouped, table
from studies.study import Parameters, Row, Table

NEEDS = ("torch",)

_HEADS = _TOKENS = 4
_MADE: Mapping[str, Callable[..., AttentionLayer]] = {
    "random": make_nice_layer,
    "diagonal": lambda **sizes: make_block_diagonal_layer(**sizes, block=1),
    "blocks of 4": lambda **sizes: make_block_diagonal_layer(**sizes, block=4),
    "rank 4": lambda **sizes: make_low_rank_layer(**sizes, rank=4),
    "5 % apart": lambda **sizes: make_close_heads_layer(**sizes, gap=0.05),
    "affinely dependent": make_affinely_dependent_layer,
    "transformer-shaped": lambda heads, dim, rng: make_transformer_shaped_layer(
        heads=heads, dim=dim, rank=dim // heads, strengths=(2.0, 12.0), rng=rng
    ),
}
_IMPORTED = {"imported, untrained": 0, "imported, recall": 600}  # steps of training
_BATCH, _LENGTH = 64, 8
_RATE = {16: 0.01, 32: 0.005}
_MEASURES = {
    "incoherence": "theta_incoherence",
    "stable rank": "theta_stable_rank",
    "Tr²/‖Θ‖²": "theta_trace",
    "lattice": "theta_non_arithmetic",
}


def cells(scale: Scale) -> Sequence[Parameters]:
    if scale is Scale.QUICK:
        draws = {16: 40, 32: 40, 64: 16}
        few, trained = dict.fromkeys((16, 64), 2), dict.fromkeys((16, 32), 1)
    else:
        draws = {16: 100, 32: 100, 64: 60, 128: 30, 256: 16, 512: 8}
        few, trained = {16: 10, 64: 6, 256: 3}, {16: 5, 32: 5, 64: 4}
    sizes = dict.fromkeys(_MADE, few) | {"random": draws} | dict.fromkeys(_IMPORTED, trained)
    return [
        {"family": family, "dim": dim, "draws": number}
        for family, numbers in sizes.items()
        for dim, number in numbers.items()
    ]


def measure(*, rng: Generator, family: str, dim: int, draws: int) -> dict[str, Any]:
    """Over the layers: how many meet every condition, and medians of the measures of the worst head or pair."""
    reports, losses = [], []
    for _ in range(draws):
        if family in _MADE:
            layer = _MADE[family](heads=_HEADS, dim=dim, rng=rng)
        else:
            layer, loss = trained_layer(dim, rng, steps=_IMPORTED[family])
            losses.append(loss)
        reports.append(check_conditions(layer, tokens=_TOKENS))
    always = [name for name in reports[0].violated if all(name in report.violated for report in reports)]
    return {
        "met": sum(not report.violated for report in reports),
        "incoherent": sum("theta_incoherence" in report.violated for report in reports),
        **{
            title: float(np.median([report[name].measured for report in reports]))
            for title, name in _MEASURES.items()
        },
        **{f"threshold of {title}": reports[0][name].threshold for title, name in _MEASURES.items()},
        "loss": float(np.median(losses)) if losses else None,
        "fails on every layer": ", ".join(name.replace("_", " ") for name in always) or "none",
    }


def trained_layer(dim: int, rng: Generator, *, steps: int) -> tuple[AttentionLayer, float]:
    """A converted `torch.nn.MultiheadAttention` module, and its loss divided by that of the best constant.

    Every token has a key, two requested keys, and a value; the layer learns to return the two requested values. Each
    step of Adam has a fresh batch. The loss is the mean of the last fiftieth of the steps, and 1 without a step.
    """
    import torch

    def loss_of_batch() -> torch.Tensor:
        key, value = torch.randn(2, _BATCH, _LENGTH, dim // 4)
        orders = [
            torch.rand(_BATCH, _LENGTH).argsort(dim=1)[:, :, None].expand(-1, -1, dim // 4) for _ in range(2)
        ]
        x = torch.cat([key, *(key.gather(1, order) for order in orders), value], dim=2)
        answers = torch.cat([value.gather(1, order) for order in orders], dim=2)
        given = module(x, x, x, need_weights=False)[0][:, :, : 2 * (dim // 4)]
        return torch.mean((given - answers) ** 2)  # the values have variance 1

    with single_thread(torch=True), torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(2**31)))
        module = torch.nn.MultiheadAttention(dim, _HEADS, bias=False, batch_first=True)
        optimiser = torch.optim.Adam(module.parameters(), lr=_RATE.get(dim, 0.003))
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, max(1, steps))
        losses = []
        for _ in range(steps):
            loss = loss_of_batch()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            losses.append(loss.item())
    last = losses[-max(1, steps // 50) :]
    return convert_torch_module(module).layer, float(np.mean(last or [1.0]))


def _share(rows: Iterable[Row], name: str = "met") -> str:
    """The number of layers that are counted under a name, of all."""
    rows = list(rows)
    return f"{sum(row[name] for row in rows)} of {sum(row['draws'] for row in rows)}"


def numbers(rows: Sequence[Row]) -> dict[str, Any]:
    random, untrained, trained = (
        chosen(rows, family=name) for name in ("random", "imported, untrained", "imported, recall")
    )
    return {
        **{f"random_{row['dim']}": _share([row]) for row in random},
        **{f"untrained_{row['dim']}": _share([row]) for row in untrained},
        "random_64_on": _share(row for row in random if row["dim"] >= 64),
        "structured": _share(row for row in rows if row["family"] in list(_MADE)[1:]),
        "trained": _share(trained),
        "trained_incoherent": _share(trained, "incoherent"),
        "untrained_incoherent": _share(untrained, "incoherent"),
    }


def tables(rows: Sequence[Row]) -> dict[str, Table]:
    """Every family at its largest d, and the trained layers at each d."""
    largest = {family: max(row["dim"] for row in own) for (family,), own in grouped(rows, "family").items()}
    shown = [
        row for row in rows if row["family"] == "imported, recall" or row["dim"] == largest[row["family"]]
    ]
    measured = {title: title for title in (*_MEASURES, "loss", "fails on every layer")}
    return {"families": table(shown, {"heads": "family", "d": "dim"}, {"all hold": _share, **measured})}


def figure(rows: Sequence[Row]) -> Any:
    panels = []
    for title in _MEASURES:
        curves = {family: curve(own, "dim", title) for (family,), own in grouped(rows, "family").items()}
        curves["threshold"] = curve(rows, "dim", f"threshold of {title}")
        panels.append(Panel("d", title, curves, log_x=True))
    return line_figure(panels, columns=2)
