"""The laws of secrets and errors: tables of whole numbers and their probabilities."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from attention._arrays import shown
from attention.inputs import Rng
from attention.memory import require_memory
from attention.validation import Constraint, NonNegativeInt, Real, Whole, check, checked, random_generator
from lwe.residues import Modulus, centred, whole_array

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
    "law_words",
    "parse_law",
]

_MOST_VALUES = 1 << 22  # the most values that are listed one by one
_LEAST_CHANCE = 1e-30  # the least probability of a listed value of a rounded Gaussian
_ALIKE = 1e-15


def _binomial(eta: int) -> tuple[np.ndarray, np.ndarray]:
    # C(2 eta, eta + k + 1) = C(2 eta, eta + k) (eta - k)/(eta + k + 1): ratios never overflow
    k = np.arange(eta)
    right = np.cumprod((eta - k) / (eta + k + 1.0))
    weights = np.concatenate([right[::-1], [1.0], right])
    return np.arange(-eta, eta + 1), weights / weights.sum()


def _gaussian(sigma: float) -> tuple[np.ndarray, np.ndarray]:
    from scipy.special import ndtr

    reach = math.ceil(12 * sigma) + 1
    values = np.arange(-reach, reach + 1)
    # computed in the lower tail, where subtraction from 1 loses no digits
    size = np.abs(values)
    with np.errstate(over="ignore"):  # for sigma near 0 the quotients are infinite, and their tails 0 or 1
        weights = ndtr((0.5 - size) / sigma) - ndtr((-0.5 - size) / sigma)
    return values, np.where(weights >= _LEAST_CHANCE, weights, 0.0)


@dataclass(frozen=True)
class _Kind:
    """The name of a law's number and what it must be, if it has one; its values and their probabilities, if listed."""

    number: tuple[str, Constraint] | None = None
    table: Callable[[Any], tuple[ArrayLike, ArrayLike]] | None = None


_KINDS = {
    "uniform": _Kind(),
    "binary": _Kind(table=lambda _: ([0, 1], [0.5, 0.5])),
    "ternary": _Kind(table=lambda _: ([-1, 0, 1], [1 / 3, 1 / 3, 1 / 3])),
    "binomial": _Kind(("eta", Whole(1, 1 << 16)), _binomial),
    "gaussian": _Kind(("sigma", Real(above=0, most=1 << 17)), _gaussian),
    "flip": _Kind(("rate", Real(least=0, most=0.5)), lambda rate: ([0, 1], [1 - rate, rate])),
    "sparse": _Kind(("weight", Whole(1))),
    "zero": _Kind(table=lambda _: ([0], [1.0])),
}


@dataclass(frozen=True)
class IntegerLaw:
    """A distribution of whole numbers mod q, for the entries of a secret or for errors.

    `UniformLaw`, `GaussianLaw` and the others make one. For another law, write a subclass with its own `table`.

    Examples
    --------
    >>> TernaryLaw().support(2**31)
    (array([-1,  0,  1]), array([0.33333333, 0.33333333, 0.33333333]))
    >>> TernaryLaw().support(2)
    (array([0, 1]), array([0.33333333, 0.66666667]))
    """

    kind: str  #: its name
    number: Any = None  #: its parameter, if it has one: eta, sigma, a rate or a weight

    def __post_init__(self) -> None:
        declared = _KINDS[self.kind].number if self.kind in _KINDS else None
        if declared is not None:
            object.__setattr__(self, "number", check(declared[0], self.number, declared[1]))
        elif self.number is not None:
            raise ValueError(f"The number of the law {self.kind} is {self.number}: none is needed.")

    @property
    def words(self) -> str:
        """Its name and number as `parse_law` reads them, such as "ternary" or "sparse:4"."""
        return self.kind if self.number is None else f"{self.kind}:{self.number!r}"

    def __str__(self) -> str:
        return self.kind if self.number is None else f"{self.kind}({self.number:g})"

    def table(self) -> tuple[Int[np.ndarray, " s"], Float[np.ndarray, " s"]]:
        """Whole numbers in increasing order, not reduced mod q, and their probabilities."""
        table = _KINDS[self.kind].table
        if table is None:
            raise ValueError(f"The law is {self}, which has no table: draw or secrets is needed.")
        values, weights = table(self.number)
        return np.asarray(values), np.asarray(weights)

    @checked
    def support(self, modulus: Modulus) -> tuple[Int[np.ndarray, " s"], Float[np.ndarray, " s"]]:
        """The values, centred mod q and in increasing order, that one number can have, and their probabilities.

        ValueError if there are more than 2^22 values, or the entries of a vector are dependent.
        """
        return _support(self, modulus)

    @checked
    def draw(self, size: NonNegativeInt, modulus: Modulus, *, rng: Rng = None) -> Int[np.ndarray, " size"]:
        """That many numbers, centred mod q."""
        require_memory(f"size is {shown(size)}: a draw", 24 * size, advice="draw fewer numbers")
        generator = random_generator(rng)
        if self.kind == "uniform":
            return centred(generator.integers(modulus, size=size), modulus)
        if self.kind == "gaussian":
            return centred(np.rint(generator.normal(scale=self.number, size=size)), modulus)
        if self.kind == "sparse":
            self._require_room(size)
            vector = np.zeros(size, dtype=np.int64)
            places = generator.choice(size, size=self.number, replace=False)
            vector[places] = generator.choice([-1, 1], size=self.number)
            return centred(vector, modulus)
        values, weights = self.support(modulus)
        return generator.choice(values, size=size, p=weights)

    @checked
    def is_uniform(self, modulus: Modulus) -> bool:
        """Whether all residues have equal probability, to 1e-15; then the support need not be listed."""
        if self.kind in ("uniform", "sparse"):
            return self.kind == "uniform"
        values, weights = self.support(modulus)
        return len(values) == modulus and bool(np.all(np.abs(weights - 1 / modulus) <= _ALIKE))

    @checked
    def error_rate(self, modulus: Modulus) -> float:
        """The probability that one number is not 0 mod q."""
        if self.kind == "uniform":
            return 1 - 1 / modulus
        values, weights = self.support(modulus)
        return float(weights[values != 0].sum())

    @checked
    def secrets(self, size: Annotated[int, Whole(0, 2**62)], modulus: Modulus) -> float:
        """log2 of how many vectors of that size it can draw."""
        if self.kind == "sparse":
            self._require_room(size)
            return math.log2(math.comb(size, self.number)) + (0 if modulus == 2 else self.number)
        values = modulus if self.kind == "uniform" else len(self.support(modulus)[0])
        return size * math.log2(values)

    @checked
    def allows(self, vector: ArrayLike, modulus: Modulus) -> bool:
        """Whether it can draw this vector, mod q."""
        entries = centred(whole_array("vector", vector), modulus)
        if self.kind == "uniform":
            return True
        if self.kind == "sparse":
            used = entries[entries != 0]
            return len(used) == self.number and bool(np.all(np.abs(used) == 1))
        return bool(np.isin(entries, self.support(modulus)[0]).all())

    def _require_room(self, size: int) -> None:
        if self.number > size:
            raise ValueError(
                f"weight is {self.number}: at most the {size} entries of the secret can be nonzero."
            )


