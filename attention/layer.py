"""The target class, F(X) = sum_i softmax(X Theta_i X^T) X W_i with optional biases, on arrays of any array library."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from jaxtyping import Shaped

from attention._arrays import as_floating, namespace
from attention.memory import require_memory
from attention.validation import checked, require_array


class Layer:
    """What attention layers share: the output is the sum over heads of P_i X W_i with patterns P_i, plus a bias.

    A subclass is a frozen dataclass with the arrays `w` of shape (m, d, d) and perhaps `bias`, and gives the logits.
    """

    w: Any
    bias: Any
    causal: bool

    def __post_init__(self) -> None:
        for name, array in own_arrays(self.parameters).items():
            object.__setattr__(self, name, array)

    @property
    def heads(self) -> int:
        """The number m of heads."""
        return int(self.w.shape[0])

    @property
    def dim(self) -> int:
        """The number d of coordinates of a token."""
        return int(self.w.shape[1])

    @property
    def biased(self) -> bool:
        """Whether the layer has biases."""
        return any(name.endswith("bias") for name in self.parameters)

    @property
    def parameters(self) -> dict[str, Any]:
        """The arrays of the layer by name, with the biases that it has."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {name: array for name, array in arrays.items() if name != "causal" and array is not None}

    def __call__(self, x: Shaped[Any, "*batch k d"]) -> Shaped[Any, "*batch k d"]:
        """The layer's output on the token matrices `x`, in the array type of `x`.

        A ValueError if `x` is an array of another library than the parameters, the products overflow, or the logits do
        not fit into memory.
        """
        x, xp = self._tokens(x)
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is found by the checks
            read = mix(self._pattern(x, xp), x, xp)
            w = xp.reshape(xp.astype(self.w, x.dtype), (-1, self.dim))
            output = xp.reshape(xp.matmul(read, w), tuple(x.shape))
            if self.bias is not None:
                output = output + xp.astype(self.bias, x.dtype)
        require_no_overflow("output", output, xp)
        return output

    def logits(self, x: Shaped[Any, "*batch k d"]) -> Shaped[Any, "*batch m k k"]:
        """The attention logits of every head, before the mask of a causal layer."""
        x, xp = self._tokens(x)
        logits = xp.moveaxis(self._logits(x, xp), -2, -3)
        require_no_overflow("logits", logits, xp)
        return logits

    def patterns(self, x: Shaped[Any, "*batch k d"]) -> Shaped[Any, "*batch m k k"]:
        """The attention patterns of every head: rows are probability vectors over the tokens."""
        x, xp = self._tokens(x)
        return xp.moveaxis(self._pattern(x, xp), -2, -3)

    @checked
    def map(self, convert: Callable[[Any], Any]) -> Self:
        """The same layer with `convert` applied to its parameters, for example ``torch.from_numpy``."""
        arrays = {name: convert(writeable(array)) for name, array in self.parameters.items()}
        return replace(self, **arrays)  # type: ignore[type-var]

    def _tokens(self, x: Any) -> tuple[Any, Any]:
        xp = namespace(x, self.w)
        if x.ndim < 2 or x.shape[-1] != self.dim or x.shape[-2] < 1:
            raise ValueError(
                f"x has shape {tuple(x.shape)}: (..., k, {self.dim}) with k >= 1 tokens is needed."
            )
        if isinstance(x, np.ndarray):
            *batch, k, d = x.shape
            # twice 8 bytes: an array and its copy in another shape; small integers become floats of 8 bytes
            require_memory(
                f"A layer of {self.heads} heads on an array of shape {x.shape}",
                16 * math.prod(batch) * k * (self.heads * (k + d) + d),
                advice="give fewer examples at a time, or fewer tokens",
            )
        return as_floating(x, self.w.dtype, xp), xp

    def _pattern(self, x: Any, xp: Any) -> Any:
        """The patterns, (..., k, m, k)."""
        logits = self._logits(x, xp)
        if not self.causal:
            return attention_pattern(logits)
        _require_finite_logits(logits, xp)
        return softmax(logits + causal_mask(logits.shape[-1], logits, xp)[:, None, :], xp)

    def _logits(self, x: Any, xp: Any) -> Any:
        """The logits before the mask, (..., k, m, k)."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
@checked
class AttentionLayer(Layer):
    """A multi-head attention layer, F(X) = sum_i softmax(X Theta_i X^T) X W_i, or one with biases.

    Parameters
    ----------
    theta : array (m, d, d)
        Attention matrices, one per head. The logit of token a on token b in head i is x_a Theta_i x_b.
    w : array (m, d, d)
        Projection matrices, one per head.
    key_bias : array (m, d), optional
        The vectors c_i of a layer with biases: the logit of any token on token b in head i is larger by c_i . x_b.
    bias : array (d,), optional
        The vector b that a layer with biases adds to every output.
    causal : bool
        Whether row j attends to the tokens up to j only, as in models that generate text.

    Notes
    -----
    With biases, F(X) = 1 b^T + sum_i softmax(X Theta_i X^T + 1 (X c_i)^T) X W_i. This form holds every layer whose
    queries, keys, values and outputs have biases: what is equal along a row of logits cancels. A bias that is not given
    is zero.

    A ValueError if the entries are not real and finite, or the arrays come from different libraries. F identifies the
    heads only up to permutation. One call costs O(n k d^2 m + n k^2 d m) operations and holds O(n k d m + n k^2 m)
    numbers. NumPy parameters are copied and made read-only.

    References
    ----------
    Chen and Li, arXiv 2402.04084, Section 1; the biases are those of Vaswani et al., arXiv 1706.03762, Section 3.2,
    brought to this form here.

    Examples
    --------
    >>> import numpy as np
    >>> layer = AttentionLayer(theta=np.zeros((1, 3, 3)), w=np.eye(3)[None])
    >>> layer(np.array([[1.0, 1.0, -1.0], [1.0, -1.0, 1.0]]))  # no attention: every row is the mean token
    array([[1., 0., 0.],
           [1., 0., 0.]])
    """

    theta: Shaped[Any, "m d d"]
    w: Shaped[Any, "m d d"]
    key_bias: Shaped[Any, "m d"] | None = None
    bias: Shaped[Any, " d"] | None = None
    causal: bool = False

    def __repr__(self) -> str:
        more = (", biased" if self.biased else "") + (", causal" if self.causal else "")
        return f"AttentionLayer(heads={self.heads}, dim={self.dim}, dtype={self.theta.dtype}{more})"

    def _logits(self, x: Any, xp: Any) -> Any:
        """The logits before the mask, (..., k, m, k)."""
        key_bias = None if self.key_bias is None else xp.astype(self.key_bias, x.dtype)
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is found by the checks
            return contract(x, xp.astype(self.theta, x.dtype), xp, key_bias)


def attention_pattern(logits: Shaped[Any, "*batch k"]) -> Shaped[Any, "*batch k"]:
    """The softmax of `logits` over the last axis, stable for logits of any finite size.

    A ValueError if there is no logit, or one is infinite or NaN (the products overflowed: scale theta or x down).

    Examples
    --------
    >>> import numpy as np
    >>> attention_pattern(np.array([1e6, -1e6]))
    array([1., 0.])
    """
    xp = namespace(logits)
    if logits.ndim < 1 or logits.shape[-1] < 1:
        raise ValueError(f"The logits have shape {tuple(logits.shape)}: (..., k) with k >= 1 is needed.")
    if not xp.isdtype(logits.dtype, "real floating"):
        logits = as_floating(logits, xp.asarray(0.0).dtype, xp)
    _require_finite_logits(logits, xp)
    return softmax(logits, xp)


def causal_mask(tokens: int, like: Any, xp: Any) -> Shaped[Any, "k k"]:
    """What is added to logits (rows, tokens) of a causal layer: 0 up to the row's own token, minus infinity beyond."""
    ones = xp.ones_like(xp.reshape(like, (-1,))[:1])
    rows = xp.cumulative_sum(xp.broadcast_to(ones, (tokens,)))
    return xp.where(rows[:, None] >= rows[None, :], 0 * ones[0], -math.inf * ones[0])


