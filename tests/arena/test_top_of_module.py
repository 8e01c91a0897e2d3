"""A module that defines a learner and compares at its top works however it is run, and no process imports it again."""

import os
import signal
import subprocess
import sys

import pytest

MODULE = """
import arena
from upper import KnownPart

class Mine(KnownPart):
    pass

target = arena.nice_target(heads=1, tokens=2, dim=4)
table = arena.compare([target], Mine(){options})
print([(cell.learner, cell.status) for cell in table.cells])
"""
DONE = "[('mine', 'done')]\n"


@pytest.fixture
def run(tmp_path):
    """A program run in its folder, and what it printed; killed with all it started after a minute."""

    def call(*arguments, **given):
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        try:
            out, error = process.communicate(timeout=60, **given)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, error = process.communicate()
            raise AssertionError(f"it did not end: {out} {error[-1000:]}") from None
        assert process.returncode == 0, error
        return out

    return call


@pytest.fixture
def module(tmp_path):
    (tmp_path / "mine.py").write_text(MODULE.format(options=""))


@pytest.mark.parametrize(
    "arguments", [["mine.py"], ["-c", "import mine"], pytest.param(["-m", "mine"], marks=pytest.mark.slow)]
)
def test_it_is_run_imported_or_named(module, run, arguments):
    assert run(*arguments) == DONE


def test_it_is_typed_at_a_prompt(run):
    assert run("-i", "-q", input=MODULE.format(options="").replace("pass\n", "pass\n\n")) == DONE


@pytest.mark.slow
@pytest.mark.parametrize("options", [", isolated=False, jobs=2", ", store='runs.sqlite', jobs=2"])
def test_whatever_runs_the_cells(tmp_path, run, options):
    (tmp_path / "mine.py").write_text(MODULE.format(options=options))
    assert run("-c", "import mine") == DONE


@pytest.mark.slow
def test_its_learner_is_compared_again_by_who_imports_it(module, run):
    assert (
        run("-c", "import arena, mine; print(len(arena.compare([mine.target], mine.Mine()).cells))")
        == DONE + "1\n"
    )


@pytest.mark.slow
def test_it_is_a_module_of_a_package_that_imports_it(tmp_path, run):
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "__init__.py").write_text("from package.comparing import table\n")
    learner, comparison = MODULE.split("target = ")
    (folder / "learning.py").write_text(learner)
    (folder / "comparing.py").write_text(
        "import arena\nfrom package.learning import Mine\ntarget = " + comparison.format(options="")
    )
    assert run("-c", "import package") == DONE


def test_a_learner_whose_module_imports_it_fails_with_what_to_do(tmp_path, module, run):
    """A process must import the one to have the other: the comparison must not run again there."""
    (tmp_path / "other.py").write_text("from mine import Mine\n\nclass Other(Mine):\n    pass\n")
    program = "import arena, mine, other; print(arena.compare([mine.target], other.Other()).cells[0].message)"
    out = run("-c", program)
    assert out.startswith(DONE + "RuntimeError: ")
    assert '`if __name__ == "__main__":`' in out
