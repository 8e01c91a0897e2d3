"""The engine of the large products: the array library, the device, and the precisions."""

from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Literal

import array_api_compat
import numpy as np
from jaxtyping import Shaped

from attention._arrays import namespace, to_numpy
from attention.validation import checked

EngineName = Literal["auto", "numpy", "torch"]

# Weights of patterns below exp(-46) = 1e-20 have no effect in either precision; denormals would slow every product.
_LEAST_LOGIT = -46.0
# From so many multiplications a pass bfloat16 gains: at half as many, (8, 4, 32), NumPy takes .8 of the time to 1e-6,
# and at more than twice as many, (4, 4, 64), 1.1 of it.
_WORTH_TORCH = 1 << 25
# Added to logits of a causal layer on later tokens; no logit reaches it.
_HIDDEN = -1e30


@dataclass(frozen=True, eq=False)
class Engine:
    """An array library on a device, with the precisions of the arithmetic.

    Parameters
    ----------
    xp : module
        The array-API namespace.
    name : str
        The name of the library. For "numpy" and "torch", the library's own Cholesky inverse is used.
    device : object
        The library's device.
    low : dtype
        For products that need an accuracy of one per cent only.
    single, double : dtype
        For residuals and vectors: float32 (unless a run stalls) and float64.
    causal : bool
        Whether tokens attend to earlier ones and themselves only.
    """

    xp: ModuleType
    name: str
    device: Any
    low: Any
    single: Any
    double: Any
    causal: bool = False

    @classmethod
    def of(cls, *arrays: Any, low: Any = None) -> "Engine":
        """The engine for arrays of one library; `low` replaces the hardware's best low precision.

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
        device = array_api_compat.device(arrays[0])
        name = str(xp.__name__).removeprefix("array_api_compat.").split(".")[0]
        if low is None:
            low = xp.bfloat16 if name == "torch" and has_bfloat16(str(device)) else xp.float32
        return cls(xp, name, device, low, single=xp.float32, double=xp.float64)

    def __str__(self) -> str:
        """The name; for torch also the device and the low precision, as in "torch cpu bfloat16"."""
        low = str(self.low).removeprefix("torch.")
        return f"torch {self.device} {low}" if self.name == "torch" else self.name

    def put(self, array: Any, dtype: Any = None) -> Any:
        """A NumPy array (or a number) as an array of this engine."""
        if self.name == "torch" and isinstance(array, np.ndarray) and not array.flags.writeable:
            array = array.copy()  # torch warns about read-only memory
        return self.xp.asarray(array, dtype=dtype, device=self.device)

    def to_numpy(self, array: Any) -> np.ndarray:
        """An array of this engine as a NumPy array in double precision."""
        return to_numpy(array).astype(np.float64, copy=False)

    def detach(self, array: Any) -> Any:
        """The array without torch's record of derivatives; it shares the memory."""
        return array.detach() if self.name == "torch" else array

    def cast(self, array: Any, dtype: Any) -> Any:
        """`array` in another precision; the same array if it has this precision already."""
        with np.errstate(over="ignore"):  # overflow gives inf, which the residual shows
            return array if array.dtype == dtype else self.xp.astype(array, dtype)

    def dot(self, a: Any, b: Any) -> float:
        """The sum of a * b, as a float."""
        return float(self.xp.matmul(self.xp.reshape(a, (-1,)), self.xp.reshape(b, (-1,))))

    def norm(self, array: Any) -> float:
        """The root of the sum of squares, as a float."""
        # NumPy's own norm is several times faster than that of the array API
        return float(np.linalg.norm(array) if self.name == "numpy" else self.xp.linalg.vector_norm(array))

    def softmax(self, logits: Shaped[Any, "*batch k"]) -> Shaped[Any, "*batch k"]:
        """The softmax along the last axis; it overwrites `logits`, and entries below 1e-20 become 1e-20.

        If the engine is causal, the rows are as many for each token, in the order of tokens.
        """
        xp, k = self.xp, logits.shape[-1]
        hidden: Any = 0
        if self.causal:
            hidden = self.put(np.triu(np.ones((k, k)), 1).repeat(logits.shape[-2] // k, axis=0), logits.dtype)
            logits += _HIDDEN * hidden
        # over few entries, a loop of whole-array operations is several times faster than a reduction
        largest = logits[..., 0]
        for b in range(1, k):
            largest = xp.maximum(largest, logits[..., b])
        logits -= largest[..., None]
        weights = xp.exp(xp.maximum(logits, xp.asarray(_LEAST_LOGIT, dtype=logits.dtype, device=self.device)))
        if self.causal:
            weights *= 1 - hidden
        total = weights[..., 0]
        for b in range(1, k):
            total = total + weights[..., b]
        weights /= total[..., None]
        return weights

    def softmax_derivative(
        self, change: Shaped[Any, "*batch k"], pattern: Shaped[Any, "*batch k"]
    ) -> Shaped[Any, "*batch k"]:
        """The change of patterns P with logits S, P * (S - rowsum(P * S)); a symmetric map that overwrites `change`."""
        xp, k = self.xp, change.shape[-1]
        change *= pattern
        # over few entries, a product with a matrix of ones is the fastest sum, repeated for every entry
        sums = xp.reshape(change, (-1, k)) @ xp.ones((k, k), dtype=change.dtype, device=self.device)
        sums = xp.reshape(sums, change.shape)
        sums *= pattern
        change -= sums
        return change

    def inverse_of_positive(self, matrix: Shaped[Any, "p p"]) -> Shaped[Any, "p p"]:
        """The inverse of a symmetric positive matrix.

        Notes
        -----
        By Cholesky factors, O(p^3), in the matrix's precision. If rounding makes the matrix not positive, it is done in
        float64, and the largest possible rounding error is added to the diagonal. Other libraries use a general inverse
        in float64.
        """
        xp = self.xp
        if self.name not in ("numpy", "torch"):
            return self.cast(xp.linalg.inv(self.cast(matrix, self.double)), matrix.dtype)
        inverse = self._by_cholesky(matrix)
        if inverse is None:
            wide = self.cast(matrix, self.double)
            slack = 8 * float(xp.finfo(matrix.dtype).eps) * self.norm(wide) or 1.0
            inverse = self._by_cholesky(
                wide + slack * xp.eye(len(wide), dtype=self.double, device=self.device)
            )
        return self.cast(inverse, matrix.dtype)

    def _by_cholesky(self, matrix: Any) -> Any:
        """The inverse; None if the matrix is not positive."""
        if self.name == "torch":
            factor, failed = self.xp.linalg.cholesky_ex(matrix)
            return None if int(failed) else self.xp.cholesky_inverse(factor)
        from scipy.linalg import lapack

        single = matrix.dtype == np.float32
        potrf, potri = (lapack.spotrf, lapack.spotri) if single else (lapack.dpotrf, lapack.dpotri)
        factor, failed = potrf(matrix, lower=1)
        if failed:
            return None
        lower = np.tril(potri(factor, lower=1)[0])
        return lower + np.tril(lower, -1).T


@checked
def choose_engine(name: EngineName = "auto", device: str | None = None) -> Engine:
    """The engine on which to compute with NumPy examples.

    Parameters
    ----------
    name : "auto", "numpy" or "torch"
        "auto" is torch if it is installed, else NumPy.
    device : str, optional
        A device of torch, for example "cuda"; by default its CPU.

    Raises
    ------
    ValueError
        If a device is given for NumPy, or the device is not available.
    ImportError
        If torch is requested but not installed.

    Notes
    -----
    Torch's low precision is bfloat16 if the hardware multiplies it (CPUs with AVX512-BF16 or AMX, CUDA devices of
    capability 8 or more), else float32. Only choosing torch imports it.

    Examples
    --------
    >>> choose_engine("numpy").name
    'numpy'
    """
    return _engine(name, device)


def _engine(name: EngineName, device: str | None) -> Engine:
    installed = find_spec("torch") is not None
    if not installed and (name == "torch" or (name == "auto" and device not in (None, "cpu"))):
        raise ImportError("This engine needs PyTorch: install it with pip install torch.")
    if name == "numpy" or not installed:
        if device not in (None, "cpu"):
            raise ValueError(
                f"device is {device!r}, and NumPy computes on the CPU: use engine='torch' with it."
            )
        return Engine.of(np.zeros(1))
    import torch

    try:
        probe = torch.zeros(1, dtype=torch.float64, device=device)  # float64 is needed for the last digits
        float(probe[0])  # the device "meta" has shapes, but no numbers
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ValueError(f"device is {device!r}, which torch cannot use here: {error}") from None
    return Engine.of(probe)


def engine_at_size(name: EngineName, device: str | None, multiplications: int) -> Engine:
    """The engine of a learner for a problem of so many multiplications a pass.

    "auto" without a device is decided by this number; with any device but "cpu", the engine is torch.
    """
    if name == "numpy" and device not in (None, "cpu"):
        return _engine("torch", device)
    if name != "auto" or device is not None:
        return _engine(name, device)
    engine = _engine("auto" if multiplications >= _WORTH_TORCH else "numpy", None)
    # with float32 only, torch is no faster on a CPU
    return _engine("numpy", None) if engine.low == engine.single else engine


@lru_cache
def has_bfloat16(device: str) -> bool:
    """Whether the hardware itself multiplies bfloat16, not only an emulation."""
    import torch

    if device.startswith("cuda"):
        return torch.cuda.get_device_capability(device)[0] >= 8
    if device != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    asks = [getattr(torch.cpu, ask, None) for ask in ("_is_avx512_bf16_supported", "_is_amx_tile_supported")]
    return any(ask() for ask in asks if ask is not None)
