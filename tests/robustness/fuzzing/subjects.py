"""What is tried: public functions and constructors, and whether all of them are."""

import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from fuzzing.arguments import SIZES, Argument, Given, Sizes
from fuzzing.comparing import assert_finite
from fuzzing.fence import SECONDS

__all__ = ["Subject", "cases", "missing_subjects"]


@dataclass(frozen=True)
class Subject:
    """A public function or constructor and how it is tried.

    Parameters
    ----------
    name : str
        The public name with its package: ``attention.make_nice_layer``; of a method, ``attention.AttentionLayer.map``.
    call : callable
        Called with the arguments by keyword.
    arguments : callable of Sizes, or mapping
        The arguments, by name; `Sizes` lets their shapes fit together.
    right : callable
        ``right(result, arguments)`` asserts what is to hold of an answer.
    words : tuple of str
        Further words by which a refusal may name what was given.
    refuses : bool
        Whether sane arguments may be refused, too.
    also : tuple of exception types
        What may be raised beside ValueError, in a sentence or by Python's own protocols (KeyError, OSError).
    share : float
        The share of the number of cases that this one takes: below 1 for what is expensive.
    seconds : float
        CPU seconds that a case may take.
    repeatable : bool
        Whether a second call gives the same result, so that dresses can be compared.
    needs : str
        A package without which it is left out; none if empty.
    """

    name: str
    call: Callable[..., Any]
    arguments: Callable[[Sizes], Mapping[str, Argument]] | Mapping[str, Argument]
    right: Callable[[Any, Mapping[str, Any]], None] = assert_finite
    words: tuple[str, ...] = ()
    refuses: bool = False
    also: tuple[type[Exception], ...] = ()
    share: float = 1.0
    seconds: float = SECONDS
    repeatable: bool = True
    needs: str = ""

    def __repr__(self) -> str:
        return self.name


@st.composite
def cases(draw: Any, subject: Subject) -> tuple[dict[str, Given], tuple[str, ...]]:
    """The arguments of one call, and the names of those that are hostile."""
    sizes = draw(SIZES)
    arguments = subject.arguments(sizes) if callable(subject.arguments) else subject.arguments
    names = list(arguments)
    mode = draw(st.integers(0, 9))
    hostile: tuple[str, ...] = ()
    if names and mode >= 2:
        hostile = tuple(
            draw(st.lists(st.sampled_from(names), min_size=1, max_size=1 if mode < 9 else 2, unique=True))
        )
    drawn = {
        name: draw(argument.hostile if name in hostile else argument.sane)
        for name, argument in arguments.items()
    }
    return drawn, hostile


def missing_subjects(
    packages: Mapping[str, types.ModuleType], subjects: list[Subject], exceptions: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Public names that are neither tried nor excepted, and exceptions that are no public names or are tried."""
    tried = {subject.call for subject in subjects if isinstance(subject.call, type | types.FunctionType)}
    named = {subject.name for subject in subjects}
    public = {
        f"{package}.{name}": getattr(module, name)
        for package, module in packages.items()
        for name in module.__all__
    }

    def covered(name: str, value: Any) -> bool:
        short = name.rpartition(".")[2]
        if name in named or any(one.startswith(name + ".") for one in named):
            return True
        # one object may be public in two packages
        return any(value is one for one in tried) or (
            any(one.rpartition(".")[2] == short and public.get(one) is value for one in named)
        )

    missing = [name for name, value in public.items() if not covered(name, value) and name not in exceptions]
    idle = [name for name in exceptions if name not in public or name in named]
    return missing, idle
