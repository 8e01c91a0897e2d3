"""Records of a comparison from JSON, with a sentence for whatever is wrong with it."""

import json
from dataclasses import fields
from typing import Any

from arena.records import Cell, LearnerRecord, TargetRecord, TracePoint
from lower import Hardness

__all__ = ["FORMAT", "read_cell", "read_comparison", "read_learner", "read_target"]

FORMAT = "attention-bounds results 1"
"""The value of the format field."""


def read_comparison(text: str) -> dict[str, Any]:
    """The fields of `arena.Results`, from the text that `Results.to_json` wrote.

    Raises
    ------
    ValueError
        If the text is not JSON, is of another kind, lacks or adds a field, or holds a wrong value.
    """
    try:
        data = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"The results are not JSON ({error}): give a whole results.json.") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"This JSON is not a comparison: its format field must be {FORMAT!r}.")
    data.pop("format")
    _check_fields("Results", {"made", "targets", "learners", "cells"}, data)
    return {
        "made": data["made"],
        "targets": tuple(read_target(item) for item in _list("targets", data["targets"])),
        "learners": tuple(read_learner(item) for item in _list("learners", data["learners"])),
        "cells": tuple(read_cell(item) for item in _list("cells", data["cells"])),
    }


def read_target(data: Any) -> TargetRecord:
    """A target's record from JSON values; ValueError with a sentence otherwise, as for the two below.

    One that was written before records said what hardness rests on says whether there is a secret, and no more.
    """
    if isinstance(data, dict) and isinstance(data.get("certificate"), list):
        data = {**data, "certificate": tuple(data["certificate"])}
    if isinstance(data, dict) and isinstance(data.get("hard"), bool):
        data = {**data, "hardness": Hardness.NEITHER if data["hard"] else None}
        del data["hard"]
    if isinstance(data, dict) and data.get("hardness") in tuple(Hardness):
        data = {**data, "hardness": Hardness(data["hardness"])}
    return _record(TargetRecord, data)


def read_learner(data: Any) -> LearnerRecord:
    """A learner's record from JSON values."""
    return _record(LearnerRecord, data)


def read_cell(data: Any) -> Cell:
    """A cell from JSON values; one that was written before cells had an engine, or a part alone, has none."""
    if isinstance(data, dict) and "trace" in data:
        data = {
            "engine": "",
            "alone": "",
            **data,
            "trace": tuple(_record(TracePoint, point) for point in _list("trace", data["trace"])),
        }
    return _record(Cell, data)


def _record(kind: Any, data: Any) -> Any:
    _check_fields(kind.__name__, {item.name for item in fields(kind)}, data)
    return kind(**data)


def _check_fields(name: str, wanted: set[str], data: Any) -> None:
    if not isinstance(data, dict):
        raise ValueError(
            f"A {name} in the results is a {type(data).__name__}: an object with named fields is needed."
        )
    if missing := sorted(wanted - set(data)):
        raise ValueError(f"A {name} in the results lacks {', '.join(missing)}.")
    if extra := sorted(set(data) - wanted):
        raise ValueError(f"A {name} in the results has the unknown fields {', '.join(extra)}.")


def _list(name: str, data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise ValueError(f"The {name} of the results are a {type(data).__name__}: a list is needed.")
    return data


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON: null stands for a number that is not finite")
