"""The convex body K of all attention matrices that the certified rows allow: what the phases ask of one."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from attention.validation import count, real_array

__all__ = ["ConvexBody", "EmptyBodyError", "SpectralGap", "require_body", "spectral_gap"]

# A smaller step of a spectrum is none.
_LEAST_STEP = 1.5


class EmptyBodyError(ValueError):
    """No matrix within the radius satisfies the equations up to the tolerance."""


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

    @property
    def measures(self) -> dict[str, float | int]:
        """What the trace says of it: nothing where no step was asked for."""
        sought = self.wide > 0 or np.isfinite(self.ratio)
        return {"gap": min(self.ratio, 1e300)} if sought else {}


def spectral_gap(spectrum: Float[np.ndarray, " s"], *, wide: int | None = None) -> SpectralGap:
    """The sharpest relative step in an ascending spectrum, or the step after a given number of values.

    Parameters
    ----------
    spectrum : array (s,)
        The smallest eigenvalues, ascending, at least one of them beyond the step.
    wide : int, optional
        Measure the step after so many values instead of looking for it. Without it a step below 1.5 is none: then all
        directions are alike, and `wide` is 0.

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
    if wide is not None:
        wide = count("wide", wide, least=0)
        if wide >= len(values):
            raise ValueError(
                f"There are {len(values)} directions to choose from: more than the {wide} wide ones are needed."
            )
        return SpectralGap(wide, _ratio(values[wide], values[wide - 1]) if wide else np.inf)
    ratios = [_ratio(high, low) for low, high in pairwise(values)]
    best = int(np.argmax(ratios)) if ratios else 0
    if not ratios or ratios[best] < _LEAST_STEP:
        return SpectralGap(0, ratios[best] if ratios else 1.0)
    return SpectralGap(best + 1, ratios[best])


def _ratio(high: float, low: float) -> float:
    if low > 0:
        return float(high / low)
    return float("inf") if high > 0 else 1.0


@runtime_checkable
class ConvexBody(Protocol):
    """What the paper asks of the body K: membership, its point of least norm, linear maximisation, wide directions."""

    @property
    def centre(self) -> Float[np.ndarray, "d d"]:
        """A point in the middle of K, on the affine hull of the heads up to the body's thickness."""

    @property
    def radius(self) -> float:
        """R: K lies in the set of matrices of norm at most R; which norm is the body's own matter."""

    @property
    def largest_norm(self) -> float:
        """A bound on the Frobenius norm in K."""

    @property
    def tolerance(self) -> float:
        """Up to what the equations hold in K, in logits."""

    @property
    def misfit_at_centre(self) -> float:
        """Up to what they hold at the centre, in logits."""

    @property
    def explained(self) -> float:
        """1 - (misfit / size)^2 of the best matrix, in root mean square: near 0 when the equations contradict."""

    @property
    def spectrum(self) -> Float[np.ndarray, " s"]:
        """How curved K is along its widest directions, ascending: small is wide. Empty for a body without one."""

    @property
    def gap(self) -> SpectralGap | None:
        """How many directions are wide, and the step of the spectrum after them; None for a body without one."""

    def contains(self, theta: Float[np.ndarray, "d d"]) -> bool:
        """Whether Theta is in K."""

    def min_norm_point(self) -> Float[np.ndarray, "d d"]:
        """The point of K with the least Frobenius norm: the proxy of the average head."""

    def maximise(self, direction: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "d d"]:
        """A point of K at which <direction, Theta> is largest."""

    def wide_directions(self, number: int) -> Float[np.ndarray, "number d d"]:
        """Orthonormal directions in which K is widest, the widest first."""

    def with_tolerance(self, tolerance: float) -> "ConvexBody":
        """The body of the same equations up to another tolerance."""


def require_body(body: Any) -> None:
    """Complain, in a sentence, of what is no body, as where the hull that holds one is given in its place."""
    if not isinstance(body, ConvexBody):
        raise ValueError(f"body is a {type(body).__name__}: a convex body is needed, such as hull.body.")
