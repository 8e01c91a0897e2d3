"""A study's result in words: three sentences and a table, for the terminal."""

from collections.abc import Sequence

from arena.plain import aligned, folded
from arena.studies.running import StudyResult
from arena.studies.study import Study

__all__ = ["study_text", "three_sentences"]


def three_sentences(study: Study, result: StudyResult) -> tuple[str, str, str]:
    """What was expected, what was found, and what that does not show."""
    found = study.found(result.rows) if result.rows else "No cell was measured."
    return study.expected, found, study.limits


def study_text(study: Study, result: StudyResult) -> str:
    """Title, question, the three sentences, the table, and what went wrong."""
    expected, found, limits = three_sentences(study, result)
    lines = [f"{study.name}: {study.title}", *folded([study.question])]
    for label, text in (("Expected", expected), ("Found", found), ("Not shown", limits)):
        lines += ["", *folded([f"{label}: {text}"])]
    if result.rows:
        table = study.table(result.rows)
        lines += ["", aligned([table.header, *table.rows], left=1)]
    lines += _failed(result.failures)
    return "\n".join(lines)


def _failed(failures: Sequence[str]) -> list[str]:
    if not failures:
        return []
    return ["", *folded([f"{len(failures)} cells failed; the first is {failures[0]}"])]
