"""A figure as an object, and those of a comparison: a heat map of errors, and each learner's error against its cost."""

import math
import re
import textwrap
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape, unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from arena.formats import count_text, error_text, seconds_text
from arena.learner_table import learner_looks
from arena.results import Results, Summary
from attention.files import FilePath
from runs.figures import (
    CARD,
    FAINT,
    INK,
    axes_in,
    canvas,
    decade_limits,
    decade_ticks,
    heat_colours,
    heat_level,
    save_figure,
    svg_text,
    text_on,
)

if TYPE_CHECKING:
    from markupsafe import Markup

# values beyond these, also zero, are drawn at these, because the axes are logarithmic
_LEAST_ERROR, _MOST_ERROR = 1e-17, 1e2
_LEAST_COST = {"examples": 1.0, "seconds": 1e-3}
_PANELS = 4  # side by side
_PANEL = (2.3, 2.45)  # inches from one panel to the next


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure. A notebook shows it as a picture if a cell ends with it."""

    figure: Any = field(repr=False)  #: of matplotlib
    words: str = "A figure"  #: a description, for readers who cannot see it

    @cached_property
    def svg(self) -> str:
        """The whole SVG document, the same for the same numbers."""
        return svg_text(self.figure)

    def __repr__(self) -> str:
        return f"<Drawing: {self.words}>"

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: FilePath) -> Path:
        """Write the figure as an .svg or a .pdf file and return where it is.

        ValueError if the path has another ending. OSError if the file cannot be written.
        """
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        return save_figure(self.figure, path)

    def inline(self, titles: Mapping[str, str] | None = None, *, prefix: str = "") -> "Markup":
        """The figure as an element of a page: without parts only a file needs, with a description for screen readers.

        Parameters
        ----------
        titles : mapping of str to str, optional
            The text that the element of each id shows under the pointer; these elements get the class "curve".
        prefix : str, optional
            The prefix of its ids, so that no two figures of a page share an id; by default a digest of the figure.
        """
        from markupsafe import Markup

        prefix, wanted = prefix or f"figure-{zlib.crc32(self.svg.encode())}", titles or {}

        def own(tag: re.Match[str]) -> str:
            named = re.search(r' id="([^"]*)"', tag[0])
            if named is not None and (title := wanted.get(unescape(named[1]))) is not None:
                return (
                    tag[0].replace(named[0], ' class="curve"')
                    + f"<title>{escape(title, quote=False)}</title>"
                )
            return re.sub(r'(\bid="|\bhref="#|url\(#)', rf"\g<1>{prefix}-", tag[0])

        # matplotlib escapes names: what stands between < and > is a tag
        parts = r"<\?xml.*?\?>|<metadata>.*?</metadata>|<style.*?</style>"
        text = re.sub(r"<[^/>][^>]*>", own, re.sub(parts, "", self.svg, flags=re.DOTALL))
        return Markup(text.replace("<svg ", f'<svg role="img" aria-label="{escape(self.words)}" ', 1).strip())


def heat_map(results: Results) -> Drawing:
    """Targets down, learners across: the median error on the unknown part; cells without one are white."""
    targets, learners = results.shown, results.learners
    secrets_from = sum(target.certificate is None for target in targets)
    gap = 0.22 if 0 < secrets_from < len(targets) else 0.0
    rows, columns = max(len(targets), 1), max(len(learners), 4)
    with canvas(1.12 * (1.66 + columns), 0.95 + 0.62 * rows) as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(-1.6, columns + 0.06)
        axes.set_ylim(rows + gap + 0.54, -0.82)
        for place, learner in enumerate(learners):
            _text(axes, place + 0.5, -0.12, _fold(learner.title, 13), va="bottom", weight="bold")
        for row, target in enumerate(targets):
            top = row + (gap if row >= secrets_from else 0)
            title = _fold(target.title, 18, lines=2)
            _text(axes, -0.1, top + 0.4, title, ha="right")
            below = top + 0.55 + 0.14 * (1 + title.count("\n"))
            style = {"color": FAINT} if target.certificate is None else {"color": INK, "weight": "bold"}
            _text(axes, -0.1, below, _fold(target.label, 26, lines=2), ha="right", fontsize=7.5, **style)
            for place, learner in enumerate(learners):
                _paint(axes, place, top, results.summary(target.name, learner.name), results.seeds)
        remark = "error on the unknown part: 1 = nothing learned beyond what is known in advance"
        _text(axes, columns - 0.03, rows + gap + 0.27, remark, ha="right", fontsize=8.5, color=FAINT)
        words = f"Error on the unknown part: {len(targets)} targets down, {len(learners)} learners across"
        return Drawing(figure, words)


def learning_curves(results: Results, target: str, against: Literal["examples", "seconds"]) -> Drawing:
    """Error on the unknown part against cost: a panel for each learner that ran, with the others in grey.

    ValueError if there is no such target or axis.
    """
    from matplotlib import rc_context

    if against not in _LEAST_COST:
        raise ValueError(f"against is {against!r}: 'examples' and 'seconds' can be drawn.")
    title = results.target(target).title
    looks = learner_looks([learner.name for learner in results.learners])
    curves = [
        (learner, cell.seed, _on_axes(points, against))
        for learner in results.learners
        for cell in results.cell(target, learner.name)
        if (points := cell.points(against))
    ]
    panels = list({learner.name: learner for learner, _, _ in curves}.values())
    rows, columns = max(-(-len(panels) // _PANELS), 1), max(min(len(panels), _PANELS), 1)
    width, height = 0.55 + _PANEL[0] * columns, 0.1 + _PANEL[1] * rows
    costs = [cost for _, _, points in curves for cost, _ in points] or [1.0]
    errors = [error for cell in results.cells for _, error in cell.points(against)] or [1.0]
    spans = decade_limits(costs), (min(max(min(errors), _LEAST_ERROR), 1e-4) / 6, 3 * _MOST_ERROR)
    # readers of the page can point at every step, so none may be simplified away
    with canvas(width, height) as figure, rc_context({"path.simplify": False}):
        figure.patch.set_visible(False)  # the page's own background shows through
        for place, panel in enumerate(panels or [None]):
            row, column = divmod(place, _PANELS)
            left, bottom = 0.5 + _PANEL[0] * column, height + 0.45 - _PANEL[1] * (row + 1)
            size = (_PANEL[0] - 0.15) / width, (_PANEL[1] - 0.75) / height
            axes = axes_in(figure, (left / width, bottom / height, *size))
            axes.patch.set_visible(False)
            asks = panel is not None and panel.asks
            cost = "time" if against == "seconds" else "queries" if asks else "examples"
            _style(axes, against, spans, cost, first=column == 0)
            if panel is not None:
                axes.set_title(_fold(panel.title, 24, lines=1), fontsize=9.5, loc="left", parse_math=False)
            for learner, seed, points in curves:
                xs, ys = zip(*points, strict=True)
                if learner is not panel:
                    axes.plot(xs, ys, color=FAINT, alpha=0.25, linewidth=0.8, zorder=2)
                    continue
                colour, marker = looks[learner.name]["color"], looks[learner.name]["marker"]
                axes.plot(xs, ys, color=colour, linewidth=1.7, zorder=4, gid=f"curve-{learner.name}-{seed}")
                mark = {"marker": marker, "color": colour, "markeredgecolor": CARD, "markersize": 7}
                axes.plot(xs[-1:], ys[-1:], linestyle="none", clip_on=False, zorder=5, **mark)
        return Drawing(figure, f"Error on {title} against {against}, a panel for each learner")


def _on_axes(points: Sequence[tuple[float, float]], against: str) -> list[tuple[float, float]]:
    """The points, clipped to the positive range of logarithmic axes."""
    least = _LEAST_COST[against]
    return [(max(cost, least), min(max(error, _LEAST_ERROR), _MOST_ERROR)) for cost, error in points]


def _style(axes: Any, against: str, spans: Any, cost: str, *, first: bool) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    text = count_text if against == "examples" else seconds_text
    axes.set(xscale="log", yscale="log", xlim=spans[0], ylim=spans[1])
    axes.axhline(1.0, color=FAINT, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)
    decade_ticks(axes.yaxis, *spans[1])
    axes.xaxis.set_major_locator(LogLocator(numticks=3))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: text(x).replace(".0", "")))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.tick_params(labelleft=first, labelsize=8.5)
    axes.set_xlabel(cost, loc="left", fontsize=9)


def _paint(axes: Any, column: int, top: float | int, summary: Summary, seeds: int) -> None:
    """One cell of the heat map."""
    from matplotlib.patches import Rectangle

    box, middle = ((column + 0.03, top + 0.04), 0.94, 0.92), column + 0.5
    if math.isnan(summary.error):
        axes.add_patch(Rectangle(*box, facecolor=CARD, edgecolor=FAINT, linewidth=0.8, alpha=0.55))
        _text(axes, middle, top + 0.5, _fold(summary.verdict, 9), fontsize=8.5)
        return
    ground = heat_colours()[heat_level(summary.error)]
    axes.add_patch(Rectangle(*box, facecolor=ground, edgecolor="none"))
    colour, below = text_on(ground), 0.0
    if summary.done < seeds:
        below = 0.1
        seeds_done = f"{summary.done} of {seeds} seeds"
        _text(axes, middle, top + 0.8, seeds_done, fontsize=8.5, style="italic", color=colour)
    number = error_text(summary.error)
    _text(axes, middle, top + 0.39 - below, number, fontsize=11, weight="bold", color=colour)
    _text(axes, middle, top + 0.72 - 1.5 * below, summary.verdict, fontsize=8.5, color=colour)


def _text(
    axes: Any, x: float, y: float, text: str, *, va: str = "center", fontsize: float | int = 9, **look: Any
) -> None:
    """Text without interpretation: a dollar in a name starts no formula, and every line keeps its own anchor."""
    lines = text.split("\n")
    for place, line in enumerate(lines):
        above = len(lines) - 1 - place - (0 if va == "bottom" else (len(lines) - 1) / 2)
        axes.annotate(
            line,
            (x, y),
            xytext=(0, 1.2 * fontsize * above),
            textcoords="offset points",
            **{"ha": "center", "va": va, "fontsize": fontsize, **look},
            annotation_clip=False,
            parse_math=False,
        )


def _fold(text: str, width: int, *, lines: int = 3) -> str:
    """`text` on a few lines; its end is cut if it does not fit."""
    folded = textwrap.wrap(text, width) or [" "]
    if len(folded) > lines:
        folded = [*folded[: lines - 1], folded[lines - 1][: width - 1] + "…"]
    return "\n".join(folded)
