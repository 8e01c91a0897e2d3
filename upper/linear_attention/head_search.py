"""The search for few heads: alternating projections, and Levenberg-Marquardt from reweighted starts.

With T_(ab),(ce) = sum_h (V_h)_ab (Q_h)_ce, H heads are a matrix T of rank H. T is known only up to a part that is
antisymmetric in b and c. Tensors have unit norm here.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy
from jaxtyping import Float

__all__ = ["HeadSearch", "alternating", "balanced", "symmetrised"]

Tensor = Float[np.ndarray, "p d d e"]


@dataclass(frozen=True)
class _Search:
    """How long each part of the search goes on, and how much it may take."""

    alternations: int = 400
    newton_steps: int = 100
    reweightings: int = 40
    quick: int = 3  #: starts for each number of heads while the number rises
    largest: int = 4096  #: unknowns of a dense Newton system: 128 MiB per matrix; three are held
    #: of systems of unit diagonal: above their rounding errors; one more solve undoes it
    ridge: float = 1e-12
    floor: float = 4e-16  #: a tail that is rounding alone
    #: a tail has to fall to this share of itself in so many steps
    share: float = 0.8
    patience: int = 6


_SEARCH = _Search()


def symmetrised(tensor: Tensor) -> Tensor:
    """The part of a tensor M_abce that affects outputs: (M_abce + M_acbe) / 2."""
    return (tensor + tensor.transpose(0, 2, 1, 3)) / 2


def balanced(tensor: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """V_h and Q_h of a tensor as it stands, orthogonal as vectors, |V_h|^2 = |Q_h|^2 = singular values, which fall."""
    left, values, right = np.linalg.svd(_unfolded(tensor), full_matrices=False)
    root, (_, d, _, queries) = np.sqrt(values), tensor.shape
    v, q = (left * root).T.reshape(len(values), -1, d), (root[:, None] * right).reshape(-1, d, queries)
    return v, q, values


class HeadSearch:
    """The best representation of each number of heads so far, and the order in which numbers are tried.

    The tensor (p, d, d, e) is symmetric in the middle indices and of unit norm. A representation is a tensor of rank H,
    kept with its tail, the distance of its symmetric part, and the strategy that found it.
    """

    def __init__(self, tensor: Tensor, tolerance: float, rng: np.random.Generator) -> None:
        self.tolerance, self.rng = tolerance, rng
        # factors swapped where p > d, so that V is the smaller one
        self._order = (3, 2, 1, 0) if tensor.shape[0] > tensor.shape[3] else (0, 1, 2, 3)
        self.tensor = np.ascontiguousarray(tensor.transpose(self._order))
        self.best: dict[int, tuple[float, str, np.ndarray]] = {}

    def fewest(self, least: int, most: int, restarts: int) -> int:
        """The fewest heads found between `least` and `most`; `most` heads are known to be enough."""
        found = least
        while not self.succeeds(found, min(_SEARCH.quick, restarts)) and found < most:
            found = min(found + max(1, found - least), most)
        while found > least and self.succeeds(found - 1, restarts):
            found -= 1
        return found

    def succeeds(self, heads: int, starts: int) -> bool:
        """Whether some start of that many heads reaches the tolerance; the best result is kept."""
        attempts = self._attempts(heads, starts)
        while heads not in self.best or self.best[heads][0] > self.tolerance:
            strategy, found = next(attempts, ("", None))
            if found is None:
                return False
            tail = float(np.linalg.norm(self.tensor - symmetrised(found)))
            if heads not in self.best or tail < self.best[heads][0]:
                self.best[heads] = tail, strategy, found.transpose(self._order)
        return True

    def _attempts(self, heads: int, starts: int) -> Iterator[tuple[str, np.ndarray]]:
        outputs, d, _, queries = self.tensor.shape
        newton = heads * outputs * d <= _SEARCH.largest
        if heads >= min(outputs * d, d * queries):
            yield "singular values", self.tensor
        elif heads not in self.best:
            # if a Newton step is impossible, alternating must reach rounding error without it
            goal, steps = (
                (self.tolerance, _SEARCH.alternations)
                if newton
                else (min(self.tolerance, 1e-12), 3 * _SEARCH.alternations)
            )
            found, tail = alternating(self.tensor, heads, steps=steps, tolerance=goal, rng=self.rng)
            if newton:
                found = levenberg_marquardt(self.tensor, balanced(found)[0][:heads], self.tolerance)
            yield "alternating" if tail <= goal or not newton else "Levenberg-Marquardt", found
        for _ in range(starts if newton else 0):
            start = reweighted(self.tensor, heads, self.rng)
            yield "Levenberg-Marquardt", levenberg_marquardt(self.tensor, start, self.tolerance)


def alternating(
    tensor: Tensor,
    heads: int,
    *,
    steps: int = _SEARCH.alternations,
    tolerance: float,
    rng: np.random.Generator,
) -> tuple[np.ndarray, float]:
    """Truncate T to rank H, put its symmetric part back, and so on, while the tolerance is in sight.

    The antisymmetric part floats, from a random start of 0.3 of the tensor's norm (larger starts fail more often). The
    truncation projects on the leading eigenvectors of T T^T: O(p d (p d + d^2) H + (p d)^3) per step. It stops if the
    tail, at the rate of the last 40 steps, would not reach the tolerance in the remaining steps. It returns the
    truncated tensor and its tail.
    """
    unfolded = _unfolded(tensor + 0.3 * _random_antisymmetric(tensor, rng))
    tails: list[float] = []
    for step in range(steps):
        size = len(unfolded)
        _, basis = scipy.linalg.eigh(
            unfolded @ unfolded.T, subset_by_index=[max(0, size - heads), size - 1], check_finite=False
        )
        truncated = (basis @ (basis.T @ unfolded)).reshape(tensor.shape)
        missing = tensor - symmetrised(truncated)
        tails.append(float(np.linalg.norm(missing)))
        if tails[-1] <= tolerance or _hopeless(tails, tolerance, steps - step):
            break
        unfolded = _unfolded(truncated + missing)
    return truncated, tails[-1]


def reweighted(tensor: Tensor, heads: int, rng: np.random.Generator) -> Float[np.ndarray, "H p d"]:
    """Value matrices to start from: iteratively reweighted least squares for a low rank, from a random start.

    Minimise tr((T T^T + eps)^-1 T T^T) at T = S + X over the antisymmetric part X, with the weight of the previous step
    (Mohan and Fazel, JMLR 13 (2012) 3441). eps decreases with the (H + 1)-th squared singular value. The equations of X
    are the same for every e. With u = p d (d - 1)/2 unknowns, a step costs O(u^3 + u^2 (d^2 + e)). On planted models at
    (d, H) = (4, 6), Levenberg-Marquardt reaches zero from such a start in 60% of runs, and in 1% from a start by
    `alternating`.
    """
    outputs, d, _, queries = tensor.shape
    rows, columns = np.triu_indices(d, 1)
    unknowns = outputs * len(rows)
    if unknowns == 0 or unknowns > _SEARCH.largest or heads >= outputs * d:
        return rng.standard_normal((heads, outputs, d))
    turn = np.zeros((d, d, len(rows)))  # X_abce = sum_u turn_bcu x_aue
    turn[rows, columns, np.arange(len(rows))] = 1
    turn -= turn.transpose(1, 0, 2)
    unfolded = _unfolded(tensor)
    current = unfolded + _unfolded(_random_antisymmetric(tensor, rng))
    eps = np.inf
    for step in range(_SEARCH.reweightings + 1):
        values, basis = np.linalg.eigh(current @ current.T)
        values, basis = np.maximum(values[::-1], 0), basis[:, ::-1]
        # not below the rounding errors of squares of a tensor of unit norm
        eps = max(min(eps, (0.8 if step else 1.0) ** 2 * values[heads]), 1e-15)
        if step == _SEARCH.reweightings:
            break
        weight = (basis * (eps / (values + eps))) @ basis.T
        whole = weight.reshape(outputs, d, outputs, d)
        system = np.einsum("bcu,abxy,ycv->auxv", turn, whole, turn, optimize=True).reshape(unknowns, unknowns)
        system[np.diag_indices(unknowns)] += 1e-13
        pull = (weight @ unfolded).reshape(tensor.shape)
        side = -np.einsum("bcu,abce->aue", turn, pull, optimize=True).reshape(unknowns, queries)
        try:
            free = scipy.linalg.solve(system, side, assume_a="pos", overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            break  # the weights are singular: use the current tensor as the start
        free = free.reshape(outputs, len(rows), queries)
        current = unfolded + _unfolded(np.einsum("bcu,aue->abce", turn, free))
    return np.ascontiguousarray(basis[:, :heads].T).reshape(heads, outputs, d)


def levenberg_marquardt(tensor: Tensor, v: Float[np.ndarray, "H p d"], tolerance: float) -> Tensor:
    """Least squares on (V, Q) from given V: Q is solved exactly, V changes by damped Gauss-Newton steps.

    The method is variable projection. For fixed V, the normal matrix of Q, H d x H d, is the same for every e. The
    equations for V, (H p d) x (H p d), have the Schur complement of the joint Jacobian. A step costs
    O((H p d)^2 H d e + (H p d)^3). V is kept orthonormal as H vectors of p d numbers, which removes the gauge GL_H from
    the step. The iteration stops at rounding error. Below the tolerance, it stops if a step gains less than a
    thousandth; above it, if six steps gain less than a fifth.
    """
    rows, columns = np.triu_indices(tensor.shape[1])
    wanted = tensor[:, rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2.0))[:, None]
    state = _State.at(wanted, v)
    damping, growth = 1e-2, 2.0
    tails = [np.inf] * (_SEARCH.patience - 1) + [state.tail]
    for _ in range(_SEARCH.newton_steps):
        if state.tail <= _SEARCH.floor:
            break
        try:
            moved, promised = state.step(damping)
        except np.linalg.LinAlgError:
            damping *= 10
            continue
        new = _State.at(wanted, moved)
        if new.tail < state.tail:
            kept = (state.tail**2 - new.tail**2) / 2 / max(promised, 1e-300)
            damping *= 0.2 if kept > 0.5 else (1.0 if kept > 0.1 else 2.0)
            state, growth = new, 2.0
        else:
            damping *= growth
            growth *= 2
        reached = tails[-1] <= tolerance
        if state.tail > (0.999 * tails[-1] if reached else _SEARCH.share * tails[-_SEARCH.patience]):
            break
        tails.append(state.tail)
    return np.tensordot(state.v, state.q, axes=(0, 0))


@dataclass(frozen=True, eq=False)
class _State:
    """Orthonormal V, the design of Q for it with the inverse Cholesky factor of its normal matrix, and the best Q."""

    v: np.ndarray
    q: np.ndarray
    design: np.ndarray
    factor: np.ndarray
    residual: np.ndarray
    tail: float

    @classmethod
    def at(cls, wanted: Float[np.ndarray, "p pairs e"], v: np.ndarray) -> "_State":
        outputs, d = v.shape[1:]
        v = np.ascontiguousarray(np.linalg.qr(v.reshape(len(v), -1).T)[0].T).reshape(-1, outputs, d)
        design = _design(v)
        flat, side = design.reshape(-1, len(v) * d), wanted.reshape(-1, wanted.shape[-1])
        normal = flat.T @ flat
        normal[np.diag_indices(len(normal))] += _SEARCH.ridge
        factor = np.linalg.inv(np.linalg.cholesky(normal))
        q, residual = np.zeros((len(normal), side.shape[1])), side
        for _ in range(2):
            q = q + factor.T @ (factor @ (flat.T @ residual))
            residual = side - flat @ q
        return cls(
            v,
            q.reshape(len(v), d, -1),
            design,
            factor,
            residual.reshape(wanted.shape),
            float(np.linalg.norm(residual)),
        )

    def step(self, damping: float) -> tuple[np.ndarray, float]:
        """V after a step, and the decrease of half the squared tail that the linear model predicts."""
        heads, outputs, d = self.v.shape
        own = _design(self.q.transpose(0, 2, 1))  # (e, pairs, H d), of V for given Q
        size = heads * d
        gradient = -np.einsum("epu,ape->au", own, self.residual, optimize=True).ravel()
        cross = np.matmul(self.design.transpose(0, 2, 1)[:, None], own)  # (p, e, H d of Q, H d of V)
        half = np.matmul(self.factor, cross).transpose(0, 3, 1, 2).reshape(outputs * size, -1)
        schur = -half @ half.T
        blocks = schur.reshape(outputs, size, outputs, size)
        same = np.arange(outputs)
        flat = own.reshape(-1, size)
        blocks[same, :, same, :] += flat.T @ flat
        added = damping * max(float(np.trace(schur)) / len(schur), 1e-300)
        schur[np.diag_indices(len(schur))] += added
        change = -scipy.linalg.solve(schur, gradient, assume_a="pos", overwrite_a=True, check_finite=False)
        promised = float(-(gradient @ change) + added * (change @ change)) / 2
        rows = self.v.reshape(heads, -1)
        move = change.reshape(outputs, heads, d).transpose(1, 0, 2).reshape(heads, -1)
        move = move - (move @ rows.T) @ rows  # along the span of V nothing changes
        return (rows + move).reshape(self.v.shape), promised


def _design(x: Float[np.ndarray, "H p d"]) -> Float[np.ndarray, "p pairs Hd"]:
    """The matrices that map Q_h (d, e) to sum_h X_h ⊗ Q_h, symmetrised and on pairs b <= c with the same norm."""
    heads, outputs, d = x.shape
    rows, columns = np.triu_indices(d)
    weights = np.where(rows == columns, 0.5, np.sqrt(0.5))[:, None]
    first, second = (np.eye(d)[index] * weights for index in (columns, rows))
    by_entry = x.transpose(1, 2, 0)
    design = by_entry[:, rows, :, None] * first[:, None] + by_entry[:, columns, :, None] * second[:, None]
    return design.reshape(outputs, len(rows), heads * d)


def _unfolded(tensor: Tensor) -> Float[np.ndarray, "pd de"]:
    return tensor.reshape(tensor.shape[0] * tensor.shape[1], -1)


def _random_antisymmetric(tensor: Tensor, rng: np.random.Generator) -> Tensor:
    draw = rng.standard_normal(tensor.shape)
    draw -= draw.transpose(0, 2, 1, 3).copy()
    norm = float(np.linalg.norm(draw))
    return draw * (float(np.linalg.norm(tensor)) / norm) if norm > 0 else draw


def _hopeless(tails: list[float], tolerance: float, left: int) -> bool:
    if len(tails) <= 80:  # the first steps do not show the rate
        return False
    rate = np.log(tails[-1] / tails[-41]) / 40
    return bool(np.log(tails[-1]) + rate * left > np.log(tolerance))
