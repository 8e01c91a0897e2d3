"""What the answers of a service give away.

How exact must answers be for a learner to read a layer or a block from them: noise, rounding, the last token only?
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np

from attention import AttentionLayer, Block, GaussianInputs, GroundTruth, Norm, ValueOracle, make_nice_block
from runs import Scale
from studies.line_figure import Panel, line_figure
from studies.rows import chosen, curve, grouped, median, table
from studies.study import Parameters, Row, Table
from upper import BlockByQueries, ByQueries

STREAM = ("target", "draw")

_HEADS, _DIM, _WIDTH = 2, 12, 16
_TARGETS = {"layer": "attention layer", "block": "block", "pre-norm": "pre-norm block"}
_ANEW, _REPEATED = "noise", "noise that repeats"
_NOISE = (1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2)
_ROUNDING = ("float64", "float32", "float16", "bfloat16")
_LAST = "last token"
_TOKENS, _FRESH = 2, 500  # of a query; fresh inputs on which the function is compared
_BUDGET = 20_000  # queries of blocks; without noise they take some 3,000
_READ = 0.1  # a function with a larger error is not read; noise of 1e-2 leaves an error of 1e-3


def cells(scale: Scale) -> list[Parameters]:
    quick = scale is Scale.QUICK
    answers = [(name, level) for name in (_ANEW, _REPEATED) for level in (_NOISE[::3] if quick else _NOISE)]
    answers += [(name, 0.0) for name in (*_ROUNDING, _LAST)]
    return [
        {"target": target, "answers": name, "level": level, "draw": draw}
        for target in _TARGETS
        for name, level in answers
        for draw in range(1 if quick else 2)
    ]


def measure(
    *, rng: np.random.Generator, target: str, answers: str, level: float, draw: int
) -> Mapping[str, Any]:
    for_target, for_noise, for_learner, for_tests = rng.spawn(4)
    block = make_nice_block(heads=_HEADS, dim=_DIM, width=_WIDTH, rng=for_target)
    asked: AttentionLayer | Block = block.layer if target == "layer" else block
    if target == "pre-norm":
        asked = replace(block, norms=(Norm.plain(_DIM), Norm.plain(_DIM)))
    truth = GroundTruth.draw(asked, GaussianInputs(_TOKENS, _DIM), _FRESH, rng=for_tests)
    noise = level * float(np.sqrt(np.mean(truth.y**2)))
    if answers == _ANEW:
        oracle = ValueOracle(asked, tokens=_TOKENS, noise=noise, rng=for_noise)
    else:
        oracle = ValueOracle.from_callable(served(asked, answers, noise), _TOKENS, _DIM)
    learner: Any = ByQueries() if target == "layer" else BlockByQueries(examples=_BUDGET)
    spent = {"outcome": "NOT_FINITE", "function": None, "parameters": None}
    try:
        fit = learner.fit(oracle, rng=for_learner)
    except ValueError:  # the numbers of float16 end at 65504, and answers to long tokens are larger
        return spent | {"queries": oracle.drawn}
    measures = truth.measure(predict=fit.predict, layer=fit.layer)
    names = ("theta_error", "w_error", "key_bias_error", *(() if target == "layer" else ("network_error",)))
    found = [measures[name] for name in names if name in measures]
    return {
        "outcome": fit.outcome.name,
        # where only the last token is answered, each row takes a query of its own
        "queries": oracle.drawn * (_TOKENS if answers == _LAST else 1),
        "function": measures["relative_error"],
        "parameters": max(found) if len(found) == len(names) else None,
    }


def served(
    target: AttentionLayer | Block, answers: str, noise: float = 0.0
) -> Callable[[np.ndarray], np.ndarray]:
    """The target as a service answers it: with noise that a query repeats, rounded, or by its last token only."""

    def answer(x: np.ndarray) -> np.ndarray:
        if answers == _LAST:  # F(PX) = P F(X): each token once at the end
            rows = [np.roll(x, -1 - row, axis=1) for row in range(x.shape[1])]
            return np.stack([target(rolled)[:, -1] for rolled in rows], axis=1)
        y = target(x)
        if answers == _REPEATED:
            return y + noise * np.stack([_repeated(query) for query in x]) if len(x) else y
        if answers == "bfloat16":
            mantissa, exponent = np.frexp(y)
            return np.ldexp(np.round(mantissa * 2.0**8) / 2.0**8, exponent)
        with np.errstate(over="ignore"):
            return y.astype(answers).astype(np.float64)

    return answer


def _repeated(query: np.ndarray) -> np.ndarray:
    """Gaussian noise that depends on the query alone."""
    seed = int.from_bytes(blake2b(query.tobytes(), digest_size=8).digest())
    return np.random.default_rng(seed).standard_normal(query.shape)


def _read(row: Row) -> bool:
    return row["function"] is not None and row["function"] < _READ


def _errors(rows: Sequence[Row]) -> str:
    """The errors of function and parameters, medians of what was read, and how often it was if not always."""
    read = [row for row in rows if _read(row)]
    if not read:
        return "-"
    texts = [
        f"{error:.0e}" for name in ("function", "parameters") if (error := median(read, name)) is not None
    ]
    often = f" ({len(read)} of {len(rows)})" if len(read) < len(rows) else ""
    return ", ".join(texts) + often


def numbers(rows: Sequence[Row]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for (target, answers), own in grouped(rows, "target", "answers").items():
        name = f"{target}_{answers}".replace("-", "_").replace(" ", "_")
        named[f"{name}_errors"] = _errors(own)
        named[f"{name}_queries"] = f"{median(own, 'queries') or 0:,.0f}"
    at = chosen(rows, target="block", answers=_REPEATED, level=1e-10)
    named["block_at_1e_10"] = _errors(at)
    for level in _NOISE[-2:]:
        own = chosen(rows, target="layer", answers=_ANEW, level=level)
        named[f"averaged_{level:.0e}".replace("-", "_")] = f"{median(own, 'queries') or 0:,.0f}"
    return named


def tables(rows: Sequence[Row]) -> dict[str, Table]:
    def of(target: str, answers: str | None = None) -> Callable[[Sequence[Row]], str]:
        return lambda group: _errors(
            [row for row in group if row["target"] == target and answers in (None, row["answers"])]
        )

    noisy = [row for row in rows if row["level"]]
    by_noise = {
        f"{title}{', repeats' if answers == _REPEATED else ''}": of(target, answers)
        for target, title in _TARGETS.items()
        for answers in (_ANEW, _REPEATED)
    }
    return {
        "noise": table(noisy, {"noise": "level"}, by_noise),
        "answers": table(
            [row for row in rows if not row["level"]],
            {"answers": "answers"},
            {title: of(target) for target, title in _TARGETS.items()},
        ),
    }


def figure(rows: Sequence[Row]) -> Any:
    """The error of the function against noise that is drawn anew, and against noise that repeats."""
    panels = []
    for answers in (_ANEW, _REPEATED):
        own = [row for row in chosen(rows, answers=answers) if _read(row)]
        curves = {
            title: curve(chosen(own, target=target), "level", "function")
            for target, title in _TARGETS.items()
        }
        panels.append(
            Panel(f"{answers}, in units of the outputs", "relative error of the function", curves, log_x=True)
        )
    return line_figure(panels)
