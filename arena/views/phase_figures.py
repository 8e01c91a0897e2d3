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
    widened,
)
from upper.six_phase import AffineHull, AttentionSpan, NetSearch, SixPhases

__all__ = ["draw_phases"]

_MOST_POINTS = 200  # of a scatter
_LEAST = 1e-17  # zeros are drawn here on a logarithmic axis
# the newest curve is in front
_LOOKS = (
    {"color": MAIN, "marker": "o", "markersize": 6, "linewidth": 1.6, "zorder": 5},
    {"color": OTHER, "marker": "s", "markersize": 5, "linewidth": 1.4},
    {"color": THIRD, "marker": "D", "markersize": 5, "linewidth": 1.4},
)


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
    sums: dict[str, np.ndarray] = {}
    if phases.crude_sum and np.any(phases.crude_sum.w):
        sums["phase 1"] = phases.crude_sum.w
        drawn[1, "sum"] = _draw_sum(total, sums)
    hulls: dict[str, AffineHull] = {}
    if phases.crude_hull:
        hulls["phase 2"] = phases.crude_hull
        drawn[2, "agreement"] = _draw_agreement([("phase 2", phases.crude_hull)])
    if phases.refined_sum:
        drawn[3, "sum"] = _draw_sum(total, sums | {"phase 3": phases.refined_sum.w})
    if phases.hull:
        hulls["phase 4"] = phases.hull
    newest_first = [*reversed(hulls.items())]
    if phases.hull:
        drawn[4, "agreement"] = _draw_agreement(newest_first)
    if hulls:
        drawn[4 if phases.hull else 2, "spectrum"] = _draw_spectrum(newest_first, phases.heads - 1)
    if phases.span is not None:
        drawn[5, "span"] = _draw_span([step for step in fit.trace if step.phase in (2, 4)], [*hulls])
        if phases.net is not None and phases.net.surface is not None:
            drawn[6, "net"] = _draw_net(phases.net, phases.span, truth)
    steps = [step for step in fit.trace if step.phase == 6 and "residual" in step.measures]
    if steps:
        drawn[6, "residual"] = _draw_residuals(steps)
    return drawn


@contextmanager
def _panel(below: str, above: str, *, height: float = 3.3) -> Iterator[tuple[Any, Any]]:
    """One panel with its legend above, as wide as a column of the page."""
    with canvas(4.2, height) as figure:
        axes = axes_in(figure, (0.145, 0.48 / height, 0.83, (height - 1.1) / height))
        yield figure, axes
        name_axes(axes, below, above)
        legend_above(figure, columns=2)


def _plot(
    axes: Any,
    curves: Mapping[str, Sequence[float] | np.ndarray],
    *,
    least: float = _LEAST,
    **look: float | int,
) -> None:
    """Curves by their label on a logarithmic axis; the horizontal one counts from 0."""
    values = {label: np.maximum(curve, least) for label, curve in curves.items()}
    for own, (label, curve) in zip(_LOOKS, values.items(), strict=False):
        axes.plot(curve, label=label, markeredgecolor=CARD, **own | look)
    axes.set_yscale("log")
    decade_ticks(axes.yaxis, *widened(axes, np.concatenate([*values.values()])))


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


def _draw_spectrum(hulls: Sequence[tuple[str, AffineHull]], wide: int) -> Drawing:
    """The smallest eigenvalues of the moment matrices of bodies; the wide directions are shaded."""
    newest = hulls[0][1].body.spectrum
    least = max(1e-3 * float(newest[newest > 0].min(initial=1.0)), _LEAST)
    curves = {}
    for name, hull in hulls:
        spectrum = hull.body.spectrum
        gap = spectrum[wide] / max(spectrum[wide - 1], _LEAST) if 0 < wide < len(spectrum) else None
        label = f"{name}: one head, no gap" if gap is None else f"{name}: gap × {error_text(float(gap))}"
        curves[label] = spectrum
    most = max(map(len, curves.values()))
    with _panel("direction of the body, the widest first", "eigenvalue: small is wide") as (figure, axes):
        _plot(axes, curves, least=least, linewidth=0)
        if wide:
            axes.axvspan(-0.6, wide - 0.5, color=FAINT, alpha=0.13, linewidth=0)
        axes.set_xlim(-0.6, most - 0.4)
        axes.set_xticks(range(most), range(1, most + 1))
    words = (
        "How thin the body is along its widest directions: m heads make m − 1 wide ones (shaded), then a gap."
    )
    return Drawing(figure, words)


def _draw_span(steps: Sequence[Step], names: Sequence[str]) -> Drawing:
    """The distance of the true heads from the span and from the hull after each sculpting."""
    labels = {
        "span_error": "worst head off the span",
        "hull_error": "worst head off the hull",
        "span_angle": "largest angle (radians)",
    }
    with _panel("sculpted in", "error of the span against the true heads") as (figure, axes):
        _plot(axes, {label: [step.measures[name] for step in steps] for name, label in labels.items()})
        axes.set_xlim(-0.5, len(steps) - 0.5)
        axes.set_xticks(range(len(steps)), [name.replace(", ", "\n") for name in names])
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


def _draw_residuals(steps: Sequence[Step]) -> Drawing:
    """The residual of the fit within the span and of the Newton iterates, and their error on fresh inputs."""
    labels = {"residual": "residual on the examples", "relative_error": "error on fresh inputs"}
    below = "fit within the span, then Newton iterates"
    with _panel(below, "relative residual or error") as (figure, axes):
        _plot(axes, {label: [step.measures[name] for step in steps] for name, label in labels.items()})
        axes.set_xlim(-0.4, max(len(steps) - 0.6, 0.6))
        axes.locator_params(axis="x", integer=True)
    words = "The fit within the span is as good as the span; Newton on all parameters does the rest."
    return Drawing(figure, words)
