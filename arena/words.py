"""The short words of a comparison, the same in the terminal, in the figures and on the page."""

import math
from collections import Counter
from collections.abc import Sequence

from arena._phrases import listed
from arena.results import Results, TargetRecord
from arena.summary import BROKEN, LEARNED, NOT_INSTALLED, NOTHING, Summary, package_missing
from lower import Hardness

__all__ = [
    "LEGEND",
    "family",
    "findings",
    "hardness_meaning",
    "in_order",
    "interruption",
    "losses",
    "outcome_word",
    "outcome_words",
    "printable",
    "seeds_note",
    "seeds_wanted",
    "short_count",
    "short_error",
    "short_seconds",
    "verdict_meaning",
]

LEGEND = "1.0 = nothing learned beyond what is known in advance"

_OUTCOMES = {
    "EXACT": "exact",
    "REACHED_TOLERANCE": "reached",
    "PRECISION_FLOOR": "at its floor",
    "UNCONFIRMED": "unconfirmed",
    "NOTHING_LEARNED": "nothing",
    "BEST_OF_CLASS": "best of class",
    "LOCAL_MINIMUM": "stuck",
    "RESIDUAL_FLOOR": "noise floor",
    "OVERFITTED": "overfitted",
    "WORK_SPENT": "out of work",
    "ONE_PASS": "one pass done",
    "EXAMPLES_SPENT": "budget spent",
    "EXAMPLES_RAN_OUT": "ran out",
    "DIVERGED": "diverged",
    "NO_PROJECTION_SUM": "phase 1 failed",
    "NO_AGREEMENT": "no agreement",
    "CONTRADICTION": "contradiction",
    "NO_LARGE_MARGIN": "phase 3 failed",
    "NOT_REFINED": "phase 4 failed",
    "NO_SPECTRAL_GAP": "phase 5 failed",
    "NET_TOO_COARSE": "phase 6 failed",
    "NOT_APPLICABLE": "not its kind",
}


def outcome_word(name: str) -> str:
    """One or two words for an outcome, by the name of its enum member.

    Examples
    --------
    >>> outcome_word("PRECISION_FLOOR")
    'at its floor'
    """
    return _OUTCOMES.get(name, name.lower().replace("_", " "))


def outcome_words(summary: Summary) -> str:
    """The word for the most frequent outcome, and what brought it about alone.

    Examples
    --------
    >>> outcome_words(Summary("done", outcomes={"EXACT": 3}, alone="Newton"))
    'exact, by Newton alone'
    """
    return outcome_word(summary.outcome) + (f", by {summary.alone} alone" if summary.alone else "")


def short_error(error: float | int | None) -> str:
    """An error in at most six characters; None (not finite) is an infinity.

    Examples
    --------
    >>> [short_error(error) for error in (4.4e-16, 0.0, 0.0042, 0.3141, 1.042, 31.4, 1e5, None)]
    ['4e-16', '0', '0.0042', '0.314', '1.04', '31', '1e5', 'inf']
    """
    if error is None or math.isinf(error):
        return "inf"
    if error == 0:
        return "0"
    # decided on the rounded number, so that 0.9996 is 1.00 and not 1.000
    if (digits := float(f"{error:.2e}")) >= 1:
        return f"{error:.2f}" if digits < 9.995 else f"{error:.0f}" if digits < 9999 else _power(error)
    return f"{error:.3f}" if digits >= 0.01 else f"{error:.4f}" if digits >= 0.001 else _power(error)


def _power(value: float) -> str:
    mantissa, exponent = f"{value:.0e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def short_count(count: float | int | None) -> str:
    """A number of examples in at most five characters.

    Examples
    --------
    >>> [short_count(count) for count in (0, 344, 2048, 768_000, 1_500_000, None)]
    ['0', '344', '2.0k', '768k', '1.5M', '-']
    """
    if count is None:
        return "-"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= 0.9995 * size:
            scaled = count / size
            return f"{scaled:.1f}{unit}" if scaled < 9.95 else f"{scaled:.0f}{unit}"
    return f"{count:.0f}"