@lru_cache(maxsize=8)
def _support(law: IntegerLaw, modulus: int) -> tuple[Int[np.ndarray, " s"], Float[np.ndarray, " s"]]:
    least = -((modulus - 1) // 2)
    if law.kind == "uniform":
        if modulus > _MOST_VALUES:
            raise ValueError(
                f"modulus is {modulus}: at most 2^22 values are listed one by one; take a smaller modulus."
            )
        values, weights = np.arange(least, least + modulus), np.full(modulus, 1 / modulus)
    else:
        values, weights = law.table()
        if values[0] < least or values[-1] >= least + modulus:
            weights = np.bincount(np.mod(values - least, modulus), weights=weights, minlength=modulus)
            values = np.arange(least, least + modulus)
    listed = weights > 0
    values, weights = values[listed], weights[listed] / weights[listed].sum()
    values.flags.writeable = weights.flags.writeable = False
    return values, weights


def UniformLaw() -> IntegerLaw:
    """All residues with equal probability. If q is above 2^22, its support is not listed: check `is_uniform` first."""
    return IntegerLaw("uniform")


def BinaryLaw() -> IntegerLaw:
    """0 and 1 with equal probability."""
    return IntegerLaw("binary")


def TernaryLaw() -> IntegerLaw:
    """-1, 0 and 1 with equal probability."""
    return IntegerLaw("ternary")


def BinomialLaw(eta: int) -> IntegerLaw:
    """Centred binomial: the difference of two sums of `eta` fair bits, at most 2^16; variance eta/2."""
    return IntegerLaw("binomial", eta)


def GaussianLaw(sigma: float) -> IntegerLaw:
    """A normal variable of mean 0 and standard deviation `sigma`, at most 2^17, rounded to the nearest whole number.

    Values beyond 12 sigma and those of probability below 1e-30 are left out of its table.
    """
    return IntegerLaw("gaussian", sigma)


def FlipLaw(rate: float) -> IntegerLaw:
    """1 with probability `rate`, at most 1/2, else 0: label flips for q = 2."""
    return IntegerLaw("flip", rate)


def SparseLaw(weight: int) -> IntegerLaw:
    """Exactly `weight` entries of a vector are -1 or 1, fair and independent, at random places; the others 0."""
    return IntegerLaw("sparse", weight)


def ZeroLaw() -> IntegerLaw:
    """Always 0: as the law of errors it means no noise, as the law of secrets a constant label."""
    return IntegerLaw("zero")


UNIFORM = UniformLaw()
NO_NOISE = ZeroLaw()


@checked
def law_words(law: IntegerLaw) -> str:
    """The words of a law as files hold them; ValueError for a law of one's own, which no reader of a file knows."""
    if type(law) is not IntegerLaw or law.kind not in _KINDS:
        raise ValueError(
            f"The law {law} is of the type {type(law).__name__}: files hold {', '.join(_KINDS)}. Take one of these, or "
            "use samples in memory."
        )
    return law.words


@checked
def parse_law(text: str) -> IntegerLaw:
    """The law in words such as "ternary", "sparse:4" or "gaussian:3.2": the inverse of `IntegerLaw.words`.

    A ValueError if there is none of that name, or its number is wrong.

    Examples
    --------
    >>> parse_law("binomial:2") == BinomialLaw(2)
    True
    """
    kind, colon, number = text.partition(":")
    if kind not in _KINDS:
        raise ValueError(f"The law is {shown(text)}: one of {', '.join(_KINDS)} is needed.")
    try:
        value = (int(number) if number.isdecimal() else float(number)) if colon else None
    except ValueError:
        raise ValueError(f"The law is {shown(text)}: a number is needed after the colon.") from None
    return IntegerLaw(kind, value)
