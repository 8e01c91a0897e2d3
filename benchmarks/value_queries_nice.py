"""How often value queries recover a random nice layer, with which errors, queries and seconds."""

import resource
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from attention import AttentionLayer, Outcome, ValueOracle, make_nice_layer, parameter_errors
from benchmarks.report import machine, show_table, write_json
from runs import single_thread, versions
from upper import ByQueries

__all__ = ["CASES", "run_value_queries", "value_queries_complaint"]

CASES = {(2, 16): None, (4, 32): 2127, (8, 32): None, (12, 64): 8695, (16, 64): 10_487, (32, 128): None}
"""(m, d), and the most queries that the goal allows, those of a prototype; None where it has no figure."""
_WANTED = 1e-12
"""The goal for the worst relative error of Theta, W and c."""
_FIRST_SEED = 1000


def run_value_queries(
    targets: int = 20,
    largest: int = 128,
    out: Path | None = None,
    *,
    cases: dict[tuple[int, int], int | None] | None = None,
) -> list[dict[str, Any]]:
    """Recover `targets` nice layers of every case up to d = `largest`, without and with biases; print a table.

    A success is the outcome EXACT with all relative errors, each of the worst head, at most 1e-12. Biases have entries
    of the order of those of the other parameters. Seconds are the learner's, without the oracle's.
    """
    rows = []
    with single_thread():
        for (m, d), allowed in (CASES if cases is None else cases).items():
            rows += [_row(m, d, allowed, biased, targets) for biased in (False, True) if d <= largest]
    _show(rows)
    write_json(out, {**machine(), "wanted": _WANTED, "versions": versions(), "rows": rows})
    return rows


def value_queries_complaint(rows: list[dict[str, Any]]) -> str:
    """A sentence for each case in which a layer is missed, or more queries are asked than the goal allows."""
    return "\n".join(
        f"{row['m']} heads, d = {row['d']}, {_biases(row)}: {row['successes']} of {row['targets']} layers to "
        f"{_WANTED:g}, {row['most queries']} queries at most, where {row['allowed'] or 'any number'} are allowed."
        for row in rows
        if row["successes"] < row["targets"] or row["most queries"] > (row["allowed"] or np.inf)
    )


def _target(m: int, d: int, biased: bool, seed: int) -> AttentionLayer:
    rng = np.random.default_rng(seed)
    nice = make_nice_layer(heads=m, dim=d, rng=rng)
    bias, key_bias = rng.standard_normal(d), rng.standard_normal((m, d)) / np.sqrt(d)
    return AttentionLayer(nice.theta, nice.w, *((key_bias, bias) if biased else ()))


def _row(m: int, d: int, allowed: int | None, biased: bool, targets: int) -> dict[str, Any]:
    outcomes, queries, seconds, asked = [], [], [], []
    errors: dict[str, list[float]] = {"theta": [], "w": [], "key_bias": [], "bias": []}
    for seed in range(_FIRST_SEED, _FIRST_SEED + targets):
        truth = _target(m, d, biased, seed)
        oracle, clock = _timed(truth)
        fit = ByQueries().fit(oracle, rng=[seed, 1])
        outcomes.append(fit.outcome)
        queries.append(fit.examples_used)
        seconds.append(fit.seconds - clock[0])
        asked.append(clock[0])
        for name, error in _errors(fit.layer, truth).items():
            errors[name].append(error)
    good = [
        outcome is Outcome.EXACT and max(worst) <= _WANTED
        for outcome, *worst in zip(outcomes, *errors.values(), strict=True)
    ]
    return {
        **{"m": m, "d": d, "biased": biased, "targets": targets, "allowed": allowed},
        "successes": sum(good),
        "exact": sum(outcome is Outcome.EXACT for outcome in outcomes),
        **{f"worst {name}": max(values) for name, values in errors.items()},
        "queries": median(queries),
        "most queries": max(queries),
        "seconds": median(seconds),
        "oracle seconds": median(asked),
        "peak MiB of the process": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _timed(truth: AttentionLayer) -> tuple[ValueOracle, list[float]]:
    """An oracle of any number of tokens, and the seconds that its answers take."""
    spent = [0.0]

    def answer(x: np.ndarray) -> np.ndarray:
        began = time.perf_counter()
        answers = truth(x)
        spent[0] += time.perf_counter() - began
        return answers

    oracle = ValueOracle.from_callable(answer, 1, truth.theta.shape[1])
    oracle.tokens = None
    return oracle, spent


def _errors(found: AttentionLayer | None, truth: AttentionLayer) -> dict[str, float]:
    """The worst head's relative error of each parameter. 1 where heads are missing."""
    if found is None or found.heads != truth.heads:
        return dict.fromkeys(("theta", "w", "key_bias", "bias"), 1.0)
    errors = parameter_errors(found, truth)
    worst = {name: float(getattr(errors, name).max()) for name in ("theta", "w", "key_bias")}
    return worst | {"bias": errors.bias}


def _biases(row: dict[str, Any]) -> str:
    return "with biases" if row["biased"] else "no biases"


def _show(rows: list[dict[str, Any]]) -> None:
    show_table(
        "Nice layers by value queries: worst relative errors, medians over layers; one thread",
        ("m,d", "<biases", "to 1e-12", "EXACT", "Theta", "W", "c", "queries", "most", "s", "oracle s", "MiB"),
        [
            (
                f"{row['m']},{row['d']}",
                _biases(row),
                f"{row['successes']}/{row['targets']}",
                str(row["exact"]),
                *(f"{row[f'worst {name}']:.1e}" for name in ("theta", "w", "key_bias")),
                f"{row['queries']:.0f}",
                str(row["most queries"]),
                f"{row['seconds']:.2f}",
                f"{row['oracle seconds']:.2f}",
                f"{row['peak MiB of the process']:.0f}",
            )
            for row in rows
        ],
        width=120,
    )
