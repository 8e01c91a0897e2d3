"""What a command imports: nothing that is slow and that it does not use."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SLOW = [
    *("torch", "scipy.optimize", "scipy.special", "scipy.stats", "sympy"),
    *("matplotlib", "networkx", "pandas", "fpylll"),
]
WORK = [
    "upper.newton",
    "upper.six_phase",
    "upper.value_queries",
    "lwe.attacks.lattice",
    "studies",
    "paper_checks",
]
# what a plain layer needs nothing of: hard families, samples, the engine of experiments, terminal tables, all of NumPy
NOT_OF_A_LAYER = [
    *("sq", "lwe", "runs", "upper", "arena.attacking"),
    *("scipy", "msgspec", "rich", "beartype", "pebble", "cloudpickle", "sqlite3", "multiprocessing"),
    *("array_api_compat.numpy", "numpy.f2py", "numpy.ma", "numpy.testing"),
]
COMMANDS = [
    ("--help", [*SLOW, *WORK, "numpy"]),
    ("learners", [*SLOW, *WORK]),
    ("families", [*SLOW, *WORK]),
    ("attacks", [*SLOW, "upper.newton"]),
    ("generate nice --dim 6 -o made.safetensors", [*SLOW, *WORK, *NOT_OF_A_LAYER]),
    ("inspect nice.safetensors", [*SLOW, *WORK]),
    ("learn nice.safetensors --learner known-component", SLOW),
    ("estimate --help", [*SLOW, *WORK]),
]
# each command in a copy of a process that has imported the command line alone
CODE = """
import json, os, sys
from arena.cli.main import run
for words, unused in json.loads(sys.argv[1]):
    if not os.fork():
        ended = [words, run(words.split()), [name for name in unused if name in sys.modules]]
        os.write(2, (json.dumps(ended) + "\\n").encode())
        os._exit(0)
    os.wait()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows copies no process")
def test_a_command_imports_only_what_it_uses(file):
    program = [sys.executable, "-c", CODE, json.dumps(COMMANDS)]
    done = subprocess.run(program, cwd=file.parent, capture_output=True, text=True, check=True)
    assert [json.loads(line) for line in done.stderr.splitlines()] == [
        [words, 0, []] for words, _ in COMMANDS
    ]


def test_help_and_completion_import_no_command_and_every_public_name_is_found():
    asked = (
        "import sys\nfrom arena.cli.main import app, run\nimport typer\n"
        "group = typer.main.get_command(app)\n"
        "found = group.shell_complete(group.make_context('attention-bounds', [], resilient_parsing=True), 'at')\n"
        "assert [one.value for one in found] == ['attack', 'attacks'] and found[0].help.endswith('errors.')\n"
        "assert run(['--help']) == run(['--version']) == 0\n"
        "heavy = 'numpy', 'scipy', 'pandas', 'torch', 'matplotlib', 'rich'\n"
        "assert not [name for name in heavy if name in sys.modules]\n"
        "import arena, attention, lower, lwe, paper_checks, sq, upper\n"
        "assert all(hasattr(arena, name) for name in arena.__all__)\n"
        "later = 'pandas', 'torch', 'matplotlib', 'dask', 'distributed', 'fpylll', 'jinja2'\n"
        "assert not [name for name in later if name in sys.modules]\n"
    )
    subprocess.run([sys.executable, "-c", asked], check=True, cwd=ROOT, capture_output=True)


def test_the_installed_command_runs():
    program = Path(sys.executable).with_name("attention-bounds")
    if not program.exists():
        pytest.skip("the package is not installed with its command")
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("attention-bounds ")
