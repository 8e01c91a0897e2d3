"""A claim: a function whose docstring is the claim, with its source and a fault on which its check must fail."""

import enum
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

from attention.validation import Real, checked
from paper_checks.comparison import Comparison
from paper_checks.faults import Fault

Run: TypeAlias = Callable[..., Iterable[Comparison]]
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*/[a-z0-9]+(-[a-z0-9]+)*")


class Basis(enum.Enum):
    """What the main part of a claim rests on besides the check; `Claim.how` says which parts are weaker."""

    PROVED = "proved"
    """A proof is known: in the source named, or in a docstring of this project. The check is a second look."""
    DERIVED = "derived here"
    """Derived here from the sources, not a theorem of theirs; checked only within the range of the check."""
    MEASURED = "only measured"
    """An observation at the named sizes. It may not hold beyond them."""


@checked
@dataclass(frozen=True)
class Claim:
    """One claim and the function that checks it.

    Attributes
    ----------
    id : str
        Group and name in lower case, such as ``"crude-sum/exact-at-zero"``.
    source : str
        Who says so, and where.
    basis : Basis
        Proved, derived here, or only measured.
    run : callable
        ``run(scale, rng)`` gives the comparisons. The first paragraph of its docstring is the claim, the others say how
        it is checked and what the check leaves open. The numbers of the claim are the defaults of its keyword-only
        arguments.
    fault : Fault or mapping of str to value
        What makes the check fail: a fault in the code it calls, or other values of some numbers of the claim. The
        expected values do not change.
    false_alarm : float
        The largest chance that a statistical check refuses a true claim; 0 for other checks.
    needs : tuple of str
        Modules that the check needs.
    slow : bool
        Whether the check takes seconds at the quick scale; tests run it only if they are asked to.

    Raises
    ------
    ValueError
        If the identifier is not of that form, the function has no docstring, or the fault changes no number of it.
    """

    id: str
    source: str
    basis: Basis
    run: Run = field(repr=False)
    fault: Mapping[str, Any] | Fault
    false_alarm: Annotated[float, Real(least=0, below=1)] = 0.0
    needs: tuple[str, ...] = ()
    slow: bool = False

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ValueError(
                f"A claim is called group/name in lower-case words joined by hyphens: {self.id!r} was given."
            )
        if not self.text:
            raise ValueError(f"{self.id}: the function has no docstring; its first paragraph is the claim.")
        numbers, fault = self.numbers, self.fault
        if not isinstance(fault, Fault) and not (
            fault and all(name in numbers and numbers[name] != value for name, value in fault.items())
        ):
            raise ValueError(
                f"{self.id}: fault is a Fault, or other values of some keyword arguments "
                f"({', '.join(numbers) or 'there are none'}), so that the check can be seen to fail."
            )

    @property
    def text(self) -> str:
        """The claim, as a sentence or a few."""
        return self._split_docstring()[0]

    @property
    def how(self) -> str:
        """How the claim is checked, and what the check leaves open."""
        return self._split_docstring()[1]

    @property
    def group(self) -> str:
        """The part of the identifier before the slash."""
        return self.id.partition("/")[0]

    @property
    def heading(self) -> str:
        """The heading of the group: the first line of the docstring of the function's module."""
        return (sys.modules[self.run.__module__].__doc__ or self.group).partition("\n")[0].rstrip(".")

    @property
    def numbers(self) -> dict[str, Any]:
        """The numbers that the claim states."""
        parameters = inspect.signature(self.run).parameters.values()
        return {one.name: one.default for one in parameters if one.kind is one.KEYWORD_ONLY}

    @property
    def injected(self) -> str:
        """The error on which it must fail: the fault and its place, or the wrong numbers beside the right ones."""
        if isinstance(self.fault, Fault):
            return f"{self.fault.says} ({self.fault.target})"
        numbers = self.numbers
        return ", ".join(
            f"{name} = {value} in place of {numbers[name]}" for name, value in self.fault.items()
        )

    @property
    def missing(self) -> tuple[str, ...]:
        """The required modules that are not installed."""
        return tuple(name for name in self.needs if importlib.util.find_spec(name) is None)

    def _split_docstring(self) -> tuple[str, str]:
        first, _, rest = inspect.cleandoc(self.run.__doc__ or "").partition("\n\n")
        return " ".join(first.split()), " ".join(rest.split())


def claim(id: str, **parts: Any) -> Callable[[Run], Claim]:
    """Make a claim of the function below: the arguments are those of `Claim`.

    Examples
    --------
    >>> from paper_checks import Basis, claim, equal, run_claim
    >>> @claim("counting/pairs", source="any textbook", basis=Basis.PROVED, fault={"pairs": 44})
    ... def pairs(scale, rng, *, pairs=45):
    ...     '''Ten things have 45 pairs.
    ...
    ...     All pairs are listed.
    ...     '''
    ...     return [equal("pairs of ten things", sum(1 for a in range(10) for b in range(a)), pairs)]
    >>> pairs.text
    'Ten things have 45 pairs.'
    >>> run_claim(pairs).verdict
    <Verdict.HOLDS: 'holds'>
    """
    return lambda run: Claim(id=id, run=run, **parts)
