"""The experiment engine: cells computed in parallel, here or on a cluster, kept as they are done, none computed twice.

A cell is a function and its arguments as JSON. `run` yields a result for each; with a `Store` it is kept before it is
shown. The package knows nothing of attention.
"""

from runs.cell import Cell, Result, Scale, Status, versions
from runs.engine import run
from runs.store import Store, StoreError
from runs.threads import single_thread

__all__ = ["Cell", "Result", "Scale", "Status", "Store", "StoreError", "run", "single_thread", "versions"]
