"""Newton and its alternatives, interleaved in one process on one thread: seconds and examples to an error.

Every learner runs on every target, target after target; the first learner changes from target to target. Seconds are
those of the processor: the wall-clock seconds of each learner's own record, times the share of the processor that the
fit had. Drawing examples counts, measuring against the truth does not. All settings of gradient descent run, those that
`tune-peers` found. For each error and case the best setting counts, with the time of its own run only.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import groupby
from math import inf, isfinite
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from arena.formats import plural
from attention import BooleanInputs, ExampleOracle, Fit, GroundTruth, Learner, make_nice_layer
from benchmarks.peer_settings import Peer, lbfgs_examples, peer_settings
from benchmarks.referee import MISSING, OptimistixLM, has_referee
from benchmarks.report import Json, Svg, case_words, drawing, end_with, show_table, write_json
from runs import single_thread, versions
from runs.figures import decade_ticks, learner_look
from upper import LBFGS, GradientDescent, Newton, OneGradientStep
from upper.engine import EngineName

CASES = ((2, 2, 32), (4, 4, 32), (8, 4, 32), (4, 4, 64))
"""The sizes for which `tune-peers` found settings."""
ERRORS = (1e-2, 1e-6, 1e-12)
FRESH, REUSING = "Adam, fresh examples", "Adam, a fixed set"
MOST_SECONDS = {1e-6: 0.4, 1e-12: 0.12}
"""The largest allowed ratio of Newton's seconds to those of the best peer, for the errors that have a goal."""
MOST_SECONDS_OF_EIGHT = 0.5
"""The same to 1e-6 at (8, 4, 32)."""
MOST_EXAMPLES = 0.01
"""The largest allowed ratio of Newton's examples to 1e-6 to those of the best Adam that sees each one once."""

_JUDGED = 1e-6
_NEWTON = ("Newton", "Newton, NumPy alone")
_FRESH_INPUTS = 1000
_LEAST = 1e-16  # the lowest error that is drawn
_LBFGS_PASSES = 3000  # twice the largest number needed so far
_PACKAGES: dict[Peer, str] = {
    "sgd": "torch",
    "varpro": "torch",
    "muon": "torch",
    "soap": "pytorch_optimizer",
    "adam": "torch",
}
_NAMES = {"sgd": "SGD", "muon": "Muon", "soap": "SOAP"}


@dataclass(frozen=True)
class Contender:
    """A learner, its row in the table, and, if the row has several settings, its setting in words."""

    row: str
    setting: str
    learner: Learner


def run_learners(
    targets: int = 3,
    minutes: float = 30.0,
    engine: EngineName = "auto",
    device: str | None = None,
    out: Json = None,
    figure: Svg = None,
) -> None:
    """Run every case; print the tables and, on request, write the figures as JSON and draw them.

    After the first target, no target is begun that would end after `minutes`, as long as the longest so far.
    """
    runs: list[dict[str, Any]] = []
    fields = {case: contenders(*case, engine=engine, device=device) for case in CASES}
    began, longest, done = time.monotonic(), 0.0, 0
    with single_thread(torch=True):
        for (_, k, d), field in fields.items():
            _warm_up(field, k, d)
        # target after target, so that every case has as many when the time is up
        while done < targets and (done == 0 or time.monotonic() - began + longest <= 60 * minutes):
            since = time.monotonic()
            for (m, k, d), field in fields.items():
                for one in (*field[done % len(field) :], *field[: done % len(field)]):
                    runs.append({"m": m, "k": k, "d": d, "target": done, **_run(one, m, k, d, done)})
            longest, done = max(longest, time.monotonic() - since), done + 1
    rows = [row for case in CASES for row in compare_at_errors(runs, case)]
    made = {"targets": done, "threads": 1, "engine": engine, "device": device, "versions": versions()}
    found: dict[str, Any] = {**made, "rows": rows, "runs": runs}
    _show(found)
    write_json(out, found)
    if figure is not None:
        _draw(found, figure)
    end_with(_missed(rows))


