"""Results of checks in words, for a terminal and for machines."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from paper_checks.check import Basis, Check
from paper_checks.comparison import Kind
from paper_checks.faults import Fault
from paper_checks.running import CheckResult, Verdict

__all__ = ["check_to_json", "constant_text", "injected_error", "result_text", "summary_text", "wrong_results"]

_WIDTH = 112


def result_text(check: Check, result: CheckResult) -> str:
    """What came of a check: its claim and source, and each figure measured beside the one expected.

    Parameters
    ----------
    check : Check
        The check.
    result : CheckResult
        What came of it.

    Returns
    -------
    str
        A few lines without an end of line after the last.
    """
    lines = [
        f"{result.verdict.value:<9}{check.id}  ({check.kind.value}; {check.basis.value}; {result.seconds:.1f} s)"
    ]
    lines += _folded("claim", check.claim) + _folded("source", check.source)
    if result.reason:
        lines += _folded("reason", result.reason)
    for one in result.comparisons:
        mark = "" if one.holds else "  <-- does not hold"
        lines += _folded(
            "measured", f"{one.what}: {one.measured}; expected {one.expected} ({one.rule}){mark}"
        )
    if result.injected is not None:
        lines += _folded(
            "injected",
            f"{injected_error(check)}: {result.injected.value}{_NOT_SEEN.get(result.injected, '')}",
        )
    return "\n".join(lines)


def summary_text(checks: Sequence[Check], results: Sequence[CheckResult]) -> str:
    """How many checks hold, of which kinds they are and what they rest on.

    Parameters
    ----------
    checks : sequence of Check
        The checks that were run, and possibly more.
    results : sequence of CheckResult
        What came of them.

    Returns
    -------
    str
    """
    by_id = {one.id: one for one in checks}
    ran = [by_id[result.id] for result in results]
    counts = Counter(result.verdict for result in results)
    verdicts = [f"{counts[Verdict.HOLDS]} hold"]
    verdicts += [f"{counts[verdict]} {words}" for verdict, words in _OTHERS if counts[verdict]]
    kinds = Counter(one.kind for one in ran)
    bases = Counter(one.basis for one in ran)
    # a union bound: the checks share no randomness, but nothing depends on that
    alarm = sum(one.false_alarm for one in ran)
    seconds = sum(result.seconds for result in results)
    tried = [result for result in results if result.injected is not None]
    failed = sum(result.injected is Verdict.FAILS for result in tried)
    return "\n".join(
        [
            f"{len(results)} check{'s' * (len(results) != 1)} in {seconds:.3g} s: {', '.join(verdicts)}.",
            f"{', '.join(f'{kinds[kind]} {kind.value}' for kind in Kind)}"
            + (f" (nominal chance that one of these refuses a true claim: {alarm:.2g})" if alarm else "")
            + f"; {', '.join(f'{bases[basis]} {basis.value}' for basis in Basis)}.",
            *([f"{failed} of {len(tried)} fail on their injected errors, as they must."] if tried else []),
        ]
    )


def check_to_json(check: Check, result: CheckResult | None) -> dict[str, Any]:
    """A check and what came of it, as JSON has it."""
    return {
        "id": check.id,
        "claim": check.claim,
        "source": check.source,
        "kind": check.kind.value,
        "basis": check.basis.value,
        "how": check.how,
        "constants": {name: _as_json(value) for name, value in check.constants.items()},
        "wrong": {"target": check.wrong.target, "says": check.wrong.says}
        if isinstance(check.wrong, Fault)
        else {name: _as_json(value) for name, value in check.wrong.items()},
        "false_alarm": check.false_alarm,
        "needs": list(check.needs),
        "result": None if result is None else result.to_json(),
    }


def injected_error(check: Check) -> str:
    """What the check must fail on: the fault and where it is, or the wrong constants beside the right ones."""
    if isinstance(check.wrong, Fault):
        return f"{check.wrong.says} ({check.wrong.target})"
    return ", ".join(
        f"{name} = {constant_text(value)} in place of {constant_text(check.constants[name])}"
        for name, value in check.wrong.items()
    )


def constant_text(value: Any) -> str:
    """A constant as it is shown."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def wrong_results(results: Iterable[CheckResult]) -> list[CheckResult]:
    """Those that fail or could not be run, or that did not fail on their injected error."""
    return [one for one in results if not one.as_it_must]


_NOT_SEEN = {
    Verdict.HOLDS: "  <-- it does not see the error",
    Verdict.BROKEN: "  <-- it is to fail, not to break",
}
_OTHERS = (
    (Verdict.FAILS, "fail"),
    (Verdict.BROKEN, "could not be run"),
    (Verdict.SKIPPED, "skipped"),
)


def _folded(name: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=f"  {name:<9} ", subsequent_indent=" " * 12, break_on_hyphens=False
    )


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _as_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(one) for one in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
