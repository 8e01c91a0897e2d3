"""A secret near the right one made exact, where rows of the public matrix are small: least squares and a program."""

import math

import numpy as np
from jaxtyping import Float, Int

from lwe.attacks.evidence import label_residues, share_right
from lwe.costs.deviations import deviations
from lwe.parameters import LWEParameters
from lwe.residues import centred
from lwe.samples import LWRSamples

_REFINING = 3000  # the most samples that refine a secret
_STEPS_OF_PROGRAM = 20_000  # the most simplex steps; a linear program that needs more is abandoned


def refined_secret(
    secret: Int[np.ndarray, " n"],
    samples: LWRSamples,
    parameters: LWEParameters,
    *,
    seconds: float = math.inf,
) -> Int[np.ndarray, " n"]:
    """Make a secret near the right one exact, for a small public matrix: least squares, then a linear program.

    A secret with a small error has inner products with small errors. So it shows how often each inner product wraps
    around q, and after that the labels are linear. Without errors before rounding, each label gives two inequalities.
    The solution with the widest margin in all of them is rounded. Derived here. O(N n^2), and one linear program of N
    rows, which has limits on its seconds and its steps.
    """
    q = parameters.q
    public = centred(samples.public[:_REFINING], q).astype(np.float64)  # integers could overflow
    middle = label_middles(samples.at(slice(_REFINING)), parameters)
    fitted = unwrapped(centred(secret, q).astype(np.float64), public, middle, q)
    best = np.rint(fitted).astype(np.int64)
    if parameters.noisy or share_right(best, samples, parameters) == 1.0:
        return best
    low, after = label_residues(samples.labels[:_REFINING], parameters, samples.rounding)
    wraps = q * np.rint((public @ fitted - middle) / q)
    room = _roomiest(public, low + wraps, after - 1 + wraps, seconds)
    return best if room is None else room


def label_middles(samples: LWRSamples, parameters: LWEParameters) -> Float[np.ndarray, " N"]:
    """What the inner products are if errors are as expected: middles of intervals, minus the mean error."""
    low, after = label_residues(samples.labels, parameters, samples.rounding)
    return (low + after - 1) / 2 - deviations(parameters).error_mean


def unwrapped(
    secret: Float[np.ndarray, " n"],
    public: Float[np.ndarray, "N n"],
    middle: Float[np.ndarray, " N"],
    modulus: int,
) -> Float[np.ndarray, " n"]:
    """The least squares solution of A s = middle mod q near a secret, which shows how often each product wraps."""
    for _ in range(5):
        before = np.rint(secret)
        wraps = modulus * np.rint((public @ secret - middle) / modulus)
        secret = np.linalg.lstsq(public, middle + wraps, rcond=None)[0]
        if np.array_equal(np.rint(secret), before):
            break
    return secret


def _roomiest(public: np.ndarray, low: np.ndarray, high: np.ndarray, seconds: float) -> np.ndarray | None:
    """The s with low <= A s <= high by the widest margin, rounded."""
    from scipy.optimize import linprog

    rows, n = public.shape
    above = np.column_stack([public, np.ones(rows)])
    below = np.column_stack([-public, np.ones(rows)])
    program = linprog(
        np.append(np.zeros(n), -1.0),
        A_ub=np.vstack([above, below]),
        b_ub=np.concatenate([high, -low]),
        bounds=(None, None),
        method="highs",
        options={"maxiter": _STEPS_OF_PROGRAM, "time_limit": max(seconds, 0.0)},
    )
    return None if program.x is None else np.rint(program.x[:n]).astype(np.int64)
