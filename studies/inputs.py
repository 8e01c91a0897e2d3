"""Boolean, Gaussian and sphere tokens.

How many examples does each learner need, and what errors does it make, with Gaussian or sphere tokens?
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from attention import BooleanInputs, GaussianInputs, Inputs, Learner, SphereInputs
from runs import Scale
from studies.intervals import mean_interval
from studies.line_figure import Panel, line_figure
from studies.noise import fit_errors
from studies.rows import chosen, curve, grouped, median, table
from studies.study import Parameters, Row, Table
from upper import GradientDescent, Newton, counting_floor
from upper.six_phase import SixPhase

STREAM = ("learner", "heads", "tokens", "dim")
NEEDS = ("torch",)

_TOKENS: Mapping[str, Callable[[int, int], Inputs]] = {
    "boolean": BooleanInputs,
    "gaussian": GaussianInputs,
    "sphere": SphereInputs,
}
_ADAM_STEPS = 600  # each on a fresh batch
_EXACT = 1e-6  # the relative error on fresh tokens below which a fit is called exact
_FLOORS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # Newton's examples over the counting floor
_MEASURED = {
    "phases": ("crude", "refined", "span"),
    "paper": ("refined", "span", "error"),
    "adam": ("error",),
}
_LEARNERS = {"phases": "practical mode", "paper": "paper mode", "adam": "Adam"}
_TITLES = {"crude": "crude sum", "refined": "refined sum", "span": "span", "error": "prediction"}


def cells(scale: Scale) -> list[Parameters]:
    cases = [
        # Newton needs at least one more than the floor, because it holds one out
        ("newton", (m, k, d), max(round(times * floor), floor + 1), draws)
        for (m, k, d), draws in {(2, 2, 16): 16, (4, 4, 32): 8, (2, 2, 32): 4}.items()
        for floor in [counting_floor(heads=m, tokens=k, dim=d)]
        for times in _FLOORS
    ]
    cases += [("phases", (2, 2, 16), examples, 4) for examples in (30_000, 120_000, 440_000)]
    cases += [("phases", (2, 2, 32), examples, 3) for examples in (90_000, 260_000, 740_000)]
    cases += [("paper", (2, 2, 16), 430_000, 6)]
    cases += [("adam", (2, 2, 32), _ADAM_STEPS * batch, 3) for batch in (32, 64, 128, 256)]
    if scale is Scale.QUICK:
        small = (case for case in cases if case[2] <= 30_000 and (case[1] == (2, 2, 16) or case[0] == "adam"))
        cases = [(name, size, examples, 1) for name, size, examples, _ in small]
    return [
        {"learner": name, "inputs": inputs, "heads": m, "tokens": k, "dim": d, "examples": n, "draws": draws}
        for inputs in _TOKENS
        for name, (m, k, d), n, draws in cases
    ]


def _learner(name: str, heads: int, examples: int) -> Learner:
    if name == "newton":
        return Newton(heads, examples=examples, starts=1, work=3000, engine="numpy")
    if name == "adam":
        batch = examples // _ADAM_STEPS
        return GradientDescent(heads, work=_ADAM_STEPS, batch=batch, learning_rate=0.01)
    return SixPhase(heads, mode="paper" if name == "paper" else "practical", examples=examples)


def measure(*, rng: Generator, learner: str, inputs: str, examples: int, draws: int, **size: int) -> Any:
    """A fit for each of several layers: errors on fresh tokens of the same distribution, and those of the phases."""
    heads, tokens, dim = size["heads"], size["tokens"], size["dim"]
    distribution, fitted = _TOKENS[inputs](tokens, dim), _learner(learner, heads, examples)
    errors = [fit_errors(fitted, distribution, heads=heads, rng=stream)[0] for stream in rng.spawn(draws)]
    if learner == "newton":
        floor = counting_floor(heads=heads, tokens=tokens, dim=dim)
        exact = sum(fit["error"] < _EXACT for fit in errors)
        return {"floors": round(4 * examples / floor) / 4, "exact": exact}
    return [
        {"draw": draw, **{name: fit[name] for name in _MEASURED[learner]}} for draw, fit in enumerate(errors)
    ]


def _ratio(rows: Sequence[Row], tokens: str, name: str) -> str | None:
    """The geometric mean of the error over that with Boolean tokens, for the layers that have both."""
    plain = {row["draw"]: row[name] for row in chosen(rows, inputs="boolean")}
    pairs = [(plain.get(row["draw"]), row[name]) for row in chosen(rows, inputs=tokens)]
    logarithms = [np.log(error / other) for other, error in pairs if other and error]
    if len(logarithms) < 3:
        return None
    mean = mean_interval(logarithms, confidence=0.95)
    return "{1:.2f} ({0:.2f} to {2:.2f})".format(*np.exp([mean.low, mean.estimate, mean.high]))


def _most(rows: Sequence[Row], learner: str) -> dict[int, list[Row]]:
    """The rows of a learner at the largest number of examples of each d."""
    return {
        dim: chosen(own, examples=max(row["examples"] for row in own))
        for (dim,), own in grouped(chosen(rows, learner=learner), "dim").items()
    }


def numbers(rows: Sequence[Row]) -> dict[str, Any]:
    return {
        f"{learner}_{name}_{dim}": _ratio(own, "gaussian", name)
        for learner, names in _MEASURED.items()
        for dim, own in _most(rows, learner).items()
        for name in names
    }


def tables(rows: Sequence[Row]) -> dict[str, Table]:
    """Newton at every number of examples; the other learners at their largest number."""

    def exact(tokens: str) -> Any:
        return lambda own: "".join(f"{row['exact']} of {row['draws']}" for row in chosen(own, inputs=tokens))

    size = {"m": "heads", "k": "tokens", "d": "dim", "floors": "floors"}
    return {
        "newton": table(chosen(rows, learner="newton"), size, {tokens: exact(tokens) for tokens in _TOKENS}),
        "errors": [
            {"error": f"{_LEARNERS[learner]}: {_TITLES[name]}", "d": dim}
            | {"boolean, median": median(chosen(own, inputs="boolean"), name)}
            | {f"{tokens} / boolean": _ratio(own, tokens, name) for tokens in ("gaussian", "sphere")}
            for learner, names in _MEASURED.items()
            for dim, own in _most(rows, learner).items()
            for name in names
        ],
    }


def figure(rows: Sequence[Row]) -> Any:
    largest = [{**row, "share": row["exact"] / row["draws"]} for row in _largest(rows, "newton")]
    panels: list[Any] = [("Newton: share of layers exact", "floors", "share", largest)]
    for learner, name in (("phases", "span"), ("adam", "error")):
        title = f"{_LEARNERS[learner]}: error of the {_TITLES[name]}"
        panels.append((title, "examples", name, _largest(rows, learner)))
    return line_figure(
        [
            Panel(
                "examples / counting floor" if at == "floors" else "examples",
                title,
                {tokens: curve(chosen(own, inputs=tokens), at, name) for tokens in _TOKENS},
                log_x=True,
                log_y=at != "floors",
            )
            for title, at, name, own in panels
        ]
    )


def _largest(rows: Sequence[Row], learner: str) -> list[Row]:
    """The rows of a learner at its largest size."""
    sizes = grouped(chosen(rows, learner=learner), "heads", "dim")
    return sizes[max(sizes)] if sizes else []
