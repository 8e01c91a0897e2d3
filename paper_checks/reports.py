"""Checks and their results for readers: pages in reStructuredText, text for a terminal, JSON."""

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from paper_checks.check import Basis, Check
from paper_checks.comparison import Kind
from paper_checks.faults import Fault
from paper_checks.registry import GROUPS
from paper_checks.running import CheckResult, Verdict

__all__ = ["check_to_json", "render_claims", "result_text", "summary_text"]

_NOTE = ".. Written by `attention-bounds check`: change the checks, not this page."
_COUNTED = {
    "holds": "hold",
    "fails": "fail",
    "could not be run": "could not be run",
    "skipped": "skipped",
    "not run": "not run",
}
_NOT_SEEN = {
    Verdict.HOLDS: "  <-- it does not see the error",
    Verdict.BROKEN: "  <-- it is to fail, not to break",
}


def render_claims(checks: Sequence[Check], results: Mapping[str, CheckResult]) -> dict[str, str]:
    """The pages of these checks.

    Parameters
    ----------
    checks : sequence of Check
        The checks, with those of a group next to each other.
    results : mapping of str to CheckResult
        The results, by identifier; checks without a result are shown as not run.

    Returns
    -------
    dict of str to str
        File names and their texts: ``index.rst`` and one for each group.
    """
    found = {one.id: results.get(one.id) for one in checks}
    verdicts = {name: "not run" if one is None else one.verdict.value for name, one in found.items()}
    groups: dict[str, list[Check]] = {}
    for one in checks:
        groups.setdefault(one.group, []).append(one)
    index = {
        "verdicts": _counted(verdicts.values()),
        "failed": sum(one is not None and one.injected is Verdict.FAILS for one in found.values()),
        "alarm": sum(one.false_alarm for one in checks),
        "counts": [
            [kind.value, *(sum((one.kind, one.basis) == (kind, basis) for one in checks) for basis in Basis)]
            for kind in Kind
        ],
        "groups": {
            group: (GROUPS.get(group, group), [_row(one, verdicts[one.id]) for one in members])
            for group, members in groups.items()
        },
    }
    pages = {"index.rst": _rendered("index.rst.j2", checks=checks, **index)}
    for group, members in groups.items():
        shown = [(one, found[one.id]) for one in members]
        pages[f"{group}.rst"] = _rendered("group.rst.j2", title=GROUPS.get(group, group), checks=shown)
    return pages


def result_text(check: Check, result: CheckResult) -> str:
    """The result of a check in a few lines: claim, source, and each measured figure beside the expected one."""
    verdict, seconds = result.verdict.value, f"{result.seconds:.1f} s"
    lines = [f"{verdict:<9}{check.id}  ({check.kind.value}; {check.basis.value}; {seconds})"]
    for name, text in _told(check, result):
        lines += textwrap.wrap(f"  {name:<9} {text}", 112, subsequent_indent=" " * 12, break_on_hyphens=False)
    return "\n".join(lines)


def summary_text(checks: Sequence[Check], results: Sequence[CheckResult]) -> str:
    """The number of checks that hold, their kinds and what they rest on; `checks` may include checks not run."""
    by_id = {one.id: one for one in checks}
    ran = [by_id[result.id] for result in results]
    kinds, bases = Counter(one.kind for one in ran), Counter(one.basis for one in ran)
    # a union bound: it does not need independence, although the checks share no randomness
    alarm = sum(one.false_alarm for one in ran)
    chance = f" (nominal chance that one of these refuses a true claim: {alarm:.2g})" if alarm else ""
    tried = [result.injected for result in results if result.injected is not None]
    lines = [
        f"{len(results)} check{'s' * (len(results) != 1)} in {sum(one.seconds for one in results):.3g} s: "
        f"{_counted(one.verdict.value for one in results) or '0 hold'}.",
        f"{', '.join(f'{kinds[kind]} {kind.value}' for kind in Kind)}{chance}; "
        f"{', '.join(f'{bases[basis]} {basis.value}' for basis in Basis)}.",
    ]
    if tried:
        failed = tried.count(Verdict.FAILS)
        lines.append(f"{failed} of {len(tried)} fail on their injected errors, as they must.")
    return "\n".join(lines)


def check_to_json(check: Check, result: CheckResult | None) -> dict[str, Any]:
    """A check and its result, as JSON values."""
    wrong = check.wrong
    return {
        "id": check.id,
        "claim": check.claim,
        "source": check.source,
        "kind": check.kind.value,
        "basis": check.basis.value,
        "how": check.how,
        "constants": _as_json(check.constants),
        "wrong": {"target": wrong.target, "says": wrong.says}
        if isinstance(wrong, Fault)
        else _as_json(wrong),
        "false_alarm": check.false_alarm,
        "needs": list(check.needs),
        "result": None if result is None else result.to_json(),
    }


def _told(check: Check, result: CheckResult) -> Iterator[tuple[str, str]]:
    yield "claim", check.claim
    yield "source", check.source
    if result.reason:
        yield "reason", result.reason
    for one in result.comparisons:
        mark = "" if one.holds else "  <-- does not hold"
        yield "measured", f"{one.what}: {one.measured}; expected {one.expected} ({one.rule}){mark}"
    if result.injected is not None:
        seen = _NOT_SEEN.get(result.injected, "")
        yield "injected", f"{check.injected}: {result.injected.value}{seen}"


def _counted(verdicts: Iterable[str]) -> str:
    return ", ".join(f"{number} {_COUNTED[one]}" for one, number in Counter(verdicts).most_common())


def _row(check: Check, verdict: str) -> list[str]:
    name = f":ref:`{check.id.partition('/')[2]} <{_anchor(check)}>`"
    return [name, _escaped(check.claim), check.kind.value, check.basis.value, verdict]


def _figures(result: CheckResult) -> list[list[str]]:
    return [
        [_escaped(text) for text in (one.what, one.measured, one.expected, one.rule)]
        for one in result.comparisons
    ]


def _anchor(check: Check) -> str:
    return "claim-" + check.id.replace("/", "-")


def _escaped(text: str) -> str:
    """Text with all markup escaped."""
    return re.sub(r"([\\`*_|<>])", r"\\\1", " ".join(text.split()))


def _rendered(template: str, **values: Any) -> str:
    pages = Environment(
        loader=PackageLoader("paper_checks"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    pages.filters |= {"anchor": _anchor, "escaped": _escaped, "figures": _figures}
    return pages.get_template(template).render(note=_NOTE, **values)


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _as_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(one) for one in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
