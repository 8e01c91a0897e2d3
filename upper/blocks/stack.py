"""Two blocks in one box, on one token: a network behind a network, whose planes bend where the first's do not."""

from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse.csgraph import connected_components

from upper.blocks.far_field import directions
from upper.blocks.kinks import Ask, find_regions, half_circle
from upper.blocks.token_map import TokenMap

# The radius of the first two half circles, which cross every plane of the first network. Later ones have this radius
# in units of sqrt(d) times the distance of its farthest plane: at half of that, some planes are met on no half circle.
_FAR_PATHS, _FAR, _NEAR = 2, 1e4, 2.0
_PATHS, _LEAST_PATHS = 32, 4
# Every other later one is shorter, down to this share: some bent planes are met near the origin alone. Planes of the
# first network are met by at least this share of all.
_SHORTEST, _MOST = 0.1, 0.4
# Kinks nearer than this share of the radius are not told apart.
_NEAREST = 1e-10
# Two directions with a smaller sine are one: those of one neuron differ by 1e-5 at most where a region is short.
_SAME = 1e-4
# Normals that are less certain say nothing; those that are more certain than the second count alike.
_UNCERTAIN, _CERTAIN = 1e-6, 1e-11
# The least singular value of a neuron's equations, and the next one, in units of the largest. In one stack of (8, 16)
# the first is at most 1e-10, and the second 6e-7 to 6e-5, or below 1e-12 where a neuron is met on one side of a plane.
_ZERO = 1e-5
# Fresh tokens, and the error at which the map is right.
_TESTS, _RIGHT = 64, 1e-6


@dataclass(frozen=True)
class StackMap:
    """What two blocks answer to one token, g(x) = g2(g1(x)); g1 has the mean of its Jacobians, over signs, I.

    Only g is determined: an affine map between g1 and g2 is free, so are the signs of neurons.
    """

    first: TokenMap
    second: TokenMap

    def __call__(self, x: Float[np.ndarray, "*n d"]) -> Float[np.ndarray, "*n d"]:
        """The outputs on tokens."""
        return self.second(self.first(x))


@dataclass(frozen=True)
class _Kinks:
    """Kinks on paths: where the slope jumps, in which direction, and the normal of the plane or bent plane there."""

    x: Float[np.ndarray, "n d"]
    normal: Float[np.ndarray, "n d"]  #: of unit length
    jump: Float[np.ndarray, "n d"]
    uncertain: Float[np.ndarray, " n"]  #: of the normal
    tokens: Float[np.ndarray, "t d"]  #: asked between the kinks
    answers: Float[np.ndarray, "t d"]

    @property
    def certain(self) -> Bool[np.ndarray, " n"]:
        return self.uncertain < _UNCERTAIN


def read_stack_map(ask: Ask, dim: int, rng: np.random.Generator) -> StackMap | None:
    """Read g2(g1(x)), two ReLU networks of one hidden layer with any linear parts; None if it is not reproduced.

    Derived here, from the kinks of half circles. At a kink of neuron j of the first network the Jacobian jumps by
    u_j^T (v_j J2): everywhere the same normal. At one of neuron k of the second it jumps by (J1 u_k^T) v_k: everywhere
    the same output. So repeated normals are the first network's, repeated outputs the second's. With t = U1 x + a1
    known, a kink of neuron k says that x.p + |t|.q + r = 0, and its normal that p + (sign(t) o q) U1 is parallel to it.
    The null vector (p, q, r) of these equations is u_k, V1 u_k^T and its offset, for g1(x) = x + |t| V1; d such neurons
    give V1. The rest is linear.

    About 60 queries a neuron at (8, 16), and 80 at (16, 32). The search ends where 64 fresh tokens are reproduced to
    1e-6. They may not meet a rare neuron: in 1 of 10 stacks one of the second network was missed, and nothing told so.
    """
    radius, parts = _FAR, list[_Kinks]()
    x = y = np.zeros((0, dim))
    for _ in range(_PATHS):
        shorter = rng.uniform(_SHORTEST, 1) if len(parts) > _FAR_PATHS and len(parts) % 2 else 1.0
        part = _kinks(ask, shorter * radius, dim, rng)
        if part is None:
            continue
        parts.append(part)
        kinks = _joined(parts)
        u, a, of_first = _first_planes(kinks, len(parts))
        if len(parts) == _FAR_PATHS:
            if not len(a):
                return None
            radius = _NEAR * np.sqrt(dim) * float(np.abs(a).max())
            x = rng.standard_normal((_TESTS, dim))
            x *= radius * rng.random((_TESTS, 1)) ** 2 / np.linalg.norm(x, axis=1, keepdims=True)
            y = ask(x)
        if len(parts) < _LEAST_PATHS or not len(a):
            continue
        groups = _second_groups(kinks, of_first)
        first = _first_map(kinks, groups, u, a)
        if first is None:
            continue
        near = _joined(parts[_FAR_PATHS:])
        stack = StackMap(
            first, _second_map(first, _second_planes(kinks, groups, first), near.tokens, near.answers)
        )
        if np.linalg.norm(stack(x) - y) < _RIGHT * np.linalg.norm(y):
            return stack
    return None


