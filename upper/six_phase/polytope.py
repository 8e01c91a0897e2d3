"""The body K as a polytope, with a tolerance on every certified equation; linear programs by HiGHS."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from upper.six_phase.agreement import Contrasts

__all__ = ["LARGEST_DIM", "Polytope"]

LARGEST_DIM = 20
"""The most coordinates of a polytope; with more, a linear program takes minutes."""

_WIDTH_ROUNDS = 4


@dataclass(frozen=True, eq=False)
class Polytope:
    """K = {Theta: |<v, Theta> - t| <= tolerance / sqrt(w) for every equation, |Theta_ij| <= radius}.

    The tolerance is in logits, for a row of mean weight. `centre` is a point that minimises the largest weighted
    residual, `misfit_at_centre` (Chebyshev). `explained` is 1 - (misfit / size)^2 of the least-squares solution in
    weighted root mean square; it is near 0 if the equations contradict one another. A polytope has no spectrum, and
    `gap` is None.

    Every maximisation is one linear program of d^2 unknowns and 2 N rows (HiGHS); d is at most 20. The point of least
    Frobenius norm is the least-distance problem of Lawson and Hanson, solved exactly by non-negative least squares.
    Wide directions are found by alternation: maximise along a direction both ways, then replace it by the difference of
    the two maximisers.
    Source: Chen and Li, phases 2 and 4; Lawson and Hanson, Solving Least Squares Problems, chapter 23.
    """

    tolerance: float
    radius: float
    centre: Float[np.ndarray, "d d"]
    misfit_at_centre: float
    explained: float
    _equations: Float[np.ndarray, "N d2"] = field(repr=False)
    _right: Float[np.ndarray, " N"] = field(repr=False)
    spectrum: Float[np.ndarray, " 0"] = field(default_factory=lambda: np.zeros(0), repr=False)
    gap: None = None

    @classmethod
    def of(
        cls, contrasts: Contrasts, *, tolerance: float | None = None, radius: float | None = None
    ) -> "Polytope":
        """The polytope of the equations; a ValueError if it is empty, or d is above 20.

        By default, the `tolerance` in logits is three times the smallest one for which K is not empty. The default
        `radius` is four times the largest entry of the least-squares solution.
        """
        d = contrasts.rows.shape[1]
        if d > LARGEST_DIM:
            raise ValueError(
                f"d is {d}: at most {LARGEST_DIM} is feasible for a polytope; use body='ellipsoid'."
            )
        scale = np.sqrt(contrasts.weights / contrasts.weights.mean())
        equations = (scale[:, None, None] * contrasts.formed()).reshape(-1, d * d)
        right = (scale[:, None] * contrasts.log_ratios).ravel()
        least_squares = np.linalg.lstsq(equations, right, rcond=None)[0]
        size, missed = float(np.sum(right**2)), float(np.sum((equations @ least_squares - right) ** 2))
        if radius is None:
            radius = 4 * float(np.abs(least_squares).max()) or 1.0
        column = np.ones((len(right), 1))
        *centre, least = _solution(
            c=np.append(np.zeros(d * d), 1.0),
            A_ub=np.block([[equations, -column], [-equations, -column]]),
            b_ub=np.concatenate([right, -right]),
            bounds=[(-radius, radius)] * (d * d) + [(0, None)],
        ).tolist()
        if tolerance is None:
            # linear programs are accurate to 1e-7; in a thinner body they find no point
            tolerance = max(3 * least, 1e-6 * max(float(np.abs(right).max(initial=0.0)), 1.0))
        if least > tolerance:
            raise ValueError(
                f"No matrix with entries of at most {radius:.3g} satisfies the equations up to {tolerance:.3g} logits "
                f"(the best leaves {least:.3g}): allow a larger tolerance or radius, or certify better rows."
            )
        return cls(
            tolerance=tolerance,
            radius=radius,
            centre=np.reshape(centre, (d, d)),
            misfit_at_centre=least,
            explained=1 - missed / size if size > 0 else 1.0,
            _equations=equations,
            _right=right,
        )

    @property
    def largest_norm(self) -> float:
        """A bound on the Frobenius norm in K: d times the largest entry."""
        return self.radius * len(self.centre)

    def misfit(self, theta: Float[np.ndarray, "d d"]) -> float:
        """The largest weighted residual at Theta, in logits."""
        return float(np.abs(self._equations @ np.asarray(theta).ravel() - self._right).max())

    def contains(self, theta: Float[np.ndarray, "d d"]) -> bool:
        """Whether Theta is in K, to the linear programs' accuracy."""
        within = np.abs(theta).max() <= self.radius * (1 + 1e-6)
        return bool(within and self.misfit(theta) <= self.tolerance * (1 + 1e-6) + 1e-9)

    def min_norm_point(self) -> Float[np.ndarray, "d d"]:
        """The point of K of least Frobenius norm."""
        from scipy.optimize import nnls

        # least distance: minimise |z| subject to G z >= h, by min |[G^T; h^T] u - e|, u >= 0
        entries = np.eye(self.centre.size)
        left = np.concatenate([self._equations, -self._equations, entries, -entries])
        bound = np.concatenate([self._right, -self._right]) - self.tolerance
        bound = np.append(bound, np.full(2 * self.centre.size, -self.radius))
        system = np.vstack([left.T, bound])
        goal = np.zeros(len(system))
        goal[-1] = 1.0
        u, _ = nnls(system, goal, maxiter=30 * system.shape[1])
        rest = system @ u - goal
        return (-rest[:-1] / rest[-1]).reshape(self.centre.shape)

    def maximise(self, direction: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "d d"]:
        """A vertex of K at which <direction, Theta> is largest; one linear program."""
        solution = _solution(
            c=-np.asarray(direction, dtype=np.float64).ravel(),
            A_ub=np.concatenate([self._equations, -self._equations]),
            b_ub=np.concatenate([self._right, -self._right]) + self.tolerance,
            bounds=(-self.radius, self.radius),
        )
        return solution.reshape(self.centre.shape)

    def wide_directions(self, number: int) -> Float[np.ndarray, "number d d"]:
        """Orthonormal directions in which K is wide, found one after the other; 2 x 4 linear programs per direction."""
        start = np.random.default_rng(0)
        found: list[np.ndarray] = []
        for _ in range(number):
            direction = _across(start.standard_normal(self.centre.shape), found)
            for _ in range(_WIDTH_ROUNDS):
                direction = _across(self.maximise(direction) - self.maximise(-direction), found)
            found.append(direction)
        return np.reshape(found, (number, *self.centre.shape))


def _solution(**program: Any) -> np.ndarray:
    from scipy.optimize import linprog

    found = linprog(**program, method="highs")
    if found.x is None:  # all programs here are bounded, and feasible by construction
        raise ArithmeticError(f"A linear program failed: {found.message}")
    return np.asarray(found.x)


def _across(matrix: np.ndarray, found: list[np.ndarray]) -> np.ndarray:
    for one in found:
        matrix = matrix - np.vdot(one, matrix) * one
    return matrix / (np.linalg.norm(matrix) or 1.0)
