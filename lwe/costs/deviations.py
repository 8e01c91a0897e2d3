"""The sizes of secrets and errors, as the estimates of costs use them."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import numpy as np

from attention.validation import PositiveFloat, PositiveInt, Whole, checked
from lwe.laws import NO_NOISE, IntegerLaw
from lwe.parameters import LARGEST_MODULUS, LWRParameters

__all__ = ["Deviations", "PlainLWE", "deviations", "error_character"]

_LEAST_CHARACTER = 1e-15  # smaller values are rounding errors
_LEAST_BITS = 1e-12  # if a label has less information, it is a rounding error


@dataclass(frozen=True)
@checked
class PlainLWE:
    """Learning with Gaussian errors, a uniform public matrix and a large modulus: for estimates alone.

    Examples
    --------
    >>> from lwe.laws import TernaryLaw
    >>> print(PlainLWE(1024, 2**64, TernaryLaw(), 3.19))
    LWE n=1024 q=2^64 secret=ternary sigma=3.19
    """

    secret_dim: PositiveInt  #: n
    modulus: Annotated[int, Whole(2, 1 << 1000)]  #: q, from 2 to 2^1000
    secret: IntegerLaw  #: of the entries of the secret
    sigma: PositiveFloat  #: standard deviation of the errors

    @property
    def matrix(self) -> str:
        """Uniform."""
        return "uniform"

    def __str__(self) -> str:
        q = self.modulus
        shown = f"2^{q.bit_length() - 1}" if q > LARGEST_MODULUS and q & (q - 1) == 0 else str(q)
        return f"LWE n={self.secret_dim} q={shown} secret={self.secret} sigma={self.sigma:g}"


@dataclass(frozen=True)
class Deviations:
    """Means and standard deviations of the entries of a secret and of the errors, rounding included."""

    #: entries of the secret, and the modulus
    n: int
    q: int
    #: of an entry of the secret, centred mod q
    secret_mean: float
    secret: float
    #: of the errors added before rounding; rounding itself has mean 0 about the middle of its interval
    error_mean: float
    error: float  #: of rounding and of what is added before it, together
    small_secret: bool  #: whether the secret's entries are smaller than uniform ones
    #: the variance of an entry of the public matrix if it is a bit or a trit; 0 if it is uniform mod q
    column: float
    secret_bits: float  #: the entropy of the secret
    #: the most bits of information that a label has about the inner product; 0 if they are a rounding error
    told: float
    weight: float  #: the expected number of entries of the secret that are not zero
    nonzero: int | None  #: values besides 0 that an entry may take; None for Gaussian and uniform laws


@checked
def deviations(parameters: LWRParameters | PlainLWE) -> Deviations:
    """The means and standard deviations of a problem.

    Notes
    -----
    After rounding to p levels, <v, a> mod q is uniform in an interval of about q/p integers. This is an error of
    variance ((q/p)^2 - 1)/12 about its middle. O(s) for laws of s values, for any q.
    """
    return _deviations(parameters)


@lru_cache(maxsize=256)
def _deviations(parameters: LWRParameters | PlainLWE) -> Deviations:
    n, q, law = parameters.secret_dim, parameters.modulus, parameters.secret
    secret_mean, secret = _moments(law, n, q)
    uniform = _is_uniform(law, q)
    if isinstance(parameters, PlainLWE):
        error_mean, error = 0.0, parameters.sigma
        told = math.log2(q) - math.log2(error) - 0.5 * math.log2(2 * math.pi * math.e)
    else:
        error_mean, noise = _moments(parameters.noise, 1, q)
        rounding = max((q / parameters.levels) ** 2 - 1, 0) / 12
        error = math.sqrt(rounding + noise**2)
        told = min(math.log2(parameters.levels), math.log2(q) - _entropy(parameters.noise, 1, q))
    weight, nonzero = _weight(law, n, q)
    return Deviations(
        n,
        q,
        secret_mean,
        secret,
        error_mean,
        error,
        small_secret=not uniform and secret < 0.9 * q / math.sqrt(12),
        column={"binary": 0.25, "ternary": 0.5}.get(parameters.matrix, 0.0),
        secret_bits=_entropy(law, n, q),
        told=told if told > _LEAST_BITS else 0.0,
        weight=weight,
        nonzero=nonzero,
    )


@checked
def error_character(parameters: LWRParameters) -> float:
    """|E exp(2 pi i e / q)| of one error e, rounding included: the advantage of a sample for a Fourier transform.

    Notes
    -----
    Rounding is taken as independent of the error before it and uniform on an interval of q/p integers. This is exact if
    p divides q. For q = 2 and flips at rate r the result is 1 - 2 r. A result below 1e-15 is taken as 0. O(s) for
    errors of s values, for any q.
    """
    q, p = parameters.modulus, parameters.levels
    width = q / p
    rounding = 1.0 if width <= 1 else math.sin(math.pi * width / q) / (width * math.sin(math.pi / q))
    noise = parameters.noise
    if noise == NO_NOISE:
        return abs(rounding)
    if noise.is_uniform(q):
        return 0.0
    values, weights = noise.support(q)
    of_noise = float(abs(np.sum(weights * np.exp(2j * np.pi * values / q))))
    return abs(rounding) * of_noise if of_noise > _LEAST_CHARACTER else 0.0


def _is_uniform(law: IntegerLaw, modulus: int) -> bool:
    # no other law reaches as far as the largest modulus
    return law.kind == "uniform" if modulus > LARGEST_MODULUS else law.is_uniform(modulus)


def _support(law: IntegerLaw, modulus: int) -> tuple[np.ndarray, np.ndarray]:
    return law.support(min(modulus, LARGEST_MODULUS))


def _moments(law: IntegerLaw, size: int, modulus: int) -> tuple[float, float]:
    if law.kind == "sparse":  # its entries depend on one another; signs are fair
        return 0.0, math.sqrt(min(law.number / size, 1.0))
    if _is_uniform(law, modulus):
        return 0.0, modulus / math.sqrt(12) * math.sqrt(1 - (1 / modulus) ** 2)
    values, weights = _support(law, modulus)
    mean = float(np.sum(weights * values))
    return mean, math.sqrt(max(float(np.sum(weights * (values - mean) ** 2)), 0.0))


def _weight(law: IntegerLaw, size: int, modulus: int) -> tuple[float, int | None]:
    """The expected number of entries that are not zero, and the number of values besides 0 that an entry may take."""
    if law.kind == "sparse":
        return float(law.number), 2
    if law.kind == "gaussian" or _is_uniform(law, modulus):
        return float(size), None
    values, weights = _support(law, modulus)
    return size * float(weights[values != 0].sum()), int(np.count_nonzero(values))


def _entropy(law: IntegerLaw, size: int, modulus: int) -> float:
    """The entropy of `size` numbers, in bits."""
    if _is_uniform(law, modulus):
        return size * math.log2(modulus)
    if law.kind == "sparse":
        return law.secrets(size, min(modulus, LARGEST_MODULUS))
    weights = _support(law, modulus)[1]
    return size * float(-np.sum(weights * np.log2(weights)))
