"""The figures of the six phases: what each phase found, and the truth beside it if that can be drawn."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from jaxtyping import Float

from arena.drawing import Drawing
from arena.formats import error_text
from attention import AttentionLayer, Fit, Step
from runs.figures import (
    CARD,
    FAINT,
    MAIN,
    OTHER,
    THIRD,
    axes_in,
    canvas,
    decade_limits,
    decade_ticks,
    legend_above,
    name_axes,
    widened,
)
from upper.six_phase import AffineHull, AttentionSpan, NetSearch, SixPhases

__all__ = ["draw_phases"]

_MOST_POINTS = 200  # of a scatter
_LEAST = 1e-17  # zeros are drawn here on a logarithmic axis
_NEWEST = {
    "zorder": 5,
    "color": MAIN,
    "marker": "o",
    "markersize": 6,
    "markeredgecolor": CARD,
    "linewidth": 1.6,
}
_BEFORE = {"color": OTHER, "marker": "s", "markersize": 5, "markeredgecolor": CARD, "linewidth": 1.4}
_THIRD = {"color": THIRD, "marker": "D", "markersize": 5, "markeredgecolor": CARD, "linewidth": 1.4}


def draw_phases(fit: Fit, truth: AttentionLayer) -> dict[tuple[int, str], Drawing]:
    """The figures of a fit by phase and name, such as (1, "sum"); a phase without data has none.

    Parameters
    ----------
    fit : Fit
        A fit by `SixPhase` that was measured against the truth.
    truth : AttentionLayer
        The true layer.

    Returns
    -------
    dict
        The figures, in the order of the phases.
    """
    phases: SixPhases = fit.details
    drawn: dict[tuple[int, str], Drawing] = {}
    total = np.asarray(truth.w, dtype=np.float64).sum(axis=0)
    sums = {}
    if phases.crude_sum and np.any(phases.crude_sum.w):
        sums["phase 1"] = phases.crude_sum.w
        drawn[1, "sum"] = _draw_sum(total, sums)
    hulls = {"phase 2": phases.crude_hull} if phases.crude_hull else {}
    if hulls:
        drawn[2, "agreement"] = _draw_agreement(hulls)
    if phases.refined_sum:
        drawn[3, "sum"] = _draw_sum(total, sums | {"phase 3": phases.refined_sum.w})
    if phases.hull:
        hulls["phase 4"] = phases.hull
        drawn[4, "agreement"] = _draw_agreement(hulls)
    if hulls:
        spectra = {name: hull.body.spectrum for name, hull in hulls.items()}
        drawn[4 if phases.hull else 2, "spectrum"] = _draw_spectrum(spectra, phases.heads - 1)
    if phases.span is not None:
        drawn[5, "span"] = _draw_span([step for step in fit.trace if step.phase in (2, 4)], [*hulls])
        if phases.net is not None and phases.net.surface is not None:
            drawn[6, "net"] = _draw_net(phases.net, phases.span, truth)
    residuals = [step for step in fit.trace if step.phase == 6 and "residual" in step.measures]
    if residuals:
        drawn[6, "residual"] = _draw_residuals(residuals)
    return drawn


@contextmanager
def _panel(below: str, above: str, *, height: float = 3.3) -> Iterator[tuple[Any, Any]]:
    """One panel with its legend above, as wide as a column of the page."""
    with canvas(4.2, height) as figure:
        axes = axes_in(figure, (0.145, 0.48 / height, 0.83, (height - 1.1) / height))
        yield figure, axes
        name_axes(axes, below, above)
        legend_above(figure, columns=2)


def _draw_sum(truth: Float[np.ndarray, "d d"], estimates: Mapping[str, np.ndarray]) -> Drawing:
    """Entries of estimates of the sum against the true ones."""
    entries = np.arange(truth.size)
    if len(entries) > _MOST_POINTS:
        # the largest entries, which may be few, and a sample of the rest
        order = np.argsort(-np.abs(truth.ravel()), kind="stable")
        largest, rest = np.split(order, [_MOST_POINTS // 5])
        sample = np.random.default_rng(0).choice(rest, _MOST_POINTS - len(largest), replace=False)
        entries = np.concatenate([largest, sample])
    limit = 1.08 * max(float(np.abs(one.ravel()[entries]).max()) for one in (truth, *estimates.values()))
    limit = limit or 1.0
    size = float(np.linalg.norm(truth)) or 1.0
    with _panel("true entry of ΣW", "estimated entry of ΣW", height=3.9) as (figure, axes):
        axes.axline((0, 0), slope=1, color=FAINT, linewidth=0.9, zorder=1)
        looks = [_NEWEST | {"markersize": 3.6}, {"color": OTHER, "marker": "x", "markersize": 3.6}]
        for look, (name, estimate) in zip(looks, reversed([*estimates.items()]), strict=False):
            label = f"{name}: off by {error_text(float(np.linalg.norm(estimate - truth)) / size)}"
            points = truth.ravel()[entries], estimate.ravel()[entries]
            axes.plot(*points, **look | {"linewidth": 0, "markeredgewidth": 0.6}, label=label)
        axes.set(xlim=(-limit, limit), ylim=(-limit, limit))
        axes.locator_params(nbins=6)
    words = "Each mark is an entry of the sum of projections: on the line the estimate is right."
    return Drawing(figure, words)


def _draw_agreement(hulls: Mapping[str, AffineHull]) -> Drawing:
    """Residuals of the rows examined, and the threshold for acceptance; the latest round is filled."""
    with _panel("relative residual of the row", "rows", height=3.0) as (figure, axes):
        left, right = [], []
        for place, (name, hull) in enumerate(reversed([*hulls.items()])):
            newest = place == 0
            held = np.flatnonzero(hull.histogram)
            left += [max(hull.threshold / 2, hull.bins[0]), *hull.bins[held[:1]]]
            right += [*hull.bins[held[-1:] + 1]]
            look = {"color": MAIN if newest else OTHER, "linestyle": "-" if newest else (0, (5, 2))}
            heights = np.maximum(hull.histogram, 0.5)
            axes.stairs(heights, hull.bins, baseline=0.5, linewidth=1.2, **look, label=name)
            if newest:
                axes.stairs(heights, hull.bins, baseline=0.5, fill=True, color=MAIN, alpha=0.3)
            # the first bin also counts everything below it
            threshold = max(hull.threshold, float(np.sqrt(hull.bins[0] * hull.bins[1])))
            accepted = f"accepted up to {error_text(hull.threshold)}"
            axes.axvline(threshold, linewidth=1.8, **look, label=accepted)
        most = max(hull.histogram.max() for hull in hulls.values())
        axes.set(
            xscale="log", yscale="log", xlim=(min(left) / 2, max(right, default=1e2)), ylim=(0.5, 6 * most)
        )
        decade_ticks(axes.xaxis, *axes.get_xlim())
        decade_ticks(axes.yaxis, *axes.get_ylim())
    words = "Rows by how well one pattern explains them: those up to the threshold are certified."
    return Drawing(figure, words)


def _draw_spectrum(spectra: Mapping[str, np.ndarray], wide: int) -> Drawing:
    """The smallest eigenvalues of the first and the last body's moment matrix; wide directions are shaded."""
    newest = [*spectra.values()][-1]
    least = max(1e-3 * float(newest[newest > 0].min(initial=1.0)), _LEAST)
    shown = dict([*spectra.items()][:: max(len(spectra) - 1, 1)])
    most = max(map(len, shown.values()))
    with _panel("direction of the body, the widest first", "eigenvalue: small is wide") as (figure, axes):
        for look, (name, spectrum) in zip((_NEWEST, _BEFORE), reversed([*shown.items()]), strict=False):
            gap = spectrum[wide] / max(spectrum[wide - 1], _LEAST) if 0 < wide < len(spectrum) else None
            label = f"{name}: one head, no gap" if gap is None else f"{name}: gap × {error_text(float(gap))}"
            places = range(1, len(spectrum) + 1)
            axes.plot(places, np.maximum(spectrum, least), **look | {"linewidth": 0}, label=label)
        if wide:
            axes.axvspan(0.4, wide + 0.5, color=FAINT, alpha=0.13, linewidth=0)
        axes.set(yscale="log", xlim=(0.4, most + 0.6), xticks=range(1, most + 1))
        limits = widened(axes, np.maximum(np.concatenate([*shown.values()]), least))
        decade_ticks(axes.yaxis, *limits)
    words = (
        "How thin the body is along its widest directions: m heads make m − 1 wide ones (shaded), then a gap."
    )
    return Drawing(figure, words)


