"""All secrets of a family: the subsets of l coordinates, numbered."""

import sys
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import chain, combinations
from math import comb, log2

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from attention.inputs import Rng
from attention.memory import require_memory
from attention.validation import count, random_generator

__all__ = ["SecretSet"]

# Exact integers beyond so many binary digits take seconds a step.
_MOST_DIGITS = 2**20
# Tables of all secrets: N l numbers. A scan of more than these would not end in an afternoon anyway.
_MOST_SECRETS = 20_000_000


@dataclass(frozen=True)
class SecretSet:
    """The C(d - first, l) sets of l coordinates from `first` to d - 1, numbered in lexicographic order.

    Parameters
    ----------
    dim : int
        The number d of coordinates of a token.
    bits : int
        The number l of coordinates in a secret.
    first : int
        The first coordinate a secret may hold: those before it are the gate and the like.

    Raises
    ------
    ValueError
        If there are fewer than l coordinates to choose from.

    Notes
    -----
    `rank` and `unrank` take O(l log d) steps of exact integers; the tables take N l or N d numbers and are made when
    they are first asked for.

    Examples
    --------
    >>> secrets = SecretSet(dim=5, bits=2)
    >>> len(secrets), secrets.table[:3].tolist(), secrets.unrank(5).tolist(), secrets.rank([3, 4])
    (6, [[1, 2], [1, 3], [1, 4]], [3, 4], 5)
    """

    dim: int
    bits: int
    first: int = 1

    def __post_init__(self) -> None:
        for name, least in (("dim", 1), ("bits", 1), ("first", 0)):
            object.__setattr__(self, name, count(name, getattr(self, name), least=least))
        if self.bits > self.dim - self.first:
            raise ValueError(
                f"bits is {self.bits} and dim {self.dim}: at most {max(self.dim - self.first, 0)} of the coordinates "
                f"from {self.first} on can be secret."
            )

    @cached_property
    def size(self) -> int:
        """N, of at most a million binary digits.

        Raises
        ------
        ValueError
            If it has more.
        """
        return _choices(self.dim - self.first, self.bits)

    def __len__(self) -> int:
        if self.size > sys.maxsize:
            raise ValueError(
                f"There are about {Decimal(self.size):.2e} secrets, more than `len` can give: ask for `size`."
            )
        return self.size

    def draw(self, rng: Rng = None) -> int:
        """The number of a secret drawn at random, all alike; `rng` as for `numpy.random.default_rng`."""
        generator = random_generator(rng)
        if self.size <= np.iinfo(np.int64).max:
            return int(generator.integers(self.size))
        # 64 bits more than there are numbers: what is left over favours none of them by more than 2^-64
        return int.from_bytes(generator.bytes(self.size.bit_length() // 8 + 9), "little") % self.size

    def indicator(self, number: int) -> Float[np.ndarray, " N"]:
        """One for the secret of that number and zero for all others: the correlations of orthonormal targets.

        Raises
        ------
        ValueError
            If there is none, or there are more secrets than a table holds.
        """
        found = np.zeros(self._listed())
        found[self.checked_number(number)] = 1.0
        return found

    @cached_property
    def table(self) -> Int[np.ndarray, "N l"]:
        """Every secret, its coordinates in increasing order.

        Raises
        ------
        ValueError
            If there are more than twenty million.
        """
        size = self._listed()
        require_memory(
            f"The table of {size} secrets", 8 * size * self.bits, advice="take fewer bits or coordinates"
        )
        flat = chain.from_iterable(combinations(range(self.first, self.dim), self.bits))
        return np.fromiter(
            flat, dtype=np.int16 if self.dim < 2**15 else np.int32, count=size * self.bits
        ).reshape(-1, self.bits)

    @cached_property
    def members(self) -> Bool[np.ndarray, "N d"]:
        """Which coordinates are in which secret."""
        size = self._listed()
        require_memory(
            f"The table of {size} secrets",
            size * (self.dim + 16 * self.bits),
            advice="take fewer bits or coordinates",
        )
        held = np.zeros((size, self.dim), dtype=bool)
        np.put_along_axis(held, self.table.astype(np.int64), True, axis=1)
        return held

    def overlaps(self, secret: ArrayLike) -> Int[np.ndarray, " N"]:
        """How many coordinates each secret shares with the one given; O(N l)."""
        chosen = np.zeros(self.dim, dtype=np.int64)
        chosen[self._checked(secret)] = 1
        return chosen[self.table].sum(axis=1)

    def rank(self, secret: ArrayLike) -> int:
        """The number of a secret.

        Raises
        ------
        ValueError
            If it is not a set of l of the coordinates.
        """
        places = np.sort(self._checked(secret)) - self.first
        rank, start, free = 0, 0, self.dim - self.first
        for left, place in zip(range(self.bits - 1, -1, -1), places, strict=True):
            rank += comb(free - start, left + 1) - comb(free - int(place), left + 1)
            start = int(place) + 1
        return rank

    def unrank(self, number: int) -> Int[np.ndarray, " l"]:
        """The secret of that number.

        Raises
        ------
        ValueError
            If there is none.
        """
        number = self.checked_number(number)
        if self.dim > np.iinfo(np.int64).max:
            raise ValueError(
                f"dim is {_shown(self.dim)}: at most 2^63 - 1 coordinates are allowed for a secret."
            )
        chosen: list[int] = []
        start, free = 0, self.dim - self.first
        for size in range(self.bits, 0, -1):
            # sets of the coordinates from `start` on whose first one is below start + skipped come before
            rest = comb(free - start, size)
            low, high = 0, free - start - size
            while low < high:
                middle = (low + high + 1) // 2
                low, high = (
                    (middle, high)
                    if rest - comb(free - start - middle, size) <= number
                    else (low, middle - 1)
                )
            number -= rest - comb(free - start - low, size)
            chosen.append(start + low + self.first)
            start += low + 1
        return np.array(chosen, dtype=np.int64)

    def checked_number(self, number: int) -> int:
        """The number itself.

        Raises
        ------
        ValueError
            If no secret has it.
        """
        number = count("number", number, least=0)
        if number >= self.size:
            raise ValueError(
                f"number is {_shown(number)}: there are {_shown(self.size)} secrets, so a number from 0 to "
                f"{_shown(self.size - 1)} is needed."
            )
        return number

    def _listed(self) -> int:
        if self.size > _MOST_SECRETS:
            raise ValueError(
                f"There are {_shown(self.size)} secrets: tables hold at most {_MOST_SECRETS}; take fewer bits or "
                "coordinates."
            )
        return self.size

    def _checked(self, secret: ArrayLike) -> np.ndarray:
        chosen = np.asarray(secret)
        if (
            chosen.shape != (self.bits,)
            or chosen.dtype.kind not in "iu"
            or len(np.unique(chosen)) != self.bits
            or np.any((chosen < self.first) | (chosen >= self.dim))
        ):
            raise ValueError(
                f"The secret is {secret!r}: {self.bits} distinct coordinates from {self.first} to {self.dim - 1} are "
                "needed."
            )
        return chosen.astype(np.int64)


def _choices(free: int, chosen: int) -> int:
    """C(free, chosen), unless it has more digits than are computed with."""
    fewer = min(chosen, free - chosen)
    if fewer and fewer * (log2(free) - log2(fewer) + 1.5) > _MOST_DIGITS:
        raise ValueError(
            f"The secrets of {_shown(chosen)} bits among {_shown(free)} coordinates are too many to count: take fewer "
            "bits or coordinates."
        )
    return comb(free, chosen)


def _shown(number: int) -> str:
    """A whole number in words that stay short, however large it is."""
    return str(number) if abs(number) < 10**30 else f"{Decimal(number):.3e}"
