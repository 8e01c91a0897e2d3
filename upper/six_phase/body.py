"""Phases 2 and 4, second half: the convex body of all attention matrices that the certified rows allow."""

from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from attention._arrays import count, non_negative
from upper.six_phase.agreement import Contrasts

__all__ = ["NEGLIGIBLE_MISFIT", "ConvexBody", "EmptyBodyError", "contradictory", "require_body", "sculpt"]

NEGLIGIBLE_MISFIT = 0.05
"""Equations that hold up to so few logits are met, whatever their size: heads without attention have such."""

_LEAST_EXPLAINED = 0.5
# A weight of a pattern changes by at most a quarter of what its logit does; twice that for the size of what is read.
_LOGITS_A_RESIDUAL = 8.0


class EmptyBodyError(ValueError):
    """No matrix within the radius satisfies the equations up to the tolerance."""


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

    def contains(self, theta: Float[np.ndarray, "d d"]) -> bool:
        """Whether Theta is in K."""

    def min_norm_point(self) -> Float[np.ndarray, "d d"]:
        """The point of K with the least Frobenius norm: the proxy of the average head."""

    def maximise(self, direction: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "d d"]:
        """A point of K at which <direction, Theta> is largest."""

    def wide_directions(self, number: int) -> Float[np.ndarray, "number d d"]:
        """Orthonormal directions in which K is widest, the widest first."""


def sculpt(
    contrasts: Contrasts,
    *,
    body: Literal["ellipsoid", "polytope"] = "ellipsoid",
    tolerance: float | None = None,
    radius: float | None = None,
    wide: int | None = None,
) -> ConvexBody:
    """The set K of matrices that satisfy the certified equations up to a tolerance and have norm at most `radius`.

    Parameters
    ----------
    contrasts : Contrasts
        The equations, at least d^2 of them for a thin body.
    body : "ellipsoid" or "polytope"
        Whether the equations hold up to the tolerance in weighted root mean square, or every one of them.
    tolerance : float, optional
        In logits; by default large enough that K is not empty, see the bodies.
    radius : float, optional
        R, in the Frobenius norm (ellipsoid) or in the largest entry (polytope); by default a multiple of the
        norm of the least-squares solution.
    wide : int, optional
        The number of wide directions the default tolerance leaves room for, m - 1 for m heads; by default found from
        the gap in the spectrum.

    Raises
    ------
    EmptyBodyError
        If K is empty at the given tolerance or radius.
    ValueError
        If there is no equation, or a parameter is out of range.

    Notes
    -----
    Guarantee: every head of norm at most `radius` that satisfies the equations up to `tolerance` is in K, whatever else
    is; the default radius is made for heads of comparable norm and nearly orthogonal. As equations on
    agreeing rows hold for all heads, they hold on the heads' affine hull, and with more than about d^2 of them K is
    thin in all other directions.

    References
    ----------
    Chen and Li, arXiv 2402.04084, phases 2 and 4; the two bodies are derived here.
    """
    from upper.six_phase.ellipsoid import Ellipsoid
    from upper.six_phase.polytope import Polytope

    kinds: dict[str, Any] = {"ellipsoid": Ellipsoid, "polytope": Polytope}
    if not isinstance(contrasts, Contrasts):
        raise ValueError(f"contrasts is a {type(contrasts).__name__}: what contrasts_of gives is needed.")
    if not isinstance(body, str) or body not in kinds:
        raise ValueError(f"body is {body!r}: {' or '.join(map(repr, kinds))} is needed.")
    if len(contrasts) == 0:
        raise ValueError("There is no certified row to sculpt with: certify some first.")
    if tolerance is not None:
        tolerance = non_negative("tolerance", tolerance, strictly=True)
    if radius is not None:
        radius = non_negative("radius", radius, strictly=True)
    if wide is not None:
        wide = count("wide", wide, least=0)
    made: ConvexBody = kinds[body].from_contrasts(contrasts, tolerance=tolerance, radius=radius, wide=wide)
    return made


def contradictory(misfit: float, explained: float, residual: float) -> bool:
    """Whether equations contradict one another, although each was certified.

    Parameters
    ----------
    misfit : float
        What the best matrix leaves, in logits.
    explained : float
        What share of the equations' mean square it explains.
    residual : float
        The relative residual up to which rows were certified: rows agree up to about eight times that, in logits.

    Notes
    -----
    A rule of thumb, derived here. What is left may be the size of the equations themselves when that is small: the
    affine hull of the heads passes near zero then, as it does for heads of opposite sign or without attention.
    """
    allowed = max(NEGLIGIBLE_MISFIT, _LOGITS_A_RESIDUAL * residual)
    return bool(misfit > allowed and explained < _LEAST_EXPLAINED)


def require_body(body: Any) -> None:
    """Complain, in a sentence, of what is no body, as where the hull that holds one is given in its place."""
    if not isinstance(body, ConvexBody):
        raise ValueError(f"body is a {type(body).__name__}: a convex body is needed, such as hull.body.")
