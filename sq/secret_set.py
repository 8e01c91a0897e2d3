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
from attention.validation import NonNegativeInt, PositiveInt, checked, count, random_generator

# Exact integers beyond so many binary digits take seconds a step.
_MOST_DIGITS = 2**20
# The largest table of all secrets has N l numbers. A scan of more secrets would take longer than an afternoon.
_MOST_SECRETS = 20_000_000


@dataclass(frozen=True)
@checked
class SecretSet:
    """The C(d - first, l) sets of l coordinates from `first` to d - 1, numbered in lexicographic order.

    ValueError if there are fewer than l coordinates to choose from.

    Notes
    -----
    `rank` and `unrank` take O(l log d) steps of exact integers. The tables take N l or N d numbers and are made at the
    first use.

    Examples
    --------
    >>> secrets = SecretSet(dim=5, bits=2)
    >>> len(secrets), secrets.table[:3].tolist(), secrets.unrank(5).tolist(), secrets.rank([3, 4])
    (6, [[1, 2], [1, 3], [1, 4]], [3, 4], 5)
    """

    dim: PositiveInt  #: the number d of coordinates of a token
    bits: PositiveInt  #: the number l of coordinates in a secret
    #: the first coordinate that a secret may contain; those before it have other roles, such as the gate
    first: NonNegativeInt = 1

    def __post_init__(self) -> None:
        if self.bits > self.dim - self.first:
            raise ValueError(
                f"bits is {self.bits} and dim {self.dim}: at most {max(self.dim - self.first, 0)} of the coordinates "
                f"from {self.first} on can be secret."
            )

    @cached_property
    def size(self) -> int:
        """N, of at most a million binary digits. ValueError if it has more."""
        return _choices(self.dim - self.first, self.bits)

    @property
    def formula(self) -> str:
        """N as a formula in d."""
        return f"C(d-{self.first}, {self.bits})"

    def __len__(self) -> int:
        if self.size > sys.maxsize:
            raise ValueError(
                f"There are about {Decimal(self.size):.2e} secrets, more than `len` can give: ask for `size`."
            )
        return self.size

    def draw(self, rng: Rng = None) -> int:
        """The number of a uniformly drawn secret; `rng` as for `numpy.random.default_rng`."""
        generator = random_generator(rng)
        if self.size <= np.iinfo(np.int64).max:
            return int(generator.integers(self.size))
        # 64 bits more than N has: the remainder favours no number by more than 2^-64
        return int.from_bytes(generator.bytes(self.size.bit_length() // 8 + 9), "little") % self.size

    def indicator(self, number: int) -> Float[np.ndarray, " N"]:
        """One for the secret of that number and zero for all others: the correlations of orthonormal targets.

        ValueError if no secret has that number, or there are more secrets than a table can hold.
        """
        found = np.zeros(self._listed())
        found[self.checked_number(number)] = 1.0
        return found

    @cached_property
    def table(self) -> Int[np.ndarray, "N l"]:
        """Every secret, its coordinates in increasing order.

        ValueError if there are more than twenty million.
        """
        size = self._listed(8 * self.bits)
        flat = chain.from_iterable(combinations(range(self.first, self.dim), self.bits))
        return np.fromiter(
            flat, dtype=np.int16 if self.dim < 2**15 else np.int32, count=size * self.bits
        ).reshape(-1, self.bits)

    @cached_property
    def members(self) -> Bool[np.ndarray, "N d"]:
        """Which coordinates are in which secret."""
        size = self._listed(self.dim + 16 * self.bits)
        held = np.zeros((size, self.dim), dtype=bool)
        np.put_along_axis(held, self.table[:, -self.bits :].astype(np.int64), True, axis=1)
        return held

    def overlaps(self, secret: ArrayLike) -> Int[np.ndarray, " N"]:
        """How many coordinates each secret shares with the given one; O(N l)."""
        chosen = np.zeros(self.dim, dtype=np.int64)
        chosen[self._checked(secret)[-self.bits :]] = 1
        return chosen[self.table[:, -self.bits :]].sum(axis=1)

    def rank(self, secret: ArrayLike) -> int:
        """The number of a secret. ValueError if it is not a set of l allowed coordinates."""
        places = np.sort(self._checked(secret)) - self.first
        rank, start, free = 0, 0, self.dim - self.first
        for left, place in zip(range(self.bits - 1, -1, -1), places, strict=True):
            rank += comb(free - start, left + 1) - comb(free - int(place), left + 1)
            start = int(place) + 1
        return rank

    def unrank(self, number: int) -> Int[np.ndarray, " l"]:
        """The secret of that number. ValueError if there is none."""
        number = self.checked_number(number)
        if self.dim > np.iinfo(np.int64).max:
            raise ValueError(
                f"dim is {_shown(self.dim)}: at most 2^63 - 1 coordinates are allowed for a secret."
            )
        chosen: list[int] = []
        start, free = 0, self.dim - self.first
        for size in range(self.bits, 0, -1):
            # the sets of coordinates from `start` on with first coordinate below start + skipped come before
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
        """The number itself. ValueError if no secret has it."""
        number = count("number", number, least=0)
        if number >= self.size:
            raise ValueError(
                f"number is {_shown(number)}: there are {_shown(self.size)} secrets, so a number from 0 to "
                f"{_shown(self.size - 1)} is needed."
            )
        return number

    def _listed(self, entry: int = 8) -> int:
        """The number of secrets, if a table with so many bytes for each can be made."""
        if self.size > _MOST_SECRETS:
            raise ValueError(
                f"There are {_shown(self.size)} secrets: tables hold at most {_MOST_SECRETS}; take fewer bits or "
                "coordinates."
            )
        require_memory(
            f"The table of {self.size} secrets", self.size * entry, advice="take fewer bits or coordinates"
        )
        return self.size

    _gates = 0  # how many entries of a secret come before its set

    def _checked(self, secret: ArrayLike) -> np.ndarray:
        chosen, size = np.asarray(secret), self._gates + self.bits
        if (
            chosen.shape != (size,)
            or chosen.dtype.kind not in "iu"
            or len(np.unique(chosen)) != size
            or np.any((chosen < self.first * (1 - self._gates)) | (chosen >= self.dim))
        ):
            gate = "a gate and " if self._gates else ""
            raise ValueError(
                f"The secret is {secret!r}: {gate}{self.bits} distinct coordinates from "
                f"{self.first * (1 - self._gates)} to {self.dim - 1} are needed."
            )
        return chosen.astype(np.int64)


@dataclass(frozen=True)
class GateAndSecretSet(SecretSet):
    """The d C(d - 1, l) pairs of a gate g and a set S of l other coordinates, numbered gate by gate.

    Their tables and `unrank` give l + 1 numbers, the gate first and S in increasing order after it.

    Examples
    --------
    >>> secrets = GateAndSecretSet(dim=4, bits=2)
    >>> len(secrets), secrets.table[:4].tolist(), secrets.unrank(11), secrets.rank([3, 1, 2])
    (12, [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 0, 2]], array([3, 1, 2]), 11)
    """

    _gates = 1

    @cached_property
    def size(self) -> int:
        """N, of at most a million binary digits."""
        return self.dim * self._others.size

    @property
    def formula(self) -> str:
        """N as a formula in d."""
        return f"d C(d-1, {self.bits})"

    @cached_property
    def _others(self) -> SecretSet:
        # sets of the other d - 1 coordinates: those from the gate on are shifted up by one
        return SecretSet(dim=self.dim - 1, bits=self.bits, first=0)

    @cached_property
    def table(self) -> Int[np.ndarray, "N entries"]:
        """Every gate and secret, the gate first."""
        size, sets = self._listed(8 * (self.bits + 1)), self._others.table
        gates = np.arange(self.dim, dtype=sets.dtype)
        moved = sets[None] + (sets[None] >= gates[:, None, None])
        first = np.broadcast_to(gates[:, None, None], (self.dim, len(sets), 1))
        return np.concatenate([first, moved], axis=2).reshape(size, self.bits + 1)

    def rank(self, secret: ArrayLike) -> int:
        """The number of a gate followed by l other coordinates."""
        gate, chosen = np.split(self._checked(secret), [1])
        return int(gate[0]) * self._others.size + self._others.rank(chosen - (chosen > gate))

    def unrank(self, number: int) -> Int[np.ndarray, " entries"]:
        """The gate and secret of that number."""
        gate, left = divmod(self.checked_number(number), self._others.size)
        chosen = self._others.unrank(left)
        return np.concatenate([[gate], chosen + (chosen >= gate)])


def _choices(free: int, chosen: int) -> int:
    """C(free, chosen); refused if it has too many digits."""
    fewer = min(chosen, free - chosen)
    if fewer and fewer * (log2(free) - log2(fewer) + 1.5) > _MOST_DIGITS:
        raise ValueError(
            f"The secrets of {_shown(chosen)} bits among {_shown(free)} coordinates are too many to count: take fewer "
            "bits or coordinates."
        )
    return comb(free, chosen)


def _shown(number: int) -> str:
    """A short text for a whole number, however large it is."""
    return str(number) if abs(number) < 10**30 else f"{Decimal(number):.3e}"
