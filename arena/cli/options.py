"""Options of a command from the parameters of the function that it calls."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer

from arena.cli.console import listed

if TYPE_CHECKING:
    from lower.family import Option

__all__ = ["read_options", "with_options"]

_PLAIN = (int, float, str, bool)


def with_options(
    command: Callable[..., None], options: Mapping[str, "Option"], **others: tuple[Any, Any]
) -> Callable[..., None]:
    """The command with an option for each parameter, and `others`, each with its annotation and its default."""
    kinds = {
        name: (Annotated[_kind(one.kind), typer.Option(_flag(name, one), help=one.help)], _default(one))
        for name, one in options.items()
    }
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
        for name, (kind, default) in (kinds | others).items()
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def read_options(options: Mapping[str, "Option"], given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters from what the command line gives; those left out are not in it.

    Raises
    ------
    ValueError
        If a list has an entry that is no number.
    """
    return {name: _read(options[name], name, value) for name, value in given.items() if value is not None}


def _flag(name: str, one: "Option") -> str:
    return one.flag or f"--{name.replace('_', '-')}"


def _kind(hint: Any) -> Any:
    """The type of an option: numbers, texts and choices unchanged, everything else as text."""
    parts = [one for one in _alternatives(hint) if one is not NoneType]
    kind = parts[0] if len(parts) == 1 and (parts[0] in _PLAIN or get_origin(parts[0]) is Literal) else str
    return kind | None


def _alternatives(hint: Any) -> Sequence[Any]:
    """The types of a union, without their annotations."""
    if get_origin(hint) is Annotated:
        return _alternatives(get_args(hint)[0])
    if get_origin(hint) in (Sequence, Literal) or not get_args(hint):
        return [hint]
    return [one for part in get_args(hint) for one in _alternatives(part)]


def _default(one: "Option") -> Any:
    if isinstance(one.preset, tuple):
        return ",".join(f"{entry:g}" if isinstance(entry, float) else str(entry) for entry in one.preset)
    return one.preset if isinstance(one.preset, (*_PLAIN, NoneType)) else str(one.preset)


def _read(one: "Option", name: str, value: Any) -> Any:
    from lower.bounds import exact_fraction

    for kind in _alternatives(one.kind):
        if get_origin(kind) is Sequence:
            (item,) = _alternatives(get_args(kind)[0])
            needed = {int: "whole numbers", float: "numbers"}.get(item, "names")
            read = {int: int, float: lambda text: float(exact_fraction(name, text))}.get(item, str)
            return tuple(listed(_flag(name, one), value, read, needed, str(_default(one))))
    return value if one.read is None else one.read(value)
