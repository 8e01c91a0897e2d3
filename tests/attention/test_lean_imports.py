"""Importing a package loads none of the heavy libraries that only some of its functions need."""

import subprocess
import sys

import pytest

PACKAGES = ["attention", "upper", "lower", "sq", "lwe", "paper_checks", "arena"]
HEAVY = ["torch", "matplotlib", "dask", "distributed", "fpylll"]


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_package_imports_no_heavy_library(package):
    script = f"import sys, {package}; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
