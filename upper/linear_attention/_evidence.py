"""Which examples say something new: what reproduced labels prove when examples repeat themselves."""

from typing import Literal

import numpy as np
from jaxtyping import Float

from upper.linear_attention.features import blocks, pair_products

__all__ = ["IndependentQueries"]

_DIGITS = 9  # of Gram matrices that count as equal; permuted tokens agree to sixteen


class IndependentQueries:
    """Counts the linearly independent queries of every context, contexts that have the same features once.

    A context is all that the rows of an example share in their features: the Gram matrix, and the row mean where that
    is one. Tokens in another order give the same context, and so do tokens of the other sign. In one context the
    features are linear in the query, so that only independent queries say something new; those of different contexts
    count each. If coefficients that `rank` rows determine reproduce more rows than that, nothing made the others fit
    but that the target is of the class.

    Parameters
    ----------
    kind : {"plain", "aug", "cent"}
        The set of features.
    enough : int
        Where counting may stop.
    """

    def __init__(self, kind: Literal["plain", "aug", "cent"], enough: int) -> None:
        self.kind, self.enough = kind, enough
        self.count = 0
        self._queries: dict[bytes, np.ndarray] = {}

    def add(self, x: Float[np.ndarray, "n k d"]) -> None:
        """Count the queries of more examples, until there are enough."""
        n, k, d = x.shape
        step = max(1, self.enough // min(k, d))
        for part in blocks(n, max(1, (1 << 23) // step)):
            if self.count >= self.enough:
                return
            self._add(x[part])

    def _add(self, x: np.ndarray) -> None:
        size = np.linalg.norm(x, axis=(1, 2))
        x, size = x[size > 0], size[size > 0]  # zero tokens have no features
        unit = x / size[:, None, None]
        mean = unit.mean(axis=1)
        if self.kind != "plain":
            unit, mean = (_sign(mean)[:, None, None] * unit), _sign(mean)[:, None] * mean
        gram = pair_products(unit - mean[:, None] if self.kind == "cent" else unit)
        shared = gram if self.kind == "plain" else np.concatenate([gram, mean], axis=1)
        # the same tokens at another scale are other features
        keys = np.round(np.column_stack([shared, np.log(size)]), _DIGITS) + 0.0
        constant = np.zeros((*unit.shape[:2], 1))
        if self.kind != "plain":
            constant += np.linalg.norm(mean, axis=1)[:, None, None]
        for key, queries in zip(keys, np.concatenate([unit, constant], axis=2), strict=True):
            before = self._queries.get(key.tobytes())
            known = 0 if before is None else len(before)
            stacked = queries if before is None else np.concatenate([before, queries])
            _, values, directions = np.linalg.svd(stacked, full_matrices=False)
            rank = int(np.sum(values > 10.0**-_DIGITS * values[0]))
            self._queries[key.tobytes()] = directions[:rank]
            self.count += rank - known


def _sign(mean: np.ndarray) -> np.ndarray:
    """The sign of the first entry of each mean that is not zero; 1 for zero means."""
    seen = np.abs(mean) > 10.0**-_DIGITS
    first = np.take_along_axis(mean, np.argmax(seen, axis=1)[:, None], axis=1)[:, 0]
    return np.where(seen.any(axis=1) & (first < 0), -1.0, 1.0)
