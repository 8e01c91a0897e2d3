"""The correlations of two secrets by degree, by enumeration of all inputs: for families without a formula."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated

import numpy as np
from jaxtyping import Float

from attention.inputs import Rng
from attention.intervals import Interval, mean_interval
from attention.validation import PositiveInt, Whole, checked, random_generator
from lower import SecretPairs
from lower.walsh import walsh_hadamard
from sq.gram import hidden_values
from sq.target_family import TargetFamily

__all__ = ["enumerated_pairs", "sampled_squared_advantage"]

_MOST_TARGETS = 256
_ROUNDING = 1e-14  # of a correlation
_CONFIDENCE = 0.9995  # of each of two intervals, so .999 of both


@checked
def enumerated_pairs(family: TargetFamily) -> SecretPairs:
    """The `SecretPairs` of a family from its hidden parts alone: Walsh-Hadamard transforms over all inputs.

    ValueError if the inputs have more than 24 bits, or there are more than 256 targets. O(N k^2 d 2^(k d)) operations.

    Examples
    --------
    >>> from sq import PairFamily
    >>> family = PairFamily(dim=4)
    >>> found = enumerated_pairs(family).squared_advantage(samples=12, degree=4)
    >>> round(float(found), 12), family.secret_pairs.squared_advantage(samples=12, degree=4)
    (1.0, Fraction(1, 1))
    """
    size = family.secrets.size
    if size > _MOST_TARGETS:
        raise ValueError(
            f"There are {size} targets: at most {_MOST_TARGETS} are enumerated; sampled_squared_advantage draws pairs."
        )
    every = [(one, other) for one in range(size) for other in range(size)]
    return SecretPairs([Fraction(1, size**2)] * size**2, _correlations(family, every))


@checked
def sampled_squared_advantage(
    family: TargetFamily,
    *,
    samples: PositiveInt,
    degree: Annotated[int, Whole(1, 512)],
    draws: Annotated[int, Whole(2, 10_000)],
    rng: Rng = None,
) -> Interval:
    """A 99.9 % interval of the squared low-degree advantage from random pairs of secrets; inputs are enumerated.

    `draws` pairs of equal secrets and as many of different ones are drawn apart, because equal ones are rare and
    correlate most. Label means are scaled by the largest |f| of the drawn targets. ValueError if the inputs have more
    than 24 bits.

    Examples
    --------
    >>> from sq import PairFamily
    >>> found = sampled_squared_advantage(PairFamily(dim=4), samples=12, degree=4, draws=5, rng=0)
    >>> round(found.low, 12), round(found.high, 12)
    (1.0, 1.0)
    """
    generator, size = random_generator(rng), family.secrets.size
    drawn = [family.secrets.draw(generator) for _ in range(draws)]
    pairs = [(one, one) for one in drawn]
    while size > 1 and len(pairs) < 2 * draws:
        one, other = (family.secrets.draw(generator) for _ in range(2))
        pairs += [(one, other)] * (one != other)
    found = SecretPairs([Fraction(1, len(pairs))] * len(pairs), _correlations(family, pairs))
    shares = np.array([float(one) for one in found.shares(samples, degree)])
    low = estimate = high = 0.0
    for weight, those in ((1 / size, shares[:draws]), (1 - 1 / size, shares[draws:])):
        if len(those):
            part = mean_interval(those, confidence=_CONFIDENCE)
            low, estimate, high = (
                low + weight * part.low,
                estimate + weight * part.estimate,
                high + weight * part.high,
            )
    return Interval(
        low, estimate, high, 2 * _CONFIDENCE - 1, "Student's t, equal and different secrets apart"
    )


def _correlations(family: TargetFamily, pairs: Sequence[tuple[int, int]]) -> list[list[float]]:
    """The correlation of the label means of each pair at every degree, the mean over rows."""
    values = {
        number: hidden_values(family, number) for number in sorted({one for pair in pairs for one in pair})
    }
    largest = max(float(np.abs(one).max()) for one in values.values())
    spectra = {number: walsh_hadamard(one) / largest for number, one in values.items()}
    degrees = np.bitwise_count(np.arange(1 << (family.tokens * family.dim)))
    rows = []
    for one, other in pairs:
        products: Float[np.ndarray, " n"] = (spectra[one] * spectra[other]).mean(axis=0)
        row = np.bincount(degrees, weights=products)
        rows.append(np.where(np.abs(row) > _ROUNDING, row, 0.0).tolist())
    return rows
