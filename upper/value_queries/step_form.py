"""A step as a function of both tokens: its logit is bilinear, its height linear."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from jaxtyping import Bool, Float

from upper.value_queries.step_reading import Reading, Span, fill, read_step, spanned
from upper.value_queries.step_shape import SATURATED, Scalar, Step
from upper.value_queries.two_tokens import orthonormal

__all__ = ["Form", "clear_of", "combined", "first_forms", "independent"]

# Slopes are combinations of others to this share of their size.
_DEPENDENT = 1e-7
# Amplitudes are parallel to this share of their size.
_PARALLEL = 1e-4
# Other steps are over this far from a point at which one is read.
_ROOM = 3


@dataclass(frozen=True)
class Form:
    """A step for all delta: h = low + (amplitude . delta) shape(z) with z = x Theta delta + bias . delta + shift.

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


def first_forms(
    h: Scalar,
    delta: Float[np.ndarray, " d"],
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
    d = len(delta)
    forms: list[Form] = []
    span, whole = orthonormal(rng, d, d), True
    for step, (sign, shift) in zip(steps, signs, strict=True):
        along, rate, size = step.along, step.rate, step.rate * np.sqrt(d / 2)
        for _ in range(2):
            found = _at_first(h, delta, step, along, rate, size, span)
            if found is None:
                return None
            reading = found
            slope = reading.slope[0]
            size = rate = float(np.linalg.norm(slope))
            along = slope / size
        offset, height = float(reading.offset[0]), float(reading.height[0])
        zero = np.zeros(d)
        forms.append(
            Form(
                step, sign, sign * shift, slope, offset - sign * shift, height,
                np.zeros((d, d)), zero, zero, np.zeros((0, d)),
            )
        )  # fmt: skip
        if low_rank and whole and len(forms) < len(steps):
            spanning = spanned(np.stack([form.slope / np.linalg.norm(form.slope) for form in forms]))
            span, whole = (span, True) if spanning is None else (spanning, False)
    return forms


def _at_first(
    h: Scalar, delta: np.ndarray, step: Step, along: np.ndarray, rate: float, size: float, span: Span
) -> Reading | None:
    def read(which: np.ndarray, share: np.ndarray) -> Reading:
        return read_step(
            h, step.shape, delta[None], step.centre[None], along[None], np.array([rate]), np.array([size]), span, share
        )  # fmt: skip

    reading = Reading.nothing(1, len(delta))
    return reading if fill(reading, np.zeros(1, int), read) else None


def independent(forms: Sequence[Form]) -> list[int]:
    """Which slopes span those of all forms."""
    slopes = np.stack([form.slope for form in forms])
    _, triangle, order = scipy.linalg.qr(slopes.T, mode="economic", pivoting=True)
    size = np.abs(np.diag(triangle))
    return [int(i) for i in order[: int(np.sum(size > _DEPENDENT * size[0]))]]


def combined(forms: Sequence[Form], basis: Sequence[int], measured: Sequence[Form]) -> list[Form] | None:
    """The forms of all steps from those of the basis; None where amplitudes are not parallel, as they must be."""
    known = dict(zip(basis, measured, strict=True))
    slopes = np.stack([one.slope for one in measured])
    first = measured[0].amplitude / measured[0].height
    amplitudes = np.stack([one.amplitude / one.height for one in measured])
    if len(known) < len(forms) and np.abs(amplitudes - first).max() > _PARALLEL * np.abs(first).max():
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


def clear_of(form: Form, logits: Float[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
    """Whether a step is over, on either side, where its logit is this."""
    return np.abs(logits) * form.step.shape.rate.min() > SATURATED + _ROOM
