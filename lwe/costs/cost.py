"""The estimated cost of an attack: a record with its parameters and a printed form."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from lwe.parameters import LWEParameters

TELLING_SUMS = 2 * math.log(50)
"""The number of sums times the square of their advantage that tells labels from random with probability .99."""


MOST = 1000
"""Costs above 2^1000 are not reported by attacks whose computation would itself be long there."""


@dataclass(frozen=True)
class Cost:
    """A heuristic estimate of the operations that an attack takes; no claim of security.

    Names are those of the lattice estimator: rop are the operations, mem is the memory in words, m are the samples,
    beta is the block size, d the dimension of the lattice, eta the dimension of a last sieve, zeta the number of
    guessed entries, t the number of transformed entries.

    Examples
    --------
    >>> parameters = LWEParameters(n=16, q=64, p=2)
    >>> cost = Cost("usvp", 143.81, parameters, "addition", "a model", log2_m=8.0, details={"beta": 406})
    >>> print(cost)
    usvp: about 2^143.8 (LWR n=16 q=64 p=2 (d=17); m 256, beta 406)
    >>> cost.rop
    '2^143.8'
    """

    attack: str  #: the name of the attack
    log2_rop: float  #: log2 of the operations; infinite if they were not computed
    parameters: LWEParameters  #: what is attacked
    #: what one operation is; units differ, so operations of different attacks are only roughly comparable
    unit: str = ""
    model: str = ""  #: the assumptions, in a few words
    log2_mem: float | None = None  #: log2 of the memory in words, where the model gives it
    log2_m: float | None = None  #: log2 of the samples, where the model gives them
    details: Mapping[str, int | float] = field(default_factory=dict)  #: beta, d and others
    failure: str = ""  #: why nothing was computed

    @property
    def rop(self) -> str:
        """The number of operations as a power of two."""
        return f"2^{self.log2_rop:.1f}"

    @property
    def m(self) -> str:
        """The number of samples; empty if the model does not give it."""
        return "" if self.log2_m is None else power_of_two(self.log2_m)

    @property
    def mem(self) -> str:
        """The words of memory; empty if the model does not give them."""
        return "" if self.log2_mem is None else f"2^{self.log2_mem:.1f}"

    @property
    def numbers(self) -> Mapping[str, str]:
        """The numbers of the attack, by name, as texts."""
        named = {"mem": self.mem, "m": self.m, **{name: str(value) for name, value in self.details.items()}}
        return {name: value for name, value in named.items() if value}

    @property
    def order(self) -> tuple[float, float]:
        """Operations to a tenth of a bit; at equal cost, fewer samples."""
        return round(self.log2_rop, 1), math.inf if self.log2_m is None else self.log2_m

    def __str__(self) -> str:
        if self.failure:
            return f"{self.attack}: not computed: {self.failure}"
        numbers = ", ".join(f"{name} {value}" for name, value in self.numbers.items())
        return f"{self.attack}: about {self.rop} ({self.parameters}{'; ' * bool(numbers)}{numbers})"

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON values; the parameters as their name, operations None if not computed."""
        rop = None if self.failure else self.log2_rop
        return asdict(self) | {"parameters": str(self.parameters), "log2_rop": rop}


def refine(
    cost: Callable[[int], float],
    grid: range,
    least: int,
    most: int,
    bound: Callable[[int], float] = lambda place: -math.inf,
) -> int:
    """The place of least cost on a grid, then on finer and finer grids around the best so far.

    A place is left out where a lower `bound` of its cost is no better than the best.
    """

    def cheapest(places: Iterable[int]) -> int:
        best, value = least, math.inf
        for number, place in enumerate(places):
            if number == 0 or (bound(place) < value and cost(place) < value):
                best, value = place, cost(place)
        return best

    best, step = cheapest(grid), grid.step
    while step > 1:
        step = (step + 1) // 2
        best = cheapest((max(best - step, least), best, min(best + step, most)))
    return best


def power_of_two(log2: float) -> str:
    """A whole number of that logarithm in a readable form: itself below a million, otherwise a power of two."""
    return str(round(2.0**log2)) if log2 < 20 else f"2^{log2:.1f}"


def log2_comb(many: int, chosen: int) -> float:
    """log2 of a binomial coefficient, without the coefficient where it is above 2^4000.

    It is then a lower bound, k log2(n / k) for k chosen of n.
    """
    chosen = min(chosen, many - chosen)
    if chosen <= 0:
        return 0.0
    least = chosen * (math.log2(many) - math.log2(chosen))
    return math.log2(math.comb(many, chosen)) if least < 4000 else least


def size_in_words(number: int) -> int | str:
    """A positive number in a readable form: itself below 10^12, otherwise a power of two."""
    return number if number < 10**12 else f"2^{math.log2(number):.1f}"
