"""Sequences of equal tokens but one: they show the heads' number, and the length of tokens at which heads differ.

Derived here. In a sequence of tokens y, one of them moved by tau delta, row s is b + y Wbar + tau sum_i a_i(s) delta W_i,
where a_i(s) is the weight of the moved token in head i. So answers have the rank of the heads.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from attention import AnswerPrecision, ValueOracle
from upper.value_queries.queries import LinearPart, orthonormal

# Rows of a query that counts heads: three times the most heads that were tried, 16.
_ROWS = 48
# The moved token differs by this share of its length: with 0.4, one of 8 heads is not found from the first start.
STEP = 0.1
# A singular value counts above this share of the outputs. Measured at 16 heads: 1e-5 against 1e-14. Coarse answers
# raise it to so many times their error.
_RANK, _ERRORS = 1e-11, 30.0
# The shortest tokens that have this share of the best smallest singular value. 0.1 gives tokens at which one of 30
# layers saturates; at 0.01 the equations for W have conditions of 30 to 4000, and W is right to 2e-12.
_SHARE = 0.01
# Lengths are powers of two from the root of d; the first are asked at once, and then one at a time, at most so far.
_POWERS, _FARTHEST = range(-2, 3), 12


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
    def relative_error(self) -> float:
        """The error of an answer to tokens of unit variance, relative to its size."""
        size = max(self.precision.size, np.finfo(float).tiny)
        return self.precision.error(size) / size

    def attended(self, length: int) -> Int[np.ndarray, "k k"]:
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
    x = rng.standard_normal((_ROWS, equal.oracle.dim))
    answers = equal.oracle.ask(np.array([x, np.concatenate([x[:-1][::-1], x[-1:]])]))[:, -1]
    error = equal.precision.error(float(np.sqrt(np.mean(answers**2))))
    least = max(_ERRORS * error, np.sqrt(_RANK) * float(np.abs(answers).max()))
    return bool(np.abs(answers[1] - answers[0]).max() > least)


def count_heads(equal: EqualTokens, rng: np.random.Generator) -> Counted | None:
    """The rank of the answers less those of equal weights, at lengths that are doubled until it is clear; or None.

    About 5 to 8 queries.
    """
    d = equal.oracle.dim
    y, delta = orthonormal(rng, 2, d)
    total = delta @ equal.linear.projection_sum
    size = max(float(np.linalg.norm(total)), np.finfo(float).tiny)
    seen = equal.attended(_ROWS)
    alike = seen[:, :1] / seen.sum(axis=1, keepdims=True)
    singular: dict[int, np.ndarray] = {}
    least: dict[int, float] = {}

    def ask(power: int) -> None:
        length = np.sqrt(d) * 2.0**power
        answers = equal.moved(length * y, STEP * length * delta[None], np.zeros(1, dtype=int), _ROWS)[0]
        singular[power] = np.linalg.svd(answers / (STEP * length) - alike * total, compute_uv=False) / size
        error = equal.error(length * y) * np.sqrt(answers.size) / (STEP * length * size)
        least[power] = max(_RANK, _ERRORS * error)

    for power in _POWERS:
        ask(power)
    while True:
        heads = max(int(np.sum(values > least[power])) for power, values in singular.items())
        last = {power: float(values[max(heads, 1) - 1]) for power, values in singular.items()}
        best = max(last, key=lambda power: last[power])
        longest, shortest = max(last), min(last)
        if heads and best == longest < _FARTHEST and last[best] > 2 * last[best - 1]:
            ask(best + 1)
        elif (not heads or best == shortest) and -_FARTHEST < shortest:
            ask(shortest - 1)
        else:
            break
        if not heads and longest < _FARTHEST:
            ask(longest + 1)
    if not heads:
        return None
    power = min(power for power in last if last[power] > _SHARE * last[best])
    return Counted(heads, float(np.sqrt(d)) * 2.0**power, last[power])
