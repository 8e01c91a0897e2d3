"""What a command imports: nothing that is slow and that it does not use."""

import json
import subprocess
import sys

import pytest

SLOW = (
    "torch",
    "scipy.optimize",
    "scipy.special",
    "scipy.stats",
    "sympy",
    "matplotlib",
    "networkx",
    "pandas",
    "fpylll",
)
LEARNERS = (
    "upper.newton",
    "upper.six_phase",
    "upper.value_queries",
    "lwe.attacks.lattice",
    "studies",
    "paper_checks",
)
# what a plain layer needs nothing of: hard families, samples, the engine of experiments, terminal tables, all of NumPy
NOT_OF_A_LAYER = (
    *("sq", "lwe", "runs", "upper", "arena.attacking"),
    *("scipy", "msgspec", "rich", "beartype", "pebble", "cloudpickle", "sqlite3", "multiprocessing"),
    *("array_api_compat.numpy", "numpy.f2py", "numpy.ma", "numpy.testing"),
)
CODE = """
import json, sys
from arena.cli.main import run
status = run(json.loads(sys.argv[1]))
print(json.dumps([status, [name for name in json.loads(sys.argv[2]) if name in sys.modules]]))
"""


@pytest.mark.parametrize(
    ("arguments", "unused"),
    [
        (["--help"], [*SLOW, *LEARNERS, "numpy"]),
        (["learners"], [*SLOW, *LEARNERS]),
        pytest.param(["families"], [*SLOW, *LEARNERS], marks=pytest.mark.slow),
        pytest.param(["attacks"], [*SLOW, "upper.newton"], marks=pytest.mark.slow),
        (["generate", "nice", "--dim", "6", "-o", "FILE"], [*SLOW, *LEARNERS, *NOT_OF_A_LAYER]),
        (["inspect", "FILE"], [*SLOW, *LEARNERS]),
        (["learn", "FILE", "--learner", "known-component"], SLOW),
        pytest.param(["estimate", "--help"], [*SLOW, *LEARNERS], marks=pytest.mark.slow),
    ],
)
def test_a_command_imports_only_what_it_uses(arguments, unused, file, tmp_path):
    place = tmp_path / "made.safetensors" if arguments[0] == "generate" else file
    given = [str(place) if one == "FILE" else one for one in arguments]
    program = [sys.executable, "-c", CODE, json.dumps(given), json.dumps(unused)]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == [0, []], done.stderr
