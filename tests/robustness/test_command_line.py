"""The calls of the command line that are varied work as they stand, leave no command out, and their law is a law.

Commands and their options are read from the command line itself, so that a new option is tried without being listed;
only a cheap valid call of each command is written down. `test_command_line_*` give one or two options other values.
"""

import contextlib
import shutil
import sys
from pathlib import Path

import command_law
import pytest
import test_command_line_learning
import test_command_line_studies
import test_command_line_targets
import typer
from command_calls import BASES, COMMAND, COMMANDS, MORE_BASES, tokens_of
from command_files import in_this_process, write_files
from command_law import complaint_of
from command_values import KNOWN

from arena import ATTACKS, STUDENTS
from arena.cli.main import run
from arena.studies.registry import STUDIES

pytestmark = pytest.mark.bad_input


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("files"))


@pytest.fixture(autouse=True)
def _quick_start(monkeypatch):
    """The tree of commands is built once, and not for every call."""
    monkeypatch.setattr(typer.main, "get_command", lambda _: COMMAND)
    with in_this_process():
        yield


@pytest.mark.parametrize("name", [name for name in BASES if name != "linear experiment"])
def test_what_is_varied_works_as_it_stands(name, files, tmp_path, capsys):
    for given_values in [BASES[name], *MORE_BASES.get(name, [])]:
        folder = tmp_path / "here"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(files, folder)
        by_name = {one.name: one for one in COMMANDS[name]}
        order = sorted(given_values, key=lambda one: not by_name[one].options)
        words = [word for one in order for word in tokens_of(by_name[one], given_values[one])]
        with contextlib.chdir(folder):
            assert run([*name.split(), *words]) == 0, capsys.readouterr()


def test_every_command_has_a_call_that_is_varied():
    assert set(BASES) == set(COMMANDS)
    for name, parameters in COMMANDS.items():
        named = {one for base in [BASES[name], *MORE_BASES.get(name, [])] for one in base}
        assert named <= {one.name for one in parameters}
    parts = (test_command_line_learning, test_command_line_studies, test_command_line_targets)
    assert sorted(name for part in parts for name in part.NAMES) == sorted(COMMANDS)


def test_lists_of_words_hold_what_there_is():
    assert set(KNOWN["learner"][:3]) <= set(STUDENTS)
    assert {"exhaustive", "elimination"} <= set(ATTACKS)
    assert "agreement" in STUDIES


def test_the_law_is_broken_by_what_breaks_it(tmp_path, monkeypatch):
    here = tmp_path / "outer" / "here"
    here.mkdir(parents=True)

    def tried(does):
        monkeypatch.setattr(command_law, "run", does)
        return complaint_of(["x", "--json"], [], here)[1]

    def complain(text):
        sys.stderr.write(text)
        return 2

    assert "raised ZeroDivisionError" in tried(lambda words: 1 // 0)
    assert "exit status is 3" in tried(lambda words: 3)
    assert "not one line" in tried(lambda words: complain("Traceback:\n  here\n"))
    assert "full stop" in tried(lambda words: complain("attention-bounds: no\n"))
    assert "alone" in tried(lambda words: print("{} words") or 0)
    assert "outside" in tried(lambda words: Path("../stray").touch() or 0)
    assert not tried(lambda words: print("{}") or 0)
