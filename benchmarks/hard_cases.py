"""Targets that are hard for Newton, and what helps: large logits, heads nearly equal, many heads."""

import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from attention import AttentionLayer, BooleanInputs, ExampleOracle, make_nice_layer, relative_error
from benchmarks.report import Json, Svg, case_words, drawing, machine, show_table, write_json
from upper import Newton, counting_floor

SUCCESS = 1e-10
_TEST_EXAMPLES = 1000


@dataclass(frozen=True)
class Remedy:
    """Settings of the learner: multiples of the counting floor, the start, and the number of extra heads."""

    name: str
    floors: int = 4
    start: str = "random"
    spare: float = 0.0
    work: int = 20_000


@dataclass(frozen=True)
class Case:
    """A distribution of targets, and the remedies to try on it."""

    name: str
    m: int
    k: int
    d: int
    sigma: float = 2.0
    gap: float | None = None
    remedies: tuple[Remedy, ...] = ()

    def target(self, seed: int) -> AttentionLayer:
        """A nice layer with its second head moved near its first; the distance is the gap, relative to |Theta_1|."""
        layer = make_nice_layer(heads=self.m, dim=self.d, sigma=self.sigma, rng=seed)
        if self.gap is None:
            return layer
        theta = layer.theta.copy()
        apart = np.random.default_rng([seed, 1]).standard_normal(theta[0].shape)
        theta[1] = theta[0] + self.gap * np.linalg.norm(theta[0]) / np.linalg.norm(apart) * apart
        return replace(layer, theta=theta)


_RANDOM = Remedy("random starts")
_MORE = Remedy("half as many heads more", spare=0.5)

CASES = (
    Case("nice", 4, 4, 32, remedies=(_RANDOM,)),
    Case("12 heads", 12, 4, 32, remedies=(_RANDOM,)),
    Case("16 heads", 16, 4, 32, remedies=(_RANDOM,)),
    Case("12 heads", 12, 8, 32, remedies=(_RANDOM,)),
    Case("16 heads", 16, 8, 32, remedies=(_RANDOM,)),
    Case("gap 1%", 2, 2, 32, gap=0.01, remedies=(_RANDOM,)),
    Case("gap 1%", 4, 4, 32, gap=0.01, remedies=(_RANDOM, _MORE, Remedy("examples", floors=16))),
    Case(
        *("sigma 16", 4, 4, 32, 16.0),
        remedies=(_RANDOM, _MORE, *(Remedy("examples", floors=n, work=40_000) for n in (8, 12, 16))),
    ),
)


def run_hard_cases(targets: int = 3, out: Json = None, figure: Svg = None) -> None:
    """Fit each case's targets with each of its remedies, one thread; print a table, write JSON and a figure.

    A success is a relative error of at most 1e-10 on a thousand fresh examples.
    """
    rows = []
    with threadpool_limits(1):
        for case in CASES:
            for remedy in case.remedies:
                rows.append(_row(case, remedy, targets))
                last = rows[-1]
                print(f"{_label(last)}: {last['successes']}/{last['targets']}", file=sys.stderr)
    _show(rows)
    write_json(out, {**machine(), "success": SUCCESS, "rows": rows})
    if figure is not None:
        _draw(rows, figure)


def _row(case: Case, remedy: Remedy, targets: int) -> dict[str, Any]:
    student = case.m + round(remedy.spare * case.m)
    examples = remedy.floors * counting_floor(heads=student, tokens=case.k, dim=case.d)
    learner = Newton(student, examples=examples, start=remedy.start, work=remedy.work)  # type: ignore[arg-type]
    inputs = BooleanInputs(case.k, case.d)
    errors, seconds, passes, starts, outcomes = [], [], [], [], []
    for seed in range(targets):
        layer = case.target(seed)
        began = time.perf_counter()
        fit = learner.fit(ExampleOracle(layer, inputs, rng=[seed, 2]), rng=[seed, 3])
        seconds.append(time.perf_counter() - began)
        x = inputs.sample(_TEST_EXAMPLES, rng=[seed, 4])
        errors.append(relative_error(fit.predict(x), layer(x)))
        measures = next(step.measures for step in fit.trace if step.name == "Held-out examples")
        passes.append(measures["total_passes"])
        starts.append(measures["starts"])
        outcomes.append(fit.outcome.name)
    return {
        **{"case": case.name, "m": case.m, "k": case.k, "d": case.d},
        **{"remedy": remedy.name, "floors": remedy.floors, "student heads": student},
        **{"examples": examples, "targets": targets},
        "successes": sum(error <= SUCCESS for error in errors),
        **{"errors": errors, "seconds": seconds, "passes": passes, "starts": starts, "outcomes": outcomes},
    }


def _label(row: dict[str, Any]) -> str:
    return f"{row['case']} ({case_words(row)}), {row['remedy']}, {row['floors']}x"


def _show(rows: list[dict[str, Any]]) -> None:
    show_table(
        "Hard cases: successes, and medians over targets; one thread",
        ("<case", "m,k,d", "<remedy", "x floor", "examples", "exact", "error", "s", "passes", "starts"),
        [
            (
                row["case"],
                case_words(row),
                row["remedy"],
                str(row["floors"]),
                str(row["examples"]),
                f"{row['successes']}/{row['targets']}",
                f"{median(row['errors']):.1e}",
                f"{median(row['seconds']):.1f}",
                f"{median(row['passes']):.0f}",
                f"{median(row['starts']):.0f}",
            )
            for row in rows
        ],
        width=120,
    )


def _draw(rows: list[dict[str, Any]], path: Path) -> None:
    with drawing(path, (9, 0.8 + 0.32 * len(rows))) as figure:
        axes = figure.subplots()
        for position, row in enumerate(rows):
            axes.plot(row["errors"], [position] * len(row["errors"]), "o", color="C0", alpha=0.6)
        axes.axvline(SUCCESS, color="C3", linewidth=1)
        labels = [f"{_label(row)}: {row['successes']}/{row['targets']}" for row in rows]
        axes.set_yticks(range(len(rows)), labels)
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.set_xlabel("relative error, a point a target; line: success")
        axes.grid(axis="x", alpha=0.3)
