"""Array-API helpers: the namespace of some arrays, and arguments checked once at the public entry."""

import operator
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import array_api_compat
import numpy as np

from attention.errors import MixedArraysError

__all__ = [
    "as_floating",
    "as_path",
    "count",
    "finite_number",
    "is_numpy",
    "namespace",
    "non_negative",
    "one_of",
    "random_generator",
    "real_array",
    "require_array",
    "require_callable",
    "require_finite",
    "require_flag",
    "require_instance",
    "require_mapping",
    "require_shape",
    "shown",
    "to_numpy",
]

_SHOWN = 80
_NO_REALS = (bool, np.bool_, str, bytes, complex, np.complexfloating)


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
        array = array.detach().cpu()
        # NumPy has no such type, and float32 holds all of its numbers
        return (array.float() if str(array.dtype) == "torch.bfloat16" else array).numpy()
    return np.asarray(array)


def as_floating(array: Any, dtype: Any, xp: Any) -> Any:
    """`array` in `dtype` or wider when it holds real numbers; integers become `dtype`."""
    if isinstance(array, np.ma.MaskedArray):  # of which some products of NumPy make something else
        if np.ma.is_masked(array):
            raise ValueError("Got an array with masked entries, which are no numbers: give a plain array.")
        array = array.data
    if xp.isdtype(array.dtype, "real floating"):
        wide = xp.result_type(array.dtype, dtype)
        return array if array.dtype == wide else xp.astype(array, wide)
    if xp.isdtype(array.dtype, "integral"):
        with np.errstate(over="ignore"):  # beyond half precision it is infinite, which whoever asked finds
            return xp.astype(array, dtype)
    raise ValueError(f"Got an array of {array.dtype}: real floating-point or integer entries are allowed.")


def require_shape(name: str, array: Any, shape: Sequence[int | str]) -> None:
    """Raise when `array` has not the `shape`; a string in `shape` allows any length of at least one."""
    wanted = f"({', '.join(str(size) for size in shape)}{',' * (len(shape) == 1)})"
    if not hasattr(array, "shape"):
        raise ValueError(f"{name} is a {type(array).__name__}: an array of shape {wanted} is needed.")
    given = tuple(array.shape)
    fits = len(given) == len(shape) and all(
        (size >= 1 if isinstance(wanted, str) else size == wanted)
        for size, wanted in zip(given, shape, strict=True)
    )
    if not fits:
        raise ValueError(f"{name} has shape {given}: {wanted} is needed.")


def require_finite(name: str, array: Any, xp: Any | None = None) -> None:
    """Raise when `array` holds a NaN or an infinity, or entries that are no real numbers at all."""
    if xp is None:
        if not array_api_compat.is_array_api_obj(array):
            raise ValueError(f"{name} is a {type(array).__name__}: an array of real numbers is needed.")
        xp = namespace(array)
    if xp.isdtype(array.dtype, "real floating"):
        if not bool(xp.all(xp.isfinite(array))):
            raise ValueError(f"{name} holds NaN or infinite entries: every entry must be finite.")
    elif not xp.isdtype(array.dtype, ("integral", "bool")):
        raise ValueError(f"{name} is an array of {array.dtype}: real numbers are needed.")


def require_array(name: str, array: Any, shape: Sequence[Any], xp: Any | None = None) -> None:
    """Raise when `array` has not the `shape`, or its entries are no finite real numbers."""
    require_shape(name, array, shape)
    require_finite(name, array, xp)


