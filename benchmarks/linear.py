"""Linear attention by shared, symmetric normal equations, beside plain least squares; and the memory of d = 24."""

import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from scipy.linalg import lstsq
from threadpoolctl import threadpool_limits

from benchmarks.report import Json, end_with, write_json
from runs import versions
from upper.linear_attention import cubic_features, feature_count, make_linear_attention, regress

ENOUGH_SECONDS = 4.0
"""The largest allowed time for d = 16 at N = 2 D on two cores."""
ENOUGH_BYTES = 2 << 30
"""The largest allowed memory for d = 24 at N = 2 D, for the whole process with its libraries and examples."""

_DIMS, _LARGE_DIM = (8, 12, 16), 24
_TOKENS = 10
_LARGE = """
import resource, sys, time
import numpy as np
from threadpoolctl import threadpool_limits
from upper.linear_attention import feature_count, make_linear_attention, regress
d, threads = int(sys.argv[1]), int(sys.argv[2])
n = 2 * feature_count(d)
x = np.random.default_rng(0).standard_normal((n, 10, d))
model = make_linear_attention(heads=4, dim=d, rng=1)
y = model(x)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.perf_counter()
with threadpool_limits(threads):
    found = regress(x, y)
took = time.perf_counter() - began
fresh = np.random.default_rng(2).standard_normal((200, 10, d))
error = float(np.linalg.norm(found(fresh) - model(fresh)) / np.linalg.norm(model(fresh)))
print(took, before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, error)
"""


def run_linear(turns: int = 3, threads: int = 2, out: Json = None) -> None:
    """Time the regression and its alternatives, in turn; measure the memory of a large regression.

    The median of the turns counts. `threads` are those of BLAS.
    """
    rows = []
    print(f"{threads} threads, N = 2 D, n = {_TOKENS}, medians of {turns} turns")
    print("  d     D      N  regress s  plain lstsq s  symmetric lstsq s  ratio to plain  error")
    with threadpool_limits(threads):
        for d in _DIMS:
            row = _measure(d, turns)
            rows.append(row)
            print(
                f"{d:3} {row['features']:5} {row['examples']:6}  {row['seconds']:9.3f}  {row['plain seconds']:13.3f}"
                f"  {row['symmetric seconds']:17.3f}  {row['ratio']:14.3f}  {row['error']:.1e}"
            )
    large = _measure_large(_LARGE_DIM, threads)
    print(
        f"d = {_LARGE_DIM}, D = {large['features']}, N = {large['examples']}: {large['seconds']:.1f} s, peak "
        f"{large['bytes'] / 2**30:.2f} GiB, error {large['error']:.1e}"
    )
    write_json(
        out, {"threads": threads, "turns": turns, "versions": versions(), "rows": rows, "large": large}
    )
    missed = [
        f"d = 16 took {row['seconds']:.1f} s: {ENOUGH_SECONDS:g} are allowed."
        for row in rows
        if row["d"] == 16 and row["seconds"] > ENOUGH_SECONDS
    ]
    if large["bytes"] > ENOUGH_BYTES:
        missed.append(
            f"d = {_LARGE_DIM} took {large['bytes'] / 2**30:.2f} GiB: {ENOUGH_BYTES / 2**30:g} are allowed."
        )
    end_with(missed)


def _measure(d: int, turns: int) -> dict[str, Any]:
    features = feature_count(d)
    rng = np.random.default_rng(d)
    model = make_linear_attention(heads=d, dim=d, rng=rng)
    x, fresh = (rng.standard_normal((n, _TOKENS, d)) for n in (2 * features, 500))
    y = model(x)
    ways: dict[str, Callable[[], Any]] = {
        "seconds": lambda: regress(x, y),
        "plain seconds": lambda: _plain(x, y),
        "symmetric seconds": lambda: lstsq(cubic_features(x), y, lapack_driver="gelsd"),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    # plain least squares on all d^3 products gets fewer turns, because it takes most of the time
    for turn in range(turns):
        for name, way in ways.items():
            if name != "seconds" and (turn > 0 and d > 12):
                continue
            began = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - began)
    found = regress(x, y)
    error = float(np.linalg.norm(found(fresh) - model(fresh)) / np.linalg.norm(model(fresh)))
    row: dict[str, Any] = {"d": d, "features": features, "examples": len(x), "error": error}
    row |= {name: median(taken) for name, taken in times.items()}
    return row | {"ratio": row["seconds"] / row["plain seconds"]}


def _plain(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Least squares on all d^3 products G_bc z_e, as in the paper."""
    gram = np.matmul(x.transpose(0, 2, 1), x)
    phi = np.einsum("nbc,ne->nbce", gram, x[:, -1]).reshape(len(x), -1)
    return np.asarray(lstsq(phi, y, lapack_driver="gelsd")[0])


def _measure_large(d: int, threads: int) -> dict[str, Any]:
    """Run in a separate process, so that the peak is that of this run only."""
    run = subprocess.run(
        [sys.executable, "-c", _LARGE, str(d), str(threads)], check=True, capture_output=True, text=True
    )
    seconds, before, peak, error = map(float, run.stdout.split())
    unit = 1 if sys.platform == "darwin" else 1024
    features = feature_count(d)
    return {
        "d": d,
        "features": features,
        "examples": 2 * features,
        "seconds": seconds,
        "bytes before": before * unit,
        "bytes": peak * unit,
        "error": error,
    }
