"""Options of a command from the signature of the function that it calls: each is declared once, where it is used."""

import functools
import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import typer

from attention.validation import check

Command = TypeVar("Command", bound=Callable[..., None])

_TYPES = (int, float, str, bool, Path)


def takes(
    *sources: Callable[..., Any] | Mapping[str, inspect.Parameter],
    without: Collection[str] = (),
    flags: Mapping[str, str] | None = None,
) -> Callable[[Any], Any]:
    """A decorator of commands: it replaces parameters that stand for several options.

    Parameters
    ----------
    *sources : callable or mapping
        Their keyword-only parameters, as `options_of` has them, or such parameters, take the place of the command's
        ``**settings``.
    without : collection of str
        The parameters of the sources that are no options; those that the command declares itself are none either.
    flags : mapping, optional
        The options that have another name than their parameter.

    Notes
    -----
    A parameter of the command whose type is a dataclass, such as `RunOptions`, is replaced by the fields of it.
    """

    def decorated(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True).parameters
        groups: dict[str, Any] = {
            name: one.annotation for name, one in own.items() if is_dataclass(one.annotation)
        }
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
            for source in sources if one.kind is inspect.Parameter.VAR_KEYWORD else ():
                given = source if isinstance(source, Mapping) else options_of(source, flags)
                options |= {name: given[name] for name in given if name not in taken | options.keys()}
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
        Makes the value from text, where the type alone does not say how. A sequence has commas between its entries.
    """
    names = flag or f"--{name.replace('_', '-')}"
    wanted = [one for one in alternatives(hint) if one is not NoneType]
    kinds = [_bare(one) for one in wanted]
    metavar = None
    if read is None and len(kinds) == 1 and get_origin(kinds[0]) is Sequence:
        metavar = "A,B,..."
        read = functools.partial(_entries, names.partition("/")[0], _bare(get_args(kinds[0])[0]))
        entries = default if isinstance(default, tuple) else ()
        default = ",".join(f"{one:g}" if isinstance(one, float) else str(one) for one in entries) or default
    kind = str if read is not None else _kind(kinds)
    if kind is None:
        return None
    flag = names.partition("/")[0]
    if kind is bool and default is not False and flag == names:
        names = f"{flag}/--no-{flag.removeprefix('--')}"
    words = [word for one in kinds if get_origin(one) is Literal and len(kinds) > 1 for word in get_args(one)]

    needed: Any = Union[tuple(wanted)]  # noqa: UP007 - of a list

    def held(value: Any) -> Any:
        if value is None:
            return None
        if read is not None:
            return read(value)
        if words and value not in words:
            value = int(value) if re.fullmatch(r"[+-]?[0-9]{1,400}", value) else value
        return check(flag, value, needed)

    metavar = "|".join(["NUMBER", *words]) if words else metavar
    option = typer.Option(names, help=help, metavar=metavar, callback=held)
    annotation: Any = Annotated[kind | None if default is None else kind, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _entries(flag: str, kind: Any, text: str) -> Sequence[Any]:
    """The parts of a comma-separated option, converted."""
    from lower.bounds import exact_fraction

    read: Any = {int: int, float: lambda part: float(exact_fraction(flag, part))}.get(kind, str)
    parts = [part.strip() for part in text.split(",")]
    try:
        if not all(parts):
            raise ValueError
        return tuple(read(part) for part in parts)
    except (ValueError, OverflowError):
        what = {int: "whole numbers", float: "numbers"}.get(kind, "names")
        raise ValueError(f"{flag} is {text!r}: {what} with commas between them are needed.") from None


def alternatives(hint: Any) -> list[Any]:
    """The types of a union; an annotation stays with a type that it describes alone."""
    if get_origin(hint) is Annotated and len(alternatives(get_args(hint)[0])) > 1:
        return alternatives(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return [one for part in get_args(hint) for one in alternatives(part)]
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
