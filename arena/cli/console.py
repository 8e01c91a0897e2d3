"""What every command shares: JSON alone on standard output, words elsewhere, progress that vanishes off a terminal."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from arena._fields import as_plain
from arena.targets import Target
from attention.validation import count

__all__ = [
    "DeviceOption",
    "EngineOption",
    "JsonOption",
    "SeedOption",
    "cores",
    "listed",
    "print_json",
    "progress_bar",
    "require_counts",
    "require_layer_file",
    "require_writable",
    "say",
    "target_json",
]

Item = TypeVar("Item")

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.")]
EngineOption = Annotated[
    str | None,
    typer.Option(
        help="What Newton computes with: numpy (the default), torch, or auto: torch for large problems."
    ),
]
DeviceOption = Annotated[
    str | None,
    typer.Option(help="Where Newton and Adam compute, by PyTorch: cpu, cuda, or cuda:1 for the second GPU."),
]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of every random choice.")]


def print_json(data: Any) -> None:
    """Print `data` as one JSON document on standard output; what is not finite becomes null."""
    typer.echo(json.dumps(as_plain(data), indent=2, ensure_ascii=False, allow_nan=False))


def say(text: str, *, quiet: bool = False) -> None:
    """Print words for a person on standard output, unless machines are listening."""
    if not quiet:
        typer.echo(text)


def target_json(file: Path, target: Target) -> dict[str, Any]:
    """What every command tells machines about a target in a file."""
    record = target.record
    return {
        "file": str(file),
        "kind": record.kind,
        "title": record.title,
        "heads": record.heads,
        "tokens": record.tokens,
        "dim": record.dim,
        "inputs": record.inputs,
        "made": target.made,
    }


def require_writable(path: Path, *, directory: bool = False, source: Path | None = None) -> None:
    """Find out before the work whether its result can be written, and does not take the place of its `source`.

    Raises
    ------
    ValueError
        If it cannot, which is the fault of the command; or if it is the source, or a file that lies in the folder that
        is.
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
    """Raise where a file of a layer would be given the ending of another format.

    Raises
    ------
    ValueError
        If the path ends in something else than .safetensors, or nothing.
    """
    if path.suffix not in ("", ".safetensors"):
        raise ValueError(f"{path} ends in {path.suffix}: layers are written as .safetensors.")


def require_counts(**numbers: int | None) -> None:
    """Raise where a number that the command line gives is below 1; the error names its option.

    Raises
    ------
    ValueError
        If one is.
    """
    for name, number in numbers.items():
        if number is not None:
            count(f"--{name.replace('_', '-')}", number)


def cores(jobs: int | None, dask: str | None) -> int:
    """How many processes an option asks for: one a core by default; on a cluster its workers decide.

    Raises
    ------
    ValueError
        If both options are given, or the number is out of range.
    """
    if jobs is not None and dask is not None:
        raise ValueError("--jobs is for this machine: with --dask the cluster's workers decide.")
    return (os.cpu_count() or 1) if jobs is None else count("--jobs", jobs)


@contextmanager
def progress_bar(label: str, total: int | None, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """A progress bar on standard error; nothing at all where that is no terminal.

    Yields
    ------
    callable
        Call it with a few words after each unit of work.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda words: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[words]}"),
    )
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=total, words="")
        yield lambda words: progress.update(task, advance=1, words=words)


def listed(option: str, text: str, kind: Callable[[str], Item], what: str, example: str) -> list[Item]:
    """What a comma-separated option holds.

    Raises
    ------
    ValueError
        If a part is not of that kind.
    """
    parts = [part.strip() for part in text.split(",")]
    try:
        if not all(parts):
            raise ValueError
        return [kind(part) for part in parts]
    except (ValueError, OverflowError):
        raise ValueError(
            f"{option} is {text!r}: {what} with commas between them are needed, as in {example}."
        ) from None
