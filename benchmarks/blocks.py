"""Networks and blocks recovered by value queries: success, errors, queries for each neuron, seconds."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from attention import (
    Block,
    FeedForward,
    Norm,
    ValueOracle,
    block_errors,
    make_nice_block,
    make_nice_network,
    network_errors,
    relative_error,
)
from attention.files import read_arrays
from benchmarks.report import Json, end_with, machine, show_table, write_json
from benchmarks.trained_layers import trained_model
from runs import single_thread, versions
from upper import BlockByQueries, FeedForwardByQueries

NETWORKS = ((16, 64), (32, 128), (64, 256))
"""(d, h)."""
BLOCKS = ((16, 64, 2), (32, 128, 4), (64, 256, 4), (96, 384, 8))
"""(d, h, m)."""
PRE_NORM = ((24, 48, 2), (32, 64, 2), (48, 96, 3), (48, 192, 2))
"""(d, h, m) of blocks behind LayerNorms."""
POST_NORM = ((24, 48, 2), (48, 64, 2), (64, 256, 4))
"""(d, h, m) of blocks with LayerNorms, with gains and offsets, behind the sums."""
QUERIES = {"relu": 19, "gelu": 22}
"""The most queries for each neuron of a network, in the median: the goal."""
ERRORS = {"network": 1e-8, "block": 1e-7, "pre-norm": 1e-7, "post-norm": 1e-7}
"""The largest relative error of a function that counts as found."""
TRAINED = (0, 3)
"""Layers of the trained encoder whose networks are read."""
FIRST_SEED = 2000
"""Seeds from here on were never used to develop the learners."""
_INPUTS = 500


def run_blocks(
    targets: int = 20,
    largest: int = 64,
    kinds: str = "network,block,pre-norm,post-norm,trained",
    out: Json = None,
) -> None:
    """Recover so many nice networks and blocks of each size up to d = `largest`, and trained networks; print a table.

    A query of one token counts as one token, so tokens compare with the parameters over d, below which no learner is
    exact. Seconds are of the processor, with the oracle's.
    """
    rows = []
    with single_thread():
        for name in kinds.split(","):
            if name == "trained":
                rows += _trained_rows()
                continue
            for size in _SIZES[name]:
                if size[0] <= largest:
                    rows += [_row(name, size, kind, targets) for kind in QUERIES]
    show_table(
        "Read back by value queries",
        ["<target", "found", "function", "parameters", "tokens", "most", "tokens / h", "bound", "seconds"],
        [_words(row) for row in rows],
    )
    write_json(out, {**machine(), "versions": versions(), "rows": rows})
    end_with(
        f"{_title(row)}: {row['found']} of {row['targets']} found, {row['tokens'] / row['h']:.1f} tokens a neuron."
        for row in rows
        if row["found"] < row["targets"]
        or (row["kind"] == "network" and row["tokens"] > QUERIES[row["activation"]] * row["h"])
    )


def _row(name: str, size: tuple[int, ...], activation: Any, targets: int) -> dict[str, Any]:
    d, h, *heads = size
    done = list(_recovered(_MEASURES[name], size, activation, targets))
    functions, parameters, tokens, seconds = (list(column) for column in zip(*done, strict=True))
    given = 2 * d * h + h + d + sum(2 * m * d * d + m * d for m in heads)
    free = given - (h if activation == "relu" else 0)  # the scales of ReLU are free
    return {
        **{"kind": name, "d": d, "h": h, "m": heads[0] if heads else None, "activation": activation},
        "targets": targets,
        "found": sum(error <= ERRORS[name] for error in functions),
        "function": max(functions),
        "parameters": max(parameters),
        "tokens": median(tokens),
        "most tokens": max(tokens),
        "bound": free / d,
        "seconds": median(seconds),
    }


Measured = tuple[float, float, int, float]


def _recovered(
    measure: Callable[..., tuple[float, float, int]], size: tuple[int, ...], activation: Any, targets: int
) -> Iterator[Measured]:
    for seed in range(FIRST_SEED, FIRST_SEED + targets):
        began = time.process_time()
        measured = measure(size, activation, seed)
        yield *measured, time.process_time() - began


def _trained_rows() -> list[dict[str, Any]]:
    """The networks of a trained encoder, without its norms; none if there is no model to be had."""
    networks = []
    with TemporaryDirectory() as folder:
        path = trained_model(Path(folder))
        if path is None:
            return []
        for layer in TRAINED:
            wanted = [
                f"encoder.layer.{layer}.{part}.dense.{kind}"
                for part in ("intermediate", "output")
                for kind in ("weight", "bias")
            ]
            arrays = read_arrays(path, wanted)
            w1, b1, w2, b2 = (arrays[name].T.astype(float) for name in wanted)
            networks.append(FeedForward(w1, b1, w2, b2))
    rows = []
    for layer, net in zip(TRAINED, networks, strict=True):
        began = time.process_time()
        function, parameters, tokens = _read(net, layer)
        row = {"d": net.dim, "h": net.width, "m": None, "activation": "gelu"}
        rows.append(
            {
                **row,
                "kind": f"trained layer {layer}",
                "targets": 1,
                "found": int(function <= ERRORS["network"]),
            }
            | {"function": function, "parameters": parameters, "tokens": tokens, "most tokens": tokens}
            | {"bound": (2 * net.dim + 1) * net.width / net.dim + 1, "seconds": time.process_time() - began}
        )
    return rows


def _network(size: tuple[int, ...], activation: Any, seed: int) -> tuple[float, float, int]:
    return _read(make_nice_network(dim=size[0], width=size[1], activation=activation, rng=seed), seed)


def _read(net: FeedForward, seed: int) -> tuple[float, float, int]:
    oracle = ValueOracle(net)
    fit = FeedForwardByQueries().fit(oracle, rng=[seed, 1])
    worst = 1.0
    if isinstance(fit.details, FeedForward) and fit.details.width == net.width:
        errors = network_errors(fit.details, net)
        worst = float(max(errors.w1.max(), errors.w2.max(), errors.b1.max()))
    x = np.random.default_rng([seed, 2]).standard_normal((_INPUTS, 1, net.dim))
    return relative_error(fit.predict(x), net(x)), worst, oracle.tokens_asked


def _block(
    size: tuple[int, ...],
    activation: Any,
    seed: int,
    *,
    norms: tuple[Norm, ...] | None = None,
    norm_first: bool = True,
) -> tuple[float, float, int]:
    d, h, m = size
    nice = make_nice_block(heads=m, dim=d, width=h, activation=activation, rng=seed)
    block = replace(nice, norms=norms, norm_first=norm_first)
    oracle = ValueOracle(block)
    fit = BlockByQueries().fit(oracle, rng=[seed, 1])
    worst = 1.0
    if isinstance(fit.details, Block) and (fit.details.heads, fit.details.network.width) == (m, h):
        worst = block_errors(fit.details, block).worst
    x = np.random.default_rng([seed, 2]).standard_normal((_INPUTS, 4, d))
    return relative_error(fit.predict(x), block(x)), worst, oracle.tokens_asked


def _pre_norm(size: tuple[int, ...], activation: Any, seed: int) -> tuple[float, float, int]:
    norm = Norm.plain(size[0])
    return _block(size, activation, seed, norms=(norm, norm))


def _post_norm(size: tuple[int, ...], activation: Any, seed: int) -> tuple[float, float, int]:
    rng = np.random.default_rng([seed, 1])
    norms = tuple(
        Norm(1 + 0.2 * rng.standard_normal(size[0]), 0.1 * rng.standard_normal(size[0])) for _ in range(2)
    )
    return _block(size, activation, seed, norms=norms, norm_first=False)


_MEASURES = {"network": _network, "block": _block, "pre-norm": _pre_norm, "post-norm": _post_norm}
_SIZES = {"network": NETWORKS, "block": BLOCKS, "pre-norm": PRE_NORM, "post-norm": POST_NORM}


def _title(row: dict[str, Any]) -> str:
    heads = "" if row["m"] is None else f", {row['m']} heads"
    return f"{row['kind']}, {row['activation']}, d = {row['d']}, h = {row['h']}{heads}"


def _words(row: dict[str, Any]) -> list[str]:
    return [
        _title(row),
        f"{row['found']} of {row['targets']}",
        f"{row['function']:.0e}",
        f"{row['parameters']:.0e}",
        f"{row['tokens']:,.0f}",
        f"{row['most tokens']:,}",
        f"{row['tokens'] / row['h']:.1f}",
        f"{row['bound']:,.0f}",
        f"{row['seconds']:.2g}",
    ]
