"""Layers shaped like a trained transformer's, learned back from a random start: seconds, examples and memory.

The full solver knows the number of heads. The factored solver also knows the rank of every head, and fits a quarter of
the examples.
"""

import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console

from attention import AttentionLayer, BooleanInputs, check_conditions, relative_error
from attention.generators import make_transformer_shaped_layer
from benchmarks.report import Json, show_table, write_json
from runs import single_thread
from upper import choose_engine, counting_floor, gauss_newton
from upper.engine import Engine, EngineName
from upper.newton.loop import Iterate
from upper.newton.low_rank import random_factors

ERRORS = (1e-2, 1e-6, 1e-8)
_TEST_EXAMPLES = 200
_STRENGTHS = (2.0, 8.0)
# Counting floors of full rank at which one random start was enough on the targets tried.
_FLOORS = {"full": 16.0, "factored": 4.0}
_CONDITIONS = (
    "theta_incoherence",
    "w_incoherence",
    "theta_stable_rank",
    "w_stable_rank",
    "theta_norms_comparable",
)


@dataclass(frozen=True)
class _Case:
    """A target with its examples, on an engine."""

    layer: AttentionLayer
    x: Any
    y: Any
    x_test: np.ndarray
    y_test: np.ndarray
    engine: Engine


def run_transformer_shaped(
    dim: int = 96,
    heads: int = 12,
    rank: int = 32,
    tokens: int = 16,
    device: str | None = None,
    engine: EngineName = "auto",
    targets: int = 3,
    seconds: float = 900.0,
    out: Json = None,
) -> None:
    """Learn each target by each solver from a random start on one thread, to 1e-8 in function or until a time limit.

    Target number t is drawn from the seed t. The full solver gets 16 counting floors of examples and the factored
    one, which anneals a ridge prior, 4. Memory on a CPU is the peak of the process so far, including earlier runs.
    The iterates are printed on standard error.
    """
    chosen = choose_engine(engine, device)
    full = counting_floor(heads=heads, tokens=tokens, dim=dim)
    reduced = counting_floor(heads=heads, tokens=tokens, dim=dim, rank=rank)
    console, progress = Console(width=130), Console(width=130, stderr=True)
    console.print(
        f"{heads} heads of rank {rank}, d = {dim}, k = {tokens}; counting floor {full}, of known rank {reduced}.\n"
        f"Engine {chosen.name}, inner products in {chosen.low}."
    )
    rows, conditions = [], []
    for target in range(targets):
        layer = make_transformer_shaped_layer(
            heads=heads, dim=dim, rank=rank, strengths=_STRENGTHS, rng=target
        )
        report = check_conditions(layer, tokens=tokens)
        conditions.append({name: report[name].measured for name in _CONDITIONS})
        if target == 0:
            measured = "; ".join(f"{name} {value:.3g}" for name, value in conditions[0].items())
            console.print(f"Target 0: {measured}")
        for solver, floors in _FLOORS.items():
            n = round(floors * full)
            case = _case(layer, BooleanInputs(tokens, dim), n, chosen, target)
            iterates = {"full": _full, "factored": _factored}[solver]
            progress.print(f"target {target}, {solver}, {n} examples")
            with single_thread(torch=True):
                row = _run(case, iterates(case, heads, rank, target), seconds, progress.print)
            rows.append({"target": target, "solver": solver, "examples": n} | row)
    _show(rows)
    if out is not None:
        sizes = {"dim": dim, "heads": heads, "rank": rank, "tokens": tokens, "strengths": list(_STRENGTHS)}
        how = {"engine": chosen.name, "device": str(chosen.device or "cpu"), "inner": str(chosen.low)}
        floor = {"floor": full, "floor_of_known_rank": reduced}
        write_json(out, sizes | how | floor | {"targets": conditions, "runs": rows})


def _case(layer: AttentionLayer, inputs: BooleanInputs, n: int, engine: Engine, seed: int) -> _Case:
    x, x_test = inputs.sample(n, rng=[seed, 1]), inputs.sample(_TEST_EXAMPLES, rng=[seed, 2])
    return _Case(layer, engine.put(x), engine.put(layer(x)), x_test, layer(x_test), engine)


def _full(case: _Case, heads: int, rank: int, seed: int) -> Iterator[Iterate]:
    rng, d = np.random.default_rng([seed, 3]), case.layer.dim
    start = case.engine.put(rng.standard_normal((heads, d, d)) / d)
    return gauss_newton(case.x, case.y, start, tolerance=1e-10, rng=rng)


def _factored(case: _Case, heads: int, rank: int, seed: int) -> Iterator[Iterate]:
    rng = np.random.default_rng([seed, 3])
    start = random_factors(heads=heads, dim=case.layer.dim, rank=rank, rng=rng).map(case.engine.put)
    return gauss_newton(case.x, case.y, start, tolerance=1e-10, priors=True, rng=rng)


def _run(
    case: _Case, iterates: Iterator[Iterate], seconds: float, tell: Callable[[str], None]
) -> dict[str, Any]:
    """The errors that a solver reached, and when; measuring does not count, and an error never reached is None."""
    _reset_memory(case.engine)
    reached: dict[str, dict[str, float]] = {}
    spent, began, error = 0.0, time.perf_counter(), 1.0
    for number, iterate in enumerate(iterates):
        spent += time.perf_counter() - began
        error = relative_error(iterate.layer(case.x_test), case.y_test)
        tell(
            f"  iterate {number}: {spent:.1f} s, residual {iterate.residual:.1e}, error {error:.1e}, "
            f"{iterate.passes} passes"
        )
        for goal in ERRORS:
            if error <= goal:
                reached.setdefault(f"{goal:.0e}", {"seconds": spent, "passes": iterate.passes})
        if error <= min(ERRORS) or spent > seconds:
            break
        began = time.perf_counter()
    goals = {f"{goal:.0e}": reached.get(f"{goal:.0e}") for goal in ERRORS}
    return {
        "reached": goals,
        "error": error,
        "residual": iterate.residual,
        "seconds": spent,
        "passes": iterate.passes,
        "iterates": number,
        "gigabytes": _memory(case.engine) / 1e9,
    }


def _reset_memory(engine: Engine) -> None:
    if _on_cuda(engine):
        engine.xp.cuda.reset_peak_memory_stats(engine.device)


def _memory(engine: Engine) -> float:
    """Bytes: the most allocated on the device since the reset, or of the whole process so far."""
    if _on_cuda(engine):
        return float(engine.xp.cuda.max_memory_allocated(engine.device))
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _on_cuda(engine: Engine) -> bool:
    return str(engine.device).startswith("cuda")


def _show(rows: list[dict[str, Any]]) -> None:
    goals = [f"{goal:.0e}" for goal in ERRORS]
    show_table(
        "From one random start: seconds to a relative error on fresh examples",
        ("target", "solver", "examples", *goals, "passes", "error at the end", "GB"),
        [
            (
                str(row["target"]),
                row["solver"],
                str(row["examples"]),
                *("never" if one is None else f"{one['seconds']:.1f}" for one in row["reached"].values()),
                str(row["passes"]),
                f"{row['error']:.1e}",
                f"{row['gigabytes']:.2f}",
            )
            for row in rows
        ],
    )
