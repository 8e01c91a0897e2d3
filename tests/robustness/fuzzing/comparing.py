"""What two results have in common, and whether their numbers are finite."""

import dataclasses
import math
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

__all__ = ["as_bytes", "assert_finite", "same"]


def assert_finite(result: Any, arguments: Mapping[str, Any] | None = None) -> None:
    """Every number in a result is finite: in arrays, tuples, mappings and dataclasses."""
    for where, value in _numbers(result, "result"):
        if isinstance(value, float):
            assert math.isfinite(value), f"{where} is {value}"
        else:
            assert np.isfinite(value).all(), f"{where} holds NaN or infinite entries"


def same(first: Any, second: Any, where: str = "result") -> str:
    """Where two results differ by more than rounding; empty where they do not."""
    if type(first) is not type(second):
        return f"{where} is of {type(first).__name__} and {type(second).__name__}"
    ones, others = dict(_numbers(first, where)), dict(_numbers(second, where))
    if set(ones) != set(others):
        return f"{where} has other parts: {sorted(set(ones) ^ set(others))[:3]}"
    for name, one in ones.items():
        a, b = np.asarray(one), np.asarray(others[name])
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{name} is {a.dtype}{a.shape} and {b.dtype}{b.shape}"
        tolerance = 1e-3 if a.dtype.itemsize <= 2 else 1e-4 if a.dtype.itemsize <= 4 else 1e-6
        if not np.allclose(a, b, rtol=tolerance, atol=tolerance * _largest(b), equal_nan=True):
            return f"{name} differs by up to {np.nanmax(np.abs(a - b)):.3g}"
    return ""


def as_bytes(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes() if value.dtype.kind != "O" else value.tolist()
    if type(value) in (list, dict):
        return repr(value)
    return None


def _largest(a: np.ndarray) -> float:
    return float(np.abs(a[np.isfinite(a)]).max(initial=0.0))


def _numbers(value: Any, where: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    if depth > 6:
        return
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "fc":
            yield where, value
    elif isinstance(value, float | np.floating):
        yield where, float(value)
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _numbers(one, f"{where}[{key!r}]", depth + 1)
    elif isinstance(value, tuple | list):
        for i, one in enumerate(value[:50]):
            yield from _numbers(one, f"{where}[{i}]", depth + 1)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for one in dataclasses.fields(value):
            # clocks differ from call to call
            if one.name != "seconds":
                yield from _numbers(getattr(value, one.name), f"{where}.{one.name}", depth + 1)
    elif (
        "torch" in sys.modules
        and isinstance(value, sys.modules["torch"].Tensor)
        and value.is_floating_point()
    ):
        yield where, value.detach().cpu().double().numpy()
