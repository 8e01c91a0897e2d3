"""Labels as a linear function of the covariates: exact if <v, a> does not wrap around, useless if it does."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy
from jaxtyping import Float, Int

from lwe.attacks.attack import Attack, AttackEndedError, AttackOutcome, Attempt, Finding
from lwe.attacks.evidence import share_right
from lwe.attacks.refinement import refined_secret
from lwe.residues import centred

_MOST_CUTS = 64
_SCALES = 48
_STRAY = 5.0  # standard deviations of the adjusted R^2 of labels with nothing linear, over up to 64 cuts
_LINEAR_ENOUGH = 0.2  # below it, the linear function cannot identify the window


@dataclass(frozen=True)
class LeastSquaresAttack(Attack):
    """Regress the labels, in units of q/p, on the rows of the public matrix; round the coefficients; check them.

    It applies if <v, a> takes fewer than q consecutive values; for binary covariates, if sum|v_j| is below q. Then it
    finds every coordinate, or a secret with the same labels. If <v, a> wraps around a few times, the linear function
    still has some predictive power; from a standard deviation of about q/2 on it has none.

    Notes
    -----
    The labels lie on a circle, and regression needs a cut: the attack tries up to 64 cuts, and the middle of the
    longest run of absent labels. It rounds the coefficients of the best cut. With few levels it also tries other
    scales, because coarse labels reveal only the direction of v. The secret is refined (`refined_secret`). R^2,
    adjusted for the n coefficients, is in `details`: about 0 if nothing is linear. Rounding errors of standard
    deviation about q/(p sqrt 12) leave coefficients of binary covariates uncertain by about 2q/(p sqrt(12 N)) with N
    samples. O(N n^2), and a linear program.

    References
    ----------
    Bootle, Delaplace, Espitau, Fouque and Tibouchi 2018 (regression where nothing wraps); derived here on a circle.

    Examples
    --------
    >>> from lwe import LWEParameters, make_samples
    >>> parameters = LWEParameters(n=10, q=251, p=32)
    >>> samples, _ = make_samples(parameters, 2000, secret=[17, -30, 55, 4, -8, 41, 9, -2, 12, 6], rng=0)
    >>> result = LeastSquaresAttack()(samples, parameters)
    >>> result.outcome.name, result.secret.tolist(), round(result.details["r_squared"], 3)
    ('BROKEN', [17, -30, 55, 4, -8, 41, 9, -2, 12, 6], 0.997)
    """

    name: ClassVar[str] = "least-squares"
    title: ClassVar[str] = "Least squares"

    def run(self, attempt: Attempt, rng: np.random.Generator) -> Iterator[Finding]:
        """Regress, round and refine; keep the better of the secret and the linear function."""
        parameters, training = attempt.parameters, attempt.training
        if len(training) < parameters.n + 2:
            raise AttackEndedError(
                AttackOutcome.TOO_FEW_SAMPLES,
                f"There are {len(training)} samples to learn from: a regression on {parameters.n} columns and "
                "a constant needs 2 more than columns.",
            )
        attempt.require_memory(8 * len(training) * (3 * parameters.n + _MOST_CUTS), "The regression")
        linear, r_squared = _regress(attempt)
        attempt.details.update({"r_squared": r_squared, "cut": linear.cut})
        right_linear = float(np.mean(linear(training.public) == training.labels))
        # if nothing is linear, no scale is better than another
        linear_at_all = r_squared > _STRAY * math.sqrt(2 * parameters.n) / len(training)
        secret, right = _rounded_secret(attempt, linear, linear_at_all)
        if right < 1 and r_squared > _LINEAR_ENOUGH and attempt.seconds_left > 0:
            refined = refined_secret(secret, training, parameters, seconds=attempt.seconds_left)
            if (share := share_right(refined, training, parameters)) > right:
                secret, right = refined, share
        attempt.details.update({"training_accuracy": right, "linear_training_accuracy": right_linear})
        if right >= right_linear:
            words = f"R^2 is {r_squared:.3g}; the rounded coefficients have {right:.3g} of the labels used."
            yield Finding(words, secret)
        else:
            words = f"the linear function has {right_linear:.3g} of the labels used, more than its rounding."
            yield Finding(f"R^2 is {r_squared:.3g}; {words}", predict=linear)
        if attempt.seconds_left <= 0:
            raise AttackEndedError(AttackOutcome.BUDGET_SPENT, "There was no time to improve them.")


@dataclass(frozen=True, eq=False)
class _LinearLabels:
    """Labels by a linear function: (b - cut) mod p is about <a, slopes> + constant - 1/2."""

    slopes: Float[np.ndarray, " n"]
    constant: float
    cut: int
    modulus: int
    levels: int

    def __call__(self, public: np.ndarray) -> np.ndarray:
        position = centred(public, self.modulus) @ self.slopes + self.constant
        return np.mod(np.clip(np.rint(position), 0, self.levels - 1).astype(np.int64) + self.cut, self.levels)


def _regress(attempt: Attempt) -> tuple[_LinearLabels, float]:
    """The best linear function over the cuts of the circle of labels, and its adjusted R^2."""
    q, p = attempt.parameters.q, attempt.parameters.p
    labels, n = attempt.training.labels, attempt.parameters.n
    # entries of the size of the constant keep the equations well conditioned
    design = np.column_stack([centred(attempt.training.public, q) / q, np.ones(len(labels))])
    gram, number, cuts = design.T @ design, len(labels), _cuts(labels, p)
    positions = np.mod(labels[:, None] - cuts, p).astype(np.float64)
    cross, squares = design.T @ positions, (positions**2).sum(axis=0)
    solution = scipy.linalg.lstsq(gram, cross)[0]
    left = (squares - (solution * cross).sum(axis=0)) / (number - n - 1)
    spread = (squares - cross[-1] ** 2 / number) / (number - 1)
    r_squared = np.where(spread > 0, 1 - left / np.where(spread > 0, spread, 1), 0.0)
    # two labels fit as well on either side of a cut: the shorter way between them is the right one
    alike = r_squared >= r_squared.max() - 1e-9
    best = int(np.argmin(np.where(alike, np.square(solution[:-1]).sum(axis=0), np.inf)))
    slopes, constant = solution[:-1, best] / q, float(solution[-1, best])
    return _LinearLabels(slopes, constant, int(cuts[best]), q, p), float(r_squared[best])


def _cuts(labels: np.ndarray, levels: int) -> Int[np.ndarray, " cuts"]:
    """The cuts of the circle of labels: at even distances, and in the middle of the longest run of absent labels."""
    even = np.arange(min(levels, _MOST_CUTS)) * levels // min(levels, _MOST_CUTS)
    present = np.unique(labels)
    gaps = np.diff(np.append(present, present[0] + levels))
    longest = int(np.argmax(gaps))
    return np.unique(np.append(even, (present[longest] + (gaps[longest] + 1) // 2) % levels))


def _rounded_secret(
    attempt: Attempt, linear: _LinearLabels, linear_at_all: bool
) -> tuple[Int[np.ndarray, " n"], float]:
    """Coefficients rounded at the scale with the most right labels, and their share; while there is time."""
    parameters, samples = attempt.parameters, attempt.training
    q, p = parameters.q, parameters.p
    unit = linear.slopes * (q / p)
    scales = [1.0]
    if p < 16 and linear_at_all:
        largest = max(float(np.abs(unit).max()), 1e-9)
        scales += np.geomspace(0.5, max(1.0, q / (2 * largest)), _SCALES).tolist()
        if p == 2:  # both cuts give the same regression with opposite coefficients
            scales += [-scale for scale in scales]
    best, most = np.zeros(parameters.n, dtype=np.int64), -1.0
    for scale in scales:
        secret = np.rint(unit * scale).astype(np.int64)
        if (most < 0 or attempt.seconds_left > 0) and (
            share := share_right(secret, samples, parameters)
        ) > most:
            best, most = secret, share
    return best, most
