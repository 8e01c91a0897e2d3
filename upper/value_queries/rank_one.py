"""Heads whose outputs have one direction, told apart by their steps: all that the function determines."""

from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np
from jaxtyping import Float
from scipy.linalg import qr

from upper.value_queries.steps import SATURATED, Scalar, Shape, Step, find_steps
from upper.value_queries.two_tokens import TwoTokens, orthonormal

# Circles grow by this factor, at most so often, until steps are apart; one more growth leaves room between them.
_GROWTH, _GROWN, _CIRCLES = np.sqrt(2), 20, 1
# Moves of tokens are halved at most so often.
_HALVINGS = 40
# The second delta is this share of the first away, or less where heads meet on the way.
_LARGE = 0.25
# Slopes are combinations of others to this share of their size; heights add up to this share of them.
_DEPENDENT, _ADDS_UP = 1e-7, 1e-7
# Points of the last reading more than there are unknowns, how often points are drawn, and delta where heads meet.
_MORE, _DRAWS, _OTHER_DELTAS = 8, 30, 6
# Signs of so many heads are tried in all ways.
_ALL_WAYS = 13


@dataclass(frozen=True)
class RankOneHeads:
    """Heads with W_i = a_i w^T for one w, and one that attends to all tokens alike where W_i add up to less."""

    theta: Float[np.ndarray, "m d d"]
    w: Float[np.ndarray, "m d d"]
    key_bias: Float[np.ndarray, "m d"]


@dataclass(frozen=True)
class _Form:
    """A step for all delta: h = low + (amplitude . delta) shape(z) with z = x Theta delta + bias . delta."""

    step: Step
    sign: float  #: -1 where the step is that of the negative of its head
    shift: float  #: what numbers of copies of the two tokens add to z
    slope: Float[np.ndarray, " d"]  #: Theta delta_0
    offset: float  #: bias . delta_0
    height: float  #: amplitude . delta_0
    theta: Float[np.ndarray, "d d"] = field(default_factory=lambda: np.zeros((0, 0)))
    bias: Float[np.ndarray, " d"] = field(default_factory=lambda: np.zeros(0))
    amplitude: Float[np.ndarray, " d"] = field(default_factory=lambda: np.zeros(0))


def rank_one_heads(
    pairs: TwoTokens, scale: float, rng: np.random.Generator, *, swapped: bool = False, shared: bool = True
) -> RankOneHeads | None:
    """All heads of a layer whose g(x; delta) has one direction, or None where their steps are not told apart.

    1. On a half circle of points x each head makes one step; circles grow until steps are apart (`find_steps`).
    2. Near its step only one head changes, and its logit is read from one value: Theta_i delta_0 from d points.
    3. The same at d - 1 further delta, first nearby, then far away where the first estimate puts the step.
    4. Theta_i that are combinations of others at delta_0 are taken to be so at all delta, where `shared`.
       Where Theta_i delta are parallel for every delta, steps have one place; x and delta are exchanged then
       (`swapped`), for two tokens and W_i that are multiples of one another: h(x; delta) / (a . delta) is a sum of
       sigmoids of delta, with a the rows' common vector.
    5. The heads with (Theta, W) and (-Theta, -W) are told apart by numbers of copies of a token, or, as two tokens show
       the same function for both, chosen so that W_1 + ... + W_m is the known one.

    About 2 d^2 queries for each Theta_i that is measured, d for each other.
    """
    d = pairs.oracle.d
    axes = scale * orthonormal(rng, min(3, d), d)
    some = 2 * rng.standard_normal((8, d)) * scale
    output = np.linalg.svd(np.concatenate(pairs(some, axes[0])))[2][0]

    def h(x: np.ndarray, delta: np.ndarray) -> np.ndarray:
        if delta.ndim == 1:
            return pairs(x[None], delta[None])[0][0] @ output
        return pairs(x[:, None], delta)[0][:, 0] @ output

    def exchanged(x: np.ndarray, delta: np.ndarray) -> np.ndarray:
        other = np.broadcast_to(delta, x.shape)
        return h(other, x) * (other @ common) / (x @ common)

    common = None
    if swapped:
        common = _common(h, pairs.linear.projection_sum @ output, scale, rng)
        if common is None or (pairs.oracle.k or 2) != 2:
            return None
    values = h if common is None else exchanged
    found = _first(pairs, values, scale, output, rng)
    if found is None:
        return None
    everywhere = _followed(pairs, values, output, *found, rng, shared)
    if everywhere is None:
        return None
    heads = _assembled(pairs, everywhere, output)
    return replace(heads, theta=np.swapaxes(heads.theta, 1, 2)) if swapped else heads


