"""The search for few heads: alternating projections, and Levenberg-Marquardt from reweighted starts.

With T_(ab),(ce) = sum_h (V_h)_ab (Q_h)_ce, H heads are a matrix T of rank H; it is known up to anything antisymmetric
in b and c. Tensors are of unit norm here.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from jaxtyping import Float

__all__ = ["HeadSearch", "Tried", "alternating", "levenberg_marquardt", "reweighted", "symmetrised"]

_STEPS, _NEWTON_STEPS, _REWEIGHTINGS = 400, 100, 40
_QUICK = 3  # starts of a number of heads that is only passed by
_LARGEST = 4096  # unknowns of a dense Newton system: 128 MiB a matrix, of which three are held
_RIDGE = 1e-12  # of systems of unit diagonal: above their rounding errors, and undone by one more solve
_FLOOR = 4e-16  # a tail that is rounding alone
_PATIENCE, _SHARE = 6, 0.8  # steps in which a tail has to fall to this share of itself


@dataclass(frozen=True, eq=False)
class Tried:
    """Heads and the relative distance of their symmetrised tensor from the one wanted."""

    v: Float[np.ndarray, "H p d"]
    q: Float[np.ndarray, "H d e"]
    tail: float


def symmetrised(tensor: Float[np.ndarray, "p d d e"]) -> Float[np.ndarray, "p d d e"]:
    """What acts of a tensor M_abce: (M_abce + M_acbe) / 2."""
    return (tensor + tensor.transpose(0, 2, 1, 3)) / 2


class HeadSearch:
    """The best representation of each number of heads so far, and the order in which numbers are tried.

    The tensor (p, d, d, e) is symmetric in the middle indices and of unit norm.
    """

    def __init__(self, tensor: np.ndarray, tolerance: float, rng: np.random.Generator) -> None:
        self.tensor, self.tolerance, self.rng = tensor, tolerance, rng
        self.best: dict[int, tuple[str, Tried]] = {}

    def fewest(self, least: int, most: int, restarts: int) -> int:
        """The fewest heads found between two numbers; the number of the least tail if none is found."""
        quick = min(_QUICK, restarts)
        failed, found, stride = least - 1, least, 1
        while not self.succeeds(found, quick):
            if found == most:
                if self.succeeds(found, restarts):
                    break
                return min(self.best, key=lambda number: self.best[number][1].tail)
            failed = found
            found, stride = min(found + stride, most), stride * 2 if found > least else 1
        while found - failed > 1:
            middle = (found + failed) // 2
            found, failed = (middle, failed) if self.succeeds(middle, quick) else (found, middle)
        while found > least and self.succeeds(found - 1, restarts):
            found -= 1
        return found

    def succeeds(self, heads: int, starts: int) -> bool:
        """Whether that many heads come within the tolerance from some start; what is best is kept."""
        outputs, d, _, queries = self.tensor.shape
        if heads >= min(outputs * d, d * queries):
            unfolded = self.tensor.reshape(outputs * d, -1)
            left, values, right = np.linalg.svd(unfolded, full_matrices=False)
            exact = Tried(
                left.T.reshape(-1, outputs, d), (values[:, None] * right).reshape(-1, d, queries), 0.0
            )
            self._keep(heads, "singular values", exact)
        newton = heads * outputs * d <= _LARGEST
        if heads not in self.best:
            # where no Newton step is possible, alternating has to go down to rounding by itself
            goal, steps = (self.tolerance, _STEPS) if newton else (min(self.tolerance, 1e-12), 3 * _STEPS)
            start = alternating(self.tensor, heads, steps=steps, tolerance=goal, rng=self.rng)
            self._keep(heads, "alternating", start)
            if newton:
                name = "alternating" if start.tail <= self.tolerance else "Levenberg-Marquardt"
                self._keep(heads, name, self._newton(start.v))
        for _ in range(starts if newton else 0):
            if self.best[heads][1].tail <= self.tolerance:
                break
            start_v = reweighted(self.tensor, heads, rng=self.rng)
            self._keep(heads, "Levenberg-Marquardt", self._newton(start_v))
        return self.best[heads][1].tail <= self.tolerance

    def _newton(self, v: np.ndarray) -> Tried:
        return levenberg_marquardt(self.tensor, v, tolerance=self.tolerance)

    def _keep(self, heads: int, strategy: str, tried: Tried) -> None:
        if heads not in self.best or tried.tail < self.best[heads][1].tail:
            self.best[heads] = (strategy, tried)


def alternating(
    tensor: Float[np.ndarray, "p d d e"],
    heads: int,
    *,
    steps: int = _STEPS,
    tolerance: float,
    rng: np.random.Generator,
) -> Tried:
    """Truncate T to rank H, put its symmetric part back, and so on, while the tolerance is in sight.

    The antisymmetric part floats, from a random start of 0.3 of the tensor's norm (larger starts fail more often). The
    truncation projects on the leading eigenvectors of T T^T: O(p d (p d + d^2) H + (p d)^3) a step. It gives up where
    the tail, falling as it did in the last 40 steps, would not reach the tolerance in those that are left.
    """
    outputs, d, _, queries = tensor.shape
    floating = 0.3 * _random_antisymmetric(tensor, rng)
    unfolded = (tensor + floating).reshape(outputs * d, d * queries)
    tails: list[float] = []
    for step in range(steps):
        size = len(unfolded)
        first = max(0, size - heads)
        _, basis = scipy.linalg.eigh(
            unfolded @ unfolded.T, subset_by_index=[first, size - 1], check_finite=False
        )
        loads = basis.T @ unfolded
        truncated = (basis @ loads).reshape(tensor.shape)
        missing = tensor - symmetrised(truncated)
        tails.append(float(np.linalg.norm(missing)))
        if tails[-1] <= tolerance or _hopeless(tails, tolerance, steps - step):
            break
        unfolded = (truncated + missing).reshape(unfolded.shape)
    v = basis.T.reshape(-1, outputs, d)
    return Tried(v, loads.reshape(-1, d, queries), tails[-1])


def reweighted(
    tensor: Float[np.ndarray, "p d d e"], heads: int, *, rng: np.random.Generator
) -> Float[np.ndarray, "H p d"]:
    """Value matrices to start from: iteratively reweighted least squares for a low rank, from a random start.

    Over the antisymmetric part X, minimise tr((T T^T + eps)^-1 T T^T) at T = S + X with the weight of the step before
    (Mohan and Fazel, JMLR 13 (2012) 3441). eps follows the (H + 1)-th squared singular value down. The equations of X
    are the same for every e, with p d (d - 1)/2 unknowns u: O(u^3 + u^2 e) a step. On planted models at (d, H) = (4, 6)
    such a start leads Levenberg-Marquardt to zero in 60% of runs, one by `alternating` in 1%.
    """
    outputs, d, _, queries = tensor.shape
    rows, columns = np.triu_indices(d, 1)
    unknowns = outputs * len(rows)
    if unknowns == 0 or unknowns > _LARGEST or heads >= outputs * d:
        return rng.standard_normal((heads, outputs, d))
    unfolded = tensor.reshape(outputs * d, d * queries)
    current = unfolded + _random_antisymmetric(tensor, rng).reshape(unfolded.shape)
    eps = np.inf
    for step in range(_REWEIGHTINGS + 1):
        values, basis = np.linalg.eigh(current @ current.T)
        values, basis = np.maximum(values[::-1], 0), basis[:, ::-1]
        # not below the rounding errors of squares of a tensor of unit norm
        eps = max(min(eps, (0.8 if step else 1.0) ** 2 * values[heads]), 1e-15)
        if step == _REWEIGHTINGS:
            break
        weight = (basis * (eps / (values + eps))) @ basis.T
        system = _normal_matrix_of_antisymmetric(weight.reshape(outputs, d, outputs, d), rows, columns)
        system[np.diag_indices(unknowns)] += 1e-13
        pull = (weight @ unfolded).reshape(tensor.shape)
        side = (pull[:, columns, rows] - pull[:, rows, columns]).reshape(unknowns, queries)
        try:
            factor = scipy.linalg.cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            break  # the weights have become singular: where it stands is a start all the same
        free = scipy.linalg.cho_solve(factor, side, check_finite=False).reshape(outputs, len(rows), queries)
        floating = np.zeros(tensor.shape)
        floating[:, rows, columns], floating[:, columns, rows] = free, -free
        current = unfolded + floating.reshape(unfolded.shape)
    return np.ascontiguousarray(basis[:, :heads].T).reshape(heads, outputs, d)


def levenberg_marquardt(
    tensor: Float[np.ndarray, "p d d e"], v: Float[np.ndarray, "H p d"], *, tolerance: float
) -> Tried:
    """Least squares on (V, Q) from given V: Q is solved for exactly, V moves by damped Gauss-Newton steps.

    Variable projection: for fixed V the normal matrix of Q is the same for every e, H d x H d; the Schur complement
    left for V, (H p d) x (H p d), is that of the joint Jacobian: O((H p d)^2 H d e + (H p d)^3) a step. V is kept
    orthonormal as H vectors of p d numbers, which takes the gauge GL_H out of the step. It stops at rounding; below the
    tolerance where a step gains less than a thousandth; and above it where six steps gain less than a fifth.
    """
    state = _State.at(tensor, v)
    damping, growth = 1e-2, 2.0
    tails = [np.inf] * (_PATIENCE - 1) + [state.tail]
    for _ in range(_NEWTON_STEPS):
        if state.tail <= _FLOOR:
            break
        try:
            moved, promised = state.step(damping)
        except np.linalg.LinAlgError:
            damping *= 10
            continue
        new = _State.at(tensor, moved)
        if new.tail < state.tail:
            kept = (state.tail**2 - new.tail**2) / 2 / max(promised, 1e-300)
            damping *= 0.2 if kept > 0.5 else (1.0 if kept > 0.1 else 2.0)
            state, growth = new, 2.0
        else:
            damping *= growth
            growth *= 2
        reached = tails[-1] <= tolerance
        if (reached and state.tail > 0.999 * tails[-1]) or (
            not reached and state.tail > _SHARE * tails[-_PATIENCE]
        ):
            break
        tails.append(state.tail)
    return Tried(state.v, state.q, state.tail)


@dataclass(frozen=True, eq=False)
class _State:
    """Orthonormal V, the best Q for it, the inverse Cholesky factor of Q's normal matrix, and what is missing."""

    v: np.ndarray
    q: np.ndarray
    factor: np.ndarray
    residual: np.ndarray
    tail: float

    @classmethod
    def at(cls, tensor: np.ndarray, v: np.ndarray) -> "_State":
        heads, outputs, d = v.shape
        rows = np.linalg.qr(v.reshape(heads, -1).T)[0].T
        v = np.ascontiguousarray(rows).reshape(-1, outputs, d)
        heads = len(v)
        normal = _normal_matrix(v)
        normal[np.diag_indices(heads * d)] += _RIDGE
        factor = np.linalg.inv(np.linalg.cholesky(normal))
        q = _least_squares(factor, rows, tensor)
        residual = tensor - _of(v, q)
        q = q + _least_squares(factor, rows, residual)
        residual = tensor - _of(v, q)
        return cls(v, q, factor, residual, float(np.linalg.norm(residual)))

    def step(self, damping: float) -> tuple[np.ndarray, float]:
        """V after a step, and the fall of half the squared tail that the linear model promises."""
        heads, outputs, d = self.v.shape
        queries, unknowns = self.q.shape[-1], self.v.size
        flat_v, flat_q = self.v.reshape(heads, -1), self.q.reshape(heads, -1)
        gradient = -(self.residual.reshape(outputs * d, -1) @ flat_q.T).T.ravel()
        # twice the cross block of the normal matrix, (k c | h a b e): V_kab Q_hce + delta_bc (V_k Q_h)_ae
        cross = np.einsum("kab,hce->kchabe", self.v, self.q)
        same = np.arange(d)
        cross[:, same, :, :, same, :] += np.einsum("kac,hce->khae", self.v, self.q, optimize=True)
        half = (self.factor @ cross.reshape(heads * d, -1)).reshape(heads * d, unknowns, queries)
        half = np.ascontiguousarray(half.transpose(1, 0, 2)).reshape(unknowns, -1)
        schur = half @ half.T
        schur *= -0.25
        blocks = schur.reshape(heads, outputs, d, heads, outputs, d)
        own = _normal_matrix(self.q.transpose(0, 2, 1)).reshape(heads, d, heads, d)
        for output in range(outputs):
            blocks[:, output, :, :, output, :] += own
        added = damping * max(float(np.trace(schur)) / unknowns, 1e-300)
        schur[np.diag_indices(unknowns)] += added
        factor = scipy.linalg.cho_factor(schur, lower=True, overwrite_a=True, check_finite=False)
        change = -scipy.linalg.cho_solve(factor, gradient, check_finite=False)
        promised = float(-(gradient @ change) + added * (change @ change)) / 2
        move = change.reshape(heads, -1)
        move = move - (move @ flat_v.T) @ flat_v  # along the span of V nothing changes
        return (flat_v + move).reshape(self.v.shape), promised


