"""The rate of the solver's kernels relative to a plain matrix product, and the cost of a fit in forward passes.

The reference is the rate of the float32 product of all tokens by all Theta_i, measured between the kernels. Kernels
in low precision are compared with the same float32 rate, so their share may exceed 1.
"""

import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from attention import BooleanInputs, make_nice_layer
from benchmarks.report import Json, Svg, case_words, drawing, machine, show_table, write_json
from runs import single_thread
from upper import counting_floor, gauss_newton
from upper.engine import Engine, choose_engine
from upper.newton.full_heads import FullHeads

CASES = ((2, 2, 32), (4, 4, 32), (8, 4, 32), (4, 4, 64), (8, 8, 64))
_KERNELS = ("forward", "J", "J^T", "J^T J")
# long enough for the clock's resolution, short enough that the machine does not change between kernels
_SECONDS, _ROUNDS = 0.02, 9
_EXACT, _MOST_PASSES = 1e-13, 20_000


def run_kernels(targets: int = 3, device: str | None = None, out: Json = None, figure: Svg = None) -> None:
    """Measure every case on every engine; print a table and, on request, write the figures and draw them.

    Shares are medians over rounds in which the product and the kernels take turns, one thread.
    """
    rows = []
    with single_thread(torch=True):
        for m, k, d in CASES:
            for name, engine in _engines(device):
                row: dict[str, Any] = {"m": m, "k": k, "d": d, "engine": name}
                row |= _shares(engine, m, k, d)
                row |= _to_exactness(engine, m, k, d, targets, row["seconds a forward pass"])
                rows.append(row)
    _show(rows)
    write_json(out, {**machine(), "device": device, "rows": rows})
    if figure is not None:
        _draw(rows, figure)


def _draw(rows: list[dict[str, Any]], path: Path) -> None:
    """The shares as bars, one panel per case."""
    cases = sorted({(row["m"], row["k"], row["d"]) for row in rows}, key=lambda case: (case[2], *case))
    names = list(dict.fromkeys(row["engine"] for row in rows))
    with drawing(path, (2.3 * len(cases), 3.2)) as figure:
        panels = figure.subplots(1, len(cases), sharey=True, squeeze=False)[0]
        for panel, case in zip(panels, cases, strict=True):
            of_case = [row for row in rows if (row["m"], row["k"], row["d"]) == case]
            for number, row in enumerate(of_case):
                at = np.arange(len(_KERNELS)) + (number - (len(of_case) - 1) / 2) * 0.8 / len(of_case)
                shares = [row[kernel] for kernel in _KERNELS]
                colour = f"C{names.index(row['engine'])}"
                panel.bar(at, shares, 0.8 / len(of_case), color=colour, label=row["engine"])
            panel.axhline(1.0, color="0.5", linewidth=0.8)
            panel.set_xticks(range(len(_KERNELS)), _KERNELS)
            panel.set_title("m, k, d = " + ", ".join(map(str, case)))
        panels[0].set_ylabel("share of the float32 product's rate")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)


def _engines(device: str | None) -> list[tuple[str, Engine]]:
    engines = [("NumPy float32", choose_engine("numpy"))] if device is None else []
    if device is not None or find_spec("torch") is not None:
        best = choose_engine("torch", device)
        exact = Engine.of(best.put(np.zeros(1)), low=best.single)
        engines.append(("torch float32", exact))
        if best.low != best.single:
            engines.append((f"torch {str(best.low).removeprefix('torch.')}", best))
    return engines


