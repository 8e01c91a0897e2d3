"""What the six phases found on one target: a table for the terminal, and a folder with figures and a page."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arena.formats import aligned, as_plain, number_text
from arena.learned import Learned
from arena.page import template
from arena.phase_figures import draw_phases
from arena.targets import Target
from attention import Fit
from attention.files import FilePath, write_whole
from attention.foreign import json_text

__all__ = ["LAYER_FILE", "PhaseRow", "phase_rows", "phase_table", "save_phases"]

LAYER_FILE = "fitted.safetensors"
"""File name of the fitted layer in the folder that `save_phases` fills."""

_TITLES = (
    "Estimate the sum of the projections",
    "Sculpt the affine hull of the attention matrices",
    "Refine the sum of the projections",
    "Sculpt again with the refined sum",
    "Extract the span of the attention matrices",
    "Search the span for the heads",
)
# the errors of each phase against the truth, the main one first
_SUM, _LAYER = ("sum_error",), ("unknown_part_error", "theta_error", "w_error")
_SPAN = ("span_error", "hull_error", "span_angle", "agreement_error", "share_inside")
_ERRORS = {1: _SUM, 2: _SPAN, 3: _SUM, 4: _SPAN, 5: _SPAN, 6: _LAYER}
_NOT_SHOWN = {*_SUM, *_SPAN, *_LAYER, "relative_error", "key_bias_error", "bias_error", "phase_examples"}


@dataclass(frozen=True)
class PhaseRow:
    """One phase of a fit for a reader: its title, its state, the examples it drew, and its measures by label.

    The measures are those of the last round, as text. `errors` are distances from the truth, the main one first.
    """

    number: int
    title: str
    state: str
    examples: int
    measured: dict[str, str]
    errors: dict[str, str]


def phase_rows(fit: Fit) -> tuple[PhaseRow, ...]:
    """The six phases of a fit by `SixPhase` that was measured against the truth."""
    return tuple(_row(number, fit) for number in range(1, 7))


def _row(number: int, fit: Fit) -> PhaseRow:
    phases, steps = fit.details, [step for step in fit.trace if step.phase == number]
    if number == phases.failed:
        state = "failed"
    elif number == 2 and phases.mode == "practical":
        state = "not run"
    else:
        state = "done" if steps and (phases.failed is None or number < phases.failed) else "not reached"
    counted = [step for step in fit.trace if step.phase == number or (state == "failed" and not steps)]
    examples = sum(step.measures.get("phase_examples", 0) for step in counted)
    if state == "failed" and not steps:  # it drew the examples that no other phase counts
        examples = fit.examples_used - examples
    measures = {name: value for step in steps for name, value in step.measures.items()}
    shown = {name: _text(value) for name, value in measures.items()}
    return PhaseRow(
        number,
        _TITLES[number - 1],
        state,
        int(examples),
        {name.replace("_", " "): text for name, text in shown.items() if name not in _NOT_SHOWN},
        {name.replace("_", " "): shown[name] for name in _ERRORS[number] if name in shown},
    )


def _text(value: float | tuple[float, ...]) -> str:
    return ", ".join(map(number_text, value)) if isinstance(value, tuple) else number_text(value)


def phase_table(fit: Fit) -> str:
    """The phases as lines of text: examples, the main error against the truth, and how the phase ended."""
    rows = [("phase", "state", "against the truth", "", "examples")]
    for row in phase_rows(fit):
        label, error = next(iter(row.errors.items()), ("", ""))
        rows.append((f"{row.number}. {row.title}", row.state, label, error, f"{row.examples:,}"))
    return aligned(rows, left=3)


def save_phases(
    learned: Learned, target: Target, folder: FilePath, *, result: Mapping[str, Any] | None = None
) -> Path:
    """Fill a folder with index.html, an SVG file for every figure, result.json and the fitted layer.

    Parameters
    ----------
    learned : Learned
        A run of a six-phase learner.
    target : Target
        The target of the run.
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
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("phase-[1-6]-*.svg"):
        old.unlink()
    drawings = draw_phases(learned.fit, target.layer)
    for (number, name), drawing in drawings.items():
        drawing.save(folder / f"phase-{number}-{name}.svg")
    text = json_text(as_plain(learned.to_json() if result is None else result), indent=2) + "\n"
    write_whole(folder / "result.json", text.encode())
    learned.save(folder / LAYER_FILE)
    page = template("phases.html.j2").render(
        learned=learned,
        phases=learned.fit.details,
        rows=phase_rows(learned.fit),
        target=target.record,
        figures=drawings,
        data="data:application/json;charset=utf-8;base64," + base64.b64encode(text.encode()).decode(),
    )
    write_whole(folder / "index.html", page.lstrip().encode())
    return folder
