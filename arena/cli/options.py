"""Options of a command from the signature of the function that it calls: each is declared once, where it is used."""

import functools
import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import typer

from attention.validation import check

if TYPE_CHECKING:
    from lower.family import Option

__all__ = ["declared", "listed", "options_of", "takes"]

Item = TypeVar("Item")
Command = TypeVar("Command", bound=Callable[..., None])

_TYPES = (int, float, str, bool, Path)


def takes(
    function: Callable[..., Any] | Mapping[str, inspect.Parameter] | None = None,
    *,
    without: Collection[str] = (),
    flags: Mapping[str, str] | None = None,
) -> Callable[[Any], Any]:
    """A decorator of commands: it replaces parameters that stand for several options.

    Parameters
    ----------
    function : callable or mapping, optional
        Its keyword-only parameters, as `options_of` has them, take the place of the command's ``**settings``; or such
        parameters, as `declared` gives them.
    without : collection of str
        The parameters of the function that are no options; those that the command declares itself are none either.
    flags : mapping, optional
        The options that have another name than their parameter.

    Notes
    -----
    A parameter of the command whose type is a dataclass, such as `RunOptions`, is replaced by the fields of it.
    """

    def decorated(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True).parameters
        groups = {name: one.annotation for name, one in own.items() if is_dataclass(one.annotation)}
        parts = {name: list(options_of(group)) for name, group in groups.items()}

        @functools.wraps(command)
        def taking(**given: Any) -> None:
            held: dict[str, Any] = {}
            for name, group in groups.items():
                held[name] = group(**{field: given.pop(field) for field in parts[name]})
            command(**given, **held)

        taken = {*own, *without, *(field for fields in parts.values() for field in fields)}
        options: dict[str, inspect.Parameter] = {}
        for name, one in own.items():
            if name in groups:
                options |= options_of(groups[name])
            elif one.kind is not inspect.Parameter.VAR_KEYWORD:
                options[name] = one.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            elif function is not None:
                found = function if isinstance(function, Mapping) else options_of(function, flags)
                options |= {name: found[name] for name in found if name not in taken}
        taking.__signature__ = inspect.Signature(list(options.values()))  # type: ignore[attr-defined]
        taking.__annotations__ = {name: one.annotation for name, one in options.items()}
        return taking  # type: ignore[return-value]

    return decorated


def options_of(
    function: Callable[..., Any], flags: Mapping[str, str] | None = None
) -> dict[str, inspect.Parameter]:
    """The keyword-only parameters of a function, or the fields of a dataclass, as options of a command.

    Name, type, default and bounds are those of the signature, and the help is the text of the parameter in the
    docstring. A parameter of a type that no word on a command line has, such as a callback, is left out.
    """
    texts = _parameter_texts(inspect.getdoc(function) or "")
    maker = function.__init__ if isinstance(function, type) else inspect.unwrap(function)  # type: ignore[misc]
    hints = get_type_hints(maker, include_extras=True)
    fields = isinstance(function, type)
    return {
        name: option
        for name, one in inspect.signature(function).parameters.items()
        if (fields or one.kind is inspect.Parameter.KEYWORD_ONLY)
        and (
            option := as_option(
                name, hints[name], one.default, texts.get(name, ""), flag=(flags or {}).get(name, "")
            )
        )
        is not None
    }


