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
    decade_ticks,
    legend_above,
    name_axes,
)
from studies.line_figure import Panel, line_figure
from upper.six_phase import AffineHull, AttentionSpan, NetSearch, SixPhases

_MOST_POINTS = 200  # of a scatter
_LEAST = 1e-17  # zeros are drawn here on a logarithmic axis


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
    estimates: dict[str, np.ndarray] = {}
    for number, estimate in ((1, phases.crude_sum), (3, phases.refined_sum)):
        if estimate and (number == 3 or np.any(estimate.w)):
            estimates = {**estimates, f"phase {number}": estimate.w}
            drawn[number, "sum"] = _draw_sum(total, estimates)
    hulls: dict[str, AffineHull] = {}
    for number, hull in ((2, phases.crude_hull), (4, phases.hull)):
        if hull:
            hulls = {f"phase {number}": hull, **hulls}  # the newest first
            drawn[number, "agreement"] = _draw_agreement(list(hulls.items()))
    if hulls:
        drawn[4 if phases.hull else 2, "spectrum"] = _draw_spectrum(hulls, phases.heads - 1)
    if phases.span is not None:
        labels = {
            "span_error": "worst head off the span",
            "hull_error": "worst head off the hull",
            "span_angle": "largest angle (radians)",
        }
        steps = [step for step in fit.trace if step.phase in (2, 4)]
        ticks = dict(enumerate(reversed(hulls)))
        drawn[5, "span"] = _draw_measures(
            steps,
            labels,
            "How far the true heads are from what the body suggests, after each sculpting.",
            x_label="sculpted in",
            ticks=ticks,
        )
        if phases.net is not None and phases.net.surface is not None:
            drawn[6, "net"] = _draw_net(phases.net, phases.span, truth)
    if steps := [step for step in fit.trace if step.phase == 6 and "residual" in step.measures]:
        labels = {"residual": "residual on the examples", "relative_error": "error on fresh inputs"}
        drawn[6, "residual"] = _draw_measures(
            steps,
            labels,
            "The fit within the span is as good as the span; Newton on all parameters does the rest.",
            x_label="fit within the span, then Newton iterates",
        )
    return dict(sorted(drawn.items(), key=lambda item: item[0][0]))


def _draw_measures(steps: Sequence[Step], labels: Mapping[str, str], words: str, **axis: Any) -> Drawing:
    """Measures of steps, one after the other."""
    curves = {
        label: [(place, step.measures[name]) for place, step in enumerate(steps)]
        for name, label in labels.items()
    }
    return Drawing(line_figure([Panel(curves=curves, y_label="relative residual or error", **axis)]), words)


def _draw_spectrum(hulls: Mapping[str, AffineHull], wide: int) -> Drawing:
    """The smallest eigenvalues of the moment matrices of bodies; the dotted line ends the wide directions."""
    curves = {}
    for name, hull in hulls.items():
        spectrum = hull.body.spectrum
        gap = spectrum[wide] / max(spectrum[wide - 1], _LEAST) if 0 < wide < len(spectrum) else None
        label = f"{name}: one head, no gap" if gap is None else f"{name}: gap × {error_text(float(gap))}"
        curves[label] = list(enumerate(np.maximum(spectrum, _LEAST).tolist(), 1))
    panel = Panel(
        "direction of the body, the widest first",
        "eigenvalue: small is wide",
        curves,
        marks_only=True,
        verticals=[wide + 0.5] if wide else (),
    )
    words = "How thin the body is along its widest directions: m heads make m − 1 wide ones, then a gap."
    return Drawing(line_figure([panel]), words)


