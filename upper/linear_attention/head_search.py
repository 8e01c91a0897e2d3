"""The search for few heads: alternating projections, and Levenberg-Marquardt from reweighted starts.

With T_(ab),(ce) = sum_h (V_h)_ab (Q_h)_ce, H heads are a matrix T of rank H. T is known only up to a part that is
antisymmetric in b and c. Tensors have unit norm here.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy
from jaxtyping import Float

Tensor = Float[np.ndarray, "p d d e"]


@dataclass(frozen=True)
class _Search:
    """How long each part of the search goes on, and how much it may take."""

    alternations: int = 400
    exact: float = 1e-14  #: a smaller tail is rounding alone
    newton_steps: int = 100
    reweightings: int = 40
    quick: int = 3  #: starts for each number of heads while the number rises
    largest: int = 2048  #: unknowns of a dense Newton system; its Jacobian then takes some 200 MiB
    gain: float = 0.01  #: a step that lowers the squared tail by a smaller share of it is the last one


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
            found, tail = alternating(self.tensor, heads, tolerance=self.tolerance, rng=self.rng)
            strategy = "alternating" if tail <= self.tolerance or not newton else "Levenberg-Marquardt"
            if newton and tail > _SEARCH.exact:
                found = levenberg_marquardt(self.tensor, balanced(found)[0][:heads])
            yield strategy, found
        for _ in range(starts if newton else 0):
            start = reweighted(self.tensor, heads, self.rng)
            yield "Levenberg-Marquardt", levenberg_marquardt(self.tensor, start)


def alternating(
    tensor: Tensor, heads: int, *, tolerance: float, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Truncate T to rank H, put its symmetric part back, and so on, while the tolerance is in sight, to rounding error.

    The antisymmetric part floats, from a random start of 0.3 of the tensor's norm (larger starts fail more often). The
    truncation projects on the leading eigenvectors of T T^T: O(p d (p d + d^2) H + (p d)^3) per step. It stops if the
    tail, at the rate of the last 40 steps, would not reach the tolerance in the remaining steps, and below the
    tolerance if a step gains less than a fiftieth. It returns the truncated tensor and its tail.
    """
    unfolded = _unfolded(tensor + 0.3 * _random_antisymmetric(tensor, rng))
    tails: list[float] = []
    for step in range(_SEARCH.alternations):
        size = len(unfolded)
        _, basis = scipy.linalg.eigh(
            unfolded @ unfolded.T, subset_by_index=[max(0, size - heads), size - 1], check_finite=False
        )
        truncated = (basis @ (basis.T @ unfolded)).reshape(tensor.shape)
        missing = tensor - symmetrised(truncated)
        tails.append(float(np.linalg.norm(missing)))
        if tails[-1] > tolerance:
            stops = _hopeless(tails, tolerance, _SEARCH.alternations - step)
        else:
            stops = tails[-1] <= _SEARCH.exact or tails[-1] > 0.98 * min(tails[:-1], default=np.inf)
        if stops:
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


def levenberg_marquardt(tensor: Tensor, v: Float[np.ndarray, "H p d"]) -> Tensor:
    """Least squares on (V, Q) from given V by `scipy.optimize.least_squares`: Q is solved exactly at every V.

    The method is variable projection (Golub and Pereyra), with Kaufman's Jacobian: the derivative with respect to V at
    fixed Q, off the range of the design of Q. For fixed V this design is the same for every e and output. A step costs
    O(p d^2 e (H p d)^2). It stops at rounding error, or if a step lowers the squared tail by less than a hundredth.
    """
    from scipy.optimize import least_squares

    rows, columns = np.triu_indices(tensor.shape[1])
    wanted = tensor[:, rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2.0))[:, None]
    side = wanted.reshape(-1, wanted.shape[-1])  # (p pairs, e)

    def solved(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The orthonormal range of the design of Q at V, and Q."""
        design = _design(flat.reshape(v.shape)).reshape(len(side), -1)
        basis, triangle = np.linalg.qr(design)
        return basis, np.linalg.lstsq(triangle, basis.T @ side, rcond=1e-13)[0]

    def residual(flat: np.ndarray) -> np.ndarray:
        basis, _ = solved(flat)
        return (side - basis @ (basis.T @ side)).ravel()

    def jacobian(flat: np.ndarray) -> np.ndarray:
        basis, q = solved(flat)
        heads, outputs, d = v.shape
        own = -_design(q.reshape(heads, d, -1).transpose(0, 2, 1))  # (e, pairs, H d), of V for given Q
        full = np.einsum("ab,epu->apebu", np.eye(outputs), own).reshape(len(side), -1)
        full = full - basis @ (basis.T @ full)
        by_head = full.reshape(len(side) * len(own), outputs, heads, d).swapaxes(1, 2)
        return by_head.reshape(-1, v.size)

    start = np.linalg.qr(v.reshape(len(v), -1).T)[0].T.ravel()
    found = least_squares(
        residual, start, jacobian, ftol=_SEARCH.gain, xtol=None, gtol=None, max_nfev=_SEARCH.newton_steps
    ).x
    return np.tensordot(found.reshape(v.shape), solved(found)[1].reshape(len(v), v.shape[2], -1), axes=(0, 0))


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
