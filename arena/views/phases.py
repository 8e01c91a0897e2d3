"""What the six phases found on one target: a table for the terminal, and a folder with figures and a page."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from arena.formats import aligned, as_plain, number_text
from arena.learned import Learned
from arena.views.page import data_link, template
from arena.views.phase_figures import draw_phases
from attention import Fit
from attention.files import FilePath, write_whole
from attention.foreign import json_text

LAYER_FILE = "fitted.safetensors"
"""File name of the fitted layer in the folder that `save_phases` fills."""

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

Measures = Mapping[str, float | tuple[float, ...]]


@dataclass(frozen=True)
class PhaseRow:
    """One phase of a fit: its title, how it ended, the examples it drew, and the measures of its last round.

    `errors` are distances from the truth, the main one first; `measured` has the other measures.
    """

    number: int
    title: str
    state: Literal["done", "failed", "not run", "not reached"]
    examples: int
    measured: Measures
    errors: Measures


def phase_rows(fit: Fit) -> tuple[PhaseRow, ...]:
    """The six phases of a fit by `SixPhase` that was measured against the truth."""
    return tuple(_row(fit, number, *phase) for number, phase in enumerate(_PHASES.items(), start=1))


def _row(fit: Fit, number: int, title: str, errors: tuple[str, ...]) -> PhaseRow:
    phases, steps = fit.details, [step for step in fit.trace if step.phase == number]
    state: Literal["done", "failed", "not run", "not reached"]
    if number == phases.failed:
        state = "failed"
    elif number == 2 and phases.mode == "practical":
        state = "not run"
    else:
        state = "done" if steps and (phases.failed is None or number < phases.failed) else "not reached"
    examples = sum(step.measures.get("phase_examples", 0) for step in steps)
    if state == "failed" and not steps:  # it drew the examples that no other phase counts
        examples = fit.examples_used - sum(step.measures.get("phase_examples", 0) for step in fit.trace)
    measures = {name: value for step in steps for name, value in step.measures.items()}
    return PhaseRow(
        number,
        title,
        state,
        int(examples),
        {name: value for name, value in measures.items() if name not in _NOT_SHOWN},
        {name: measures[name] for name in errors if name in measures},
    )


def phase_table(fit: Fit) -> str:
    """The phases as lines of text: examples, the main error against the truth, and how the phase ended."""
    rows = [("phase", "state", "against the truth", "", "examples")]
    for row in phase_rows(fit):
        error = [(name.replace("_", " "), number_text(value)) for name, value in row.errors.items()]
        label, text = error[0] if error else ("", "")
        rows.append((f"{row.number}. {row.title}", row.state, label, text, f"{row.examples:,}"))
    return aligned(rows, left=3)


def save_phases(learned: Learned, folder: FilePath, *, result: Mapping[str, Any] | None = None) -> Path:
    """Fill a folder with index.html, an SVG file for every figure, result.json and the fitted layer.

    Parameters
    ----------
    learned : Learned
        A run of a six-phase learner on a target.
    folder : path
        The folder, made if it is missing. Figures of an earlier run that this run does not have are deleted.
    result : mapping, optional
        The content of result.json; by default `learned.to_json()`.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    OSError
        If something cannot be written.
    """
    assert learned.target is not None
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("phase-[1-6]-*.svg"):
        old.unlink()
    drawings = draw_phases(learned.fit, learned.target.layer)
    for (number, name), drawing in drawings.items():
        drawing.save(folder / f"phase-{number}-{name}.svg")
    text = json_text(as_plain(learned.to_json() if result is None else result), indent=2) + "\n"
    write_whole(folder / "result.json", text.encode())
    learned.save(folder / LAYER_FILE)
    page = template("phases.html.j2").render(
        learned=learned,
        phases=learned.fit.details,
        rows=phase_rows(learned.fit),
        target=learned.target.record,
        figures=drawings,
        data=data_link("application/json", text),
    )
    write_whole(folder / "index.html", page.lstrip().encode())
    return folder
