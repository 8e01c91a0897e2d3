"""A tensor as a problem of unit norm, and the order in which numbers of heads are tried on it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attention._arrays import as_floating, namespace, non_negative, require_finite, require_shape, to_numpy
from upper.linear_attention._head_search import (
    Tried,
    alternating,
    levenberg_marquardt,
    reweighted,
    symmetrised,
    within_reach,
)
from upper.linear_attention.model import LinearAttention

__all__ = [
    "NEWTON_STEPS",
    "STEPS",
    "TOLERANCE",
    "Problem",
    "Search",
    "checked",
    "share",
    "unfolded",
    "unit_symmetric",
]

STEPS, NEWTON_STEPS = 400, 100
TOLERANCE = 1e-7
_REWEIGHTINGS = 40
_ROUNDING = 1e-14  # a symmetric part below this share of its tensor has cancelled
_QUICK = 3  # starts of a number of heads that is only passed by


class Search:
    """The best representation of each number of heads so far, and the order in which numbers are tried."""

    def __init__(
        self,
        tensor: np.ndarray,
        tolerance: float,
        rng: np.random.Generator,
        progress: Callable[[int, float], None] | None,
    ) -> None:
        self.tensor, self.tolerance, self.rng, self.progress = tensor, tolerance, rng, progress
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
            left, values, right = np.linalg.svd(unfolded(self.tensor), full_matrices=False)
            exact = Tried(
                left.T.reshape(-1, outputs, d), (values[:, None] * right).reshape(-1, d, queries), 0.0
            )
            self._keep(heads, "singular values", exact)
        newton = within_reach(self.tensor, heads)
        if heads not in self.best:
            # where no Newton step is possible, alternating has to go down to rounding by itself
            goal, steps = (self.tolerance, STEPS) if newton else (min(self.tolerance, 1e-12), 3 * STEPS)
            start = alternating(self.tensor, heads, steps=steps, tolerance=goal, rng=self.rng)
            self._keep(heads, "alternating", start)
            if newton:
                name = "alternating" if start.tail <= self.tolerance else "Levenberg-Marquardt"
                self._keep(heads, name, self._newton(start.v))
        for _ in range(starts if newton else 0):
            if self.best[heads][1].tail <= self.tolerance:
                break
            start_v = reweighted(self.tensor, heads, steps=_REWEIGHTINGS, rng=self.rng)
            self._keep(heads, "Levenberg-Marquardt", self._newton(start_v))
        tail = self.best[heads][1].tail
        if self.progress is not None:
            self.progress(heads, tail)
        return tail <= self.tolerance

    def _newton(self, v: np.ndarray) -> Tried:
        return levenberg_marquardt(self.tensor, v, steps=NEWTON_STEPS, tolerance=self.tolerance)

    def _keep(self, heads: int, strategy: str, tried: Tried) -> None:
        if heads not in self.best or tried.tail < self.best[heads][1].tail:
            self.best[heads] = (strategy, tried)


@dataclass(frozen=True, eq=False)
class Problem:
    """The symmetric part of a tensor at unit norm, its factors swapped where p > d so that V is the smaller one."""

    square: np.ndarray
    tensor: np.ndarray
    norm: float
    swapped: bool

    @classmethod
    def of(cls, tensor: Any) -> "Problem":
        square, norm = unit_symmetric(tensor)
        swapped = square.shape[0] > square.shape[1]
        turned = np.ascontiguousarray(square.transpose(3, 2, 1, 0)) if swapped else square
        return cls(square, turned, norm, swapped)

    @property
    def most(self) -> int:
        outputs, d = self.square.shape[:2]
        return min(outputs, d) * d

    def model(self, tried: Tried, average: bool) -> LinearAttention:
        """The heads of a tried factorisation, turned back, balanced and at the tensor's scale."""
        v, q = (
            (tried.q.transpose(0, 2, 1), tried.v.transpose(0, 2, 1)) if self.swapped else (tried.v, tried.q)
        )
        heads = len(v)
        left, left_core = np.linalg.qr(v.reshape(heads, -1).T)
        right, right_core = np.linalg.qr(q.reshape(heads, -1).T)
        inner, values, outer = np.linalg.svd(left_core @ right_core.T)
        number = len(values)
        root = np.sqrt(values) * np.sqrt(self.norm)
        return LinearAttention(
            ((left @ inner[:, :number]) * root).T.reshape(-1, *v.shape[1:]),
            ((right @ outer[:number].T) * root).T.reshape(-1, *q.shape[1:]),
            average,
        )

    def tail(self, model: LinearAttention) -> float:
        root = np.sqrt(self.norm)
        again = np.tensordot(to_numpy(model.v) / root, to_numpy(model.q) / root, axes=(0, 0))
        return float(np.linalg.norm(self.square - symmetrised(again)))

    def zero_model(self, average: bool) -> LinearAttention:
        outputs, d = self.square.shape[:2]
        return LinearAttention(np.zeros((1, outputs, d)), np.zeros((1, d, d)), average)


def checked(tensor: Any) -> np.ndarray:
    if not hasattr(tensor, "shape"):
        raise ValueError(
            f"Expected an array, got {type(tensor).__name__}: the tensor, of shape (p, d, d, d), is needed."
        )
    xp = namespace(tensor)
    require_shape("The tensor", tensor, ("p", "d", "d", "d"))
    outputs, d = tensor.shape[:2]
    require_shape("The tensor", tensor, (outputs, d, d, d))
    tensor = as_floating(tensor, xp.float64, xp)
    require_finite("The tensor", tensor, xp)
    return np.asarray(to_numpy(tensor), dtype=np.float64)


def share(tolerance: float, *, strictly: bool = True) -> float:
    """A tolerance relative to the tensor: below 1, which no model at all is within."""
    tolerance = non_negative("tolerance", tolerance, strictly=strictly)
    if tolerance >= 1:
        raise ValueError(
            f"tolerance is {tolerance:g}: it is a share of the tensor's norm and must be below 1, as the zero model is "
            "within 1 of every tensor."
        )
    return tolerance


def unit_symmetric(tensor: Any) -> tuple[np.ndarray, float]:
    """The symmetric part at unit Frobenius norm, and its norm: 0 where it cancels to rounding."""
    tensor = checked(tensor)
    largest = float(np.max(np.abs(tensor)))
    if not largest:
        return tensor, 0.0
    symmetric = symmetrised(tensor / largest)  # neither overflows nor underflows when squared
    norm = float(np.linalg.norm(symmetric))
    if norm <= _ROUNDING * float(np.linalg.norm(tensor / largest)):
        return np.zeros_like(tensor), 0.0
    return symmetric / norm, norm * largest


def unfolded(tensor: np.ndarray) -> np.ndarray:
    return tensor.reshape(tensor.shape[0] * tensor.shape[1], -1)
