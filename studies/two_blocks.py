"""Two blocks in one box.

How much of a stack of two blocks do value queries read, if only its outputs are seen?
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attention import Block, ValueOracle, make_nice_block, relative_error
from runs import Scale
from studies.line_figure import Panel, line_figure
from studies.rows import chosen, curve, grouped, median, of_all, table
from studies.study import Parameters, Row, Table
from upper.blocks.one_token import one_token
from upper.blocks.stack import StackMap, read_stack_map
from upper.blocks.stack_pairs import Stack, read_stack

_HEADS, _TOKENS, _FRESH, _DRAWS = 2, 2, 500, 5
_SIZES = ((8, 16), (16, 32))
_READ, _FOUND = 1e-6, 1e-6  # the error of a neuron that counts as read, and of a function
STREAM = ("dim", "width", "draw")


def cells(scale: Scale) -> list[Parameters]:
    quick = scale is Scale.QUICK
    return [
        {"part": part, "dim": dim, "width": width, "draw": draw}
        for part in ("one token", "two tokens")
        for dim, width in (_SIZES[:1] if quick or part == "two tokens" else _SIZES)
        for draw in range(1 if quick else _DRAWS)
    ]


def measure(*, rng: np.random.Generator, part: str, dim: int, width: int, draw: int) -> Mapping[str, Any]:
    for_target, for_queries, for_tests = rng.spawn(3)
    first, second = (
        make_nice_block(heads=_HEADS, dim=dim, width=width, activation="relu", rng=for_target)
        for _ in range(2)
    )
    oracle = ValueOracle.from_callable(lambda x: second(first(x)), _TOKENS, dim)
    x = for_tests.standard_normal((_FRESH, _TOKENS, dim))
    fitted: Any
    if part == "one token":
        fitted = read_stack_map(one_token(oracle), dim, for_queries)
        x = np.repeat(x[:, :1], _TOKENS, axis=1)
    else:
        fitted = read_stack(oracle, _HEADS, for_queries)
    stack_map = fitted.map if isinstance(fitted, Stack) else fitted
    predicted = (
        fitted(x) if fitted and (part == "one token" or isinstance(fitted, Stack)) else np.zeros_like(x)
    )
    return {
        "queries": oracle.drawn,
        "first": _first_read(stack_map, first),
        # of the second network, how many neurons: their outputs, up to scale
        "second": 0 if stack_map is None else _matched(np.asarray(second.network.w2), stack_map.second.v),
        "error": relative_error(predicted, second(first(x))),
    }


def _first_read(fitted: StackMap | None, block: Block) -> int:
    """How many planes of the first network are read: (u, a) up to scale."""
    if fitted is None:
        return 0
    linear = np.eye(block.dim) + block.layer.w.sum(axis=0)
    u, a = (linear @ block.network.w1).T, block.network.b1 + block.layer.bias @ block.network.w1
    planes = np.concatenate([u, a[:, None]], axis=1)
    return _matched(planes, np.concatenate([fitted.first.u, fitted.first.a[:, None]], axis=1))


def _matched(true: np.ndarray, found: np.ndarray) -> int:
    true, found = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (true, found))
    off = np.minimum(*(np.linalg.norm(true[:, None] - sign * found, axis=2) for sign in (1, -1)))
    return int(np.sum(off.min(axis=1) < _READ))


def _is_found(row: Row) -> bool:
    return row["error"] < _FOUND


def numbers(rows: Sequence[Row]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for (part, dim), own in grouped(rows, "part", "dim").items():
        name = f"{part.replace(' ', '_')}_{dim}"
        named[name] = of_all(map(_is_found, own))
        found = [row["error"] for row in own if _is_found(row)]
        named[f"{name}_error"] = f"{max(found):.0e}" if found else "-"
        named[f"{name}_queries"] = f"{median(own, 'queries'):,.0f}"
    return named


def tables(rows: Sequence[Row]) -> dict[str, Table]:
    def read(layer: str) -> Any:
        return lambda group: f"{sum(row[layer] for row in group)} of {sum(row['width'] for row in group)}"

    values: dict[str, Any] = {
        "found": lambda group: of_all(map(_is_found, group)),
        "planes of the first": read("first"),
        "neurons of the second": read("second"),
        "error": "error",
        "queries": "queries",
    }
    return {"read": table(rows, {"answers to": "part", "d": "dim", "h": "width"}, values)}


def figure(rows: Sequence[Row]) -> Any:
    parts = list(dict.fromkeys(row["part"] for row in rows))
    panels = [
        Panel(label, title, {part: curve(chosen(rows, part=part), "dim", name) for part in parts}, log_x=True)
        for name, title, label in (
            ("queries", "queries", "dimension d, h = 2 d"),
            ("error", "relative error of the function", "dimension d, h = 2 d"),
        )
    ]
    return line_figure(panels)
