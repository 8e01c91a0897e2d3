"""Labels as a linear function of the covariates: exact if <v, a> does not wrap around, useless if it does."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import lstsq

from lwe.attacks.attack import Attack, AttackResult, Attempt
from lwe.attacks.evidence import label_residues, share_right
from lwe.attacks.outcome import TooFewSamplesError
from lwe.costs.deviations import deviations
from lwe.parameters import LWRParameters, centred
from lwe.samples import LWRSamples

__all__ = ["LeastSquaresAttack", "label_middles", "refined_secret", "unwrapped"]

_MOST_CUTS = 64
_SCALES = 48
_REFINING = 3000  # the most samples that refine a secret
_STEPS_OF_PROGRAM = 20_000  # the most simplex steps; a linear program that needs more is abandoned
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
    scales, because coarse labels reveal only the direction of v. If the secret does not predict all labels, it is
    refined (`refined_secret`). Then single coordinates change by one as long as more predictions become right. R^2,
    adjusted for the n coefficients, is in `details`: about 0 if nothing is linear. Rounding errors of standard
    deviation about q/(p sqrt 12) leave coefficients of binary covariates uncertain by about 2q/(p sqrt(12 N)) with N
    samples. O(N n^2), and a linear program.

    References
    ----------
    Bootle, Delaplace, Espitau, Fouque and Tibouchi 2018 (regression where nothing wraps); derived here on a circle.

    Examples
    --------
    >>> from lwe import LWRParameters, make_samples
    >>> parameters = LWRParameters(secret_dim=10, modulus=251, levels=32)
    >>> samples, _ = make_samples(parameters, 2000, secret=[17, -30, 55, 4, -8, 41, 9, -2, 12, 6], rng=0)
    >>> result = LeastSquaresAttack()(samples, parameters)
    >>> result.outcome.name, result.secret.tolist(), round(result.details["r_squared"], 3)
    ('BROKEN', [17, -30, 55, 4, -8, 41, 9, -2, 12, 6], 0.997)
    """

    name: ClassVar[str] = "least squares"

    def run(self, attempt: Attempt, generator: np.random.Generator) -> AttackResult:
        """Regress, round and refine; keep the better of the secret and the linear function."""
        parameters, training = attempt.parameters, attempt.training
        q, p = parameters.modulus, parameters.levels
        if len(training) < parameters.secret_dim + 2:
            raise TooFewSamplesError(
                f"There are {len(training)} samples to learn from: a regression on {parameters.secret_dim} columns and "
                "a constant needs 2 more than columns."
            )
        attempt.require_memory(4 * 8 * training.public.size, "The regression")
        rows = centred(training.public, q)
        linear, r_squared = _regress(rows, training.labels, q, p)
        attempt.details |= {"r_squared": r_squared, "cut": linear.cut}
        right_linear = float(np.mean(linear(training.public) == training.labels))
        secret, right = _rounded_secret(attempt, linear, r_squared)
        attempt.details |= {"training_accuracy": right, "linear_training_accuracy": right_linear}
        told = f"R^2 is {r_squared:.3g}"
        if right >= right_linear:
            result = attempt.found(
                secret, f"{told}; the rounded coefficients have {right:.3g} of the labels used."
            )
        else:
            result = attempt.predicts(
                linear,
                f"{told}; the linear function has {right_linear:.3g} of the labels used, more than its rounding.",
            )
        spent = attempt.seconds_left <= 0 and right < 1
        return attempt.stopped(result, "There was no time to improve them.") if spent else result


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


def _regress(rows: np.ndarray, labels: np.ndarray, modulus: int, levels: int) -> tuple[_LinearLabels, float]:
    """The best linear function over the cuts of the circle of labels, and its adjusted R^2."""
    number, columns = rows.shape
    cuts = _cuts(labels, levels)
    design = np.column_stack([rows.astype(np.float64), np.ones(number)])
    positions = np.mod(labels[:, None] - cuts, levels).astype(np.float64)
    solution = lstsq(design, positions, lapack_driver="gelsd")[0]
    left = ((positions - design @ solution) ** 2).sum(axis=0) / (number - columns - 1)
    spread = positions.var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        r_squared = np.where(spread > 0, 1 - left / spread, 0.0)
    best = int(np.argmax(r_squared))
    slopes, constant = solution[:-1, best], float(solution[-1, best])
    return _LinearLabels(slopes, constant, int(cuts[best]), modulus, levels), float(r_squared[best])


