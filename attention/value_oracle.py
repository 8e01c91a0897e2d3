"""The value oracle: outputs of an unknown layer on token matrices that the learner chooses; it counts them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from attention.block import Block
from attention.feed_forward import FeedForward
from attention.inputs import Rng
from attention.layer import Layer
from attention.validation import (
    NonNegativeFloat,
    PositiveInt,
    checked,
    random_generator,
    require_array,
)


@dataclass(frozen=True)
@checked
class AnswerPrecision:
    """How exact the answers to value queries are: an entry is off by its noise, and by a share of the answer's size."""

    #: the standard deviation of an error that does not depend on the size of the answer
    noise: NonNegativeFloat = 0.0
    accuracy: NonNegativeFloat = 0.0  #: the standard deviation of rounding, over the size of the answer
    repeatable: bool = True  #: whether a query has the same answer each time, so that averages do not help
    size: NonNegativeFloat = 0.0  #: of the answers to tokens of unit entries; 0 if it was not measured

    def error(self, size: float) -> float:
        """The standard deviation of the error of an entry of an answer whose entries are as large as `size`."""
        return float(np.hypot(self.noise, self.accuracy * size))

    @property
    def coarse(self) -> bool:
        """Whether answers to tokens of unit entries have so large errors that they are not those of float64."""
        return self.error(1.0) > 1e-10

    def __str__(self) -> str:
        """The two numbers, and whether answers repeat."""
        again = "repeatable" if self.repeatable else "not repeatable"
        return f"relative rounding {self.accuracy:.1g}, noise {self.noise:.1g}, {again}"


class QueriesExhaustedError(ValueError):
    """A learner asked more queries than the budget allows."""


class ValueOracle:
    """Answers value queries, F(X) at an X of the learner's choice, and counts them.

    Parameters
    ----------
    target : AttentionLayer, RotaryLayer, Block or FeedForward
        The layer, block or network that answers. For any other function of token matrices see `from_callable`.
    tokens : int, optional
        The number of tokens of a query; by default, queries may have any number.
    noise : float, optional
        Standard deviation of independent Gaussian noise on every entry of an answer.
    budget : int, optional
        The largest number of token matrices that the oracle answers.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7); the noise is drawn from it.

    Notes
    -----
    A query is one token matrix, so `drawn` is the number that a query-complexity statement counts.

    Examples
    --------
    >>> import numpy as np
    >>> from attention import ValueOracle, make_nice_layer
    >>> oracle = ValueOracle(make_nice_layer(heads=2, dim=4, rng=0), budget=10)
    >>> oracle.ask(np.ones((3, 2, 4))).shape, oracle.drawn, oracle.tokens_asked
    ((3, 2, 4), 3, 6)
    """

    @checked
    def __init__(
        self,
        target: Layer | Block | FeedForward,
        *,
        tokens: PositiveInt | None = None,
        noise: NonNegativeFloat = 0.0,
        budget: PositiveInt | None = None,
        rng: Rng = None,
    ) -> None:
        self._prepare(target, tokens, target.dim, noise, budget, rng)

    @classmethod
    @checked
    def from_callable(
        cls,
        f: Callable[[np.ndarray], Any],
        tokens: PositiveInt | None,
        dim: PositiveInt,
        *,
        noise: NonNegativeFloat = 0.0,
        budget: PositiveInt | None = None,
        rng: Rng = None,
    ) -> "ValueOracle":
        """An oracle over any function that maps arrays (n, k, d) to outputs of the same shape, k = `tokens` or any k.

        What the function raises becomes a ValueError that says so.
        """
        oracle = cls.__new__(cls)
        oracle._prepare(partial(_answer, f), tokens, dim, noise, budget, rng)
        return oracle

    def _prepare(
        self, target: Any, tokens: int | None, dim: int, noise: float, budget: int | None, rng: Rng
    ) -> None:
        self._target, self.noise, self.budget = target, noise, budget
        self.tokens, self.dim = tokens, dim
        self._rng = random_generator(rng)
        self.longest: float | None = None  #: the length of the longest token it answers; None without a bound
        self.drawn = 0  #: token matrices asked so far
        self.tokens_asked = 0  #: tokens in them

    @property
    def remaining(self) -> int | None:
        """How many queries are left; None if there is no budget."""
        return None if self.budget is None else self.budget - self.drawn

    def limited(self, budget: int) -> "ValueOracle":
        """The same oracle, limited to `budget` more queries; they count here, too."""
        oracle = ValueOracle.__new__(ValueOracle)
        oracle._prepare(self.ask, self.tokens, self.dim, 0.0, budget, None)
        oracle.longest = self.longest
        return oracle

    def ask(self, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k d"]:
        """The outputs on the token matrices `x`; each counts as a query.

        A ValueError if `x` or the answers have a wrong shape, or an entry is not finite. A QueriesExhaustedError if
        the budget has fewer queries left; then no query is asked.
        """
        x = np.asarray(x, dtype=np.float64)
        if x.ndim != 3 or x.shape[2] != self.dim or x.shape[1] != (self.tokens or max(x.shape[1], 1)):
            raise ValueError(
                f"x has shape {x.shape}: (n, {self.tokens or 'k'}, {self.dim}) is needed, that of token matrices."
            )
        require_array("x", x)
        if self.remaining is not None and len(x) > self.remaining:
            raise QueriesExhaustedError(
                f"{len(x)} queries were asked and {self.remaining} of a budget of {self.budget} are left: give "
                "a larger budget."
            )
        answers = np.asarray(self._target(x))
        self.drawn += len(x)
        self.tokens_asked += x.shape[0] * x.shape[1]
        require_array("The answer", answers, x.shape)
        answers = answers.astype(np.float64)
        return answers + self.noise * self._rng.standard_normal(x.shape) if self.noise else answers


class DerivedOracle(ValueOracle):
    """Another function as an oracle: `_derived` computes its answers from those of an oracle, whose budget counts."""

    each: int = 1  #: queries of the oracle for one of this

    def __init__(self, oracle: ValueOracle) -> None:
        self._oracle = oracle
        self._prepare(self._derived, oracle.tokens, oracle.dim, 0.0, None, None)
        self.longest = oracle.longest

    @property
    def remaining(self) -> int | None:
        """How many queries are left; None if there is no budget."""
        return None if self._oracle.remaining is None else self._oracle.remaining // self.each

    def _derived(self, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k d"]:
        raise NotImplementedError


def _answer(f: Callable[[np.ndarray], Any], x: np.ndarray) -> Any:
    try:
        return f(x)
    except Exception as error:
        raise ValueError(
            f"The function that is asked raised {type(error).__name__} on an array of shape {x.shape}: {error}"
        ) from error
