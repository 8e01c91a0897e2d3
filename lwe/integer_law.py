"""What a law of whole numbers mod q answers: how it draws, where it lies and how likely its values are."""

import math
from dataclasses import asdict
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from attention._arrays import shown
from attention.inputs import Rng
from attention.memory import require_memory
from attention.validation import count, random_generator
from lwe.residues import LARGEST_MODULUS, centred, whole_array

__all__ = ["MOST_VALUES", "BaseLaw", "IntegerLaw", "require_listable"]

MOST_VALUES = 1 << 24
"""How many values of a law are listed one by one."""

_MOST_COMPARED = 1 << 12
_LONGEST = 2**62  # of a vector: its numbers are counted in float64


@runtime_checkable
class IntegerLaw(Protocol):
    """A distribution of whole numbers mod q, for the entries of a secret or for errors."""

    @property
    def kind(self) -> str:
        """Its name in files."""

    @property
    def words(self) -> str:
        """Its name and numbers as `law_from_json` reads them, such as "ternary" or "sparse:4"."""

    def draw(self, size: int, modulus: int, *, rng: Rng = None) -> Int[np.ndarray, " size"]:
        """That many numbers, centred mod q."""

    def support(self, modulus: int) -> tuple[Int[np.ndarray, " s"], Float[np.ndarray, " s"]]:
        """The values, centred mod q and in increasing order, that one number can have, and their probabilities."""

    def probabilities(self, modulus: int) -> Float[np.ndarray, " modulus"]:
        """Of the residues 0, ..., q - 1, for one number."""

    def is_uniform(self, modulus: int) -> bool:
        """Whether all residues are alike, so that no support need be listed."""

    def error_rate(self, modulus: int) -> float:
        """The probability that one number is not 0 mod q."""

    def secrets(self, size: int, modulus: int) -> float:
        """log2 of how many vectors of that size it can draw."""

    def allows(self, vector: Int[np.ndarray, " size"], modulus: int) -> bool:
        """Whether it can draw this vector, mod q."""

    def __str__(self) -> str: ...


class BaseLaw:
    """What the laws share: all of it follows from the values they list, or from being uniform."""

    kind: ClassVar[str]

    @property
    def words(self) -> str:
        """Its name and numbers as `law_from_json` reads them."""
        numbers = list(asdict(self).values())  # type: ignore[call-overload]
        return ":".join([self.kind, *(repr(one) for one in numbers)])

    def draw(self, size: int, modulus: int, *, rng: Rng = None) -> Int[np.ndarray, " size"]:
        """That many numbers, centred mod q."""
        size = count("size", size, least=0)
        require_memory(f"size is {shown(size)}: a draw", 24 * size, advice="draw fewer numbers")
        modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
        values, weights = self.support(modulus)
        return random_generator(rng).choice(values, size=size, p=weights)

    def support(self, modulus: int) -> tuple[Int[np.ndarray, " s"], Float[np.ndarray, " s"]]:
        """The values, centred mod q and in increasing order, that one number can have, and their probabilities.

        Raises
        ------
        ValueError
            If there are more than 2^24 of them: ask `is_uniform` first where q can be large.

        Notes
        -----
        Memory and time are those of the values, however large q is. Only values of positive probability are listed,
        and the probabilities sum to 1.

        Examples
        --------
        >>> from lwe.laws import TernaryLaw
        >>> TernaryLaw().support(2**31)
        (array([-1,  0,  1]), array([0.33333333, 0.33333333, 0.33333333]))
        >>> TernaryLaw().support(2)
        (array([0, 1]), array([0.33333333, 0.66666667]))
        """
        q = count("modulus", modulus, least=2)
        values, weights = self._values()
        values, weights = values[weights > 0], weights[weights > 0]
        require_listable(self, min(len(values), q), q)
        if len(values) > 1 and (2 * int(values[0]) <= -q or 2 * int(values[-1]) > q):
            values, places = np.unique(centred(values, q), return_inverse=True)
            weights = np.bincount(places, weights=weights)
        return values, weights / weights.sum()

    def probabilities(self, modulus: int) -> Float[np.ndarray, " modulus"]:
        """Of the residues 0, ..., q - 1, for one number.

        Raises
        ------
        ValueError
            If q is above 2^24: `support` lists the values of narrow laws at any q.
        """
        modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
        require_listable(self, modulus, modulus)
        values, weights = self.support(modulus)
        found = np.zeros(modulus)
        found[np.mod(values, modulus)] = weights
        return found

    def is_uniform(self, modulus: int) -> bool:
        """Whether the law is that of `UniformLaw` as far as double precision tells: within 1e-15.

        Decided by the probabilities up to q = 2^12; beyond, a law that can be uniform has to say so itself.
        """
        modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
        if modulus > _MOST_COMPARED:
            return False
        values, weights = self.support(modulus)
        return len(values) == modulus and bool(np.all(np.abs(weights - 1 / modulus) <= 1e-15))

    def error_rate(self, modulus: int) -> float:
        """The probability that one number is not 0 mod q."""
        modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
        values, weights = self.support(modulus)
        return float(weights[values != 0].sum())

    def deviation(self, modulus: int) -> float:
        """sqrt(E v^2) of one number, centred mod q."""
        modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
        if self.is_uniform(modulus):
            return math.sqrt((modulus**2 + (-1 if modulus % 2 else 2)) / 12)
        values, weights = self.support(modulus)
        return float(np.sqrt(np.sum(weights * values.astype(np.float64) ** 2)))

    def secrets(self, size: int, modulus: int) -> float:
        """log2 of how many vectors of that size it can draw."""
        size = count("size", size, least=0, most=_LONGEST)
        modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
        values = modulus if self.is_uniform(modulus) else len(self.support(modulus)[0])
        return size * math.log2(values)

    def allows(self, vector: Int[np.ndarray, " size"], modulus: int) -> bool:
        """Whether it can draw this vector, mod q."""
        vector = whole_array("vector", vector)
        if self.is_uniform(modulus):
            return True
        return bool(np.isin(centred(vector, modulus), self.support(modulus)[0]).all())

    def to_json(self) -> dict[str, Any]:
        """Its name and numbers; `law_from_json` gives it back."""
        return {"kind": self.kind, **asdict(self)}  # type: ignore[call-overload]

    def _values(self) -> tuple[np.ndarray, np.ndarray]:
        """Whole numbers in increasing order, not reduced mod q, and their probabilities."""
        raise NotImplementedError


def require_listable(law: BaseLaw, values: int, modulus: int) -> None:
    """Raise where a law has more values than are listed one by one."""
    if values > MOST_VALUES:
        raise ValueError(
            f"The law {law} mod {modulus} has up to {values} values: at most 2^24 are listed one by one; take a "
            "narrower law or a smaller modulus."
        )