def as_option(
    name: str,
    hint: Any,
    default: Any,
    help: str,
    *,
    flag: str = "",
    read: Callable[[Any], Any] | None = None,
) -> inspect.Parameter | None:
    """A parameter of a command; None if a command line has no word for its type.

    Parameters
    ----------
    name, hint, default
        As in a signature. A value is held to the annotation as `attention.validation.checked` does.
    help, flag : str
        The help, and the name on the command line if it is not that of the parameter.
    read : callable, optional
        Makes the value from text, where the type alone does not say how.
    """
    names = flag or f"--{name.replace('_', '-')}"
    wanted = [one for one in _alternatives(hint) if one is not NoneType]
    kinds = [get_args(one)[0] if get_origin(one) is Annotated else one for one in wanted]
    kind = str if read is not None else _kind(kinds)
    if kind is None:
        return None
    flag = names.partition("/")[0]
    if kind is bool and default is not False and flag == names:
        names = f"{flag}/--no-{flag.removeprefix('--')}"
    words = [word for one in kinds if get_origin(one) is Literal and len(kinds) > 1 for word in get_args(one)]

    def held(value: Any) -> Any:
        if value is None:
            return None
        if read is not None:
            return read(value)
        if words and value not in words:
            value = int(value) if re.fullmatch(r"[+-]?[0-9]{1,400}", value) else value
        return check(flag, value, Union[tuple(wanted)])  # noqa: UP007 - of a list

    metavar = "|".join(["NUMBER", *words]) if words else None
    option = typer.Option(names, help=help, metavar=metavar, callback=held)
    annotation = Annotated[kind | None if default is None else kind, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def declared(options: Mapping[str, "Option"]) -> dict[str, inspect.Parameter]:
    """Parameters that are declared by an `lower.Option` each: lists are text with commas."""
    from lower.bounds import exact_fraction

    found = {}
    for name, one in options.items():
        flag, read, default = one.flag or f"--{name.replace('_', '-')}", one.read, one.preset
        if isinstance(default, tuple):
            default = ",".join(f"{item:g}" if isinstance(item, float) else str(item) for item in default)
        elif not isinstance(default, (*_TYPES, NoneType)):
            default = str(default)
        kinds = [
            get_args(kind)[0] if get_origin(kind) is Annotated else kind for kind in _alternatives(one.kind)
        ]
        for kind in kinds:
            if get_origin(kind) is Sequence:
                (item,) = _alternatives(get_args(kind)[0])
                item = get_args(item)[0] if get_origin(item) is Annotated else item
                needed = {int: "whole numbers", float: "numbers"}.get(item, "names")
                convert = {int: int, float: lambda text, name=name: float(exact_fraction(name, text))}.get(
                    item, str
                )
                read = _reader(flag, convert, needed, str(default))
        if read is None and _kind([kind for kind in kinds if kind is not NoneType]) is None:
            read = str
        parameter = as_option(name, one.kind, default, one.help, flag=flag, read=read)
        if parameter is not None:
            found[name] = parameter
    return found


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


def _reader(flag: str, convert: Callable[[str], Any], needed: str, example: str) -> Callable[[str], Any]:
    return lambda text: tuple(listed(flag, text, convert, needed, example))


def _alternatives(hint: Any) -> list[Any]:
    """The types of a union; an annotation stays with a type that it describes alone."""
    if get_origin(hint) is Annotated and len(_alternatives(get_args(hint)[0])) > 1:
        return _alternatives(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return [one for part in get_args(hint) for one in _alternatives(part)]
    return [hint]


def _kind(kinds: Sequence[Any]) -> Any:
    """The type that a word on the command line is read as."""
    if len(kinds) > 1:
        plain = [one for one in (Path, str) if one in kinds]
        return plain[0] if plain else str if int in kinds else None
    kind = kinds[0] if kinds else None
    enum = isinstance(kind, type) and issubclass(kind, Enum)
    return kind if kind in _TYPES or enum or get_origin(kind) is Literal else None


def _parameter_texts(doc: str) -> dict[str, str]:
    """What a docstring in the style of numpydoc says of each parameter or attribute."""
    section = re.search(
        r"^(?:Parameters|Attributes)\n-+\n(.*?)(?=^[^\n]+\n---|\Z)", doc, re.MULTILINE | re.DOTALL
    )
    entries = re.findall(
        r"^(\w[^\n:]*).*\n((?: .*\n|\n)*)", f"{section[1]}\n" if section else "", re.MULTILINE
    )
    return {
        name.strip(): " ".join(text.replace("`", "").split())
        for names, text in entries
        for name in names.split(",")
    }