def short_seconds(seconds: float | int | None) -> str:
    """A time in at most six characters.

    Examples
    --------
    >>> [short_seconds(seconds) for seconds in (0.0004, 0.51, 7.31, 83.2, 5400, None)]
    ['<1 ms', '0.51 s', '7.3 s', '83 s', '90 min', '-']
    """
    if seconds is None:
        return "-"
    if seconds < 0.001:
        return "<1 ms"
    if seconds < 0.0995:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 600:
        digits = 2 if seconds < 0.995 else 1 if seconds < 9.95 else 0
        return f"{seconds:.{digits}f} s"
    return f"{seconds / 60:.0f} min" if seconds < 36000 else f"{seconds / 3600:.0f} h"


def verdict_meaning() -> str:
    """What the words learned, partly and nothing stand for."""
    return f"learned: at most {LEARNED:g}; nothing: at least {NOTHING:g}; partly: in between"


def printable(text: str) -> str:
    r"""`text` on one line without characters that would move a terminal's cursor or change its colours.

    Examples
    --------
    >>> printable("a\x1b[31mb")
    'a?[31mb'
    """
    return "".join(letter if letter.isprintable() else " " if letter.isspace() else "?" for letter in text)


def family(target: TargetRecord) -> str:
    """What kind of target it is: how hard, nice (drawn at random), or given (the caller's own layer)."""
    return target.hardness.label if target.hardness else "nice" if target.kind == "nice" else "given"


def hardness_meaning(results: Results) -> str:
    """What the labels of the targets with a secret stand for, those that occur; empty where there are none."""
    there = {target.hardness for target in results.targets}
    return "; ".join(f"{one.label}: {one.meaning}" for one in Hardness if one in there)


def in_order(results: Results) -> list[TargetRecord]:
    """The targets as they are shown: those with a secret below the others, otherwise in their own order."""
    return sorted(results.targets, key=lambda target: target.has_secret)


def seeds_wanted(results: Results) -> int:
    """How many seeds a pair of target and learner is to have: as it was asked for, or as many as any pair has."""
    asked = results.made.get("seeds")
    if isinstance(asked, list):
        asked = len(asked)
    cells = Counter((cell.target, cell.learner) for cell in results.cells)
    most = max(cells.values(), default=0)
    return max(asked, most) if isinstance(asked, int) and not isinstance(asked, bool) else most


def seeds_note(summary: Summary, wanted: int) -> str:
    """Of how many seeds a number speaks, where it does not speak of all; empty where it does.

    Examples
    --------
    >>> seeds_note(Summary("done", error=0.1, seeds=3, done=2), 3)
    '2 of 3 seeds'
    """
    wanted = max(wanted, summary.seeds)
    return f"{summary.done} of {wanted} seeds" if 0 < summary.done < wanted else ""


def interruption(results: Results) -> str:
    """What there is to say of a comparison that was stopped before its end; empty when it was not."""
    why = results.made.get("interrupted")
    if not why:
        return ""
    whole = len(results.targets) * len(results.learners) * seeds_wanted(results)
    here = f"{len(results.cells)} of {whole} fits are here"
    kept = results.made.get("store") and not results.made.get("fresh")
    on = ". The same command goes on where it stopped." if kept else "."
    if why is True or why == "by hand":
        return f"Stopped by hand before the end: {here}{on}"
    return f"Stopped before the end: {here}{on} {why}"


def losses(results: Results) -> list[str]:
    """A sentence for every pair that lost cells, by what became of them."""
    said = []
    for target in in_order(results):
        for learner in results.learners:
            cells = results.cell(target.name, learner.name)
            for status in BROKEN:
                lost = [cell for cell in cells if cell.status == status]
                if lost:
                    more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
                    where = f"{learner.title} on {target.title}, seed {lost[0].seed}{more}"
                    said.append(f"{status.capitalize()}: {where}: {lost[0].message}")
    return said