def _common(
    h: Scalar, total: Float[np.ndarray, " d"], scale: float, rng: np.random.Generator
) -> Float[np.ndarray, " d"] | None:
    """The vector a with h(x; delta) proportional to a . delta where all heads are saturated."""
    d = len(total)
    for growth in range(4, _GROWN):
        radius = scale * _GROWTH**growth
        delta, x = radius * orthonormal(rng, 2, d)
        moved = delta + 1e-3 * radius * np.concatenate([orthonormal(rng, d, d), orthonormal(rng, 2, d)])
        values = h(np.tile(x, (len(moved), 1)), moved)
        found = np.linalg.lstsq(moved, values, rcond=None)[0]
        size = np.linalg.norm(found)
        right = np.abs(moved @ found - values).max() < 1e-9 * np.abs(values).max()
        if right and size * scale > 1e-9 * np.abs(h(scale * orthonormal(rng, 2, d), delta)).max():
            return found / size
    return None


def _first(
    pairs: TwoTokens, h: Scalar, scale: float, output: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, list[_Form]] | None:
    d = pairs.oracle.d
    for _ in range(_CIRCLES):
        axes = scale * orthonormal(rng, 3, d)
        apart = False
        for growth in range(3, _GROWN):
            delta, *plane = axes * _GROWTH**growth
            steps = find_steps(h, delta, np.stack(plane))
            if apart and steps is not None:
                forms = [_at_first(pairs, h, delta, step, output, rng) for step in steps]
                if all(form is not None for form in forms):
                    return delta, [form for form in forms if form is not None]
            apart = apart or steps is not None
    return None


@dataclass(frozen=True)
class _Reading:
    """A step at n delta; NaN where it was out of reach."""

    slope: Float[np.ndarray, "n d"]
    offset: Float[np.ndarray, " n"]
    height: Float[np.ndarray, " n"]
    at_centre: Float[np.ndarray, " n"]  #: the logit there


def _read(
    h: Scalar,
    shape: Shape,
    delta: Float[np.ndarray, "n d"],
    centre: Float[np.ndarray, "n d"],
    along: Float[np.ndarray, "n d"],
    rate: Float[np.ndarray, " n"],
    size: Float[np.ndarray, " n"],
    directions: Float[np.ndarray, "d d"],
) -> _Reading:
    """Plateaus and logits around `centre`; `rate` is the slope along `along`, `size` about its norm."""
    n, d = delta.shape
    far = (SATURATED / (rate * shape.rate.min()))[:, None] * along
    low, high, middle = np.split(
        h(np.concatenate([centre - far, centre + far, centre]), np.concatenate([delta] * 3)), 3
    )
    height = high - low
    with np.errstate(divide="ignore", invalid="ignore"):
        at_centre = shape.inverse((middle - low) / height)
    slope = np.full((n, d), np.nan)
    away = shape.reach / size
    left = np.flatnonzero(np.isfinite(at_centre))
    for _ in range(_HALVINGS):
        if not len(left):
            break
        x = centre[left, None] + away[left, None, None] * directions
        values = h(x.reshape(-1, d), delta[left].repeat(d, axis=0)).reshape(-1, d)
        z = shape.inverse((values - low[left, None]) / height[left, None])
        slope[left] = (z - at_centre[left, None]) / away[left, None] @ directions
        left = left[~np.isfinite(slope[left]).all(axis=1)]
        away[left] /= 2
    return _Reading(slope, at_centre - np.einsum("nd,nd->n", centre, slope), height, at_centre)


