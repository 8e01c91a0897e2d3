"""One-hot vectors, the nearest one to an output, and arrays of whole numbers checked at the entry."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attention.validation import require_shape

__all__ = ["nearest_one_hot", "one_hot", "whole_numbers"]


def one_hot(indices: np.ndarray, size: int) -> np.ndarray:
    """The unit vectors e_i of each index i, of shape (..., size) for indices (...)."""
    return np.eye(size)[indices]


def nearest_one_hot(values: np.ndarray) -> np.ndarray:
    """The unit vector nearest to each row of (..., size): that of its largest entry, the first of equal ones."""
    return np.eye(values.shape[-1])[np.argmax(values, axis=-1)]


def whole_numbers(
    name: str, values: Any, shape: Sequence[int | str] | None = None, allowed: range | None = None
) -> np.ndarray:
    """The values as an array of whole numbers, of a shape and a range if one is given; lists are read too."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} is no array, or has rows of different lengths: whole numbers are needed."
        ) from None
    if shape is not None:
        require_shape(name, array, shape)
    if array.dtype.kind not in "iu" or array.size == 0:
        raise ValueError(
            f"{name} is an array of {array.dtype}, shape {array.shape}: whole numbers are needed."
        )
    if allowed is not None and (array.min() < allowed.start or array.max() >= allowed.stop):
        raise ValueError(
            f"{name} holds numbers from {array.min()} to {array.max()}: "
            f"{allowed.start} to {allowed.stop - 1} are allowed."
        )
    return array
