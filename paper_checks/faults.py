"""Faults put into the code while a check runs: the check must then fail."""

import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from attention.validation import checked

_PACKAGES = ("attention", "upper", "lower", "sq", "lwe", "studies", "paper_checks")


@checked
@dataclass(frozen=True)
class Fault:
    """One function of the project replaced by a faulty one.

    Attributes
    ----------
    target : str
        Where it is defined: ``"attention.layer:attention_pattern"``, or ``"sq.oracles:SQOracle.asked"`` in a class.
    by : callable
        Makes the faulty function from the right one: see `given` and `returned`.
        says : str
        A description of the fault.

    Raises
    ------
    ValueError
        If the target is not a module and a name.

    Examples
    --------
    >>> import numpy as np
    >>> from attention import attention_pattern
    >>> fault = Fault("attention.layer:attention_pattern", given(lambda logits: -logits), "logits of the wrong sign")
    >>> with fault.injected(globals()):
    ...     attention_pattern(np.array([100.0, 0.0])).tolist()
    [3.720075976020836e-44, 1.0]
    >>> attention_pattern(np.array([100.0, 0.0])).tolist()
    [1.0, 3.720075976020836e-44]
    """

    target: str
    by: Callable[[Any], Any]
    says: str

    def __post_init__(self) -> None:
        module, _, name = self.target.partition(":")
        if module.partition(".")[0] not in _PACKAGES or not name:
            raise ValueError(
                f"target is {self.target!r}: module:name, in one of {', '.join(_PACKAGES)}, is needed."
            )

    @contextmanager
    def injected(self, *namespaces: dict[str, Any]) -> Iterator[None]:
        """Replace the right function by the faulty one, wherever the project or these namespaces name it."""
        place, _, name = self.target.partition(":")
        outer, _, name = name.rpartition(".")
        owner = pkgutil.resolve_name(f"{place}:{outer}" if outer else place)
        right = vars(owner)[name]
        wrong = self.by(right)
        if outer:
            setattr(owner, name, wrong)
        else:
            _replace(right, wrong, namespaces)
        try:
            yield
        finally:
            if outer:
                setattr(owner, name, right)
            else:
                _replace(wrong, right, namespaces)


def given(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """For `Fault.by`: change the first argument before the function is called.

    Examples
    --------
    >>> given(lambda number: -number)(abs)(3), given(lambda number: -number)(float)(3)
    (3, -3.0)
    """
    return lambda right: lambda first, *rest, **named: right(change(first), *rest, **named)


def returned(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """For `Fault.by`: change the result of the function before it is returned.

    Examples
    --------
    >>> returned(lambda number: -number)(abs)(-3)
    -3
    """
    return lambda right: lambda *rest, **named: change(right(*rest, **named))


def _replace(old: Any, new: Any, namespaces: tuple[dict[str, Any], ...]) -> None:
    # "from module import name" makes a new binding: every binding is replaced, also those of lazy imports
    loaded = [vars(one) for name, one in list(sys.modules.items()) if name.partition(".")[0] in _PACKAGES]
    for names in (*loaded, *namespaces):
        for name, value in list(names.items()):
            if value is old:
                names[name] = new
