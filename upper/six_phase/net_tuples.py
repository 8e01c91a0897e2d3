"""Least squares of the labels on what tuples of heads read, from moments of the reads: no pass over data a tuple."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from jaxtyping import Float

from upper.products import read_tokens

__all__ = ["TupleRegression"]

_CHUNK = 256  # tuples solved together
_MOST_NUMBERS = 1 << 23
_RIDGE = 1e-9  # of the mean diagonal: two equal heads make a tuple's moments singular


@dataclass(frozen=True, eq=False)
class TupleRegression:
    """Examples `x`, `y` to regress on, and held-out ones, `x_held` and `y_held`, to judge by."""

    x: Float[np.ndarray, "n k d"]
    y: Float[np.ndarray, "n k d"]
    x_held: Float[np.ndarray, "h k d"]
    y_held: Float[np.ndarray, "h k d"]

    def projections(self, theta: Float[np.ndarray, "m d d"]) -> Float[np.ndarray, "m d d"]:
        """The W_i of one tuple, by least squares over the examples themselves."""
        m, d, _ = theta.shape
        _, read = read_tokens(self.x, theta)
        return np.linalg.lstsq(read, self.y.reshape(-1, d), rcond=None)[0].reshape(m, d, d)

    def pair_errors(self, theta: Float[np.ndarray, "g d d"]) -> Float[np.ndarray, "g g"]:
        """Squared relative held-out error of every pair of the matrices; NaN on the diagonal.

        O(g^2 (n k + d) d^2) time; memory O(g n k d), never that of all moments.
        """
        fitted, held = _Reads.of(self.x, self.y, theta), _Reads.of(self.x_held, self.y_held, theta)
        errors = np.full((len(theta), len(theta)), np.nan)
        for i in range(len(theta) - 1):
            gram, moment = fitted.with_later(i)
            errors[i, i + 1 :] = errors[i + 1 :, i] = self._errors(gram, moment, *held.with_later(i))
        return errors

    def tuple_errors(
        self, theta: Float[np.ndarray, "g d d"], tuples: Iterable[tuple[int, ...]]
    ) -> Iterator[tuple[np.ndarray, Float[np.ndarray, " t"]]]:
        """Chunks of the tuples of places in `theta`, with the squared relative held-out error of each.

        O((m d)^3) a tuple; memory (g d)^2 for the moments of all matrices.
        """
        fitted, held = _Reads.of(self.x, self.y, theta), _Reads.of(self.x_held, self.y_held, theta)
        grams = fitted.all(), held.all()
        iterator = iter(tuples)
        while chunk := list(islice(iterator, _CHUNK)):
            index = np.array(chunk)
            moments = _assembled(grams[0], fitted.moment, index)
            yield index, self._errors(*moments, *_assembled(grams[1], held.moment, index))

    def one_more_errors(
        self, fixed: Float[np.ndarray, "fixed d d"], others: Iterable[Float[np.ndarray, "d d"]]
    ) -> Float[np.ndarray, " t"]:
        """Squared relative held-out error of the fixed matrices together with each of the others.

        O(n k m d^2 + (m d)^3) for each of the others; memory bounded, however many they are.
        """
        sides = [_Beside.of(self.x, self.y, fixed), _Beside.of(self.x_held, self.y_held, fixed)]
        # in as many at once as what they read and their moments fill
        d = self.x.shape[2]
        width = (len(fixed) + 1) * d
        at_once = max(1, min(_CHUNK, _MOST_NUMBERS // max(self.x.size, self.x_held.size, width**2)))
        iterator, errors = iter(others), [np.zeros(0)]
        while chunk := list(islice(iterator, at_once)):
            theta = np.stack(chunk)
            errors.append(self._errors(*sides[0].with_each(theta), *sides[1].with_each(theta)))
        return np.concatenate(errors)

    def _errors(
        self, gram: np.ndarray, moment: np.ndarray, held_gram: np.ndarray, held_moment: np.ndarray
    ) -> np.ndarray:
        size = np.einsum("tii->t", gram)[:, None, None] / gram.shape[1]
        w = np.linalg.solve(gram + (_RIDGE * size + 1e-300) * np.eye(gram.shape[1]), moment)
        energy = float(np.sum(self.y_held**2))
        missed = (
            energy - 2 * np.einsum("tij,tij->t", w, held_moment) + np.einsum("tij,tij->t", w, held_gram @ w)
        )
        return np.maximum(missed, 0.0) / (energy or 1.0)


@dataclass(frozen=True, eq=False)
class _Reads:
    """What each of g matrices reads, Z_i = P_i X, its own moments Z_i^T Z_i and those with the labels, Z_i^T Y."""

    read: np.ndarray  # (n k, g, d)
    own: np.ndarray  # (g, d, d)
    moment: np.ndarray  # (g, d, d)

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray, theta: np.ndarray) -> "_Reads":
        g, d, _ = theta.shape
        read = read_tokens(x, theta)[1]
        moment = (read.T @ y.reshape(-1, d)).reshape(g, d, d)
        heads = np.ascontiguousarray(read.reshape(-1, g, d).transpose(1, 0, 2))
        return cls(heads, np.matmul(heads.transpose(0, 2, 1), heads), moment)

    def with_later(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Moments of the pairs of i with every later matrix: (t, 2d, 2d) and (t, 2d, d)."""
        cross = np.matmul(self.read[i].T, self.read[i + 1 :])
        own, moment = np.broadcast_to(self.own[i], cross.shape), np.broadcast_to(self.moment[i], cross.shape)
        above = np.concatenate([own, cross], axis=2)
        below = np.concatenate([cross.transpose(0, 2, 1), self.own[i + 1 :]], axis=2)
        gram = np.concatenate([above, below], axis=1)
        return gram, np.concatenate([moment, self.moment[i + 1 :]], axis=1)

    def all(self) -> np.ndarray:
        """Moments of all pairs, (g, g, d, d)."""
        g, rows, d = self.read.shape
        flat = self.read.transpose(1, 0, 2).reshape(rows, g * d)
        return (flat.T @ flat).reshape(g, d, g, d).transpose(0, 2, 1, 3)


