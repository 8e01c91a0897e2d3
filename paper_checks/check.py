"""A check: one claim, its source, the certainty of a check of it, and the code that checks it."""

import enum
import importlib.util
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Annotated, Any, TypeAlias

from numpy.random import Generator

from attention.validation import Real, checked
from paper_checks.comparison import Comparison, Kind
from paper_checks.faults import Fault
from runs import Scale

__all__ = ["Basis", "Check", "Constants", "Run", "Scale", "check"]


class Constants(SimpleNamespace):
    """The numbers a claim states, as attributes and by name."""

    def __getitem__(self, name: str) -> Any:
        """The number of that name."""
        return getattr(self, name)


class Basis(enum.Enum):
    """What the claim rests on besides the check; for a claim in several parts, what its main part rests on.

    The words of `Check.how` say which parts are weaker.
    """

    PROVED = "proved"
    """A proof is known: in the source named, or in a docstring of this project. The check is a second look."""
    DERIVED = "derived here"
    """Derived here from the sources, not a theorem of theirs; checked only within the range of the check."""
    MEASURED = "only measured"
    """An observation at the named sizes. It may not hold beyond them."""


Run: TypeAlias = Callable[[Constants, Scale, Generator], Iterable[Comparison]]
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*/[a-z0-9]+(-[a-z0-9]+)*")


@checked
@dataclass(frozen=True)
class Check:
    """One claim and the code that checks it.

    Attributes
    ----------
    id : str
        Group and name in lower case, such as ``"crude-sum/exact-at-zero"``.
    claim : str
        The claim, as one sentence.
    source : str
        Who says so, and where.
    kind : Kind
        Exact, numeric or statistical.
    basis : Basis
        Proved, derived here, or only measured.
    run : callable
        ``run(claim, scale, rng)`` gives the comparisons; every number of the claim is an attribute of the first
        argument. Its docstring says how the claim is checked, and what the check leaves open.
    constants : mapping of str to value
        The numbers of the claim.
    wrong : Fault or mapping of str to value
        What makes the check fail: a fault in the code it calls, or constants that spoil the measurement. The expected
        values do not change.
    false_alarm : float
        The largest chance that a statistical check refuses a true claim; 0 for other checks.
    needs : tuple of str
        Modules that the check needs.

    Raises
    ------
    ValueError
        If the identifier is not of that form, the wrong constants are not among the constants or not different from
        them, or the chance of a false alarm does not go with the kind.
    """

    id: str
    claim: str
    source: str
    kind: Kind
    basis: Basis
    run: Run = field(repr=False)
    constants: Mapping[str, Any] = field(default_factory=dict)
    wrong: Mapping[str, Any] | Fault = field(default_factory=dict)
    false_alarm: Annotated[float, Real(least=0, below=1)] = 0.0
    needs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ValueError(
                f"A check is called group/name in lower-case words joined by hyphens: {self.id!r} was given."
            )
        known = [] if isinstance(self.wrong, Fault) else list(self.wrong.items())
        changed = [name in self.constants and self.constants[name] != value for name, value in known]
        if not isinstance(self.wrong, Fault) and not (changed and all(changed)):
            raise ValueError(
                f"{self.id}: wrong is a Fault, or other values of some of the constants "
                f"({', '.join(self.constants) or 'there are none'}), so that the check can be seen to fail."
            )
        if (self.kind is Kind.STATISTICAL) != (self.false_alarm > 0):
            raise ValueError(
                f"{self.id}: a statistical check, and no other, has a false_alarm above 0: "
                f"{self.false_alarm} was given."
            )

    @property
    def how(self) -> str:
        """How the claim is checked, and what the check leaves open."""
        return " ".join((self.run.__doc__ or "").split())

    @property
    def group(self) -> str:
        """The part of the identifier before the slash."""
        return self.id.partition("/")[0]

    @property
    def injected(self) -> str:
        """The error on which it must fail: the fault and its place, or the wrong constants beside the right ones."""
        if isinstance(self.wrong, Fault):
            return f"{self.wrong.says} ({self.wrong.target})"
        return ", ".join(
            f"{name} = {_shown(value)} in place of {_shown(self.constants[name])}"
            for name, value in self.wrong.items()
        )

    @property
    def missing(self) -> tuple[str, ...]:
        """The required modules that are not installed."""
        return tuple(name for name in self.needs if importlib.util.find_spec(name) is None)


def check(id: str, **parts: Any) -> Callable[[Run], Check]:
    """Make a check of the function below: its arguments are those of `Check`.

    Examples
    --------
    >>> from paper_checks import Basis, Kind, check, equal, run_check
    >>> @check(
    ...     "counting/pairs",
    ...     claim="Ten things have 45 pairs.",
    ...     source="any textbook",
    ...     kind=Kind.EXACT,
    ...     basis=Basis.PROVED,
    ...     constants={"pairs": 45},
    ...     wrong={"pairs": 44},
    ... )
    ... def pairs(claim, scale, rng):
    ...     'All pairs are listed.'
    ...     found = sum(1 for a in range(10) for b in range(a))
    ...     return [equal("pairs of ten things", found, claim.pairs)]
    >>> run_check(pairs).verdict
    <Verdict.HOLDS: 'holds'>
    """
    return lambda run: Check(id=id, run=run, **parts)


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