def findings(results: Results) -> list[str]:
    """What the table says, in sentences: who learned the targets without a secret, and who learned each with one."""
    said = []
    pairs = [results.summary(target.name, one.name) for target in results.targets for one in results.learners]
    if missing := sum(pair.status == "missing" for pair in pairs):
        said.append(f"Not finished: {missing} of {len(pairs)} pairs of target and learner have not run.")
    easy = [target for target in results.targets if not target.has_secret and _speaks(results, target)]
    if easy:
        kind = " and ".join(dict.fromkeys(family(target) for target in easy))
        learned = {one.title: _with_verdict(results, one.name, easy, "learned") for one in results.learners}
        full = [title for title, count in learned.items() if count == len(easy)]
        some = [title for title, count in learned.items() if count]
        if full and len(easy) > 1:
            said.append(f"All {len(easy)} {kind} targets are learned by {listed(full)}.")
        elif full:
            said.append(f"{easy[0].title} is learned by {listed(full)}.")
        elif some:
            of = f"all {len(easy)} {kind} targets"
            said.append(
                f"None of {_these(results, easy)} learns {of}; some of them are learned by {listed(some)}."
            )
        else:
            of = f"the {kind} target" if len(easy) == 1 else f"any of the {len(easy)} {kind} targets"
            said.append(f"None of {_these(results, easy)} learns {of}.")
    for target in (target for target in results.targets if target.has_secret):
        if _unfinished(results, target):
            continue
        if not _speaks(results, target):
            said.append(f"{target.title}: no learner came back with a fit.")
            continue
        full, some = (
            [one.title for one in results.learners if _with_verdict(results, one.name, [target], verdict)]
            for verdict in ("learned", "partly")
        )
        by = f"only by {listed(full)}" if full else f"by none of {_these(results, [target])}"
        end = f"; in part by {listed(some)}" if some else "" if full else f": no error is below {NOTHING:g}"
        said.append(f"{target.title} is learned {by}{end}{_lost(results, target)}.")
    return said + _idle(results)


def _idle(results: Results) -> list[str]:
    """Why learners ran on no target at all."""
    said = []
    for learner in results.learners:
        cells = [cell for cell in results.cells if cell.learner == learner.name]
        if cells and all(cell.status == "not applicable" for cell in cells):
            # a package can be installed: that it is missing is the reason to tell, whatever the first target says
            reasons = sorted((cell.message for cell in cells), key=package_missing, reverse=True)
            said.append(f"{learner.title} ran on no target: {reasons[0].rstrip('.')}.")
    return said


def _these(results: Results, targets: Sequence[TargetRecord]) -> str:
    """Of whom a sentence speaks that says none: not of learners that could not run for want of a package."""
    absent = any(_with_verdict(results, one.name, targets, NOT_INSTALLED) for one in results.learners)
    return "the learners that ran" if absent else "these learners"


def _lost(results: Results, target: TargetRecord) -> str:
    """Of which learners a sentence about a target knows nothing, because they never came back or could not run."""
    said = ""
    for verdict in BROKEN:
        names = [one.title for one in results.learners if _with_verdict(results, one.name, [target], verdict)]
        said += f"; {listed(names)} {verdict}" if names else ""
    absent = [
        one.title for one in results.learners if _with_verdict(results, one.name, [target], NOT_INSTALLED)
    ]
    if absent:
        said += f"; {listed(absent)} {'is' if len(absent) == 1 else 'are'} {NOT_INSTALLED}"
    return said


def _speaks(results: Results, target: TargetRecord) -> bool:
    """Whether the comparison says anything of the target: it ran to its end, and a fit came back."""
    fits = any(results.summary(target.name, one.name).done for one in results.learners)
    return fits and not _unfinished(results, target)


def _unfinished(results: Results, target: TargetRecord) -> bool:
    return any(results.summary(target.name, one.name).status == "missing" for one in results.learners)


def _with_verdict(results: Results, learner: str, targets: Sequence[TargetRecord], verdict: str) -> int:
    return sum(results.summary(target.name, learner).verdict == verdict for target in targets)
