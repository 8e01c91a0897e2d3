"""The claims page in reStructuredText: an overview, and a page for each group, all of it from checks and results."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from paper_checks.check import Basis, Check, Scale
from paper_checks.comparison import Kind
from paper_checks.registry import GROUPS
from paper_checks.rst import escaped, heading
from paper_checks.running import CheckResult, Verdict
from paper_checks.words import injected_error

__all__ = ["render_claims"]

_NOTE = ".. Written by `attention-bounds check`: change the checks, not this page."
_KINDS = {
    Kind.EXACT: "enumeration, symbols, or whole and rational numbers: equal or not",
    Kind.NUMERIC: "floating-point numbers, within a tolerance that is stated",
    Kind.STATISTICAL: "random draws: an interval, and the chance that a true claim is refused",
}
_BASES = {
    Basis.PROVED: "a proof is known, in the source named or in a docstring of this project; the check is a second look",
    Basis.DERIVED: "reasoned here from what the sources say, and no theorem of theirs",
    Basis.MEASURED: "seen at the sizes that are named; nothing says that it goes on beyond them",
}


def render_claims(checks: Sequence[Check], results: Mapping[str, CheckResult]) -> dict[str, str]:
    """The pages of these checks.

    Parameters
    ----------
    checks : sequence of Check
        The checks, those of a group next to one another.
    results : mapping of str to CheckResult
        What came of them, by identifier; those without are shown as not run.

    Returns
    -------
    dict of str to str
        File names and their texts: ``index.rst`` and one for each group.
    """
    groups: dict[str, list[Check]] = {}
    for one in checks:
        groups.setdefault(one.group, []).append(one)
    pages = {"index.rst": "\n".join(_index(groups, results)) + "\n"}
    for group, members in groups.items():
        pages[f"{group}.rst"] = "\n".join(_page(group, members, results)) + "\n"
    return pages


def _index(groups: Mapping[str, Sequence[Check]], results: Mapping[str, CheckResult]) -> Iterator[str]:
    checks = [one for members in groups.values() for one in members]
    verdicts = Counter(_verdict(results.get(one.id)) for one in checks)
    yield from (_NOTE, "", *heading("Claims, checked one by one", "="))
    yield f"{len(checks)} claims: {', '.join(f'{n} {_COUNTED[verdict]}' for verdict, n in verdicts.most_common())}."
    failed = sum(one.id in results and results[one.id].injected is Verdict.FAILS for one in checks)
    yield "Each is a check that can be run and that can fail: run with an error injected, for most of them a fault in"
    yield f"the library and for the others a wrong constant, {failed} of {len(checks)} were seen to fail."
    yield "This page is written by the first of these commands:"
    yield from ("", ".. code-block:: sh", "")
    yield "   attention-bounds check --scale full --inject   # every claim, at the sizes that are quoted, and its error"
    yield "   attention-bounds check                         # every claim, in minutes"
    yield f"   attention-bounds check {next(iter(groups), 'layer')}                   # one group"
    yield f"   attention-bounds check {checks[0].id if checks else 'layer/row-form'} --json   # one claim, in JSON"
    yield from ("", "How sure a check is of what it compares:", "")
    yield from _terms({kind.value: text for kind, text in _KINDS.items()})
    alarm = sum(one.false_alarm for one in checks)
    yield f"If every claim is true, the chance that some statistical check refuses one is nominally {alarm:.2g}: the"
    yield "sum over all intervals. Those of Student's t and of fitted slopes are approximate, and a rule that asks for"
    yield "the whole interval on one side of a bound (``surely_above``, ``surely_below``) is for figures far from it."
    yield from ("", "What a claim rests on, the check aside:", "")
    yield from _terms({basis.value: text for basis, text in _BASES.items()})
    yield from _table(
        ("Claims", *(basis.value for basis in Basis)),
        [
            (
                kind.value,
                *(str(sum(one.kind is kind and one.basis is basis for one in checks)) for basis in Basis),
            )
            for kind in Kind
        ],
        widths=(25, 25, 25, 25),
    )
    for group, members in groups.items():
        yield from heading(GROUPS.get(group, group), "-")
        yield from _table(
            ("Check", "Claim", "Kind", "Rests on", "Verdict"),
            [
                (
                    f":ref:`{one.id.partition('/')[2]} <{_anchor(one)}>`",
                    escaped(one.claim),
                    one.kind.value,
                    one.basis.value,
                    _verdict(results.get(one.id)),
                )
                for one in members
            ],
            widths=(20, 46, 11, 12, 11),
        )
    yield from (".. toctree::", "   :hidden:", "")
    yield from (f"   {group}" for group in groups)


def _page(group: str, members: Sequence[Check], results: Mapping[str, CheckResult]) -> Iterator[str]:
    yield from (_NOTE, "", *heading(GROUPS.get(group, group), "="))
    for one in members:
        result = results.get(one.id)
        yield from (f".. _{_anchor(one)}:", "", *heading(one.id, "-"))
        yield from (f"**{escaped(one.claim)}**", "")
        yield f":Verdict: {_verdict(result)}{_circumstances(result)}"
        yield f":Source: {escaped(one.source)}"
        yield f":Rests on: {one.basis.value}"
        yield f":Check: {one.kind.value}" + (
            f"; refuses a true claim with a chance of at most {one.false_alarm:.2g}"
            if one.false_alarm
            else ""
        )
        yield f":How: {escaped(one.how)}"
        yield f":Injected error: {escaped(injected_error(one))}{_seen(result)}"
        if one.needs:
            yield f":Needs: {', '.join(one.needs)}"
        yield ""
        if result is not None and result.comparisons:
            yield from _table(
                ("What", "Measured", "Expected", "Rule"),
                [
                    tuple(escaped(text) for text in (row.what, row.measured, row.expected, row.rule))
                    for row in result.comparisons
                ],
                widths=(40, 22, 16, 22),
            )
        yield from (".. raw:: html", "", "   <details><summary>The code</summary>", "")
        yield f".. literalinclude:: ../../{one.run.__module__.replace('.', '/')}.py"
        yield from ("   :language: python", f"   :pyobject: {one.run.__name__}", "")
        yield from (".. raw:: html", "", "   </details>", "")


def _circumstances(result: CheckResult | None) -> str:
    if result is None:
        return ""
    if result.verdict is Verdict.SKIPPED or result.reason:
        return f" ({escaped(result.reason)})"
    sizes = "the sizes that are quoted" if result.scale is Scale.FULL else "smaller sizes"
    return f", at {sizes} (``--scale {result.scale.value}``, seed {result.seed})"


def _seen(result: CheckResult | None) -> str:
    if result is None or result.injected is None:
        return ": not tried in this run"
    return f": {result.injected.value}" + (", as it must" if result.injected is Verdict.FAILS else "")


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], *, widths: Sequence[int]) -> Iterator[str]:
    yield from (".. list-table::", "   :header-rows: 1", f"   :widths: {' '.join(map(str, widths))}", "")
    for row in (header, *rows):
        for place, text in enumerate(row):
            yield f"   {'* -' if place == 0 else '  -'} {text}"
    yield ""


def _terms(words: Mapping[str, str]) -> Iterator[str]:
    for term, text in words.items():
        yield from (term, f"   {text}")
    yield ""


def _anchor(check: Check) -> str:
    return "claim-" + check.id.replace("/", "-")


def _verdict(result: CheckResult | None) -> str:
    return "not run" if result is None else result.verdict.value


_COUNTED = {
    Verdict.HOLDS.value: "hold",
    Verdict.FAILS.value: "fail",
    Verdict.BROKEN.value: "could not be run",
    Verdict.SKIPPED.value: "skipped",
    "not run": "not run",
}
