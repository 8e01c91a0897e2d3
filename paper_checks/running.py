"""Run claims one by one or in parallel; each gets a verdict, even if it raises."""

import contextlib
import enum
import time
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from attention.validation import NonNegativeInt, PositiveInt, checked
from paper_checks.claim import Claim
from paper_checks.comparison import Comparison
from paper_checks.faults import Fault
from runs import Cell, Scale, run


class Verdict(enum.Enum):
    """The verdict on a claim."""

    HOLDS = "holds"
    FAILS = "fails"
    BROKEN = "could not be run"
    SKIPPED = "skipped"


class ClaimResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of one claim.

    Attributes
    ----------
    id : str
        The claim's identifier.
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
    def passed(self) -> bool:
        """Whether it holds or was skipped, and failed on its injected error if that was tried."""
        seen = self.injected in (None, Verdict.FAILS, Verdict.SKIPPED)
        return seen and self.verdict in (Verdict.HOLDS, Verdict.SKIPPED)


@checked
def run_claim(
    claim: Claim, *, scale: Scale = Scale.QUICK, seed: NonNegativeInt = 0, inject: bool = False
) -> ClaimResult:
    """Run one claim; an exception inside it also gives a verdict, with the exception's message as the reason.

    Parameters
    ----------
    claim : Claim
        The claim.
    scale : Scale
        How much work to do.
    seed : int
        Seed of its randomness, which does not depend on other claims.
    inject : bool
        Whether to run it with its error, `Claim.fault`.
    """
    started = time.perf_counter()
    comparisons: tuple[Comparison, ...] = ()
    verdict, reason = Verdict.SKIPPED, " and ".join(claim.missing)
    if reason:
        reason += " is not installed"
    else:
        try:
            comparisons = _compare(claim, scale, seed, inject)
            verdict = Verdict.HOLDS if all(one.holds for one in comparisons) else Verdict.FAILS
        except Exception as error:  # the crash of one claim must not lose the others
            verdict, reason = Verdict.BROKEN, f"{type(error).__name__}: {error}"
    seconds = round(time.perf_counter() - started, 2)
    return ClaimResult(claim.id, verdict, comparisons, scale, seed, seconds, reason)


@checked
def run_claims(
    claims: Sequence[Claim],
    *,
    scale: Scale = Scale.QUICK,
    seed: NonNegativeInt = 0,
    jobs: PositiveInt = 1,
    inject: bool = False,
    progress: bool = False,
) -> Iterator[ClaimResult]:
    """Run claims and yield each result as soon as it exists, in the order in which they end.

    Parameters
    ----------
    claims : sequence of Claim
        The claims.
    scale : Scale
        quick: all in minutes; full: the sizes of the quoted figures.
    seed : int
        Seed of every random choice.
    jobs : int
        Processes that share the work, each in one thread.
    inject : bool
        Run each claim again, quickly, with an injected error: it must fail.
    progress : bool
        As of `runs.run`.
    """
    isolated = jobs > 1 and len(claims) > 1
    options = {"scale": scale.value, "seed": seed, "inject": inject}
    cells = [Cell(_computed, {"id": one.id, **options}, {"claim": one}, one.id) for one in claims]
    for result in run(cells, jobs=jobs if isolated else 1, isolated=isolated, progress=progress):
        if result.status == "done":
            yield msgspec.convert(result.value, ClaimResult)
        else:
            name, reason = result.cell.arguments["id"], f"{result.message} Run it alone."
            yield ClaimResult(name, Verdict.BROKEN, (), scale, seed, 0.0, reason)


def _computed(id: str, scale: str, seed: int, inject: bool, claim: Claim) -> Any:
    result = run_claim(claim, scale=Scale(scale), seed=seed)
    if inject:
        result = msgspec.structs.replace(result, injected=run_claim(claim, seed=seed, inject=True).verdict)
    return msgspec.to_builtins(result)


def _compare(claim: Claim, scale: Scale, seed: int, inject: bool) -> tuple[Comparison, ...]:
    fault: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    numbers: Any = {}
    if inject and isinstance(claim.fault, Fault):
        # in another process the function arrives without its module
        fault = claim.fault.injected(getattr(claim.run, "__globals__", {}))
    elif inject:
        numbers = claim.fault
    with fault:
        rng = np.random.default_rng([seed, zlib.crc32(claim.id.encode())])
        comparisons = tuple(claim.run(scale, rng, **numbers))
    if not comparisons:
        raise ValueError("nothing was compared")
    alarms = sum(one.false_alarm for one in comparisons)
    if alarms > claim.false_alarm * (1 + 1e-9) or (claim.false_alarm and not alarms):
        raise ValueError(
            f"its intervals refuse a true claim with chance {alarms:.3g}, it states {claim.false_alarm:.3g}"
        )
    return comparisons