def _require_finite_logits(logits: Any, xp: Any) -> None:
    if not bool(xp.all(xp.isfinite(logits))):
        raise ValueError(
            "The logits contain NaN or infinite entries. Where the products overflowed, scale theta or x down."
        )


def read_tokens(
    x: Shaped[Any, "n k d"],
    theta: Shaped[Any, "m d d"],
    key_bias: Shaped[Any, "m d"] | None = None,
    *,
    causal: bool = False,
) -> tuple[Shaped[Any, "n k m k"], Shaped[Any, "n*k m*d"]]:
    """Patterns P_i of all heads, as (n, k, m, k), and the tokens that they mix, Z = [P_1 X ... P_m X].

    The heads of one row are adjacent. One product of (n k, d) by (d, m d) and two batched ones; O(n k m d (d + 2 k)).
    """
    xp = namespace(x, theta)
    logits = contract(x, theta, xp, key_bias)
    if causal:
        logits = logits + causal_mask(x.shape[1], logits, xp)[:, None, :]
    pattern = softmax(logits, xp)
    return pattern, mix(pattern, x, xp)


def contract(x: Any, theta: Any, xp: Any, key_bias: Any = None) -> Any:
    """x_a Theta_i x_b + c_i . x_b as (..., k, m, k), from tokens (..., k, d), matrices (m, d, d) and vectors (m, d)."""
    *batch, k, d = x.shape
    m = theta.shape[0]
    stacked = xp.reshape(xp.permute_dims(theta, (1, 0, 2)), (d, m * d))
    left = xp.reshape(xp.matmul(xp.reshape(x, (-1, d)), stacked), (*batch, k * m, d))
    logits = xp.reshape(xp.matmul(left, xp.matrix_transpose(x)), (*batch, k, m, k))
    if key_bias is None:
        return logits
    along = xp.matrix_transpose(xp.matmul(x, xp.matrix_transpose(key_bias)))
    return logits + xp.reshape(along, (*batch, 1, m, k))