@dataclass(frozen=True, eq=False)
class _Beside:
    """Moments of what some fixed matrices read, to be put beside those of one more."""

    x: np.ndarray
    labels: np.ndarray  # (n k, d)
    read: np.ndarray  # (n k, m d)
    gram: np.ndarray
    moment: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray, fixed: np.ndarray) -> "_Beside":
        labels = y.reshape(-1, x.shape[2])
        read = read_tokens(x, fixed)[1] if len(fixed) else np.zeros((len(labels), 0))
        return cls(x, labels, read, read.T @ read, read.T @ labels)

    def with_each(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Moments (t, m d, m d) and (t, m d, d) of the fixed matrices and one of the others each."""
        t, d, _ = theta.shape
        width = self.read.shape[1]
        gram = np.empty((t, width + d, width + d))
        moment = np.empty((t, width + d, d))
        gram[:, :width, :width], moment[:, :width] = self.gram, self.moment
        read = read_tokens(self.x, theta)[1]
        cross = (self.read.T @ read).reshape(width, t, d).transpose(1, 0, 2)
        gram[:, :width, width:], gram[:, width:, :width] = cross, cross.transpose(0, 2, 1)
        heads = read.reshape(-1, t, d).transpose(1, 0, 2)
        gram[:, width:, width:] = np.matmul(heads.transpose(0, 2, 1), heads)
        moment[:, width:] = (read.T @ self.labels).reshape(t, d, d)
        return gram, moment


def _assembled(grams: np.ndarray, moments: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    t, m = index.shape
    d = grams.shape[2]
    blocks = grams[index[:, :, None], index[:, None, :]]  # t, m, m, d, d
    return blocks.transpose(0, 1, 3, 2, 4).reshape(t, m * d, m * d), moments[index].reshape(t, m * d, d)
