"""ReLU on the sphere: kinks on great circles show neurons, as kinks on lines do without norms."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from attention import Recorder
from upper.blocks.sphere import Sphere
from upper.blocks.token_map import TokenMap


@dataclass(frozen=True)
class _Search:
    """How kinks are looked for; angles are in radians."""

    #: ReLU or smooth: the places, the distance of their four points, and the share of places without a kink: at 4 d
    #: neurons in 48 dimensions it is a half, and where S is smooth the four leave a hundred times the rounding
    places: int = 24
    spacing: float = 3e-3
    straight: float = 0.2
    #: points of the first grid, and the shortest distance between points
    grid: int = 64
    nearest: float = 3e-6
    #: arcs that are divided at once, for every coordinate: networks of 4 d neurons have 16 at most, and a curve has no
    #: end
    most: int = 64
    #: what a last norm that is right to 1e-5 leaves of the combination of directions, for the cube of their distance
    bend: float = 3e-7
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
    circles: int = 8  #: at most


_SEARCH = _Search()
# At a kink the difference of its sides is 0 to this, relative to what it is at the end of its arc, or of one of this
# length.
_PARALLEL, _SHORTEST = 1e-6, 1e-3
# Turns of place and factor, and shares of a piece at which it is read again.
_TURNS = 4
_READ_AT = np.array([0.03, 0.35, 0.65, 0.97])


def is_piecewise(sphere: Sphere, rng: np.random.Generator) -> bool:
    """Whether S is a combination of cos, sin and 1 on short arcs, as for ReLU. 96 queries."""
    by, basis = _SEARCH, sphere.basis(rng)[:2]
    angles = 2 * np.pi * rng.random((by.places, 1)) + by.spacing * np.arange(4)
    values = sphere(_on_circle(basis, angles))
    return bool(np.mean(_straight(sphere, angles, values)[1]) > by.straight)


def _on_circle(basis: Float[np.ndarray, "2 d"], angles: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n d"]:
    return np.cos(angles)[..., None] * basis[0] + np.sin(angles)[..., None] * basis[1]


def _near(x: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n 3"]:
    """1, sin and 1 - cos: the functions of a piece, told apart near 0."""
    return np.stack([np.ones_like(x), np.sin(x), 2 * np.sin(x / 2) ** 2], axis=-1)


def _models(
    sphere: Sphere, angles: Float[np.ndarray, "n 4"], values: Float[np.ndarray, "n 4 d"]
) -> tuple[Float[np.ndarray, "n 3 d"], Float[np.ndarray, " n"]]:
    """The factors of `_near` on a piece with four values, from its first angle, and what is left if it is no piece.

    A combination of four values is 0 on a piece. That of directions shows their lengths, up to one factor.
    """
    width = np.ptp(angles, axis=1)[:, None, None]
    scale = np.concatenate([np.ones_like(width), width, width**2], axis=2)
    design = _near(angles - angles[:, :1]) / scale
    null = np.linalg.svd(design)[0][:, :, 3]
    if not sphere.only_directions:
        misfit = np.linalg.norm(np.einsum("ni,nid->nd", null, values), axis=1)
    else:
        combined, sizes, _ = np.linalg.svd(values, full_matrices=False)
        lengths = combined[:, :, 3] / np.where(null == 0, np.finfo(float).tiny, null)
        lengths = lengths / np.where(lengths[:, :1] == 0, np.inf, lengths[:, :1])
        misfit = np.where((lengths > 0).all(axis=1), sizes[:, 3], 1.0)
        values = lengths[:, :, None] * values
    return np.linalg.pinv(design) @ values / np.swapaxes(scale, 1, 2), misfit


def _straight(
    sphere: Sphere, angles: Float[np.ndarray, "n 4"], values: Float[np.ndarray, "n 4 d"]
) -> tuple[Float[np.ndarray, "n 3 d"], Bool[np.ndarray, " n"]]:
    """The models, and whether they leave no more than rounding and, of directions, errors of the last norm."""
    models, misfit = _models(sphere, angles, values)
    hidden = sphere.only_directions * _SEARCH.bend * np.ptp(angles, axis=1) ** 3
    return models, misfit < sphere.rounding * np.abs(values).max() + hidden


def _moved(model: Float[np.ndarray, "n 3 d"], by: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n 3 d"]:
    """The same model from another angle."""
    zero, one = np.zeros_like(by), np.ones_like(by)
    sine, cosine = np.sin(by), np.cos(by)
    rows = [[one, sine, 2 * np.sin(by / 2) ** 2], [zero, cosine, sine], [zero, -sine, cosine]]
    return np.moveaxis(np.array(rows), 2, 0) @ model


@dataclass(frozen=True)
class _Meetings:
    """Where pieces meet: the angle from the origin of the two models, and what the slope gains."""

    angles: Float[np.ndarray, " n"]
    jumps: Float[np.ndarray, "n d"]  #: of directions, off `along`
    along: Float[np.ndarray, "n d"]  #: the unit vectors along the values, of directions
    factors: Float[np.ndarray, " n"]  #: of the lengths of the second piece, in units of the first
    right: Bool[np.ndarray, " n"]  #: whether one neuron explains what changes


def _meetings(
    sphere: Sphere,
    before: Float[np.ndarray, "n 3 d"],
    after: Float[np.ndarray, "n 3 d"],
    low: Float[np.ndarray, " n"],
    high: Float[np.ndarray, " n"],
) -> _Meetings:
    """The kinks between low and high: there the difference of two models, v times a sinusoid, crosses 0 upwards.

    Of directions the factor of the second model makes values equal at the kink; what it adds to the difference is
    parallel to them, and vanishes beside it. So place and factor are found by turns.
    """
    factors, place, along = np.ones(len(low)), (low + high) / 2, np.zeros((len(low), sphere.norm.dim))
    for _ in range(_TURNS if sphere.only_directions else 1):
        seen = after - before
        if sphere.only_directions:
            here, there = (np.einsum("ni,nid->nd", _near(place), model) for model in (before, after))
            factors = np.sum(here * there, axis=1) / np.sum(there**2, axis=1)
            seen = factors[:, None, None] * after - before
            along = here / np.linalg.norm(here, axis=1, keepdims=True)
            seen = seen - (seen @ along[:, :, None]) * along[:, None]
        jump = seen[:, 1]
        size = np.maximum(np.linalg.norm(jump, axis=1), np.finfo(float).tiny)
        sinusoid = (seen @ jump[:, :, None])[:, :, 0] / size[:, None] ** 2
        start, end = (np.sum(_near(x) * sinusoid, axis=1) for x in (low, high))
        start_at_0 = sinusoid[:, 0]
        # the slope at 0 is 1: s + sin x + c (1 - cos x) = 0 is quadratic in tan(x / 2)
        square = np.maximum(0.0, 1 - start_at_0 * (start_at_0 + 2 * sinusoid[:, 2]))
        place = -2 * np.arctan(start_at_0 / (1 + np.sqrt(square)))
        left = np.linalg.norm(np.einsum("ni,nid->nd", _near(place), seen), axis=1)
        right = (start <= 0) & (end >= 0) & (start != end) & (low <= place) & (place <= high)
        right &= left < _PARALLEL * size * np.maximum(high - low, _SHORTEST)
        place = np.clip(place, low, high)
    slope = np.stack([np.zeros_like(place), np.cos(place), np.sin(place)], axis=1)
    return _Meetings(place, np.einsum("ni,nid->nd", slope, seen), along, factors, right)


@dataclass(frozen=True)
class _Circle:
    """The kinks on a great circle: where, and by how much the slope jumps."""

    basis: Float[np.ndarray, "2 d"]
    angles: Float[np.ndarray, " p"]  #: of the kinks, in order
    jumps: Float[np.ndarray, "p d"]  #: of the derivative in the angle; of directions, off `along`
    along: Float[np.ndarray, "p d"]  #: what the jumps do not show: unit vectors along directions, or 0
    middles: Float[
        np.ndarray, "p d"
    ]  #: the values, with their lengths, in the middle of the piece after each kink


def is_noisy(sphere: Sphere, rng: np.random.Generator) -> bool:
    """Whether noise or rounding hides pieces, so that bisection would go on at every place. 20 queries.

    Four values of a piece span three dimensions, if no more: noise leaves the same of the fourth at all distances.
    """
    by = _SEARCH
    places = 2 * np.pi * (np.arange(by.still)[:, None] + rng.random()) / by.still
    angles = places + by.nearest * np.arange(4)
    values = sphere(_on_circle(sphere.basis(rng)[:2], angles))
    left = np.linalg.svd(values, compute_uv=False)[:, -1]
    return bool(np.median(left) > sphere.rounding * np.abs(values).max())


def _find_kinks(sphere: Sphere, basis: Float[np.ndarray, "2 d"], rng: np.random.Generator) -> _Circle | None:
    """All kinks on a great circle, by bisection until every piece has four points; None if two are too near.

    None also where S is curved on arcs, as where some neurons are smooth.
    """
    by = _SEARCH
    angles = np.sort(2 * np.pi * (np.arange(by.grid) + rng.random()) / by.grid)
    values = sphere(_on_circle(basis, angles))
    while True:
        n = len(angles)
        window = np.arange(n)[:, None] + np.arange(4)
        around = angles[window % n] + 2 * np.pi * (window >= n)
        models, straight = _straight(sphere, around, values[window % n])
        clean = np.zeros(n, dtype=bool)  # the arc from i to i + 1 is in a window without a kink
        for shift in range(3):
            clean |= np.roll(straight, shift)
        gaps = (np.roll(angles, -1) - angles) % (2 * np.pi)
        arcs = np.flatnonzero(~clean & np.roll(straight, 3) & np.roll(straight, -1))
        meetings = _meetings(
            sphere,
            _moved(models[arcs - 3], (angles[arcs] - angles[arcs - 3]) % (2 * np.pi)),
            _moved(models[(arcs + 1) % n], -gaps[arcs]),
            np.zeros(len(arcs)),
            gaps[arcs],
        )
        clean[arcs[meetings.right]] = True
        split = np.flatnonzero(~clean)
        if not len(split):
            kinks = angles[arcs[meetings.right]] + meetings.angles[meetings.right]
            return _read_again(sphere, basis, kinks)
        if gaps[split].min() < by.nearest or len(split) > by.most * sphere.norm.dim:
            return None
        new = angles[split] + gaps[split] / 2
        angles = np.concatenate([angles, new]) % (2 * np.pi)
        values = np.concatenate([values, sphere(_on_circle(basis, new))])
        ascending = np.argsort(angles)
        angles, values = angles[ascending], values[ascending]


def _read_again(
    sphere: Sphere, basis: Float[np.ndarray, "2 d"], kinks: Float[np.ndarray, " p"]
) -> _Circle | None:
    """The circle, from four points far apart on every piece; None if the lengths of directions do not close.

    None also where kinks are odd in number, as a neuron has two.
    """
    if not len(kinks):
        return _Circle(basis, kinks, *np.zeros((3, 0, sphere.norm.dim)))
    if len(kinks) % 2:
        return None
    widths = (np.roll(kinks, -1) - kinks) % (2 * np.pi)
    angles = kinks[:, None] + widths[:, None] * _READ_AT
    models, _ = _models(sphere, angles, sphere(_on_circle(basis, angles)))
    to_end = widths * (1 - _READ_AT[0])
    around = np.minimum(widths, np.roll(widths, 1)) / 2
    meetings = _meetings(
        sphere,
        np.roll(_moved(models, to_end), 1, axis=0),
        _moved(models, -widths * _READ_AT[0]),
        -around,
        around,
    )
    lengths = np.cumprod(meetings.factors)
    if not np.all(meetings.factors > 0) or abs(np.log(lengths[-1])) > _SEARCH.same:
        return None
    before = np.append(lengths[-1], lengths[:-1]) / lengths[-1]
    middles = _moved(models, widths * (0.5 - _READ_AT[0]))[:, 0] * lengths[:, None]
    return _Circle(basis, kinks + meetings.angles, before[:, None] * meetings.jumps, meetings.along, middles)


def read_piecewise(sphere: Sphere, rng: np.random.Generator, recorder: Recorder) -> TokenMap | None:
    """S as a network of ReLU, to 1e-5 and up to the signs of neurons; None if it is none.

    A neuron has two kinks on a great circle that it meets, with one jump |t'| v_j of the slope. Their angles give the
    part of u_j in the plane of the circle and a_j, with |v_j| = 1. The derivatives along a direction e orthogonal to
    the plane are constant on a piece and jump by (u_j . e) v_j, so two pieces with at most d / 2 kinks between them
    give all of these. Circles are added until random points are explained.

    Of directions, four on a piece show the ratios of their lengths, and kinks those of one piece to the next. A jump is
    then known up to a multiple of the value, and two of one neuron show all of it.
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
        g, rest, n = sphere.explained(TokenMap.of_neurons("relu", u, a), rng)
        left = float(np.linalg.norm(rest))
        recorder.step("Random points of the sphere", error=left)
        if left < sphere.complete:
            return g
        # a neuron that is missing is on, or off, where least is explained: the next circle leads through that point
        worst = n[np.linalg.norm(rest, axis=1).argmax()]
        plane = np.linalg.qr(np.stack([worst, plane[1]]).T)[0].T
    return None


