"""What a target and a learner are, as JSON: the same for the same numbers, in every process."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from enum import Enum
from typing import Any

import numpy as np

from arena.targets import Target
from attention.inputs import inputs_to_json

__all__ = ["identity", "target_stream"]


def target_stream(target: Target) -> int:
    """A number below 2^64 that names the random streams of a target: made of its numbers, inputs and known part."""
    known = None if target.instance is None else target.instance.known
    parts = {"layer": target.layer, "inputs": inputs_to_json(target.inputs), "known": known}
    content = {name: identity(value) for name, value in parts.items()}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return int.from_bytes(hashlib.sha256(text.encode("ascii")).digest()[:8], "big")


def identity(value: Any) -> Any:
    """A value as JSON: dataclasses by their fields, arrays by a hash of their bytes, functions by their names.

    Code does not count: after a change there, compute afresh.
    """
    parts: list[Any] = []
    top, described = _plain(value, parts), []
    for part in parts:  # which grows meanwhile
        fields = {one.name: _plain(getattr(part, one.name), parts) for one in dataclasses.fields(part)}
        described.append({"dataclass": [{"named": _name(type(part))}, fields]})
    return {"is": top, "parts": described}


def _plain(value: Any, parts: list[Any]) -> Any:
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return float(value) if np.isfinite(value) else {"float": repr(float(value))}
    if isinstance(value, Enum):
        return {"enum": [_name(type(value)), value.name]}
    if isinstance(value, Mapping):
        return {"mapping": [[key, _plain(value[key], parts)] for key in sorted(value)]}
    if isinstance(value, list | tuple):
        return [_plain(item, parts) for item in value]
    if isinstance(value, np.ndarray):
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return {"array": ["numpy.ndarray", str(value.dtype), list(value.shape), content]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if not any(value is part for part in parts):
            parts.append(value)
        return {"part": next(number for number, part in enumerate(parts) if part is value)}
    if hasattr(value, "__qualname__"):
        return {"named": _name(value)}
    return {"object": [_name(type(value)), {name: repr(one) for name, one in sorted(_state(value).items())}]}


def _state(value: Any) -> dict[str, Any]:
    return dict(getattr(value, "__dict__", {}))


def _name(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"
