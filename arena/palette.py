"""The colours of a comparison, in figures and on the page, by light and by dark."""

import math
from functools import cache
from typing import Any

__all__ = [
    "CARD",
    "FAINT",
    "INK",
    "LEAST_EXPONENT",
    "ON_STRONG",
    "ON_WEAK",
    "heat_colours",
    "heat_level",
    "is_strong",
    "learner_colours",
    "learner_look",
]

INK, FAINT, CARD = "#1d2733", "#5d6875", "#fefefe"
"""Text, what is secondary, and the ground of a figure; the page replaces them to follow its theme."""
ON_WEAK, ON_STRONG = "#010101", "#fffffe"
"""Text on the weak and on the strong colours of the heat map; the page swaps them in the dark."""
LEAST_EXPONENT = -16
"""The heat map is at its strongest at 10 to this power."""

_LEVELS, _STRONG = 64, 47
# blue, red, green, pink, ochre, sky and grey, chosen by search in CIELAB to stay apart for protanopia, deuteranopia
# and tritanopia, at least 3:1 from their ground; the tests measure both
_COLOURS = ("#0c4aa2", "#b0180c", "#12843e", "#ea5298", "#bf8409", "#0a94f0", "#2b2b2b")
_DARK_COLOURS = ("#1a6ee6", "#cf4320", "#48e89a", "#cb6bab", "#ecd62a", "#10b0fa", "#776d62")
_MARKERS = ("o", "s", "D", "^", "v", "P", "X", "<", ">")
_LINES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))


def heat_level(error: float) -> int:
    """The level of an error in the heat map, by its logarithm: 0 at 1 and above, 64 at 1e-16 and below.

    Examples
    --------
    >>> [heat_level(error) for error in (float("inf"), 1.0, 1e-4, 1e-8, 0.0)]
    [0, 0, 16, 32, 64]
    """
    logarithm = math.log10(min(max(error, 10.0**LEAST_EXPONENT), 1.0))
    return round(_LEVELS * logarithm / LEAST_EXPONENT)


def is_strong(level: int) -> bool:
    """Whether text on that level is `ON_STRONG`; the same levels switch in the light and in the dark."""
    return level >= _STRONG


@cache
def heat_colours(*, dark: bool = False) -> tuple[str, ...]:
    """The colour of every level, nothing learned first, as #rrggbb.

    Each palette starts near its ground, so that what stands out is what was learned, and its lightness goes
    one way, so that it reads without hue.
    """
    from matplotlib.colors import LinearSegmentedColormap, to_hex

    if dark:
        turn = (_STRONG - 0.5) / _LEVELS
        anchors = [(0.0, "#29333e"), (0.25, "#265a73"), (turn, "#297e9e"), (1.0, "#a5e6f6")]
        chosen = LinearSegmentedColormap.from_list("", anchors, N=4096)
        return tuple(to_hex(chosen(level / _LEVELS)) for level in range(_LEVELS + 1))
    from matplotlib import colormaps

    # ColorBrewer's YlGnBu, safe for colour-blind eyes, without its ends
    return tuple(to_hex(colormaps["YlGnBu"](0.03 + 0.9 * level / _LEVELS)) for level in range(_LEVELS + 1))


def learner_look(place: int, *, dark: bool = False) -> dict[str, Any]:
    """Colour, marker and line of the learner at that place of the list; all three together repeat late."""
    colours = learner_colours(dark=dark)
    return {
        "color": colours[place % len(colours)],
        "marker": _MARKERS[place % len(_MARKERS)],
        "linestyle": _LINES[place % len(_LINES)],
    }


def learner_colours(*, dark: bool = False) -> tuple[str, ...]:
    """The colours of learners in order, as #rrggbb; with more learners than colours they come again."""
    return _DARK_COLOURS if dark else _COLOURS
