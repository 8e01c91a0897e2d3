"""What a pre-norm block answers to one token: B(x) = z + N(n(z)) with z = x + n(x) W + b."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from attention.norm import Norm
from upper.blocks.kinks import Ask
from upper.blocks.row_newton import newton_rows
from upper.blocks.token_map import TokenMap


@dataclass(frozen=True)
class NormedMap:
    """B(x) = z + N(n(z)) with z = x + n(x) W + b, for a network N without residual and a norm without gain."""

    norm: Norm
    w: Float[np.ndarray, "d d"]  #: the sum of the W_i
    b: Float[np.ndarray, " d"]  #: the bias of the attention
    network: TokenMap  #: N

    def attended(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """The z of one token, or of equal ones."""
        return x + self.norm(x) @ self.w + self.b

    def behind(self, z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """The answer z + N(n(z)) to a z."""
        return z + self.network(self.norm(z))

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """The outputs on tokens."""
        return self.behind(self.attended(x))

    def amplification(self, reach: float, rng: np.random.Generator, n: int) -> tuple[float, bool]:
        """How much an error of an answer grows in z, at the worst of n tokens with norms of random length; and whether
        the derivative of z + N(n(z)) has one orientation at all of them, as where it is injective.
        """
        u = reach * rng.random((n, 1)) * self.norm(rng.standard_normal((n, self.norm.dim)))
        slopes = self._slopes(u @ self.w + self.b)
        least = np.linalg.svd(slopes, compute_uv=False)[:, -1].min()
        return float(1 / least), bool(np.all(np.linalg.slogdet(slopes)[0] > 0))

    def _slopes(self, z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d d"]:
        """The derivative of z + N(n(z)), rows by z."""
        identity = np.eye(z.shape[1])
        return identity + self.norm.derivative(z, identity[None]) @ self.network.jacobian(self.norm(z))

    def inverse(
        self, y: Float[np.ndarray, "n d"], start: Float[np.ndarray, "n d"]
    ) -> Float[np.ndarray, "n d"]:
        """The z with z + N(n(z)) = y near `start`, by Newton's method; NaN where none is found."""
        return newton_rows(self.behind, self._slopes, y, start, 1 + np.linalg.norm(y, axis=1))


def find_eps(g: NormedMap, ask: Ask, rng: np.random.Generator) -> float:
    """The eps of the norm: it decides the length of n(x) for short tokens x, which z shows. 30 queries."""
    direction = Norm.plain(g.norm.dim, 0.0)(rng.standard_normal(g.norm.dim))
    lengths = 10.0 ** -np.arange(1.0, 16.0, 0.5)
    x = lengths[:, None] * direction
    moved = g.inverse(ask(x), g.attended(x)) - x - g.b
    whole = direction @ g.w
    shares = moved @ whole / (whole @ whole)
    usable = np.isfinite(shares) & (shares > 0) & (shares < 1)
    if not usable.any():
        return 0.0
    # a share near 1/sqrt(2) tells most
    best = np.argmin(np.where(usable, np.abs(shares**2 - 0.5), np.inf))
    return float(lengths[best] ** 2 * (1 / shares[best] ** 2 - 1))
