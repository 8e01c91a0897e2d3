"""Queries of one token and of two: the linear part of a layer, and the sigmoid network that two tokens show."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from attention import AnswerPrecision, AttentionLayer, ValueOracle
from upper.value_queries.polish import Parameters

# Sigmoids bend between a distance and twice that distance if the odd part grows by less than the factor 2 _BENT.
_BENT = 0.75
_RAYS = 3
# An odd part below the share _ROUNDING of the answers is rounding. At most _DOUBLINGS doublings or halvings are tried.
_ROUNDING, _DOUBLINGS = 1e-12, 40
# Rounding, but no answer of a layer, differs where tokens are longer by this share.
_MOVE = 1e-9
# An odd part is measured where it is so many times the noise; a singular value counts where it is.
_LOUD, _COUNTED = 8.0, 2.0
# Without noise a singular value counts above this share of the largest; measured gaps are .1 against 3e-15.
_GAP = 1e-10

# What is counted in answers of float64, whose rounding the other thresholds allow for.
_EXACT = AnswerPrecision()


@dataclass(frozen=True)
class LinearPart:
    """What queries of equal tokens determine: F = b + x (W_1 + ... + W_m)."""

    bias: Float[np.ndarray, " d"]  #: b
    projection_sum: Float[np.ndarray, "d d"]  #: W_1 + ... + W_m

    @property
    def layer(self) -> AttentionLayer:
        """One head that attends to all tokens alike: all that is known without the heads."""
        d = len(self.bias)
        return Parameters(np.zeros((1, d, d)), self.projection_sum[None], np.zeros((1, d)), self.bias).layer


def linear_part(
    oracle: ValueOracle, *, opposite: bool = False, length: float = 1.0, repeats: int = 1
) -> LinearPart:
    """The bias and the sum of the projections, from d + 1 queries: equal tokens get equal weights in every head.

    Or from 2 d queries of tokens of this length, each with its opposite: less of the error of answers counts.
    """
    axes = length * np.eye(oracle.d)
    tokens = np.concatenate([axes, -axes] if opposite else [np.zeros((1, oracle.d)), axes])
    answers = ask_often(oracle, np.repeat(tokens[:, None], oracle.k or 1, axis=1), repeats).mean(axis=1)
    if opposite:
        return LinearPart(answers.mean(axis=0), (answers[: oracle.d] - answers[oracle.d :]) / (2 * length))
    return LinearPart(answers[0], (answers[1:] - answers[0]) / length)


@dataclass(frozen=True)
class TwoTokens:
    """The two-layer network g(x; delta) = sum_i sigmoid(u_i . x + beta_i) v_i, from queries of the tokens x, x - delta.

    Here u_i = Theta_i delta, v_i = delta W_i, and beta_i = c_i . delta + ln(n_1 / n_2). A query has n_1 copies of x and
    n_2 of x - delta. Each query gives two values of g: row 1 at x and row 2 at x - delta.

    Two things lower noise. A difference that is L times as long, at tokens x / L, has the same logits u_i . x and L
    times the outputs v_i, so the noise counts 1 / L. The bias c_i counts L times; a shift of the tokens takes it off
    once c_i and Theta_i are roughly known. A row then shows one value, so queries double. And answers are averaged.
    """

    oracle: ValueOracle
    linear: LinearPart
    precision: AnswerPrecision = _EXACT
    size: float = 0.0  #: the size of the answers over L, which rounding is a share of
    stretch: float = 1.0  #: L
    repeats: int = 1  #: how often each query is asked
    #: maps s differences to the token from which x is counted
    centre: Callable[[np.ndarray], np.ndarray] | None = None

    @property
    def noise(self) -> float:
        """Standard deviation of the error of an entry of an answer; 0 where that of float64 is all."""
        return self.precision.error(self.stretch * self.size)

    @property
    def rounded(self) -> bool:
        """Whether rounding is most of the error; that of logits, which may be large, then adds to it."""
        return self.precision.accuracy * self.stretch * self.size > self.precision.noise

    @property
    def value_noise(self) -> float:
        """Standard deviation of the error of an entry of g."""
        return self.noise / (self.stretch * float(np.sqrt(self.repeats)))

    def __call__(
        self, x: Float[np.ndarray, "*batch n d"], delta: Float[np.ndarray, "*batch d"]
    ) -> tuple[Float[np.ndarray, "*batch n d"], Float[np.ndarray, "*batch n d"]]:
        """g(x; delta) and g(x - delta; delta) at n points for every delta; n queries a delta, or 2 n if stretched."""
        if self.stretch == 1 and self.centre is None:
            return self._rows(x, delta[..., None, :])
        centre = 0.0 if self.centre is None else self.centre(delta[..., None, :])[..., None, :]
        x = np.concatenate([x, x - delta[..., None, :]], axis=-2) / self.stretch + centre
        values, _ = self._rows(x, self.stretch * delta[..., None, :])
        here, there = np.split(values / self.stretch, 2, axis=-2)
        return here, there

    def _rows(self, x: np.ndarray, delta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        other = x - delta
        k = self.oracle.k or 2
        first = (k + 1) // 2
        tokens = np.stack([x, other], axis=-2).repeat([first, k - first], axis=-2)
        answers = ask_often(self.oracle, tokens.reshape(-1, k, x.shape[-1]), self.repeats)
        answers = answers.reshape(*x.shape[:-1], k, x.shape[-1])
        rest = self.linear.bias + other @ self.linear.projection_sum
        return answers[..., :first, :].mean(axis=-2) - rest, answers[..., first:, :].mean(axis=-2) - rest


def ask_often(oracle: ValueOracle, x: Float[np.ndarray, "n k d"], repeats: int) -> Float[np.ndarray, "n k d"]:
    """The mean of `repeats` answers to each query."""
    answers = oracle.ask(x)
    for _ in range(repeats - 1):
        answers = answers + oracle.ask(x)
    return answers / repeats


def find_scale(pairs: TwoTokens, rng: np.random.Generator) -> float | None:
    """The length r of tokens at which sigmoids begin to bend.

    There logits are of the order of 1, and little is lost to rounding. The length comes from the odd part of g along
    random rays, at distances that double or halve, by some 40 queries. It starts at the distance nearest to 1 at which
    there is an odd part: heads that cancel show none where all are saturated. None if there is none anywhere: the
    weights then do not depend on the tokens.
    """
    d = pairs.oracle.d
    directions = orthonormal(rng, min(_RAYS + 1, d), d)
    delta, rays = directions[0], directions[-_RAYS:]
    entries = float(np.sqrt(2 * len(rays) * d))
    exact = not pairs.precision.error(1.0)

    def odd(distance: float) -> tuple[float, np.ndarray]:
        """The size of the odd part, or 0 where it is noise or rounding, and itself."""
        x = distance * np.concatenate([rays, -rays])
        values, _ = pairs(x, delta)
        rest = pairs.linear.bias + (x - delta) @ pairs.linear.projection_sum
        part = values[: len(rays)] - values[len(rays) :]
        size = float(np.linalg.norm(part))
        answers = float(np.linalg.norm(values) + np.linalg.norm(rest))
        # differences that noise alone makes, several times over
        noise = _LOUD * entries * replace(pairs, size=answers / entries).value_noise
        return (size if size > max(noise, _ROUNDING * answers) else 0.0), part

    def smooth(distance: float) -> float:
        """The same, also 0 where a tiny move changes all: heads that cancel may leave rounding alone."""
        size, part = odd(distance)
        if size and exact and np.linalg.norm(odd((1 + _MOVE) * distance)[1] - part) > size / 2:
            return 0.0
        return size

    powers = [sign * power for power in range(_DOUBLINGS) for sign in (1, -1)][1:]
    seen = ((2.0**power, size) for power in powers if (size := smooth(2.0**power)))
    distance, here = next(seen, (1.0, 0.0))
    if not here:
        return None
    factor = 0.5 if odd(2 * distance)[0] < 2 * _BENT * here else 2.0
    for _ in range(_DOUBLINGS):
        there, _ = odd(distance * factor)
        near, far = (there, here) if factor < 1 else (here, there)
        # beyond where heads saturate, those that cancel leave less than nearer by
        if not there or (far < 2 * _BENT * near) != (factor < 1):
            return float(np.sqrt(distance if factor > 1 else distance * factor))
        distance, here = distance * factor, there
    return None


def rank_of_values(pairs: TwoTokens, scale: float, rng: np.random.Generator) -> int:
    """The rank of values of g at random points: the number of heads, if their v_i are independent.

    Values of g are combinations of v_1, ..., v_m, so at most d heads can be told apart. Values are added until there
    are at least four more than the rank, or more than 2 d + 8. A singular value counts if it is above 1e-10 times the
    largest, and above the noise.
    """
    d = pairs.oracle.d
    delta = scale * orthonormal(rng, 1, d)[0]
    values = np.empty((0, d))
    while True:
        x = 2 * scale / np.sqrt(d) * rng.standard_normal((max(6, len(values) // 2), d))
        values = np.concatenate([values, *pairs(x, delta)])
        singular = np.linalg.svd(values, compute_uv=False)
        noise = _COUNTED * pairs.value_noise * (np.sqrt(len(values)) + np.sqrt(d))
        rank = int(np.sum(singular > max(_GAP * singular[0], noise)))
        if rank <= len(values) - 4 or len(values) > 2 * d + 8:
            return rank


def orthonormal(rng: np.random.Generator, n: int, d: int) -> Float[np.ndarray, "n d"]:
    """`n` random orthonormal directions."""
    return np.linalg.qr(rng.standard_normal((d, n)))[0].T
