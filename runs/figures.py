"""Figures in one style: colours, canvas, axes, legends, and reproducible files."""

import io
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

INK, FAINT, CARD = "#1d2733", "#5d6875", "#fefefe"
"""Colours of text, of secondary elements and of the background; the page replaces them to follow its theme."""
LEAST_EXPONENT = -16
"""The heat map has its strongest colour at 10 to this power."""

_LEVELS = 64
# Okabe and Ito, Color universal design, 2008: without yellow, which is too pale for lines on white
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_MARKERS = ("o", "s", "D", "^", "v", "P", "X", "<", ">")
_LINES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))

_STYLE: dict[str, Any] = {
    "svg.hashsalt": "attention-bounds",  # otherwise the ids in the file change from run to run
    "svg.fonttype": "none",
    "pdf.fonttype": 42,  # TrueType, which publishers accept, instead of Type 3
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "sans-serif"],
    "font.size": 9.5,
    "axes.facecolor": CARD,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    **dict.fromkeys(("xtick.major.size", "xtick.minor.size", "ytick.major.size", "ytick.minor.size"), 0),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "hatch.linewidth": 0.8,
    "hatch.color": FAINT,
    "axes.prop_cycle": f"cycler(color={list(_COLOURS)})",
}

MOST_DRAWN = 1e300
"""The values that a logarithmic axis can show."""


@contextmanager
def canvas(width: float, height: float) -> Iterator[Any]:
    """A figure in the common style, in inches, made without pyplot and its global list of figures."""
    from matplotlib.figure import Figure

    with _styled():
        yield Figure(figsize=(width, height), facecolor=CARD)


@contextmanager
def _styled() -> Iterator[None]:
    import warnings

    from matplotlib import rc_context

    with rc_context(_STYLE), warnings.catch_warnings():
        # names are drawn even if the measuring font lacks their letters, because text stays text in the file
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def svg_text(figure: Any) -> str:
    """The figure as an SVG document: without a date, numbers to a hundredth of a point, the font named once."""
    out = io.StringIO()
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with _styled():
        figure.savefig(out, format="svg", metadata=nothing, facecolor=CARD)
    # text is escaped: without comments, what stands between < and > is a tag
    text = re.sub(r"<!DOCTYPE[^>]*>|<!--.*?-->", "", out.getvalue(), flags=re.DOTALL)
    open_groups: list[str] = []

    def short(tag: re.Match[str]) -> str:
        written = _short_tag(tag[0])
        if written.startswith("<g") and not written.endswith("/>"):
            open_groups.append(written)
        empty = written in ("<g>", "<g/>") or (written == "</g>" and open_groups.pop() == "<g>")
        return "" if empty else written

    text = re.sub(r"<[^>]+>", short, text)
    family = ", ".join(_STYLE["font.sans-serif"])
    return re.sub(r"\n\s*", "\n", text.replace("<svg ", f'<svg font-family="{family}" ', 1))


def _short_tag(tag: str) -> str:
    text = re.sub(r"(?<![\w.-])-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", tag)
    idle = r' transform="rotate\(-?0 [^"]*"| id="[a-z0-9]+(\.axis)?_\d+"'
    defaults = r"font-family: [^;\"]*(; )?|stroke-dashoffset: 0; |text-anchor: start; "
    return " ".join(re.sub(f"{idle}|{defaults}", "", text).split()).replace(' "', '"')


