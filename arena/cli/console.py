"""Shared by all commands: options, JSON on standard output, what work is doing, files."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from arena.formats import as_plain
from attention.files import write_whole
from attention.foreign import json_text, printable
from attention.validation import PositiveInt, count

if TYPE_CHECKING:
    from arena.targets import Target

__all__ = [
    "FolderOption",
    "InputsOption",
    "JsonOption",
    "OutOption",
    "RunOptions",
    "SeedOption",
    "TimeoutOption",
    "TokensOption",
    "print_json",
    "require_counts",
    "require_layer_file",
    "require_writable",
    "say",
    "showing_steps",
    "write_json",
    "write_target",
]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.")]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of every random choice.")]
FolderOption = Annotated[Path, typer.Option("--out", "-o", help="Folder for tables, figures and the store.")]
TimeoutOption = Annotated[float | None, typer.Option(help="Seconds a cell may take; by default no limit.")]
TokensOption = Annotated[int | None, typer.Option(help="Number k of tokens, instead of the file's.")]
InputsOption = Annotated[
    Literal["boolean", "gaussian", "sphere"] | None,
    typer.Option(help="Distribution of the tokens, instead of the file's."),
]


@dataclass(frozen=True)
class RunOptions:
    """The options of every command that computes cells.

    Parameters
    ----------
    jobs : int, optional
        Processes; by default one per core.
    dask : str, optional
        Run on the dask cluster of the scheduler at this address.
    store : path, optional
        The run store; by default a file in the folder of --out.
    fresh : bool
        Compute every cell again, also those in the store.
    """

    jobs: PositiveInt | None = None
    dask: str | None = None
    store: Path | None = None
    fresh: bool = False

    def begin(self, out: Path | None, name: str) -> dict[str, Any]:
        """The arguments for `runs.run`, checked before the work; the folder `out`, if there is one, is made.

        Raises
        ------
        ValueError
            If options exclude each other, or the folder cannot be written to.
        """
        if self.jobs is not None and self.dask is not None:
            raise ValueError("--jobs is for this machine: with --dask the cluster's workers decide.")
        place = self.store
        if out is not None:
            require_writable(out, directory=True)
            place = out / f"{name}.sqlite" if place is None else place
        from runs import Store

        kept = None if place is None else Store(place)
        return {
            "jobs": (os.cpu_count() or 1) if self.jobs is None else self.jobs,
            "cluster": self.dask,
            "store": kept,
            "fresh": self.fresh,
            "progress": True,
        }


def _writable(out: Path) -> Path:
    require_layer_file(out)
    require_writable(out)
    return out


# check that the file can be written before the target is made, which may take long
OutOption = Annotated[
    Path, typer.Option("-o", "--out", help="The safetensors file to write.", callback=_writable)
]


def print_json(data: Any) -> None:
    """Print `data` as one JSON document on standard output; values that are not finite become null."""
    typer.echo(json_text(as_plain(data), indent=2))


def say(text: str, *, quiet: bool = False) -> None:
    """Print text for a person on standard output, unless JSON is requested; only its lines break lines."""
    if not quiet:
        typer.echo("\n".join(map(printable, text.split("\n"))))


def require_writable(path: Path, *, directory: bool = False, source: Path | None = None) -> None:
    """Check before the work that its result can be written, and does not overwrite its `source`.

    Raises
    ------
    ValueError
        If it cannot be written, which is an error in the command. Also if it is the source, or lies in a folder that is
        the source.
    """
    if source is not None and path.exists():
        held = source.resolve()
        if path.resolve() == held or (held.is_dir() and path.resolve().parent == held):
            raise ValueError(f"{path} would take the place of what is read from {source}: give another path.")
    folder = path if directory else path.parent
    if directory:
        if path.is_file():
            raise ValueError(f"{path} is a file: give the path of a folder.")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"The folder {folder} cannot be made: {error.strerror}.") from None
    elif path.is_dir():
        raise ValueError(f"{path} is a folder: give the path of a file.")
    elif not folder.is_dir():
        raise ValueError(f"The folder {folder} does not exist: make it first.")
    probe = folder / f".{path.name}.probe"
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ValueError(f"Nothing can be written in {folder}: {error.strerror}.") from None


def require_layer_file(path: Path) -> None:
    """Raise if the file of a layer would get the ending of another format.

    Raises
    ------
    ValueError
        If the path has an ending other than .safetensors; no ending is allowed.
    """
    if path.suffix not in ("", ".safetensors"):
        raise ValueError(f"{path} ends in {path.suffix}: layers are written as .safetensors.")


def require_counts(**numbers: int | None) -> None:
    """Raise if a number on the command line is below 1; the error names its option.

    Raises
    ------
    ValueError
        If a number is below 1.
    """
    for name, number in numbers.items():
        if number is not None:
            count(f"--{name.replace('_', '-')}", number)


@dataclass
class _Steps:
    label: str
    step: str = ""
    began: float = field(default_factory=time.monotonic)

    def take(self, step: str) -> None:
        self.step = step

    def __str__(self) -> str:
        step = f", last step: {self.step}" if self.step else ""
        return f"{self.label}, {time.monotonic() - self.began:.0f} s{step}"


@contextmanager
def showing_steps(label: str) -> Iterator[Callable[[str], None]]:
    """Show on standard error for how long work runs, and its last step.

    Yields
    ------
    callable
        Call it with a few words after each step.
    """
    from runs import showing

    steps = _Steps(label)
    with showing(steps):
        yield steps.take


def write_json(path: Path, data: Any) -> None:
    """Write one JSON document; values that are not finite become null."""
    write_whole(path, f"{json_text(as_plain(data))}\n".encode())


def write_target(target: "Target", out: Path, as_json: bool) -> None:
    """Write the target and report it, as text or as JSON.

    Raises
    ------
    OSError
        If the target cannot be written.
    """
    from arena.target_files import save_target

    save_target(out, target)
    say(f"{out}: {target.title}.", quiet=as_json)
    if as_json:
        record = target.record
        shape = {
            name: getattr(record, name) for name in ("kind", "title", "heads", "tokens", "dim", "inputs")
        }
        print_json({"file": str(out), **shape, "made": target.made})
