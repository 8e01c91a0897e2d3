"""Layers recovered by value queries: random nice ones, and every hard family in coordinates and in random bases."""

import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from attention import AttentionLayer, Outcome, ValueOracle, make_nice_layer, parameter_errors
from benchmarks.report import Json, end_with, machine, show_table, write_json
from lower import Family
from lwe import LWRFamily, parse_distribution
from runs import Cell, Store, run, single_thread, versions
from sq import HiddenGateFamily, PairFamily, ParityFamily, ProfileFamily, TokenParityFamily
from upper import ByQueries

NICE = {(2, 16): None, (4, 32): 2127, (8, 32): None, (12, 64): 8695, (16, 64): 10_487, (32, 128): None}
"""(m, d), and the most queries that the goal allows, those of a prototype; None where it has no figure."""
NICE_ERROR = 1e-12
"""The goal for the worst relative error of Theta, W and c."""
HARD_ERROR, HARD_SHARE = 1e-8, 0.95
"""The largest error of a function that counts as found, and the required share of such instances."""
FIRST_SEED = 1000
"""Seeds from here on were never used to develop the learner."""
_INPUTS = 2000


def _rounding(n: int, matrix: str = "binary", law: str = "uniform", modulus: int = 8) -> Callable[[], Family]:
    return partial(LWRFamily, n=n, q=modulus, p=2, matrix=matrix, Xs=parse_distribution(law))  # type: ignore[arg-type]


HARD: dict[str, Callable[[], Family]] = {
    "parity A": partial(ParityFamily, dim=32, bits=2, construction="A"),
    "parity B": partial(ParityFamily, dim=32, bits=3, construction="B"),
    "parity C": partial(ParityFamily, dim=32, bits=3, construction="C"),
    **{
        f"parity D, {heads} heads, d = 48": partial(ParityFamily, dim=48, heads_count=heads, construction="D")
        for heads in (2, 3, 4)
    },
    "two slopes": partial(ProfileFamily.two_slope, dim=32, bits=8),
    "bump": partial(ProfileFamily.bump, dim=32, bits=8),
    "designed steps": partial(ProfileFamily.designed_steps, dim=32, bits=6, heads_count=4),
    "centre thresholds": partial(ProfileFamily.centre_threshold, dim=32, bits=8, heads_count=4),
    "pair": partial(PairFamily, dim=32),
    "hidden gate": lambda: HiddenGateFamily(base=ParityFamily(dim=32, bits=3)),
    "token parity, 3 tokens": partial(TokenParityFamily, dim=32, tokens=3, bits=2),
    "token parity, 2 tokens": partial(TokenParityFamily, dim=32, tokens=2, bits=3),
    "rounding, n = 24": _rounding(24, law="binary"),
    "rounding, n = 24, q = 64": _rounding(24, modulus=64),
    "ternary rounding, n = 24": _rounding(24, matrix="ternary", law="binary"),
    "gadget rounding, n = 8, q = 16": _rounding(8, matrix="gadget", modulus=16),
}
"""Every hard family, in 32 dimensions unless it says otherwise."""