def _at_first(
    pairs: TwoTokens, h: Scalar, delta: np.ndarray, step: Step, output: np.ndarray, rng: np.random.Generator
) -> _Form | None:
    d = len(delta)
    sign, shift = _sign(pairs, h, delta, step, output)
    if shift != 0 and len(step.shape.rate) > 1:
        return None
    along, rate, size = step.along, step.rate, step.rate * np.sqrt(d / 2)
    for _ in range(2):
        reading = _read(
            h, step.shape, delta[None], step.centre[None], along[None], np.array([rate]), np.array([size]),
            orthonormal(rng, d, d),
        )  # fmt: skip
        slope = reading.slope[0]
        if not np.isfinite(slope).all():
            return None
        size = rate = float(np.linalg.norm(slope))
        along = slope / size
    return _Form(
        step, sign, sign * shift, slope, float(reading.offset[0]) - sign * shift, float(reading.height[0])
    )


def _sign(
    pairs: TwoTokens, h: Scalar, delta: np.ndarray, step: Step, output: np.ndarray
) -> tuple[float, float]:
    """The sign of a step's head, and ln(n_1 / n_2) of the queries, where its logit is more by that times the sign."""
    k = pairs.oracle.k or 2
    first = (k + 1) // 2
    if k == 2:
        return 1.0, 0.0
    others = first - 1 if 2 * first > k else first + 1
    x = step.centre
    tokens = np.stack([x, x - delta]).repeat([others, k - others], axis=0)
    value = (
        pairs.oracle.ask(tokens[None])[0, 0] - pairs.linear.bias - (x - delta) @ pairs.linear.projection_sum
    ) @ output
    usual = h(x[None], delta)[0]
    less = (value - usual) * step.height * (others - first) < 0
    return (-1.0 if less else 1.0), float(np.log(first / (k - first)))


def _followed(
    pairs: TwoTokens,
    h: Scalar,
    output: np.ndarray,
    delta: np.ndarray,
    forms: list[_Form],
    rng: np.random.Generator,
    shared: bool,
) -> list[_Form] | None:
    """The forms at all delta."""
    d, radius = len(delta), float(np.linalg.norm(delta))
    directions = np.linalg.qr(np.column_stack([delta, rng.standard_normal((d, d - 1))]))[0].T
    directions[0] = delta / radius
    slopes = np.stack([form.slope for form in forms])
    basis = np.arange(len(forms))
    if shared:
        _, triangle, order = qr(slopes.T, mode="economic", pivoting=True)
        size = np.abs(np.diag(triangle))
        basis = order[: int(np.sum(size > _DEPENDENT * size[0]))]
    nearby = [_nearby(h, delta, forms[i], directions) for i in basis]
    measured = [one for one in nearby if one is not None]
    if len(measured) < len(basis):
        return None
    total = pairs.linear.projection_sum @ output
    for polish in (False, False, True, True):
        every = _combined(forms, basis, measured)
        if every is None:
            return None
        if not polish:
            measured = [_far(h, delta, every[i], every, directions) for i in basis]
            continue
        measured = [_polished(h, total, every[i], every, radius * directions, rng) for i in basis]
        # the slopes of the others at the first delta, of which combinations are taken
        forms = [
            one if i in basis else _polished(h, total, one, every, delta[None], rng)
            for i, one in enumerate(every)
        ]
    return _combined(forms, basis, measured)


def _nearby(h: Scalar, delta: np.ndarray, form: _Form, directions: np.ndarray) -> _Form | None:
    """A form at all delta, from d - 1 of them so near that the step stays in reach."""
    d, step = len(delta), form.step
    size = float(np.linalg.norm(form.slope))
    away = np.full(d, 0.7 * step.shape.reach / size)
    reading = _Reading(np.full((d, d), np.nan), np.full(d, np.nan), np.full(d, np.nan), np.full(d, np.nan))
    left = np.arange(1, d)
    for _ in range(_HALVINGS):
        n = len(left)
        some = _read(
            h, step.shape, delta + away[left, None] * directions[left], np.tile(step.centre, (n, 1)),
            np.tile(form.slope / size, (n, 1)), np.full(n, size), np.full(n, size), directions,
        )  # fmt: skip
        _put(reading, some, left)
        left = left[~np.isfinite(some.slope).all(axis=1)]
        if not len(left):
            return _differences(form, reading, away, directions, float(np.linalg.norm(delta)))
        away[left] /= 2
    return None


def _put(reading: _Reading, some: _Reading, where: np.ndarray) -> None:
    for name in ("slope", "offset", "height", "at_centre"):
        getattr(reading, name)[where] = getattr(some, name)