def _missed(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """One sentence for each missed goal."""
    missed = []
    for row in rows:
        case, error = (row["m"], row["k"], row["d"]), row["error"]
        most = (
            MOST_SECONDS_OF_EIGHT if (*case, error) == (8, 4, 32, _JUDGED) else MOST_SECONDS.get(error, inf)
        )
        if not (share := row["of the best peer's seconds"]["Newton"]) <= most:
            missed.append(
                f"(m, k, d) = {case}: Newton takes {share:.2f} of the seconds of {row['best peer']} to {error:g}; at "
                f"most {most:g} is wanted."
            )
        if error == _JUDGED and not (share := row["of Adam's examples"]) <= MOST_EXAMPLES:
            missed.append(
                f"(m, k, d) = {case}: Newton takes {share:.2%} of the best Adam's examples to {error:g}; at most "
                f"{MOST_EXAMPLES:.0%} is wanted."
            )
    return missed


def contenders(m: int, k: int, d: int, *, engine: EngineName, device: str | None) -> list[Contender]:
    """Everything that runs on a case; without torch, all but gradient descent."""
    lbfgs = LBFGS(m, examples=lbfgs_examples(m, k, d), work=_LBFGS_PASSES, tolerance=1e-14)
    return [
        Contender("Newton", "", Newton(m, engine=engine, device=device)),
        Contender("Newton, NumPy alone", "", Newton(m, engine="numpy")),
        Contender("L-BFGS", "", lbfgs),
        *(
            Contender(_row(setting), _words(setting), setting)
            for name, package in _PACKAGES.items()
            for setting in peer_settings(name, m, k, d, device=device)
            if find_spec(package) is not None
        ),
        *([Contender("Optimistix", "", OptimistixLM(m))] if has_referee() else []),
        Contender("One step", "", OneGradientStep()),
    ]


def _row(setting: GradientDescent) -> str:
    """The row of a setting: Adam has one for fresh examples, and one for a fixed set."""
    if setting.optimizer == "adam":
        return FRESH if setting.reused is None else REUSING
    return _NAMES[setting.optimizer] + (", W eliminated" if setting.eliminates_w else "")


def compare_at_errors(runs: Sequence[Mapping[str, Any]], case: tuple[int, int, int]) -> list[dict[str, Any]]:
    """For every error, the medians of every row of the table at its best setting, and the ratios.

    An error that is never reached has infinite seconds and examples. A ratio to it is 0; a ratio of it to anything is
    infinite.
    """
    here = [run for run in runs if (run["m"], run["k"], run["d"]) == case]
    result = []
    for error in ERRORS:
        learners: dict[str, dict[str, Any]] = {}
        for name, setting in dict.fromkeys((run["row"], run["setting"]) for run in here):
            of_it = [run for run in here if (run["row"], run["setting"]) == (name, setting)]
            cost = {"setting": setting, **_cost(of_it, error)}
            if name not in learners or cost["seconds"] < learners[name]["seconds"]:
                learners[name] = cost
        peers = {name: cost["seconds"] for name, cost in learners.items() if not name.startswith("Newton")}
        best = min(peers, key=lambda name: peers[name])
        fresh = learners.get(FRESH, {"examples": inf})
        result.append(
            {
                **dict(zip("mkd", case, strict=True)),
                "error": error,
                "learners": learners,
                "best peer": best if isfinite(peers[best]) else None,
                "of the best peer's seconds": {
                    name: _ratio(learners[name]["seconds"], peers[best]) for name in _NEWTON
                },
                "of Adam's examples": _ratio(learners["Newton"]["examples"], fresh["examples"]),
            }
        )
    return result


def _run(one: Contender, m: int, k: int, d: int, seed: int) -> dict[str, Any]:
    layer, inputs = make_nice_layer(heads=m, dim=d, rng=seed), BooleanInputs(k, d)
    truth = GroundTruth.draw(layer, inputs, _FRESH_INPUTS, rng=[seed, 1])
    oracle = ExampleOracle(layer, inputs, rng=[seed, 2])
    wall, processor = time.perf_counter(), time.process_time()
    fit = one.learner.fit(oracle, rng=[seed, 3], truth=truth)
    busy = (time.process_time() - processor) / (time.perf_counter() - wall)
    return {
        "row": one.row,
        "setting": one.setting,
        "engine": _engine(one.learner, m, k, d),
        "outcome": fit.outcome.name,
        "seconds": busy * fit.seconds,
        "examples": fit.examples_used,
        "share of the processor": busy,
        "trace": _trace(fit, busy),
    }


def _trace(fit: Fit, busy: float) -> list[tuple[int, float, float]]:
    """The first and the last step, and those between that quarter the error or first reach one of `ERRORS`."""
    steps = [(step.examples, busy * step.seconds, step.measures["relative_error"]) for step in fit.trace]
    kept = steps[:1]
    for step in steps[1:-1]:
        if step[2] <= kept[-1][2] / 4 or any(step[2] <= error < kept[-1][2] for error in ERRORS):
            kept.append(step)
    return [(n, float(f"{at:.6g}"), float(f"{error:.3g}")) for n, at, error in kept + steps[1:][-1:]]


def _engine(learner: Learner, m: int, k: int, d: int) -> str:
    if isinstance(learner, Newton):
        engine = learner.engine_for(m, k, d)
        low = str(engine.low).removeprefix("torch.")
        return "NumPy" if engine.name == "numpy" else f"torch {engine.device} {low}"
    if isinstance(learner, GradientDescent):
        return f"torch {learner.device} {learner.dtype}"
    return "NumPy"


def _warm_up(field: Sequence[Contender], k: int, d: int) -> None:
    """Run every kind of learner on a toy, so that imports and compilation do not count in a fit."""
    layer, inputs = make_nice_layer(heads=1, dim=8, rng=0), BooleanInputs(2, 8)
    truth = GroundTruth.draw(layer, inputs, 10, rng=0)
    for one in {(type(one.learner), one.row): one for one in field}.values():
        learner: Any = one.learner
        small: list[Any] = [learner]
        if isinstance(learner, OptimistixLM):
            learner.compile(k, d)
            small = []
        if isinstance(learner, Newton):
            small = [replace(learner, heads=1, engine="numpy", device=None)]
            if learner.engine != "numpy" and find_spec("torch") is not None:
                small.append(replace(learner, heads=1, engine="torch"))
        elif isinstance(learner, GradientDescent | LBFGS):
            small = [replace(learner, heads=1, work=60)]
        for each in small:
            each.fit(ExampleOracle(layer, inputs, rng=1), rng=2, truth=truth)


def _words(one: GradientDescent) -> str:
    shape = one.schedule if one.power == 1 else f"{one.schedule}^{one.power:g}"
    memory = f"{'beta1' if one.optimizer == 'adam' else 'momentum'} {one.momentum:g}"
    rounding = "" if one.dtype == "float32" else f", {one.dtype}"
    source = "" if one.reused is None else f", from {one.reused}"
    return f"{one.batch} examples x {one.work} steps, rate {one.learning_rate:.3g}, {shape}, {memory}{rounding}{source}"


def _cost(runs: Sequence[Mapping[str, Any]], error: float) -> dict[str, Any]:
    """Medians over the targets of the costs to reach `error`; infinite if half of the targets never reach it."""
    reached = [next((point for point in run["trace"] if point[2] <= error), (inf, inf, 0.0)) for run in runs]
    return {
        "seconds": median(point[1] for point in reached),
        "examples": median(point[0] for point in reached),
        "reached": sum(isfinite(point[1]) for point in reached),
        "of": len(runs),
        "end": median(run["trace"][-1][2] for run in runs),
    }


def _ratio(ours: float, theirs: float) -> float:
    return inf if not isfinite(ours) else ours / theirs


def _show(found: Mapping[str, Any]) -> None:
    console, rows = Console(width=130), found["rows"]
    for case in dict.fromkeys((row["m"], row["k"], row["d"]) for row in rows):
        here = [row for row in rows if (row["m"], row["k"], row["d"]) == case]
        lines = []
        for name in here[0]["learners"]:
            costs = [row["learners"][name] for row in here]
            numbers = [_number(cost[what]) for cost in costs for what in ("seconds", "examples")]
            lines.append((name, *numbers, f"{costs[1]['end']:.0e}"))
        columns = [name for row in here for name in (f"s to {row['error']:g}", "examples")]
        title = f"(m, k, d) = {case}: medians over {plural(found['targets'], 'target')}, one thread"
        show_table(title, ("<learner", *columns, "at its end"), lines)
        for name, cost in here[1]["learners"].items():
            if cost["setting"]:
                console.print(f"{name}, to {_JUDGED:g}: {cost['setting']}", highlight=False)
    show_table(
        "Newton's seconds, and with NumPy alone, as a share of the best peer's, and its examples of fresh Adam's",
        ("m,k,d", "error", "best peer", "of it", "NumPy", "examples"),
        [
            (
                case_words(row),
                f"{row['error']:g}",
                row["best peer"] or "none gets there",
                *map(_share, row["of the best peer's seconds"].values()),
                _share(row["of Adam's examples"]),
            )
            for row in rows
        ],
    )
    if "Optimistix" not in rows[0]["learners"]:
        console.print(MISSING)


def _number(value: float) -> str:
    if value == inf:
        return "never"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _share(value: float) -> str:
    if value == inf:
        return "never"
    return "they never" if value == 0 else f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"


def _draw(found: Mapping[str, Any], path: Path) -> None:
    """A row of panels per case, against seconds and against examples; the first target of each.

    For a learner with several settings, the figure shows the setting that is best at 1e-6.
    """
    cases = list(dict.fromkeys((row["m"], row["k"], row["d"]) for row in found["rows"]))
    names = list(dict.fromkeys(run["row"] for run in found["runs"]))
    with drawing(path, (8.4, 2.6 * len(cases) + 0.8)) as figure:
        panels = figure.subplots(len(cases), 2, sharex="col", sharey=True, squeeze=False)
        for line, case in enumerate(cases):
            for column, what in enumerate(("seconds", "examples")):
                panel = panels[line][column]
                for run in _shown(found, case):
                    steps = [(at[1 if what == "seconds" else 0], max(at[2], _LEAST)) for at in run["trace"]]
                    groups = [list(group) for _, group in groupby(steps, key=itemgetter(0))]
                    points = [step for group in groups for step in (group[0], *group[1:][-1:])]
                    look = learner_look(names.index(run["row"])) | {"markersize": 4, "markevery": [-1]}
                    panel.plot(
                        *zip(*points, strict=True), **look, linewidth=1.4, clip_on=False, label=run["row"]
                    )
                panel.set_xscale("log")
                panel.set_yscale("log")
                panel.set_title("m, k, d = " + ", ".join(map(str, case)), fontsize="medium")
                for error in {row["error"] for row in found["rows"]}:
                    panel.axhline(error, color="0.85", linewidth=0.8, zorder=0)
                for axis, limits in ((panel.xaxis, panel.get_xlim()), (panel.yaxis, panel.get_ylim())):
                    decade_ticks(axis, *limits)
            panels[line][0].set_ylabel("relative error")
        panels[-1][0].set_xlabel("seconds")
        panels[-1][1].set_xlabel("examples drawn")
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)


def _shown(found: Mapping[str, Any], case: tuple[int, int, int]) -> list[Mapping[str, Any]]:
    """The runs of a case to draw: those with the best setting of each learner."""
    here = [run for run in found["runs"] if (run["m"], run["k"], run["d"], run["target"]) == (*case, 0)]
    (row,) = (
        row for row in found["rows"] if (row["m"], row["k"], row["d"]) == case and row["error"] == _JUDGED
    )
    return [run for run in here if run["setting"] == row["learners"][run["row"]]["setting"]]
