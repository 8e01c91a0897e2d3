"""Array-API helpers: the namespace of some arrays, their conversion, and checks of their shapes and entries."""

from typing import Any

import array_api_compat
import numpy as np

_SHOWN = 80


class Unfit(ValueError):
    """A value breaks its constraint; the text says what was given."""


def namespace(*arrays: Any) -> Any:
    """The array-API namespace that `arrays` share; an error if they come from two libraries."""
    for array in arrays:
        if not array_api_compat.is_array_api_obj(array):
            raise ValueError(
                f"Expected an array (NumPy, torch or any other array-API array), got {type(array).__name__}: "
                "convert it first, for example with numpy.asarray."
            )
    if all(isinstance(array, np.ndarray | np.generic) for array in arrays):
        return np  # the compatible namespace imports all of NumPy, f2py too, and differs in nothing used here
    try:
        return array_api_compat.array_namespace(*arrays)
    except TypeError:
        kinds = " and ".join(sorted({type(array).__module__.split(".")[0] for array in arrays}))
        raise ValueError(
            f"Got arrays of {kinds} in one call: give arrays of one library, "
            "for example layer.map(torch.from_numpy) to move a layer."
        ) from None


def to_numpy(array: Any) -> np.ndarray:
    """`array` as a NumPy array, for routines that only NumPy has (assignment, files)."""
    if isinstance(array, np.ndarray):
        return array
    if array_api_compat.is_torch_array(array):
        array = array.detach().cpu()
        # NumPy has no bfloat16; float32 represents all of its numbers
        return (array.float() if str(array.dtype) == "torch.bfloat16" else array).numpy()
    return np.asarray(array)


def as_floating(array: Any, dtype: Any, xp: Any) -> Any:
    """`array` in `dtype` or wider when it holds real numbers; integers become `dtype`."""
    # some NumPy products change the type of a masked array; its module is imported for a subclass only
    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray):
        if np.ma.is_masked(array):
            raise ValueError("Got an array with masked entries, which are no numbers: give a plain array.")
        array = array.data
    if xp.isdtype(array.dtype, "real floating"):
        wide = xp.result_type(array.dtype, dtype)
        return array if array.dtype == wide else xp.astype(array, wide)
    if xp.isdtype(array.dtype, "integral"):
        with np.errstate(over="ignore"):  # too large for half precision: infinite, and the caller checks that
            return xp.astype(array, dtype)
    raise ValueError(f"Got an array of {array.dtype}: real floating-point or integer entries are allowed.")


def shown(value: Any) -> str:
    """`value` as text for an error message: on one line, cut if it is long."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"{'-' * (value < 0)}10^{int(value.bit_length() * 0.30103)}"
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 4]} ..."


def described(value: Any) -> str:
    """What an error message says of a value: a plain one itself, of others the type."""
    plain = value is None or isinstance(value, str | bytes | int | float | complex)
    return shown(value) if plain else f"of the type {type(value).__name__}"


def finite_array(value: Any, dims: list[str], sizes: Any, *, numpy: bool, whole: bool) -> Any:
    """An array of finite numbers with a shape: a NumPy array in double precision, or one of any library; else `Unfit`.

    `sizes` has the lengths of the dimensions known so far, and gets those of this array.
    """
    array = _doubles(value, whole) if numpy else value
    if not array_api_compat.is_array_api_obj(array):
        raise Unfit(described(value))
    xp = namespace(array)
    if not xp.isdtype(array.dtype, "integral" if whole else ("real floating", "integral", "bool")):
        raise Unfit(f"an array of {array.dtype}")
    _hold_shape(dims, tuple(array.shape), sizes)
    if xp.isdtype(array.dtype, "real floating") and not bool(xp.all(xp.isfinite(array))):
        raise Unfit("an array with NaN or infinite entries")
    return array


def _doubles(value: Any, whole: bool) -> np.ndarray:
    try:
        array = np.asarray(to_numpy(value))
    except (TypeError, ValueError, RuntimeError):  # ragged, or of a kind that NumPy does not have
        raise Unfit(described(value)) from None
    if whole or array.dtype.kind not in "fiub":
        return array
    with np.errstate(over="ignore"):  # too large for float64: infinite here, then refused
        return np.asarray(array, dtype=np.float64)


def _hold_shape(dims: list[str], shape: Any, sizes: Any) -> None:
    """Check a shape against names and numbers; equal names need equal lengths, and no length is 0."""
    given = f"an array of shape {shape}"
    if "..." in dims:
        return
    if len(shape) != len(dims):
        raise Unfit(given)
    for dim, size in zip(dims, shape, strict=True):
        if not dim.isdigit() and (not dim.isidentifier() or dim == "_"):
            continue
        wanted = int(dim) if dim.isdigit() else sizes.setdefault(dim, size)
        if size != wanted or size < 1:
            raise Unfit(f"{given}, where {dim} is {wanted}" if dim in sizes and wanted else given)
