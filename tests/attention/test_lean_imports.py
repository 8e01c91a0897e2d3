"""Importing a package loads none of the heavy libraries that only some of its functions need."""

import subprocess
import sys

PACKAGES = ["attention", "upper", "lower", "sq", "lwe", "paper_checks", "arena"]
HEAVY = ["torch", "matplotlib", "dask", "distributed", "fpylll"]


def test_importing_the_packages_imports_no_heavy_library():
    lines = [
        "import sys",
        *(f"import {one}; print([x for x in {HEAVY} if x in sys.modules])" for one in PACKAGES),
    ]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[]"] * len(PACKAGES)
