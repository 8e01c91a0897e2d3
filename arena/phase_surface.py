"""The error surface of phase 6 for two heads as SVG."""

from typing import Any

import numpy as np

from arena._canvas import canvas, svg_text
from arena.drawing import Drawing
from arena.palette import CARD, heat_colours
from arena.phase_axes import OTHER, THIRD, axes_in, legend_above, name_axes
from arena.phase_words import digits
from attention import AttentionLayer
from upper.six_phase import AttentionSpan, NetSearch

__all__ = ["draw_surface"]

_LEVELS = 16


def draw_surface(net: NetSearch, span: AttentionSpan, truth: AttentionLayer) -> Drawing:
    """Held-out error of every pair of points of the net for two heads, the chosen pair and the true one marked."""
    from matplotlib.patches import PathPatch, Rectangle

    grid, surface = net.grid, net.surface
    if grid is None or surface is None:
        raise ValueError("The net has no surface: that of two heads over the hull has one.")
    known = np.isfinite(surface) & (surface > 0)
    low, high = (
        (float(bound(np.log10(surface[known]))) for bound in (np.min, np.max)) if known.any() else (-1.0, 0.0)
    )
    high = max(high, low + 1e-9)
    # the strongest colour where the error is least
    logs = np.log10(np.where(known, surface, 10.0**low))
    levels = np.clip(((high - logs) / (high - low) * _LEVELS).astype(int), 0, _LEVELS - 1)
    levels[~known & ~(surface == 0)] = -1
    step = float(grid[1] - grid[0]) if len(grid) > 1 else 1.0
    colours = [heat_colours()[round(64 * (level + 0.5) / _LEVELS)] for level in range(_LEVELS)]
    with canvas(4.2, 4.55) as figure:
        axes = axes_in(figure, (0.145, 0.29, 0.83, 0.61), grid=False)
        for level, path in _regions(levels, grid, step):
            axes.add_patch(PathPatch(path, facecolor=colours[level], edgecolor=colours[level], linewidth=0.3))
        heads = _along(np.asarray(truth.theta, dtype=np.float64), span)
        chosen = _along(net.layer.theta, span)
        for place, (points, label, marker, size) in enumerate(
            [(heads, "true heads", "P", 11), (chosen, "chosen pair", "o", 7)]
        ):
            if len(points) == 2:
                axes.plot(
                    points,
                    points[::-1],
                    linestyle="none",
                    marker=marker,
                    markersize=size,
                    markerfacecolor=(OTHER, THIRD)[place],
                    markeredgecolor=CARD,
                    markeredgewidth=1.2,
                    label=label,
                    zorder=5 + place,
                    clip_on=False,
                )
        edges = float(grid[0] - step / 2), float(grid[-1] + step / 2)
        axes.set(xlim=edges, ylim=edges)
        name_axes(axes, "first head, along the hull", "second head, along the hull (in norms of the centre)")
        scale = figure.add_axes((0.145, 0.125, 0.83, 0.03))
        scale.set(xlim=(0, _LEVELS), ylim=(0, 1))
        for level, colour in enumerate(reversed(colours)):
            scale.add_patch(Rectangle((level, 0), 1, 1, facecolor=colour, edgecolor=colour, linewidth=0.3))
        scale.set_yticks([])
        scale.set_xticks([0, _LEVELS], [digits(10**low), digits(10**high)])
        scale.set_xlabel("squared relative error on held-out examples")
        scale.tick_params(length=0)
        scale.spines[:].set_visible(False)
        for tick, side in zip(scale.get_xticklabels(), ("left", "right"), strict=True):
            tick.set_horizontalalignment(side)
        legend_above(figure, columns=2)
        svg = svg_text(figure)
    where = " and ".join(f"{point:.3g}" for point in chosen)
    there = " and ".join(f"{point:.3g}" for point in heads)
    return Drawing(
        svg,
        f"Error surface of the net: squared relative error of each pair of {len(grid)} points along the hull, from "
        f"{digits(10**low)} to {digits(10**high)}. The chosen pair is at {where}, the true heads are at {there}.",
    )


def _along(theta: np.ndarray, span: AttentionSpan) -> list[float]:
    """Where matrices lie along the hull of two heads, in norms of the centre."""
    unit = float(np.linalg.norm(span.centre)) or 1.0
    return [float(np.vdot(one - span.centre, span.directions[0])) / unit for one in theta]


def _regions(levels: np.ndarray, grid: np.ndarray, step: float) -> list[tuple[int, Any]]:
    """The cells of each level as one path: neighbours along a row are one rectangle, or the file would be large."""
    from matplotlib.path import Path

    regions = []
    for level in range(_LEVELS):
        corners, codes = [], []
        for row, line in enumerate(levels == level):
            turns = np.flatnonzero(np.diff(np.concatenate([[False], line, [False]]).astype(int)))
            top, bottom = grid[row] - step / 2, grid[row] + step / 2
            for start, stop in turns.reshape(-1, 2):
                left, right = grid[start] - step / 2, grid[stop - 1] + step / 2
                corners += [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
                codes += [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
        if corners:
            regions.append((level, Path(corners, codes)))
    return regions
