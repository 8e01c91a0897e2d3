"""Multi-head linear attention: the model that cubic regression learns exactly."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from attention._arrays import as_floating, namespace, to_numpy
from attention.inputs import Rng
from attention.memory import require_memory as require_bytes
from attention.validation import count, random_generator, require_finite, require_flag, require_shape
from upper.linear_attention.features import floating, require_no_overflow

__all__ = ["LinearAttention", "make_linear_attention", "zero_heads"]


@dataclass(frozen=True, eq=False)
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
        require_shape("v", self.v, ("H", "p", "d"))
        heads, _, d = self.v.shape
        require_shape("q", self.q, (heads, d, d))
        require_flag("average", self.average)
        for name in ("v", "q"):
            object.__setattr__(self, name, as_floating(getattr(self, name), xp.float64, xp))
            require_finite(name, getattr(self, name))

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
        namespace(x)
        if x.ndim < 2 or x.shape[-2] < 1:
            raise ValueError(
                f"The tokens have shape {tuple(x.shape)}: (..., n, {self.dim}) is needed, a token a row."
            )
        return self.at_queries(x, x[..., -1:, :])[..., 0, :]

    def at_queries(
        self, x: Shaped[Any, "*batch n d"], queries: Shaped[Any, "*batch r d"]
    ) -> Shaped[Any, "*batch r p"]:
        """The outputs at given queries instead of the last token.

        Parameters
        ----------
        x : array (..., n, d)
            Tokens.
        queries : array (..., r, d)
            Queries of each sequence; `x` itself for one output a row.

        Returns
        -------
        array (..., r, p)
            The outputs.

        Raises
        ------
        ValueError
            If the tokens have another dimension than the model, or products overflow.

        Notes
        -----
        O(n d^2 + r H (d^2 + p d)) a sequence.
        """
        xp = namespace(x, queries)
        for name, array in (("tokens", x), ("queries", queries)):
            if array.ndim < 2 or array.shape[-1] != self.dim:
                raise ValueError(
                    f"The {name} have shape {tuple(array.shape)}: (..., number, {self.dim}) is needed, "
                    "a token a row."
                )
        x, queries = floating(x), floating(queries)
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
        v, q = to_numpy(self.v), to_numpy(self.q)
        return np.tensordot(v, q, axes=(0, 0))

    def map(self, function: Callable[[Any], Any]) -> "LinearAttention":
        """The model with both arrays put through `function`, ``torch.from_numpy``, say."""
        return LinearAttention(function(self.v), function(self.q), self.average)

    def __repr__(self) -> str:
        mean = ", mean over the tokens" if self.average else ""
        return f"LinearAttention(heads={self.heads}, outputs={self.outputs}, dim={self.dim}{mean})"


def make_linear_attention(
    *, heads: int, dim: int, outputs: int | None = None, average: bool = False, rng: Rng = None
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

    Returns
    -------
    LinearAttention
        In float64, NumPy.

    Raises
    ------
    ValueError
        If a number is below 1.

    Notes
    -----
    O(H d (d + p)).

    Examples
    --------
    >>> make_linear_attention(heads=2, dim=4, rng=0)
    LinearAttention(heads=2, outputs=4, dim=4)
    """
    heads, dim = count("heads", heads), count("dim", dim)
    outputs = dim if outputs is None else count("outputs", outputs)
    v, q = zero_heads(heads, outputs, dim)
    generator = random_generator(rng)
    v += generator.standard_normal(v.shape) / np.sqrt(dim)
    q += generator.standard_normal(q.shape) / np.sqrt(dim)
    return LinearAttention(v, q, average)


def zero_heads(
    heads: int, outputs: int, dim: int
) -> tuple[Float[np.ndarray, "H p d"], Float[np.ndarray, "H d d"]]:
    """The arrays V and Q of a model to be filled in; a ValueError where they do not fit into memory."""
    require_bytes(
        f"A model of {heads} heads in {dim} dimensions",
        24 * heads * dim * (dim + outputs),
        advice="take fewer",
    )
    return np.zeros((heads, outputs, dim)), np.zeros((heads, dim, dim))
