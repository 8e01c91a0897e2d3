"""The fitted layer's outputs on fresh inputs against the true ones as SVG, where the net's errors have no surface."""

import numpy as np

from arena._canvas import canvas, svg_text
from arena.drawing import Drawing
from arena.palette import FAINT
from arena.phase_axes import MAIN, axes_in, legend_above, name_axes
from arena.phase_words import digits
from attention import AttentionLayer, Inputs

__all__ = ["draw_outputs"]

_INPUTS = 200
_MOST_POINTS = 500


def draw_outputs(fitted: AttentionLayer, truth: AttentionLayer, inputs: Inputs, *, error: float) -> Drawing:
    """Entries of the outputs of a fitted layer against the true ones, on inputs that no learner has seen.

    Parameters
    ----------
    fitted, truth : AttentionLayer
        What was found, and what was to be found.
    inputs : Inputs
        The distribution of the tokens.
    error : float
        The relative error as measured on fresh inputs, for the legend.
    """
    rng = np.random.default_rng(0)
    x = np.asarray(inputs.sample(_INPUTS, rng=rng), dtype=np.float64)
    true, made = (np.asarray(layer(x)).ravel() for layer in (truth, fitted))
    entries = np.sort(rng.choice(true.size, min(_MOST_POINTS, true.size), replace=False))
    true, made = true[entries], made[entries]
    limit = 1.08 * float(max(np.abs(true).max(), np.abs(made).max())) or 1.0
    with canvas(4.2, 3.9) as figure:
        axes = axes_in(figure, (0.145, 0.12, 0.83, 0.74))
        axes.plot([-limit, limit], [-limit, limit], color=FAINT, linewidth=0.9, zorder=1)
        axes.axhline(0.0, color=FAINT, linewidth=0.6, alpha=0.4)
        axes.axvline(0.0, color=FAINT, linewidth=0.6, alpha=0.4)
        axes.plot(
            true,
            made,
            linestyle="none",
            marker="o",
            markersize=3.2,
            markeredgewidth=0.0,
            markerfacecolor=MAIN,
            label=f"the best layer of the net: off by {digits(error)}",
        )
        axes.set(xlim=(-limit, limit), ylim=(-limit, limit))
        axes.locator_params(nbins=6)
        name_axes(axes, "true entry of the output", "entry of the fitted layer's output")
        legend_above(figure)
        svg = svg_text(figure)
    return Drawing(
        svg,
        f"Entries of the fitted layer's outputs on fresh inputs against the true ones ({len(entries)} of them, drawn "
        f"at random): the relative error is {digits(error)}.",
    )
