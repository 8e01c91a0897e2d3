"""The last norm of a post-norm block: outputs lie in a hyperplane and on an ellipsoid, which tell gain and offset."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from upper.blocks.kinks import Ask
from upper.blocks.sphere import FAR

# The share of the hyperplane's normal in answers, 1e-15, and how far they are from the ellipsoid: eps, 1e-5, at most
_FLAT, _ROUND = 1e-10, 1e-2


@dataclass(frozen=True)
class Ellipsoid:
    """Outputs f = n2(w) gain + offset of a LayerNorm, as vectors of D = d - 1 coordinates along `basis`."""

    gain: Float[np.ndarray, " d"]
    offset: Float[np.ndarray, " d"]
    basis: Float[np.ndarray, "D d"]  #: orthonormal, of the vectors of mean 0

    def plain(self, f: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n D"]:
        """n2(w), whose direction is that of w less its mean."""
        return ((f - self.offset) / self.gain) @ self.basis.T

    def refitted(
        self, f: Float[np.ndarray, "n d"], sizes: Float[np.ndarray, " n"]
    ) -> tuple["Ellipsoid", float]:
        """Gain and offset from answers of which the lengths of w are known, and the eps in their units.

        n2(w) has the length sqrt(d) only up to eps: |n2(w)|^2 = d (1 - eps r^2) with 1 / r^2 = |w|^2 / d + eps.
        """
        p = self.plain(f)
        d = f.shape[1]
        # w = n2(w) / r, so sizes = |n2(w)| / (r sqrt(d)) up to terms of second order in eps
        r2 = 1 / sizes**2
        design = np.column_stack([2 * p, np.ones(len(p)), -r2])
        solved = np.linalg.lstsq(design, np.sum(p * p, axis=1), rcond=None)[0]
        centre = solved[:-2]
        radius2 = float(solved[-2] + centre @ centre)
        grown = np.sqrt(radius2 / d)
        moved = replace(self, gain=self.gain * grown, offset=self.offset + self.gain * (centre @ self.basis))
        return moved, max(float(solved[-1]) / radius2, 0.0)


def mean_zero(d: int) -> Float[np.ndarray, "D d"]:
    """An orthonormal basis of the vectors of mean 0."""
    columns = np.eye(d)
    columns[:, 0] = 1.0
    return np.linalg.qr(columns)[0].T[1:]


def find_ellipsoid(ask: Ask, dim: int, rng: np.random.Generator) -> Ellipsoid | None:
    """Gain, up to one sign, and offset of the last norm, up to eps; None if answers are not behind a LayerNorm.

    n2(w) has mean 0, so outputs lie in a hyperplane with the normal 1 / gain; divided by gain, they lie on a sphere.
    4 d + 2 queries.
    """
    # far away, answers to a token and to twice it are one
    far = ask(FAR * np.array([[1.0], [2.0]]) * rng.standard_normal(dim))
    if not np.linalg.norm(far[1] - far[0]) <= _ROUND * np.linalg.norm(far[0]):
        return None
    f = ask(rng.standard_normal((4 * dim, dim)))
    singular, right = np.linalg.svd(f - f.mean(axis=0), full_matrices=False)[1:]
    normal = right[-1]
    if singular[-1] > _FLAT * singular[-2] or not np.all(normal):
        return None
    basis = mean_zero(dim)
    p = f * normal
    heights = p.sum(axis=1)
    q = p @ basis.T
    solved = np.linalg.lstsq(np.column_stack([2 * q, np.ones(len(q))]), np.sum(q * q, axis=1), rcond=None)[0]
    centre = solved[:-1]
    radius = np.sqrt(solved[-1] + centre @ centre)
    if np.abs(np.linalg.norm(q - centre, axis=1) / radius - 1).max() > _ROUND:
        return None
    return Ellipsoid(
        radius / (np.sqrt(dim) * normal), (centre @ basis + heights.mean() / dim) / normal, basis
    )
