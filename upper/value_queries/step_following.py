"""Steps followed from one delta to all others: first nearby, then far away, then at points far apart."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from upper.value_queries.queries import orthonormal
from upper.value_queries.step_forms import (
    Form,
    Reading,
    Span,
    combined,
    fill,
    independent,
    read_step,
    spanned,
)
from upper.value_queries.steps import Line, OneDirection


@dataclass(frozen=True)
class _Distances:
    """How far apart the points and the delta are at which a step is read."""

    nearby: float = 0.7  #: delta moves by this share of the reach of the step
    #: whole slopes are read so many at a time, until those read span the rest
    chunk: int = 3
    far: float = 0.25  #: then delta moves by this share of its length, or less where heads meet on the way
    #: at last tokens have this share of their length on the circle, or twice it and so on where other heads are not
    #: saturated: a logit is a small difference of large numbers, so its rounding grows with the square of the length
    shortest: float = 1 / 16
    longest: float = 8.0
    reach: float = 4.0  #: the logits of a single head are read up to this size
    more: int = 5  #: points more than there are unknowns
    draws: int = 12  #: points are drawn so often: some lie where other heads are not saturated
    #: another delta is taken so often: heads meet where it is orthogonal to what tells them apart
    other_deltas: int = 6
    more_deltas: int = 3  #: delta at which slopes are read whole, more than the rank of Theta


_BY = _Distances()


def follow_steps(
    values: OneDirection,
    total: Float[np.ndarray, " d"],
    forms: Sequence[Form],
    rng: np.random.Generator,
    *,
    shared: bool,
    low_rank: bool,
) -> list[Form] | None:
    """The forms at all delta, or None where a step is lost on the way.

    `total` is the sum of the amplitudes of all heads. With `shared`, forms that are combinations of others at the first
    delta are taken to be so at all. With `low_rank`, slopes are read whole only until they span the rest.
    """
    delta = forms[0].step.line.delta
    d, radius = len(delta), float(np.linalg.norm(delta))
    directions = np.linalg.qr(np.column_stack([delta, rng.standard_normal((d, d - 1))]))[0].T
    directions[0] = delta / radius
    basis = independent(forms, values.tolerances.sums) if shared else list(range(len(forms)))
    nearby = [_nearby(values, forms[i], directions, low_rank) for i in basis]
    measured = [form for form in nearby if form is not None]
    if len(measured) < len(basis):
        return None
    every = combined(forms, basis, measured)
    if every is None:
        return None
    measured = [_far(values, every[i], every, directions) for i in basis]
    every = combined(forms, basis, measured)
    if every is None:
        return None
    known = AllSteps(values, total, every)
    measured = [_read_at_all(known, every[i], radius * directions, rng) for i in basis]
    # the slopes of the others at the first delta, of which combinations are taken
    span = np.linalg.qr(np.stack([form.slope for form in measured]).T)[0].T
    forms = [
        form if i in basis else _read_slope(known, form, delta, span, rng) for i, form in enumerate(every)
    ]
    return combined(forms, basis, measured)


def _nearby(values: OneDirection, form: Form, directions: np.ndarray, low_rank: bool) -> Form | None:
    """A form at all delta, from d - 1 of them so near that the step stays in reach."""
    step, delta, d = form.step, form.step.line.delta, len(directions)
    size = float(np.linalg.norm(form.slope))
    usual = _BY.nearby * step.shape.reach / size
    reading, span = Reading.nothing(d, d), directions

    def read(which: np.ndarray, share: np.ndarray) -> Reading:
        n = len(which)
        base, direction = np.tile(step.line.base, (n, 1)), np.tile(form.slope / size, (n, 1))
        moved = delta + usual * share[:, None] * directions[which]
        return read_step(
            values, step.shape, Line(moved, base, direction, np.full(n, size)), span, share, size
        )

    done = 1
    while done < d:
        which = np.arange(done, min(d, done + _BY.chunk) if low_rank and len(span) == d else d)
        if not fill(reading, which, read):
            return None
        done = int(which[-1]) + 1
        if low_rank and len(span) == d:
            changes = (reading.slope[1:done] - form.slope) / (usual * reading.share[1:done, None])
            slopes = np.concatenate([form.slope[None] / np.linalg.norm(delta), changes])
            spanning = spanned(slopes, values.tolerances.span)
            span = span if spanning is None else spanning
    return _linear(replace(form, span=span), reading, usual, directions)


def _far(values: OneDirection, form: Form, every: Sequence[Form], directions: np.ndarray) -> Form:
    """The form from delta as far away as it finds its own step, with no other in the way."""
    delta, d = form.step.line.delta, len(directions)
    shape, base = form.step.shape, form.step.line.base
    usual = _BY.far * float(np.linalg.norm(delta))
    reading = Reading.nothing(d, d)

    def read(which: np.ndarray, share: np.ndarray) -> Reading:
        moved = delta + usual * share[:, None] * directions[which]
        slope = moved @ form.theta.T
        size = np.linalg.norm(slope, axis=1)
        z = slope @ base + moved @ form.bias + form.shift
        along = slope / size[:, None]
        lines = Line(moved, base - (z / size)[:, None] * along, along, size)
        clear = np.ones(len(which), bool)
        for other in every:
            if other is not form:
                slopes, offset = moved @ other.theta.T, moved @ other.bias + other.shift
                ends = [
                    np.sum(lines.points(end / size) * slopes, axis=1) + offset
                    for end in (-shape.saturated, shape.saturated)
                ]
                clear &= (ends[0] * ends[1] > 0) & other.over(np.abs(ends).min(axis=0))
        readings = Reading.nothing(len(which), d)
        if clear.any():
            seen = Line(*(part[clear] for part in vars(lines).values()))
            readings.put(
                read_step(values, shape, seen, form.span, share[clear], size[clear]), np.flatnonzero(clear)
            )
        return readings

    return _linear(form, reading, usual, directions) if fill(reading, np.arange(d), read) else form


def _linear(form: Form, reading: Reading, usual: float, directions: np.ndarray) -> Form:
    """The form whose slope, offset and height are linear in delta and as read at delta_0 + usual share directions."""
    away, radius = usual * reading.share, float(np.linalg.norm(form.step.line.delta))
    slope = (reading.slope - form.slope) / away[:, None]
    offset = (reading.offset - form.shift - form.offset) / away
    height = (reading.height - form.height) / away
    # along delta_0 itself all is known
    slope[0], offset[0], height[0] = form.slope / radius, form.offset / radius, form.height / radius
    return replace(form, theta=slope.T @ directions, bias=offset @ directions, amplitude=height @ directions)


@dataclass(frozen=True)
class AllSteps:
    """The values, as far as they are known before they are read again."""

    values: OneDirection
    total: Float[np.ndarray, " d"]  #: the sum of the amplitudes of all heads
    every: Sequence[Form]

    def others(
        self, form: Form, x: Float[np.ndarray, "n d"], delta: Float[np.ndarray, " d"]
    ) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
        """The sum of all steps but this one, and whether they are over, on either side."""
        clear = np.ones(len(x), bool)
        low = np.full(len(x), delta @ (self.total - sum(each.amplitude for each in self.every)) / 2)
        for other in self.every:
            if other is not form:
                logits = x @ (other.theta @ delta) + other.bias @ delta + other.shift
                clear &= other.over(logits)
                low += np.where(logits > 0, other.amplitude @ delta, 0.0)
        return low, clear


def _read_at_all(
    known: AllSteps, form: Form, deltas: Float[np.ndarray, "d d"], rng: np.random.Generator
) -> Form:
    """The form read again at d orthogonal delta.

    Where Theta has rank r < d, slopes are read whole at r + 3 delta, C = Theta D, and at all others in the r directions
    U^T of the span. Then Theta delta = C (U^T C)^+ U^T Theta delta, whatever the error of the span. About
    2 (r + 5) d queries, or d (d + 5).
    """
    d, r = len(deltas), len(form.span)
    enough = min(d, r + _BY.more_deltas) if r < d else d
    used, slopes, inside, bases, constants = [], [], [], [], []
    length = _BY.shortest
    for j, delta in enumerate(deltas):
        tried, span = delta, np.eye(d) if j < enough else form.span
        for _ in range(_BY.other_deltas):
            read, length = _read_shortest(known, form, tried, span, length, rng)
            if read is not None:
                break
            # heads meet there, as where delta is orthogonal to what tells them apart: beside another delta they do not
            tried = (delta + np.linalg.norm(delta) * orthonormal(rng, 1, d)[0]) / np.sqrt(2)
        if read is None:
            return form
        base, inner, constant = read
        used.append(length * tried)
        bases.append(base)
        constants.append(constant)
        if j < enough:
            slopes.append(inner)
            inner = form.span @ inner
        inside.append(inner)
    at_first, coordinates = np.array(slopes), np.array(inside)
    rest = coordinates[enough:] @ np.linalg.pinv(coordinates[:enough]) @ at_first
    every_slope = np.concatenate([at_first, rest])
    offsets = np.array(constants) - np.einsum("nd,nd->n", np.array(bases), every_slope)
    theta = np.linalg.solve(np.array(used), every_slope).T
    bias = np.linalg.solve(np.array(used), offsets)
    return replace(form, theta=theta, bias=bias, slope=theta @ deltas[0], offset=float(bias @ deltas[0]))


def _read_slope(known: AllSteps, form: Form, delta: np.ndarray, span: Span, rng: np.random.Generator) -> Form:
    """The form with its slope at the first delta read again, in a span that holds it; p + 5 queries."""
    read, length = _read_shortest(known, form, delta, span, _BY.shortest, rng)
    if read is None:
        return form
    base, inner, constant = read
    slope = inner @ span
    return replace(form, slope=slope / length, offset=float(constant - base @ slope) / length)


def _read_shortest(
    known: AllSteps, form: Form, delta: np.ndarray, span: Span, length: float, rng: np.random.Generator
) -> tuple[tuple[np.ndarray, np.ndarray, float] | None, float]:
    """What `_read_apart` reads at the delta times the least length, from the given one, and that length."""
    while True:
        read = _read_apart(known, form, length * delta, span, rng)
        if read is not None or length >= _BY.longest:
            return read, length
        length *= 2


def _read_apart(
    known: AllSteps, form: Form, delta: np.ndarray, span: Span, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, float] | None:
    """The logit at the points base + y . span, as base, the slope by y, and the logit at the base.

    The points are far apart, and all other heads are saturated there. None where too few such points are found.
    """
    p, d = span.shape
    shape, radius = form.step.shape, float(np.linalg.norm(delta))
    if len(shape.rate) == 1:
        shape = replace(shape, reach=_BY.reach)
    slope = form.theta @ delta
    offset = float(form.bias @ delta) + form.shift
    inner = span @ slope
    size = float(np.linalg.norm(inner))
    base = np.zeros(d)
    if p < d:
        base = rng.standard_normal((1, d))[0]
        base = base - span.T @ (span @ base)
        base = base * (radius / float(np.linalg.norm(base)))
    constant = float(base @ slope) + offset
    more = min(p, _BY.more)
    y = radius * np.concatenate([orthonormal(rng, p, p), orthonormal(rng, more, p)])
    if more < _BY.more:
        y = np.concatenate([y, radius * rng.standard_normal((_BY.more - more, p)) / np.sqrt(p)])
    wanted = np.zeros(len(y))
    wanted[p:] = shape.reach * np.linspace(-0.8, 0.8, len(y) - p)
    for _ in range(_BY.draws):
        y += (((wanted - constant) - y @ inner) / size**2)[:, None] * inner
        x = base + y @ span
        low, clear = known.others(form, x, delta)
        if clear.all():
            break
        fresh = rng.standard_normal((int(np.sum(~clear)), p))
        y[~clear] = radius * fresh / np.linalg.norm(fresh, axis=1, keepdims=True)
    if clear.sum() < p + 2:
        return None
    x, y = x[clear], y[clear]
    values = known.values(x, np.tile(delta, (len(x), 1)))
    with np.errstate(invalid="ignore"):
        z = shape.inverse((values - low[clear]) / (form.amplitude @ delta))
    read = np.isfinite(z)
    if read.sum() < p + 2:
        return None
    rows = np.concatenate([y / radius, np.ones((len(y), 1))], axis=1)
    off = z - y @ inner - constant
    change = np.linalg.lstsq(rows[read], off[read], rcond=None)[0]
    return base, inner + change[:-1] / radius, constant + float(change[-1]) - form.shift