def _differences(
    form: _Form, reading: _Reading, away: np.ndarray, directions: np.ndarray, radius: float
) -> _Form:
    slope = (reading.slope - form.slope) / away[:, None]
    offset = (reading.offset - form.shift - form.offset) / away
    height = (reading.height - form.height) / away
    # all is linear in delta
    slope[0], offset[0], height[0] = form.slope / radius, form.offset / radius, form.height / radius
    return replace(form, theta=slope.T @ directions, bias=offset @ directions, amplitude=height @ directions)


def _combined(forms: list[_Form], basis: np.ndarray, measured: list[_Form]) -> list[_Form] | None:
    """The forms of all steps from those of the basis."""
    known = dict(zip(basis.tolist(), measured, strict=True))
    slopes = np.stack([one.slope for one in measured])
    first = measured[0].amplitude / measured[0].height
    amplitudes = np.stack([one.amplitude / one.height for one in measured])
    if len(known) < len(forms) and np.abs(amplitudes - first).max() > 1e-4 * np.abs(first).max():
        return None
    every = []
    for i, form in enumerate(forms):
        if i not in known:
            share = np.linalg.lstsq(slopes.T, form.slope, rcond=None)[0]
            theta = np.tensordot(share, np.stack([one.theta for one in measured]), 1)
            bias = share @ np.stack([one.bias for one in measured])
            known[i] = replace(form, theta=theta, bias=bias, amplitude=form.height * first)
        every.append(known[i])
    return every


def _far(h: Scalar, delta: np.ndarray, form: _Form, every: list[_Form], directions: np.ndarray) -> _Form:
    """The form from delta as far away as it finds its own step, with no other in the way."""
    d, radius = len(delta), float(np.linalg.norm(delta))
    shape = form.step.shape
    reach = SATURATED / float(shape.rate.min())
    away = np.full(d, _LARGE * radius)
    reading = _Reading(np.full((d, d), np.nan), np.full(d, np.nan), np.full(d, np.nan), np.full(d, np.nan))
    left = np.arange(d)
    for _ in range(_HALVINGS):
        moved = delta + away[left, None] * directions[left]
        slope = moved @ form.theta.T
        size = np.linalg.norm(slope, axis=1)
        z = slope @ form.step.centre + moved @ form.bias + form.shift
        along = slope / size[:, None]
        centre = form.step.centre - (z / size)[:, None] * along
        clear = np.ones(len(left), bool)
        for other in every:
            if other is not form:
                slopes, offset = moved @ other.theta.T, moved @ other.bias
                ends = [
                    (np.sum((centre + end / size[:, None] * along) * slopes, axis=1) + offset)
                    * other.step.shape.rate.min()
                    for end in (-reach, reach)
                ]
                clear &= (ends[0] * ends[1] > 0) & (np.abs(ends).min(axis=0) > SATURATED + 3)
        if clear.any():
            to = size[clear]
            _put(
                reading,
                _read(h, shape, moved[clear], centre[clear], along[clear], to, to, directions),
                left[clear],
            )
        left = left[~np.isfinite(reading.slope[left]).all(axis=1)]
        if not len(left):
            return _differences(form, reading, away, directions, radius)
        away[left] /= 2
    return form


def _polished(
    h: Scalar,
    total: np.ndarray,
    form: _Form,
    every: list[_Form],
    deltas: Float[np.ndarray, "n d"],
    rng: np.random.Generator,
) -> _Form:
    """The form read again at orthogonal delta, or its slope at one, at points far apart of a small logit.

    Other heads are saturated there. A logit is a small difference of large numbers, so the place of the step is exact
    to their last digits.
    """
    used, slopes, offsets = [], [], []
    for r, delta in enumerate(deltas):
        tried = delta
        for _ in range(_OTHER_DELTAS):
            found = _slope(h, total, form, every, tried, rng)
            if found is not None or len(deltas) == 1:
                break
            # heads meet there, as where delta is orthogonal to what tells them apart: beside another delta they do not
            tried = (
                delta + rng.choice([-1, 1]) * deltas[rng.integers(r + 1, r + len(deltas)) % len(deltas)]
            ) / np.sqrt(2)
        if found is None:
            return form
        used.append(tried)
        slopes.append(found[0])
        offsets.append(found[1])
    if len(deltas) == 1:
        return replace(form, slope=slopes[0], offset=offsets[0])
    theta = np.linalg.solve(np.array(used), np.array(slopes)).T
    bias = np.linalg.solve(np.array(used), np.array(offsets))
    return replace(form, theta=theta, bias=bias, slope=theta @ deltas[0], offset=float(bias @ deltas[0]))


