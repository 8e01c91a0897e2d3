"""The six-phase learner in both modes, with the error of every phase."""

import statistics
from typing import Any

from attention import BooleanInputs, ExampleOracle, Fit, GroundTruth, make_nice_layer
from benchmarks.report import Json, write_json
from upper.six_phase import SixPhase

PRACTICAL = [(m, k, 32) for m in (1, 2, 3, 4) for k in (2, 3)] + [(2, 2, 64)]
PAPER = [(m, 2, d) for d in (16, 32, 48) for m in (1, 2)] + [(2, 3, 32)]


def run_six_phase(practical: int = 5, paper: int = 3, out: Json = None) -> None:
    """Run both modes on so many targets a case; print a table of each."""
    write_json(out, {"practical": _practical_mode(practical), "paper": _paper_mode(paper)})


def _practical_mode(seeds: int) -> list[dict[str, Any]]:
    """Run every row of the table in practical mode; print medians over seeds, and the number of exact runs."""
    print("m k d    phase 1  refined   span     in span  end      seconds to phase 5, to the end  exact")
    rows = []
    for m, k, d in PRACTICAL:
        runs = [_run(SixPhase(heads=m), m, k, d, seed) for seed in range(seeds)]
        row: dict[str, Any] = {"m": m, "k": k, "d": d, "seeds": seeds}
        row["exact"] = sum(fit.trace[-1].measures["relative_error"] <= 1e-10 for fit in runs)
        for column, what in {
            "phase 1": (1, "sum_error"),
            "refined": (3, "sum_error"),
            "span": (5, "span_error"),
            "in span": (6, "theta_error", "starts"),
            "end": (6, "relative_error", "held_out_error"),
        }.items():
            row[column] = [_measure(fit, *what) for fit in runs]
        row["seconds to phase 5"] = [_seconds(fit, 5) for fit in runs]
        row["seconds"] = [fit.seconds for fit in runs]
        row["examples"] = [fit.examples_used for fit in runs]
        rows.append(row)
        columns = ("phase 1", "refined", "span", "in span", "end")
        figures = "  ".join(f"{statistics.median(row[name]):<7.2g}" for name in columns)
        times = (statistics.median(row[name]) for name in ("seconds to phase 5", "seconds"))
        print(
            f"{m} {k} {d:<3}  {figures}  {' '.join(f'{one:6.1f}' for one in times)}  {row['exact']}/{seeds}",
            flush=True,
        )
    return rows


def _paper_mode(seeds: int) -> list[dict[str, Any]]:
    """Run paper mode, phases 1 to 6 only: the span's error before and after phases 3 and 4, and the squared error."""
    print("m k d   margin over  span before -> after  squared error  (kd)^-m   seconds  outcome")
    rows = []
    for m, k, d in PAPER:
        for over in ("proxy", "body"):
            for seed in range(seeds):
                fit = _run(SixPhase(heads=m, mode="paper", margin_over=over), m, k, d, seed)
                spans = [step.measures.get("span_error") for step in fit.trace]
                found = [span for span in spans if span is not None]
                net = fit.details.net
                row = {
                    "m": m,
                    "k": k,
                    "d": d,
                    "over": over,
                    "seed": seed,
                    "span before": found[0] if found else None,
                    "span after": found[-1] if len(found) > 1 else None,
                    "squared error": None if net is None else fit.trace[-1].measures["relative_error"] ** 2,
                    "goal": float(k * d) ** -m,
                    "seconds": fit.seconds,
                    "outcome": fit.outcome.name,
                    "explanation": fit.details.explanation,
                }
                rows.append(row)
                shown = [
                    "-" if row[name] is None else f"{row[name]:.2g}"
                    for name in ("span before", "span after", "squared error")
                ]
                print(
                    f"{m} {k} {d:<3} {over:11}  {shown[0]:>7} -> {shown[1]:<8} {shown[2]:>9}      {row['goal']:.1e}  "
                    f"{row['seconds']:6.1f}  {row['outcome']}",
                    flush=True,
                )
    return rows


def _run(learner: SixPhase, m: int, k: int, d: int, seed: int) -> Fit:
    layer, inputs = make_nice_layer(heads=m, dim=d, rng=seed), BooleanInputs(tokens=k, dim=d)
    truth = GroundTruth.draw(layer, inputs, rng=[seed, 1])
    return learner.fit(ExampleOracle(layer, inputs, rng=[seed, 2]), rng=[seed, 3], truth=truth)


def _measure(fit: Fit, phase: int, name: str, beside: str = "") -> float:
    """A measure from the last step of a phase that has it, and the measure `beside` of the same step."""
    steps = [one for one in fit.trace if one.phase == phase and name in one.measures]
    found = [one.measures[name] for one in steps if not beside or beside in one.measures]
    return found[-1] if found else float("nan")


def _seconds(fit: Fit, phase: int) -> float:
    return next((one.seconds for one in fit.trace if one.phase == phase), float("nan"))