def _draw_sum(truth: Float[np.ndarray, "d d"], estimates: dict[str, np.ndarray]) -> Drawing:
    """Entries of estimates of the sum against the true ones."""
    entries = np.arange(truth.size)
    if len(entries) > _MOST_POINTS:
        # the largest entries, which may be few, and a sample of the rest
        order = np.argsort(-np.abs(truth.ravel()), kind="stable")
        largest, rest = np.split(order, [_MOST_POINTS // 5])
        sample = np.random.default_rng(0).choice(rest, _MOST_POINTS - len(largest), replace=False)
        entries = np.concatenate([largest, sample])
    limit = 1.08 * max(np.abs(w.ravel()[entries]).max() for w in (truth, *estimates.values())) or 1.0
    size = float(np.linalg.norm(truth)) or 1.0
    with _panel("true entry of ΣW", "estimated entry of ΣW", height=3.9) as (figure, axes):
        axes.axline((0, 0), slope=1, color=FAINT, linewidth=0.9, zorder=1)
        common = {"linewidth": 0, "markersize": 3.6, "markeredgewidth": 0.6}
        looks: tuple[dict[str, Any], ...] = (
            {"color": MAIN, "marker": "o", "markeredgecolor": CARD, "zorder": 5},
            {"color": OTHER, "marker": "x"},
        )
        for look, (name, w) in zip(looks, reversed(estimates.items()), strict=False):
            label = f"{name}: off by {error_text(float(np.linalg.norm(w - truth)) / size)}"
            axes.plot(truth.ravel()[entries], w.ravel()[entries], label=label, **common, **look)
        axes.set(xlim=(-limit, limit), ylim=(-limit, limit))
        axes.locator_params(nbins=6)
    words = "Each mark is an entry of the sum of projections: on the line the estimate is right."
    return Drawing(figure, words)


def _draw_agreement(hulls: Sequence[tuple[str, AffineHull]]) -> Drawing:
    """Residuals of the rows examined, and the threshold for acceptance; the latest round is filled."""
    with _panel("relative residual of the row", "rows", height=3.0) as (figure, axes):
        left, right = [], [1e-3]
        looks: tuple[dict[str, Any], ...] = (
            {"color": MAIN, "linestyle": "-"},
            {"color": OTHER, "linestyle": (0, (5, 2))},
        )
        for look, (name, hull) in zip(looks, hulls, strict=False):
            held = np.flatnonzero(hull.histogram)
            left += [max(hull.threshold / 2, hull.bins[0]), *hull.bins[held[:1]]]
            right += [*hull.bins[held[-1:] + 1]]
            heights = np.maximum(hull.histogram, 0.5)
            axes.stairs(heights, hull.bins, baseline=0.5, linewidth=1.2, **look, label=name)
            # the first bin also counts everything below it
            threshold = max(hull.threshold, float(np.sqrt(hull.bins[0] * hull.bins[1])))
            accepted = f"accepted up to {error_text(hull.threshold)}"
            axes.axvline(threshold, linewidth=1.8, **look, label=accepted)
        newest = hulls[0][1]
        filled = np.maximum(newest.histogram, 0.5)
        axes.stairs(filled, newest.bins, baseline=0.5, fill=True, color=MAIN, alpha=0.3)
        most = max(hull.histogram.max() for _, hull in hulls)
        axes.set(xscale="log", yscale="log", xlim=(min(left) / 2, max(right)), ylim=(0.5, 6 * most))
        decade_ticks(axes.xaxis, *axes.get_xlim())
        decade_ticks(axes.yaxis, *axes.get_ylim())
    words = "Rows by how well one pattern explains them: those up to the threshold are certified."
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
        edge = {"markeredgecolor": CARD, "markeredgewidth": 1.2, "linewidth": 0, "clip_on": False}
        for label, theta, look in (
            ("true heads", truth.theta, {"color": OTHER, "marker": "P", "markersize": 11}),
            ("chosen pair", net.layer.theta, {"color": THIRD, "marker": "o", "markersize": 7}),
        ):
            points = _along(np.asarray(theta, dtype=np.float64), span)
            if len(points) == 2:
                axes.plot(points, points[::-1], label=label, **edge, **look)
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


@contextmanager
def _panel(below: str, above: str, *, height: float = 3.3) -> Iterator[tuple[Any, Any]]:
    """One panel with its legend above, as wide as a column of the page."""
    with canvas(4.2, height) as figure:
        axes = axes_in(figure, (0.145, 0.48 / height, 0.83, (height - 1.1) / height))
        yield figure, axes
        name_axes(axes, below, above)
        legend_above(figure, columns=2)
