"""Key-value memory: a head that looks up values, and the distributions of keys that determine it."""

from dataclasses import dataclass
from math import comb
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from attention.inputs import Rng
from attention.validation import random_generator
from upper.linear_attention.model import LinearAttention

Keys = Literal["haar", "gaussian", "fixed", "two-keys", "half-queried", "plane"]


@dataclass(frozen=True)
class KeyValueMemory:
    """A memory on tokens [k_i; v_i] with Gaussian values and the query [q; 0] of one of the keys.

    Parameters
    ----------
    keys : str
        ``"haar"``: dk orthonormal keys, the rows of a random orthogonal matrix, anew in each example.
        ``"gaussian"``: dk independent N(0, I) keys. ``"fixed"``: the dk unit vectors. ``"two-keys"``: only two
        orthonormal keys, Haar. ``"half-queried"``: the unit vectors, of which only the first half (rounded up) is ever
        queried. ``"plane"``: dk - 1 orthonormal keys, Haar in the space without the last coordinate.
    dk, dv : int
        Dimensions of keys, at least 2, and of values.

    Examples
    --------
    >>> memory = KeyValueMemory("two-keys")
    >>> x, y = memory.examples(5, rng=0)
    >>> x.shape, y.shape, bool(abs(x[0, 0, :4] @ x[0, 1, :4]) < 1e-12)
    ((5, 3, 7), (5, 3), True)
    >>> memory.rank_of_a_key
    19
    """

    keys: Keys
    dk: int = 4
    dv: int = 3

    @property
    def rank_of_a_key(self) -> int:
        """How many queries of one key of a fixed basis determine the memory for it: 1 + dk dv + dv (dv + 1)/2.

        It is the number of free entries of G, plus one for the constant entries. Features of two keys of a basis have
        disjoint supports. So with m_j queries of key j, the rank is the sum of min(m_j, rank_of_a_key), almost surely.
        """
        return 1 + self.dk * self.dv + comb(self.dv + 1, 2)

    def model(self) -> LinearAttention:
        """One head that returns sum_i (k_i . q) v_i: the value of the key queried, if the keys are orthonormal.

        V = [0 | I] and Q = diag(I, 0); the query's own token [q; 0] has no value to add.
        """
        d = self.dk + self.dv
        v, q = np.eye(self.dv, d, self.dk), np.diag(1.0 * (np.arange(d) < self.dk))
        return LinearAttention(v[None], q[None])

    def examples(
        self, number: int, *, rng: Rng = None
    ) -> tuple[Float[np.ndarray, "N n d"], Float[np.ndarray, "N dv"]]:
        """Tokens, the last one the query, and what `model` returns. O(N dk^2 (dk + dv))."""
        generator = random_generator(rng)
        dk, keys = self.dk, self.keys
        if keys in ("fixed", "half-queried"):
            queried = generator.integers(dk if keys == "fixed" else (dk + 1) // 2, size=number)
            return self.on_a_basis(queried, rng=generator)
        if keys == "gaussian":
            drawn = generator.standard_normal((number, dk, dk))
        elif keys == "plane":
            drawn = np.pad(_haar(number, dk - 1, generator), ((0, 0), (0, 0), (0, 1)))
        else:
            drawn = _haar(number, dk, generator)[:, : 2 if keys == "two-keys" else dk]
        return self._examples(drawn, generator.integers(drawn.shape[1], size=number), generator)

    def on_a_basis(
        self, queried: Int[np.ndarray, " N"], *, rng: Rng = None
    ) -> tuple[Float[np.ndarray, "N n d"], Float[np.ndarray, "N dv"]]:
        """Examples with the unit vectors as keys and the given queries, which are numbers below dk."""
        keys = np.broadcast_to(np.eye(self.dk), (len(queried), self.dk, self.dk))
        return self._examples(keys, queried, random_generator(rng))

    def _examples(
        self, keys: np.ndarray, queried: np.ndarray, generator: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        number, held, dk = keys.shape
        x = np.zeros((number, held + 1, dk + self.dv))
        x[:, :held, :dk] = keys
        x[:, :held, dk:] = generator.standard_normal((number, held, self.dv))
        x[:, held, :dk] = keys[np.arange(number), queried]
        return x, np.asarray(self.model()(x))


def _haar(number: int, dim: int, generator: np.random.Generator) -> np.ndarray:
    """Orthogonal matrices of Haar measure: the signs make the factors of the QR factorisation unique."""
    q, r = np.linalg.qr(generator.standard_normal((number, dim, dim)))
    return q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :]
