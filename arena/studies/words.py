"""A study's result in words: three sentences and a table, for the terminal."""

from collections.abc import Sequence

from arena._phrases import plural, sentence
from arena.plain import aligned, folded
from arena.studies.running import StudyResult
from arena.studies.study import Study

__all__ = ["figures_found", "study_text", "three_sentences"]


def three_sentences(study: Study, result: StudyResult) -> tuple[str, str, str]:
    """What was expected, what was found, and what that does not show."""
    found, *_ = _parts(study, result)
    return study.expected, found, study.limits


def figures_found(study: Study, result: StudyResult) -> tuple[str, ...]:
    """The figures behind the sentence of what was found, a sentence each."""
    _, *figures = _parts(study, result)
    return tuple(figures)


def _parts(study: Study, result: StudyResult) -> list[str]:
    found = study.found(result.rows) if result.rows else "No cell was measured."
    return [sentence(part) for part in found.split("; ")]


def study_text(study: Study, result: StudyResult) -> str:
    """Title, question, the three sentences, the table, and what went wrong."""
    expected, found, limits = three_sentences(study, result)
    measured = f"{plural(len(result.rows), 'cell')} at the {result.scale.value} scale, seed {result.seed}"
    lines = [f"{study.name}: {study.title} ({measured})", *folded([study.question])]
    for label, text in (("Expected", expected), ("Found", found), ("Not shown", limits)):
        lines += ["", *folded([f"{label}: {text}"])]
        if label == "Found":
            for figure in figures_found(study, result):
                lines += folded([f"- {figure}"])
    if result.rows:
        table = study.table(result.rows)
        lines += ["", aligned([table.header, *table.rows], left=1)]
    lines += _failed(result.failures)
    return "\n".join(lines)


def _failed(failures: Sequence[str]) -> list[str]:
    if not failures:
        return []
    return ["", *folded([f"{len(failures)} cells failed; the first is {failures[0]}"])]
