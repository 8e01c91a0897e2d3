"""A check: one claim, where it comes from, how sure a check of it can be, and the code that checks it."""

import enum
import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from numpy.random import Generator

from attention.validation import non_negative, require_callable, require_instance, require_mapping
from paper_checks.comparison import Comparison, Kind
from paper_checks.faults import Fault
from paper_checks.fingerprint import fingerprint

__all__ = ["Basis", "Check", "Constants", "Run", "Scale", "check"]

Constants: TypeAlias = Mapping[str, Any]
"""The numbers a claim states, by name."""


class Basis(enum.Enum):
    """What the claim rests on, the check aside; of a claim in several parts, what its main part rests on.

    The words of `Check.how` say which parts are weaker.
    """

    PROVED = "proved"
    """A proof is known: in the source named, or in a docstring of this project. The check is a second look."""
    DERIVED = "derived here"
    """Reasoned here from what the sources say, not a theorem of theirs; checked as far as the check goes."""
    MEASURED = "only measured"
    """An observation at the sizes that are named. Nothing says that it goes on beyond them."""


class Scale(enum.Enum):
    """How much work a check does."""

    QUICK = "quick"
    """All checks together in minutes."""
    FULL = "full"
    """The sizes that the figures are quoted for."""


Run: TypeAlias = Callable[[Constants, Scale, Generator], Sequence[Comparison]]
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*/[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Check:
    """One claim and the code that checks it.

    Attributes
    ----------
    id : str
        Group and name in lower case, such as ``"crude-sum/exact-at-zero"``.
    claim : str
        What is claimed: a sentence.
    source : str
        Who says so, and where.
    kind : Kind
        Exact, numeric or statistical.
    basis : Basis
        Proved, derived here, or only measured.
    how : str
        How it is checked, and what the check leaves open.
    run : callable
        ``run(constants, scale, rng)`` gives the comparisons; every number of the claim comes from the constants.
    constants : mapping of str to value
        The numbers of the claim.
    wrong : Fault or mapping of str to value
        What makes it fail: a fault in the code it calls, or constants that spoil what it measures. What it expects
        stays as it is.
    false_alarm : float
        The chance, at most, that a statistical check refuses a true claim; 0 for the others.
    needs : tuple of str
        Modules without which it cannot be run.

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
    how: str
    run: Run = field(repr=False)
    constants: Constants = field(default_factory=dict)
    wrong: Constants | Fault = field(default_factory=dict)
    false_alarm: float = 0.0
    needs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("id", "claim", "source", "how"):
            require_instance(name, getattr(self, name), str, needed="a text")
        require_instance("kind", self.kind, Kind, needed="a Kind")
        require_instance("basis", self.basis, Basis, needed="a Basis")
        require_callable("run", self.run)
        require_mapping("constants", self.constants)
        if not isinstance(self.wrong, Fault):
            require_mapping("wrong", self.wrong)
        non_negative("false_alarm", self.false_alarm)
        if not _ID.fullmatch(self.id):
            raise ValueError(
                f"A check is called group/name in lower-case words joined by hyphens: {self.id!r} was given."
            )
        if not isinstance(self.wrong, Fault) and (
            not self.wrong
            or any(
                name not in self.constants or self.constants[name] == value
                for name, value in self.wrong.items()
            )
        ):
            raise ValueError(
                f"{self.id}: wrong is a Fault, or other values of some of the constants "
                f"({', '.join(self.constants) or 'there are none'}), so that the check can be seen to fail."
            )
        if (self.kind is Kind.STATISTICAL) != (0 < self.false_alarm < 1):
            raise ValueError(
                f"{self.id}: a statistical check, and no other, has a false_alarm between 0 and 1: "
                f"{self.false_alarm} was given."
            )
        object.__setattr__(self, "constants", dict(self.constants))
        if not isinstance(self.wrong, Fault):
            object.__setattr__(self, "wrong", dict(self.wrong))

    @property
    def group(self) -> str:
        """The part of the identifier before the slash."""
        return self.id.partition("/")[0]

    @property
    def missing(self) -> tuple[str, ...]:
        """The modules it needs that are not installed."""
        return tuple(name for name in self.needs if importlib.util.find_spec(name) is None)

    @property
    def fingerprint(self) -> str:
        """A digest of its code, that of the helpers it calls and its constants, words aside.

        A result of other code shows by it. What the library does is no part of it.
        """
        return fingerprint(
            self.run, extra=(repr(sorted(self.constants.items())),), within="paper_checks.claims"
        )


def check(
    id: str,
    *,
    claim: str,
    source: str,
    kind: Kind,
    basis: Basis,
    how: str,
    constants: Constants,
    wrong: Constants | Fault,
    false_alarm: float = 0.0,
    needs: tuple[str, ...] = (),
) -> Callable[[Run], Check]:
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
    ...     how="All pairs are listed.",
    ...     constants={"pairs": 45},
    ...     wrong={"pairs": 44},
    ... )
    ... def pairs(constants, scale, rng):
    ...     found = sum(1 for a in range(10) for b in range(a))
    ...     return [equal("pairs of ten things", found, constants["pairs"])]
    >>> run_check(pairs).verdict
    <Verdict.HOLDS: 'holds'>
    """

    def wrapped(run: Run) -> Check:
        return Check(
            id=id,
            claim=claim,
            source=source,
            kind=kind,
            basis=basis,
            how=how,
            run=run,
            constants=constants,
            wrong=wrong,
            false_alarm=false_alarm,
            needs=needs,
        )

    return wrapped
