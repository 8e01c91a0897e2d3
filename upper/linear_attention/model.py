"""Multi-head linear attention: the model that cubic regression learns exactly, and its file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from attention._arrays import as_floating, namespace, to_numpy
from attention.errors import FileFormatError
from attention.files import FilePath, read_tensors, write_tensors
from attention.inputs import Rng
from attention.memory import require_memory
from attention.validation import PositiveInt, checked, random_generator
from upper.linear_attention.features import as_tokens, require_no_overflow

__all__ = [
    "LinearAttention",
    "load_linear_attention",
    "make_linear_attention",
    "save_linear_attention",
    "zero_heads",
    "zeros",
]

_KIND = "linear-attention"


@dataclass(frozen=True, eq=False)
@checked
class LinearAttention:
    """The model y = sum_h V_h G Q_h z, with G = X^T X the tokens' Gram matrix and z the last token, the query.

    Parameters
    ----------
    v : array (H, p, d)
        The heads' value matrices V_h, to p outputs.
    q : array (H, d, d)
        The heads' query matrices Q_h; the keys are in them.
    average : bool
        Whether G is the mean over the n tokens instead of their sum.

    Raises
    ------
    ValueError
        If the shapes do not fit together, or an entry is not finite.

    Notes
    -----
    Only the tensor `tensor` acts, and of it only what is symmetric in its two middle indices: heads are not
    identified. A call costs O(N n d^2 + N H (d^2 + p d)).

    References
    ----------
    Yau et al., arXiv 2410.10101; tokens are rows here, as everywhere in this package, and columns there.

    Examples
    --------
    >>> model = LinearAttention(v=np.ones((1, 1, 2)), q=np.eye(2)[None])
    >>> model(np.array([[[1.0, 0.0], [1.0, 2.0]]]))
    array([[16.]])
    """

    v: Shaped[Any, "H p d"]
    q: Shaped[Any, "H d d"]
    average: bool = False

    def __post_init__(self) -> None:
        xp = namespace(self.v, self.q)
        for name in ("v", "q"):
            object.__setattr__(self, name, as_floating(getattr(self, name), xp.float64, xp))

    @property
    def heads(self) -> int:
        """The number H of heads."""
        return int(self.v.shape[0])

    @property
    def outputs(self) -> int:
        """The number p of outputs."""
        return int(self.v.shape[1])

    @property
    def dim(self) -> int:
        """The dimension d of the tokens."""
        return int(self.v.shape[2])

    def __call__(self, x: Shaped[Any, "*batch n d"]) -> Shaped[Any, "*batch p"]:
        """The outputs at the last token, in the array type of `x`."""
        x = as_tokens(x, self.dim)
        return self.at_queries(x, x[..., -1:, :])[..., 0, :]

    def at_queries(
        self, x: Shaped[Any, "*batch n d"], queries: Shaped[Any, "*batch r d"]
    ) -> Shaped[Any, "*batch r p"]:
        """The outputs (..., r, p) at given queries (..., r, d), `x` itself for all rows, instead of the last token."""
        xp = namespace(x, queries)
        x, queries = as_tokens(x, self.dim), as_tokens(queries, self.dim)
        # what is of another library goes over by NumPy, which all read
        v, q = (m if namespace(m) is xp else to_numpy(m) for m in (self.v, self.q))
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            gram = xp.matmul(xp.matrix_transpose(x), x)
            if self.average:
                gram = gram / x.shape[-2]
            total = 0.0
            for head in range(self.heads):
                one, other = (xp.asarray(m[head, ...], dtype=x.dtype) for m in (q, v))
                asked = xp.matmul(xp.matmul(queries, xp.matrix_transpose(one)), gram)  # G is symmetric
                total = total + xp.matmul(asked, xp.matrix_transpose(other))
        require_no_overflow(total, xp)
        return total

    def tensor(self) -> Float[np.ndarray, "p d d d"]:
        """The coefficients M_abce = sum_h (V_h)_ab (Q_h)_ce of G_bc z_e in the output a.

        Two models agree as functions if and only if their M + M^(swap bc) agree (derived here). O(H p d^3).
        """
        return np.tensordot(to_numpy(self.v), to_numpy(self.q), axes=(0, 0))

    def map(self, function: Callable[[Any], Any]) -> "LinearAttention":
        """The model with both arrays put through `function`, ``torch.from_numpy``, say."""
        return LinearAttention(function(self.v), function(self.q), self.average)

    def __repr__(self) -> str:
        mean = ", mean over the tokens" if self.average else ""
        return f"LinearAttention(heads={self.heads}, outputs={self.outputs}, dim={self.dim}{mean})"


@checked
def make_linear_attention(
    *,
    heads: PositiveInt,
    dim: PositiveInt,
    outputs: PositiveInt | None = None,
    average: bool = False,
    rng: Rng = None,
) -> LinearAttention:
    """A random model: entries of V_h and Q_h Gaussian of variance 1/d.

    Parameters
    ----------
    heads, dim : int
        H and d.
    outputs : int, optional
        p; by default d.
    average : bool
        Whether G is the mean over the tokens.
    rng : SPEC 7 generator or seed
        Where randomness comes from.

    Examples
    --------
    >>> make_linear_attention(heads=2, dim=4, rng=0)
    LinearAttention(heads=2, outputs=4, dim=4)
    """
    v, q = zero_heads(heads, outputs or dim, dim)
    generator = random_generator(rng)
    v += generator.standard_normal(v.shape) / np.sqrt(dim)
    q += generator.standard_normal(q.shape) / np.sqrt(dim)
    return LinearAttention(v, q, average)


@checked
def save_linear_attention(
    path: FilePath, model: LinearAttention, *, made: Mapping[str, Any] | None = None
) -> None:
    """Write a model: its matrices v and q as safetensors, and how they were made for the record.

    Parameters
    ----------
    path : path
        Where to; a file that is there is replaced when the new one is complete.
    model : LinearAttention
        The model, of any array library.
    made : mapping, optional
        How it was made, as JSON values.

    Raises
    ------
    ValueError, OSError
        If it is no such model or `made` has no JSON form; if the file cannot be written.
    """
    tensors = {"v": to_numpy(model.v), "q": to_numpy(model.q)}
    write_tensors(path, _KIND, tensors, {"average": model.average, "made": dict(made or {})})


def load_linear_attention(path: FilePath) -> LinearAttention:
    """Read what `save_linear_attention` wrote; a FileFormatError if the file is missing, damaged or something else."""
    stored = read_tensors(path, kind=_KIND)
    try:
        if set(stored.tensors) != {"v", "q"}:
            raise ValueError("v and q are needed.")
        return LinearAttention(**stored.tensors, average=stored.metadata.get("average", False))
    except ValueError as error:
        raise FileFormatError(f"{Path(path)}: {error}") from None


def zero_heads(
    heads: int, outputs: int, dim: int
) -> tuple[Float[np.ndarray, "H p d"], Float[np.ndarray, "H d d"]]:
    """The arrays V and Q of a model to be filled in; a ValueError where they do not fit into memory."""
    return zeros(heads, outputs, dim), zeros(heads, dim, dim)


def zeros(*shape: int) -> np.ndarray:
    """An array of zeros to be filled in; a ValueError where it, and what is made from it, do not fit into memory."""
    require_memory(f"An array of shape {shape}", 24 * prod(shape), advice="take smaller sizes")
    return np.zeros(shape)
