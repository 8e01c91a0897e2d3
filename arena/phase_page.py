"""The six phases as one self-contained HTML page: a paragraph and figures for each, in their order."""

import base64
from collections.abc import Mapping, Sequence

from arena._inline import dark_colours, inline_figure
from arena._templates import templates
from arena.drawing import Drawing
from arena.learned import Learned
from arena.phase_words import PhaseStory, digits
from arena.results import TargetRecord
from arena.words import family, short_seconds

__all__ = ["render_phases"]


def render_phases(
    *,
    target: TargetRecord,
    learned: Learned,
    explanation: str,
    heads: int,
    mode: str,
    stories: Sequence[PhaseStory],
    drawings: Mapping[str, Drawing],
    data: str,
) -> str:
    """The page of one run of the six phases.

    Parameters
    ----------
    target : TargetRecord
        What it was run on.
    learned : Learned
        The run, as any learner's.
    explanation : str
        How it ended, with figures.
    heads : int
        m, as given or found.
    mode : str
        "practical" or "paper".
    stories : sequence of PhaseStory
        The phases in words.
    drawings : mapping of str to Drawing
        Their figures by name.
    data : str
        The result as JSON text, which the page offers to save.

    Returns
    -------
    str
        One HTML document that needs no network and has no script.
    """
    from markupsafe import Markup

    phases = [
        {
            "story": story,
            "css": "broken" if story.state == "failed" else "learned" if story.state == "done" else "",
            "short": _short_error(story),
            "figures": [
                {
                    "svg": Markup(inline_figure(drawing.svg, name.replace("phase-", "p"), drawing.words)),
                    "caption": _CAPTIONS[name],
                }
                for name, drawing in drawings.items()
                if int(name.split("-")[1]) == story.number
            ],
        }
        for story in stories
    ]
    page = (
        templates()
        .get_template("phases.html.j2")
        .render(
            target=target,
            family=family(target),
            learned=learned,
            explanation=explanation,
            heads=heads,
            mode=mode,
            phases=phases,
            failed=next((story for story in stories if story.state == "failed"), None),
            error=digits(learned.error),
            seconds=short_seconds(learned.fit.seconds),
            dark=dark_colours(),
            data="data:application/json;charset=utf-8;base64," + base64.b64encode(data.encode()).decode(),
        )
    )
    return page.lstrip()


_CAPTIONS = {
    "phase-1-sum": "Each mark is an entry of the sum of projections (of more than 500 the largest and a sample): on "
    "the line the estimate is right.",
    "phase-2-agreement": "Rows by how well one pattern explains them: those up to the threshold are certified.",
    "phase-2-spectrum": "How thin the body is along its widest directions: m heads make m − 1 wide ones, then a gap.",
    "phase-2-thresholds": "Each round of phase 3 accepts fewer rows, and explains them better.",
    "phase-3-sum": "The same entries before and after the refinement: the closer to the line, the better.",
    "phase-4-agreement": "Rows by how well one pattern explains them: agreement shows as residuals far to the left.",
    "phase-4-spectrum": "How thin the body is along its widest directions: m heads make m − 1 wide ones, then a gap.",
    "phase-5-span": "How far the true heads are from what the body suggests, after each sculpting.",
    "phase-6-net": "The error of every pair of points of the net. Swapping the heads changes nothing: it is symmetric.",
    "phase-6-outputs": "Each mark is an entry of an output on fresh inputs: on the line the fitted layer is right.",
    "phase-6-residual": "The fit within the span is as good as the span; Newton on all parameters does the rest.",
}


def _short_error(story: PhaseStory) -> tuple[str, str]:
    """The phase's own measure of error, and what it is of."""
    names = {"sum_error": "of the sum", "span_error": "of the span", "unknown_part_error": "on fresh inputs"}
    wanted = {1: "sum_error", 3: "sum_error", 6: "unknown_part_error"}.get(story.number, "span_error")
    return (digits(story.measures[wanted]), names[wanted]) if wanted in story.measures else ("–", "")
