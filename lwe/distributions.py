"""The distributions of secrets and errors, one class each."""

import math
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields
from functools import lru_cache
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from attention._arrays import shown
from attention.inputs import Rng
from attention.memory import require_memory
from attention.validation import (
    NonNegativeInt,
    PositiveInt,
    Real,
    Whole,
    checked,
    random_generator,
)
from lwe.residues import LARGEST_MODULUS, Modulus, centred, whole_array

_MOST_VALUES = 1 << 22  # the most values that are listed one by one
_WIDEST = 1 << 17  # the largest deviation of a rounded Gaussian whose values are listed
_LEAST_CHANCE = 1e-30  # the least probability of a listed value of a rounded Gaussian
_ALIKE = 1e-15

Table = tuple[Int[np.ndarray, " s"], Float[np.ndarray, " s"]]
"""Whole numbers in increasing order, and their probabilities."""


class Statistics(NamedTuple):
    """What estimates of costs use of a vector's distribution."""

    mean: float  #: of an entry
    log2_deviation: float  #: log2 of the standard deviation of an entry; -inf for a constant
    entropy: float  #: of the vector, in bits


@dataclass(frozen=True)
class Distribution:
    """A distribution of whole numbers mod q, for the entries of a secret or for errors.

    For one of your own, write a subclass with a `table`.

    Examples
    --------
    >>> TERNARY.support(2**31)
    (array([-1,  0,  1]), array([0.33333333, 0.33333333, 0.33333333]))
    >>> TERNARY.support(2)
    (array([0, 1]), array([0.33333333, 0.66666667]))
    """

    name: ClassVar[str] = "own"  #: as files and the command line have it

    @property
    def words(self) -> str:
        """Its name and numbers as `parse_distribution` reads them, such as "ternary" or "sparse:4"."""
        numbers = ",".join(f"{number!r}" for number in astuple(self))
        return f"{self.name}:{numbers}" if numbers else self.name

    def __str__(self) -> str:
        name, _, numbers = self.words.partition(":")
        return f"{name}({','.join(f'{number:g}' for number in astuple(self))})" if numbers else name

    def table(self) -> Table:
        """Whole numbers in increasing order, not reduced mod q, and their probabilities."""
        raise ValueError(f"The distribution is {self}, which has no table: draw or secrets is needed.")

    @property
    def listed(self) -> bool:
        """Whether it has a table of at most 2^22 values."""
        return True

    def support(self, modulus: int) -> Table:
        """The values, centred mod q and in increasing order, that one number can have, and their probabilities.

        ValueError if there are more than 2^22 values, or the entries of a vector are dependent.
        """
        return _support(self, modulus)

    def entries(self, size: int, modulus: int) -> Table:
        """As `support`, for one entry of a vector of that size; entries of fixed weight may be dependent."""
        return self.support(modulus)

    @checked
    def draw(self, size: NonNegativeInt, modulus: Modulus, *, rng: Rng = None) -> Int[np.ndarray, " size"]:
        """That many numbers, centred mod q."""
        require_memory(f"size is {shown(size)}: a draw", 24 * size, advice="draw fewer numbers")
        return centred(self._drawn(size, modulus, random_generator(rng)), modulus)

    def _drawn(self, size: int, modulus: int, generator: np.random.Generator) -> np.ndarray:
        values, weights = self.support(modulus)
        return generator.choice(values, size=size, p=weights)

    def is_uniform(self, modulus: int) -> bool:
        """Whether all residues have equal probability, to 1e-15; then the support need not be listed."""
        if not self.listed or modulus > _MOST_VALUES:
            return False
        values, weights = self.support(modulus)
        return len(values) == modulus and bool(np.all(np.abs(weights - 1 / modulus) <= _ALIKE))

    @checked
    def secrets(self, size: Annotated[int, Whole(0, 2**62)], modulus: Annotated[int, Whole(2)]) -> float:
        """log2 of how many vectors of that size it can draw."""
        return size * math.log2(modulus if self.is_uniform(modulus) else len(self.support(modulus)[0]))

    @checked
    def allows(self, vector: ArrayLike, modulus: Modulus) -> bool:
        """Whether it can draw this vector, mod q."""
        entries = centred(whole_array("vector", vector), modulus)
        return self.is_uniform(modulus) or bool(np.isin(entries, self.support(modulus)[0]).all())

    def statistics(self, size: int, modulus: int) -> Statistics:
        """The statistics of a vector of that size, centred mod q."""
        values, weights = self.entries(size, modulus)
        mean = float(np.sum(weights * values))
        variance = float(np.sum(weights * (values - mean) ** 2))
        return Statistics(
            mean,
            0.5 * math.log2(variance) if variance > 0 else -math.inf,
            size * float(-np.sum(weights * np.log2(weights))),
        )


