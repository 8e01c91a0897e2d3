"""The map of the heads of a trained model: norm, rank, incoherence and error, a square for each head."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from arena.drawing import Drawing
from arena.formats import number_text
from runs.figures import CARD, FAINT, axes_in, canvas, heat_colours, heat_level

_MEASURES = ("norm", "rank", "incoherence", "error")
_MATRICES = {"theta": "Θ", "w": "W"}
_SQUARE, _GAP = 0.2, 0.5  # inches: the height of a layer, and between panels
_MOST_TICKS = 12


def head_map(layers: Mapping[int, Sequence[Mapping[str, float | None]]]) -> Drawing:
    """Layers down, heads across: a panel for each measure of Theta (left) and W (right).

    Parameters
    ----------
    layers : mapping
        For each number of a layer, the measures of its heads by name, such as ``theta_norm``; none where the layer was
        not measured.

    Notes
    -----
    Darker is larger; of errors, darker is smaller, on the logarithmic scale of `runs.figures.heat_level`. A square
    without a value stays empty.
    """
    from matplotlib.colors import ListedColormap

    numbers, most = list(layers), max([len(heads) for heads in layers.values()] + [1])
    panel = max(_SQUARE * len(numbers), 2 * _SQUARE)
    wide, high = 6.4, 0.35 + len(_MEASURES) * (panel + _GAP)
    colours = ListedColormap(heat_colours())
    with canvas(wide, high) as figure:
        for row, measure in enumerate(_MEASURES):
            bottom = high - (row + 1) * (panel + _GAP) + 0.15
            for column, (name, symbol) in enumerate(_MATRICES.items()):
                box = (0.06 + 0.5 * column, bottom / high, 0.42, panel / high)
                axes = axes_in(figure, box, grid=False)
                values = np.full((len(numbers), most), np.nan)
                for place, heads in enumerate(layers.values()):
                    found = [head.get(f"{name}_{measure}") for head in heads]
                    values[place, : len(found)] = [math.nan if one is None else one for one in found]
                levels, extent = _levels(values, measure)
                look = {"vmin": 0, "vmax": colours.N - 1, "edgecolors": CARD, "linewidth": 0.8}
                axes.pcolormesh(np.ma.masked_invalid(levels), cmap=colours, **look)
                axes.set_ylim(len(numbers), 0)
                _ticks(axes.set_yticks, numbers)
                _ticks(axes.set_xticks, list(range(most)))
                axes.set_title(f"{measure} of {symbol}{extent}", loc="left", fontsize=9.5, pad=4)
        note = "Layers down, heads across. Darker: larger; of errors, smaller. Empty: not measured."
        figure.text(0.06, 0.1 / high, note, color=FAINT, fontsize=8.5, va="bottom")
        return Drawing(figure, "A map of the heads: norm, rank, incoherence and error of Theta and W")


def _levels(values: np.ndarray, measure: str) -> tuple[Any, str]:
    """The level of each value in the colours of the heat map, NaN where there is none; and the range as text."""
    there = values[np.isfinite(values)]
    if not len(there):
        return values, ""
    low, high = float(there.min()), float(there.max())
    if measure == "error":
        levels = np.vectorize(lambda one: one if math.isnan(one) else heat_level(one), otypes=[float])(values)
    else:
        levels = 2 + (len(heat_colours()) - 3) * (values - low) / (high - low or 1.0)
    low_text, high_text = number_text(low), number_text(high)
    return levels, f": {low_text}" if low_text == high_text else f": {low_text} to {high_text}"


def _ticks(put: Any, numbers: Sequence[int]) -> None:
    step = -(-len(numbers) // _MOST_TICKS)
    shown = range(0, len(numbers), max(step, 1))
    put([place + 0.5 for place in shown], [str(numbers[place]) for place in shown])
