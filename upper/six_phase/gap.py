"""The gap in a body's spectrum: how many directions of a body are wide, and how clearly."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from attention._arrays import count, non_negative, real_array

__all__ = ["SpectralGap", "spectral_gap"]


@dataclass(frozen=True)
class SpectralGap:
    """Where the sharpest step of a spectrum lies.

    Attributes
    ----------
    wide : int
        The number of values below the step: m - 1 for the body of m heads in general position.
    ratio : float
        The first value above the step over the last below; infinite if that is zero. Where no step is large enough,
        the largest there is; infinite where none was asked for.
    """

    wide: int
    ratio: float


def spectral_gap(
    spectrum: Float[np.ndarray, " s"], *, wide: int | None = None, least: float = 1.5
) -> SpectralGap:
    """The sharpest relative step in an ascending spectrum, or the step after a given number of values.

    Parameters
    ----------
    spectrum : array (s,)
        The smallest eigenvalues, ascending, at least one of them beyond the step.
    wide : int, optional
        Measure the step after so many values instead of looking for it.
    least : float
        A step below this ratio is none: then all directions are alike, and `wide` is 0.

    Raises
    ------
    ValueError
        If the spectrum is too short for `wide`.

    Notes
    -----
    The bulk of the spectrum of N random equations in D unknowns begins at about (1 - sqrt(D/N))^2 and its
    neighbouring values differ by a few per cent (Marchenko and Pastur), so a step of 1.5 is no accident of the bulk
    from D of a few hundred on; at small d it can be (measured at d = 8). Derived here.

    Examples
    --------
    >>> spectral_gap(np.array([0.01, 0.02, 0.5, 0.51]))
    SpectralGap(wide=2, ratio=25.0)
    >>> spectral_gap(np.array([0.5, 0.51, 0.52])).wide
    0
    """
    values = np.maximum(real_array("spectrum", spectrum, ("values",)), 0.0)
    least = non_negative("least", least)
    if wide is not None:
        wide = count("wide", wide, least=0)
        if wide >= len(values):
            raise ValueError(
                f"There are {len(values)} directions to choose from: more than the {wide} wide ones are needed."
            )
        if wide == 0:
            return SpectralGap(0, np.inf)
        return SpectralGap(wide, _ratio(values[wide], values[wide - 1]))
    ratios = [_ratio(high, low) for low, high in pairwise(values)]
    best = int(np.argmax(ratios)) if ratios else 0
    if not ratios or ratios[best] < least:
        return SpectralGap(0, ratios[best] if ratios else 1.0)
    return SpectralGap(best + 1, ratios[best])


def _ratio(high: float, low: float) -> float:
    if low > 0:
        return float(high / low)
    return float("inf") if high > 0 else 1.0
