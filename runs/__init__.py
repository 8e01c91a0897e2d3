"""The experiment engine: it computes cells in parallel, here or on a cluster, and stores each result.

A cell is a function and its arguments as JSON. `run` yields a result for each cell. With a `Store`, a result is stored
before it is yielded, and no cell is computed twice. The package does not depend on attention.
"""

from runs.cell import Cell, Result, Scale, Status, single_thread, versions
from runs.engine import run
from runs.fingerprint import fingerprint
from runs.progress import showing
from runs.store import Store, StoreError

__all__ = [
    "Cell",
    "Result",
    "Scale",
    "Status",
    "Store",
    "StoreError",
    "fingerprint",
    "run",
    "showing",
    "single_thread",
    "versions",
]