def require_flag(name: str, value: Any) -> None:
    """Raise when `value` is neither true nor false."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} is {shown(value)}: True or False is needed.")


def real_array(name: str, values: Any, shape: Sequence[Any] | None = None) -> np.ndarray:
    """`values` as a finite NumPy array in double precision, of the `shape` if one is given; lists are read, too.

    Raises
    ------
    ValueError
        If they are no real numbers, not finite, or of another shape.
    """
    try:
        array = np.asarray(to_numpy(values))
    except (TypeError, ValueError, RuntimeError):  # ragged, or a tensor of a kind that NumPy has not
        raise ValueError(
            f"{name} is a {type(values).__name__} that makes no array: an array of real numbers is needed."
        ) from None
    # an empty list has no type of its own: its shape tells what is wrong with it
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} is an array of {array.dtype}: real numbers are needed.")
    if shape is not None:
        require_shape(name, array, shape)
    with np.errstate(over="ignore"):  # of a wider type: infinite here, and refused
        array = np.asarray(array, dtype=np.float64)
    require_finite(name, array)
    return array


def count(name: str, value: Any, *, least: int = 1, most: int | None = None) -> int:
    """`value` as an int of at least `least`, and at most `most`; an error that names it otherwise."""
    if isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} is {value!r}: a whole number of at least {least} is needed.")
    try:
        whole = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} is {shown(value)}: a whole number of at least {least} is needed.") from None
    if whole < least:
        raise ValueError(f"{name} is {shown(whole)}: at least {least} is needed.")
    if most is not None and whole > most:
        raise ValueError(f"{name} is {shown(whole)}: at most {most} is possible, and needed.")
    return whole


def finite_number(name: str, value: Any) -> float:
    """`value` as a finite float; an error that names it otherwise. Texts and truth values are no numbers."""
    number = _number(name, value)
    if not np.isfinite(number):
        raise ValueError(f"{name} is {number}: a finite number is needed.")
    return number


def non_negative(name: str, value: Any, *, strictly: bool = False) -> float:
    """`value` as a finite float of at least (or, `strictly`, above) zero."""
    number = _number(name, value)
    if not np.isfinite(number) or number < 0 or (strictly and number == 0):
        raise ValueError(
            f"{name} is {number}: a finite number {'above' if strictly else 'of at least'} 0 is needed."
        )
    return number


def _number(name: str, value: Any) -> float:
    try:
        if isinstance(value, _NO_REALS) or getattr(value, "ndim", False):
            raise TypeError
        # arrays without axes: NumPy would make a number of a truth value, and warn of the lost part of a complex one
        if isinstance(value, np.ndarray) and value.dtype.kind not in "fiu":
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} is {shown(value)}: a finite number is needed.") from None


def one_of(name: str, value: Any, allowed: Sequence[Any]) -> None:
    """Raise when `value` is none of the texts (or other plain values) that are allowed."""
    # a list or an array cannot be looked up, and compares entry by entry
    if not isinstance(value, str | int | float | None) or value not in allowed:
        raise ValueError(f"{name} is {shown(value)}: {' or '.join(map(str, allowed))} is needed.")


def require_instance(name: str, value: Any, kinds: Any, *, needed: str) -> None:
    """Raise when `value` is of none of the `kinds`; `needed` says what would be right."""
    if not isinstance(value, kinds):
        raise ValueError(f"{name} is of the type {type(value).__name__}: {needed} is needed.")


def require_callable(name: str, value: Any, *, needed: str = "a function") -> None:
    """Raise when `value` cannot be called."""
    if not callable(value):
        raise ValueError(f"{name} is of the type {type(value).__name__}: {needed} is needed.")


def require_mapping(name: str, value: Any) -> None:
    """Raise when `value` is no mapping whose names are texts."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"{name} is {shown(value)}: a mapping of names, which are texts, is needed.")


def as_path(value: Any, *, name: str = "The path") -> Path:
    """`value` as a path; an error where it is none."""
    if not isinstance(value, str | os.PathLike):
        raise ValueError(f"{name} is of the type {type(value).__name__}: the path of a file is needed.")
    return Path(value)


def random_generator(rng: Any) -> np.random.Generator:
    """The generator that `rng` stands for: whatever `numpy.random.default_rng` takes.

    Raises
    ------
    ValueError
        If it takes it not.
    """
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise ValueError(
            f"rng is {shown(rng)}: a seed (whole numbers of at least 0), a numpy.random.Generator or None is needed."
        ) from None


def shown(value: Any) -> str:
    """`value` as an error writes it: on one line, and cut where it is long."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"{'-' * (value < 0)}10^{int(value.bit_length() * 0.30103)}"
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 4]} ..."
