"""Phase 6, the practical way: Levenberg-Marquardt over the span's coordinates, the projections eliminated."""

from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from jaxtyping import Float

from attention._arrays import count, random_generator, real_array, require_instance
from attention.inputs import Rng
from upper.jacobian import HeadJacobian
from upper.six_phase.attention_span import AttentionSpan
from upper.six_phase.span_fit import SpanFit
from upper.stacked import read_tokens

__all__ = ["fit_in_span"]

_MOST_NUMBERS = 1 << 21  # of changes of the outputs at once
_EXPLAINED = 0.01  # a residual below this ends the search
_NO_CHANGE = 1e-10
_LEAST_DAMPING, _MOST_DAMPING = 1e-12, 1e8
# a start that is stuck: the residual is above this share of what it was so many accepted steps ago
_STALL_STEPS, _STALL_RATIO = 10, 0.98


def fit_in_span(
    x: Float[np.ndarray, "n k d"],
    y: Float[np.ndarray, "n k d"],
    span: AttentionSpan,
    *,
    starts: int = 4,
    iterates: int = 60,
    work: int | None = None,
    rng: Rng = None,
) -> SpanFit:
    """Minimise |Y - F(X)| over Theta_i = sum_j C_ij B_j, B the basis of the span, the W_i by least squares.

    Parameters
    ----------
    x, y : array (n, k, d)
        Examples, more than 2 m d / k.
    span : AttentionSpan
        From phase 5; its dimension is m.
    starts : int
        At most so many; the first that explains all but a hundredth ends the search.
    iterates : int
        At most so many evaluations a start.
    work : int, optional
        At most so many passes over the examples, shared by all starts: no start, evaluation or derivative begins that
        would exceed it. One evaluation is always made, so that there is a result.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7).

    Returns
    -------
    SpanFit
        The best start's end.

    Raises
    ------
    ValueError
        If the shapes do not fit.

    Notes
    -----
    Guarantee: none, local minima are seen for more than two heads. m^2 unknowns instead of 2 m d^2. A start is a
    random rotation of the regular simplex around the centre, which is where orthogonal heads of equal norm are: for
    two heads it is right at once. The derivative J is Kaufman's, which neglects how the projections change. A step
    solves (J^T J + damping) step = -J^T r of size m^2; the gradient is exact to rounding, J^T J is the difference of
    two moments and may lose half the digits, which costs steps and not accuracy. The damping is Nielsen's. A start
    also ends where ten steps lower the residual by less than 2 per cent.

    An evaluation takes O(n k (m d)^2), a derivative O(n k m^3 d^2 + n k m^4 d): m^2 passes of O(n k m d^2), and
    the moments. Memory is O(m^3 d^2 + n k m d), never that of J, (n k d) m^2.

    References
    ----------
    Derived here; variable projection is Golub and Pereyra, SIAM J. Numer. Anal. 10 (1973), its short derivative
    Kaufman, BIT 15 (1975), the damping Nielsen, report IMM-REP-1999-05, Technical University of Denmark.
    """
    x = real_array("x", x, ("n", "k", "d"))
    y = real_array("y", y, x.shape)
    require_instance("span", span, AttentionSpan, needed="an AttentionSpan")
    n, k, d = x.shape
    rng = random_generator(rng)
    m = len(span.basis)
    starts, iterates = count("starts", starts), count("iterates", iterates)
    unit = float(np.linalg.norm(span.centre)) or 1.0
    with np.errstate(over="ignore"):
        largest_logit = float(np.abs(x).max() * unit * np.abs(x).max()) * d * d
    if not np.isfinite(largest_logit):
        raise ValueError(
            f"x has entries of up to {np.abs(x).max():.3g}, whose logits overflow: smaller ones are needed."
        )
    largest = float(np.abs(y).max()) or 1.0
    labels = y.reshape(n * k, d) / largest
    size = float(np.linalg.norm(labels)) or 1.0
    most = None if work is None else count("work", work)
    problem = _Problem(x, labels / size, unit * span.basis, work=most)
    ends: list[_Point] = []
    while len(ends) < starts and (problem.affords(1) or not ends):
        ends.append(_descended(problem, _simplex(m, rng).ravel(), iterates))
        if ends[-1].size < _EXPLAINED:
            break
    best = min(ends, key=attrgetter("size"))
    return SpanFit(
        theta=problem.theta(best.at),
        w=largest * (size * best.w),
        residual=best.size,
        residuals=tuple(end.size for end in ends),
        passes=problem.passes,
    )


def _simplex(m: int, rng: np.random.Generator) -> np.ndarray:
    """Corners of a regular simplex of m points around the centre, turned at random, in span coordinates."""
    if m == 1:
        return np.ones((1, 1))
    from scipy.stats import ortho_group

    centred = np.eye(m) - 1 / m
    # coordinates of the corners within the hyperplane they span
    flat = np.linalg.svd(centred)[0][:, : m - 1] * np.sqrt(m)
    turn = ortho_group.rvs(m - 1, random_state=rng) if m > 2 else np.ones((1, 1))
    scale = np.sqrt(m - 1) / np.linalg.norm(flat, axis=1).max()
    return np.concatenate([scale * flat @ turn, np.ones((m, 1))], axis=1)


