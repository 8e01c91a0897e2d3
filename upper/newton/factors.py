"""Heads of low rank as two thin factors each: Theta_i = A_i B_i^T and W_i = V_i O_i, as in transformers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Shaped

from attention import AttentionLayer
from attention._arrays import namespace, to_numpy
from attention.inputs import Rng
from attention.validation import PositiveInt, checked, random_generator

__all__ = ["FactoredHeads", "random_factors"]


@dataclass(frozen=True, eq=False)
@checked
class FactoredHeads:
    """The heads Theta_i = A_i B_i^T and W_i = V_i O_i.

    Parameters
    ----------
    a, b : array (m, d, r)
        What queries and keys are read with; r is at most d.
    v : array (m, d, s)
        What values are read with; in a transformer s is r.
    o : array (m, s, d)
        What the values are written with.

    Raises
    ------
    ValueError
        If the shapes do not fit together, r or s exceeds d, or an entry is not finite.

    Notes
    -----
    A_i -> A_i G, B_i -> B_i G^-T and V_i -> V_i H, O_i -> H^-1 O_i change no head, which leaves 2 d r - r^2 unknowns in
    every Theta_i and 2 d s - s^2 in every W_i.

    Examples
    --------
    >>> heads = random_factors(heads=2, dim=8, rank=3, rng=0)
    >>> heads.heads, heads.dim, heads.rank
    (2, 8, 3)
    >>> heads.layer()
    AttentionLayer(heads=2, dim=8, dtype=float64)
    """

    a: Shaped[Any, "m d r"]
    b: Shaped[Any, "m d r"]
    v: Shaped[Any, "m d s"]
    o: Shaped[Any, "m s d"]

    def __post_init__(self) -> None:
        namespace(self.a, self.b, self.v, self.o)
        _require_rank(self.rank, self.dim)
        _require_rank(self.w_rank, self.dim)

    @classmethod
    def of(cls, layer: AttentionLayer, rank: int, w_rank: int | None = None) -> "FactoredHeads":
        """The balanced factors of a layer, each Theta_i and W_i replaced by the nearest matrix of its rank.

        `w_rank` is the rank s of the W_i, r if None. By truncated singular value decompositions, O(m d^3), in NumPy and
        float64.

        Examples
        --------
        >>> from attention import make_low_rank_layer
        >>> layer = make_low_rank_layer(heads=2, dim=8, rank=3, w_rank=3, rng=0)
        >>> bool(np.allclose(FactoredHeads.of(layer, 3).layer().theta, layer.theta))
        True
        """
        ranks = rank, rank if w_rank is None else w_rank
        for one in ranks:
            _require_rank(one, layer.dim)
        (a, b), (v, o) = (
            _nearest(to_numpy(matrices).astype(np.float64), one)
            for matrices, one in zip((layer.theta, layer.w), ranks, strict=True)
        )
        scale = np.linalg.norm(v, axis=1, keepdims=True)
        unit = np.where(scale > 0, scale, 1.0)
        return cls(a=a, b=b, v=v / unit, o=np.swapaxes(o * scale, 1, 2))

    @property
    def heads(self) -> int:
        """The number m of heads."""
        return int(self.a.shape[0])

    @property
    def dim(self) -> int:
        """The number d of coordinates of a token."""
        return int(self.a.shape[1])

    @property
    def rank(self) -> int:
        """The rank r of the Theta_i."""
        return int(self.a.shape[2])

    @property
    def w_rank(self) -> int:
        """The rank s of the W_i."""
        return int(self.v.shape[2])

    def map(self, convert: Callable[[Any], Any]) -> "FactoredHeads":
        """The same heads with `convert` applied to every factor, for example ``torch.from_numpy``."""
        return FactoredHeads(*(convert(one) for one in (self.a, self.b, self.v, self.o)))

    def side_by_side(self) -> Shaped[Any, "d columns"]:
        """[A | B | V], the factors of all heads side by side, (d, 2 m r + m s)."""
        xp = namespace(self.a)
        return xp.concat(
            [xp.reshape(xp.permute_dims(one, (1, 0, 2)), (self.dim, -1)) for one in (self.a, self.b, self.v)],
            axis=1,
        )

    def layer(self) -> AttentionLayer:
        """The layer of these heads, of the same array library."""
        xp = namespace(self.a)
        return AttentionLayer(
            theta=xp.matmul(self.a, xp.matrix_transpose(self.b)), w=xp.matmul(self.v, self.o)
        )

    def balanced(self) -> "FactoredHeads":
        """The same heads with A^T A = B^T B diagonal and V^T V the identity, in O(m d r^2)."""
        xp = namespace(self.a)
        q_a, r_a = xp.linalg.qr(self.a)
        q_b, r_b = xp.linalg.qr(self.b)
        left, values, right = xp.linalg.svd(xp.matmul(r_a, xp.matrix_transpose(r_b)), full_matrices=False)
        root = xp.sqrt(values)[:, None, :]
        q_v, r_v = xp.linalg.qr(self.v)
        return FactoredHeads(
            a=xp.matmul(q_a, left) * root,
            b=xp.matmul(q_b, xp.matrix_transpose(right)) * root,
            v=q_v,
            o=xp.matmul(r_v, self.o),
        )


@checked
def random_factors(
    *,
    heads: PositiveInt,
    dim: PositiveInt,
    rank: PositiveInt,
    w_rank: PositiveInt | None = None,
    rng: Rng = None,
) -> FactoredHeads:
    """Draw heads to start a learner from: in expectation |Theta_i| is 1 and V_i near an isometry; O is zero.

    Parameters
    ----------
    heads, dim, rank : int
        The numbers m, d and r; r is at most d.
    w_rank : int, optional
        The rank s of the W_i; r if None. At s = d every V_i is the identity.
    rng : optional
        Anything `numpy.random.default_rng` accepts.

    Notes
    -----
    Entries of A and B are N(0, 1/(d sqrt(r))), so that those of Theta have variance 1/d^2; entries of V are N(0, 1/d).
    """
    w_rank = rank if w_rank is None else w_rank
    _require_rank(rank, dim)
    _require_rank(w_rank, dim)
    rng = random_generator(rng)
    a, b = rng.standard_normal((2, heads, dim, rank)) * (dim**-0.5 * rank**-0.25)
    v = rng.standard_normal((heads, dim, w_rank)) / np.sqrt(dim)
    if w_rank == dim:  # nothing to choose: any basis reads the same
        v = np.broadcast_to(np.eye(dim), v.shape).copy()
    return FactoredHeads(a=a, b=b, v=v, o=np.zeros((heads, w_rank, dim)))


def _require_rank(rank: int, dim: int) -> None:
    if not 1 <= rank <= dim:
        raise ValueError(f"The rank is {rank}: from 1 to the dimension, {dim}, is needed.")


def _nearest(matrices: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    left, values, right = np.linalg.svd(matrices, full_matrices=False)
    root = np.sqrt(values[:, None, :rank])
    return left[:, :, :rank] * root, np.swapaxes(right, 1, 2)[:, :, :rank] * root