@lru_cache(maxsize=8)
def _support(distribution: Distribution, modulus: int) -> Table:
    least = -((modulus - 1) // 2)
    values, weights = map(np.asarray, distribution.table())
    if values[0] < least or values[-1] >= least + modulus:
        weights = np.bincount(np.mod(values - least, modulus), weights=weights, minlength=modulus)
        values = np.arange(least, least + modulus)
    listed = weights > 0
    values, weights = values[listed], weights[listed] / weights[listed].sum()
    values.flags.writeable = weights.flags.writeable = False
    return values, weights


@dataclass(frozen=True)
class Uniform(Distribution):
    """All residues with equal probability. If q is above 2^22, they are not listed: check `is_uniform` first."""

    name: ClassVar[str] = "uniform"

    def support(self, modulus: int) -> Table:
        """All residues."""
        if modulus > _MOST_VALUES:
            raise ValueError(
                f"modulus is {modulus}: at most 2^22 values are listed one by one; take a smaller modulus."
            )
        least = -((modulus - 1) // 2)
        return np.arange(least, least + modulus), np.full(modulus, 1 / modulus)

    def _drawn(self, size: int, modulus: int, generator: np.random.Generator) -> np.ndarray:
        return generator.integers(modulus, size=size)

    def is_uniform(self, modulus: int) -> bool:
        """True."""
        return True

    def statistics(self, size: int, modulus: int) -> Statistics:
        """In closed form; the mean is 0, to 1/2."""
        bits = math.log2(modulus)
        deviation = bits - 0.5 * math.log2(12) + 0.5 * math.log1p(-(1 / modulus**2)) / math.log(2)
        return Statistics(0.0, deviation, size * bits)


@dataclass(frozen=True)
@checked
class Interval(Distribution):
    """The whole numbers from `low` to `high` with equal probability; `BINARY`, `TERNARY` and `NO_NOISE` are some."""

    low: Annotated[int, Whole(-_MOST_VALUES, _MOST_VALUES)]  #: the least
    high: Annotated[int, Whole(-_MOST_VALUES, _MOST_VALUES)]  #: the largest
    name: ClassVar[str] = "interval"

    def __post_init__(self) -> None:
        if not self.low <= self.high < self.low + _MOST_VALUES:
            raise ValueError(f"The interval is from {self.low} to {self.high}: 1 to 2^22 numbers are needed.")

    @property
    def words(self) -> str:
        """Its name, or its ends."""
        named = next((name for name, interval in _NAMED.items() if interval == self), None)
        return super().words if named is None else named

    def table(self) -> Table:
        """The numbers from `low` to `high`."""
        number = self.high - self.low + 1
        return np.arange(self.low, self.high + 1), np.full(number, 1 / number)


@dataclass(frozen=True)
@checked
class CentredBinomial(Distribution):
    """The difference of two sums of `eta` fair bits; variance eta/2."""

    eta: Annotated[int, Whole(1, 1 << 16)]  #: the number of bits of a sum
    name: ClassVar[str] = "binomial"

    def table(self) -> Table:
        """The numbers from -eta to eta."""
        # C(2 eta, eta + k + 1) = C(2 eta, eta + k) (eta - k)/(eta + k + 1): ratios never overflow
        k = np.arange(self.eta)
        right = np.cumprod((self.eta - k) / (self.eta + k + 1.0))
        weights = np.concatenate([right[::-1], [1.0], right])
        return np.arange(-self.eta, self.eta + 1), weights / weights.sum()


@dataclass(frozen=True)
@checked
class DiscreteGaussian(Distribution):
    """A normal variable of mean 0 and standard deviation `sigma`, rounded to the nearest whole number.

    Values beyond 12 sigma and those of probability below 1e-30 are left out of its table. Above 2^17 it has no table,
    and serves for draws and for estimates of costs.
    """

    sigma: Annotated[float, Real(above=0, most=1e300)]  #: the standard deviation before rounding
    name: ClassVar[str] = "gaussian"

    @property
    def listed(self) -> bool:
        """Whether sigma is at most 2^17."""
        return self.sigma <= _WIDEST

    def table(self) -> Table:
        """The numbers up to 12 sigma."""
        from scipy.special import ndtr

        if not self.listed:
            raise ValueError(f"sigma is {self.sigma:g}: at most 2^17 is needed where errors are listed.")
        reach = math.ceil(12 * self.sigma) + 1
        values = np.arange(-reach, reach + 1)
        # computed in the lower tail, where subtraction from 1 loses no digits
        size = np.abs(values)
        with np.errstate(
            over="ignore"
        ):  # for sigma near 0 the quotients are infinite, and their tails 0 or 1
            weights = ndtr((0.5 - size) / self.sigma) - ndtr((-0.5 - size) / self.sigma)
        return values, np.where(weights >= _LEAST_CHANCE, weights, 0.0)

    def _drawn(self, size: int, modulus: int, generator: np.random.Generator) -> np.ndarray:
        if self.sigma > LARGEST_MODULUS:
            raise ValueError(f"sigma is {self.sigma:g}: at most 2^52 is needed where errors are drawn.")
        return np.rint(generator.normal(scale=self.sigma, size=size))

    def statistics(self, size: int, modulus: int) -> Statistics:
        """Those of the numbers mod q, or of the normal density where they are not listed."""
        if self.listed:
            return super().statistics(size, modulus)
        bits = math.log2(self.sigma) + 0.5 * math.log2(2 * math.pi * math.e)
        return Statistics(0.0, math.log2(self.sigma), size * min(bits, math.log2(modulus)))


@dataclass(frozen=True)
@checked
class Flips(Distribution):
    """1 with probability `rate`, else 0: label flips for q = 2."""

    rate: Annotated[float, Real(least=0, most=0.5)]  #: the probability of 1
    name: ClassVar[str] = "flip"

    def table(self) -> Table:
        """0 and 1."""
        return np.array([0, 1]), np.array([1 - self.rate, self.rate])


@dataclass(frozen=True)
class FixedWeight(Distribution):
    """A vector whose number of nonzero entries, 1 and -1, is fixed. Their places are random."""

    fair_signs: ClassVar[bool] = (
        False  #: whether signs are drawn, fair and independent, or their numbers are fixed
    )

    @property
    def counts(self) -> tuple[int | float, int | float]:
        """The expected numbers of entries 1 and of entries -1."""
        raise NotImplementedError

    @property
    def total(self) -> int:
        """The number of nonzero entries."""
        return round(sum(self.counts))

    def entries(self, size: int, modulus: int) -> Table:
        """-1, 0 and 1 with the shares that they have in a vector of that size."""
        self.require_room(size)
        values = np.array([-1, 0, 1])
        ones, minus_ones = self.counts
        weights = np.array([minus_ones, size - self.total, ones]) / size
        return values[weights > 0], weights[weights > 0]

    def _drawn(self, size: int, modulus: int, generator: np.random.Generator) -> np.ndarray:
        self.require_room(size)
        vector = np.zeros(size, dtype=np.int64)
        places = generator.choice(size, size=self.total, replace=False)
        if self.fair_signs:
            vector[places] = generator.choice([-1, 1], size=self.total)
        else:
            vector[places] = np.repeat([1, -1], np.array(self.counts, dtype=int))
        return vector

    def is_uniform(self, modulus: int) -> bool:
        """False."""
        return False

    @checked
    def secrets(self, size: Annotated[int, Whole(0, 2**62)], modulus: Annotated[int, Whole(2)]) -> float:
        """log2 of the number of vectors of that size and weight."""
        self.require_room(size)
        signs = self.total if self.fair_signs else math.log2(math.comb(self.total, int(self.counts[0])))
        return math.log2(math.comb(size, self.total)) + (0 if modulus == 2 else signs)

    @checked
    def allows(self, vector: ArrayLike, modulus: Modulus) -> bool:
        """Whether it can draw this vector, mod q."""
        entries = centred(whole_array("vector", vector), modulus)
        used = entries[entries != 0]
        right = len(used) == self.total and bool(np.all(np.abs(used) == 1))
        return right and (modulus == 2 or self.fair_signs or int(np.sum(used == 1)) == self.counts[0])

    def statistics(self, size: int, modulus: int) -> Statistics:
        """Those of its entries; all vectors are equally likely."""
        return super().statistics(size, modulus)._replace(entropy=self.secrets(size, modulus))

    def require_room(self, size: int) -> None:
        """ValueError if a vector of that size has fewer entries than the weight."""
        if self.total > size:
            raise ValueError(
                f"weight is {self.total}: at most the {size} entries of the vector can be nonzero."
            )


@dataclass(frozen=True)
@checked
class SparseSigned(FixedWeight):
    """Exactly `hamming_weight` entries are -1 or 1, with fair and independent signs; the others 0."""

    hamming_weight: PositiveInt  #: the number of nonzero entries
    name: ClassVar[str] = "sparse"
    fair_signs: ClassVar[bool] = True

    @property
    def counts(self) -> tuple[int | float, int | float]:
        """Half of them each."""
        return self.hamming_weight / 2, self.hamming_weight / 2


@dataclass(frozen=True)
@checked
class SparseBinary(FixedWeight):
    """Exactly `hamming_weight` entries are 1; the others 0."""

    hamming_weight: PositiveInt  #: the number of entries 1
    name: ClassVar[str] = "sparse-binary"

    @property
    def counts(self) -> tuple[int | float, int | float]:
        """All of them, and none."""
        return self.hamming_weight, 0


@dataclass(frozen=True)
@checked
class SparseTernary(FixedWeight):
    """Exactly `p` entries are 1 and `r` entries -1; the others 0."""

    p: NonNegativeInt  #: the number of entries 1
    r: NonNegativeInt  #: the number of entries -1
    name: ClassVar[str] = "sparse-ternary"

    def __post_init__(self) -> None:
        if self.p + self.r == 0:
            raise ValueError("p and r are 0: at least one nonzero entry is needed.")

    @property
    def counts(self) -> tuple[int | float, int | float]:
        """`p` and `r`."""
        return self.p, self.r


UNIFORM = Uniform()
BINARY = Interval(0, 1)
TERNARY = Interval(-1, 1)
NO_NOISE = Interval(0, 0)

_NAMED: Mapping[str, Distribution] = {
    "uniform": UNIFORM,
    "binary": BINARY,
    "ternary": TERNARY,
    "zero": NO_NOISE,
}
_KINDS: tuple[Any, ...] = (
    Interval,
    CentredBinomial,
    DiscreteGaussian,
    Flips,
    SparseSigned,
    SparseBinary,
    SparseTernary,
)
_FORMS = (
    "uniform, binary, ternary, zero, interval:LOW,HIGH, binomial:ETA, gaussian:SIGMA, flip:RATE, sparse:WEIGHT, "
    "sparse-binary:WEIGHT, sparse-ternary:P,R"
)


@checked
def distribution_words(distribution: Distribution) -> str:
    """The words of a distribution as files hold them; ValueError for one of your own, which no reader knows."""
    if type(distribution) not in (Uniform, *_KINDS):
        raise ValueError(
            f"The distribution {distribution} is of the type {type(distribution).__name__}: files hold {_FORMS}. Take "
            "one of these, or use samples in memory."
        )
    return distribution.words


@checked
def parse_distribution(text: str) -> Distribution:
    """The distribution in words such as "ternary", "sparse:4" or "gaussian:3.2": the inverse of `Distribution.words`.

    A ValueError if there is none of that name, or its numbers are wrong.

    Examples
    --------
    >>> parse_distribution("binomial:2") == CentredBinomial(2)
    True
    >>> parse_distribution("sparse-ternary:64,32")
    SparseTernary(p=64, r=32)
    """
    if text in _NAMED:
        return _NAMED[text]
    name, _, rest = text.partition(":")
    kind = next((kind for kind in _KINDS if kind.name == name), None)
    words = rest.split(",")
    if kind is None or len(words) != len(fields(kind)):
        raise ValueError(f"The distribution is {shown(text)}: one of {_FORMS} is needed.")
    number = float if kind in (DiscreteGaussian, Flips) else int
    try:
        numbers = [number(word) for word in words]
    except ValueError:
        raise ValueError(
            f"The distribution is {shown(text)}: {_FORMS} have whole numbers, but of sigma and rates."
        ) from None
    found: Distribution = kind(*numbers)
    return found
