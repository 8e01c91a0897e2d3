"""From which distributions secrets and errors are drawn: small values that draw, measure and name themselves."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from attention._arrays import shown
from attention.inputs import Rng
from attention.memory import require_memory
from attention.validation import count, non_negative, random_generator
from lwe.integer_law import MOST_VALUES, BaseLaw, IntegerLaw, require_listable
from lwe.residues import LARGEST_MODULUS, centred, whole_array

__all__ = [
    "NO_NOISE",
    "UNIFORM",
    "BinaryLaw",
    "BinomialLaw",
    "FlipLaw",
    "GaussianLaw",
    "IntegerLaw",
    "SparseLaw",
    "TernaryLaw",
    "UniformLaw",
    "ZeroLaw",
    "law_from_json",
]

_MOST_BITS = 1 << 32
_LEAST_CHANCE = 1e-30
_LEAST_CHARACTER = 1e-16  # a law whose characters are all below it is uniform in double precision


@dataclass(frozen=True)
class UniformLaw(BaseLaw):
    """All residues alike. Where q is above 2^24 its support is not listed: ask `is_uniform` first."""

    kind: ClassVar[str] = "uniform"

    def draw(self, size: int, modulus: int, *, rng: Rng = None) -> Int[np.ndarray, " size"]:
        """That many numbers, centred mod q."""
        size = count("size", size, least=0)
        require_memory(f"size is {shown(size)}: a draw", 24 * size, advice="draw fewer numbers")
        modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
        return centred(random_generator(rng).integers(modulus, size=size), modulus)

    def support(self, modulus: int) -> tuple[Int[np.ndarray, " s"], Float[np.ndarray, " s"]]:
        """All residues, centred, and 1/q for each."""
        q = count("modulus", modulus, least=2)
        require_listable(self, q, q)
        return _residues(q), np.full(q, 1 / q)

    def is_uniform(self, modulus: int) -> bool:
        """True."""
        count("modulus", modulus, least=2, most=LARGEST_MODULUS)
        return True

    def error_rate(self, modulus: int) -> float:
        """1 - 1/q."""
        modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
        return 1 - 1 / modulus

    def __str__(self) -> str:
        return "uniform"


@dataclass(frozen=True)
class BinaryLaw(BaseLaw):
    """0 and 1 alike."""

    kind: ClassVar[str] = "binary"

    def _values(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array([0, 1]), np.full(2, 0.5)

    def __str__(self) -> str:
        return "binary"


@dataclass(frozen=True)
class TernaryLaw(BaseLaw):
    """-1, 0 and 1 alike."""

    kind: ClassVar[str] = "ternary"

    def _values(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array([-1, 0, 1]), np.full(3, 1 / 3)

    def __str__(self) -> str:
        return "ternary"


@dataclass(frozen=True)
class BinomialLaw(BaseLaw):
    """Centred binomial: the difference of two sums of `eta` fair bits; variance eta/2.

    Raises
    ------
    ValueError
        If `eta` is not from 1 to 2^32.

    Notes
    -----
    Values of probability below 1e-308 are left out of the support, and never drawn. The characters mod q are
    cos(pi k/q)^(2 eta): mod 2 the law is uniform, and mod any q for eta large enough.
    """

    eta: int
    kind: ClassVar[str] = "binomial"

    def __post_init__(self) -> None:
        object.__setattr__(self, "eta", count("eta", self.eta))
        if self.eta > _MOST_BITS:
            raise ValueError(
                f"eta is {self.eta}: at most 2^32 is allowed; take GaussianLaw(sqrt(eta/2)), which is close to it."
            )

    def is_uniform(self, modulus: int) -> bool:
        """Whether all characters are below 1e-16: cos(pi/q)^(2 eta) is the largest, and 0 for q = 2."""
        modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
        return modulus == 2 or math.cos(math.pi / modulus) ** (2 * self.eta) <= _LEAST_CHARACTER

    def _values(self) -> tuple[np.ndarray, np.ndarray]:
        # C(2 eta, eta + k + 1) = C(2 eta, eta + k) (eta - k)/(eta + k + 1): ratios never overflow
        # beyond 40 sqrt(eta), probabilities are below e^-1600
        k = np.arange(min(self.eta, 40 * math.isqrt(self.eta) + 40))
        right = np.cumprod((self.eta - k) / (self.eta + k + 1.0))
        weights = np.concatenate([right[::-1], [1.0], right])
        return np.arange(-len(k), len(k) + 1), weights / weights.sum()

    def __str__(self) -> str:
        return f"binomial({self.eta})"


@dataclass(frozen=True)
class GaussianLaw(BaseLaw):
    """A normal variable of mean 0 and standard deviation `sigma`, rounded to the nearest whole number.

    Raises
    ------
    ValueError
        If `sigma` is not positive.

    Notes
    -----
    Values beyond 12 sigma and those of probability below 1e-30 are left out of the support; below sigma = 0.044
    nothing but 0 is left. From sigma = 1.367 q on the law is taken as uniform mod q: its characters are at most
    e^(-2 pi^2 1.367^2) < 1e-16.
    """

    sigma: float
    kind: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", non_negative("sigma", self.sigma, strictly=True))

    def draw(self, size: int, modulus: int, *, rng: Rng = None) -> Int[np.ndarray, " size"]:
        """That many numbers, centred mod q."""
        size = count("size", size, least=0)
        require_memory(f"size is {shown(size)}: a draw", 24 * size, advice="draw fewer numbers")
        modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
        if self.is_uniform(modulus):
            return UNIFORM.draw(size, modulus, rng=rng)
        numbers = np.rint(random_generator(rng).normal(scale=self.sigma, size=size)).astype(np.int64)
        return centred(numbers, modulus)

    def support(self, modulus: int) -> tuple[Int[np.ndarray, " s"], Float[np.ndarray, " s"]]:
        """The values within 12 sigma, centred mod q and in increasing order, and their probabilities.

        Raises
        ------
        ValueError
            If there are more than 2^24 of them.
        """
        q = count("modulus", modulus, least=2)
        if self.is_uniform(q):
            return UNIFORM.support(q)
        reach = math.ceil(12 * self.sigma) + 1
        require_listable(self, min(2 * reach + 1, q), q)
        values = np.arange(-reach, reach + 1) if 2 * reach < q else _residues(q)
        weights = np.zeros(len(values))
        for period in self._periods(q):
            weights += self._mass(values + period)
        kept = weights >= _LEAST_CHANCE
        return values[kept], weights[kept] / weights[kept].sum()

    def is_uniform(self, modulus: int) -> bool:
        """Whether all characters are below 1e-16: e^(-2 (pi sigma/q)^2) is the largest."""
        modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
        return self.sigma / modulus >= math.sqrt(-math.log(_LEAST_CHARACTER) / 2) / math.pi

    def chances(self, values: Int[np.ndarray, " s"], modulus: int) -> Float[np.ndarray, " s"]:
        """The probabilities of some residues, where all of them are too many to list."""
        if self.is_uniform(modulus):
            return np.full(len(values), 1 / modulus)
        residues = centred(values, modulus)
        return np.sum([self._mass(residues + period) for period in self._periods(modulus)], axis=0)

    def error_rate(self, modulus: int) -> float:
        """The probability that one number is not 0 mod q."""
        from scipy.special import ndtr

        if self.is_uniform(modulus):
            return UNIFORM.error_rate(modulus)
        if self._mass(np.array([1]))[0] < _LEAST_CHANCE:
            return 0.0
        wrapped = sum(float(self._mass(np.array([period]))[0]) for period in self._periods(modulus) if period)
        return float(2 * ndtr(-0.5 / self.sigma)) - wrapped

    def secrets(self, size: int, modulus: int) -> float:
        """log2 of how many vectors of that size it can draw; within 12 sigma, where the values are too many to list."""
        size = count("size", size, least=0, most=2**62)
        modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
        values = min(2 * math.ceil(12 * self.sigma) + 3, modulus)
        return size * math.log2(values) if values > MOST_VALUES else super().secrets(size, modulus)

    def _periods(self, modulus: int) -> range:
        most = math.ceil((12 * self.sigma + 1) / modulus - 0.5)
        return range(-most * modulus, most * modulus + 1, modulus)

    def _mass(self, values: Int[np.ndarray, " s"]) -> Float[np.ndarray, " s"]:
        from scipy.special import ndtr

        # in the lower tail, where no digits are lost against 1
        size = np.abs(values)
        with np.errstate(over="ignore"):  # of sigma near 0 the quotients are infinite, and their tails 0 or 1
            return ndtr((0.5 - size) / self.sigma) - ndtr((-0.5 - size) / self.sigma)

    def __str__(self) -> str:
        return f"gaussian({self.sigma:g})"


@dataclass(frozen=True)
class FlipLaw(BaseLaw):
    """1 with probability `rate`, else 0: label flips for q = 2.

    Raises
    ------
    ValueError
        If the rate is not in [0, 1/2].
    """

    rate: float
    kind: ClassVar[str] = "flip"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", non_negative("rate", self.rate))
        if self.rate > 0.5:
            raise ValueError(f"rate is {self.rate}: at most 1/2 is allowed; beyond it, flip all labels.")

    def _values(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array([0, 1]), np.array([1 - self.rate, self.rate])

    def __str__(self) -> str:
        return f"flip({self.rate:g})"


@dataclass(frozen=True)
class SparseLaw(BaseLaw):
    """Exactly `weight` entries of a vector are -1 or 1, fair and independent, at random places; the others 0.

    Raises
    ------
    ValueError
        If the weight is below 1, or above the number of entries when it is drawn.
    """

    weight: int
    kind: ClassVar[str] = "sparse"

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", count("weight", self.weight))

    def draw(self, size: int, modulus: int, *, rng: Rng = None) -> Int[np.ndarray, " size"]:
        """That many numbers, centred mod q."""
        size = count("size", size, least=0)
        require_memory(f"size is {shown(size)}: a draw", 24 * size, advice="draw fewer numbers")
        modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
        self._require(size)
        generator, vector = random_generator(rng), np.zeros(size, dtype=np.int64)
        places = generator.choice(size, size=self.weight, replace=False)
        vector[places] = generator.choice([-1, 1], size=self.weight)
        return centred(vector, modulus)

    def is_uniform(self, modulus: int) -> bool:
        """False: entries depend on one another."""
        return False

    def secrets(self, size: int, modulus: int) -> float:
        """log2 of how many vectors of that size it can draw."""
        size = count("size", size, least=0)
        modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
        self._require(size)
        signs = 0 if modulus == 2 else self.weight
        return math.log2(math.comb(size, self.weight)) + signs

    def allows(self, vector: Int[np.ndarray, " size"], modulus: int) -> bool:
        """Whether it can draw this vector, mod q."""
        vector, modulus = (
            whole_array("vector", vector),
            count("modulus", modulus, least=2, most=LARGEST_MODULUS),
        )
        residues = np.mod(vector, modulus)
        used = residues[residues != 0]
        return len(used) == self.weight and bool(np.isin(used, (1, modulus - 1)).all())

    def _require(self, size: int) -> None:
        if self.weight > size:
            raise ValueError(
                f"weight is {self.weight}: at most the {size} entries of the secret can be nonzero."
            )

    def _values(self) -> tuple[np.ndarray, np.ndarray]:
        raise ValueError(
            "The entries of a sparse secret depend on one another: they have no law of their own; take draw or secrets."
        )

    def __str__(self) -> str:
        return f"sparse({self.weight})"


@dataclass(frozen=True)
class ZeroLaw(BaseLaw):
    """Always 0: as a law of errors no noise, as one of secrets a label that never changes."""

    kind: ClassVar[str] = "zero"

    def _values(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array([0]), np.array([1.0])

    def __str__(self) -> str:
        return "zero"


UNIFORM = UniformLaw()
NO_NOISE = ZeroLaw()

_LAWS: dict[str, Any] = {
    law.kind: law
    for law in (UniformLaw, BinaryLaw, TernaryLaw, BinomialLaw, GaussianLaw, FlipLaw, SparseLaw, ZeroLaw)
}


def _residues(modulus: int) -> Int[np.ndarray, " q"]:
    return np.arange(-((modulus - 1) // 2), modulus // 2 + 1)


def law_from_json(value: Mapping[str, Any] | str) -> IntegerLaw:
    """The law that `to_json` wrote, or one in words such as "ternary", "sparse:4", "binomial:2".

    Raises
    ------
    ValueError
        If there is none of that name, or its numbers are wrong.

    Examples
    --------
    >>> law_from_json("binomial:2"), law_from_json({"kind": "uniform"})
    (BinomialLaw(eta=2), UniformLaw())
    """
    if isinstance(value, str):
        kind, _, number = value.partition(":")
        options: dict[str, Any] = {}
        law = _LAWS.get(kind)
        names = [] if law is None else list(getattr(law, "__dataclass_fields__", {}))
        names = [name for name in names if name != "kind"]
        if law is not None and bool(number) != bool(names):
            raise ValueError(
                f"The law is {shown(value)}: {kind} needs {'a number after a colon' if names else 'no number'}."
            )
        if number:
            try:
                options = {names[0]: float(number) if names[0] in ("sigma", "rate") else int(number)}
            except ValueError:
                raise ValueError(f"The law is {shown(value)}: a number is needed after the colon.") from None
    elif isinstance(value, Mapping):
        options = {str(name): one for name, one in value.items() if name != "kind"}
        kind = str(value.get("kind"))
    else:
        raise ValueError(
            f"The law is {shown(value)}: words such as 'binomial:2' or an object with a kind are needed."
        )
    if kind not in _LAWS:
        raise ValueError(f"The law is {shown(kind)}: one of {', '.join(_LAWS)} is needed.")
    try:
        found: IntegerLaw = _LAWS[kind](**options)
    except TypeError as error:
        raise ValueError(f"The law {kind!r} has other numbers ({error}): just its own are needed.") from None
    return found
