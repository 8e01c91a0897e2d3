"""What the answers of an oracle are worth: how exact they are, whether a mask hides tokens, what counts as equal."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from attention import AnswerPrecision, ValueOracle

__all__ = [
    "LastRows",
    "Tolerances",
    "is_causal",
    "measure_precision",
]


@dataclass(frozen=True)
class Tolerances:
    """What counts as equal: what the learner's own arithmetic in float64 makes unequal, or a multiple of the accuracy.

    The defaults are for exact answers, and were measured on the layers of the benchmarks. A larger one merges what
    differs, such as two heads. A smaller one takes rounding for a difference.
    """

    #: a change of values along a circle, relative to the largest value
    change: float = 3e-12
    #: a step and its shape, relative to its height and to the logits that cancel in it
    shape: float = 1e-11
    #: values of heads in one direction, relative to their size at tokens of unit length
    values: float = 1e-14
    #: sums of projections and of slopes, relative to the largest
    sums: float = 1e-7
    #: slopes that lie in the span of others: slopes read near one point have half of the digits
    span: float = 1e-6
    #: predictions of a layer on fresh queries, for a success: heads that nearly cancel lose eight digits
    prediction: float = 1e-8

    @classmethod
    def of(cls, precision: AnswerPrecision) -> "Tolerances":
        """The tolerances for answers that are as exact as this."""
        # rounding grows from answers to logits, up to 33 times on 40 modules in float32. A prediction that is off by
        # more than a twentieth is no success, however coarse the answers are
        exact, amplified = cls(), min(100 * precision.accuracy, 0.05)
        return cls(
            change=max(exact.change, amplified),
            shape=max(exact.shape, amplified),
            values=max(exact.values, 10 * precision.accuracy),
            sums=max(exact.sums, amplified),
            span=max(exact.span, amplified),
            prediction=max(exact.prediction, amplified),
        )


@dataclass(frozen=True)
class _Measured:
    """How the precision of answers is measured."""

    entries: int = 48  #: entries of answers on which an error is measured, for an error of a tenth
    #: tokens grow by this factor, so often: longer ones only where noise hides the rounding of shorter ones, because
    #: logits in float16 overflow
    factor: float = 16.0
    lengths: int = 4
    noise: float = 3.0  #: an error is noise where it is so many times what rounding makes it
    #: short tokens, down to this power of the factor, show heads that saturate; an answer counts from so many errors on
    short: int = 8
    shortest: float = 3.0
    seen: float = 100.0
    #: row 1 depends on a later token where it changes by so many errors of an answer, or by this share of it. Long
    #: tokens saturate heads, and the outputs of short ones may vanish in noise, so lengths differ
    dependent: float = 8.0
    rounding: float = 1e-12
    mask_lengths: tuple[float, ...] = (1.0, 2.0**-4, 2.0**-16)


_MEASURED = _Measured()


def measure_precision(
    oracle: ValueOracle, rng: np.random.Generator, *, noise: float | None, accuracy: float | None
) -> AnswerPrecision:
    """The noise and the accuracy of the answers; what is given is not measured.

    Equal tokens get answers that are affine in them, F(x) + F(y) = F(x + y) + F(0), whatever the layer is. What is left
    has twice the standard deviation of the error of an answer, with all rounding of intermediate numbers. Error that
    grows with the tokens is rounding; error that does not is noise, or rounding to decimals. About 30 queries, or
    300 / d.
    """
    d, k, by = oracle.dim, oracle.tokens or 2, _MEASURED
    draws = -(-by.entries // d)
    query = rng.standard_normal((1, k, d))
    first = oracle.ask(query)
    repeatable = bool(np.array_equal(first, oracle.ask(query)))
    if noise is not None and accuracy is not None:
        return AnswerPrecision(noise, accuracy, repeatable)
    zero = oracle.ask(np.zeros((1, k, d)))[0, -1]
    errors: list[float] = []
    sizes: list[float] = []
    for power in range(by.lengths):
        x, y = by.factor**power * rng.standard_normal((2, draws, d))
        rows = np.concatenate([x, y, x + y])
        answers = oracle.ask(np.repeat(rows[:, None], k, axis=1))[:, -1]
        # the tokens of a layer whose heads cancel on equal ones are told apart
        other = oracle.ask(by.factor**power * rng.standard_normal((1, k, d)))[0]
        sizes.append(float(np.sqrt(max(np.mean(answers**2), np.mean(other**2)))))
        left = answers[:draws] + answers[draws : 2 * draws] - answers[2 * draws :] - zero
        errors.append(float(np.sqrt(np.mean(left**2))) / 2)
        if power and errors[-1] > by.noise * errors[-2]:
            break
    # where heads cancel, their outputs show on tokens too short to saturate them, and the rounding is that of the heads
    lengths = by.factor ** -np.linspace(0.0, by.shortest, by.short)
    moved = oracle.ask(lengths[:, None, None] * rng.standard_normal((by.short, k, d)))[:, -1] - zero
    moved = np.sqrt(np.mean(moved**2, axis=1))
    heads = float(np.max(moved / lengths, where=moved > by.seen * errors[0], initial=0.0))
    sizes = [max(size, heads * by.factor**power) for power, size in enumerate(sizes)]
    if accuracy is None:
        least = float(np.finfo(float).tiny)
        accuracy = min(error / max(size, least) for error, size in zip(errors, sizes, strict=True))
    if noise is None:
        noise = errors[0] if errors[0] > by.noise * accuracy * sizes[0] else 0.0
    return AnswerPrecision(noise, accuracy, repeatable, sizes[0])


def is_causal(oracle: ValueOracle, precision: AnswerPrecision, rng: np.random.Generator) -> bool:
    """Whether row 1 depends on no later token, while the last row depends on the first token. At most 9 queries."""
    k, d = oracle.tokens or 2, oracle.dim
    last_depends = False
    for length in _MEASURED.mask_lengths:
        x = length * rng.standard_normal((3, k, d))
        x[1, 0], x[2, 1:] = x[0, 0], x[0, 1:]  # other later tokens; another first token
        answers = oracle.ask(x)
        size = float(np.sqrt(np.mean(answers**2)))
        least = max(_MEASURED.dependent * precision.error(size), _MEASURED.rounding * size)
        if np.abs(answers[1, 0] - answers[0, 0]).max() > least:
            return False
        last_depends |= bool(np.abs(answers[2, -1] - answers[0, -1]).max() > least)
    return last_depends


class LastRows(ValueOracle):
    """The layer without its mask: row a of an answer is the last row of a query in which token a comes last.

    Equal neighbours share one query, so that two different tokens take two.
    """

    def __init__(self, oracle: ValueOracle) -> None:
        self._oracle = oracle
        self._prepare(self._unmasked, oracle.tokens, oracle.dim, 0.0, None, None)

    @property
    def remaining(self) -> int | None:
        """How many queries of two tokens are left."""
        return None if self._oracle.remaining is None else self._oracle.remaining // 2

    def _unmasked(self, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k d"]:
        k = x.shape[1]
        first = _first_copies(x)
        orders = [np.append(np.delete(np.arange(k), a), a) for a in first]
        rows = self._oracle.ask(np.concatenate([x[:, order] for order in orders]))[:, -1]
        rows = rows.reshape(len(first), len(x), -1).swapaxes(0, 1)
        return rows.repeat(np.diff(np.append(first, k)), axis=1)


def _first_copies(x: Float[np.ndarray, "n k d"]) -> np.ndarray:
    """Where the tokens of the queries differ from the token before: the first of each run of equal tokens."""
    differ = np.any(x[:, 1:] != x[:, :-1], axis=(0, 2))
    return np.concatenate([[0], np.flatnonzero(differ) + 1])
