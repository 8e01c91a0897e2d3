"""The sizes of secrets and errors, as the estimates of costs use them."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from lwe.distributions import NO_NOISE
from lwe.parameters import LWEParameters

_LEAST_CHARACTER = 1e-15  # smaller values are rounding errors
_LEAST_BITS = 1e-12  # if a label has less information, it is a rounding error
_LEAST_LOG2_ERROR = math.log2(1e-3)  # lattices have no vectors of length 0
_LOG2_UNIFORM = -0.5 * math.log2(12)  # of the deviation of a uniform residue, less log2 q


@dataclass(frozen=True)
class Deviations:
    """Means and standard deviations of the entries of a secret and of the errors, rounding included."""

    #: entries of the secret, the modulus, and the number of samples, infinite if there is no limit
    n: int
    q: int
    samples: float
    #: of an entry of the secret, centred mod q
    secret_mean: float
    log2_secret: float
    #: of the errors added before rounding; rounding itself has mean 0 about the middle of its interval
    error_mean: float
    log2_error: float  #: of rounding and of what is added before it, together
    small_secret: bool  #: whether the secret's entries are smaller than uniform ones
    #: the variance of an entry of the public matrix if it is a bit or a trit; 0 if it is uniform mod q
    column: float
    secret_bits: float  #: the entropy of the secret
    #: the most bits of information that a label has about the inner product; 0 if they are a rounding error
    label_bits: float

    @property
    def secret(self) -> float:
        """The standard deviation of an entry of the secret; infinite beyond floating point."""
        return _power(self.log2_secret)

    @property
    def error(self) -> float:
        """The standard deviation of an error; infinite beyond floating point."""
        return _power(self.log2_error)

    @property
    def log_secret(self) -> float:
        """The natural logarithm of the deviation of an entry of the secret, at least that of 1/1000, as for errors."""
        return max(self.log2_secret, _LEAST_LOG2_ERROR) * math.log(2)

    @property
    def log_error(self) -> float:
        """The natural logarithm of the deviation of an error, at least that of 1/1000: no vector has length 0."""
        return max(self.log2_error, _LEAST_LOG2_ERROR) * math.log(2)


def _power(exponent: float) -> float:
    return 2.0**exponent if exponent < 1000 else math.inf


@lru_cache(maxsize=256)
def deviations(parameters: LWEParameters) -> Deviations:
    """The means and standard deviations of a problem.

    Notes
    -----
    After rounding to p levels, <v, a> mod q is uniform in an interval of about q/p integers. This is an error of
    variance ((q/p)^2 - 1)/12 about its middle. O(s) for distributions of s values, for any q.
    """
    n, q, p, secret, noise = parameters.n, parameters.q, parameters.p, parameters.Xs, parameters.Xe
    errors = parameters.m or 1  # only fixed weights depend on it
    of_secret, of_errors = secret.statistics(n, q), noise.statistics(errors, q)
    log2_secret = of_secret.log2_deviation
    log2_width = math.log2(q) - math.log2(p)
    log2_rounding = -math.inf
    if p < q:
        log2_rounding = log2_width + _LOG2_UNIFORM + 0.5 * math.log1p(-((p / q) ** 2)) / math.log(2)
    label_bits = min(math.log2(p), math.log2(q) - of_errors.entropy / errors)
    return Deviations(
        n,
        q,
        math.inf if parameters.m is None else float(parameters.m),
        of_secret.mean,
        log2_secret,
        of_errors.mean,
        0.5 * float(np.logaddexp2(2 * log2_rounding, 2 * of_errors.log2_deviation)),
        small_secret=not secret.is_uniform(q) and log2_secret < math.log2(0.9) + math.log2(q) + _LOG2_UNIFORM,
        column={"binary": 0.25, "ternary": 0.5}.get(parameters.matrix, 0.0),
        secret_bits=of_secret.entropy,
        label_bits=label_bits if label_bits > _LEAST_BITS else 0.0,
    )


def lengths_tell(parameters: LWEParameters) -> bool:
    """Whether short vectors carry information on the secret.

    They do not for q = 2, for errors as wide as q or uniform mod q, or if there is only one secret.
    """
    sizes = deviations(parameters)
    return (
        sizes.q > 2
        and sizes.log2_secret > -math.inf
        and sizes.log2_error < math.log2(0.95) + _LOG2_UNIFORM + math.log2(sizes.q)
        and sizes.label_bits > 0
    )


def normal_form(parameters: LWEParameters) -> Deviations | None:
    """The problem with the wider of secret and errors as errors; None unless the matrix is uniform and `lengths_tell`.

    References
    ----------
    Applebaum, Cash, Peikert and Sahai 2009: with n samples, the secret can be replaced by one with the distribution of
    the errors.
    """
    if parameters.matrix != "uniform" or not lengths_tell(parameters):
        return None
    sizes = deviations(parameters)
    sizes = replace(sizes, log2_error=max(sizes.log2_error, _LEAST_LOG2_ERROR))
    n, known, secret, error = sizes.n, sizes.samples, sizes.log2_secret, sizes.log2_error
    if error < secret and known >= 2 * n:
        return replace(sizes, samples=known - n, log2_secret=error)
    if error < secret and known == n:
        return replace(sizes, log2_secret=error, log2_error=secret)
    return sizes


def error_character(parameters: LWEParameters) -> float:
    """|E exp(2 pi i e / q)| of one error e, rounding included: the advantage of a sample for a Fourier transform.

    Notes
    -----
    Rounding is taken as independent of the error before it and uniform on an interval of q/p integers. This is exact if
    p divides q. For q = 2 and flips at rate r the result is 1 - 2 r. A result below 1e-15 is taken as 0. O(s) for
    errors of s values, for any q.
    """
    q, p = parameters.q, parameters.p
    rounding = 1.0
    if p < q:  # sin(pi / p) over (q / p) sin(pi / q), which is pi / p where q is large
        rounding = math.sin(math.pi / p) / ((q / p) * math.sin(math.pi / q) if q < 1 << 60 else math.pi / p)
    noise = parameters.Xe
    if noise == NO_NOISE:
        return abs(rounding)
    if noise.is_uniform(q):
        return 0.0
    if noise.listed:
        values, weights = parameters.error_support()
        of_noise = float(abs(np.sum(weights * np.exp(2j * np.pi * values / float(min(q, 1 << 1000))))))
    else:
        of_noise = math.exp(
            -2 * math.pi**2 * 4.0 ** min(deviations(parameters).log2_error - math.log2(q), 5.0)
        )
    return abs(rounding) * of_noise if of_noise > _LEAST_CHARACTER else 0.0
