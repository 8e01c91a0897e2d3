"""Shared by all commands: options, JSON and text on standard output, what work is doing, files."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from arena.formats import as_plain
from attention.files import write_whole
from attention.foreign import json_text, printable
from attention.validation import PositiveFloat, PositiveInt

if TYPE_CHECKING:
    from attention import Step

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.")]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of every random choice.")]
FolderOption = Annotated[Path, typer.Option("--out", "-o", help="Folder for tables, figures and the store.")]
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
    timeout : float, optional
        Seconds a cell may take; by default no limit.
    """

    jobs: PositiveInt | None = None
    dask: str | None = None
    store: Path | None = None
    fresh: bool = False
    timeout: PositiveFloat | None = None

    def begin(self, out: Path | None, name: str) -> dict[str, Any]:
        """The arguments for `runs.run`, checked before the work; the folder `out`, if there is one, is made."""
        if self.jobs is not None and self.dask is not None:
            raise ValueError("--jobs is for this machine: with --dask the cluster's workers decide.")
        place = self.store
        if out is not None:
            require_writable(out, directory=True)
            place = out / f"{name}.sqlite" if place is None else place
        from runs import Store

        return {
            "jobs": self.jobs or os.cpu_count() or 1,
            "cluster": self.dask,
            "store": None if place is None else Store(place),
            "fresh": self.fresh,
            "timeout": self.timeout,
            "progress": True,
        }


def require_writable(
    path: Path, *, directory: bool = False, source: Path | None = None, layer: bool = False
) -> Path:
    """The path, if a result can be written there; else a ValueError, before the work.

    It may not take the place of its `source`, or of a file in a folder that is the source. The file of a `layer` ends
    in .safetensors or in nothing.
    """
    if layer and path.suffix not in ("", ".safetensors"):
        raise ValueError(f"{path} ends in {path.suffix}: layers are written as .safetensors.")
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
    return path


# check that the file can be written before the target is made, which may take long
OutOption = Annotated[
    Path,
    typer.Option(
        "-o",
        "--out",
        help="The safetensors file to write.",
        callback=lambda path: require_writable(path, layer=True),
    ),
]


def say(text: str, *, quiet: bool = False) -> None:
    """Print text for a person on standard output, unless JSON is requested; only its lines break lines."""
    if not quiet:
        typer.echo("\n".join(map(printable, text.split("\n"))))


def report(text: object, data: Any, as_json: bool) -> None:
    """Print a result as text or, if it is requested, as one JSON document; values that are not finite become null."""
    if as_json:
        typer.echo(json_text(as_plain(data), indent=2))
    else:
        say(str(text))


def write_json(path: Path, data: Any) -> None:
    """Write one JSON document; values that are not finite become null."""
    write_whole(path, f"{json_text(as_plain(data))}\n".encode())


@dataclass
class Progress:
    """How far work is: for how long it runs, its latest step, and the latest step with a layer."""

    label: str
    latest: "Step | None" = None
    with_layer: "Step | None" = None
    began: float = field(default_factory=time.monotonic)

    def record(self, step: "Step") -> None:
        """Take note of a step."""
        self.latest = step
        self.with_layer = self.with_layer if step.layer is None else step

    def __str__(self) -> str:
        step = "" if self.latest is None else f", last step: {self.latest.title}"
        return f"{self.label}, {time.monotonic() - self.began:.0f} s{step}"


@contextmanager
def showing_progress(label: str) -> Iterator[Progress]:
    """Show on standard error for how long work runs, and its latest step."""
    from runs import showing

    progress = Progress(label)
    with showing(progress):
        yield progress