def _kinks(ask: Ask, radius: float, dim: int, rng: np.random.Generator) -> _Kinks | None:
    """The kinks of one half circle; None where some are too near to one another."""
    regions = find_regions(ask, half_circle(radius, dim, rng), rng, least=_NEAREST * radius)
    if regions is None or not len(regions.left):
        return None
    margin = np.zeros(len(regions.left))
    regions = regions.read_again(ask, margin)
    read = None if regions is None else directions(ask, regions, margin, rng)
    if regions is None or read is None:
        return None
    normal, uncertain = read
    # a bent plane that is met twice has parallel jumps, which Jacobians do not tell apart: such normals have no unit
    # component along the path
    _, times = _alike(regions.jumps)
    along = np.sum(normal * regions.path.directions[regions.segment[regions.left]], axis=1)
    return _Kinks(
        regions.path.at(regions.segment[regions.left], regions.kinks),
        normal / np.linalg.norm(normal, axis=1, keepdims=True),
        regions.jumps,
        np.where(times > 1, np.inf, np.maximum(uncertain, np.abs(along - 1))),
        regions.path.at(np.repeat(regions.segment, 2), regions.place.ravel()),
        regions.answers.reshape(-1, dim),
    )


def _joined(parts: list[_Kinks]) -> _Kinks:
    return _Kinks(
        *(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(_Kinks))
    )