def run_value_queries(
    targets: int = 20,
    largest: int = 128,
    kinds: str = "nice,hard",
    jobs: int = 1,
    store: Path | None = None,
    out: Json = None,
) -> None:
    """Recover so many nice layers of each size up to d = `largest`, and instances of each hard family; print tables.

    A nice layer counts as recovered if the outcome is EXACT and all relative errors, each of the worst head, are at
    most 1e-12. Biases have entries of the order of those of the other parameters. An instance counts if its function
    is right to 1e-8 on Boolean inputs, rotated with it, which determines the secret. Instances that are in the store
    are not computed again. Seconds are the learner's, without the oracle's.
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    if "nice" in kinds.split(","):
        with single_thread():
            rows["nice"] = [
                _nice_row(m, d, allowed, biased, targets)
                for (m, d), allowed in NICE.items()
                for biased in (False, True)
                if d <= largest
            ]
        _show_nice(rows["nice"])
    if "hard" in kinds.split(","):
        rows["hard"] = _hard_rows(targets, jobs, store)
        _show_hard(rows["hard"])
    write_json(out, {**machine(), "versions": versions(), **rows})
    end_with(
        [
            f"{row['m']} heads, d = {row['d']}, {_biases(row)}: {row['successes']} of {row['targets']} layers to "
            f"{NICE_ERROR:g}, {row['most queries']} queries at most; {row['allowed'] or 'any number'} are allowed."
            for row in rows.get("nice", ())
            if row["successes"] < row["targets"] or row["most queries"] > (row["allowed"] or np.inf)
        ]
        + [
            f"{row['case']}, {row['basis']}: {row['successes']} of {row['targets']} found; {HARD_SHARE:.0%} are wanted."
            for row in rows.get("hard", ())
            if row["successes"] < HARD_SHARE * row["targets"]
        ]
    )


def _nice_row(m: int, d: int, allowed: int | None, biased: bool, targets: int) -> dict[str, Any]:
    outcomes, queries, seconds, asked = [], [], [], []
    errors: dict[str, list[float]] = {"theta": [], "w": [], "key_bias": [], "bias": []}
    for seed in range(FIRST_SEED, FIRST_SEED + targets):
        rng = np.random.default_rng(seed)
        nice = make_nice_layer(heads=m, dim=d, rng=rng)
        bias, key_bias = rng.standard_normal(d), rng.standard_normal((m, d)) / np.sqrt(d)
        truth = AttentionLayer(nice.theta, nice.w, *((key_bias, bias) if biased else ()))
        oracle, clock = _timed(truth)
        fit = ByQueries().fit(oracle, rng=[seed, 1])
        outcomes.append(fit.outcome)
        queries.append(fit.examples_used)
        seconds.append(fit.seconds - clock[0])
        asked.append(clock[0])
        for name, error in _errors(fit.layer, truth).items():
            errors[name].append(error)
    good = [
        outcome is Outcome.EXACT and max(worst) <= NICE_ERROR
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


def _hard_rows(targets: int, jobs: int, store: Path | None) -> list[dict[str, Any]]:
    cells = [
        Cell(measure, {"case": case, "seed": FIRST_SEED + seed, "rotated": rotated})
        for case in HARD
        for rotated in (False, True)
        for seed in range(targets)
    ]
    kept = None if store is None else Store(store)
    done: dict[tuple[str, bool], list[dict[str, Any]]] = {}
    for result in run(cells, jobs=jobs, timeout=600, store=kept, isolated=True):
        given: dict[str, Any] = dict(result.cell.arguments)
        done.setdefault((given["case"], given["rotated"]), []).append(
            given | (result.value or {"right": False})
        )
    return [_hard_row(case, rotated, done[case, rotated]) for case in HARD for rotated in (False, True)]


def measure(case: str, seed: int, rotated: bool) -> dict[str, Any]:
    """One instance in its own or a random basis: the error of its function, queries, seconds of processor time."""
    instance = HARD[case]().instance(rng=seed)
    d = instance.layer.dim
    basis = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0] if rotated else np.eye(d)
    layer = AttentionLayer(*(basis.T @ part @ basis for part in (instance.layer.theta, instance.layer.w)))
    began = time.process_time()
    fit = ByQueries().fit(ValueOracle(layer, tokens=instance.inputs.tokens), rng=seed)
    seconds = time.process_time() - began
    x = instance.inputs.sample(_INPUTS, rng=[seed, 1])
    answers = instance.layer(x)
    error = float(np.abs(fit.predict(x @ basis) @ basis.T - answers).max() / np.abs(answers).max())
    return {
        "exact": fit.outcome is Outcome.EXACT,
        "error": error,
        "right": fit.outcome.succeeded and error < HARD_ERROR,
        "queries": fit.examples_used,
        "seconds": seconds,
    }


def _hard_row(case: str, rotated: bool, every: list[dict[str, Any]]) -> dict[str, Any]:
    done = [one for one in every if "queries" in one]
    right = [one for one in done if one["right"]]
    return {
        "case": case,
        "basis": "rotated" if rotated else "coordinates",
        "targets": len(every),
        "successes": len(right),
        "exact": sum(one["exact"] for one in done),
        "queries": median([one["queries"] for one in right]) if right else None,
        "most queries": max((one["queries"] for one in right), default=None),
        "worst error": max((one["error"] for one in right), default=None),
        "seconds": median([one["seconds"] for one in done]) if done else None,
        "failed seeds": [one["seed"] for one in every if not one["right"]],
    }


def _biases(row: dict[str, Any]) -> str:
    return "with biases" if row["biased"] else "no biases"


def _show_nice(rows: list[dict[str, Any]]) -> None:
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


def _show_hard(rows: list[dict[str, Any]]) -> None:
    forms = {"queries": ".0f", "most queries": "d", "worst error": ".1e", "seconds": ".1f"}
    show_table(
        "Hard families by value queries; one thread",
        ("<family", "<basis", "found", "exact", "queries", "most", "worst error", "median s"),
        [
            (
                row["case"],
                row["basis"],
                f"{row['successes']}/{row['targets']}",
                str(row["exact"]),
                *("-" if row[name] is None else format(row[name], form) for name, form in forms.items()),
            )
            for row in rows
        ],
        width=120,
    )
