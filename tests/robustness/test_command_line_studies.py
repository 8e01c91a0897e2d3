"""Every option of the commands that compute and keep many cells, with hostile values: an answer, or one sentence."""

import pytest
import typer
from command_calls import COMMAND
from command_files import in_this_process, write_files
from command_law import vary
from report import COUNTS

NAMES = ["compare", "runs", "check", "study", "curves sq", "curves lwr"]

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


@pytest.mark.parametrize(
    "name",
    [name if name in ("runs", "check") else pytest.param(name, marks=pytest.mark.slow) for name in NAMES],
)
def test_options_answer_or_refuse(name, files, tmp_path, request):
    cases = max(2, request.config.getoption("--fuzz-cases") // 20)
    counts, violations = vary(name, files, tmp_path / "case" / "here", cases)
    request.config.stash[COUNTS][f"attention-bounds {name}"] = counts
    if violations:
        pytest.fail("\n".join(violations.values()), pytrace=False)
