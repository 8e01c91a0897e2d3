"""Options of a command are those of the signature it calls: name, type, default, bounds and help."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
import typer

from arena.cli.options import takes
from attention.validation import NonNegativeFloat, PositiveInt


def work(
    source: Path,
    *,
    heads: PositiveInt | Literal["auto"] | None = None,
    share: NonNegativeFloat = 0.5,
    law: Literal["uniform", "binary"] = "uniform",
    biases: bool | None = None,
    fresh: bool = False,
    on_step: Callable[[str], None] | None = None,
) -> None:
    """Work.

    Parameters
    ----------
    source : path
        No option.
    heads : int or "auto"
        Heads to `fit`, which
        take two lines.
    share, law : float, str
        Of both.
    """


@dataclass(frozen=True)
class Group:
    """Parameters of several commands.

    Parameters
    ----------
    jobs : int
        Processes.
    """

    jobs: PositiveInt = 1


@pytest.fixture
def called():
    """Call a command with words; what it gets."""
    got = []
    app = typer.Typer(rich_markup_mode=None)

    @app.command()
    @takes(work, without=("law",), flags={"share": "--part"})
    def command(source: Path, *, group: Group, **settings: Any) -> None:
        got.append((group, settings))

    made = typer.main.get_command(app)

    def call(words):
        made.main(["x", *words.split()], standalone_mode=False)
        return got[-1]

    call.help = {one.opts[-1]: getattr(one, "help", "") for one in made.params}
    return call


def test_name_default_and_help_are_those_of_the_signature(called):
    usual = {"heads": None, "share": 0.5, "biases": None, "fresh": False}
    assert called("") == (Group(), usual)
    words = "--heads 3 --part 0.25 --no-biases --fresh --jobs 2"
    assert called(words) == (Group(2), {"heads": 3, "share": 0.25, "biases": False, "fresh": True})
    assert called("--heads auto")[1]["heads"] == "auto"
    wanted = {"--heads": "Heads to fit, which take two lines.", "--part": "Of both.", "--jobs": "Processes."}
    assert wanted.items() <= called.help.items()
    assert not {"--law", "--on-step"} & set(called.help)


@pytest.mark.bad_input
@pytest.mark.parametrize("words", ["--heads 0", "--heads many", "--part -1", "--part nan", "--jobs 0"])
def test_a_value_out_of_the_bounds_of_the_annotation_is_refused_by_the_name_of_its_option(called, words):
    with pytest.raises(ValueError, match=f"^{words.split()[0]} is .* is needed"):
        called(words)
