"""The figures of the six phases as SVG: what each found, beside the truth where that can be drawn."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from arena._canvas import canvas, power_of_ten, svg_text
from arena.drawing import Drawing
from arena.palette import CARD, FAINT, INK
from arena.phase_axes import (
    MAIN,
    OTHER,
    THIRD,
    axes_in,
    decade_limits,
    decade_ticks,
    legend_above,
    name_axes,
    widened,
)
from arena.phase_outputs import draw_outputs
from arena.phase_surface import draw_surface
from arena.phase_words import LEAST_STEP, digits
from arena.words import short_count
from attention import AttentionLayer, Fit, Inputs
from upper.six_phase import AffineHull, AttentionSpan, Phases

__all__ = ["FIGURES", "draw_phases"]

FIGURES = (
    *("phase-1-sum", "phase-2-thresholds", "phase-2-agreement", "phase-2-spectrum", "phase-3-sum"),
    *("phase-4-agreement", "phase-4-spectrum", "phase-5-span"),
    *("phase-6-net", "phase-6-outputs", "phase-6-residual"),
)
"""Every name that `draw_phases` gives a figure; the digit is the phase."""

_MOST_POINTS = 500  # of a scatter
_LEAST = 1e-17


def draw_phases(phases: Phases, truth: AttentionLayer, inputs: Inputs) -> Mapping[str, Drawing]:
    """The figures of a run by name, for as many phases as left something to draw.

    Parameters
    ----------
    phases : Phases
        The run.
    truth : AttentionLayer
        The layer that was to be learned.
    inputs : Inputs
        The distribution of its tokens.
    """
    drawn = {}
    total = np.asarray(truth.w, dtype=np.float64).sum(axis=0)
    first = phases.projection_sum
    if first is not None and np.any(first.w):
        drawn["phase-1-sum"] = _scatter(total, {"phase 1": first.w})
    if first is not None and phases.refinements:
        named = {"phase 1": first.w, "phase 3": phases.refinements[-1].w}
        drawn["phase-3-sum"] = _scatter(total, named)
        if "thresholds" in (series := phases.refinements[-1].series):
            drawn["phase-2-thresholds"] = _thresholds(series["thresholds"])
    names = _hull_names(phases)
    numbers = [step.phase for step in phases.fit.trace if step.phase in (2, 4)]
    if phases.hulls and numbers[0] == 2:
        drawn["phase-2-agreement"] = _histogram({names[0]: phases.hulls[0]})
    if names and numbers[len(names) - 1] == 4:
        before = {} if len(names) == 1 else {names[0]: phases.hulls[0]}
        drawn["phase-4-agreement"] = _histogram({**before, names[-1]: phases.hulls[-1]})
    spectra = {
        name: hull.body.spectrum
        for name, hull in zip(names, phases.hulls, strict=True)
        if len(hull.body.spectrum)
    }
    if spectra:
        ends = [name for name in (names[0], names[-1]) if name in spectra]
        drawn[f"phase-{numbers[len(names) - 1]}-spectrum"] = _spectrum(
            {name: spectra[name] for name in ends}, phases.heads - 1
        )
    if phases.span is not None:
        drawn["phase-5-span"] = _span_by_round(names, phases.spans, truth)
    sixth = [step for step in phases.fit.trace if step.phase == 6]
    if phases.net is not None and phases.net.surface is not None:
        drawn["phase-6-net"] = draw_surface(phases.net, phases.spans[-1], truth)
    elif phases.net is not None:
        error = sixth[-1].measures["relative_error"]
        drawn["phase-6-outputs"] = draw_outputs(phases.net.layer, truth, inputs, error=error)
    elif sixth:
        drawn["phase-6-residual"] = _residuals(phases.fit)
    return {name: drawn[name] for name in FIGURES if name in drawn}


def _hull_names(phases: Phases) -> list[str]:
    """After which phase and round each body was sculpted."""
    steps = [step for step in phases.fit.trace if step.phase in (2, 4)]
    return [
        f"phase {step.phase}" + ("" if step.round is None else f", round {step.round}")
        for step in steps[: len(phases.hulls)]
    ]


def _scatter(truth: Float[np.ndarray, "d d"], estimates: Mapping[str, np.ndarray]) -> Drawing:
    """Entries of estimates of the sum against the true ones."""
    entries = np.arange(truth.size)
    if len(entries) > _MOST_POINTS:
        # the largest of all, which may be few, and a sample of the rest
        sizes = np.max([np.abs(one.ravel()) for one in (truth, *estimates.values())], axis=0)
        largest = np.argsort(-sizes, kind="stable")[: _MOST_POINTS // 5]
        rest = np.setdiff1d(entries, largest)
        sample = np.random.default_rng(0).choice(rest, _MOST_POINTS - len(largest), replace=False)
        entries = np.sort(np.concatenate([largest, sample]))
    size = float(np.linalg.norm(truth)) or 1.0
    limit = 1.08 * max(float(np.abs(one.ravel()[entries]).max()) for one in (truth, *estimates.values()))
    limit = limit or 1.0
    with canvas(4.2, 3.9) as figure:
        axes = axes_in(figure, (0.145, 0.12, 0.83, 0.74))
        axes.plot([-limit, limit], [-limit, limit], color=FAINT, linewidth=0.9, zorder=1)
        axes.axhline(0.0, color=FAINT, linewidth=0.6, alpha=0.4)
        axes.axvline(0.0, color=FAINT, linewidth=0.6, alpha=0.4)
        last = len(estimates) - 1
        for place, (name, estimate) in enumerate(estimates.items()):
            error = float(np.linalg.norm(estimate - truth)) / size
            axes.plot(
                truth.ravel()[entries],
                estimate.ravel()[entries],
                linestyle="none",
                marker="x" if place < last else "o",
                markersize=3.6 if place < last else 3.2,
                markeredgewidth=0.9 if place < last else 0.0,
                markeredgecolor=OTHER,
                markerfacecolor=MAIN,
                label=f"{name}: off by {digits(error)}",
            )
        axes.set(xlim=(-limit, limit), ylim=(-limit, limit))
        axes.locator_params(nbins=6)
        name_axes(axes, "true entry of ΣW", "estimated entry of ΣW")
        legend_above(figure, columns=2)
        svg = svg_text(figure)
    said = "; ".join(
        f"after {name} the relative error is {digits(float(np.linalg.norm(one - truth)) / size)}"
        for name, one in estimates.items()
    )
    some = "" if len(entries) == truth.size else f" ({len(entries)} of {truth.size} entries, drawn at random)"
    return Drawing(svg, f"Entries of the estimated sum of projections against the true ones{some}: {said}.")


def _histogram(hulls: Mapping[str, AffineHull]) -> Drawing:
    """Residuals of the rows looked at, with the threshold up to which they were accepted; the last one filled."""
    last = len(hulls) - 1
    with canvas(4.2, 3.0) as figure:
        axes = axes_in(figure, (0.145, 0.155, 0.83, 0.62))
        lows, highs = [], []
        for place, (name, hull) in enumerate(hulls.items()):
            counts, edges = hull.histogram, hull.bins
            held = np.flatnonzero(counts)
            if len(held):
                lows.append(edges[held[0]])
                highs.append(edges[held[-1] + 1])
            lows.append(max(hull.threshold / 2, hull.bins[0]))
            heights = np.maximum(counts, 0.5)
            label = f"{name}: {short_count(hull.rows)} rows"
            if place == last:
                axes.stairs(heights, edges, baseline=0.5, fill=True, color=MAIN, alpha=0.4)
                axes.stairs(heights, edges, baseline=0.5, color=MAIN, linewidth=1.2, label=label)
            else:
                axes.stairs(
                    heights,
                    edges,
                    baseline=0.5,
                    color=OTHER,
                    linewidth=1.2,
                    linestyle=(0, (5, 2)),
                    label=label,
                )
            axes.axvline(
                # what is below the bins is in the first of them
                hull.threshold if hull.threshold > hull.bins[0] else math.sqrt(hull.bins[0] * hull.bins[1]),
                color=MAIN if place == last else OTHER,
                linewidth=1.8,
                linestyle="-" if place == last else (0, (5, 2)),
                label=f"accepted up to {digits(hull.threshold)}",
            )
        below = any(hull.histogram[0] for hull in hulls.values())
        least = power_of_ten(round(math.log10(list(hulls.values())[-1].bins[0])))
        also = f" (below {least}: leftmost bar)" if below else " of the regression"
        left = min(lows) / (2.0 if below else 1.0)  # a bar on the axis could not be seen
        axes.set(xscale="log", yscale="log", xlim=(left, max(highs, default=1e2)))
        axes.set_ylim(0.5, 3 * max(hull.histogram.max() for hull in hulls.values()) * 2)
        decade_ticks(axes.xaxis, *axes.get_xlim())
        decade_ticks(axes.yaxis, *axes.get_ylim())
        name_axes(axes, f"relative residual{also}", "rows")
        legend_above(figure, columns=2)
        svg = svg_text(figure)
    said = "; ".join(
        f"{name}: {hull.accepted:,} of {hull.rows:,} rows accepted, with residuals up to {digits(hull.threshold)}"
        for name, hull in hulls.items()
    )
    return Drawing(svg, f"Histogram of the residuals of the rows, on logarithmic axes: {said}.")


def _thresholds(thresholds: Sequence[float] | np.ndarray) -> Drawing:
    """The residual up to which each round of the self-consistent refinement accepted rows."""
    rounds = range(1, len(thresholds) + 1)
    values = np.maximum(np.asarray(thresholds, dtype=np.float64), _LEAST)
    with canvas(4.2, 2.7) as figure:
        axes = axes_in(figure, (0.145, 0.175, 0.83, 0.7))
        axes.plot(rounds, values, color=MAIN, marker="o", markersize=6, linewidth=1.6, markeredgecolor=CARD)
        axes.set(yscale="log", xlim=(0.6, len(thresholds) + 0.4))
        axes.set_xticks(list(rounds))
        decade_ticks(axes.yaxis, *widened(axes, values))
        name_axes(axes, "round of phase 3", "rows are certified up to this residual")
        svg = svg_text(figure)
    said = ", ".join(digits(one) for one in values)
    return Drawing(svg, f"Residual up to which rows are certified, round by round: {said}.")


def _spectrum(spectra: Mapping[str, np.ndarray], wide: int) -> Drawing:
    """The smallest eigenvalues of the bodies' moment matrices, the gap of the newest marked."""
    newest = list(spectra.values())[-1]
    least = max(1e-3 * float(newest[newest > 0].min(initial=1.0)), 1e-17)
    said = []
    with canvas(4.2, 3.3) as figure:
        axes = axes_in(figure, (0.145, 0.145, 0.83, 0.67))
        last = len(spectra) - 1
        for place, (name, spectrum) in enumerate(spectra.items()):
            values = np.maximum(spectrum, least)
            axes.plot(
                range(1, len(values) + 1),
                values,
                color=MAIN if place == last else OTHER,
                marker="o" if place == last else "s",
                markersize=6.5 if place == last else 5,
                linestyle="none" if place == last else (0, (5, 2)),
                linewidth=1.0,
                markeredgecolor=CARD,
                zorder=3 + place,
                label=f"body of {name}",
            )
            said.append(f"{name}: " + ", ".join(digits(one) for one in spectrum))
        drawn = np.concatenate([np.maximum(one, least) for one in spectra.values()])
        low, high = widened(axes, drawn)
        axes.set(yscale="log", xlim=(0.4, max(map(len, spectra.values())) + 0.6))
        axes.set_ylim(low, high)
        if 0 < wide < len(newest):
            below, above = max(float(newest[wide - 1]), least), max(float(newest[wide]), least)
            axes.axvspan(0.4, wide + 0.5, color=FAINT, alpha=0.13, linewidth=0)
            some = f"{wide} wide direction{'' if wide == 1 else 's'}"
            if above < LEAST_STEP * below:
                words = f"no gap after\n{some}"
            elif newest[wide - 1] > 0:
                words = f"gap × {digits(above / below)}\n{some}\non the left"
            else:
                words = f"gap\n{some}\non the left"
            clear = above > 5 * below  # room for words beside the arrow
            if clear:
                arrow = {"arrowstyle": "<->", "color": INK, "linewidth": 1.1, "shrinkA": 0, "shrinkB": 0}
                axes.annotate("", (wide + 0.5, below), (wide + 0.5, above), arrowprops=arrow)
            axes.annotate(
                words,
                (wide + 0.5, math.sqrt(below * above) if clear else low * (high / low) ** 0.86),
                xytext=(8, 0),
                textcoords="offset points",
                va="center",
                bbox={"facecolor": CARD, "edgecolor": "none", "pad": 1.5, "alpha": 0.85},
            )
            said.append(f"after {wide} the newest steps up by a factor of {digits(above / below)}")
        elif wide == 0:
            axes.annotate("one head: no direction is wide", (0.5, low * (high / low) ** 0.93), va="center")
        axes.set_xticks(range(1, max(map(len, spectra.values())) + 1))
        decade_ticks(axes.yaxis, low, high)
        zero = "; 0 is drawn lowest" if any((one < least).any() for one in spectra.values()) else ""
        name_axes(axes, "direction of the body, the widest first", f"eigenvalue: small is wide{zero}")
        legend_above(figure, columns=2)
        svg = svg_text(figure)
    return Drawing(svg, f"Smallest eigenvalues of the body's moment matrix. {'; '.join(said)}.")


