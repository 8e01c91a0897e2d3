"""The pages of studies in reStructuredText: one each, and an overview, all of it from the studies and their results."""

from collections.abc import Iterator, Mapping, Sequence

from arena.studies.running import StudyResult
from arena.studies.study import Study, Table
from arena.studies.words import figures_found, three_sentences
from paper_checks.rst import escaped, heading

__all__ = ["render_index", "render_page"]

_NOTE = ".. Written by `attention-bounds study`: change the study, not this page."


def render_page(study: Study, result: StudyResult, *, alt: str) -> str:
    """The page of one study; its figure and its tables lie beside it.

    Parameters
    ----------
    study, result
        What is shown.
    alt : str
        The figure in words.
    """
    return "\n".join(_page(study, result, alt)) + "\n"


def render_index(results: Mapping[str, StudyResult], studies: Sequence[Study]) -> str:
    """The overview: every study that has a result, its question and what was found."""
    return "\n".join(_index(results, [one for one in studies if one.name in results])) + "\n"


def _page(study: Study, result: StudyResult, alt: str) -> Iterator[str]:
    expected, found, limits = three_sentences(study, result)
    yield from (_NOTE, "", f".. _study-{study.name}:", "", *heading(study.title, "="))
    yield from (f"*{escaped(study.question)}*", "")
    for label, text in (("Expected", expected), ("Found", found), ("Not shown", limits)):
        yield from (f"**{label}.** {escaped(text)}", "")
        if label == "Found" and (figures := figures_found(study, result)):
            yield from (*(f"* {escaped(figure)}" for figure in figures), "")
    # dark-light: the theme leaves the figure's colours alone in the dark
    yield from (f".. image:: {study.name}.svg", f"   :alt: {escaped(alt)}", "   :class: dark-light", "")
    yield from _table(study.table(result.rows))
    yield from heading("How", "-")
    yield from (escaped(study.how), "")
    yield f"{len(result.rows)} cells at the {result.scale.value} scale, seed {result.seed}, made by"
    yield from ("", ".. code-block:: sh", "")
    yield f"   attention-bounds study {study.name} --scale {result.scale.value} --seed {result.seed}"
    yield ""
    for failure in result.failures:
        yield from (f"Not measured: {escaped(failure)}", "")
    yield f"Every row: :download:`{study.name}.csv <{study.name}.csv>`. Versions: " + (
        ", ".join(f"{name} {version}" for name, version in sorted(result.versions.items())) + "."
    )


def _index(results: Mapping[str, StudyResult], studies: Sequence[Study]) -> Iterator[str]:
    yield from (_NOTE, "", *heading("Studies", "="))
    yield "Questions that the sources leave open, answered with numbers. Each page has what the sources lead one to"
    yield "expect, what was found, and what that does not show. Figure, table and sentences are made by one command,"
    yield "which goes on where it was interrupted:"
    yield from ("", ".. code-block:: sh", "")
    yield "   attention-bounds study --list"
    yield "   attention-bounds study agreement               # quickly, into the folder studies"
    yield "   attention-bounds study all --scale full --jobs 2 --out docs/studies   # these pages"
    yield ""
    for one in studies:
        _, found, _ = three_sentences(one, results[one.name])
        yield from (f":ref:`{escaped(one.title)} <study-{one.name}>`", f"   *{escaped(one.question)}*", "")
        yield from (f"   {escaped(found)}", "")
    yield from (".. toctree::", "   :hidden:", "")
    yield from (f"   {one.name}" for one in studies)


def _table(table: Table) -> Iterator[str]:
    yield from (".. list-table::", "   :header-rows: 1", "   :class: study", "")
    for row in (table.header, *table.rows):
        for place, text in enumerate(row):
            yield f"   {'* -' if place == 0 else '  -'} {escaped(text)}"
    yield ""
