"""The entry point: commands are imported when used, and errors are one line with an exit status of 1 or 2."""

import errno
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer

from arena.cli import WorkFailedError, WorkInterruptedError

_OK, _FAILED, _WRONG_USE = 0, 1, 2
_LONGEST = 1500  # characters of a message: options may hold anything
_INTERRUPTED = 130  # the command-line library's status for Ctrl-C

# Newer versions of typer contain their own click; its base classes are reached through typer's exports.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]
_CommandLineError: type[Exception] = _UsageError.__bases__[0]

_COMMANDS: Mapping[str, tuple[str, str]] = {
    "generate": (
        "generate:generate_app",
        "Make a nice or a hard target, or take a layer out of a trained model.",
    ),
    "families": ("lists:families_command", "List the hard families that two heads realise."),
    "inspect": (
        "inspect:inspect_command",
        "Show a layer, its conditions, and the certificate of a hard instance.",
    ),
    "learn": ("learn:learn_command", "Learn a target, or examples of your own."),
    "recover": ("recover:recover_command", "Learn every attention layer of a trained model back."),
    "learners": ("lists:learners_command", "List the learners and what each promises."),
    "attack": ("attack:attack_command", "Attack samples of learning with rounding or with errors."),
    "attacks": ("lists:attacks_command", "List the attacks."),
    "presets": ("lists:presets_command", "List the named sets of parameters."),
    "estimate": ("estimate:estimate_command", "Estimate the cost of attacks on learning with errors."),
    "compare": ("compare:compare_command", "Run every learner on every target, side by side."),
    "runs": ("runs:runs_command", "List or export the cells of a run store."),
    "check": ("check:check_command", "Check what the papers claim, claim by claim."),
    "study": ("study:study_command", "Answer an open question with numbers."),
    "curves": ("curves:curves_app", "Count queries, or how far attacks reach, and draw the curves."),
    "linear": ("linear:linear_app", "Learn and certify linear attention exactly."),
}


class _LazyGroup(typer.core.TyperGroup):
    """The commands of the toolkit: each is imported when it runs, none for a list or a completion of their names."""

    _listed = False

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": dict.fromkeys(_COMMANDS)})

    def get_command(self, ctx: Any, name: str) -> Any:
        """The command; for a list of commands its name and its short help alone."""
        if name not in _COMMANDS:
            return None
        place, summary = _COMMANDS[name]
        return typer.core.TyperCommand(name, short_help=summary) if self._listed else _command(name, place)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a line for each command."""
        self._listed = True
        super().format_commands(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """The names that begin with a prefix, each with its short help."""
        self._listed = True
        return super().shell_complete(ctx, incomplete)


@cache
def _command(name: str, place: str) -> Any:
    module, attribute = place.split(":")
    function = getattr(import_module(f"arena.cli.{module}"), attribute)
    if isinstance(function, typer.Typer):
        return typer.main.get_command(function)
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command(name)(function)
    return typer.main.get_command(app)


app = typer.Typer(
    name="attention-bounds",
    help=(
        "Can a multi-head attention layer be learned from examples, how, and when is it hopeless?\n\n"
        "Example: attention-bounds compare --preset quick --out results"
    ),
    cls=_LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(wanted: bool | None) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"attention-bounds {version('attention-bounds')}")
        raise typer.Exit()


@app.callback()
def _root(
    show_version: Annotated[
        bool | None,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit."),
    ] = None,
) -> None:
    pass


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status; an error is one line on standard error.

    Only a defect of this program raises, with its traceback.
    """
    try:
        status = app(args=list(arguments), prog_name="attention-bounds", standalone_mode=False)
        sys.stdout.flush()
    except typer.Exit as error:
        status = error.exit_code
    except _CommandLineError as error:
        message = error.format_message()  # type: ignore[attr-defined]
        command: Any = getattr(getattr(error, "ctx", None), "command", None)
        if "unexpected extra arg" in message and "examples_from" in [one.name for one in command.params]:
            message += " Examples of your own, tokens and labels, are given by --examples-from X.npy Y.npy"
        if type(error).__name__ == "NoArgsIsHelpError":  # its message is the whole help text
            typer.echo(message)
            return _WRONG_USE
        return _complain(message, _WRONG_USE)
    except (typer.Abort, KeyboardInterrupt):
        return _complain("Interrupted.", _INTERRUPTED)
    except BrokenPipeError:
        # the reader of the output has closed it; keep the interpreter from writing to it again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FAILED
    except WorkFailedError as error:
        return _complain(str(error), _INTERRUPTED if isinstance(error, WorkInterruptedError) else _FAILED)
    except OSError as error:
        return _complain(_reason(error), _FAILED)
    except BrokenExecutor as error:
        if not isinstance(error.__cause__, OSError):
            raise
        return _complain(f"No process can be started: {_reason(error.__cause__)}", _FAILED)
    except MemoryError as error:
        return _complain(f"The work failed: {error or 'out of memory'}", _FAILED)
    except (ValueError, ImportError) as error:
        # NumPy's error for a matrix that cannot be factored is a ValueError, but not an error in the command
        if type(error).__name__ == "LinAlgError":
            return _complain(f"The work failed: {error}", _FAILED)
        return _complain(str(error) or type(error).__name__, _WRONG_USE)
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of a library in Rust, which has no more memory
            raise
        return _complain(f"The work failed: {error}", _FAILED)
    if status == _INTERRUPTED:
        return _complain("Interrupted.", _INTERRUPTED)
    return status if isinstance(status, int) else _OK


def _complain(message: str, status: int) -> int:
    # if even that cannot be written, the exit status still reports the error
    with suppress(OSError):
        typer.echo(f"attention-bounds: {_one_sentence(message)}", err=True)
    return status


def _one_sentence(message: str) -> str:
    """A message on one line without terminal control characters, shortened in the middle, with a full stop."""
    from attention.foreign import printable  # the import takes long, and most commands end without an error

    line = printable(" ".join(message.split()))
    if len(line) > _LONGEST:
        line = f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 2 :]}"
    return line if line.endswith((".", "?", "!")) else f"{line}."


_ADVICE = {
    errno.ENOSPC: "free some space, or choose another place",
    errno.EDQUOT: "free some space, or choose another place",
    errno.EMFILE: "allow more open files, as with ulimit -n 1024",
    errno.ENFILE: "end other programs: the system has too many files open",
    errno.EACCES: "choose another place, or change the rights",
    errno.EROFS: "choose another place",
    errno.EAGAIN: "end other programs, or allow more processes, as with ulimit -u",
    errno.ENOMEM: "end other programs, or ask for less",
}


def _reason(error: OSError) -> str:
    """The file, the cause, and what to do."""
    if error.strerror is None:
        return str(error)
    place = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    advice = _ADVICE.get(error.errno or 0)
    return f"{place}{error.strerror}" + (f": {advice}." if advice else ".")