def _draw_span(steps: Sequence[Step], names: Sequence[str]) -> Drawing:
    """The distance of the true heads from the span and from the hull after each sculpting."""
    measures = {
        "span_error": ("worst head off the span", _NEWEST),
        "hull_error": ("worst head off the hull", _BEFORE),
        "span_angle": ("largest angle (radians)", _THIRD),
    }
    with _panel("sculpted in", "error of the span against the true heads") as (figure, axes):
        drawn = []
        for name, (label, look) in measures.items():
            values = [max(step.measures[name], _LEAST) for step in steps]
            axes.plot(range(len(steps)), values, **look, label=label)
            drawn += values
        axes.set(yscale="log", xlim=(-0.5, len(steps) - 0.5))
        axes.set_xticks(range(len(steps)), [name.replace(", ", "\n") for name in names])
        axes.set_xlabel("")
        decade_ticks(axes.yaxis, *widened(axes, np.array(drawn)))
    words = "How far the true heads are from what the body suggests, after each sculpting."
    return Drawing(figure, words)


def _draw_net(net: NetSearch, span: AttentionSpan, truth: AttentionLayer) -> Drawing:
    """Held-out error of every pair of points of the net for two heads; the chosen and the true pair are marked."""
    from matplotlib.colors import LogNorm

    grid, surface = np.asarray(net.grid), np.asarray(net.surface, dtype=np.float64)
    known = np.isfinite(surface)
    positive = surface[known & (surface > 0)]
    low, high = (float(positive.min()), float(positive.max())) if positive.size else (0.1, 1.0)
    half = float(grid[1] - grid[0]) / 2 if len(grid) > 1 else 0.5
    edges = float(grid[0]) - half, float(grid[-1]) + half
    with canvas(4.2, 4.55) as figure:
        axes = axes_in(figure, (0.145, 0.29, 0.83, 0.61), grid=False)
        # the smallest error has the strongest colour
        image = axes.imshow(
            np.where(known, np.maximum(surface, low), np.nan),
            cmap="cividis",
            norm=LogNorm(low, max(high, 1.001 * low)),
            extent=(*edges, *edges),
            origin="lower",
            aspect="auto",
            interpolation="none",
        )
        pairs = {"true heads": (truth.theta, OTHER, "P", 11), "chosen pair": (net.layer.theta, THIRD, "o", 7)}
        for label, (theta, colour, marker, size) in pairs.items():
            points = _along(np.asarray(theta, dtype=np.float64), span)
            if len(points) == 2:
                look = {"color": colour, "markeredgecolor": CARD, "markeredgewidth": 1.2, "linewidth": 0}
                axes.plot(
                    points, points[::-1], marker=marker, markersize=size, **look, label=label, clip_on=False
                )
        axes.set(xlim=edges, ylim=edges)
        axes.locator_params(nbins=6, prune="lower")
        name_axes(axes, "first head, along the hull", "second head, along the hull (in norms of the centre)")
        scale = figure.add_axes((0.145, 0.125, 0.83, 0.03))
        bar = figure.colorbar(image, cax=scale, orientation="horizontal")
        bar.outline.set_visible(False)
        bar.minorticks_off()
        bar.set_ticks([low, high], labels=[error_text(low), error_text(high)])
        bar.ax.tick_params(length=0)
        bar.set_label("squared relative error on held-out examples")
        legend_above(figure, columns=2)
    words = (
        "The error of every pair of points of the net. Swapping the heads changes nothing: it is symmetric."
    )
    return Drawing(figure, words)


