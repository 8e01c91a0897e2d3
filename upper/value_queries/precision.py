"""How exact the answers to value queries are, found from answers that exact ones would determine."""

import numpy as np

from attention import AnswerPrecision, ValueOracle

__all__ = ["measure_precision"]

# Entries on which an error is measured, and lengths of tokens: powers of the factor. Longer ones are asked only where
# noise hides the rounding of shorter ones, because logits in float16 overflow.
_ENTRIES, _FACTOR, _LENGTHS = 48, 16.0, 4
# An error is noise where it is so many times what rounding makes it.
_NOISE = 3.0
# Short tokens, down to this power of the factor, and how many errors an answer must be to count.
_SHORT, _SHORTEST, _SEEN = 8, 3.0, 100.0
_TINY = 1e-300


def measure_precision(
    oracle: ValueOracle, rng: np.random.Generator, *, noise: float | None, accuracy: float | None
) -> AnswerPrecision:
    """The noise and the accuracy of the answers; what is given is not measured.

    Equal tokens get answers that are affine in them, F(x) + F(y) = F(x + y) + F(0), whatever the layer is. What is left
    has twice the standard deviation of the error of an answer, with all rounding of intermediate numbers. Error that
    grows with the tokens is rounding; error that does not is noise, or rounding to decimals. About 30 queries, or
    300 / d.
    """
    d, k = oracle.d, oracle.k or 2
    draws = -(-_ENTRIES // d)
    query = rng.standard_normal((1, k, d))
    first = oracle.ask(query)
    repeatable = bool(np.array_equal(first, oracle.ask(query)))
    if noise is not None and accuracy is not None:
        return AnswerPrecision(noise, accuracy, repeatable)
    zero = oracle.ask(np.zeros((1, k, d)))[0, -1]
    errors: list[float] = []
    sizes: list[float] = []
    for power in range(_LENGTHS):
        x, y = _FACTOR**power * rng.standard_normal((2, draws, d))
        rows = np.concatenate([x, y, x + y])
        answers = oracle.ask(np.repeat(rows[:, None], k, axis=1))[:, -1]
        # the tokens of a layer whose heads cancel on equal ones are told apart
        other = oracle.ask(_FACTOR**power * rng.standard_normal((1, k, d)))[0]
        sizes.append(float(np.sqrt(max(np.mean(answers**2), np.mean(other**2)))))
        left = answers[:draws] + answers[draws : 2 * draws] - answers[2 * draws :] - zero
        errors.append(float(np.sqrt(np.mean(left**2))) / 2)
        if power and errors[-1] > _NOISE * errors[-2]:
            break
    # where heads cancel, their outputs show on tokens too short to saturate them, and the rounding is that of the heads
    lengths = _FACTOR ** -np.linspace(0.0, _SHORTEST, _SHORT)
    moved = oracle.ask(lengths[:, None, None] * rng.standard_normal((_SHORT, k, d)))[:, -1] - zero
    moved = np.sqrt(np.mean(moved**2, axis=1))
    heads = float(np.max(moved / lengths, where=moved > _SEEN * errors[0], initial=0.0))
    sizes = [max(size, heads * _FACTOR**power) for power, size in enumerate(sizes)]
    if accuracy is None:
        accuracy = min(error / max(size, _TINY) for error, size in zip(errors, sizes, strict=True))
    if noise is None:
        noise = errors[0] if errors[0] > _NOISE * accuracy * sizes[0] else 0.0
    return AnswerPrecision(noise, accuracy, repeatable, sizes[0])
