"""Which secrets a law can draw, numbered, and cut into two halves."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from lwe.distributions import FixedWeight
from lwe.parameters import LWEParameters

__all__ = ["Half", "ProductHalf", "SecretSpace", "SparseHalf", "secret_space"]

_MOST_VALUES = 1 << 20


@dataclass(frozen=True, eq=False)
class ProductHalf:
    """Vectors of independent entries, each one of `values`; the last entry counts fastest."""

    values: Int[np.ndarray, " v"]
    size: int

    @property
    def number(self) -> int:
        """v^size."""
        return int(len(self.values) ** self.size)

    def vectors(self, indices: Int[np.ndarray, " N"]) -> Int[np.ndarray, "N size"]:
        """Those of these numbers."""
        found = np.empty((len(indices), self.size), dtype=np.int64)
        for column in range(self.size - 1, -1, -1):
            indices, digit = np.divmod(indices, len(self.values))
            found[:, column] = self.values[digit]
        return found


@dataclass(frozen=True, eq=False)
class SparseHalf:
    """Vectors with exactly `weight` entries that are -1 or 1 (mod 2: that are 1), the others 0."""

    size: int
    weight: int
    signs: bool = True

    @property
    def number(self) -> int:
        """C(size, weight) places times the signs."""
        return math.comb(self.size, self.weight) << (self.weight if self.signs else 0)

    def vectors(self, indices: Int[np.ndarray, " N"]) -> Int[np.ndarray, "N size"]:
        """Those of these numbers: the places by the combinatorial number system, the signs by bits."""
        found = np.zeros((len(indices), self.size), dtype=np.int64)
        signs = np.zeros_like(indices)
        if self.signs:
            indices, signs = np.divmod(indices, 1 << self.weight)
        every = np.arange(len(indices))
        for place in range(self.weight, 0, -1):
            ways = np.array([min(math.comb(one, place), 1 << 62) for one in range(self.size + 1)])
            chosen = np.searchsorted(ways, indices, side="right") - 1
            indices = indices - ways[chosen]
            found[every, chosen] = 1 - 2 * ((signs >> (place - 1)) & 1)
        return found


Half = ProductHalf | SparseHalf


@dataclass(frozen=True, eq=False)
class SecretSpace:
    """All secrets of a law."""

    number: int  #: how many
    #: A bound on the probability that the secret is not among them, because the tails of the law are cut off
    missed: float
    #: maps a size m to pairs of halves on the first n - m and the last m entries; the pairs together give every
    #: secret once
    split: Callable[[int], list[tuple[Half, Half]]]

    def __str__(self) -> str:
        return f"{self.number:.4g}" if self.number < 1 << 53 else f"2^{math.log2(self.number):.1f}"


def secret_space(parameters: LWEParameters, *, missed: float = 1e-3) -> SecretSpace | None:
    """The secrets of the parameters' law; None if their entries have more than 2^20 values.

    Tail values are left out as long as the probability that a secret has one of them is at most `missed`.
    """
    n, q, law = parameters.n, parameters.q, parameters.Xs
    if isinstance(law, FixedWeight):  # all signs: a superset where their numbers are fixed too
        weight, signs = law.total, q > 2 and law.counts[1] > 0

        def halves(size: int) -> list[tuple[Half, Half]]:
            weights = range(max(0, weight - size), min(weight, n - size) + 1)
            return [
                (SparseHalf(n - size, one, signs), SparseHalf(size, weight - one, signs)) for one in weights
            ]

        return SecretSpace(SparseHalf(n, weight, signs).number, 0.0, halves)
    if law.is_uniform(q) and q > _MOST_VALUES:
        return None
    try:
        values, weights = law.support(q)
    except ValueError:  # more values than are listed
        return None
    order = np.argsort(-weights, kind="stable")
    left_out = 1 - np.cumsum(weights[order])
    kept = order[: 1 + int(np.argmax(left_out <= missed / n))]
    if len(kept) > _MOST_VALUES:
        return None
    values = values[kept]
    lost = max(0.0, n * float(left_out[len(kept) - 1]))
    return SecretSpace(
        int(len(values) ** n),
        lost if lost > 1e-12 else 0.0,
        lambda size: [(ProductHalf(values, n - size), ProductHalf(values, size))],
    )
