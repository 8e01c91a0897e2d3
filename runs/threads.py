"""One thread for linear algebra, because a different order of summation changes the last digits."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec

from threadpoolctl import threadpool_limits

__all__ = ["single_thread"]


@contextmanager
def single_thread(*, torch: bool = False) -> Iterator[None]:
    """Within this context BLAS and OpenMP use one thread; so does torch if it is loaded, or requested and installed."""
    with ExitStack() as limits:
        if "torch" in sys.modules or (torch and find_spec("torch") is not None):
            import torch as pytorch

            limits.callback(pytorch.set_num_threads, pytorch.get_num_threads())
            pytorch.set_num_threads(1)
        limits.enter_context(threadpool_limits(limits=1))
        yield
