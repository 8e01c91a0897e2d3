"""Layers recovered by value queries: random nice ones, and every hard family in coordinates and in random bases."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from attention import AttentionLayer, Outcome, ValueOracle, make_nice_layer, parameter_errors
from benchmarks.report import Json, end_with, machine, write_json
from lower import Family
from lwe import LWRFamily, parse_distribution
from runs import Cell, Store, run, versions
from sq import HiddenGateFamily, PairFamily, ParityFamily, ProfileFamily, TokenParityFamily
from upper import ByQueries

NICE = {(2, 16): None, (4, 32): 2127, (8, 32): None, (12, 64): 8695, (16, 64): 10_487, (32, 128): None}
"""(m, d), and the most queries that the goal allows, those of a prototype; None where it has no figure."""
NICE_ERROR, HARD_ERROR = 1e-12, 1e-8
"""The largest error of a layer that counts as found: of the worst parameter; of a hard layer's function."""
HARD_SHARE = 0.95
"""The required share of hard layers; of nice ones all are wanted."""
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
    """Recover so many nice layers of each size up to d = `largest`, and instances of each hard family; print each row.

    A nice layer is found if the outcome is EXACT and all relative errors, each of the worst head, are at most 1e-12.
    Biases have entries of the order of those of the other parameters. An instance is found if its function is right to
    1e-8 on Boolean inputs, rotated with it, which determines the secret. The file has the rows measured so far.
    Instances that are in the store are not computed again.
    """
    cases: list[tuple[Callable[..., Any], dict[str, Any]]] = []
    if "nice" in kinds.split(","):
        sizes = [{"heads": m, "dim": d} for m, d in NICE if d <= largest]
        cases += [(measure_nice, size | {"biased": biased}) for size in sizes for biased in (False, True)]
    if "hard" in kinds.split(","):
        cases += [
            (measure_hard, {"case": case, "rotated": turned}) for case in HARD for turned in (False, True)
        ]
    kept = None if store is None else Store(store)
    rows: list[dict[str, Any]] = []
    print(f"{'layers':<45}  found  exact  queries     most  worst error  median s")
    for measure, case in cases:
        cells = [Cell(measure, case | {"seed": FIRST_SEED + seed}) for seed in range(targets)]
        results = [result.value for result in run(cells, jobs=jobs, timeout=600, store=kept)]
        rows.append(_row(case, [value for value in results if value is not None], targets))
        print(_line(rows[-1]), flush=True)
        write_json(out, {**machine(), "versions": versions(), "rows": rows})
    end_with(f"Too few or too costly: {_line(row)}" for row in rows if not _reached(row))


def measure_nice(heads: int, dim: int, biased: bool, seed: int) -> dict[str, Any]:
    """One nice layer: the largest error of a parameter, queries, seconds of processor time."""
    rng = np.random.default_rng(seed)
    nice = make_nice_layer(heads=heads, dim=dim, rng=rng)
    bias, key_bias = rng.standard_normal(dim), rng.standard_normal((heads, dim)) / np.sqrt(dim)
    truth = AttentionLayer(nice.theta, nice.w, *((key_bias, bias) if biased else ()))
    began = process_time()
    fit = ByQueries().fit(ValueOracle(truth), rng=[seed, 1])
    seconds, error = process_time() - began, 1.0
    if fit.layer is not None and fit.layer.heads == heads:
        errors = parameter_errors(fit.layer, truth)
        error = float(max(errors.theta.max(), errors.w.max(), errors.key_bias.max(), errors.bias))
    exact = fit.outcome is Outcome.EXACT
    found = exact and error <= NICE_ERROR
    return {"exact": exact, "error": error, "found": found, "queries": fit.examples_used, "seconds": seconds}


def measure_hard(case: str, rotated: bool, seed: int) -> dict[str, Any]:
    """One instance in its own or a random basis: the error of its function, queries, seconds of processor time."""
    instance = HARD[case]().instance(rng=seed)
    d = instance.layer.dim
    basis = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0] if rotated else np.eye(d)
    layer = AttentionLayer(*(basis.T @ part @ basis for part in (instance.layer.theta, instance.layer.w)))
    began = process_time()
    fit = ByQueries().fit(ValueOracle(layer, tokens=instance.inputs.tokens), rng=seed)
    seconds = process_time() - began
    x = instance.inputs.sample(_INPUTS, rng=[seed, 1])
    answers = instance.layer(x)
    error = float(np.abs(fit.predict(x @ basis) @ basis.T - answers).max() / np.abs(answers).max())
    exact, found = fit.outcome is Outcome.EXACT, fit.outcome.succeeded and error < HARD_ERROR
    return {"exact": exact, "error": error, "found": found, "queries": fit.examples_used, "seconds": seconds}


def _row(case: Mapping[str, Any], results: list[dict[str, Any]], targets: int) -> dict[str, Any]:
    """Queries and errors are those of the layers that were found."""
    found = [result for result in results if result["found"]]
    return {
        **case,
        "targets": targets,
        "successes": len(found),
        "exact": sum(result["exact"] for result in results),
        "queries": median(result["queries"] for result in found) if found else None,
        "most queries": max((result["queries"] for result in found), default=None),
        "worst error": max((result["error"] for result in found), default=None),
        "seconds": median(result["seconds"] for result in results) if results else None,
    }


def _reached(row: Mapping[str, Any]) -> bool:
    if "case" in row:
        return bool(row["successes"] >= HARD_SHARE * row["targets"])
    allowed = NICE[row["heads"], row["dim"]] or np.inf
    return row["successes"] == row["targets"] and bool(row["most queries"] <= allowed)


def _line(row: Mapping[str, Any]) -> str:
    if "case" in row:
        title = f"{row['case']}, {'rotated' if row['rotated'] else 'coordinates'}"
    else:
        title = f"{row['heads']} heads, d = {row['dim']}, {'with' if row['biased'] else 'no'} biases"
    forms = {"queries": "7.0f", "most queries": "7d", "worst error": "11.1e", "seconds": "8.2f"}
    numbers = ["-" if row[name] is None else format(row[name], form) for name, form in forms.items()]
    return "  ".join(
        [f"{title:<45}", f"{row['successes']:>2}/{row['targets']}", f"{row['exact']:5d}", *numbers]
    )
