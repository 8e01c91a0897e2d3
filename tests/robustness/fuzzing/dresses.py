"""Ways to dress an array: other layouts, other types, other entries, other shapes."""

import importlib.util
import math
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["DRESSES"]


def _strided(a: np.ndarray) -> np.ndarray:
    if a.ndim == 0:
        return a
    wide = np.zeros((*a.shape[:-1], 2 * a.shape[-1] + 1), a.dtype)
    wide[..., 1::2] = a
    return wide[..., 1::2]


def _read_only(a: np.ndarray) -> np.ndarray:
    a = a.copy()
    a.flags.writeable = False
    return a


def _with(value: float) -> Callable[[np.ndarray], np.ndarray]:
    def put(a: np.ndarray) -> np.ndarray:
        a = np.array(a, dtype=float)
        if a.size:
            a.flat[-1] = value
        return a

    return put


def _times(factor: float) -> Callable[[np.ndarray], np.ndarray]:
    def scale(a: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(a, float) * factor

    return scale


def _of_type(dtype: Any) -> Callable[[np.ndarray], np.ndarray]:
    def cast(a: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return a.astype(dtype)

    return cast


def _tensor(dtype: str | None, **more: Any) -> Callable[[np.ndarray], Any]:
    def convert(a: np.ndarray) -> Any:
        import torch

        tensor = torch.from_numpy(np.ascontiguousarray(a).copy())
        if dtype is not None:
            tensor = tensor.to(getattr(torch, dtype))
        if more.get("grad") and tensor.is_floating_point():
            tensor.requires_grad_()
        return tensor

    return convert


# how an array is changed, and whether it means the same afterwards
DRESSES: dict[str, tuple[Callable[[np.ndarray], Any], bool]] = {
    "plain": (lambda a: a.copy(), False),
    "by columns": (lambda a: np.asfortranarray(a), True),
    "strided": (_strided, True),
    "backwards in memory": (lambda a: np.ascontiguousarray(a[::-1])[::-1] if a.ndim else a, True),
    "read-only": (_read_only, True),
    "other byte order": (lambda a: a.astype(a.dtype.newbyteorder(">")), True),
    "long double": (_of_type(np.longdouble), False),
    "float32": (_of_type(np.float32), False),
    "float16": (_of_type(np.float16), False),
    "whole numbers": (_of_type(np.int64), False),
    "small unsigned": (lambda a: _of_type(np.uint8)(np.abs(a)), False),
    "bools": (lambda a: a > 0, False),
    "complex": (_of_type(complex), False),
    "objects": (_of_type(object), False),
    "texts": (_of_type(str), False),
    "a list": (lambda a: a.tolist(), False),
    "masked": (lambda a: np.ma.masked_array(a), False),
    "zeros": (lambda a: np.zeros_like(a), False),
    "equal along the first axis": (
        lambda a: np.repeat(a[:1], len(a), axis=0) if a.ndim and len(a) else a,
        False,
    ),
    "with NaN": (_with(math.nan), False),
    "with infinity": (_with(math.inf), False),
    "with one huge entry": (_with(1e300), False),
    "times 1e300": (_times(1e300), False),
    "times 1e-300": (_times(1e-300), False),
    "denormal": (_times(1e-310), False),
    "times 1e8": (_times(1e8), False),
    "one axis less": (lambda a: a[0] if a.ndim and len(a) else np.float64(1.0), False),
    "one axis more": (lambda a: a[None], False),
    "nothing along the first axis": (lambda a: a[:0] if a.ndim else a, False),
    "nothing along the last axis": (lambda a: a[..., :0] if a.ndim else a, False),
    "one more along the last axis": (
        lambda a: np.concatenate([a, a[..., :1]], axis=-1) if a.ndim else a,
        False,
    ),
    "one more along the first axis": (lambda a: np.concatenate([a, a[:1]]) if a.ndim else a, False),
    "transposed": (lambda a: a.T.copy(), False),
    "flat": (lambda a: a.ravel().copy(), False),
}
if "torch" in sys.modules or importlib.util.find_spec("torch"):
    DRESSES |= {
        "torch float64": (_tensor(None), False),
        "torch float32": (_tensor("float32"), False),
        "torch bfloat16": (_tensor("bfloat16"), False),
        "torch with gradient": (_tensor(None, grad=True), False),
    }