def _alike(vectors: Float[np.ndarray, "n d"]) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """Which vectors are parallel: the number of each one's class, and how many are in it."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = unit @ unit.T
    near = np.abs(cosines) > 1 - _SAME
    one, other = np.nonzero(near)
    sines = np.linalg.norm(unit[one] - cosines[one, other][:, None] * unit[other], axis=1)
    near[one, other] = sines < _SAME
    label = connected_components(near, directed=False)[1]
    return label, np.bincount(label)[label]


def _first_planes(
    kinks: _Kinks, paths: int
) -> tuple[Float[np.ndarray, "h d"], Float[np.ndarray, " h"], Bool[np.ndarray, " n"]]:
    """The planes u.x + a = 0, |u| = 1, of normals that most paths meet, and which kinks are theirs."""
    certain = np.flatnonzero(kinks.certain)
    label, times = _alike(kinks.normal[certain])
    _, outputs = _alike(kinks.jump)
    # a second neuron that paths meet in one region of the first has one normal too, but its output is met more often
    often = (times > paths * _MOST) & (times >= outputs[certain])
    u, a = [], []
    for name in np.unique(label[often]):
        members = certain[often & (label == name)]
        normals = kinks.normal[members]
        normals = normals * np.sign(normals @ normals[0])[:, None]
        mean = np.sum(normals / np.maximum(kinks.uncertain[members], _CERTAIN)[:, None] ** 2, axis=0)
        u.append(mean / np.linalg.norm(mean))
        a.append(-np.median(kinks.x[members] @ u[-1]))
    of_first = np.zeros(len(kinks.x), dtype=bool)
    of_first[certain[often]] = True
    return np.array(u).reshape(-1, kinks.x.shape[1]), np.array(a), of_first


def _second_groups(kinks: _Kinks, of_first: Bool[np.ndarray, " n"]) -> list[Int[np.ndarray, " m"]]:
    """The kinks of each neuron of the second network: those with one output."""
    rest = np.flatnonzero(~of_first)
    label, times = _alike(kinks.jump[rest])
    return [rest[label == name] for name in np.unique(label[times > 1])]


def _null_vector(
    kinks: _Kinks, members: np.ndarray, features: Float[np.ndarray, "m p"], slopes: Float[np.ndarray, "m d p"]
) -> Float[np.ndarray, " q"] | None:
    """(w, r) with w.features + r = 0 at the kinks and slopes w parallel to their normals; None if it is not unique."""
    certain = kinks.certain[members]
    normal = kinks.normal[members][certain]
    off = slopes[certain] - normal[:, :, None] * (normal[:, None, :] @ slopes[certain])
    off *= (_CERTAIN / np.maximum(kinks.uncertain[members][certain], _CERTAIN))[:, None, None]
    off = off.reshape(-1, features.shape[1])
    length = 1 + np.linalg.norm(kinks.x[members], axis=1, keepdims=True)
    equations = np.concatenate(
        [
            np.concatenate([off, np.zeros((len(off), 1))], axis=1),
            np.concatenate([features, np.ones_like(length)], axis=1) / length,
        ]
    )
    unknowns = equations.shape[1]
    if len(equations) - certain.sum() < unknowns + 1:  # a projection has rank d - 1
        return None
    _, sizes, vectors = np.linalg.svd(np.linalg.qr(equations, mode="r"))
    unique = sizes[-1] < _ZERO * sizes[0] and sizes[-2] > _ZERO * sizes[0]
    return vectors[-1] if unique else None


def _first_map(
    kinks: _Kinks, groups: list[np.ndarray], u: Float[np.ndarray, "h d"], a: Float[np.ndarray, " h"]
) -> TokenMap | None:
    """g1(x) = x + |x U1^T + a1| V1, from the neurons of the second network that all its planes determine."""
    h, d = u.shape
    solved = []
    for members in groups:
        t = kinks.x[members] @ u.T + a
        features = np.concatenate([kinks.x[members], np.abs(t)], axis=1)
        identity = np.broadcast_to(np.eye(d), (len(members), d, d))
        slopes = np.concatenate([identity, u.T * np.sign(t)[:, None, :]], axis=2)
        vector = _null_vector(kinks, members, features, slopes)
        if vector is not None:
            solved.append(vector)
    if len(solved) < d:
        return None
    rows = np.array(solved)
    outputs, products = rows[:, :d], rows[:, d : d + h]
    v = np.linalg.lstsq(outputs, products, rcond=None)[0].T
    return TokenMap("relu", u, a, 2 * v, np.eye(d) - u.T @ v, -a @ v)  # |t| = 2 relu(t) - t


def _second_planes(kinks: _Kinks, groups: list[np.ndarray], first: TokenMap) -> Float[np.ndarray, "h q"]:
    """The planes of the second network in the outputs of the first: rows (u, a)."""
    vectors = [
        _null_vector(kinks, members, first(kinks.x[members]), first.jacobian(kinks.x[members]))
        for members in groups
    ]
    return np.array([vector for vector in vectors if vector is not None])


def _second_map(
    first: TokenMap,
    planes: Float[np.ndarray, "h q"],
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n d"],
) -> TokenMap:
    """g2 with these planes, by least squares on answers."""
    return TokenMap.of_neurons("relu", planes[:, :-1], planes[:, -1]).with_outputs(first(x), y)
