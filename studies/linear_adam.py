"""Adam on multi-head linear attention beside the exact regression, in one run."""

import time
from collections.abc import Sequence
from typing import Any

from numpy.random import Generator

from attention import relative_error
from runs import Scale
from studies.line_figure import Panel, line_figure, number_text
from studies.study import Parameters, Row, Study
from upper.linear_attention import feature_count, make_linear_attention, regress, train_linear_attention

__all__ = ["STUDY"]

_MATCHES = 1e-6  # relative error; students too small to learn the target stay above 1e-2
_STARTS = 3
_NAMES = {"regression": "regression", "known": "Adam, H known", "twice": "Adam, 2 H", "fewer": "Adam, H - 1"}


def _cells(scale: Scale) -> Sequence[Parameters]:
    if scale is Scale.QUICK:
        return [{"d": 3, "heads": 2, "steps": 2500}]
    return [{"d": d, "heads": heads, "steps": 8000} for d, heads in ((4, 2), (4, 4), (8, 4))]


def _measure(*, d: int, heads: int, steps: int, rng: Generator) -> dict[str, Any]:
    """Errors on fresh inputs and seconds of the regression and of Adam, on one target and the same 4 D examples.

    All run in one process, one after the other, so that the seconds are comparable. Adam stops at the first start that
    brings the error on the examples below 1e-6. Its best model and the seconds of all its starts count.
    """
    target, examples = make_linear_attention(heads=heads, dim=d, rng=rng), 4 * feature_count(d)
    x, fresh = (rng.standard_normal((size, 10, d)) for size in (examples, 2000))
    y, wanted = target(x), target(fresh)
    # run both once before timing, because the first call of each library is slower
    regress(x, y)
    train_linear_attention(x[:2], y[:2], heads=1, steps=2, rng=0)
    began = time.perf_counter()
    regression = regress(x, y)
    seconds = time.perf_counter() - began
    error = float(relative_error(regression(fresh), wanted))
    learners: dict[str, Any] = {"regression": {"heads": None, "error": error, "seconds": seconds}}
    for name, student in (("known", heads), ("twice", 2 * heads), ("fewer", heads - 1)):
        fits: list[Any] = []
        while len(fits) < _STARTS and not any(_matches(fit) for fit in fits):
            fits.append(train_linear_attention(x, y, heads=student, steps=steps, learning_rate=0.03, rng=rng))
        best = min(fits, key=lambda fit: fit.error)
        learners[name] = {
            "heads": student,
            "error": float(relative_error(best.model(fresh), wanted)),
            "seconds": float(sum(fit.seconds for fit in fits)),
        }
    return {"examples": examples, "learners": learners}


def _matches(fit: Any) -> bool:
    return any(step.measures["relative_error"] < _MATCHES for step in fit.curve)


def _ratio(row: Row, name: str) -> float:
    return float(row["learners"][name]["seconds"] / row["learners"]["regression"]["seconds"])


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    if not rows:
        return {}
    errors = {name: [row["learners"][name]["error"] for row in rows] for name in _NAMES}
    ratios = [_ratio(row, "known") for row in rows]
    return {
        "targets": len(rows),
        "regression": number_text(max(errors["regression"])),
        **{f"{name}_matches": sum(error < _MATCHES for error in errors[name]) for name in _NAMES},
        "fewer_at_least": number_text(min(errors["fewer"])),
        "least_ratio": f"{min(ratios):.0f}",
        "largest_ratio": f"{max(ratios):.0f}",
    }


def _table(rows: Sequence[Row]) -> list[dict[str, str]]:
    return [
        {
            "d": str(row["d"]),
            "H": str(row["heads"]),
            "N": str(row["examples"]),
            "learner": "regression" if name == "regression" else "Adam",
            "its heads": number_text(learner["heads"]),
            "error": number_text(learner["error"]),
            "seconds": number_text(learner["seconds"]),
            "times the regression": number_text(_ratio(row, name)),
        }
        for row in rows
        for name, learner in row["learners"].items()
    ]


def _figure(rows: Sequence[Row]) -> Any:
    curves = {
        label: (
            [row["learners"][name]["seconds"] for row in rows],
            [row["learners"][name]["error"] for row in rows],
        )
        for name, label in _NAMES.items()
    }
    return line_figure([Panel("seconds", "relative error", curves, log_x=True, marks_only=True)])


STUDY = Study(
    name="linear-adam",
    title="Adam beside the exact regression",
    question="Does Adam reach the error of the exact regression on the same examples, and in what time?",
    cells=_cells,
    measure=_measure,
    numbers=_numbers,
    table=_table,
    figure=_figure,
    needs=("torch",),
)
