"""Sequences of equal tokens but one: they show the heads' number, and the length of tokens at which heads differ.

Derived here. In a sequence of tokens y, one of them moved by tau delta, row s is b + y Wbar + tau sum_i a_i(s) v_i with
v_i = delta W_i, where a_i(s) is the weight of the moved token in head i. So answers have the rank of the heads.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from attention import AnswerPrecision, ValueOracle
from upper.value_queries.queries import LinearPart, orthonormal

# What counts as equal: fits of heads end at 3e-16 to 5e-15 of the outputs where they are right, and at 1e-3 where they
# are not; the last singular value of 16 heads is 1e-5 of the outputs, and rounding 1e-14. Coarse answers raise it to so
# many times their error.
_ROUNDING, ERRORS = 1e-11, 30.0
# Lengths of tokens are the root of d times powers of two, up to this one and its inverse.
FARTHEST = 12


@dataclass(frozen=True)
class Design:
    """How long sequences are, and their tokens; the defaults are for answers in float64."""

    #: rows that are read, and places over which movable tokens are spread: four times the most heads that were tried,
    #: and enough that slow frequencies show
    rows: int = 64
    #: tokens move by this share of their length: at 0.2 the fit of the slopes of 8 heads fails in one layer of five
    step: float = 0.1
    #: the shortest tokens that have this share of the best smallest singular value: at 0.1 heads are saturated in one
    #: of 30 layers; at 0.01 W is right to 8e-11 only, in 20 layers of 4 heads, and at 0.03 half of those of 8 heads
    #: take a second attempt
    share: float = 0.02


# In float32, 4 layers of 4 heads: the function is right to 2e-4. With the defaults it is to 1e-3, and two are not read.
_COARSE = Design(32, 0.3, 0.1)


@dataclass(frozen=True)
class EqualTokens:
    """What is asked by sequences of equal tokens, and what their answers are worth."""

    oracle: ValueOracle
    linear: LinearPart  #: b and Wbar
    precision: AnswerPrecision
    causal: bool

    def moved(
        self,
        token: Float[np.ndarray, " d"],
        moves: Float[np.ndarray, "n d"],
        places: Int[np.ndarray, " n"],
        length: int,
    ) -> Float[np.ndarray, "n k d"]:
        """What is added to each row of a sequence of so many equal tokens if that at a place is moved."""
        x = np.broadcast_to(token, (len(moves), length, len(token))).copy()
        x[np.arange(len(moves)), places] += moves
        return self.oracle.ask(x) - self.linear.bias - token @ self.linear.projection_sum

    def error(self, token: Float[np.ndarray, " d"]) -> float:
        """The standard deviation of the error of an entry of these answers."""
        size = self.linear.bias + token @ self.linear.projection_sum
        return self.precision.error(float(np.sqrt(np.mean(size**2))))

    @property
    def design(self) -> Design:
        """How sequences are chosen for answers like these."""
        return _COARSE if self.precision.coarse else Design()

    @property
    def tolerance(self) -> float:
        """What counts as equal, relative to the size of answers to tokens of unit variance."""
        size = max(self.precision.size, np.finfo(float).tiny)
        return max(_ROUNDING, ERRORS * self.precision.error(size) / size)

    def attended(self, length: int) -> Bool[np.ndarray, "k k"]:
        """Which tokens (columns) each row sees."""
        ones = np.ones((length, length), dtype=bool)
        return np.tril(ones) if self.causal else ones


@dataclass(frozen=True)
class Counted:
    """The number of heads, and the length of tokens at which to tell them apart."""

    heads: int
    length: float
    smallest: float  #: the singular value of the last head there, relative to the outputs


def positions_show(equal: EqualTokens, rng: np.random.Generator) -> bool:
    """Whether the last row of a random sequence changes if the tokens before it change places. 2 queries."""
    x = rng.standard_normal((equal.design.rows, equal.oracle.dim))
    answers = equal.oracle.ask(np.array([x, np.concatenate([x[:-1][::-1], x[-1:]])]))[:, -1]
    return bool(np.abs(answers[1] - answers[0]).max() > equal.tolerance * np.abs(answers).max())


def count_heads(equal: EqualTokens, rng: np.random.Generator) -> Counted | None:
    """The rank of the answers less those of equal weights, at lengths that are doubled until it is clear; or None.

    About 5 to 8 queries.
    """
    d = equal.oracle.dim
    y, delta = orthonormal(rng, 2, d)
    total = delta @ equal.linear.projection_sum
    size = max(float(np.linalg.norm(total)), np.finfo(float).tiny)
    rows, step = equal.design.rows, equal.design.step
    seen = equal.attended(rows)
    alike = seen[:, :1] / seen.sum(axis=1, keepdims=True)
    singular: dict[int, np.ndarray] = {}
    least: dict[int, float] = {}

    def ask(power: int) -> None:
        length = np.sqrt(d) * 2.0**power
        answers = equal.moved(length * y, step * length * delta[None], np.zeros(1, dtype=int), rows)[0]
        singular[power] = np.linalg.svd(answers / (step * length) - alike * total, compute_uv=False) / size
        error = equal.error(length * y) * np.sqrt(answers.size) / (step * length * size)
        least[power] = max(_ROUNDING, ERRORS * error)

    for power in range(-2, 3):
        ask(power)
    while True:
        heads = max(int(np.sum(values > least[power])) for power, values in singular.items())
        last = {power: float(values[max(heads, 1) - 1]) for power, values in singular.items()}
        best = max(last, key=lambda power: last[power])
        longest, shortest = max(last), min(last)
        if heads and best == longest < FARTHEST and last[best] > 2 * last[best - 1]:
            ask(best + 1)
        elif (not heads or best == shortest) and shortest > -FARTHEST:
            ask(shortest - 1)
        else:
            break
        if not heads and longest < FARTHEST:
            ask(longest + 1)
    if not heads:
        return None
    power = min(power for power in last if last[power] > equal.design.share * last[best])
    return Counted(heads, float(np.sqrt(d)) * 2.0**power, last[power])
