"""What an attack is estimated to cost: a small record that knows its parameters and prints itself."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attention.validation import count
from lwe.parameters import LWRParameters

__all__ = ["Cost", "require_number", "size_in_words"]


@dataclass(frozen=True)
class Cost:
    """An estimate of the operations that an attack takes: heuristic, and no claim of security.

    Parameters
    ----------
    attack : str
        Its name.
    exponent : float
        log2 of the operations.
    parameters : LWRParameters
        What is attacked.
    unit : str
        What one operation is. The units differ: exponents of different attacks compare roughly only.
    model : str
        Under which assumptions, in a few words.
    details : mapping
        The numbers behind it: block size, dimension, samples.

    Raises
    ------
    ValueError
        If the exponent is no finite number.

    Examples
    --------
    >>> parameters = LWRParameters(secret_dim=16, modulus=64, levels=2)
    >>> cost = Cost("some attack", 143.81, parameters, "one addition", "a model", {"block_size": 406})
    >>> print(cost)
    some attack: about 2^143.8 (LWR n=16 q=64 p=2 (d=17); block size 406)
    >>> cost.operations
    '2^143.8'
    """

    attack: str
    exponent: float
    parameters: LWRParameters
    unit: str
    model: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not math.isfinite(self.exponent):
            raise ValueError(f"exponent is {self.exponent}: a finite number is needed.")

    @property
    def operations(self) -> str:
        """The number of operations as a power of two."""
        return f"2^{self.exponent:.1f}"

    def __str__(self) -> str:
        numbers = "".join(f", {name.replace('_', ' ')} {value}" for name, value in self.details.items())
        return f"{self.attack}: about {self.operations} ({self.parameters}{numbers.replace(',', ';', 1)})"

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON values; the parameters as their name."""
        return {
            "attack": self.attack,
            "exponent": self.exponent,
            "parameters": str(self.parameters),
            "unit": self.unit,
            "model": self.model,
            "details": dict(self.details),
        }


def size_in_words(number: int) -> int | str:
    """A positive number as it can be printed and read: itself below 10^12, a power of two from there on.

    Examples
    --------
    >>> size_in_words(529), size_in_words(2**5000)
    (529, '2^5000.0')
    """
    number = count("number", number, least=0)
    return number if number < 10**12 else f"2^{math.log2(number):.1f}"


def require_number(samples: int | None) -> int | None:
    """How many samples there are, at least 1, or None for as many as wanted.

    Raises
    ------
    ValueError
        If it is another number.
    """
    return None if samples is None else count("samples", samples)
