"""Linearisation over GF(2) beside plain elimination of bytes: seconds and ratios of one run, one core."""

import importlib
import importlib.util
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.report import machine, write_json
from lower.gf2 import solve_packed_gf2, unpack_gf2
from lwe.attacks.linearisation import LinearisationAttack, label_monomials
from lwe.attacks.outcome import Budget
from lwe.parameters import LWEParameters
from lwe.samples import make_samples

__all__ = ["run_linearisation"]

CASES = (
    LWEParameters(32, q=4, p=2),
    LWEParameters(64, q=4, p=2),
    LWEParameters(20, q=8, p=2),
    LWEParameters(20, q=8, p=2, matrix="gadget"),
    LWEParameters(8, q=16, p=2, matrix="gadget"),
)

_SURPLUS = 100


def run_linearisation(out: Path | None = None) -> list[dict[str, Any]]:
    """Time the whole attack, its elimination alone, and the same elimination on bytes; print a table.

    The elimination on bytes is the row reduction of the `galois` package if installed. Otherwise it is a plain one in
    NumPy, one pivot at a time on an array of booleans. It is left out if it would take minutes.
    """
    name, plain, largest = _plain_elimination()
    print(f"unknowns  equations  attack  elimination  {name}  ratio  accuracy  of what")
    rows = []
    with threadpool_limits(1):
        for parameters in CASES:
            monomials = label_monomials(parameters, parameters.q // parameters.p)
            unknowns = monomials.size
            samples, secret = make_samples(parameters, unknowns + unknowns // 50 + 1100, rng=0)
            result = LinearisationAttack()(samples, parameters, rng=1, budget=Budget(seconds=None))
            part = samples.take(unknowns + _SURPLUS)
            system = monomials.rows(part.public, part.labels == 1)
            packed = _seconds(partial(solve_packed_gf2, system, unknowns))
            bits = unpack_gf2(system, unknowns + 1) if unknowns <= largest else None
            bytewise = None if bits is None else _seconds(partial(plain, bits), turns=1)
            row = {
                "parameters": str(parameters),
                "unknowns": unknowns,
                "equations": len(part),
                "seconds of the attack": result.seconds,
                "seconds of the elimination": packed,
                f"seconds of {name}": bytewise,
                "ratio": None if bytewise is None else bytewise / packed,
                "accuracy": result.accuracy,
                "secret found": bool(result.secret is not None and np.array_equal(result.secret, secret)),
            }
            rows.append(row)
            beside = ("-", "-") if bytewise is None else (f"{bytewise:.2f}", f"{bytewise / packed:.0f}")
            print(
                f"{unknowns:<8}  {len(part):<9}  {result.seconds:6.2f}  {packed:11.3f}  {beside[0]:>{len(name)}}  "
                f"{beside[1]:>5}  {result.accuracy:<8}  {parameters}",
                flush=True,
            )
    write_json(out, {**machine(), "rows": rows})
    return rows


def _seconds(work: Callable[[], object], turns: int = 3) -> float:
    """The least time of several runs."""
    times = []
    for _ in range(turns):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def _plain_elimination() -> tuple[str, Callable[[np.ndarray], object], int]:
    """The name of the elimination, its function, and the most unknowns that it handles in less than a minute."""
    if importlib.util.find_spec("galois") is None:
        return "NumPy bytes", _eliminate_booleans, 7000
    field = importlib.import_module("galois").GF(2)
    field(np.eye(2, dtype=np.uint8)).row_reduce()  # compiles
    return "galois", lambda bits: field(bits.astype(np.uint8)).row_reduce(), 2500


def _eliminate_booleans(bits: np.ndarray) -> np.ndarray:
    work, rank = bits.copy(), 0
    for column in range(work.shape[1] - 1):
        ones = np.flatnonzero(work[rank:, column])
        if not len(ones):
            continue
        pivot = rank + int(ones[0])
        work[[rank, pivot]] = work[[pivot, rank]]
        below = rank + ones[1:]
        work[below, column:] ^= work[rank, column:]
        rank += 1
        if rank == len(work):
            break
    return work
