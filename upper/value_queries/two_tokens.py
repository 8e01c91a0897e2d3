"""Queries of one token and of two: the linear part of a layer, and the sigmoid network that two tokens show."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from attention.value_oracle import ValueOracle

# Sigmoids bend between a distance and twice that distance if the odd part grows by less than the factor 2 _BENT.
_BENT = 0.75
_RAYS = 3
# An odd part below the share _ROUNDING of the answers is rounding. At most _DOUBLINGS doublings or halvings are tried.
_ROUNDING, _DOUBLINGS = 1e-12, 60


@dataclass(frozen=True)
class LinearPart:
    """What queries of equal tokens determine: F = b + x (W_1 + ... + W_m)."""

    bias: Float[np.ndarray, " d"]  #: b
    projection_sum: Float[np.ndarray, "d d"]  #: W_1 + ... + W_m


def linear_part(oracle: ValueOracle) -> LinearPart:
    """The bias and the sum of the projections, from d + 1 queries: equal tokens get equal weights in every head."""
    tokens = np.concatenate([np.zeros((1, oracle.d)), np.eye(oracle.d)])
    answers = oracle.ask(np.repeat(tokens[:, None], oracle.k or 1, axis=1))[:, 0]
    return LinearPart(answers[0], answers[1:] - answers[0])


@dataclass(frozen=True)
class TwoTokens:
    """The two-layer network g(x; delta) = sum_i sigmoid(u_i . x + beta_i) v_i, from queries of the tokens x, x - delta.

    Here u_i = Theta_i delta, v_i = delta W_i, and beta_i = c_i . delta + ln(n_1 / n_2). A query has n_1 copies of x and
    n_2 of x - delta. Each query gives two values of g: row 1 at x and row 2 at x - delta.
    """

    oracle: ValueOracle
    linear: LinearPart

    def __call__(
        self, x: Float[np.ndarray, "*batch n d"], delta: Float[np.ndarray, "*batch d"]
    ) -> tuple[Float[np.ndarray, "*batch n d"], Float[np.ndarray, "*batch n d"]]:
        """g(x; delta) and g(x - delta; delta) at n points for every delta; n queries a delta."""
        other = x - delta[..., None, :]
        k = self.oracle.k or 2
        first = (k + 1) // 2
        tokens = np.stack([x, other], axis=-2).repeat([first, k - first], axis=-2)
        answers = self.oracle.ask(tokens.reshape(-1, k, x.shape[-1]))[:, [0, -1]]
        answers = answers.reshape(*x.shape[:-1], 2, x.shape[-1])
        rest = self.linear.bias + other @ self.linear.projection_sum
        return answers[..., 0, :] - rest, answers[..., 1, :] - rest


def find_scale(pairs: TwoTokens, rng: np.random.Generator) -> float | None:
    """The length r of tokens at which sigmoids begin to bend.

    There logits are of the order of 1, and little is lost to rounding. The length comes from the odd part of g along
    random rays, at distances that double or halve, by some 40 queries. None if there is no odd part: the weights then
    do not depend on the tokens.
    """
    d = pairs.oracle.d
    directions = orthonormal(rng, min(_RAYS + 1, d), d)
    delta, rays = directions[0], directions[-_RAYS:]

    def odd(distance: float) -> tuple[float, float]:
        x = distance * np.concatenate([rays, -rays])
        values, _ = pairs(x, delta)
        difference = float(np.linalg.norm(values[: len(rays)] - values[len(rays) :]))
        answers = float(np.linalg.norm(values) + np.linalg.norm(x @ pairs.linear.projection_sum))
        return difference, difference / (answers or 1.0)

    def bends(near: float, far: float) -> bool:
        return far < 2 * _BENT * near

    distance, (here, share) = 1.0, odd(1.0)
    factor = 0.5 if share > _ROUNDING and bends(here, odd(2.0)[0]) else 2.0
    for _ in range(_DOUBLINGS):
        there, there_share = odd(distance * factor)
        rounded = min(share, there_share) < _ROUNDING
        # beyond where heads saturate, those that cancel leave less than nearer by
        if not rounded and bends(*((there, here) if factor < 1 else (here, there))) != (factor < 1):
            return float(np.sqrt(distance if factor > 1 else distance * factor))
        distance, here, share = distance * factor, there, there_share
    return None


def count_heads(
    pairs: TwoTokens, scale: float, rng: np.random.Generator, *, gap: float = 1e-10
) -> tuple[int, Float[np.ndarray, " n"]]:
    """The number of heads, as the rank of values of g, and the singular values of these.

    Values of g are combinations of v_1, ..., v_m. So their rank is m if the v_i are independent; at most d heads can be
    told apart. Values are added until there are at least four more than the rank, or more than 2 d + 8. A singular
    value counts if it is above `gap` times the largest.
    """
    d = pairs.oracle.d
    delta = scale * orthonormal(rng, 1, d)[0]
    values = np.empty((0, d))
    while True:
        x = 2 * scale / np.sqrt(d) * rng.standard_normal((max(6, len(values) // 2), d))
        values = np.concatenate([values, *pairs(x, delta)])
        singular = np.linalg.svd(values, compute_uv=False)
        rank = int(np.sum(singular > gap * singular[0]))
        if rank <= len(values) - 4 or len(values) > 2 * d + 8:
            return rank, singular


def orthonormal(rng: np.random.Generator, n: int, d: int) -> Float[np.ndarray, "n d"]:
    """`n` random orthonormal directions."""
    return np.linalg.qr(rng.standard_normal((d, n)))[0].T