def _cuts(labels: np.ndarray, levels: int) -> Int[np.ndarray, " cuts"]:
    """The cuts of the circle of labels: at even distances, and in the middle of the longest run of absent labels."""
    even = np.arange(min(levels, _MOST_CUTS)) * levels // min(levels, _MOST_CUTS)
    present = np.unique(labels)
    gaps = np.diff(np.append(present, present[0] + levels))
    longest = int(np.argmax(gaps))
    return np.unique(np.append(even, (present[longest] + (gaps[longest] + 1) // 2) % levels))


def _rounded_secret(
    attempt: Attempt, linear: _LinearLabels, r_squared: float
) -> tuple[Int[np.ndarray, " n"], float]:
    """Coefficients rounded at the scale with the most right labels, then refined; and their share of right labels."""
    q, p = attempt.parameters.modulus, attempt.parameters.levels
    unit = linear.slopes * (q / p)
    largest = max(float(np.abs(unit).max()), 1e-9)
    scales = np.append(1.0, np.geomspace(0.5, max(1.0, q / (2 * largest)), _SCALES))
    if p == 2:  # both cuts give the same regression with opposite coefficients
        scales = np.concatenate([scales, -scales])

    def right(secret: np.ndarray) -> float:
        return share_right(secret, attempt.training, attempt.parameters)

    tried = [np.rint(unit * scale).astype(np.int64) for scale in (scales if p < 16 else scales[:1])]
    secret = max(tried, key=right)
    if right(secret) < 1 and r_squared > _LINEAR_ENOUGH and attempt.seconds_left > 0:
        seconds = attempt.seconds_left
        refined = refined_secret(secret, attempt.training, attempt.parameters, seconds=seconds)
        secret = max(secret, refined, key=right)
    steps = np.concatenate([np.eye(len(secret), dtype=np.int64), -np.eye(len(secret), dtype=np.int64)])
    for _ in steps:
        if right(secret) == 1 or attempt.seconds_left <= 0:
            break
        changed = max((secret + step for step in steps), key=right)
        if right(changed) <= right(secret):
            break
        secret = changed
    return secret, right(secret)


def refined_secret(
    secret: Int[np.ndarray, " n"],
    samples: LWRSamples,
    parameters: LWRParameters,
    *,
    seconds: float = math.inf,
) -> Int[np.ndarray, " n"]:
    """Make a secret near the right one exact, for a small public matrix: least squares, then a linear program.

    A secret with a small error has inner products with small errors. So it shows how often each inner product wraps
    around q, and after that the labels are linear. Without errors before rounding, each label gives two inequalities.
    The solution with the widest margin in all of them is rounded. Derived here. O(N n^2), and one linear program of N
    rows, which has limits on its seconds and its steps.
    """
    q = parameters.modulus
    public = centred(samples.public[:_REFINING], q).astype(np.float64)  # integers could overflow
    middle = label_middles(samples.labels[:_REFINING], parameters)
    fitted = unwrapped(centred(secret, q).astype(np.float64), public, middle, q)
    best = np.rint(fitted).astype(np.int64)
    if parameters.noisy or share_right(best, samples, parameters) == 1.0:
        return best
    low, after = label_residues(samples.labels[:_REFINING], parameters)
    wraps = q * np.rint((public @ fitted - middle) / q)
    room = _roomiest(public, low + wraps, after - 1 + wraps, seconds)
    return best if room is None else room


def label_middles(labels: Int[np.ndarray, " N"], parameters: LWRParameters) -> Float[np.ndarray, " N"]:
    """What the inner products are if errors are as expected: middles of intervals, minus the mean error."""
    low, after = label_residues(labels, parameters)
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