def _shares(engine: Engine, m: int, k: int, d: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    layer, n = make_nice_layer(heads=m, dim=d, rng=0), _examples(m, k, d)
    x = engine.put(BooleanInputs(k, d).sample(n, rng=1), engine.single)
    side_by_side = np.moveaxis(np.array(layer.theta), 0, 1).reshape(d, m * d)
    theta = engine.put(side_by_side, engine.single)
    w = engine.put(np.array(layer.w).reshape(m * d, d), engine.single)
    heads = FullHeads(engine.put(np.array(layer.theta))).on(engine, x, rng)
    heads.reads(theta)
    heads.linearise(theta, w)
    direction = engine.put(rng.standard_normal((d, m * d)), engine.single)
    residual = engine.put(rng.standard_normal((n * k, d)), engine.low)
    flat = engine.xp.reshape(x, (n * k, d))

    heavy, light = 2 * n * k * m * d * d, 2 * n * k * k * m * d
    # operations of each kind: large products, and batched products of k by k
    timed: dict[str, tuple[Callable[[], Any], int]] = {
        "product": (lambda: flat @ theta, heavy),
        "forward": (lambda: heads.reads(theta) @ w, 2 * heavy + 2 * light),
        "J": (lambda: heads.times(direction), heavy + 2 * light),
        "J^T": (lambda: heads.transpose_times(residual), heavy + 2 * light),
        "J^T J": (lambda: heads.transpose_times(heads.times(direction)), 2 * heavy + 4 * light),
    }
    rates: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(_ROUNDS):
        for name, (work, operations) in timed.items():
            rates[name].append(operations / _seconds(engine, work))
    shares = {
        name: median(rate / best for rate, best in zip(rates[name], rates["product"], strict=True))
        for name in _KERNELS
    }
    product = median(rates["product"])
    return shares | {
        "product, Gflop/s": product / 1e9,
        "seconds a forward pass": (2 * heavy + 2 * light) / (product * shares["forward"]),
    }


def _seconds(engine: Engine, work: Callable[[], Any]) -> float:
    """Seconds per call, over as many calls as fill the time; on a CPU, processor time, as other processes share it."""
    on_cpu = engine.device is None or str(engine.device) == "cpu"
    clock = time.process_time if on_cpu else time.perf_counter
    _finish(on_cpu, work())
    calls, began = 0, clock()
    while True:
        result = work()
        calls += 1
        if clock() - began > _SECONDS:
            break
    _finish(on_cpu, result)
    return (clock() - began) / calls


def _finish(on_cpu: bool, result: Any) -> None:
    if not on_cpu:
        float(result.reshape(-1)[0])  # waits for the device


def _to_exactness(engine: Engine, m: int, k: int, d: int, targets: int, forward: float) -> dict[str, float]:
    """Passes and seconds of the solver from a random start, medians over targets; infinite if it is stuck."""
    passes, seconds = [], []
    for seed in range(targets):
        layer, rng = make_nice_layer(heads=m, dim=d, rng=seed), np.random.default_rng([seed, 2])
        x = BooleanInputs(k, d).sample(_examples(m, k, d), rng=[seed, 1])
        theta = rng.standard_normal((m, d, d)) / d
        given = [engine.put(array) for array in (x, layer(x), theta)]
        began = time.perf_counter()
        for iterate in gauss_newton(*given, inner_dtype=engine.low, tolerance=_EXACT, rng=rng):
            if iterate.residual <= _EXACT or iterate.passes > _MOST_PASSES:
                break
        reached = iterate.residual <= _EXACT
        seconds.append(time.perf_counter() - began if reached else float("inf"))
        passes.append(iterate.passes if reached else float("inf"))
    return {
        "passes to exactness": median(passes),
        "seconds to exactness": median(seconds),
        "forward passes to exactness": median(seconds) / forward,
    }


def _examples(m: int, k: int, d: int) -> int:
    return 4 * counting_floor(heads=m, tokens=k, dim=d)


def _show(rows: list[dict[str, Any]]) -> None:
    show_table(
        "Shares of the float32 product's rate, and the way to residual 1e-13; one thread",
        ("m,k,d", "engine", "Gflop/s", *_KERNELS, "passes", "seconds", "in forward passes"),
        [
            (
                case_words(row),
                row["engine"],
                f"{row['product, Gflop/s']:.0f}",
                *(f"{row[kernel]:.0%}" for kernel in _KERNELS),
                f"{row['passes to exactness']:.0f}",
                f"{row['seconds to exactness']:.2f}",
                f"{row['forward passes to exactness']:.0f}",
            )
            for row in rows
        ],
    )
