"""Labels as a linear function of the covariates: exact where <v, a> does not wrap around, blind where it does."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import lstsq

from lwe.attack import AttackOutcome, AttackResult
from lwe.attacks.bases import label_intervals
from lwe.attempt import Attempt, BaseAttack, share_right
from lwe.parameters import centred, rounded
from lwe.samples import inner_products

__all__ = ["LeastSquaresAttack"]

_MOST_CUTS = 64
_SCALES = 48
_MOST_ROWS = 600
_LINEAR_ENOUGH = 0.2  # below it, the linear function cannot tell which window is meant


@dataclass(frozen=True)
class LeastSquaresAttack(BaseAttack):
    """Regress the labels, in units of q/p, on the rows of the public matrix; round the coefficients; check them.

    Applies where <v, a> takes less than q consecutive values (the span sum|v_j| of binary covariates is below q):
    there every coordinate comes out, or those of a secret with the same labels. Where it wraps around a few times,
    the linear function still predicts a little; from a standard deviation of about q/2 on, nothing is left of it.

    Notes
    -----
    The labels are a circle that is cut somewhere: up to 64 cuts are tried, and the longest run of absent labels. The
    coefficients of the best one are rounded, with few levels also at other scales, as coarse labels tell the
    direction of v alone. If that does not have all labels, a linear program looks for the v that is farthest inside
    the windows of 600 labels, which removes the bias of rounding; then single coordinates are changed by one as long
    as more labels of the training samples come out right. R^2 (adjusted for the n coefficients) is in `details`: about
    0 if nothing is linear. Rounding errors of standard deviation about q/(p sqrt 12) leave coefficients of binary
    covariates uncertain by about 2q/(p sqrt(12 N)) with N samples.

    O(N n^2) for the regression, O(N n) for each round of changes.

    References
    ----------
    Folklore; derived here for labels on a circle. That regression succeeds where nothing wraps is what "integer
    learning with errors" rests on: Bootle, Delaplace, Espitau, Fouque and Tibouchi 2018, "LWE without modular
    reduction and improved side-channel attacks against BLISS".

    Examples
    --------
    >>> from lwe.parameters import LWRParameters
    >>> from lwe.samples import make_samples
    >>> parameters = LWRParameters(secret_dim=10, modulus=251, levels=32)
    >>> samples, _ = make_samples(parameters, 2000, secret=[17, -30, 55, 4, -8, 41, 9, -2, 12, 6], rng=0)
    >>> result = LeastSquaresAttack()(samples, parameters)
    >>> result.outcome.name, result.secret.tolist(), round(result.details["r_squared"], 3)
    ('BROKEN', [17, -30, 55, 4, -8, 41, 9, -2, 12, 6], 0.997)
    """

    name: ClassVar[str] = "least squares"

    def run(self, attempt: Attempt, generator: np.random.Generator) -> AttackResult:
        """Regress, round, repair, and keep whichever of the secret and the linear function does better."""
        parameters, training = attempt.parameters, attempt.training
        q, p = parameters.modulus, parameters.levels
        if len(training) < parameters.secret_dim + 2:
            return attempt.ended(
                AttackOutcome.TOO_FEW_SAMPLES,
                f"There are {len(training)} samples to learn from: a regression on {parameters.secret_dim} columns and "
                "a constant needs 2 more than columns.",
            )
        attempt.require_memory(4 * 8 * training.public.size, "The regression")
        rows = centred(training.public, q)
        linear, r_squared = _regress(rows, training.labels, q, p)
        attempt.details |= {"r_squared": r_squared, "cut": linear.cut}
        right_linear = float(np.mean(linear(training.public) == training.labels))
        secret, right = _rounded_secret(attempt, linear, rows, r_squared)
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
    """Where to cut the circle of labels: at even distances, and in the middle of the longest run of absent ones."""
    even = np.arange(min(levels, _MOST_CUTS)) * levels // min(levels, _MOST_CUTS)
    present = np.unique(labels)
    gaps = np.diff(np.append(present, present[0] + levels))
    longest = int(np.argmax(gaps))
    return np.unique(np.append(even, (present[longest] + (gaps[longest] + 1) // 2) % levels))


def _rounded_secret(
    attempt: Attempt, linear: _LinearLabels, rows: np.ndarray, r_squared: float
) -> tuple[np.ndarray, float]:
    """Coefficients rounded at the scale that has most labels, then changed by one where that has more."""
    q, p = attempt.parameters.modulus, attempt.parameters.levels
    labels = attempt.training.labels
    unit = linear.slopes * (q / p)
    largest = max(float(np.abs(unit).max()), 1e-9)
    scales = np.append(1.0, np.geomspace(0.5, max(1.0, q / (2 * largest)), _SCALES))
    if p == 2:  # both cuts are alike to the regression, with opposite coefficients
        scales = np.concatenate([scales, -scales])

    def right(secret: np.ndarray) -> float:
        return share_right(secret, attempt.training, attempt.parameters)

    tried = [np.rint(unit * scale).astype(np.int64) for scale in (scales if p < 16 else scales[:1])]
    accuracies = [right(one) for one in tried]
    best = int(np.argmax(accuracies))
    secret, accuracy = tried[best].copy(), accuracies[best]
    if accuracy < 1 and r_squared > _LINEAR_ENOUGH and attempt.seconds_left > 0:
        wanted = np.rint(_inside_windows(attempt, linear, rows)).astype(np.int64)
        if right(wanted) > accuracy:
            secret, accuracy = wanted, right(wanted)
    products = inner_products(rows, secret, q)
    for _ in range(2 * len(secret)):
        if accuracy == 1.0 or attempt.seconds_left <= 0:
            break
        changed = [
            (float(np.mean(rounded(products + step * column, q, p) == labels)), j, step)
            for j, column in enumerate(rows.T)
            for step in (-1, 1)
        ]
        most, j, step = max(changed)
        if most <= accuracy:
            break
        secret[j] += step
        accuracy, products = most, np.mod(products + step * rows[:, j], q)
    return secret, accuracy


def _inside_windows(attempt: Attempt, linear: _LinearLabels, rows: np.ndarray) -> Float[np.ndarray, " n"]:
    """Real coefficients for which <a, v> is as far inside the windows of the labels as can be.

    A label says between which numbers <a, v> lies, mod q; which of its windows it is, the linear function tells. The
    linear program keeps a margin to all of them, and where that cannot be, as little outside as possible in all.
    """
    from scipy.optimize import linprog

    q, p = attempt.parameters.modulus, attempt.parameters.levels
    rows, labels = rows[:_MOST_ROWS].astype(np.float64), attempt.training.labels[:_MOST_ROWS]
    first, last = label_intervals(labels, attempt.parameters)
    # the linear function counts labels from the cut on: turn by turn, that is where T is
    turn = np.rint(((rows @ linear.slopes) * (q / p) - (first + last) / 2) / q) * q
    number, columns = rows.shape
    slack, ones = -np.eye(number), np.ones((number, 1))
    found = linprog(
        np.concatenate([np.zeros(columns), [-0.5], np.ones(number)]),
        A_ub=np.vstack([np.hstack([rows, ones, slack]), np.hstack([-rows, ones, slack])]),
        b_ub=np.concatenate([last + turn, -(first + turn)]),
        bounds=[(None, None)] * columns + [(None, q / (2 * p))] + [(0, None)] * number,
        method="highs",
        options={"time_limit": min(max(attempt.seconds_left, 0.01), 1e6)},
    )
    return linear.slopes * (q / p) if found.x is None else np.asarray(found.x[:columns])
