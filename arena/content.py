"""The content of a value as JSON, whatever it is called and wherever it is kept."""

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np


def identity(value: Any) -> Any:
    """A value as JSON: dataclasses by their fields, arrays by a hash of their bytes, other objects by a fingerprint."""
    parts: list[Any] = []
    top, described = _described(value, parts), []
    for part in parts:  # the list grows during the loop
        # a field that is not given, None or False, is left out: streams stay as they were when a class gets one
        fields = {
            field.name: _described(getattr(part, field.name), parts)
            for field in dataclasses.fields(part)
            if not (field.default in (None, False) and getattr(part, field.name) is field.default)
        }
        name = getattr(part, "stream_name", f"{type(part).__module__}.{type(part).__qualname__}")
        described.append({"dataclass": [{"named": name}, fields]})
    return {"is": top, "parts": described}


def _described(value: Any, parts: list[Any]) -> Any:
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float) and np.isfinite(value):
        return float(value)
    if isinstance(value, Mapping):
        return {"mapping": [[key, _described(value[key], parts)] for key in sorted(value)]}
    if isinstance(value, list | tuple):
        return [_described(item, parts) for item in value]
    if isinstance(value, np.ndarray):
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return {"array": ["numpy.ndarray", str(value.dtype), list(value.shape), content]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if not any(value is part for part in parts):
            parts.append(value)
        return {"part": next(number for number, part in enumerate(parts) if part is value)}
    from runs import fingerprint  # imported here: most values need none

    return {"fingerprint": fingerprint(value)}
