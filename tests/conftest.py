"""Shapes in annotations are enforced at run time here, and only here; and every process computes in one thread."""

import os

import jaxtyping
import pytest
from threadpoolctl import threadpool_limits

# there are as many processes as cores: more threads would only wait for one another
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
threadpool_limits(limits=1)  # of libraries that are loaded already

PACKAGES = ["attention", "upper", "lower", "sq", "lwe", "paper_checks", "arena"]
# importlib-style collection may import a package before this file's imports below it: the hook comes first
jaxtyping.install_import_hook(PACKAGES, "beartype.beartype")


@pytest.fixture(autouse=True)
def _shape_checks_step_aside(request):
    """Let wrong input reach the library's own errors in tests marked ``bad_input``."""
    if request.node.get_closest_marker("bad_input") is None:
        yield
        return
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
