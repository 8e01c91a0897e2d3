"""Exhaustive search and meet in the middle on the same ternary secrets in one run: seconds of one core."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.report import machine, write_json
from lwe.attacks.attack import Attack
from lwe.attacks.exhaustive import ExhaustiveAttack
from lwe.attacks.meet_in_the_middle import MeetInTheMiddleAttack
from lwe.attacks.outcome import Budget
from lwe.distributions import TERNARY
from lwe.parameters import LWEParameters
from lwe.samples import LWRSamples, make_samples

__all__ = ["ENOUGH_TIMES", "run_searches", "searches_complaint"]

ENOUGH_TIMES = 2.0
"""The required speed-up of meet in the middle on ternary secrets of 20 entries with 16 levels or more."""

CASES = ((14, 64, 2), (20, 64, 2), (20, 64, 8), (20, 64, 16), (20, 251, 32))


def run_searches(
    out: Path | None = None, cases: Sequence[tuple[int, int, int]] = CASES
) -> list[dict[str, Any]]:
    """Time both attacks for each (n, q, p), up to the secret and through all candidates; print a table.

    For the run through all candidates the labels are random, so no secret is found and neither attack stops early by
    luck. This run decides the case.
    """
    attacks: dict[str, Attack] = {"exhaustive": ExhaustiveAttack(), "meet": MeetInTheMiddleAttack()}
    print("n   q    p   join   to a secret: exhaustive  meet   through all: exhaustive  meet     times")
    rows = []
    with threadpool_limits(1):
        for n, q, p in cases:
            parameters = LWEParameters(n=n, q=q, p=p, matrix="uniform", Xs=TERNARY)
            samples, _ = make_samples(parameters, 2000, rng=[n, q, p])
            random = np.random.default_rng([n, q, p, 1]).integers(p, size=len(samples))
            row: dict[str, Any] = {"n": n, "q": q, "p": p}
            for name, attack in attacks.items():
                for kind, given in (("found", samples), ("all", LWRSamples(samples.public, random))):
                    began = time.process_time()
                    result = attack(given, parameters, rng=0, budget=Budget(seconds=None))
                    seconds = time.process_time() - began
                    wanted = "BROKEN" if kind == "found" else "NOTHING"
                    if result.outcome.name != wanted:
                        raise RuntimeError(f"{name} on {parameters}: {result}")
                    row[f"{name} {kind}"] = seconds
                    row["join"] = result.details.get("join")
            row["times"] = row["exhaustive all"] / row["meet all"]
            rows.append(row)
            print(
                f"{n:<3} {q:<4} {p:<3} {row['join']:<6} {row['exhaustive found']:23.3f} {row['meet found']:6.3f} "
                f"{row['exhaustive all']:24.3f} {row['meet all']:6.3f} {row['times']:8.1f}",
                flush=True,
            )
    write_json(out, {**machine(), "rows": rows})
    return rows


def searches_complaint(rows: list[dict[str, Any]]) -> str:
    """Sentences on missed goals for the times on secrets of 20 entries; empty if all goals are met."""
    return " ".join(
        f"With q = {row['q']} and p = {row['p']}, meet in the middle is {row['times']:.1f} times as fast as exhaustive "
        f"search on 20 entries: at least {ENOUGH_TIMES:g} times is wanted."
        for row in rows
        if row["n"] == 20 and row["p"] >= 16 and row["times"] < ENOUGH_TIMES
    )
