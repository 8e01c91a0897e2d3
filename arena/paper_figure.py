"""What figures for a paper share: SVG and PDF of the same canvas, looks of lines, logarithmic axes, legends."""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arena._canvas import svg_text
from arena.drawing import Drawing
from arena.palette import CARD, learner_look
from arena.phase_axes import decade_limits, decade_ticks
from attention.files import FilePath, write_whole

__all__ = [
    "MOST_DRAWN",
    "PaperFigure",
    "dimension_axis",
    "legend_above",
    "line_look",
    "paper_figure",
    "scales",
]

MOST_DRAWN = 1e300
"""What a logarithmic axis takes."""


@dataclass(frozen=True)
class PaperFigure(Drawing):
    """A figure as SVG text and as the bytes of a PDF, both the same for the same numbers.

    Attributes
    ----------
    pdf : bytes
        The PDF, its fonts embedded, without a date.
    """

    pdf: bytes = b""

    def __repr__(self) -> str:
        return f"<PaperFigure: {self.words}>"

    def save(self, path: FilePath) -> Path:
        """Write the figure as an .svg or a .pdf file and return where it is.

        Raises
        ------
        ValueError
            If the path ends in something else.
        OSError
            If the file cannot be written; then what was there stays.
        """
        path = Path(path)
        if path.suffix.lower() != ".pdf":
            return super().save(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, self.pdf)
        return path


def paper_figure(figure: Any, title: str) -> PaperFigure:
    """The canvas as it is, in both formats."""
    return PaperFigure(svg_text(figure), title, _pdf(figure))


def line_look(place: int) -> dict[str, Any]:
    """How the line of the learner or attack at that place looks."""
    look = learner_look(place)
    return {
        **look,
        "linewidth": 1.3,
        "markersize": 5.0,
        "markeredgecolor": CARD,
        "markeredgewidth": 0.7,
        "zorder": 4,
    }


def scales(axes: Any, dims: Sequence[int], values: Sequence[float]) -> tuple[float, float]:
    """Logarithmic axes around values; the limits of the upright one."""
    axes.set_yscale("log")
    low, high = decade_limits([value for value in values if 0 < value < MOST_DRAWN] or [1.0])
    axes.set_ylim(low, high)
    decade_ticks(axes.yaxis, low, high)
    dimension_axis(axes, dims)
    return low, high


def dimension_axis(axes: Any, dims: Sequence[int] | Sequence[float]) -> None:
    """A logarithmic axis along the bottom that names whole numbers."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_xscale("log")
    least, most = min(dims), max(dims)
    room = 1.5 if least == most else (most / least) ** 0.06
    axes.set_xlim(least / room, most * room)
    axes.xaxis.set_major_locator(FixedLocator(_apart(sorted(set(dims)))))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.0f}" if x >= 1000 else f"{x:.4g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def _apart(dims: Sequence[Any]) -> list[Any]:
    """Those that have room for their numbers, the first among them."""
    span = math.log(dims[-1] / dims[0]) or 1.0
    kept = [dims[0]]
    for dim in dims[1:]:
        if math.log(dim / kept[-1]) > 0.11 * span:
            kept.append(dim)
    return kept


def legend_above(figure: Any, *, columns: int = 3) -> None:
    """One legend for all axes, at the top."""
    named: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    figure.legend(
        list(named.values()),
        list(named),
        loc="upper left",
        bbox_to_anchor=(0.0, 1.0),
        borderaxespad=0.3,
        ncols=columns,
        frameon=False,
        fontsize=8.5,
        handlelength=2.4,
        columnspacing=1.2,
        labelspacing=0.35,
    )


def _pdf(figure: Any) -> bytes:
    from matplotlib import rc_context

    out = io.BytesIO()
    # 42: as TrueType, which publishers take, and not as Type 3
    with rc_context({"pdf.fonttype": 42}):
        figure.savefig(out, format="pdf", metadata={"CreationDate": None}, facecolor=CARD)
    return out.getvalue()
