"""How large secrets and errors are: the means and standard deviations that lattice attacks weigh with."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float

from lwe.laws import NO_NOISE, GaussianLaw, IntegerLaw, SparseLaw
from lwe.parameters import LWRParameters, require_parameters

__all__ = ["Deviations", "deviations", "error_character", "law_on_grid"]

_GRID = (1 << 16) + 1  # odd: as many values below 0 as above
_LEAST_CHARACTER = 1e-15  # below it nothing but rounding is left


@dataclass(frozen=True)
class Deviations:
    """Means and standard deviations of the entries of a secret and of the errors, rounding included.

    Attributes
    ----------
    secret_mean, secret : float
        Of an entry of the secret, centred mod q.
    error_mean : float
        Of the errors added before rounding; rounding itself has mean 0 about the middle of its interval.
    error : float
        Of rounding and of what is added before it, together.
    small_secret : bool
        Whether the secret's entries are smaller than uniform ones.
    column : float
        E a^2 about the mean of an entry of the public matrix where it is a bit or a trit; 0 where it is uniform mod q.
    """

    secret_mean: float
    secret: float
    error_mean: float
    error: float
    small_secret: bool
    column: float


@lru_cache(maxsize=256)
def deviations(parameters: LWRParameters) -> Deviations:
    """The means and standard deviations of a problem.

    Notes
    -----
    Rounding to p levels leaves <v, a> mod q uniform in an interval of about q/p integers, an error of variance
    ((q/p)^2 - 1)/12 about its middle. O(s) for laws of s values, whatever q.

    Examples
    --------
    >>> found = deviations(LWRParameters(secret_dim=16, modulus=128, levels=8))
    >>> round(found.error, 3), found.small_secret, found.column
    (4.61, False, 0.25)
    """
    require_parameters(parameters)
    q, p = parameters.modulus, parameters.levels
    secret_mean, secret = _moments(parameters.secret, parameters.secret_dim, q)
    error_mean, noise = _moments(parameters.noise, 1, q)
    rounding = max((q / p) ** 2 - 1, 0) / 12
    return Deviations(
        secret_mean,
        secret,
        error_mean,
        math.sqrt(rounding + noise**2),
        small_secret=not parameters.secret.is_uniform(q) and secret < 0.9 * q / math.sqrt(12),
        column={"binary": 0.25, "ternary": 0.5}.get(parameters.matrix, 0.0),
    )


def error_character(parameters: LWRParameters) -> float:
    """|E exp(2 pi i e / q)| of one error e, rounding included: what a sample is worth to a Fourier transform.

    Notes
    -----
    Rounding is taken as independent of the error before it and uniform on an interval of q/p integers; exact where p
    divides q. For q = 2 and flips at rate r it is 1 - 2 r. O(s) for errors of s values, whatever q; in closed form for
    rounded Gaussians of sigma above 1000. Below 1e-15 it is taken as 0.

    Examples
    --------
    >>> round(error_character(LWRParameters(secret_dim=16, modulus=1024, levels=2)), 4)
    0.6366
    """
    require_parameters(parameters)
    q, p = parameters.modulus, parameters.levels
    width = q / p
    rounding = 1.0 if width <= 1 else math.sin(math.pi * width / q) / (width * math.sin(math.pi / q))
    if parameters.noise == NO_NOISE:
        return abs(rounding)
    if parameters.noise.is_uniform(q):
        return 0.0
    noise = parameters.noise
    if isinstance(noise, GaussianLaw) and noise.sigma > 1000:
        # to whole numbers it is rounded by an error that is as good as uniform
        of_noise = math.exp(-2 * (math.pi * noise.sigma / q) ** 2) * math.sin(math.pi / q) * q / math.pi
    else:
        values, weights = noise.support(q)
        of_noise = float(abs(np.sum(weights * np.exp(2j * np.pi * values / q))))
    return abs(rounding) * of_noise if of_noise > _LEAST_CHARACTER else 0.0


def law_on_grid(
    law: IntegerLaw, modulus: int
) -> tuple[Float[np.ndarray, " s"], Float[np.ndarray, " s"], float]:
    """The values of a law mod q, their probabilities, and the distance of two: 1, or q/65537 for wide Gaussians.

    Raises
    ------
    ValueError
        If it is another law of more than 2^24 values, or its entries depend on one another.

    Notes
    -----
    A rounded Gaussian of sigma above q/40 that wraps around mod q is the same in coarser units, up to what rounding
    adds to the variance: less than a share of 1e-7. Derived here.
    """
    if isinstance(law, GaussianLaw) and modulus > _GRID and law.sigma >= modulus / 40:
        width = modulus / _GRID
        values, weights = GaussianLaw(law.sigma / width).support(_GRID)
        return values * width, weights, width
    values, weights = law.support(modulus)
    return values.astype(np.float64), weights, 1.0


def _moments(law: IntegerLaw, size: int, modulus: int) -> tuple[float, float]:
    if isinstance(law, SparseLaw):  # its entries depend on one another; signs are fair
        return 0.0, math.sqrt(min(law.weight / size, 1.0))
    if law.is_uniform(modulus):
        return 0.0, math.sqrt((modulus**2 - 1) / 12)
    if isinstance(law, GaussianLaw) and 1 < law.sigma < modulus / 40:  # too wide to list, too narrow to wrap
        return 0.0, math.sqrt(law.sigma**2 + 1 / 12)
    values, weights, _ = law_on_grid(law, modulus)
    mean = float(np.sum(weights * values))
    return mean, math.sqrt(max(float(np.sum(weights * (values - mean) ** 2)), 0.0))
