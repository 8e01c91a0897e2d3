"""Claims and their results for readers: pages in reStructuredText, text for a terminal, JSON."""

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

from attention.files import write_whole
from paper_checks.claim import Basis, Claim
from paper_checks.claims_folder import read_results
from paper_checks.running import ClaimResult, Verdict

_COUNTED = {"holds": "hold", "fails": "fail"}
_NOT_SEEN = {
    Verdict.HOLDS: "  <-- the check does not see the error",
    Verdict.BROKEN: "  <-- the check breaks and must fail",
}


def write_pages(folder: Path, claims: Sequence[Claim]) -> None:
    """Write ``index.rst`` and a page for each group of claims, with their results in the folder.

    Raises
    ------
    OSError
        If one cannot be written.
    """
    results = read_results(folder)
    pages = Environment(
        loader=PackageLoader("paper_checks"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    pages.filters |= {"anchor": lambda claim: "claim-" + claim.id.replace("/", "-"), "escaped": _escaped}
    groups = {group: list(members) for group, members in groupby(claims, lambda claim: claim.group)}
    verdicts = {one.id: results[one.id].verdict.value if one.id in results else "not run" for one in claims}
    failed = sum(one.id in results and results[one.id].injected is Verdict.FAILS for one in claims)
    texts = {
        "index": pages.get_template("index.rst.j2").render(
            claims=claims,
            groups=groups,
            verdicts=verdicts,
            counted=_counted(verdicts.values()),
            failed=failed,
        )
    }
    for group, members in groups.items():
        texts[group] = pages.get_template("group.rst.j2").render(claims=members, results=results)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_whole(folder / f"{name}.rst", text.encode())


def result_text(claim: Claim, result: ClaimResult) -> str:
    """The result of a claim in a few lines: claim, source, and each measured figure beside the expected one."""
    kind = "statistical; " if claim.false_alarm else ""
    lines = [f"{result.verdict.value:<9}{claim.id}  ({kind}{claim.basis.value}; {result.seconds:.1f} s)"]
    for name, text in _details(claim, result):
        lines += textwrap.wrap(f"  {name:<9} {text}", 112, subsequent_indent=" " * 12, break_on_hyphens=False)
    return "\n".join(lines)


def summary_text(claims: Sequence[Claim], results: Sequence[ClaimResult]) -> str:
    """The number of claims that hold, and what they rest on; `claims` may include claims not run."""
    by_id = {one.id: one for one in claims}
    ran = [by_id[result.id] for result in results]
    bases = Counter(one.basis for one in ran)
    statistical = [one.false_alarm for one in ran if one.false_alarm]
    # a union bound: it does not need independence, although the claims share no randomness
    chance = f" (nominal chance that one of these refuses a true claim: {sum(statistical):.2g})"
    tried = [result.injected for result in results if result.injected is not None]
    lines = [
        f"{len(results)} claim{'s' * (len(results) != 1)} in {sum(one.seconds for one in results):.3g} s: "
        f"{_counted(one.verdict.value for one in results) or '0 hold'}.",
        f"{', '.join(f'{bases[basis]} {basis.value}' for basis in Basis)}; "
        f"{len(statistical)} statistical{chance if statistical else ''}.",
    ]
    if tried:
        failed = tried.count(Verdict.FAILS)
        lines.append(f"{failed} of {len(tried)} fail on their injected errors, as they must.")
    return "\n".join(lines)


def claim_to_json(claim: Claim, result: ClaimResult | None) -> dict[str, Any]:
    """A claim and its result, as JSON values."""
    return {
        "id": claim.id,
        "claim": claim.text,
        "source": claim.source,
        "basis": claim.basis.value,
        "how": claim.how,
        "fault": claim.injected,
        "false_alarm": claim.false_alarm,
        "needs": list(claim.needs),
        "result": None if result is None else msgspec.to_builtins(msgspec.structs.asdict(result)),
    }


def _details(claim: Claim, result: ClaimResult) -> Iterator[tuple[str, str]]:
    yield "claim", claim.text
    yield "source", claim.source
    if result.reason:
        yield "reason", result.reason
    for one in result.comparisons:
        mark = "" if one.holds else "  <-- does not hold"
        yield "measured", f"{one.what}: {one.measured}; expected {one.expected} ({one.rule}){mark}"
    if result.injected is not None:
        mark = _NOT_SEEN.get(result.injected, "")
        yield "injected", f"{claim.injected}: {result.injected.value}{mark}"


def _counted(verdicts: Iterable[str]) -> str:
    return ", ".join(f"{number} {_COUNTED.get(one, one)}" for one, number in Counter(verdicts).most_common())


def _escaped(text: str) -> str:
    """Text with all markup escaped."""
    return re.sub(r"([\\`*_|<>])", r"\\\1", " ".join(text.split()))