@dataclass(frozen=True, eq=False)
class _Point:
    """Coordinates with the patterns there, an orthonormal basis of what is read, the residual and the projections."""

    at: np.ndarray
    pattern: np.ndarray
    orthonormal: np.ndarray
    residual: np.ndarray
    w: np.ndarray

    @property
    def size(self) -> float:
        return float(np.linalg.norm(self.residual))


class _Problem:
    """Residual and derivative in the coordinates, for one set of examples, with the passes they took."""

    def __init__(
        self, x: np.ndarray, labels: np.ndarray, basis: np.ndarray, *, work: int | None = None
    ) -> None:
        self._x, self._labels, self._basis, self._work = x, labels, basis, work
        self.passes = 0

    def affords(self, passes: int) -> bool:
        return self._work is None or self.passes + passes <= self._work

    def theta(self, flat: np.ndarray) -> np.ndarray:
        m = len(self._basis)
        return np.tensordot(flat.reshape(m, m), self._basis, 1)

    def evaluate(self, flat: np.ndarray) -> _Point:
        self.passes += 1
        m, d, _ = self._basis.shape
        pattern, read = read_tokens(self._x, self.theta(flat))
        orthonormal, triangle = np.linalg.qr(read)
        coordinates = orthonormal.T @ self._labels
        w = np.linalg.lstsq(triangle, coordinates, rcond=1e-10)[0]
        residual = self._labels - orthonormal @ coordinates
        return _Point(flat, pattern, orthonormal, residual, w.reshape(m, d, d))

    def normal_equations(self, point: _Point) -> tuple[np.ndarray, np.ndarray]:
        """J^T J and J^T r: J is minus the changes of the outputs at fixed projections, across what is read."""
        m, d, _ = self._basis.shape
        self.passes += m * m
        n, k, _ = self._x.shape
        at_once = max(1, _MOST_NUMBERS // (k * d * m * m))
        moments, gradient = np.zeros((m * m, m * m)), np.zeros(m * m)
        along = np.zeros((m * m, point.orthonormal.shape[1], d))
        for first in range(0, n, at_once):
            few, rows = slice(first, first + at_once), slice(first * k, (first + at_once) * k)
            jacobian = HeadJacobian.at(self._x[few], point.pattern[few], point.w)
            # heads outermost, as in the coordinates
            changes = np.stack([jacobian.times_each_head(one) for one in self._basis], axis=1)
            changes = changes.reshape(m * m, -1, d)
            # all at once would take their memory twice
            for total, change in zip(along, changes, strict=True):
                total += point.orthonormal[rows].T @ change
            changes = changes.reshape(m * m, -1)
            moments += changes @ changes.T
            gradient -= changes @ point.residual[rows].ravel()
        along = along.reshape(m * m, -1)
        return moments - along @ along.T, gradient


def _descended(problem: _Problem, start: np.ndarray, iterates: int) -> _Point:
    """Levenberg-Marquardt from a start, to a point where nothing changes or the passes are spent."""
    point = problem.evaluate(start)
    evaluations, damping, growth = 1, 1e-3, 2.0
    sizes = [point.size]
    while evaluations < iterates and problem.affords(len(start) + 1):
        moments, gradient = problem.normal_equations(point)
        if not gradient.any():  # as for labels of zero
            return point
        # a head without a projection has a diagonal of zero
        scale = np.diag(np.maximum(np.diag(moments), 1e-12 * np.trace(moments)))
        accepted = False
        while not accepted and evaluations < iterates and problem.affords(1):
            step = -np.linalg.solve(moments + damping * scale, gradient)
            if np.linalg.norm(step) <= _NO_CHANGE * np.linalg.norm(point.at) or damping > _MOST_DAMPING:
                return point
            trial = problem.evaluate(point.at + step)
            evaluations += 1
            foreseen = float(step @ (damping * (scale @ step) - gradient))
            gain = (point.size**2 - trial.size**2) / foreseen if foreseen > 0 else -1.0
            accepted = trial.size < point.size
            if accepted:
                damping *= max(1 / 3, 1 - (2 * gain - 1) ** 3)
                damping, growth = max(damping, _LEAST_DAMPING), 2.0
            else:
                damping, growth = damping * growth, 2 * growth
        if not accepted:
            return point
        last, point = point.size, trial
        sizes.append(point.size)
        stalled = len(sizes) > _STALL_STEPS and point.size > _STALL_RATIO * sizes[-1 - _STALL_STEPS]
        if stalled or last - point.size <= _NO_CHANGE * last:
            return point
    return point
