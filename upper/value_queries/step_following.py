"""Steps followed from one delta to all others."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from upper.value_queries.step_form import Form, clear_of, combined, independent
from upper.value_queries.step_polish import AllSteps, polished, polished_slope
from upper.value_queries.step_reading import Reading, fill, read_step, spanned
from upper.value_queries.step_shape import SATURATED, Scalar

__all__ = ["follow_steps"]

# The second delta is this share of the first away, or less where heads meet on the way.
_LARGE = 0.25
# Slopes that are read whole at a time, before those read span the rest.
_CHUNK = 3


def follow_steps(
    h: Scalar,
    total: Float[np.ndarray, " d"],
    delta: Float[np.ndarray, " d"],
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
    d, radius = len(delta), float(np.linalg.norm(delta))
    directions = np.linalg.qr(np.column_stack([delta, rng.standard_normal((d, d - 1))]))[0].T
    directions[0] = delta / radius
    basis = independent(forms) if shared else list(range(len(forms)))
    nearby = [_nearby(h, delta, forms[i], directions, low_rank) for i in basis]
    measured = [one for one in nearby if one is not None]
    if len(measured) < len(basis):
        return None
    every = combined(forms, basis, measured)
    if every is None:
        return None
    measured = [_far(h, delta, every[i], every, directions) for i in basis]
    every = combined(forms, basis, measured)
    if every is None:
        return None
    known = AllSteps(h, total, every)
    measured = [polished(known, every[i], radius * directions, rng) for i in basis]
    # the slopes of the others at the first delta, of which combinations are taken
    span = np.linalg.qr(np.stack([one.slope for one in measured]).T)[0].T
    forms = [
        one if i in basis else polished_slope(known, one, delta, span, rng) for i, one in enumerate(every)
    ]
    return combined(forms, basis, measured)


def _nearby(h: Scalar, delta: np.ndarray, form: Form, directions: np.ndarray, low_rank: bool) -> Form | None:
    """A form at all delta, from d - 1 of them so near that the step stays in reach."""
    d, step = len(delta), form.step
    size = float(np.linalg.norm(form.slope))
    usual = 0.7 * step.shape.reach / size
    reading, span = Reading.nothing(d, d), directions

    def read(which: np.ndarray, share: np.ndarray) -> Reading:
        n = len(which)
        return read_step(
            h, step.shape, delta + usual * share[:, None] * directions[which], np.tile(step.centre, (n, 1)),
            np.tile(form.slope / size, (n, 1)), np.full(n, size), np.full(n, size), span, share,
        )  # fmt: skip

    done = 1
    while done < d:
        some = np.arange(done, min(d, done + _CHUNK) if low_rank and len(span) == d else d)
        if not fill(reading, some, read):
            return None
        done = int(some[-1]) + 1
        if low_rank and len(span) == d:
            changes = (reading.slope[1:done] - form.slope) / (usual * reading.share[1:done, None])
            found = spanned(np.concatenate([form.slope[None] / np.linalg.norm(delta), changes]))
            span = span if found is None else found
    return _linear(replace(form, span=span), reading, usual, directions, float(np.linalg.norm(delta)))


def _far(h: Scalar, delta: np.ndarray, form: Form, every: Sequence[Form], directions: np.ndarray) -> Form:
    """The form from delta as far away as it finds its own step, with no other in the way."""
    d, radius = len(delta), float(np.linalg.norm(delta))
    shape = form.step.shape
    reach = SATURATED / float(shape.rate.min())
    usual = _LARGE * radius
    reading = Reading.nothing(d, d)

    def read(which: np.ndarray, share: np.ndarray) -> Reading:
        moved = delta + usual * share[:, None] * directions[which]
        slope = moved @ form.theta.T
        size = np.linalg.norm(slope, axis=1)
        z = slope @ form.step.centre + moved @ form.bias + form.shift
        along = slope / size[:, None]
        centre = form.step.centre - (z / size)[:, None] * along
        clear = np.ones(len(which), bool)
        for other in every:
            if other is not form:
                slopes, offset = moved @ other.theta.T, moved @ other.bias + other.shift
                ends = [
                    np.sum((centre + end / size[:, None] * along) * slopes, axis=1) + offset
                    for end in (-reach, reach)
                ]
                clear &= (ends[0] * ends[1] > 0) & clear_of(other, np.abs(ends).min(axis=0))
        some = Reading.nothing(len(which), d)
        if clear.any():
            moved, centre, along, size, share = (part[clear] for part in (moved, centre, along, size, share))
            found = read_step(h, shape, moved, centre, along, size, size, form.span, share)
            some.put(found, np.flatnonzero(clear))
        return some

    if not fill(reading, np.arange(d), read):
        return form
    return _linear(form, reading, usual, directions, radius)


def _linear(form: Form, reading: Reading, usual: float, directions: np.ndarray, radius: float) -> Form:
    """The form whose slope, offset and height are linear in delta and as read at delta_0 + usual share directions."""
    away = usual * reading.share
    slope = (reading.slope - form.slope) / away[:, None]
    offset = (reading.offset - form.shift - form.offset) / away
    height = (reading.height - form.height) / away
    # along delta_0 itself all is known
    slope[0], offset[0], height[0] = form.slope / radius, form.offset / radius, form.height / radius
    return replace(form, theta=slope.T @ directions, bias=offset @ directions, amplitude=height @ directions)