def _span_by_round(names: Sequence[str], spans: Sequence[AttentionSpan], truth: AttentionLayer) -> Drawing:
    """How far the true heads are from the span and from the hull after each sculpting."""
    errors = [span.errors(truth) for span in spans]
    looks = {
        "span_error": ("worst head off the span", MAIN, "o"),
        "hull_error": ("worst head off the hull", OTHER, "s"),
        "span_angle": ("largest angle (radians)", THIRD, "D"),
    }
    rows = range(len(names))
    with canvas(4.2, 1.65 + 0.5 * len(names)) as figure:
        height = 1.65 + 0.5 * len(names)
        axes = axes_in(figure, (0.22, 0.5 / height, 0.755, (height - 1.2) / height))
        values = []
        for place, (key, (label, colour, marker)) in enumerate(looks.items()):
            those = [max(one[key], _LEAST) for one in errors]
            values += those
            shifted = [row + 0.18 * (place - 1) for row in rows]
            axes.plot(
                those,
                shifted,
                color=colour,
                marker=marker,
                markersize=6.5,
                linewidth=1.2,
                markeredgecolor=CARD,
                label=label,
            )
        low, high = decade_limits(values)
        axes.set(xscale="log", xlim=(low, high), ylim=(len(names) - 0.5, -0.5))
        axes.set_yticks(list(rows), [name.replace("phase 4, round", "round") for name in names])
        decade_ticks(axes.xaxis, low, high)
        name_axes(axes, "error of the span against the true heads", "")
        legend_above(figure, columns=2)
        svg = svg_text(figure)
    said = "; ".join(
        f"after {name} the worst head is {digits(one['span_error'])} off the span, {digits(one['hull_error'])} "
        "off the "
        f"hull, and the largest angle is {digits(one['span_angle'])} radians"
        for name, one in zip(names, errors, strict=True)
    )
    return Drawing(svg, f"Error of the span by round: {said}.")


