"""What a certificate says: the ranks, the factor and the directions, and their reading in words."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

__all__ = ["Certificate"]

_BORDERLINE = 100.0  # a tolerance that much larger or smaller would give other ranks


@dataclass(frozen=True, eq=False)
class Certificate:
    """What the examples determine of a function that is linear in the features.

    Attributes
    ----------
    rank : int
        Rank of Lambda_D, the moment on the data.
    domain_rank : int
        Rank of Lambda_X, the moment on the domain.
    joint_rank : int
        Rank of Lambda_D + Lambda_X.
    factor : float
        tau: E_X |f - f*|^2 <= tau E_D |f - f*|^2 for any two functions, and the bound is attained; infinite where the
        deficit is not 0.
    smallest_eigenvalue : float
        lambda_min(Lambda_D), which depends on the features' units, as no rank here does: full rank is told by `rank`.
    gap : float
        In the features' own units, the least eigenvalue of Lambda_D that was kept over the largest that was taken for
        zero; infinite where none was or it is exactly 0.
    margin : float
        By how much the tolerance may be multiplied or divided before the rank or the deficit changes.
    null_basis : array (D, D - rank)
        Orthonormal directions that the data do not see.
    domain_directions : array (D, deficit)
        Orthonormal ones among those, as few as there can be that show everything the domain sees of them.
    worst_direction : array (D,)
        A direction of norm 1 that attains `factor`; one of `domain_directions` where the deficit is not 0.
    tolerance : float
        Relative tolerance on eigenvalues.
    """

    rank: int
    domain_rank: int
    joint_rank: int
    factor: float
    smallest_eigenvalue: float
    gap: float
    margin: float
    null_basis: Float[np.ndarray, "D nullity"]
    domain_directions: Float[np.ndarray, "D deficit"]
    worst_direction: Float[np.ndarray, " D"]
    tolerance: float

    @property
    def features(self) -> int:
        """D."""
        return len(self.null_basis)

    @property
    def deficit(self) -> int:
        """Dimensions that the domain sees and the data do not."""
        return self.joint_rank - self.rank

    @property
    def identified(self) -> bool:
        """Whether every empirical risk minimiser agrees on the domain: the deficit is 0."""
        return self.deficit == 0

    @property
    def identified_everywhere(self) -> bool:
        """Whether every empirical risk minimiser agrees on all inputs of every length: the rank is D."""
        return self.rank == self.features

    @property
    def borderline(self) -> bool:
        """Whether a tolerance a hundred times larger or smaller gives another rank or deficit."""
        return self.margin < _BORDERLINE

    def __str__(self) -> str:
        lines = [
            f"The data span {self.rank} of {self.features} directions, the domain {self.domain_rank}, "
            f"both together {self.joint_rank}: deficit {self.deficit}."
        ]
        if self.identified_everywhere:
            lines.append(
                "Every empirical risk minimiser agrees on all inputs of every length: the smallest eigenvalue of the "
                f"data's moment is {self.smallest_eigenvalue:.3g}."
            )
        elif self.identified:
            lines.append("Every empirical risk minimiser agrees on the domain.")
        if self.identified:
            lines.append(
                f"Two models' mean squared distance on the domain is at most {self.factor:.3g} times that on the data, "
                "and that is attained."
            )
        else:
            lines.append(
                "Two empirical risk minimisers differ on the domain. Rank is sufficient, and not necessary, when "
                "fewer than d^2 heads are assumed: fewer heads may still be determined by these data."
            )
        if self.borderline:
            lines.append(
                f"This is borderline: a tolerance of {self.tolerance:.0e} {self.margin:.1f} times larger or smaller "
                "gives other ranks."
            )
        return "\n".join(lines)
