"""Causal layers: they are found by their first row, and asked so that the row of interest comes last and sees all."""

import numpy as np
from jaxtyping import Float

from attention import AnswerPrecision, ValueOracle

__all__ = ["LastRows", "is_causal"]

# Lengths of tokens: long ones saturate heads, and outputs of short ones may vanish in noise.
_LENGTHS = (1.0, 2.0**-4, 2.0**-16)
# A row depends on a token where it changes by so many times its error, or by this share.
_LOUD, _ROUNDING = 8.0, 1e-12


class LastRows(ValueOracle):
    """The layer without its mask: row a of an answer is the last row of a query in which token a comes last.

    Equal neighbours share one query, so that two different tokens take two.
    """

    def __init__(self, oracle: ValueOracle) -> None:
        self._oracle = oracle
        self._prepare(self._unmasked, oracle.k, oracle.d, 0.0, None, None)

    @property
    def remaining(self) -> int | None:
        """How many queries of two tokens are left."""
        return None if self._oracle.remaining is None else self._oracle.remaining // 2

    def _unmasked(self, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k d"]:
        k = x.shape[1]
        differ = np.any(x[:, 1:] != x[:, :-1], axis=(0, 2))
        first = np.concatenate([[0], np.flatnonzero(differ) + 1])
        orders = [np.append(np.delete(np.arange(k), a), a) for a in first]
        rows = self._oracle.ask(np.concatenate([x[:, order] for order in orders]))[:, -1]
        rows = rows.reshape(len(first), len(x), -1).swapaxes(0, 1)
        return rows.repeat(np.diff(np.append(first, k)), axis=1)


def is_causal(oracle: ValueOracle, precision: AnswerPrecision, rng: np.random.Generator) -> bool:
    """Whether row 1 depends on no later token, while the last row depends on the first token. At most 9 queries."""
    k, d = oracle.k or 2, oracle.d
    last_depends = False
    for length in _LENGTHS:
        x = length * rng.standard_normal((3, k, d))
        x[1, 0], x[2, 1:] = x[0, 0], x[0, 1:]  # other later tokens; another first token
        answers = oracle.ask(x)
        size = float(np.sqrt(np.mean(answers**2)))
        least = max(_LOUD * precision.error(size), _ROUNDING * size)
        if np.abs(answers[1, 0] - answers[0, 0]).max() > least:
            return False
        last_depends |= bool(np.abs(answers[2, -1] - answers[0, -1]).max() > least)
    return last_depends