def _residuals(fit: Fit) -> Drawing:
    """The residual of the fit within the span and of the Newton iterates, and their error on fresh inputs."""
    steps = [step for step in fit.trace if step.phase == 6 and "residual" in step.measures]
    steps = [step for step in steps if "held_out_error" not in step.measures] or steps
    residuals = [max(step.measures["residual"], _LEAST) for step in steps]
    errors = [max(step.measures.get("relative_error", math.nan), _LEAST) for step in steps]
    with canvas(4.2, 3.3) as figure:
        axes = axes_in(figure, (0.145, 0.145, 0.83, 0.67))
        places = range(len(steps))
        axes.plot(
            places,
            residuals,
            color=MAIN,
            marker="o",
            markersize=6,
            linewidth=1.6,
            markeredgecolor=CARD,
            label="residual on the examples",
        )
        axes.plot(
            places,
            errors,
            color=OTHER,
            marker="s",
            markersize=5.5,
            linewidth=1.6,
            linestyle=(0, (5, 2)),
            markeredgecolor=CARD,
            label="error on fresh inputs",
        )
        low, high = widened(axes, np.array([*residuals, *errors]))
        axes.set(yscale="log", xlim=(-0.4, max(len(steps) - 0.6, 0.6)))
        axes.set_ylim(low, high)
        every = -(-len(steps) // 10)
        shown = [place for place in places if place % every == 0]
        axes.set_xticks(shown, ["fit" if place == 0 else str(place - 1) for place in shown])
        decade_ticks(axes.yaxis, low, high)
        name_axes(axes, "fit within the span, then Newton iterates", "relative residual or error")
        legend_above(figure, columns=2)
        svg = svg_text(figure)
    return Drawing(
        svg,
        f"Relative residual over {len(steps)} steps, from {digits(residuals[0])} after the fit within the span to "
        f"{digits(residuals[-1])}; the error on fresh inputs ends at {digits(errors[-1])}.",
    )
