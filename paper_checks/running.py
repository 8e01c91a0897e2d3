"""Run checks one by one or in parallel; each gets a verdict, even if it raises."""

import contextlib
import enum
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attention.validation import NonNegativeInt, PositiveInt, checked
from paper_checks.check import Check, Constants
from paper_checks.comparison import Comparison, Kind
from paper_checks.faults import Fault
from runs import Cell, Scale, run

__all__ = ["CheckResult", "Verdict", "result_from_json", "run_check", "run_checks"]


class Verdict(enum.Enum):
    """The verdict on a check."""

    HOLDS = "holds"
    FAILS = "fails"
    BROKEN = "could not be run"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class CheckResult:
    """The result of one check.

    Attributes
    ----------
    id : str
        The check's identifier.
    verdict : Verdict
        It holds if every comparison does.
    comparisons : tuple of Comparison
        The measured values beside the expected ones.
    scale : Scale
        How much work was done.
    seed : int
        The seed of its randomness.
    seconds : float
        How long it took.
    reason : str
        Why it could not be run or was skipped.
    injected : Verdict or None
        The verdict on its injected error, where it must fail; None if that was not tried.
    """

    id: str
    verdict: Verdict
    comparisons: tuple[Comparison, ...]
    scale: Scale
    seed: int
    seconds: float
    reason: str = ""
    injected: Verdict | None = None

    @property
    def as_it_must(self) -> bool:
        """Whether all is well: it holds or was skipped, and it failed on its injected error if that was tried."""
        return self.verdict in (Verdict.HOLDS, Verdict.SKIPPED) and self.injected in (
            None,
            Verdict.FAILS,
            Verdict.SKIPPED,
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "id": self.id,
            "verdict": self.verdict.value,
            "scale": self.scale.value,
            "seed": self.seed,
            "seconds": round(self.seconds, 2),
            "reason": self.reason,
            "injected": None if self.injected is None else self.injected.value,
            "comparisons": [{**vars(one), "kind": one.kind.value} for one in self.comparisons],
        }


def result_from_json(data: Mapping[str, Any]) -> CheckResult:
    """The result that `CheckResult.to_json` wrote.

    Raises
    ------
    ValueError
        If the value is not such a result.
    """
    try:
        comparisons = tuple(Comparison(**one | {"kind": Kind(one["kind"])}) for one in data["comparisons"])
        injected = None if data["injected"] is None else Verdict(data["injected"])
        parsed = {"verdict": Verdict(data["verdict"]), "scale": Scale(data["scale"])}
        return CheckResult(**{**data, **parsed, "injected": injected, "comparisons": comparisons})
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"This is no result of a check: one as it was written is needed ({error})."
        ) from None


@checked
def run_check(
    check: Check, *, scale: Scale = Scale.QUICK, seed: NonNegativeInt = 0, inject: bool = False
) -> CheckResult:
    """Run one check.

    Parameters
    ----------
    check : Check
        The check.
    scale : Scale
        How much work to do.
    seed : int
        Seed of its randomness, which does not depend on other checks.
    inject : bool
        Whether to run it with its error, `Check.wrong`.

    Returns
    -------
    CheckResult
        An exception inside the check also gives a verdict, with the exception's message as the reason.
    """
    constants, wrong = dict(check.constants), check.wrong if inject else {}
    fault: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if isinstance(wrong, Fault):
        # in another process the function arrives without its module
        fault = wrong.injected(getattr(check.run, "__globals__", {}))
    else:
        constants |= wrong
    comparisons: tuple[Comparison, ...] = ()
    started, reason = time.perf_counter(), ""
    if check.missing:
        verdict, reason = Verdict.SKIPPED, f"{' and '.join(check.missing)} is not installed"
    else:
        try:
            rng = np.random.default_rng([seed, zlib.crc32(check.id.encode())])
            with fault:
                comparisons = tuple(check.run(Constants(**constants), scale, rng))
            _keeps_its_word(check, comparisons)
            verdict = Verdict.HOLDS if all(one.holds for one in comparisons) else Verdict.FAILS
        except Exception as error:  # one check's crash must not lose the others
            verdict, reason = Verdict.BROKEN, f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - started
    return CheckResult(check.id, verdict, comparisons, scale, seed, seconds, reason)


@checked
def run_checks(
    checks: Sequence[Check],
    *,
    scale: Scale = Scale.QUICK,
    seed: NonNegativeInt = 0,
    jobs: PositiveInt = 1,
    inject: bool = False,
    progress: bool = False,
) -> Iterator[CheckResult]:
    """Run checks and yield each result as soon as it exists.

    Parameters
    ----------
    checks : sequence of Check
        The checks.
    scale, seed
        As of `run_check`.
    jobs : int
        The number of processes that share the work; each computes in one thread.
    inject : bool
        Whether each check is run again on its injected error, at the quick scale; it must fail there.
    progress : bool
        As of `runs.run`.

    Yields
    ------
    CheckResult
        With several jobs, in the order in which they end.

    Raises
    ------
    ValueError
        If jobs is below 1.
    """
    isolated = jobs > 1 and len(checks) > 1
    options = {"scale": scale.value, "seed": seed, "inject": inject}
    work = {Cell(_computed, {"id": one.id, **options}, {"check": one}, one.id): one for one in checks}
    for result in run(work, jobs=jobs if isolated else 1, isolated=isolated, progress=progress):
        check = work[result.cell]
        if result.status == "done":
            yield result_from_json(result.value)
        else:
            reason = f"{result.message} Run it alone."
            yield CheckResult(check.id, Verdict.BROKEN, (), scale, seed, 0.0, reason)


def _computed(id: str, scale: str, seed: int, inject: bool, check: Check) -> dict[str, Any]:
    return _run_twice(check, Scale(scale), seed, inject).to_json()


def _run_twice(check: Check, scale: Scale, seed: int, inject: bool) -> CheckResult:
    result = run_check(check, scale=scale, seed=seed)
    if not inject:
        return result
    return replace(result, injected=run_check(check, seed=seed, inject=True).verdict)


def _keeps_its_word(check: Check, comparisons: Sequence[Comparison]) -> None:
    """Check that the comparisons match the kind and the false-alarm rate that the check states."""
    if not comparisons:
        raise ValueError("nothing was compared")
    for one in comparisons:
        if one.kind.rank > check.kind.rank:
            raise ValueError(f"{one.what!r} is {one.kind.value}, the check says {check.kind.value}")
    if check.kind is Kind.STATISTICAL and not any(one.kind is Kind.STATISTICAL for one in comparisons):
        raise ValueError("it says statistical and has no interval")
    alarms = sum(one.false_alarm for one in comparisons)
    if alarms > check.false_alarm * (1 + 1e-9):
        raise ValueError(
            f"its intervals fail a true claim with chance {alarms:.3g}, it states {check.false_alarm:.3g}"
        )
