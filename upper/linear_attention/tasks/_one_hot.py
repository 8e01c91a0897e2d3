"""One-hot vectors and the nearest one to an output, and whole numbers checked at the entry."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attention._arrays import require_shape

__all__ = ["nearest_one_hot", "one_hot", "require_entries", "whole_numbers"]


def one_hot(indices: np.ndarray, size: int) -> np.ndarray:
    """The unit vectors e_i of each index i, of shape (..., size) for indices (...)."""
    return np.eye(size)[indices]


def nearest_one_hot(values: np.ndarray) -> np.ndarray:
    """The unit vector nearest to each row of (..., size): that of its largest entry, the first of equal ones."""
    return np.eye(values.shape[-1])[np.argmax(values, axis=-1)]


def require_entries(name: str, array: np.ndarray, allowed: range) -> None:
    """Raise unless the array holds whole numbers of a range, and at least one."""
    if not np.issubdtype(array.dtype, np.integer) or array.size == 0:
        raise ValueError(
            f"{name} is an array of {array.dtype}, shape {array.shape}: whole numbers are needed."
        )
    if array.min() < allowed.start or array.max() >= allowed.stop:
        raise ValueError(
            f"{name} holds numbers from {array.min()} to {array.max()}: "
            f"{allowed.start} to {allowed.stop - 1} are allowed."
        )


def whole_numbers(
    name: str, values: Any, shape: Sequence[int | str], allowed: range | None = None
) -> np.ndarray:
    """The values as an integer array of a shape, lists too, with entries of a range; ValueErrors say what is not."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} has rows of different lengths: an array is needed.") from None
    except TypeError:  # tensors of types that NumPy has not, or on a device
        raise ValueError(
            f"{name} is a {type(values).__name__} that NumPy cannot read: an array is needed."
        ) from None
    require_shape(name, array, shape)
    if allowed is not None or not np.issubdtype(array.dtype, np.integer):
        require_entries(name, array, range(0) if allowed is None else allowed)
    return array