def _least_squares(factor: np.ndarray, rows: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Q for the value matrices in `rows` (H, p d), from the inverse Cholesky factor of its normal matrix."""
    heads, size = len(rows), target.shape[2]
    side = (rows @ target.reshape(rows.shape[1], -1)).reshape(heads * size, -1)
    return (factor.T @ (factor @ side)).reshape(heads, size, -1)


def _of(v: np.ndarray, q: np.ndarray) -> np.ndarray:
    heads, outputs, d = v.shape
    unfolded = v.reshape(heads, -1).T @ q.reshape(heads, -1)
    return symmetrised(unfolded.reshape(outputs, d, d, -1))


def _normal_matrix(x: np.ndarray) -> np.ndarray:
    """Of the other factor, for given X_h (p, d): (delta_cg <X_h, X_k> + sum_a X_hag X_kac) / 2 at (h c), (k g)."""
    heads, outputs, d = x.shape
    columns = x.transpose(1, 0, 2).reshape(outputs, heads * d)
    swapped = (columns.T @ columns).reshape(heads, d, heads, d)
    normal = np.ascontiguousarray(swapped.transpose(0, 3, 2, 1))
    flat = np.ascontiguousarray(x).reshape(heads, -1)
    same = np.arange(d)
    normal[:, same, :, same] += flat @ flat.T
    return normal.reshape(heads * d, heads * d) / 2


def _normal_matrix_of_antisymmetric(weight: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Of x in sum tr(X^T W X), X_(ab),c = x_a,(bc) for b < c and minus that for b > c."""
    total = np.zeros((weight.shape[0], len(rows), weight.shape[0], len(rows)))
    for b, c, sign in ((rows, columns, 1), (columns, rows, -1)):
        for other_b, other_c, other_sign in ((rows, columns, 1), (columns, rows, -1)):
            same = (sign * other_sign) * (c[:, None] == other_c)
            total += weight[:, b][:, :, :, other_b] * same[None, :, None, :]
    size = weight.shape[0] * len(rows)
    return total.reshape(size, size)


def _random_antisymmetric(tensor: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    draw = rng.standard_normal(tensor.shape)
    draw -= draw.transpose(0, 2, 1, 3).copy()
    norm = float(np.linalg.norm(draw))
    return draw * (float(np.linalg.norm(tensor)) / norm) if norm > 0 else draw


def _hopeless(tails: list[float], tolerance: float, left: int) -> bool:
    if len(tails) <= 80:  # the first steps say nothing about the rate
        return False
    rate = np.log(tails[-1] / tails[-41]) / 40
    return bool(np.log(tails[-1]) + rate * left > np.log(tolerance))
