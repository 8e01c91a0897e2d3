"""Multi-head linear attention: the model that cubic regression learns exactly, and its file."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from attention import FileFormatError
from attention._arrays import as_floating, namespace, to_numpy
from attention.files import FilePath, read_tensors, write_tensors
from attention.inputs import Rng
from attention.memory import require_memory
from attention.validation import PositiveInt, checked, random_generator
from upper.linear_attention.features import as_tokens, gram_matrix, require_no_overflow

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
        The heads' query matrices Q_h; they include the keys.
    average : bool
        Whether G is the mean over the n tokens instead of their sum.

    Raises
    ------
    ValueError
        If the shapes do not match, or an entry is not finite.

    Notes
    -----
    Only the part of `tensor` that is symmetric in the two middle indices affects the outputs, so heads are not
    identified. A call costs
    O(N n d^2 + N H (d^2 + p d)).

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
        gram = gram_matrix(as_tokens(x, self.dim), average=self.average)
        return self.of_gram(gram, as_tokens(queries, self.dim))

    def of_gram(
        self, gram: Shaped[Any, "*batch d d"], queries: Shaped[Any, "*batch r d"]
    ) -> Shaped[Any, "*batch r p"]:
        """The same from the Gram matrices, or means with `average`, of the tokens."""
        xp = namespace(gram, queries)
        # arrays of another library are converted through NumPy
        v, q = (
            xp.astype(m, gram.dtype, copy=False)
            if namespace(m) is xp
            else xp.asarray(to_numpy(m), dtype=gram.dtype)
            for m in (self.v, self.q)
        )
        total = 0.0
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            for head in range(self.heads):
                asked = xp.matmul(
                    xp.matmul(queries, xp.matrix_transpose(q[head, ...])), gram
                )  # G is symmetric
                total = total + xp.matmul(asked, xp.matrix_transpose(v[head, ...]))
        require_no_overflow(total, xp)
        return total

    def tensor(self) -> Float[np.ndarray, "p d d d"]:
        """The coefficients M_abce = sum_h (V_h)_ab (Q_h)_ce of G_bc z_e in the output a.

        Two models agree as functions if and only if their M + M^(swap bc) agree (derived here). O(H p d^3).
        """
        return np.tensordot(to_numpy(self.v), to_numpy(self.q), axes=(0, 0))

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
    """A random model of H heads in d dimensions with p outputs (d by default): Gaussian entries of variance 1/d.

    Examples
    --------
    >>> make_linear_attention(heads=2, dim=4, rng=0)
    LinearAttention(heads=2, outputs=4, dim=4)
    """
    shapes = (heads, outputs or dim, dim), (heads, dim, dim)
    require_memory("The model's matrices", 24 * sum(map(prod, shapes)), advice="take smaller sizes")
    generator = random_generator(rng)
    v, q = (generator.standard_normal(shape) / np.sqrt(dim) for shape in shapes)
    return LinearAttention(v, q, average)


@checked
def save_linear_attention(
    path: FilePath, model: LinearAttention, *, made: Mapping[str, Any] | None = None
) -> None:
    """Write a model's matrices v and q as safetensors, with how they were `made` as JSON values.

    An existing file is replaced once the new one is complete. A ValueError if `made` has no JSON form, an OSError
    if the file cannot be written.
    """
    tensors = {"v": to_numpy(model.v), "q": to_numpy(model.q)}
    write_tensors(path, _KIND, tensors, {"average": model.average, "made": dict(made or {})})


def load_linear_attention(path: FilePath) -> LinearAttention:
    """Read a file of `save_linear_attention`; a FileFormatError if it is missing, damaged or of another kind."""
    stored = read_tensors(path, kind=_KIND)
    try:
        if set(stored.tensors) != {"v", "q"}:
            raise ValueError("v and q are needed.")
        return LinearAttention(**stored.tensors, average=stored.metadata.get("average", False))
    except ValueError as error:
        raise FileFormatError(f"{Path(path)}: {error}") from None
