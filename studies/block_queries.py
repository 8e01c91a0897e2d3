"""Blocks by queries and by examples.

How many value queries does a block take as width and dimension grow, and what do as many random examples give?
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attention import (
    AttentionLayer,
    Block,
    ExampleOracle,
    FeedForward,
    GaussianInputs,
    ValueOracle,
    make_nice_block,
    make_nice_network,
    relative_error,
)
from runs import Scale
from studies.line_figure import Panel, line_figure
from studies.rows import chosen, curve, grouped, median, of_all, table
from studies.study import Parameters, Row, Table
from upper import BlockByQueries, FeedForwardByQueries, Newton

_HEADS, _TOKENS, _FRESH = 2, 2, 500
_DIM, _WIDER = 32, 4  # the dimension of the widths, and the width of the dimensions in units of d
_WIDTHS, _DIMS = (8, 16, 32, 64, 128, 256, 512), (8, 16, 32, 64, 96)
_FOUND = {"network": 1e-8, "block": 1e-7}  # errors of functions, as in the benchmark
# the block that examples are drawn of, and how Adam fits it: its loss is flat after so many steps
_BLOCK = {"dim": 16, "width": 64}
_STEPS, _BATCH, _RATE = 4000, 64, 0.01
STREAM, NEEDS = ("part", "dim", "width", "draw"), ("torch",)
_TITLES = {
    "queries": "By queries",
    "adam, width 1": "Adam, a block of the same width",
    "adam, width 4": "Adam, a block of four times the width",
    "newton": "Newton, attention alone",
}


def cells(scale: Scale) -> list[Parameters]:
    quick = scale is Scale.QUICK
    draws = 1 if quick else 2
    sizes = [("width", _DIM, width) for width in (_WIDTHS[:3] if quick else _WIDTHS)]
    sizes += [("dimension", dim, _WIDER * dim) for dim in (_DIMS[:2] if quick else _DIMS)]
    read: list[Parameters] = [
        {"part": part, "name": f"{kind}, {activation}", "dim": dim, "width": width, "times": 0, "draw": draw}
        for part, dim, width in sizes
        for kind in _FOUND
        for activation in ("relu", "gelu")
        for draw in range(draws)
    ]
    return read + [
        {"part": "examples", "name": name, **_BLOCK, "times": times, "draw": draw}
        for name in _TITLES
        for times in ((1,) if quick or name == "queries" else (1, 16))
        for draw in range(draws)
    ]


def measure(
    *, rng: np.random.Generator, part: str, name: str, dim: int, width: int, times: int, draw: int
) -> Mapping[str, Any]:
    for_target, for_queries, for_examples, for_tests = rng.spawn(4)
    kind, *words = name.split(", ") if part != "examples" else ("block", "gelu")
    activation: Any = words[0]
    target: Any
    if kind == "network":
        target = make_nice_network(dim=dim, width=width, activation=activation, rng=for_target)
        learner: Any = FeedForwardByQueries()
        held = target.parameters
    else:
        target = make_nice_block(
            heads=_HEADS, dim=dim, width=width, activation=activation, rng=for_target
        ).centred()
        learner = BlockByQueries()
        held = {**target.layer.parameters, **target.network.parameters}
    free = sum(array.size for array in held.values()) - (width if activation == "relu" else 0)
    oracle = ValueOracle(target)
    fit = learner.fit(oracle, rng=for_queries)
    x = for_tests.standard_normal((_FRESH, _TOKENS, dim))
    predict, examples = fit.predict, None
    if part == "examples" and name != "queries":
        examples = times * fit.examples_used
        inputs = GaussianInputs(_TOKENS, dim)
        if name == "newton":
            attention = Newton(_HEADS, biases=True, examples=examples, work=3000)
            predict = attention.fit(ExampleOracle(target, inputs, rng=for_examples), rng=for_queries).predict
        else:
            given = inputs.sample(examples, rng=for_examples)
            predict = fit_by_adam(target, given, wider=int(name[-1]), rng=for_examples)
    return {
        "tokens": oracle.tokens_asked,
        "queries": oracle.drawn,
        "bound": free / dim,
        "examples": examples,
        "error": relative_error(predict(x), target(x)),
    }


def fit_by_adam(target: Block, x: np.ndarray, *, wider: int, rng: np.random.Generator) -> Block:
    """A block with the heads of the target and `wider` times its width, fitted to its answers on `x`, in float32."""
    import torch

    d, h, m = target.dim, wider * target.network.width, target.heads
    sizes = {"theta": (m, d, d), "w": (m, d, d), "key_bias": (m, d), "w1": (d, h), "b1": (h,), "w2": (h, d)}
    start = {name: np.zeros(size) for name, size in sizes.items()} | {"b2": np.zeros(d)}
    for name, size in {"theta": 1 / d, "w": 1 / d, "w1": d**-0.5, "w2": h**-0.5 / 2}.items():
        start[name] = size * rng.standard_normal(sizes[name])
    p = {name: torch.tensor(array, dtype=torch.float32, requires_grad=True) for name, array in start.items()}
    tokens, labels = (torch.tensor(array, dtype=torch.float32) for array in (x, target(x)))

    def outputs(tokens: Any) -> Any:
        each = tokens[:, None]
        logits = (each @ p["theta"] + p["key_bias"][:, None]) @ each.transpose(2, 3)
        z = tokens + (torch.softmax(logits, dim=-1) @ each @ p["w"]).sum(dim=1)
        return z + torch.nn.functional.gelu(z @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]

    optimiser = torch.optim.Adam(list(p.values()), lr=_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _RATE, total_steps=_STEPS)
    for _ in range(_STEPS):
        some = torch.from_numpy(rng.integers(len(x), size=_BATCH))
        loss = ((outputs(tokens[some]) - labels[some]) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    fitted = {name: array.detach().numpy().astype(float) for name, array in p.items()}
    layer = AttentionLayer(*(fitted.pop(name) for name in ("theta", "w", "key_bias")))
    return Block(layer, FeedForward(**fitted))


def _found(row: Row) -> bool:
    """Whether the function is read; of the rest, the queries are not counted."""
    return row["error"] < _FOUND[row["name"].split(",")[0]]


def numbers(rows: Sequence[Row]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for kind in _FOUND:
        read = [row for row in rows if row["part"] != "examples" and row["name"].startswith(kind)]
        named[kind] = of_all(map(_found, read))
        for part, size in (("width", "width"), ("dimension", "dim")):
            own = [row for row in chosen(read, part=part) if _found(row)]
            largest = chosen(own, **{size: max((row[size] for row in own), default=0)})
            for unit in ("bound", "width"):
                ratios = [row["tokens"] / row[unit] for row in largest]
                named[f"{kind}_{part}_by_{unit}"] = f"{np.median(ratios):.1f}" if ratios else "-"
    for (name, times), own in grouped(chosen(rows, part="examples"), "name", "times").items():
        named[f"{name.replace(', width ', '_')}_at_{times}"] = f"{median(own, 'error'):.0e}"
    named["queries_of_the_block"] = _count(chosen(rows, part="examples", name="queries"), "queries")
    return named


def _count(rows: Sequence[Row], name: str) -> str:
    counted = median(rows, name)
    return "-" if counted is None else f"{counted:,.0f}"


def tables(rows: Sequence[Row]) -> dict[str, Table]:
    counts: dict[str, Any] = {
        "tokens": lambda group: _count([row for row in group if _found(row)], "tokens"),
        "bound": lambda group: _count(group, "bound"),
        "found": lambda group: of_all(map(_found, group)),
    }
    learners = [{**row, "learner": _TITLES[row["name"]]} for row in chosen(rows, part="examples")]
    by = {"learner": "learner", "times the queries": "times"}
    of_examples: dict[str, Any] = {"examples": lambda group: _count(group, "examples"), "error": "error"}
    return {
        "width": table(chosen(rows, part="width"), {"target": "name", "h": "width"}, counts),
        "dimension": table(chosen(rows, part="dimension"), {"target": "name", "d": "dim"}, counts),
        "examples": table(learners, by, of_examples),
    }


def figure(rows: Sequence[Row]) -> Any:
    panels = []
    for part, size, label in (
        ("width", "width", f"width h, at d = {_DIM}"),
        ("dimension", "dim", "dimension d, h = 4 d"),
    ):
        own = [row for row in chosen(rows, part=part) if _found(row)]
        names = list(dict.fromkeys(row["name"] for row in own))
        panels.append(
            Panel(
                label,
                "tokens asked",
                {name: curve(chosen(own, name=name), size, "tokens") for name in names},
                log_x=True,
                bounds={
                    f"parameters / d, {kind}": curve(chosen(own, name=f"{kind}, gelu"), size, "bound")
                    for kind in _FOUND
                },
            )
        )
    own = chosen(rows, part="examples")
    panels.append(
        Panel(
            "random examples, in units of the queries",
            "relative error of the function",
            {title: curve(chosen(own, name=name), "times", "error") for name, title in _TITLES.items()},
            log_x=True,
        )
    )
    return line_figure(panels)
