"""Every hard family by value queries: in coordinates and in random bases, with its secret."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from attention import AttentionLayer, Fit, Outcome, ValueOracle
from benchmarks.report import show_table, write_json
from lower import Family, HardInstance
from lwe.distributions import parse_distribution
from lwe.families import LWRFamily
from runs import Cell, Store, run, versions
from sq.hidden_gate import HiddenGateFamily
from sq.pairs import PairFamily
from sq.parities import ParityFamily
from sq.profile_family import ProfileFamily
from sq.token_parity import TokenParityFamily
from upper import ByQueries

__all__ = [
    "CASES",
    "FIRST_SEED",
    "NEEDED",
    "SMALL",
    "fit_in_basis",
    "hard_queries_complaint",
    "measure",
    "names_secret",
    "run_hard_queries",
]

FIRST_SEED = 1000
"""Seeds from here on were never used to develop the learner."""
NEEDED = 0.95
"""The required share of instances whose function and secret are found."""
_ERROR = 1e-8
_INPUTS = 2000


def _sets(d: int, *minimal: tuple[int, int]) -> dict[str, Callable[[], Family]]:
    """The families of sets in d coordinates; `minimal` are coordinates and heads of parities of construction D."""
    return {
        f"parity A, d = {d}": partial(ParityFamily, dim=d, bits=2, construction="A"),
        f"parity B, d = {d}": partial(ParityFamily, dim=d, bits=3, construction="B"),
        f"parity C, d = {d}": partial(ParityFamily, dim=d, bits=3, construction="C"),
        **{
            f"parity D, {heads} heads, d = {size}": partial(
                ParityFamily, dim=size, heads_count=heads, construction="D"
            )
            for size, heads in minimal
        },
        f"two slopes, d = {d}": partial(ProfileFamily.two_slope, dim=d, bits=8),
        f"bump, d = {d}": partial(ProfileFamily.bump, dim=d, bits=8),
        f"designed steps, d = {d}": partial(ProfileFamily.designed_steps, dim=d, bits=6, heads_count=4),
        f"centre thresholds, d = {d}": partial(ProfileFamily.centre_threshold, dim=d, bits=8, heads_count=4),
        f"pair, d = {d}": partial(PairFamily, dim=d),
        f"hidden gate, d = {d}": lambda: HiddenGateFamily(base=ParityFamily(dim=d, bits=3)),
        f"token parity, 3 tokens, d = {d}": partial(TokenParityFamily, dim=d, tokens=3, bits=2),
        f"token parity, 2 tokens, d = {d}": partial(TokenParityFamily, dim=d, tokens=2, bits=3),
    }


def _rounding(n: int, matrix: str = "binary", law: str = "uniform", modulus: int = 8) -> Callable[[], Family]:
    return partial(LWRFamily, n=n, q=modulus, p=2, matrix=matrix, Xs=parse_distribution(law))  # type: ignore[arg-type]


SMALL: dict[str, Callable[[], Family]] = {
    **_sets(14, (14, 2), (14, 3)),
    "rounding, n = 10": _rounding(10, law="binary"),
    "gadget rounding, n = 3": _rounding(3, matrix="gadget"),
}
"""Every hard family, in sizes for a test."""
CASES: dict[str, Callable[[], Family]] = {
    **_sets(32, (48, 2), (48, 3), (48, 4)),
    "rounding, n = 24": _rounding(24, law="binary"),
    "rounding, n = 24, q = 64": _rounding(24, modulus=64),
    "ternary rounding, n = 24": _rounding(24, matrix="ternary", law="binary"),
    "gadget rounding, n = 8, q = 16": _rounding(8, matrix="gadget", modulus=16),
}
"""Every hard family, in the sizes of the quoted figures."""


def run_hard_queries(
    seeds: int = 20,
    jobs: int = 1,
    store: Path | None = None,
    out: Path | None = None,
    *,
    cases: tuple[str, ...] = tuple(CASES),
) -> list[dict[str, Any]]:
    """Learn instances of every family from value queries, in coordinates and in random bases; print and write a table.

    A success is a function that is right to 1e-8 on Boolean inputs, rotated with the instance, and the right secret.
    With a store, cells that are there are not computed again.
    """
    cells = [
        Cell(measure, {"case": case, "seed": FIRST_SEED + seed, "rotated": rotated})
        for seed in range(seeds)
        for case in cases
        for rotated in (False, True)
    ]
    kept = None if store is None else Store(store)
    results = list(run(cells, jobs=jobs, timeout=600, store=kept, isolated=True))
    found: dict[tuple[str, bool], list[dict[str, Any]]] = {
        (case, rotated): [] for case in cases for rotated in (False, True)
    }
    for result in results:
        given = dict(result.cell.arguments)
        value = result.value or {"outcome": result.status, "right": False, "named": False}
        found[given["case"], given["rotated"]].append(given | value)
    rows = [_row(case, rotated, every) for (case, rotated), every in found.items()]
    _show(rows)
    write_json(out, {"error": _ERROR, "versions": versions(), "rows": rows})
    return rows


def hard_queries_complaint(rows: list[dict[str, Any]]) -> str:
    """A sentence for each family with fewer successes than required; empty if there is none."""
    return "\n".join(
        f"{row['case']}, {row['basis']}: {row['successes']} of {row['targets']} found; {NEEDED:.0%} are wanted."
        for row in rows
        if row["successes"] < NEEDED * row["targets"]
    )


def measure(case: str, seed: int, rotated: bool) -> dict[str, Any]:
    """One instance: the error of its function, whether its secret is named, queries and seconds of processor time."""
    instance = (CASES | SMALL)[case]().instance(rng=seed)
    began = time.process_time()
    fit, found = fit_in_basis(instance, seed, rotated)
    seconds = time.process_time() - began
    error, named = None, False
    if fit.outcome.succeeded:
        x = instance.inputs.sample(_INPUTS, rng=[seed, 1])
        answers = instance.layer(x)
        error = float(np.abs(found(x) - answers).max() / np.abs(answers).max())
        named = names_secret(instance, found)
    return {
        "outcome": fit.outcome.name,
        "exact": fit.outcome is Outcome.EXACT,
        "error": error,
        "right": error is not None and error < _ERROR,
        "named": named,
        "queries": fit.examples_used,
        "heads": instance.layer.heads,
        "found heads": found.heads if fit.outcome.succeeded else 0,
        "seconds": seconds,
    }


def fit_in_basis(instance: HardInstance, seed: int, rotated: bool) -> tuple[Fit, Any]:
    """The fit of a layer in a random basis or its own, and what was found, in its own."""
    d = instance.layer.dim
    basis = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0] if rotated else np.eye(d)
    layer = AttentionLayer(*(basis.T @ part @ basis for part in (instance.layer.theta, instance.layer.w)))
    fit = ByQueries().fit(ValueOracle(layer, tokens=instance.inputs.tokens), rng=seed)
    found: Any = fit.predict
    if fit.outcome.succeeded:
        found = AttentionLayer(*(basis @ part @ basis.T for part in (found.theta, found.w)))
    return fit, found


def names_secret(instance: HardInstance, found: AttentionLayer) -> bool:
    """Whether the secret can be read off the layer."""
    if instance.family.name != "lwr":
        return _named_set(instance, found) == np.asarray(instance.secret).tolist()
    named, q = _named_rounding(instance, found), instance.family.q
    secret = np.atleast_1d(instance.secret)
    return named is not None and np.array_equal(
        named, np.outer(secret, 2 ** np.arange(len(named) // len(secret))).ravel() % q
    )


def _named_set(instance: HardInstance, found: AttentionLayer) -> list[int]:
    """The secret coordinates: where some Theta_i is not zero, other than the gate, which is where W_i is not."""
    gate = int(np.argmax(np.linalg.norm(found.w, axis=(0, 2))))
    entries = np.abs(found.theta).max(axis=0)
    rows, columns = np.nonzero(entries > 1e-6 * entries.max())
    named = {*rows.tolist(), *columns.tolist()} - {gate}
    if instance.family.name == "sq-token-parity":
        named -= {1}
    return [gate, *sorted(named)] if instance.family.name == "sq-hidden-gate" else sorted(named)


def _named_rounding(instance: HardInstance, found: AttentionLayer) -> Int[np.ndarray, " n"] | None:
    """The centred secret of a rounding: its form over the slope, in the sign of which labels agree."""
    size = {name: instance.parameters[name] for name in ("q", "p", "beta", "matrix")}
    heads = found.theta[np.abs(found.theta).max(axis=(1, 2)) > 1]
    if not len(heads):
        return None
    ternary = size["matrix"] == "ternary"
    form = np.rint((heads[0][0] if ternary else np.diag(heads[0]))[1:] / size["beta"])
    x = instance.inputs.sample(200, rng=0)
    gate = x[:, 0, 0] != x[:, 1, 0]
    told = found(x)[gate, 0, 0] * x[gate, 0, 0] + (size["p"] - 1) / 2
    for sign in (1, -1):
        total = _covariates(x[gate], ternary) @ (sign * form) % size["q"]
        if np.allclose(np.floor(size["p"] * total / size["q"]), told):
            return sign * form % size["q"]
    return None


def _covariates(x: Float[np.ndarray, "n 2 d"], ternary: bool) -> Float[np.ndarray, "n entries"]:
    if ternary:
        return x[:, 0, :1] * (x[:, 0, 1:] - x[:, 1, 1:]) / 2
    return (x[:, 0, 1:] != x[:, 1, 1:]).astype(float)


def _row(case: str, rotated: bool, every: list[dict[str, Any]]) -> dict[str, Any]:
    done = [one for one in every if "queries" in one]
    queries = [one["queries"] for one in done if one["right"]]
    return {
        "case": case,
        "basis": "rotated" if rotated else "coordinates",
        "targets": len(every),
        "successes": sum(one["right"] and one["named"] for one in every),
        "right": sum(one["right"] for one in every),
        "exact": sum(one["exact"] for one in done),
        "heads differ": sum(one["heads"] != one["found heads"] for one in done if one["right"]),
        "queries": median(queries) if queries else None,
        "most queries": max(queries, default=None),
        "worst error": max((one["error"] for one in done if one["right"]), default=None),
        "seconds": median([one["seconds"] for one in done]) if done else None,
        "failed seeds": [one["seed"] for one in every if not (one["right"] and one["named"])],
    }


def _show(rows: list[dict[str, Any]]) -> None:
    def shown(value: Any, form: str) -> str:
        return "-" if value is None else format(value, form)

    show_table(
        "Hard families by value queries; one thread",
        ("<family", "<basis", "found", "exact", "queries", "most", "worst error", "median s"),
        [
            (
                row["case"],
                row["basis"],
                f"{row['successes']}/{row['targets']}",
                str(row["exact"]),
                shown(row["queries"], ".0f"),
                shown(row["most queries"], "d"),
                shown(row["worst error"], ".1e"),
                shown(row["seconds"], ".1f"),
            )
            for row in rows
        ],
        width=120,
    )
