"""Full enumeration of hidden parts by the fast Walsh-Hadamard transform: seconds and memory, one core."""

import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.report import machine, write_json
from lower.walsh import walsh_hadamard
from sq.gram import closed_form_gram, enumerated_gram
from sq.parities import ParityFamily

__all__ = ["ENOUGH_SECONDS", "run_walsh"]

ENOUGH_SECONDS = 20.0
"""The limits for enumerating a whole family at 22 input bits on one core."""

CASES = ((8, 2), (10, 2), (11, 1), (11, 2), (11, 3), (12, 1))


def run_walsh(out: Path | None = None) -> list[dict[str, Any]]:
    """Time the Gram matrix of whole parity families by full enumeration, beside the transform alone; print a table.

    Memory is the peak of the process so far, so it belongs to a case only if it rises there.
    """
    print("d  l  bits  targets  seconds  a target  a transform  MiB so far  off the closed form")
    rows = []
    with threadpool_limits(1):
        for dim, bits in CASES:
            family = ParityFamily(dim=dim, bits=bits)
            values = np.random.default_rng(0).standard_normal(1 << (2 * dim))
            began = time.perf_counter()
            walsh_hadamard(values)
            transform = time.perf_counter() - began
            del values
            began = time.perf_counter()
            gram = enumerated_gram(family)
            seconds = time.perf_counter() - began
            row = {
                "d": dim,
                "l": bits,
                "input bits": 2 * dim,
                "targets": len(gram),
                "seconds": seconds,
                "seconds a target": seconds / len(gram),
                "seconds a transform": transform,
                "MiB so far": _peak(),
                "largest difference from the closed form": float(
                    np.abs(gram.matrix - closed_form_gram(family).matrix).max()
                ),
            }
            rows.append(row)
            print(
                f"{dim:<2} {bits}  {2 * dim:<4}  {len(gram):<7}  {seconds:7.2f}  {seconds / len(gram):8.3f}  "
                f"{transform:11.3f}  {row['MiB so far']:10.0f}  "
                f"{row['largest difference from the closed form']:.1e}",
                flush=True,
            )
    write_json(out, {**machine(), "rows": rows})
    return rows


def _peak() -> float:
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest / (2**20 if sys.platform == "darwin" else 2**10)