def _neurons(
    sphere: Sphere, circle: _Circle, space: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """u, a and v, of unit length, of the neurons with two kinks on a circle; None if a kink has no partner."""
    paired = _partners(circle)
    if paired is None:
        return None
    pairs, jumps = paired
    d = sphere.norm.dim
    first, second = circle.angles[pairs.T]
    size = np.linalg.norm(jumps, axis=1)
    v = jumps / size[:, None]
    middle, half = (first + second) / 2, (second - first) / 2
    amplitude = size / np.sin(half)  # t = amplitude (cos(angle - middle) - cos(half)), on between the two
    a = -amplitude * np.cos(half)
    u = amplitude[:, None] / np.sqrt(d) * _on_circle(circle.basis, middle)
    others = _complement(circle.basis, space)
    across = _across(sphere, circle, pairs, v, others)
    return None if across is None else (u + across @ others, a, v)


def _partners(circle: _Circle) -> tuple[Int[np.ndarray, "h 2"], Float[np.ndarray, "h d"]] | None:
    """Pairs of kinks with one jump, and the jumps: two that agree off what they do not show."""
    jumps, along = circle.jumps, circle.along
    size = np.linalg.norm(jumps, axis=1)
    if not len(size):
        return None
    cosine, other = along @ along.T, along @ jumps.T
    p, q = -other, other.T  # of the differences, along the first and the second
    apart = size[:, None] ** 2 + size**2 - 2 * jumps @ jumps.T
    apart -= (p**2 + q**2 - 2 * cosine * p * q) / np.maximum(1 - cosine**2, np.finfo(float).eps)
    apart = np.sqrt(np.maximum(apart, 0)) / np.maximum(size[:, None], size)
    np.fill_diagonal(apart, np.inf)
    nearest = apart.argmin(axis=1)
    if np.any(nearest[nearest] != np.arange(len(size))) or apart.min(axis=1).max() > _SEARCH.same:
        return None
    pairs = np.array([(i, int(j)) for i, j in enumerate(nearest) if i < j])
    one, two = jumps[pairs.T]
    basis = np.stack([along[pairs[:, 0]], -along[pairs[:, 1]]], axis=2)
    missing = (np.linalg.pinv(basis) @ (two - one)[:, :, None])[..., 0]
    return pairs, (one + two + missing[:, :1] * basis[:, :, 0] - missing[:, 1:] * basis[:, :, 1]) / 2


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
        if sphere.only_directions:  # slopes are known up to multiples of the values
            outputs = np.concatenate([outputs, circle.middles[[here, ahead]]])
        solved = np.linalg.lstsq(outputs.T, (after - before).T, rcond=None)[0][: len(group)]
        condition = (
            np.linalg.norm(np.linalg.pinv(outputs), axis=0)[: len(group)] ** -2
        )  # of the rows of the solution
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
    if sphere.only_directions:
        slopes *= np.linalg.norm(circle.middles[piece])
    return None if len(todo) else slopes
