"""The rate at which Newton recovers a random layer, in total and from its first start, with intervals."""

import math
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

from scipy.stats import binomtest

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    GroundTruth,
    make_low_rank_layer,
    make_nice_layer,
    make_transformer_shaped_layer,
)
from benchmarks.report import Json, case_words, end_with, show_table, write_json
from runs import single_thread, versions
from upper import Newton, counting_floor
from upper.engine import EngineName

_SIZES = ((2, 2, 32), (4, 2, 32), (6, 4, 32), (8, 4, 32), (8, 8, 32))
_RANK = 8  # of the heads of the two laws of low rank
_LAWS: dict[str, Callable[..., AttentionLayer]] = {
    "nice": make_nice_layer,
    "low rank": partial(make_low_rank_layer, rank=_RANK, w_rank=_RANK),
    "transformer-shaped": partial(make_transformer_shaped_layer, rank=_RANK),
}
_LOW_RANK = ("low rank", "transformer-shaped")
CASES = (
    *((*size, floors, "nice") for floors in (4, 1.5) for size in _SIZES),
    *((4, 4, 32, floors, "nice") for floors in (3, 1.5)),
    *((4, 4, 32, floors, law) for law in _LOW_RANK for floors in (4, 1.5)),
    *((4, k, 32, 8, law, _RANK) for k in (4, 8) for law in _LOW_RANK),
    # as many examples as at 1.5 floors without the rank
    *((4, 4, 32, 3.4, law, _RANK, 200_000) for law in _LOW_RANK),
)
"""m, k, d, the examples in counting floors, the law of the heads; their rank if Newton knows it, and its work."""
NEEDED = 0.95
"""The required share of recovered targets."""
_EXACT = 1e-10


def run_success(targets: int = 20, out: Json = None, engine: EngineName = "auto") -> None:
    """Fit `targets` layers of every case; print a table and, on request, write it as JSON.

    A success is a relative error of at most 1e-10 on fresh examples. Intervals are 95 % Clopper-Pearson intervals.
    """
    with single_thread(torch=True):
        rows = [_row(targets, engine, *case) for case in CASES]
    _show(rows)
    write_json(out, {"engine": engine, "exact": _EXACT, "versions": versions(), "rows": rows})
    end_with(
        f"{row['law']}, (m, k, d) = ({row['m']}, {row['k']}, {row['d']}) at {row['floors']} floors: "
        f"{row['successes']} of {row['targets']} are exact; {NEEDED:.0%} are wanted."
        for row in rows
        if row["successes"] < NEEDED * row["targets"]
    )


def _row(
    targets: int,
    engine: EngineName,
    m: int,
    k: int,
    d: int,
    floors: float,
    law: str,
    rank: int | None = None,
    work: int = Newton.work,
) -> dict[str, Any]:
    examples = math.ceil(floors * counting_floor(heads=m, tokens=k, dim=d, rank=rank))
    inputs = BooleanInputs(k, d)
    errors, starts, seconds = [], [], []
    for seed in range(targets):
        layer = _LAWS[law](heads=m, dim=d, rng=[seed, 0])
        fit = Newton(m, examples=examples, rank=rank, work=work, engine=engine).fit(
            ExampleOracle(layer, inputs, rng=[seed, 2]), rng=[seed, 3]
        )
        truth = GroundTruth.draw(layer, inputs, 1000, rng=[seed, 1])
        errors.append(truth.measure(layer=fit.layer)["relative_error"])
        starts.append(int(fit.trace[-1].measures["starts"]))
        seconds.append(fit.seconds)
    exact = [error <= _EXACT for error in errors]
    at_once = [one and number == 1 for one, number in zip(exact, starts, strict=True)]
    interval = binomtest(sum(exact), targets).proportion_ci(0.95)
    return {
        **{"m": m, "k": k, "d": d, "law": law, "rank": rank, "floors": floors},
        **{"examples": examples, "targets": targets},
        "successes": sum(exact),
        "interval": [float(interval.low), float(interval.high)],
        "first start": sum(at_once),
        "worst error": max(errors),
        "seconds": median(seconds),
    }


def _show(rows: list[dict[str, Any]]) -> None:
    show_table(
        "Random layers recovered to 1e-10; one thread",
        (
            "m,k,d",
            "<law",
            "rank",
            "x floor",
            "examples",
            "exact",
            "95 %",
            "first start",
            "worst",
            "median s",
        ),
        [
            (
                case_words(row),
                row["law"],
                str(row["rank"] or ""),
                str(row["floors"]),
                str(row["examples"]),
                f"{row['successes']}/{row['targets']}",
                "{:.2f} to {:.2f}".format(*row["interval"]),
                str(row["first start"]),
                f"{row['worst error']:.1e}",
                f"{row['seconds']:.2f}",
            )
            for row in rows
        ],
        width=125,
    )