def softmax(logits: Any, xp: Any) -> Any:
    """The softmax over the last axis, stable for finite logits."""
    # NumPy dtypes in the machine's byte order; below float32, the sum of many weights is inexact, so compute in float32
    dtype = logits.dtype.newbyteorder("=") if isinstance(logits.dtype, np.dtype) else logits.dtype
    logits = xp.astype(logits, xp.float32) if xp.finfo(logits.dtype).bits < 32 else logits
    with np.errstate(over="ignore"):  # a difference that overflows gives weight 0
        weights = xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))
        pattern = weights / xp.sum(weights, axis=-1, keepdims=True)
        return pattern if pattern.dtype == dtype else xp.astype(pattern, dtype)


def mix(weights: Any, x: Any, xp: Any) -> Any:
    """sum_b weights[..., a, i, b] x_b as one (rows, m d) matrix, from weights (..., k, m, k) and tokens (..., k, d)."""
    *batch, k, d = x.shape
    m = weights.shape[-2]
    return xp.reshape(xp.matmul(xp.reshape(weights, (*batch, k * m, k)), x), (-1, m * d))


def require_no_overflow(what: str, array: Any, xp: Any) -> None:
    """Raise if an array that a layer computed is not finite."""
    if not bool(xp.all(xp.isfinite(array))):
        raise ValueError(
            f"The {what} of the layer overflowed in {array.dtype}: scale theta, w or x down, or use a wider type."
        )


def own_arrays(given: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a layer or network in one floating dtype; of NumPy, copies that are read-only."""
    xp = namespace(*given.values())
    dtype = _common_dtype(list(given.values()), xp)
    own = {}
    for name, parameter in given.items():
        array = as_floating(parameter, dtype, xp)
        if array is not parameter:  # a large integer may be infinite in the dtype of the other array
            require_array(name, array)
        if isinstance(array, np.ndarray):
            array = np.array(array, order="C")
            array.flags.writeable = False
        own[name] = array
    return own


def writeable(array: Any) -> Any:
    """A copy of a NumPy parameter that may be written; any other array as it is."""
    # torch.from_numpy warns about read-only memory
    return np.array(array) if isinstance(array, np.ndarray) else array


def _common_dtype(arrays: list[Any], xp: Any) -> Any:
    # the library's default dtype applies to integers only; float32 parameters stay float32
    floating = [array.dtype for array in arrays if xp.isdtype(array.dtype, "real floating")]
    return xp.result_type(*floating) if floating else xp.asarray(0.0).dtype
