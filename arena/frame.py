"""The cells of a comparison as a data frame of pandas."""

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from arena.records import Cell

if TYPE_CHECKING:
    import pandas

    from arena.results import Results

__all__ = ["TARGET_COLUMNS", "data_frame"]

TARGET_COLUMNS = ("title", "kind", "hardness", "heads", "tokens", "dim", "seed")
"""What a row says of its target, in columns whose names begin with ``target_``."""

_TRUTHS = ("succeeded",)
_WHOLE = ("seed", "examples_used", "target_heads", "target_tokens", "target_dim", "target_seed")


def data_frame(results: "Results") -> "pandas.DataFrame":
    """One row per cell; see `arena.Results.to_pandas`."""
    import pandas

    columns: dict[str, list[Any]] = {
        item.name: [getattr(cell, item.name) for cell in results.cells]
        for item in fields(Cell)
        if item.name != "trace"
    }
    targets = [results.target(cell.target) for cell in results.cells]
    columns |= {f"target_{name}": [getattr(target, name) for target in targets] for name in TARGET_COLUMNS}
    columns["learner_title"] = [results.learner(cell.learner).title for cell in results.cells]
    return pandas.DataFrame(
        {name: pandas.Series(values, dtype=_dtype(name, values)) for name, values in columns.items()}
    )


def _dtype(name: str, values: Sequence[Any]) -> str:
    """A column's type by its name, so that an empty comparison has the same columns."""
    if name in _TRUTHS:
        return "bool"
    if name.endswith("_error") or name == "seconds":
        return "float64"
    if name in _WHOLE:
        fits = all(value is None or -(2**63) <= value < 2**63 for value in values)
        return "Int64" if fits else "object"
    return "string"
