"""The commands, each imported when it is asked for: help and completion answer at once."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import typer

__all__ = ["LazyCommands"]

_COMMANDS: Mapping[str, tuple[str, str]] = {
    "generate": (
        "generate:generate_app",
        "Make a nice or a hard target, or take a layer out of a trained model.",
    ),
    "families": ("families:families_command", "List the hard families that two heads realise."),
    "inspect": (
        "inspect:inspect_command",
        "Show a layer, its conditions, and the certificate of a hard instance.",
    ),
    "learn": ("learn:learn_command", "Learn a target, or examples of your own."),
    "learners": ("listed:learners_command", "List the learners and what each promises."),
    "attack": ("attack:attack_command", "Attack samples of learning with rounding or with errors."),
    "attacks": ("listed:attacks_command", "List the attacks."),
    "estimate": ("estimate:estimate_command", "Estimate the cost of attacks on learning with errors."),
    "explain": ("explain:explain_command", "Run the six phases and show what each found."),
    "compare": ("compare:compare_command", "Run every learner on every target, side by side."),
    "runs": ("runs:runs_command", "List or export the cells of a run store."),
    "check": ("check:check_command", "Check what the papers claim, claim by claim."),
    "study": ("study:study_command", "Answer an open question with numbers."),
    "curves": ("curves:curves_app", "Count queries, or how far attacks reach, and draw the curves."),
    "linear": ("linear:linear_app", "Learn and certify linear attention exactly."),
}


class LazyCommands(typer.core.TyperGroup):
    """The commands of the toolkit."""

    @property  # type: ignore[override]
    def commands(self) -> Mapping[str, Any]:
        """Every command by its name."""
        return _Imported()

    @commands.setter
    def commands(self, own: Any) -> None:
        pass

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order in which they are shown."""
        return list(_COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a line for each command, without importing it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, said) for name, (_, said) in _COMMANDS.items()])


class _Imported(Mapping[str, Any]):
    def __getitem__(self, name: str) -> Any:
        return _command(name, *_COMMANDS[name])

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


@cache
def _command(name: str, place: str, said: str) -> Any:
    module, attribute = place.split(":")
    found = getattr(import_module(f"arena.cli.{module}"), attribute)
    if not isinstance(found, typer.Typer):
        app = typer.Typer(rich_markup_mode=None, add_completion=False)
        app.command(name, short_help=said)(found)
        found = app
    command = typer.main.get_command(found)
    command.name = name
    return command
