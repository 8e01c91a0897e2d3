"""What every figure is drawn on: the house's style, SVG that is the same every time, powers of ten as text."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from arena.palette import CARD, FAINT, INK

__all__ = ["canvas", "power_of_ten", "svg_text"]

_STYLE = {
    "svg.hashsalt": "attention-bounds",  # else the ids in the file change from run to run
    "svg.fonttype": "none",
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
    "hatch.linewidth": 0.8,
    "hatch.color": FAINT,
}


@contextmanager
def canvas(width: float, height: float) -> Iterator[Any]:
    """A figure of the house's style, in inches, made without pyplot and its global list of figures."""
    import warnings

    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE), warnings.catch_warnings():
        # a name in letters that the measuring font lacks is drawn all the same: the text stays text
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield Figure(figsize=(width, height), facecolor=CARD)


def svg_text(figure: Any) -> str:
    """The figure as an SVG document, without a date."""
    out = io.StringIO()
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    figure.savefig(out, format="svg", metadata=nothing, facecolor=CARD)
    return out.getvalue()


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
