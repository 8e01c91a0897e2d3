"""Phase 6: tuples of points of a net, and the regression of the labels on the reads of their heads, from moments."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
from jaxtyping import Float

from attention.layer import read_tokens
from upper.six_phase.phase5_span import AttentionSpan

__all__ = ["Frame", "TupleRegression"]

_TOGETHER = 256  # tuples whose systems are solved together


@dataclass(frozen=True, eq=False)
class Frame:
    """Coordinates of the net, in units of the centre's norm: Theta = origin + sum_j z_j axes_j, |z| <= reach."""

    origin: np.ndarray
    axes: np.ndarray
    reach: float
    simplex: np.ndarray

    @classmethod
    def of(cls, span: AttentionSpan, over: str) -> "Frame":
        """The frame of the affine "hull" of the heads, or of their "span"."""
        unit = float(np.linalg.norm(span.centre)) or 1.0
        reach = float(span.reach.max(initial=0.0)) / unit
        m = len(span.basis)
        # corners of a regular simplex around the centre, in the coordinates of the hull
        corners = reach * np.linalg.svd(np.eye(m) - 1 / m)[0][:, : m - 1] / math.sqrt(max(1 - 1 / m, 0.5))
        if over == "hull":
            return cls(span.centre, unit * span.directions, reach, corners)
        corners = np.concatenate([corners, np.ones((m, 1))], axis=1)
        origin = np.zeros_like(span.centre)
        return cls(origin, span.scaled_basis, float(np.hypot(1.0, reach)), corners)

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        return len(self.axes)

    def matrices(self, points: Float[np.ndarray, "p z"]) -> Float[np.ndarray, "p d d"]:
        """The Theta at these coordinates."""
        return self.origin + np.tensordot(points, self.axes, 1)