def _along(theta: Float[np.ndarray, "m d d"], span: AttentionSpan) -> list[float]:
    """The positions of matrices along the hull of two heads, in units of the centre's norm."""
    unit = float(np.linalg.norm(span.centre)) or 1.0
    return [float(np.vdot(one - span.centre, span.directions[0])) / unit for one in theta]


def _draw_residuals(steps: Sequence[Step]) -> Drawing:
    """The residual of the fit within the span and of the Newton iterates, and their error on fresh inputs."""
    residuals = [max(step.measures["residual"], _LEAST) for step in steps]
    errors = [max(step.measures["relative_error"], _LEAST) for step in steps]
    below = "fit within the span, then Newton iterates"
    with _panel(below, "relative residual or error") as (figure, axes):
        axes.plot(range(len(steps)), residuals, **_NEWEST, label="residual on the examples")
        axes.plot(range(len(steps)), errors, **_BEFORE, label="error on fresh inputs")
        low, high = decade_limits([*residuals, *errors])
        axes.set(yscale="log", xlim=(-0.4, max(len(steps) - 0.6, 0.6)), ylim=(low, high))
        axes.locator_params(axis="x", integer=True)
        decade_ticks(axes.yaxis, low, high)
    words = "The fit within the span is as good as the span; Newton on all parameters does the rest."
    return Drawing(figure, words)