def _slope(
    h: Scalar, total: np.ndarray, form: _Form, every: list[_Form], delta: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, float] | None:
    """Theta delta and bias . delta."""
    d, shape, radius = len(delta), form.step.shape, float(np.linalg.norm(delta))
    slope, offset = form.theta @ delta, form.bias @ delta + form.shift
    size = np.linalg.norm(slope)
    x = radius * np.concatenate([orthonormal(rng, d, d), orthonormal(rng, min(d, _MORE), d)])
    wanted = np.zeros(len(x))
    wanted[d:] = shape.reach * np.linspace(-0.8, 0.8, len(x) - d)
    for _ in range(_DRAWS):
        x += (((wanted - offset) - x @ slope) / size**2)[:, None] * slope
        clear = np.ones(len(x), bool)
        low = np.full(len(x), delta @ (total - sum(one.amplitude for one in every)) / 2)
        for other in every:
            if other is not form:
                logits = x @ (other.theta @ delta) + other.bias @ delta
                clear &= np.abs(logits) * other.step.shape.rate.min() > SATURATED + 3
                low += np.where(logits > 0, other.amplitude @ delta, 0.0)
        if clear.all():
            break
        fresh = rng.standard_normal((int(np.sum(~clear)), d))
        x[~clear] = radius * fresh / np.linalg.norm(fresh, axis=1, keepdims=True)
    values = h(x, np.tile(delta, (len(x), 1)))
    off = shape.inverse((values - low) / (form.amplitude @ delta)) - x @ slope - offset
    read = clear & np.isfinite(off)
    if read.sum() < d + 2:
        return None
    rows = np.concatenate([x / radius, np.ones((len(x), 1))], axis=1)
    change = np.linalg.lstsq(rows[read], off[read], rcond=None)[0]
    return slope + change[:-1] / radius, float(form.bias @ delta + change[-1])


def _assembled(pairs: TwoTokens, forms: list[_Form], output: np.ndarray) -> RankOneHeads:
    """The layer: the heads of each step, signs, and what is left of W_1 + ... + W_m."""
    rates = [
        (form, rate, share)
        for form in forms
        for share, rate in zip(form.step.shape.share, form.step.shape.rate, strict=True)
    ]
    sign = np.array([form.sign for form, _, _ in rates])
    theta = np.stack([rate * form.theta for form, rate, _ in rates])
    bias = np.stack([rate * form.bias for form, rate, _ in rates])
    amplitude = np.stack([share * form.amplitude for form, _, share in rates])
    total = pairs.linear.projection_sum
    if (pairs.oracle.k or 2) == 2:
        sign = _signs(amplitude, total @ output)
    theta, bias, amplitude = sign[:, None, None] * theta, sign[:, None] * bias, sign[:, None] * amplitude
    w = amplitude[:, :, None] * output
    rest = total - w.sum(axis=0)
    if np.abs(rest).max() > _ADDS_UP * np.abs(w).max():
        theta = np.concatenate([theta, np.zeros_like(theta[:1])])
        bias = np.concatenate([bias, np.zeros_like(bias[:1])])
        w = np.concatenate([w, rest[None]])
    return RankOneHeads(theta, w, bias)


def _signs(amplitude: Float[np.ndarray, "m d"], total: Float[np.ndarray, " d"]) -> Float[np.ndarray, " m"]:
    """Signs with which the amplitudes add up to the total, or all +1 where none are found.

    All ways for few heads; for more, one change of sign along the circle, as thresholds of one form have.
    """
    m = len(amplitude)
    if m <= _ALL_WAYS:
        ways = np.array(list(product([1.0, -1.0], repeat=m)))
    else:
        steps = np.where(np.arange(m) < np.arange(m + 1)[:, None], -1.0, 1.0)
        ways = np.concatenate([steps, -steps])
    error = np.abs(ways @ amplitude - total).max(axis=1)
    right = np.flatnonzero(error < _ADDS_UP * np.abs(amplitude).max())
    return ways[right[0]] if len(right) else np.ones(m)
