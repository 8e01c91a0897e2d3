"""What the six phases found on one target: a table for the terminal, two figures, and a folder with a page."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from arena.formats import aligned, as_plain, error_text, number_text
from arena.learned import Learned
from arena.views.figures import Drawing
from arena.views.page import data_link, template
from attention import AttentionLayer, Fit
from attention.files import FilePath, write_whole
from attention.foreign import json_text
from runs.figures import CARD, FAINT, MAIN, OTHER, THIRD, axes_in, canvas, legend_above, name_axes
from studies.line_figure import Panel, line_figure
from upper.six_phase import AttentionSpan, NetSearch, SixPhases

LAYER_FILE = "fitted.safetensors"
"""File name of the fitted layer in the folder that `save_phases` fills."""
_MOST_POINTS = 200  # of a scatter

# the title of each phase, and its errors against the truth, the main one first
_SUM, _LAYER = ("sum_error",), ("unknown_part_error", "theta_error", "w_error")
_SPAN = ("span_error", "hull_error", "span_angle", "agreement_error", "share_inside")
_PHASES = {
    "Estimate the sum of the projections": _SUM,
    "Sculpt the affine hull of the attention matrices": _SPAN,
    "Refine the sum of the projections": _SUM,
    "Sculpt again with the refined sum": _SPAN,
    "Extract the span of the attention matrices": _SPAN,
    "Search the span for the heads": _LAYER,
}
_NOT_SHOWN = {*_SUM, *_SPAN, *_LAYER, "relative_error", "key_bias_error", "bias_error", "phase_examples"}


@dataclass(frozen=True)
class PhaseRow:
    """One phase of a fit, with the measures of its last round."""

    number: int
    title: str
    state: Literal["done", "failed", "not run", "not reached"]
    examples: int  #: that it drew
    measured: Mapping[str, float | tuple[float, ...]]  #: all but the errors
    errors: Mapping[str, float | tuple[float, ...]]  #: distances from the truth, the main one first


def phase_rows(fit: Fit) -> tuple[PhaseRow, ...]:
    """The six phases of a fit by `SixPhase` that was measured against the truth."""
    return tuple(_row(fit, number, *phase) for number, phase in enumerate(_PHASES.items(), start=1))


def _row(fit: Fit, number: int, title: str, errors: tuple[str, ...]) -> PhaseRow:
    phases, steps = fit.details, [step for step in fit.trace if step.phase == number]
    state: Literal["done", "failed", "not run", "not reached"] = "not reached"
    if number == phases.failed:
        state = "failed"
    elif number == 2 and phases.mode == "practical":
        state = "not run"
    elif steps and (phases.failed is None or number < phases.failed):
        state = "done"
    examples = sum(step.measures.get("phase_examples", 0) for step in steps)
    if state == "failed" and not steps:  # it drew the examples that no other phase counts
        examples = fit.examples_used - sum(step.measures.get("phase_examples", 0) for step in fit.trace)
    measures = {name: value for step in steps for name, value in step.measures.items()}
    measured = {name: value for name, value in measures.items() if name not in _NOT_SHOWN}
    wrong = {name: measures[name] for name in errors if name in measures}
    return PhaseRow(number, title, state, int(examples), measured, wrong)


def phase_table(fit: Fit) -> str:
    """The phases as lines of text: examples, the main error against the truth, and how the phase ended."""
    rows = [("phase", "state", "against the truth", "", "examples")]
    for row in phase_rows(fit):
        error = [(name.replace("_", " "), number_text(value)) for name, value in row.errors.items()]
        rows.append((f"{row.number}. {row.title}", row.state, *(error or [("", "")])[0], f"{row.examples:,}"))
    return aligned(rows, left=3)


def draw_phases(fit: Fit, truth: AttentionLayer) -> dict[str, Drawing]:
    """The figures of a fit by `SixPhase` beside the true layer: of phases 1 and 3, "sum"; of phase 6, "search".

    Without the data of a figure there is none. The search of paper mode can be drawn for two heads.
    """
    phases: SixPhases = fit.details
    sums = {"phase 1": phases.crude_sum, "phase 3": phases.refined_sum}
    drawn = {}
    if estimates := {name: one.w for name, one in sums.items() if one is not None and np.any(one.w)}:
        drawn["sum"] = _draw_sum(np.asarray(truth.w, dtype=np.float64).sum(axis=0), estimates)
    steps = [step for step in fit.trace if step.phase == 6 and "residual" in step.measures]
    if phases.span is not None and phases.net is not None and phases.net.surface is not None:
        drawn["search"] = _draw_net(phases.net, phases.span, truth)
    elif steps:
        labels = {"residual": "residual on the examples", "relative_error": "error on fresh inputs"}
        curves = {
            label: [(place, step.measures[name]) for place, step in enumerate(steps)]
            for name, label in labels.items()
        }
        panel = Panel("fit within the span, then Newton iterates", "relative residual or error", curves)
        words = "The fit within the span is as good as the span; Newton on all parameters does the rest."
        drawn["search"] = Drawing(line_figure([panel]), words)
    return drawn


def save_phases(learned: Learned, folder: FilePath, *, result: Mapping[str, Any] | None = None) -> Path:
    """Fill a folder with index.html, an SVG file for every figure, result.json and the fitted layer; return it.

    Figures of an earlier run are deleted. `result` is the content of result.json, by default `learned.to_json()`.
    OSError if something cannot be written.
    """
    assert learned.target is not None
    truth = learned.target.layer
    assert isinstance(truth, AttentionLayer)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("phase*.svg"):
        old.unlink()
    drawings = draw_phases(learned.fit, truth)
    for name, drawing in drawings.items():
        drawing.save(folder / f"phases-{name}.svg")
    text = json_text(as_plain(learned.to_json() if result is None else result), indent=2) + "\n"
    write_whole(folder / "result.json", text.encode())
    learned.save(folder / LAYER_FILE)
    record, data = learned.target.record, data_link("application/json", text)
    shown = {"learned": learned, "phases": learned.fit.details, "target": record, "data": data}
    page = template("phases.html.j2").render(rows=phase_rows(learned.fit), figures=drawings, **shown)
    write_whole(folder / "index.html", page.lstrip().encode())
    return folder


def _draw_sum(truth: Float[np.ndarray, "d d"], estimates: dict[str, np.ndarray]) -> Drawing:
    """Entries of estimates of the sum against the true ones: the largest, which may be few, and some of the rest."""
    order = np.argsort(-np.abs(truth.ravel()), kind="stable")
    largest, rest = np.split(order, [_MOST_POINTS // 5])
    rest = np.random.default_rng(0).permutation(rest)[: _MOST_POINTS - len(largest)]
    entries = np.concatenate([largest, rest])
    limit = 1.08 * max(np.abs(w.ravel()[entries]).max() for w in (truth, *estimates.values())) or 1.0
    looks: tuple[dict[str, Any], ...] = (
        {"color": MAIN, "marker": "o", "markeredgecolor": CARD, "zorder": 5},
        {"color": OTHER, "marker": "x"},
    )
    with canvas(4.2, 3.9) as figure:
        axes = axes_in(figure, (0.145, 0.123, 0.832, 0.718))
        axes.axline((0, 0), slope=1, color=FAINT, linewidth=0.9, zorder=1)
        for look, (name, w) in zip(looks, reversed(estimates.items()), strict=False):
            off = float(np.linalg.norm(w - truth)) / (float(np.linalg.norm(truth)) or 1.0)
            look = {"linewidth": 0, "markersize": 3.6, "markeredgewidth": 0.6, **look}
            label = f"{name}: off by {error_text(off)}"
            axes.plot(truth.ravel()[entries], w.ravel()[entries], label=label, **look)
        axes.set(xlim=(-limit, limit), ylim=(-limit, limit))
        axes.locator_params(nbins=6)
        name_axes(axes, "true entry of ΣW", "estimated entry of ΣW")
        legend_above(figure, columns=2)
    return Drawing(
        figure, "Each mark is an entry of the sum of projections: on the line the estimate is right."
    )


def _draw_net(net: NetSearch, span: AttentionSpan, truth: AttentionLayer) -> Drawing:
    """Held-out error of every pair of points of the net for two heads; the chosen and the true pair are marked."""
    from matplotlib.colors import LogNorm

    grid, surface = np.asarray(net.grid), np.asarray(net.surface, dtype=np.float64)
    positive = surface[np.isfinite(surface) & (surface > 0)]
    low, high = (float(positive.min()), float(positive.max())) if positive.size else (0.1, 1.0)
    half = float(grid[1] - grid[0]) / 2 if len(grid) > 1 else 0.5
    edges = float(grid[0]) - half, float(grid[-1]) + half
    unit = float(np.linalg.norm(span.centre)) or 1.0
    with canvas(4.2, 4.55) as figure:
        axes = axes_in(figure, (0.145, 0.29, 0.83, 0.61), grid=False)
        # the smallest error has the strongest colour
        image = axes.imshow(
            np.where(np.isfinite(surface), np.maximum(surface, low), np.nan),
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
            # along the hull, in units of the centre's norm
            points = [
                float(np.vdot(head - span.centre, span.directions[0])) / unit for head in np.asarray(theta)
            ]
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
    return Drawing(
        figure,
        "The error of every pair of points of the net. Swapping the heads changes nothing: it is symmetric.",
    )