def power_of_ten(exponent: int) -> str:
    """A tick's label.

    Examples
    --------
    >>> power_of_ten(-12), power_of_ten(0)
    ('10⁻¹²', '1')
    """
    return (
        "1" if exponent == 0 else "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    )


def pdf_bytes(figure: Any) -> bytes:
    """The figure as a PDF with its fonts embedded, without a date."""
    out = io.BytesIO()
    with _styled():
        figure.savefig(out, format="pdf", metadata={"CreationDate": None}, facecolor=CARD)
    return out.getvalue()


def save_figure(figure: Any, path: Path) -> Path:
    """Write a figure as .svg or .pdf, and return where it is.

    Raises
    ------
    ValueError
        If the path ends in something else.
    """
    if path.suffix not in (".svg", ".pdf"):
        raise ValueError(f"{path} ends in neither .svg nor .pdf: rename it.")
    path.write_bytes(pdf_bytes(figure) if path.suffix == ".pdf" else svg_text(figure).encode())
    return path


def heat_level(error: float) -> int:
    """The level of an error in the heat map: 0 if worse than nothing (above 1.1), 1 for nothing (.9 and above).

    Below .9 it follows the logarithm, from 2 at .9 to 66 at 1e-16.

    Examples
    --------
    >>> [heat_level(error) for error in (float("inf"), 1.0, 0.5, 1e-4, 1e-8, 0.0)]
    [0, 1, 3, 18, 34, 66]
    """
    if not error < 0.9:
        return 0 if error > 1.1 else 1
    return 2 + round(_LEVELS * math.log10(max(error, 10.0**LEAST_EXPONENT)) / LEAST_EXPONENT)


@cache
def heat_colours(*, dark: bool = False) -> tuple[str, ...]:
    """The colour of every level of `heat_level`, as #rrggbb: worse than nothing, nothing, and then cividis.

    On a light ground more learned is darker, on a dark one lighter.
    """
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    shares = [level / _LEVELS if dark else 1 - level / _LEVELS for level in range(_LEVELS + 1)]
    aside = ("#4a2a2a", "#29333e") if dark else ("#f7dcd6", "#ebedf0")
    return (*aside, *(to_hex(colormaps["cividis"](share)) for share in shares))


def text_on(colour: str) -> str:
    """Black or white, whichever has the larger contrast to a colour (Web Content Accessibility Guidelines 2.2).

    Examples
    --------
    >>> text_on("#ffffff"), text_on("#00224e")
    ('#010101', '#fffffe')
    """
    parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    luminance = sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    return "#010101" if (luminance + 0.05) ** 2 > 1.05 * 0.05 else "#fffffe"


def learner_look(place: int) -> dict[str, Any]:
    """Colour, marker and line of the learner at this place of the list; the combination repeats late."""
    return {
        "color": _COLOURS[place % len(_COLOURS)],
        "marker": _MARKERS[place % len(_MARKERS)],
        "linestyle": _LINES[place % len(_LINES)],
    }


MAIN, OTHER, THIRD = _COLOURS[0], _COLOURS[3], _COLOURS[4]
"""Colours for the newest data, for earlier data, and for a third set; the page replaces them in dark mode."""


def axes_in(figure: Any, box: tuple[float, float, float, float], *, grid: bool = True) -> Any:
    """Axes in the common style, in a box given in fractions of the figure."""
    axes = figure.add_axes(box)
    axes.tick_params(which="both", labelsize=9)
    if grid:
        axes.set_axisbelow(True)
        axes.grid(visible=True, which="major", color=FAINT, alpha=0.22, linewidth=0.7)
    return axes


def name_axes(axes: Any, below: str, above: str) -> None:
    """Write the name of the vertical axis above it: a vertical name needs width that a phone lacks."""
    axes.set_xlabel(below, loc="left")
    if above:
        left = -axes.get_position().x0 / axes.get_position().width
        there = {
            "xy": (left, 1.0),
            "xytext": (3, 9),
            "xycoords": "axes fraction",
            "textcoords": "offset points",
        }
        axes.annotate(above, **there, ha="left", va="center")


def decade_limits(values: Sequence[float]) -> tuple[float, float]:
    """Limits of a logarithmic axis around values; they contain a power of ten."""
    low, high = math.log10(min(values)) - 0.25, math.log10(max(values)) + 0.25
    if math.floor(high) < math.ceil(low):
        low, high = math.floor(low) - 0.05, math.ceil(high) + 0.05
    return 10.0**low, 10.0**high


def decade_ticks(axis: Any, low: float, high: float) -> None:
    """Ticks at powers of ten, at most seven."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    step = max(1, -(-(last - first + 1) // 7))
    axis.set_major_locator(FixedLocator([10.0**exponent for exponent in range(first, last + 1, step)]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: power_of_ten(round(math.log10(value)))))
    axis.set_minor_locator(NullLocator())


def line_look(place: int) -> dict[str, Any]:
    """The style of the line of the learner or attack at this place."""
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
    """Set logarithmic axes around values; return the limits of the vertical axis."""
    axes.set_yscale("log")
    low, high = decade_limits([value for value in values if 0 < value < MOST_DRAWN] or [1.0])
    axes.set_ylim(low, high)
    decade_ticks(axes.yaxis, low, high)
    dimension_axis(axes, dims)
    return low, high


def dimension_axis(axes: Any, dims: Sequence[int] | Sequence[float]) -> None:
    """Make the horizontal axis logarithmic, with whole numbers as labels."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_xscale("log")
    least, most = min(dims), max(dims)
    room = 1.5 if least == most else (most / least) ** 0.06
    axes.set_xlim(least / room, most * room)
    axes.xaxis.set_major_locator(FixedLocator(_apart(sorted(set(dims)))))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.0f}" if x >= 1000 else f"{x:.4g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def _apart(dims: Sequence[Any]) -> list[Any]:
    """The ticks that have room for their labels, including the first."""
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