@dataclass(frozen=True, eq=False)
class TupleRegression:
    """Least squares of the labels on the reads P_i X of a tuple of heads; a tuple needs no pass over the data.

    The heads are points of a `frame`. `x`, `y` are the examples for the regression, and `x_held`, `y_held` the
    held-out ones for the errors.
    """

    frame: Frame
    x: Float[np.ndarray, "n k d"]
    y: Float[np.ndarray, "n k d"]
    x_held: Float[np.ndarray, "h k d"]
    y_held: Float[np.ndarray, "h k d"]

    def heads(
        self, points: Float[np.ndarray, "m z"]
    ) -> tuple[Float[np.ndarray, "m d d"], Float[np.ndarray, "m d d"]]:
        """The Theta_i and W_i of one tuple, by least squares over the examples themselves."""
        theta = self.frame.matrices(points)
        _, read = read_tokens(self.x, theta)
        return theta, np.linalg.lstsq(read, self.y.reshape(-1, theta.shape[1]), rcond=None)[0].reshape(
            theta.shape
        )

    def pair_errors(self, points: Float[np.ndarray, "g z"]) -> Float[np.ndarray, "g g"]:
        """Squared relative held-out error of every pair of points; NaN on the diagonal.

        O(g^2 (n k + d) d^2) time; memory O(g n k d), never that of all moments.
        """
        sides = self._reads(points)
        errors = np.full((len(points), len(points)), np.nan)
        for i in range(len(points) - 1):
            pairs = [side.part(slice(i, i + 1)).beside(side.part(slice(i + 1, None))) for side in sides]
            errors[i, i + 1 :] = errors[i + 1 :, i] = self._errors(*pairs)
        return errors

    def best_tuple(
        self, points: Float[np.ndarray, "g z"], tuples: Iterable[tuple[int, ...]]
    ) -> tuple[list[int], float]:
        """The best tuple of places in `points` by its squared relative held-out error, and that error.

        O((m d)^3) a tuple; memory (g d)^2 for the moments of all points.
        """
        sides, iterator = self._reads(points), iter(tuples)
        best, least = [0], np.inf
        while chunk := list(islice(iterator, _TOGETHER)):
            errors = self._errors(*(side.tuples(np.array(chunk)) for side in sides))
            place = int(np.argmin(errors))
            if errors[place] < least:
                best, least = list(chunk[place]), float(errors[place])
        return best, least

    def one_more_errors(
        self, fixed: Float[np.ndarray, "fixed z"], points: Float[np.ndarray, "t z"]
    ) -> Float[np.ndarray, " t"]:
        """Squared relative held-out error of the fixed points together with each of the others.

        O(n k m d^2 + (m d)^3) for each of the points; memory bounded, however many they are.
        """
        sides = self._reads(fixed)
        # in blocks whose reads and moments fit into the memory
        width = (len(fixed) + 1) * self.x.shape[2]
        at_once = max(1, min(_TOGETHER, (1 << 23) // max(self.x.size, self.x_held.size, width**2)))
        errors = []
        for start in range(0, len(points), at_once):
            others = self._reads(points[start : start + at_once])
            errors.append(
                self._errors(*(side.beside(other) for side, other in zip(sides, others, strict=True)))
            )
        return np.concatenate(errors)

    def _reads(self, points: np.ndarray) -> tuple["_Reads", "_Reads"]:
        theta = self.frame.matrices(points)
        return _Reads.of(self.x, self.y, theta), _Reads.of(self.x_held, self.y_held, theta)

    def _errors(
        self, moments: tuple[np.ndarray, np.ndarray], held: tuple[np.ndarray, np.ndarray]
    ) -> np.ndarray:
        gram, moment = moments
        size = np.einsum("tii->t", gram)[:, None, None] / gram.shape[1]
        # two equal heads make the moments singular
        w = np.linalg.solve(gram + (1e-9 * size + 1e-300) * np.eye(gram.shape[1]), moment)
        energy = float(np.sum(self.y_held**2))
        explained, square = np.einsum("tij,tij->t", w, held[1]), np.einsum("tij,tij->t", w, held[0] @ w)
        return np.maximum(energy - 2 * explained + square, 0.0) / (energy or 1.0)


@dataclass(frozen=True, eq=False)
class _Reads:
    """The reads Z_i = P_i X of g matrices, their moments Z_i^T Z_i, and their moments with the labels, Z_i^T Y."""

    read: np.ndarray  # (g, n k, d)
    own: np.ndarray  # (g, d, d)
    moment: np.ndarray  # (g, d, d)

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray, theta: np.ndarray) -> "_Reads":
        g, d, _ = theta.shape
        labels = y.reshape(-1, d)
        read = read_tokens(x, theta)[1] if g else np.zeros((len(labels), 0))
        moment = (read.T @ labels).reshape(g, d, d)
        heads = np.ascontiguousarray(read.reshape(len(labels), g, d).transpose(1, 0, 2))
        return cls(heads, np.matmul(heads.transpose(0, 2, 1), heads), moment)

    def part(self, which: slice) -> "_Reads":
        return _Reads(self.read[which], self.own[which], self.moment[which])

    @cached_property
    def all(self) -> np.ndarray:
        """Moments of all pairs, (g, g, d, d)."""
        g, _, d = self.read.shape
        return (self._flat.T @ self._flat).reshape(g, d, g, d).transpose(0, 2, 1, 3)

    def tuples(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Moments (t, m d, m d) and (t, m d, d) of tuples of these matrices."""
        t, m = index.shape
        d = self.read.shape[2]
        blocks = self.all[index[:, :, None], index[:, None, :]]  # t, m, m, d, d
        return blocks.transpose(0, 1, 3, 2, 4).reshape(t, m * d, m * d), self.moment[index].reshape(
            t, m * d, d
        )

    def beside(self, others: "_Reads") -> tuple[np.ndarray, np.ndarray]:
        """Moments (t, m d, m d) and (t, m d, d) of these matrices together with each of the t others."""
        g, _, d = self.read.shape
        t, width = len(others.read), g * d
        gram = np.empty((t, width + d, width + d))
        moment = np.empty((t, width + d, d))
        gram[:, :width, :width] = self.all.transpose(0, 2, 1, 3).reshape(width, width)
        moment[:, :width], moment[:, width:] = self.moment.reshape(width, d), others.moment
        gram[:, :width, width:] = np.matmul(self._flat.T, others.read)
        gram[:, width:, :width] = gram[:, :width, width:].transpose(0, 2, 1)
        gram[:, width:, width:] = others.own
        return gram, moment

    @cached_property
    def _flat(self) -> np.ndarray:
        g, rows, d = self.read.shape
        return self.read.transpose(1, 0, 2).reshape(rows, g * d)
