"""What every command that makes a target shares: where it is written, and what is said of it."""

from pathlib import Path
from typing import Annotated

import typer

from arena.cli.console import print_json, require_layer_file, require_writable, say, target_json
from arena.targets import Target, save_target

__all__ = ["OutOption", "write_target"]


def _writable(out: Path) -> Path:
    require_layer_file(out)
    require_writable(out)
    return out


# held to what can be written before the target is made, which may take long
OutOption = Annotated[
    Path, typer.Option("-o", "--out", help="The safetensors file to write.", callback=_writable)
]


def write_target(target: Target, out: Path, as_json: bool) -> None:
    """Write the target and say so, to people or as JSON.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    save_target(out, target)
    say(f"{out}: {target.record.title}.", quiet=as_json)
    if as_json:
        print_json(target_json(out, target))
