"""ReLU on the sphere: kinks on great circles show neurons, as kinks on lines do without norms."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from attention import Recorder
from attention.feed_forward import activation
from upper.blocks.sphere import Sphere
from upper.blocks.token_map import TokenMap


@dataclass(frozen=True)
class _Search:
    """How kinks are looked for; angles are in radians."""

    #: ReLU or smooth: the places, two distances of their four points, how much more the farther ones leave where S is
    #: smooth, and the share of places where they do
    places: int = 12
    spacings: tuple[float, float] = (1e-2, 3e-2)
    growth: tuple[float, float] = (15.0, 45.0)
    smooth: float = 0.6
    #: points of the first grid, and the shortest distance between points
    grid: int = 64
    nearest: float = 3e-6
    #: four points are on one piece if their combination is below this share of the values
    piece: float = 3e-10
    #: places where four points this near tell the noise of answers: there is hardly a kink among them
    still: int = 5
    #: two jumps of one neuron differ by less, relative to their size
    same: float = 1e-3
    #: kinks between two Jacobians, over d, and the first step of a Jacobian in the length of its piece
    group: float = 0.5
    jacobian: float = 0.2
    smallest: float = 1e-5
    #: a Jacobian without a kink on the way is explained by the kinks between it and its neighbour to this
    explained: float = 1e-5
    #: circles at most, random points for every unknown over d, and what is left where no neuron is missing
    circles: int = 8
    points: float = 1.5
    complete: float = 1e-5


_SEARCH = _Search()
# At a kink the difference of its sides is 0 to this, relative to what it is at the end of its arc, or of one of this
# length.
_PARALLEL, _SHORTEST = 1e-6, 1e-3


def is_piecewise(sphere: Sphere, rng: np.random.Generator) -> bool:
    """Whether S is a combination of cos, sin and 1 on short arcs, as for ReLU. 96 queries.

    What is left of four points grows with the cube of their distance where S is smooth, by 27 here. For ReLU it is
    rounding, or that of a kink, which grows by 3, or from rounding to a kink, by much more.
    """
    by = _SEARCH
    basis = sphere.basis(rng)[:2]
    places = 2 * np.pi * rng.random((by.places, 1))
    left = []
    for spacing in by.spacings:
        angles = places + spacing * np.arange(4)
        values = sphere(_on_circle(basis, angles))
        left.append(np.linalg.norm(_combination(angles, values), axis=1))
    growth = left[1] / np.maximum(left[0], np.finfo(float).tiny)
    return bool(np.mean((growth > by.growth[0]) & (growth < by.growth[1])) < by.smooth)


def _on_circle(basis: Float[np.ndarray, "2 d"], angles: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n d"]:
    return np.cos(angles)[..., None] * basis[0] + np.sin(angles)[..., None] * basis[1]


def _combination(
    angles: Float[np.ndarray, "n 4"], values: Float[np.ndarray, "n 4 d"]
) -> Float[np.ndarray, "n d"]:
    """The combination of four values that is 0 for all of cos, sin and 1, with coefficients of at most 1."""
    design = np.stack([np.cos(angles), np.sin(angles), np.ones_like(angles)], axis=1)
    null = np.linalg.svd(design)[2][:, 3]
    return np.einsum("ni,nid->nd", null, values)


@dataclass(frozen=True)
class _Circle:
    """The kinks on a great circle: where, and by how much the slope jumps."""

    basis: Float[np.ndarray, "2 d"]
    angles: Float[np.ndarray, " p"]  #: of the kinks, in order
    jumps: Float[np.ndarray, "p d"]  #: of the derivative in the angle


def is_noisy(sphere: Sphere, rng: np.random.Generator) -> bool:
    """Whether noise or rounding hides pieces, so that bisection would go on at every place. 20 queries.

    The combination of four values has unit coefficients together: noise leaves the same at all distances.
    """
    by = _SEARCH
    places = 2 * np.pi * (np.arange(by.still)[:, None] + rng.random()) / by.still
    angles = places + by.nearest * np.arange(4)
    values = sphere(_on_circle(sphere.basis(rng)[:2], angles))
    left = np.linalg.norm(_combination(angles, values), axis=1)
    return bool(np.median(left) > by.piece * np.abs(values).max())


def _find_kinks(sphere: Sphere, basis: Float[np.ndarray, "2 d"], rng: np.random.Generator) -> _Circle | None:
    """All kinks on a great circle, by bisection until every piece has four points; None if two are too near."""
    by = _SEARCH
    angles = np.sort(2 * np.pi * (np.arange(by.grid) + rng.random()) / by.grid)
    values = sphere(_on_circle(basis, angles))
    while True:
        n = len(angles)
        window = np.arange(n)[:, None] + np.arange(4)
        around = angles[window % n] + 2 * np.pi * (window >= n)
        left = np.linalg.norm(_combination(around, values[window % n]), axis=1)
        straight = left < by.piece * np.abs(values).max()
        clean = np.zeros(n, dtype=bool)  # the arc from i to i + 1 is in a window without a kink
        for shift in range(3):
            clean |= np.roll(straight, shift)
        kinks = _between_pieces(angles, values, straight, clean)
        split = np.flatnonzero(~clean)
        split = split[[i not in kinks for i in split.tolist()]]
        if not len(split):
            order = sorted(kinks)
            return _Circle(
                basis,
                np.array([kinks[i][0] for i in order]),
                np.array([kinks[i][1] for i in order]).reshape(-1, sphere.norm.dim),
            )
        gaps = (np.roll(angles, -1) - angles) % (2 * np.pi)
        if gaps[split].min() < by.nearest:
            return None
        new = angles[split] + gaps[split] / 2
        angles = np.concatenate([angles, new])
        values = np.concatenate([values, sphere(_on_circle(basis, new))])
        angles = angles % (2 * np.pi)
        ascending = np.argsort(angles)
        angles, values = angles[ascending], values[ascending]


def _between_pieces(
    angles: np.ndarray, values: np.ndarray, straight: Bool[np.ndarray, " n"], clean: Bool[np.ndarray, " n"]
) -> dict[int, tuple[float, np.ndarray]]:
    """The arcs from i to i + 1 with one kink, between windows without: its angle, and the jump of the slope."""
    n = len(angles)
    kinks = {}
    for i in np.flatnonzero(~clean).tolist():
        if not (straight[i - 3] and straight[(i + 1) % n]):
            continue
        sides = []
        for first in (i - 3, i + 1):
            index = (np.arange(first, first + 4)) % n
            near = (angles[index] - angles[i] + np.pi) % (2 * np.pi) - np.pi
            sides.append(np.linalg.lstsq(_near(near), values[index], rcond=None)[0])
        # the difference is v times a sinusoid, which crosses 0 upwards in the arc
        difference = sides[1] - sides[0]
        jump = difference[1]
        size = float(jump @ jump)
        length = float((angles[(i + 1) % n] - angles[i]) % (2 * np.pi))
        sinusoid = difference @ jump / size if size else np.zeros(3)
        start, end = _near(np.array([0.0, length])) @ sinusoid
        if not start <= 0 <= end or start == end:
            continue
        # the slope at 0 is 1: s + sin x + c (1 - cos x) = 0 is quadratic in tan(x / 2)
        square = max(0.0, 1 - start * (start + 2 * sinusoid[2]))
        place = -2 * float(np.arctan(start / (1 + np.sqrt(square))))
        left = float(np.linalg.norm(_near(np.array([place]))[0] @ difference))
        if 0 <= place <= length and left < _PARALLEL * np.sqrt(size) * max(length, _SHORTEST):
            kinks[i] = float((angles[i] + place) % (2 * np.pi)), _slope_near(place) @ difference
    return kinks


def _slope_near(x: float) -> Float[np.ndarray, " 3"]:
    """The derivatives of `_near`."""
    return np.array([0.0, np.cos(x), np.sin(x)])


def _near(x: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n 3"]:
    """1, sin and 1 - cos: the functions of a piece, told apart near 0."""
    return np.column_stack([np.ones_like(x), np.sin(x), 2 * np.sin(x / 2) ** 2])


def read_piecewise(sphere: Sphere, rng: np.random.Generator, recorder: Recorder) -> TokenMap | None:
    """S as a network of ReLU, to 1e-5 and up to the signs of neurons; None if it is none.

    A neuron has two kinks on a great circle that it meets, with one jump |t'| v_j of the slope. Their angles give the
    part of u_j in the plane of the circle and a_j, with |v_j| = 1. The derivatives along a direction e orthogonal to
    the plane are constant on a piece and jump by (u_j . e) v_j, so two pieces with at most d / 2 kinks between them
    give all of these. Circles are added until random points are explained.
    """
    by, d = _SEARCH, sphere.norm.dim
    u, a, v = np.zeros((0, d)), np.zeros(0), np.zeros((0, d))
    space = sphere.basis(rng)
    plane = space[:2]
    for _ in range(by.circles):
        circle = _find_kinks(sphere, plane, rng)
        plane = sphere.basis(rng)[:2]
        if circle is None:
            continue
        new = _neurons(sphere, circle, space)
        if new is None:
            continue
        known = np.abs(new[2] @ v.T).max(axis=1, initial=0.0) > 1 - by.same**2
        u, a, v = (np.concatenate([old, more[~known]]) for old, more in zip((u, a, v), new, strict=True))
        recorder.step("Kinks on a great circle", kinks=len(circle.angles), neurons=len(u))
        if not len(u):
            continue
        n = sphere.norm(rng.standard_normal((int(by.points * (len(u) + d)) + 8, d)))
        values = sphere(n)
        design = np.concatenate([activation("relu", n @ u.T + a), n @ space.T, np.ones((len(n), 1))], axis=1)
        solved = np.linalg.lstsq(design, values, rcond=None)[0]
        left = float(np.linalg.norm(values - design @ solved) / np.linalg.norm(values - values.mean(axis=0)))
        recorder.step("Random points of the sphere", error=left)
        if left < by.complete:
            h = len(u)
            return TokenMap("relu", u, a, solved[:h], space.T @ solved[h:-1], solved[-1])
        # a neuron that is missing is on, or off, where least is explained: the next circle leads through that point
        worst = n[np.linalg.norm(values - design @ solved, axis=1).argmax()]
        plane = np.linalg.qr(np.stack([worst, plane[1]]).T)[0].T
    return None


def _neurons(
    sphere: Sphere, circle: _Circle, space: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """u, a and v, of unit length, of the neurons with two kinks on a circle; None if a kink has no partner."""
    pairs = _partners(circle)
    if pairs is None or not len(pairs):
        return None
    d = sphere.norm.dim
    first, second = circle.angles[pairs.T]
    jumps = circle.jumps[pairs].mean(axis=1)
    size = np.linalg.norm(jumps, axis=1)
    v = jumps / size[:, None]
    middle, half = (first + second) / 2, (second - first) / 2
    amplitude = size / np.sin(half)  # t = amplitude (cos(angle - middle) - cos(half)), on between the two
    a = -amplitude * np.cos(half)
    u = amplitude[:, None] / np.sqrt(d) * _on_circle(circle.basis, middle)
    others = _complement(circle.basis, space)
    across = _across(sphere, circle, pairs, v, others)
    return None if across is None else (u + across @ others, a, v)


def _partners(circle: _Circle) -> Int[np.ndarray, "h 2"] | None:
    """Pairs of kinks with one jump."""
    size = np.linalg.norm(circle.jumps, axis=1)
    apart = np.linalg.norm(circle.jumps[:, None] - circle.jumps, axis=2) / np.maximum(size[:, None], size)
    np.fill_diagonal(apart, np.inf)
    nearest = apart.argmin(axis=1) if len(apart) > 1 else np.zeros(0, dtype=int)
    if len(size) % 2 or not len(size) or np.any(nearest[nearest] != np.arange(len(size))):
        return None
    if np.max(apart.min(axis=1)) > _SEARCH.same:
        return None
    return np.array([(i, int(j)) for i, j in enumerate(nearest) if i < j])


def _complement(plane: np.ndarray, space: np.ndarray) -> Float[np.ndarray, "s d"]:
    """An orthonormal basis of what of the space is orthogonal to the plane."""
    rest = space - space @ plane.T @ plane
    return np.linalg.svd(rest)[2][: len(space) - 2]


def _across(
    sphere: Sphere,
    circle: _Circle,
    pairs: Int[np.ndarray, "h 2"],
    v: Float[np.ndarray, "h d"],
    others: Float[np.ndarray, "s d"],
) -> Float[np.ndarray, "h s"] | None:
    """u_j . e for the directions e orthogonal to the circle, from Jacobians in wide pieces."""
    by, count = _SEARCH, len(circle.angles)
    owner = np.empty(count, dtype=int)
    owner[pairs] = np.arange(len(pairs))[:, None]
    widths = (np.roll(circle.angles, -1) - circle.angles) % (2 * np.pi)  # of the piece after each kink
    bases = _bases(widths, owner, max(1, int(by.group * sphere.norm.dim)))
    slopes = []
    for i in bases:
        slope = _slopes(sphere, circle, i, widths[i], others)
        if slope is None:
            return None
        slopes.append(slope)
    sums, weights = np.zeros((len(pairs), len(others))), np.zeros(len(pairs))
    turned = np.zeros(count)  # the sign of t' at each kink: on after the first of a pair
    turned[pairs[:, 0]], turned[pairs[:, 1]] = 1.0, -1.0
    for here, ahead, before, after in zip(
        bases, np.roll(bases, -1), slopes, slopes[1:] + slopes[:1], strict=True
    ):
        group = np.arange(here + 1, ahead + 1 + (count if ahead <= here else 0)) % count
        outputs = turned[group, None] * v[owner[group]]
        solved, *_ = np.linalg.lstsq(outputs.T, (after - before).T, rcond=None)
        condition = np.linalg.norm(np.linalg.pinv(outputs), axis=0) ** -2  # of the rows of the solution
        np.add.at(sums, owner[group], condition[:, None] * solved)
        np.add.at(weights, owner[group], condition)
    return sums / weights[:, None]


def _bases(widths: np.ndarray, owner: np.ndarray, most: int) -> list[int]:
    """Wide pieces with at most so many kinks, of different neurons, between neighbours."""
    count = len(widths)
    start = int(np.argmax(widths))
    chosen = [start]
    position = 0
    while position < count:
        seen: set[int] = set()
        reach = position
        while reach < count and reach - position < most:
            neuron = int(owner[(start + reach + 1) % count])
            if neuron in seen:
                break
            seen.add(neuron)
            reach += 1
        if reach >= count:
            break
        reach = max(reach, position + 1)
        half = range(position + 1 + (reach - position) // 2, reach + 1)
        position = max(half, key=lambda i: widths[(start + i) % count])
        chosen.append((start + position) % count)
    return chosen


def _slopes(
    sphere: Sphere, circle: _Circle, piece: int, width: float, others: np.ndarray
) -> Float[np.ndarray, "s d"] | None:
    """The derivatives of S along the directions `others` in the piece after a kink, by steps that meet no kink."""
    radius = np.sqrt(sphere.norm.dim)
    centre = _on_circle(circle.basis, np.array([circle.angles[piece] + width / 2]))[0]
    slopes = np.full(others.shape, np.nan)
    todo, step = np.arange(len(others)), _SEARCH.jacobian * width
    previous = slopes.copy()
    while step > _SEARCH.smallest and len(todo):
        near = np.array([step, -step])[:, None, None]
        ahead, behind = sphere(np.cos(near) * centre + np.sin(near) * others[todo])
        new = (ahead - behind) / (2 * np.sin(step) * radius)
        same = np.linalg.norm(new - previous[todo], axis=1) < _SEARCH.explained
        slopes[todo[same]] = new[same]
        previous[todo] = new
        todo, step = todo[~same], step / 3
    return None if len(todo) else slopes
