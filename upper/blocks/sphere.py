"""Far from the origin a pre-norm block is a map of the sphere: B(x) - x depends on the direction of x alone."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from attention import Norm
from upper.blocks.kinks import Ask
from upper.blocks.projective_fit import Eliminated
from upper.blocks.token_map import TokenMap

FAR = 1e5
"""The length of far tokens, in units of sqrt(d)."""

# What rounding and n(x + F) - n(x) leave of a difference that is zero, relative to the answers less the tokens
_SAME = 1e-3
# Random points for every unknown over d
_POINTS = 1.5
# On each side of a plane lie so many points for each unknown of its neuron, and those that are added are so near to it;
# with 2 points alone, errors grow 1e9 times.
_SIDES, _BESIDE = 2, 0.6


@dataclass(frozen=True)
class Sphere:
    """S(n) = n A + c + sum_j act(u_j . n + a_j) v_j for |n|^2 = d. Behind a LayerNorm n has the mean 0."""

    ask: Ask
    norm: Norm  #: without eps: the sphere is its image

    only_directions: ClassVar[bool] = False
    #: an angle: rounding of 1e-7 and truncation of 1e-5 in second differences
    step: ClassVar[float] = 0.01
    centres: ClassVar[int] = 9  #: of a circle; each has d equations for every second derivative
    #: the combination of four values of a piece is below this share of the values
    rounding: ClassVar[float] = 3e-10
    complete: ClassVar[float] = 1e-5  #: what is left of random points where no neuron is missing

    def __call__(self, n: Float[np.ndarray, "*n d"]) -> Float[np.ndarray, "*n d"]:
        """S in directions n, a query each."""
        return self.ask(self.norm(n).reshape(-1, self.norm.dim)).reshape(n.shape)

    def explained(
        self, g: TokenMap, rng: np.random.Generator
    ) -> tuple[TokenMap, Float[np.ndarray, "n d"], Float[np.ndarray, "n d"]]:
        """The map with its best outputs, what it leaves of the values at random points n, and n.

        What is left is relative to the spread of the values.
        """
        n = self.norm(rng.standard_normal((int(_POINTS * sum(g.u.shape)) + 8, self.norm.dim)))
        return *self._explained(g, n, self(n)), n

    def _explained(self, g: TokenMap, n: np.ndarray, values: np.ndarray) -> tuple[TokenMap, np.ndarray]:
        g = g.with_outputs(n, values)
        return g, (values - g(n)) / np.linalg.norm(values - values.mean(axis=0))

    def basis(self, rng: np.random.Generator) -> Float[np.ndarray, "r d"]:
        """A random orthonormal basis of the space that holds the sphere; r is d, or d - 1 for a LayerNorm."""
        columns = rng.standard_normal((self.norm.dim, self.norm.dim))
        if self.norm.centred:
            columns[:, 0] = 1.0
        return np.linalg.qr(columns)[0].T[int(self.norm.centred) :]


def find_sphere(ask: Ask, dim: int, rng: np.random.Generator) -> Sphere | None:
    """The sphere of a pre-norm block, up to O(1e-5): answers at x = 1e5 n, less x; None for other functions. 4 queries.

    There n(z) = n(x) + O(1 / |x|), so the block is its network behind a linear map: nothing saturates and no head
    shows. Whether answers depend on the mean tells the kind of norm.
    """
    n = Norm.plain(dim, 0.0)(rng.standard_normal(dim))
    points = FAR * np.array([n, 2 * n, n + np.sqrt(dim), -n])
    far, twice, shifted, opposite = ask(points) - points
    size = max(float(np.linalg.norm(far)), float(np.linalg.norm(opposite)))
    if not size < _SAME * FAR or np.linalg.norm(twice - far) > _SAME * size:
        return None
    centred = bool(np.linalg.norm(shifted - far) < _SAME * size)
    return Sphere(lambda n: ask(FAR * n) - FAR * n, Norm.plain(dim, 0.0, centred=centred))


def on_both_sides(
    n: Float[np.ndarray, "n d"], g: TokenMap, space: Float[np.ndarray, "r d"], rng: np.random.Generator
) -> Float[np.ndarray, "m d"]:
    """Points of the sphere, and more near planes, on their rarer side: a ReLU that is hardly ever on shows there alone.

    `space` has the orthonormal rows in which the sphere lies.
    """
    h, d = g.u.shape
    on = np.sum(n @ g.u.T + g.a > 0, axis=0)
    missing = _SIDES * (d + 1) - np.minimum(on, len(n) - on)
    j = np.repeat(np.arange(h), np.maximum(missing, 0))
    size = np.linalg.norm(g.u, axis=1)[j]
    u = g.u[j] / size[:, None]
    side = np.where(on < len(n) / 2, 1.0, -1.0)[j]
    along = -g.a[j] / size + side * _BESIDE * rng.random(len(j))
    along = np.clip(along, -np.sqrt(d), np.sqrt(d))[:, None]
    across = rng.standard_normal((len(j), len(space))) @ space
    across -= np.sum(across * u, axis=1, keepdims=True) * u
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    return np.concatenate([n, along * u + np.sqrt(np.maximum(d - along**2, 0)) * across])


class Directions(Sphere):
    """f(n) = r(n) w(n) with a network w(n) and an unknown r: directions of answers, for n of any length."""

    only_directions = True
    step = 2e-3  # an angle: truncation of 4e-6 and rounding of 1e-9 in second differences
    centres = 16
    rounding = 3e-14
    complete = 1e-4

    def _explained(self, g: TokenMap, n: np.ndarray, values: np.ndarray) -> tuple[TokenMap, np.ndarray]:
        """The map, and what it leaves of directions, with the best lengths and outputs."""
        fitted = Eliminated.of(g, n, values)
        return g, fitted.rest / np.linalg.norm(fitted.lengths[:, None] * values)

    def __call__(self, n: Float[np.ndarray, "*n d"]) -> Float[np.ndarray, "*n d"]:
        """The f at points of the sphere, of unit length, a query each."""
        f = super().__call__(n)
        return f / np.linalg.norm(f, axis=-1, keepdims=True)


@dataclass(frozen=True)
class CircleJet:
    """S and its derivatives at points of a great circle."""

    basis: Float[np.ndarray, "r d"]  #: orthonormal: the circle is in the plane of the first two
    angles: Float[np.ndarray, " p"]
    values: Float[np.ndarray, "p d"]  #: S
    tangents: Float[np.ndarray, "p d"]  #: the derivative of S along the circle, for a unit of length
    slopes: Float[np.ndarray, "p s d"]  #: that along each other direction of the basis
    curvatures: Float[np.ndarray, "p d q q"]  #: second derivatives in the angle along the first q of these
    turned: Float[np.ndarray, "p q d"]  #: those in the angle along the circle and one of these


def read_circle(sphere: Sphere, points: int, frame: int, rng: np.random.Generator) -> CircleJet:
    """Differences of S along geodesics, p (q (q + 1) + 2 d) queries for p points and a frame of q directions.

    A direction of the frame is orthogonal to the circle, so it stays tangent to the sphere all along.
    """
    basis = sphere.basis(rng)
    others, q, step = basis[2:], min(frame, len(basis) - 2), sphere.step
    angles = 2 * np.pi * np.arange(points) / points
    centres = np.cos(angles)[:, None] * basis[0] + np.sin(angles)[:, None] * basis[1]
    along = (np.cos(angles)[:, None] * basis[1] - np.sin(angles)[:, None] * basis[0])[:, None]
    values = sphere(centres)

    def beside(directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First and second differences along unit directions (p, s, d), in the angle."""
        near = (
            np.cos(step) * centres[:, None]
            + np.sin(step) * np.array([1.0, -1.0])[:, None, None, None] * directions
        )
        ahead, behind = sphere(near)
        return (ahead - behind) / (2 * step), (ahead + behind - 2 * values[:, None]) / step**2

    i, j = np.triu_indices(q, 1)
    slopes, pure = beside(np.broadcast_to(others, (points, *others.shape)))
    _, mixed = beside(
        np.broadcast_to((others[i] + others[j]) / np.sqrt(2), (points, len(i), sphere.norm.dim))
    )
    curvatures = np.zeros((points, sphere.norm.dim, q, q))
    diagonal = np.arange(q)
    curvatures[:, :, diagonal, diagonal] = np.swapaxes(pure[:, :q], 1, 2)
    mixed = mixed - (pure[:, i] + pure[:, j]) / 2
    curvatures[:, :, i, j] = curvatures[:, :, j, i] = np.swapaxes(mixed, 1, 2)
    tangents, second = beside(along)
    turned = beside((along + others[:q]) / np.sqrt(2))[1] - (second + pure[:, :q]) / 2
    radius = np.sqrt(sphere.norm.dim)
    return CircleJet(basis, angles, values, tangents[:, 0] / radius, slopes / radius, curvatures, turned)
