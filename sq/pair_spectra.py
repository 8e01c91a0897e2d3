"""The correlations of two secrets by degree, by enumeration of all inputs: for families without a formula."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from jaxtyping import Float

from attention.validation import checked
from lower import SecretPairs
from lower.walsh import walsh_hadamard
from sq.gram import hidden_values
from sq.target_family import TargetFamily

__all__ = ["enumerated_pairs"]

_MOST_TARGETS = 256
_ROUNDING = 1e-14  # of a correlation


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
        raise ValueError(f"There are {size} targets: at most {_MOST_TARGETS} are enumerated.")
    every = [(one, other) for one in range(size) for other in range(size)]
    return SecretPairs([Fraction(1, size**2)] * size**2, _correlations(family, every))


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
