"""Array-API helpers: the namespace of some arrays, and arguments checked once at the public entry."""

import operator
from collections.abc import Sequence
from typing import Any

import array_api_compat
import numpy as np

from attention.errors import MixedArraysError

__all__ = [
    "as_floating",
    "count",
    "is_numpy",
    "namespace",
    "non_negative",
    "require_finite",
    "require_shape",
    "to_numpy",
]


def namespace(*arrays: Any) -> Any:
    """The array-API namespace shared by `arrays`; an error when they come from two libraries."""
    for array in arrays:
        if not array_api_compat.is_array_api_obj(array):
            raise ValueError(
                f"Expected an array (NumPy, torch or any other array-API array), got {type(array).__name__}: "
                "convert it first, for example with numpy.asarray."
            )
    try:
        return array_api_compat.array_namespace(*arrays)
    except TypeError:
        kinds = " and ".join(sorted({type(array).__module__.split(".")[0] for array in arrays}))
        raise MixedArraysError(
            f"Got arrays of {kinds} in one call: give arrays of one library, "
            "for example layer.map(torch.from_numpy) to move a layer."
        ) from None


def is_numpy(array: Any) -> bool:
    """Whether `array` is a NumPy array."""
    return isinstance(array, np.ndarray)


def to_numpy(array: Any) -> np.ndarray:
    """`array` as a NumPy array, for the routines that exist only there (assignment, files)."""
    if isinstance(array, np.ndarray):
        return array
    if array_api_compat.is_torch_array(array):
        return array.detach().cpu().numpy()
    return np.asarray(array)


def as_floating(array: Any, dtype: Any, xp: Any) -> Any:
    """`array` in `dtype` or wider when it holds real numbers; integers become `dtype`."""
    if xp.isdtype(array.dtype, "real floating"):
        wide = xp.result_type(array.dtype, dtype)
        return array if array.dtype == wide else xp.astype(array, wide)
    if xp.isdtype(array.dtype, "integral"):
        return xp.astype(array, dtype)
    raise ValueError(f"Got an array of {array.dtype}: real floating-point or integer entries are allowed.")


def require_shape(name: str, array: Any, shape: Sequence[int | str]) -> None:
    """Raise when `array` has not the `shape`; a string in `shape` allows any length of at least one."""
    given = tuple(array.shape)
    fits = len(given) == len(shape) and all(
        (size >= 1 if isinstance(wanted, str) else size == wanted)
        for size, wanted in zip(given, shape, strict=True)
    )
    if not fits:
        wanted = ", ".join(str(size) for size in shape)
        raise ValueError(f"{name} has shape {given}: ({wanted}) is needed.")


def require_finite(name: str, array: Any, xp: Any | None = None) -> None:
    """Raise when `array` holds a NaN or an infinity."""
    xp = namespace(array) if xp is None else xp
    if xp.isdtype(array.dtype, "real floating") and not bool(xp.all(xp.isfinite(array))):
        raise ValueError(f"{name} holds NaN or infinite entries: every entry must be finite.")


def count(name: str, value: Any, *, least: int = 1) -> int:
    """`value` as an int of at least `least`; an error that names it otherwise."""
    if isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} is {value!r}: a whole number of at least {least} is needed.")
    try:
        whole = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} is {value!r}: a whole number of at least {least} is needed.") from None
    if whole < least:
        raise ValueError(f"{name} is {whole}: at least {least} is needed.")
    return whole


def non_negative(name: str, value: Any, *, strictly: bool = False) -> float:
    """`value` as a finite float of at least (or, `strictly`, above) zero."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {value!r}: a number is needed.") from None
    if not np.isfinite(number) or number < 0 or (strictly and number == 0):
        raise ValueError(
            f"{name} is {number}: a finite number {'above' if strictly else 'of at least'} 0 is needed."
        )
    return number
