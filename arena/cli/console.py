"""Shared by all commands: options, JSON on standard output, what work is doing, files."""

import functools
import inspect
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from arena.cli.errors import WorkInterruptedError
from arena.formats import as_plain
from attention.conversion import Biases
from attention.files import write_whole
from attention.foreign import json_text, printable
from attention.validation import count

if TYPE_CHECKING:
    from arena.drawing import Drawing
    from arena.targets import Target

__all__ = [
    "BiasesOption",
    "CoordinatesOption",
    "DeviceOption",
    "EngineOption",
    "FolderOption",
    "HeadsOption",
    "InputsName",
    "InputsOption",
    "JsonOption",
    "OutOption",
    "PrefixOption",
    "RunOptions",
    "SeedOption",
    "TimeoutOption",
    "TokensOption",
    "cores",
    "gather",
    "listed",
    "print_json",
    "report_curve",
    "require_all",
    "require_counts",
    "require_layer_file",
    "require_writable",
    "say",
    "showing_steps",
    "takes_run_options",
    "write_json",
    "write_target",
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
FolderOption = Annotated[Path, typer.Option("--out", "-o", help="Folder for tables, figures and the store.")]
TimeoutOption = Annotated[float | None, typer.Option(help="Seconds a cell may take; by default no limit.")]
InputsName = Literal["boolean", "gaussian", "sphere"]

HeadsOption = Annotated[
    int | None,
    typer.Option(help="Number m of heads of a checkpoint's layer; by default as in its config.json."),
]
PrefixOption = Annotated[
    str | None,
    typer.Option(help="Prefix of the names of a checkpoint's layer, if it holds several models."),
]
BiasesOption = Annotated[
    Biases,
    typer.Option(help="Biases of a checkpoint's layer: kept, or dropped."),
]
CoordinatesOption = Annotated[
    int | None,
    typer.Option(help="Number of first coordinates of a checkpoint's layer to keep; by default all."),
]
TokensOption = Annotated[int | None, typer.Option(help="Number k of tokens, instead of the file's.")]
InputsOption = Annotated[
    InputsName | None, typer.Option(help="Distribution of the tokens, instead of the file's.")
]


@dataclass(frozen=True)
class RunOptions:
    """The options of every command that computes cells; `takes_run_options` adds them."""

    jobs: Annotated[int | None, typer.Option(help="Processes; by default one per core.")] = None
    dask: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Run on the dask cluster of this scheduler.")
    ] = None
    store: Annotated[
        Path | None, typer.Option(help="The run store; by default a file in the folder of --out.")
    ] = None
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Compute every cell again, also those in the store.")
    ] = False

    def begin(self, out: Path | None, name: str) -> dict[str, Any]:
        """The arguments for `runs.run`, checked before the work; the folder `out`, if there is one, is made.

        Raises
        ------
        ValueError
            If options exclude each other, or the folder cannot be written to.
        """
        processes = cores(self.jobs, self.dask)
        place = self.store
        if out is not None:
            require_writable(out, directory=True)
            place = out / f"{name}.sqlite" if place is None else place
        from runs import Store

        kept = None if place is None else Store(place)
        return {
            "jobs": processes,
            "cluster": self.dask,
            "store": kept,
            "fresh": self.fresh,
            "progress": True,
        }


def takes_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of `RunOptions` in the place of its parameter `run`."""
    own, added = inspect.signature(command), inspect.signature(RunOptions).parameters

    @functools.wraps(command)
    def taking(**given: Any) -> None:
        command(run=RunOptions(**{name: given.pop(name) for name in added}), **given)

    parameters = [
        one.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in own.parameters.values()
        for one in (added.values() if parameter.name == "run" else (parameter,))
    ]
    taking.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    taking.__annotations__ = {one.name: one.annotation for one in parameters}
    return taking


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


def cores(jobs: int | None, dask: str | None) -> int:
    """The number of processes for an option: by default one per core; on a cluster the workers decide.

    Raises
    ------
    ValueError
        If both options are given, or the number is out of range.
    """
    if jobs is not None and dask is not None:
        raise ValueError("--jobs is for this machine: with --dask the cluster's workers decide.")
    return (os.cpu_count() or 1) if jobs is None else count("--jobs", jobs)


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


def listed(option: str, text: str, kind: Callable[[str], Item], what: str, example: str) -> list[Item]:
    """The parts of a comma-separated option, converted.

    Raises
    ------
    ValueError
        If a part cannot be converted.
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


def gather(work: Callable[[Callable[[Any], None]], Iterable[Any]]) -> tuple[list[Any], bool]:
    """The result of `work`; after an interruption, the parts reported so far, and False."""
    done: list[Any] = []
    try:
        return list(work(done.append)), True
    except KeyboardInterrupt:
        return done, False


def report_curve(
    out: Path, name: str, rows: Sequence[Mapping[str, Any]], figure: "Drawing", table: str, as_json: bool
) -> None:
    """Write rows as JSON and CSV and the figure as SVG and PDF into a folder; print the table, or the JSON."""
    from arena.formats import csv_text
    from runs import versions

    data = {"versions": versions(), "points": as_plain(list(rows))}
    write_json(out / f"{name}.json", data)
    flat = [
        {key: " ".join(map(str, one)) if isinstance(one, list) else one for key, one in row.items()}
        for row in data["points"]
    ]
    write_whole(out / f"{name}.csv", csv_text(flat).encode())
    for ending in ("svg", "pdf"):
        figure.save(out / f"{name}.{ending}")
    if as_json:
        print_json(data)
    say(f"{table}\n\n{out / name}.svg, .pdf, .csv, .json", quiet=as_json)


def write_json(path: Path, data: Any) -> None:
    """Write one JSON document; values that are not finite become null."""
    write_whole(path, f"{json_text(as_plain(data))}\n".encode())


def require_all(whole: bool, done: str) -> None:
    """Raise if the work was interrupted; the message says how far it got.

    Raises
    ------
    WorkInterruptedError
        Unless the work is complete.
    """
    if not whole:
        raise WorkInterruptedError(
            f"Interrupted: {done} are done and kept; without --fresh the command goes on."
        )


def write_target(target: "Target", out: Path, as_json: bool) -> None:
    """Write the target and report it, as text or as JSON.

    Raises
    ------
    OSError
        If the target cannot be written.
    """
    from arena.targets import save_target

    save_target(out, target)
    say(f"{out}: {target.record.title}.", quiet=as_json)
    if as_json:
        record = target.record
        shape = {
            name: getattr(record, name) for name in ("kind", "title", "heads", "tokens", "dim", "inputs")
        }
        print_json({"file": str(out), **shape, "made": target.made})
