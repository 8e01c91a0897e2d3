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
    on_step: Callable[[str], None] | None = None,
) -> None:
    """Work.

    Parameters
    ----------
    heads : int or "auto"
        Heads to `fit`, which
        take two lines.
    share, law : float, str
        Of both.
    """


@dataclass(frozen=True)
class Group:
    """Parameters of several commands."""

    jobs: PositiveInt = 1


@pytest.mark.bad_input
def test_options_are_those_of_the_signature_and_hold_its_bounds():
    called, app = [], typer.Typer(rich_markup_mode=None)

    @app.command()
    @takes(work, without=("law",), flags={"share": "--part"})
    def command(source: Path, *, group: Group, **settings: Any) -> None:
        called.append((group, settings))

    made = typer.main.get_command(app)
    texts = {one.opts[-1]: getattr(one, "help", "") for one in made.params}
    wanted = {"--heads": "Heads to fit, which take two lines.", "--part": "Of both."}
    assert wanted.items() <= texts.items()
    assert not {"--law", "--on-step"} & set(texts)
    for words in ("", "--heads 3 --part 0.25 --no-biases --jobs 2", "--heads auto"):
        made.main(["x", *words.split()], standalone_mode=False)
    assert called == [
        (Group(), {"heads": None, "share": 0.5, "biases": None}),
        (Group(2), {"heads": 3, "share": 0.25, "biases": False}),
        (Group(), {"heads": "auto", "share": 0.5, "biases": None}),
    ]
    for words in ("--heads 0", "--heads many", "--part -1", "--part nan", "--jobs 0"):
        with pytest.raises(ValueError, match=f"^{words.split()[0]} is .* is needed"):
            made.main(["x", *words.split()], standalone_mode=False)
