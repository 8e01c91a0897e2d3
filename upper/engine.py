"""The engine of the heavy products: the library of arrays, the device, the precisions, and what each does in place."""

from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Literal

import array_api_compat
import numpy as np
from jaxtyping import Shaped

from attention._arrays import is_numpy, namespace
from attention.validation import checked

__all__ = ["Engine", "EngineName", "choose_engine", "has_bfloat16"]

EngineName = Literal["auto", "numpy", "torch"]


@dataclass(frozen=True, eq=False)
class Engine:
    """A library of arrays on a device, with the precisions to compute in.

    Parameters
    ----------
    xp : module
        The array-API namespace.
    kind : "numpy", "torch" or "other"
        Whose own functions it may use beyond the array API.
    device : object
        The library's device, None for its default.
    low : dtype
        For products that are needed to a per cent.
    single, double : dtype
        For residuals and vectors, float32 unless a run stalls, and float64.

    Notes
    -----
    NumPy (with SciPy) and torch multiply and exponentiate into existing memory and invert positive matrices by their
    own functions; any other library by those of the array API.
    """

    xp: ModuleType
    kind: Literal["numpy", "torch", "other"]
    device: Any
    low: Any
    single: Any
    double: Any

    @classmethod
    def of(cls, *arrays: Any, low: Any = None) -> "Engine":
        """The engine of some arrays, which must be of one library; `low` instead of the hardware's best precision.

        Raises
        ------
        ValueError
            If the arrays are of several libraries.

        Examples
        --------
        >>> Engine.of(np.zeros(2)).name
        'numpy'
        """
        xp = namespace(*arrays)
        device = None if is_numpy(arrays[0]) else array_api_compat.device(arrays[0])
        kind: Literal["numpy", "torch", "other"] = "other"
        if array_api_compat.is_numpy_namespace(xp):
            kind = "numpy"
        elif array_api_compat.is_torch_namespace(xp):
            kind = "torch"
        if low is None:
            low = xp.bfloat16 if kind == "torch" and has_bfloat16(str(device)) else xp.float32
        return cls(xp=xp, kind=kind, device=device, low=low, single=xp.float32, double=xp.float64)

    def __str__(self) -> str:
        """The name, for torch with the device and the low precision, as in "torch cpu bfloat16"."""
        return (
            self.name
            if self.kind != "torch"
            else f"torch {self.device} {str(self.low).removeprefix('torch.')}"
        )

    @property
    def name(self) -> str:
        """The library, as in "numpy" or "torch"."""
        return str(self.xp.__name__).removeprefix("array_api_compat.").split(".")[0]

    def put(self, array: Any, dtype: Any = None) -> Any:
        """A NumPy array (or a number) as an array of this engine."""
        if self.kind == "numpy":
            return np.asarray(array, dtype=dtype)
        if isinstance(array, np.ndarray) and not array.flags.writeable:
            array = array.copy()  # torch warns of read-only memory
        return self.xp.asarray(array, dtype=dtype, device=self.device)

    def detach(self, array: Any) -> Any:
        """The array's values without the record torch keeps to differentiate them; they share their memory."""
        return array.detach() if self.kind == "torch" else array

    def cast(self, array: Any, dtype: Any, out: Any = None) -> Any:
        """`array` in another precision, in the memory of `out` when there is some."""
        if out is None:
            with np.errstate(over="ignore"):  # infinite in the narrower type, which the residual shows
                return array if array.dtype == dtype else self.xp.astype(array, dtype)
        if self.kind == "torch":
            return out.copy_(array)
        if self.kind == "numpy":
            with np.errstate(over="ignore"):
                np.copyto(out, array, casting="same_kind")
            return out
        return self.xp.astype(array, dtype)

    def matmul(self, a: Any, b: Any, out: Any = None) -> Any:
        """A @ b of equally many axes, in the memory of `out` when there is some."""
        if self.kind == "torch":
            return self.xp.matmul(a, b, out=out)
        if self.kind == "numpy":
            return np.matmul(a, b, out=out)
        return self.xp.matmul(a, b)

    def exp(self, array: Any) -> Any:
        """The exponential, in the memory of `array`."""
        if self.kind == "torch":
            return array.exp_()
        if self.kind == "numpy":
            return np.exp(array, out=array)
        return self.xp.exp(array)

    def at_least(self, array: Any, least: float) -> Any:
        """The larger of each entry and `least`, in the memory of `array`."""
        if self.kind == "torch":
            return array.clamp_(min=least)
        if self.kind == "numpy":
            return np.maximum(array, least, out=array)
        return self.xp.clip(array, min=least)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Memory for results; None where the library cannot write into it."""
        if self.kind == "numpy":
            return np.empty(shape, dtype=dtype)
        if self.kind == "torch":
            return self.xp.empty(shape, dtype=dtype, device=self.device)
        return None

    def shaped(self, memory: Any, shape: tuple[int, ...]) -> Any:
        """Memory of `empty` in another shape; None where there is none."""
        return None if memory is None else self.xp.reshape(memory, shape)

    def dot(self, a: Any, b: Any) -> float:
        """The sum of a * b, as a float."""
        if self.kind == "torch":
            return float(self.xp.dot(a.reshape(-1), b.reshape(-1)))
        if self.kind == "numpy":
            return float(np.vdot(a, b))
        return float(self.xp.sum(a * b))

    def norm(self, array: Any) -> float:
        """The root of the sum of squares, as a float."""
        if self.kind == "numpy":
            return float(np.linalg.norm(array))
        return float(self.xp.linalg.vector_norm(array))

    def inverse_of_positive(self, matrix: Shaped[Any, "p p"]) -> Shaped[Any, "p p"]:
        """The inverse of a symmetric positive matrix.

        Notes
        -----
        By Cholesky factors, O(p^3), in the matrix's precision; if rounding has left it not positive, in float64 with as
        much added to the diagonal as rounding can have taken. Other libraries use a general inverse in float64.
        """
        if self.kind == "torch":
            factor, info = self.xp.linalg.cholesky_ex(matrix)
            if int(info):
                wide = matrix.double()
                slack = _slack(float(self.xp.linalg.matrix_norm(wide)), self.xp.finfo(matrix.dtype).eps)
                wide.diagonal().add_(slack)
                factor = self.xp.linalg.cholesky(wide)
            return self.xp.cholesky_inverse(factor).to(matrix.dtype)
        if self.kind == "numpy":
            from scipy.linalg import lapack

            single = matrix.dtype == np.float32
            potrf, potri = (lapack.spotrf, lapack.spotri) if single else (lapack.dpotrf, lapack.dpotri)
            factor, info = potrf(matrix, lower=1)
            if info:
                wide = matrix.astype(np.float64)
                slack = _slack(float(np.linalg.norm(wide)), float(np.finfo(matrix.dtype).eps))
                factor, potri = np.linalg.cholesky(wide + slack * np.eye(len(wide))), lapack.dpotri
            lower = np.tril(potri(factor, lower=1)[0]).astype(matrix.dtype)
            return lower + np.tril(lower, -1).T
        return self.cast(self.xp.linalg.inv(self.cast(matrix, self.double)), matrix.dtype)


@checked
def choose_engine(name: EngineName = "auto", device: str | None = None) -> Engine:
    """The engine to move NumPy examples to.

    Parameters
    ----------
    name : "auto", "numpy" or "torch"
        "auto" is torch where it is installed, else NumPy.
    device : str, optional
        A device of torch, for example "cuda"; by default its CPU.

    Raises
    ------
    ValueError
        If a device is asked of NumPy, or the device is not there.
    ImportError
        If torch is asked for and not installed.

    Notes
    -----
    Torch's low precision is bfloat16 where the hardware multiplies it (CPUs with AVX512-BF16 or AMX, CUDA devices of
    capability 8 or more), else float32. Only choosing torch imports it.

    Examples
    --------
    >>> choose_engine("numpy").name
    'numpy'
    """
    installed = find_spec("torch") is not None
    if not installed and (name == "torch" or (name == "auto" and device not in (None, "cpu"))):
        raise ImportError(
            "This engine needs PyTorch: install the extra, pip install 'attention-bounds[torch]'."
        )
    if name == "numpy" or not installed:
        if device not in (None, "cpu"):
            raise ValueError(
                f"device is {device!r}, and NumPy computes on the CPU: use engine='torch' with it."
            )
        return Engine.of(np.zeros(1))
    import torch

    try:
        probe = torch.zeros(1, dtype=torch.float64, device=device)  # the last digits are computed in it
        float(probe[0])  # "meta" is a device, but has shapes and no numbers
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ValueError(f"device is {device!r}, which torch cannot use here: {error}") from None
    return Engine.of(probe)


def _slack(norm: float, rounding: float) -> float:
    return 8 * rounding * norm or 1.0


@lru_cache
def has_bfloat16(device: str) -> bool:
    """Whether the hardware, and not only the software, multiplies bfloat16."""
    import torch

    if device.startswith("cuda"):
        return torch.cuda.get_device_capability(device)[0] >= 8
    if device != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    asks = [getattr(torch.cpu, ask, None) for ask in ("_is_avx512_bf16_supported", "_is_amx_tile_supported")]
    return any(ask() for ask in asks if ask is not None)
