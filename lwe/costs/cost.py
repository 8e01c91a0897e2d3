"""The estimated cost of an attack: a record with its parameters and a printed form."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from attention.validation import NonNegativeInt, Real, checked
from lwe.costs.deviations import PlainLWE
from lwe.parameters import LWRParameters

__all__ = ["TELLING_SUMS", "Cost", "size_in_words"]

TELLING_SUMS = 2 * math.log(50)
"""The number of sums times the square of their advantage that tells labels from random with probability .99."""


@dataclass(frozen=True)
@checked
class Cost:
    """A heuristic estimate of the operations that an attack takes; no claim of security.

    Examples
    --------
    >>> parameters = LWRParameters(secret_dim=16, modulus=64, levels=2)
    >>> cost = Cost("some attack", 143.81, parameters, "addition", "a model", {"block_size": 406})
    >>> print(cost)
    some attack: about 2^143.8 (LWR n=16 q=64 p=2 (d=17); block size 406)
    >>> cost.operations
    '2^143.8'
    """

    attack: str  #: the name of the attack
    exponent: Annotated[float, Real()]  #: log2 of the operations
    parameters: LWRParameters | PlainLWE  #: what is attacked
    #: what one operation is; units differ, so exponents of different attacks are only roughly comparable
    unit: str
    model: str  #: the assumptions, in a few words
    details: Mapping[str, Any] = field(default_factory=dict)  #: block size, dimension, samples

    @property
    def operations(self) -> str:
        """The number of operations as a power of two."""
        return f"2^{self.exponent:.1f}"

    def __str__(self) -> str:
        numbers = "".join(f", {name.replace('_', ' ')} {value}" for name, value in self.details.items())
        return f"{self.attack}: about {self.operations} ({self.parameters}{numbers.replace(',', ';', 1)})"

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON values; the parameters as their name."""
        return asdict(self) | {"parameters": str(self.parameters)}


@checked
def size_in_words(number: NonNegativeInt) -> int | str:
    """A positive number in a readable form: itself below 10^12, otherwise a power of two."""
    return number if number < 10**12 else f"2^{math.log2(number):.1f}"
