"""A step as a function of both tokens, read near its middle: its logit is bilinear, its height linear."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from jaxtyping import Bool, Float, Int

from upper.value_queries.queries import orthonormal
from upper.value_queries.steps import SATURATED, Line, OneDirection, Shape, Step

# Orthonormal rows.
Span = Float[np.ndarray, "p d"]


@dataclass(frozen=True)
class _Moves:
    """How far x moves to read a slope, relative to the reach of a shape."""

    length: float = 0.5
    halvings: int = 14  #: moves are halved at most so often where a step is out of reach
    #: parallel heads make a step that is not monotone: one value has several logits. Moves are shorter then. The logit
    #: at the middle must lie within the second share of the reach, and a move along the slope must change it by as much
    #: as expected, up to the third
    several: float = 0.3
    middle: float = 0.6
    expected: float = 0.3


_BY = _Moves()


@dataclass(frozen=True)
class Reading:
    """The logit x . slope + offset and the height of a step at n delta; NaN where the step was out of reach."""

    slope: Float[np.ndarray, "n d"]
    offset: Float[np.ndarray, " n"]
    height: Float[np.ndarray, " n"]
    share: Float[np.ndarray, " n"]  #: of the usual length of moves

    @classmethod
    def nothing(cls, n: int, d: int) -> "Reading":
        """A reading to be filled."""
        return cls(np.full((n, d), np.nan), *np.full((3, n), np.nan))

    @property
    def read(self) -> Bool[np.ndarray, " n"]:
        """Where the step was in reach."""
        return np.isfinite(self.slope).all(axis=1)

    def put(self, other: "Reading", where: Int[np.ndarray, " some"]) -> None:
        """Write the reading of some delta into this one."""
        for mine, given in zip(vars(self).values(), vars(other).values(), strict=True):
            mine[where] = given


def read_step(
    values: OneDirection,
    shape: Shape,
    lines: Line,
    span: Span,
    share: Float[np.ndarray, " n"],
    size: Float[np.ndarray, " n"] | float,
) -> Reading:
    """A step with its middle near the base of each of n lines, where only it changes: 3 + p queries a line.

    Two more a line for parallel heads. The slope is looked for in the span; `size` is about its norm. x moves by a
    share of the usual length.
    """
    n, d = lines.delta.shape
    far = SATURATED / (lines.rate * shape.rate.min())
    three = Line(*(np.concatenate([part] * 3) for part in (lines.delta, lines.base, lines.direction)))
    low, high, middle = np.split(three.values(values, np.concatenate([-far, far, np.zeros(n)])), 3)
    height, away = high - low, share * shape.reach / size
    with np.errstate(divide="ignore", invalid="ignore"):
        at_base = shape.inverse((middle - low) / height)
    if len(shape.rate) > 1:
        away = _BY.several * away
        sides = [lines.values(values, side * away) for side in (-1, 1)]
        with np.errstate(divide="ignore", invalid="ignore"):
            before, after = (shape.inverse((value - low) / height) for value in sides)
        expected = 2 * away * lines.rate
        right = np.abs(after - before - expected) < _BY.expected * expected
        at_base[~(right & (np.abs(at_base) < _BY.middle * shape.reach))] = np.nan
    else:
        away = _BY.length * away
    slope = np.full((n, d), np.nan)
    near = np.flatnonzero(np.isfinite(at_base))
    if len(near):
        x = lines.base[near, None] + away[near, None, None] * span
        moved = values(x.reshape(-1, d), lines.delta[near].repeat(len(span), axis=0)).reshape(-1, len(span))
        with np.errstate(invalid="ignore"):
            z = shape.inverse((moved - low[near, None]) / height[near, None])
        slope[near] = (z - at_base[near, None]) / away[near, None] @ span
    return Reading(slope, at_base - np.einsum("nd,nd->n", lines.base, slope), height, share)


def fill(
    reading: Reading,
    which: Int[np.ndarray, " some"],
    read: Callable[[Int[np.ndarray, " some"], Float[np.ndarray, " some"]], Reading],
) -> bool:
    """Fill the reading at some delta; whether all are filled.

    `read` reads at these delta with moves of x and of delta by shares of their usual lengths. Where the step is out of
    reach the share is halved.
    """
    for halvings in range(_BY.halvings):
        readings = read(which, np.full(len(which), 0.5**halvings))
        reading.put(readings, which)
        which = which[~readings.read]
        if not len(which):
            return True
    return False


def spanned(slopes: Float[np.ndarray, "n d"], tolerance: float) -> Span | None:
    """The space that slopes span, or None where more of them may leave it: two slopes more lie in it."""
    _, singular, rows = np.linalg.svd(slopes, full_matrices=False)
    rank = int(np.sum(singular > tolerance * singular[0]))
    return rows[:rank] if rank <= len(slopes) - 2 and rank < slopes.shape[1] else None


@dataclass(frozen=True)
class Form:
    """A step for all delta: values = low + (amplitude . delta) shape(z), z = x Theta delta + bias . delta + shift.

    Theta, bias and amplitude are zero until the step is followed from the first delta, delta_0, to others.
    """

    step: Step
    sign: float  #: -1 where the step is that of the negative of its head
    shift: float  #: what numbers of copies of the two tokens add to z
    slope: Float[np.ndarray, " d"]  #: Theta delta_0
    offset: float  #: bias . delta_0
    height: float  #: amplitude . delta_0
    theta: Float[np.ndarray, "d d"]
    bias: Float[np.ndarray, " d"]
    amplitude: Float[np.ndarray, " d"]
    span: Span  #: it holds Theta delta for all delta; empty where that was not measured

    def over(self, logits: Float[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
        """Whether the step is over, on either side, where z is this; a little beyond saturation, for room."""
        return np.abs(logits) * self.step.shape.rate.min() > SATURATED + 3


def first_forms(
    values: OneDirection,
    steps: Sequence[Step],
    signs: Sequence[tuple[float, float]],
    rng: np.random.Generator,
    *,
    low_rank: bool,
) -> list[Form] | None:
    """The forms of steps at the first delta, or None where one is out of reach.

    `signs` are the sign and the shift of each. With `low_rank`, slopes are read in the span of earlier ones once two of
    those lie in the span of the rest, as those of heads of one form with several thresholds do.
    """
    d = len(steps[0].line.delta)
    forms: list[Form] = []
    span, whole = orthonormal(rng, d, d), True
    for step, (sign, shift) in zip(steps, signs, strict=True):
        line, size = step.line, float(step.line.rate * np.sqrt(d / 2))
        for _ in range(2):  # the second time along the slope that was read the first time
            reading = _at_first(values, step.shape, line, size, span)
            if not reading.read.all():
                return None
            slope = reading.slope[0]
            size = float(np.linalg.norm(slope))
            line = replace(line, direction=slope / size, rate=size)
        shift = sign * shift
        offset, height, zero = float(reading.offset[0]) - shift, float(reading.height[0]), np.zeros(d)
        unknown = (np.zeros((d, d)), zero, zero, np.zeros((0, d)))
        forms.append(Form(step, sign, shift, slope, offset, height, *unknown))
        if low_rank and whole and len(forms) < len(steps):
            units = np.stack([form.slope / np.linalg.norm(form.slope) for form in forms])
            spanning = spanned(units, values.tolerances.span)
            span, whole = (span, True) if spanning is None else (spanning, False)
    return forms


def _at_first(values: OneDirection, shape: Shape, line: Line, size: float, span: Span) -> Reading:
    one = Line(line.delta[None], line.base[None], line.direction[None], np.array([line.rate]))

    def read(which: np.ndarray, share: np.ndarray) -> Reading:
        return read_step(values, shape, one, span, share, size)

    reading = Reading.nothing(1, len(line.delta))
    fill(reading, np.zeros(1, int), read)
    return reading


def independent(forms: Sequence[Form], tolerance: float) -> list[int]:
    """Which slopes span those of all forms, up to this share of the largest."""
    slopes = np.stack([form.slope for form in forms])
    _, triangle, order = scipy.linalg.qr(slopes.T, mode="economic", pivoting=True)
    size = np.abs(np.diag(triangle))
    return [int(i) for i in order[: int(np.sum(size > tolerance * size[0]))]]


def combined(forms: Sequence[Form], basis: Sequence[int], measured: Sequence[Form]) -> list[Form] | None:
    """The forms of all steps from those of the basis; None where amplitudes are not parallel, as they must be."""
    known = dict(zip(basis, measured, strict=True))
    slopes = np.stack([form.slope for form in measured])
    first = measured[0].amplitude / measured[0].height
    amplitudes = np.stack([form.amplitude / form.height for form in measured])
    # amplitudes are first read nearby, with half of the digits
    if len(known) < len(forms) and np.abs(amplitudes - first).max() > 1e-4 * np.abs(first).max():
        return None
    every = []
    for i, form in enumerate(forms):
        if i not in known:
            share = np.linalg.lstsq(slopes.T, form.slope, rcond=None)[0]
            theta = np.tensordot(share, np.stack([other.theta for other in measured]), 1)
            bias = share @ np.stack([other.bias for other in measured])
            known[i] = replace(form, theta=theta, bias=bias, amplitude=form.height * first)
        every.append(known[i])
    return every
