"""All parameters fitted at once to all answers that were paid for."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from jaxtyping import Float

from attention import AnswerPrecision, AttentionLayer, ValueOracle
from attention.layer import softmax

_STEPS, _INNER, _TOLERANCE = 4, 80, 1e-4
# A step that takes off less than this share of the squared residual is the last.
_GAIN = 1e-3
# Rows with larger differences of logits are not used: a small error of Theta decides where they attend.
_LARGEST = 30.0
# Nor are those of tokens that are so many times as long as the shortest of their query.
_LONGER = 8.0
_TINY = 1e-100
# Biases below this share of the other parameters are rounding.
_NO_BIAS = 1e-9


class KeptAnswers(ValueOracle):
    """An oracle that keeps what it was asked, the mean of the answers, and how many they were."""

    def __init__(self, oracle: ValueOracle) -> None:
        self._prepare(oracle.ask, oracle.k, oracle.d, 0.0, oracle.remaining, None)
        self.kept: list[tuple[np.ndarray, np.ndarray, int]] = []

    def ask(self, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k d"]:
        """The answers of the oracle."""
        answers = super().ask(x)
        if self.kept and self.kept[-1][0] is x:  # asked again
            _, mean, count = self.kept.pop()
            self.kept.append((x, mean + (answers - mean) / (count + 1), count + 1))
        else:
            self.kept.append((x, answers, 1))
        return answers


@dataclass(frozen=True, eq=False)
class Parameters:
    """The arrays of a layer with biases, or a change of them."""

    theta: Float[np.ndarray, "m d d"]
    w: Float[np.ndarray, "m d d"]
    key_bias: Float[np.ndarray, "m d"]
    bias: Float[np.ndarray, " d"]

    @property
    def layer(self) -> AttentionLayer:
        """The layer, without biases that are no more than rounding."""
        key_bias, bias = (
            None if np.abs(one).max() <= _NO_BIAS * np.abs(beside).max() else one
            for one, beside in ((self.key_bias, self.theta), (self.bias, self.w))
        )
        return AttentionLayer(self.theta, self.w, key_bias, bias)

    def flat(self) -> Float[np.ndarray, " p"]:
        """One vector."""
        return np.concatenate([part.ravel() for part in (self.theta, self.w, self.key_bias, self.bias)])

    def like(self, flat: Float[np.ndarray, " p"]) -> "Parameters":
        """The parameters of these shapes in the vector."""
        parts = (self.theta, self.w, self.key_bias, self.bias)
        ends = np.cumsum([part.size for part in parts])[:-1]
        return Parameters(
            *(some.reshape(part.shape) for some, part in zip(np.split(flat, ends), parts, strict=True))
        )


def polish(
    start: Parameters, answers: list[tuple[np.ndarray, np.ndarray, int]], precision: AnswerPrecision
) -> Parameters:
    """Gauss-Newton from `start` on the answers, each step by LSMR.

    With Gaussian noise of one size this is maximum likelihood. A step that does not help is halved twice, then it ends.
    Rows whose logits or tokens are so large that no start predicts them are left out.

    Parameters
    ----------
    start : Parameters
        Where to begin.
    answers : list of (array (n, k, d), array (n, k, d), int)
        Queries, means of answers, and how many answers they are the mean of.
    precision : AnswerPrecision
        How much each answer counts.

    Notes
    -----
    O(n m d (d + k)) a product with the Jacobian of n rows; 60 products each way a step, six steps at most. Holds
    O(n m (d + k)) numbers.
    """
    rows = _rows(start, answers, precision)
    now, reads = start, _read(start, rows)
    residual = _residual(now, rows, reads)
    for _ in range(_STEPS):
        jacobian = _Jacobian(now, rows, reads)
        size = len(now.flat())
        operator = scipy.sparse.linalg.LinearOperator(
            (len(residual), size), matvec=jacobian.times, rmatvec=jacobian.transposed, dtype=float
        )
        change = jacobian.scaled(
            scipy.sparse.linalg.lsmr(operator, residual, atol=_TOLERANCE, btol=_TOLERANCE, maxiter=_INNER)[0]
        ).flat()
        before = float(residual @ residual)
        for share in (1.0, 0.5, 0.25):
            trial = now.like(now.flat() + share * change)
            trial_reads = _read(trial, rows)
            found = _residual(trial, rows, trial_reads)
            if found @ found < before:
                now, reads, residual = trial, trial_reads, found
                break
        if residual @ residual > (1 - _GAIN) * before:
            break
    return now


@dataclass(frozen=True)
class _Rows:
    """Rows of answers to queries of one number of tokens."""

    token: Float[np.ndarray, "n d"]  #: the token of the row
    x: Float[np.ndarray, "n k d"]  #: all tokens of its query
    y: Float[np.ndarray, "n d"]  #: the row of the answer
    weight: Float[np.ndarray, "n 1"]  #: one over its error
    copies: Float[np.ndarray, " k"]  #: the logarithm of the number of copies of each token


@dataclass(frozen=True)
class _Read:
    """What the heads read in some rows."""

    pattern: Float[np.ndarray, "n m k"]
    mixed: Float[np.ndarray, "n md"]  #: the tokens, mixed by the patterns


def _rows(
    start: Parameters, answers: list[tuple[np.ndarray, np.ndarray, int]], precision: AnswerPrecision
) -> list[_Rows]:
    together: dict[tuple[int, ...], list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = {}
    for x, y, count in answers:
        # copies of a token are one, with a weight
        differ = np.any(x[:, 1:] != x[:, :-1], axis=(0, 2))
        first = np.concatenate([[0], np.flatnonzero(differ) + 1])
        copies = np.diff(np.append(first, x.shape[1]))
        y = np.add.reduceat(y, first, axis=1) / copies[:, None]
        error = np.hypot(precision.noise, precision.accuracy * np.sqrt(np.mean(y**2, axis=2)))
        weight = np.sqrt(count if precision.repeatable else count * copies) / np.maximum(error, _TINY)
        together.setdefault(tuple(copies.tolist()), []).append((x[:, first], y, weight))
    found = []
    for copied, some in together.items():
        x, y, weight = (np.concatenate(parts) for parts in zip(*some, strict=True))
        k = x.shape[1]
        length = np.linalg.norm(x, axis=2)
        token, x, y = x.reshape(-1, x.shape[2]), x.repeat(k, axis=0), y.reshape(-1, x.shape[2])
        every = _Rows(token, x, y, weight.reshape(-1, 1), np.log(copied))
        shortest = np.where(length > 0, length, np.inf).min(axis=1, keepdims=True)
        usable = (length <= _LONGER * shortest).ravel()
        usable &= np.ptp(_logits(start, every), axis=2).max(axis=1) < _LARGEST
        found.append(_Rows(token[usable], x[usable], y[usable], every.weight[usable], every.copies))
    return found


def _logits(at: Parameters, rows: _Rows) -> Float[np.ndarray, "n m k"]:
    m, d = at.key_bias.shape
    left = (rows.token @ np.moveaxis(at.theta, 0, 1).reshape(d, m * d)).reshape(-1, m, d)
    return (left + at.key_bias) @ np.swapaxes(rows.x, 1, 2)


def _read(at: Parameters, rows: list[_Rows]) -> list[_Read]:
    patterns = [softmax(_logits(at, some) + some.copies, np) for some in rows]
    return [
        _Read(pattern, (pattern @ some.x).reshape(len(pattern), at.key_bias.size))
        for pattern, some in zip(patterns, rows, strict=True)
    ]


def _residual(at: Parameters, rows: list[_Rows], reads: list[_Read]) -> Float[np.ndarray, " n"]:
    w = at.w.reshape(-1, len(at.bias))
    return np.concatenate(
        [
            (some.weight * (some.y - at.bias - read.mixed @ w)).ravel()
            for some, read in zip(rows, reads, strict=True)
        ]
    )


@dataclass(frozen=True)
class _Jacobian:
    """The derivative of all rows by parameters in units that make it well conditioned."""

    at: Parameters
    rows: list[_Rows]
    reads: list[_Read]

    def scaled(self, flat: np.ndarray) -> Parameters:
        """The change of the parameters that a change in these units is."""
        change, (of_w, by_token, by_x) = self.at.like(flat), self._triangles
        m, d = self.at.key_bias.shape
        w = scipy.linalg.solve_triangular(of_w, change.w.reshape(m * d, d)).reshape(m, d, d)
        theta = by_token @ change.theta @ np.swapaxes(by_x, 1, 2)
        key_bias = (by_x @ change.key_bias[..., None])[..., 0]
        return Parameters(theta, w, key_bias, change.bias / np.sqrt(self._count))

    def _scaled_back(self, gradient: Parameters) -> np.ndarray:
        """The transpose of `scaled`."""
        of_w, by_token, by_x = self._triangles
        m, d = self.at.key_bias.shape
        w = scipy.linalg.solve_triangular(of_w, gradient.w.reshape(m * d, d), trans="T").reshape(m, d, d)
        theta = np.swapaxes(by_token, 1, 2) @ gradient.theta @ by_x
        key_bias = (np.swapaxes(by_x, 1, 2) @ gradient.key_bias[..., None])[..., 0]
        return Parameters(theta, w, key_bias, gradient.bias / np.sqrt(self._count)).flat()

    @cached_property
    def _triangles(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A triangular factor of the second moments of what heads read, and inverse ones of tokens and of their spread.

        The first makes the equations for W orthonormal; the product of the others does so for Theta, roughly.
        """
        m, d = self.at.key_bias.shape
        of_w = np.zeros((m * d, m * d))
        of_token, of_x = np.zeros((m, d, d)), np.zeros((m, d, d))
        for some, read in zip(self.rows, self.reads, strict=True):
            weighted, mean = some.weight * read.mixed, read.mixed.reshape(-1, m, 1, d)
            of_w += weighted.T @ weighted
            for i in range(m):
                # two tokens with weights p and 1 - p: spread^T spread = p (1 - p) delta^T delta
                spread = np.sqrt(read.pattern[:, i, :, None]) * (some.x - mean[:, i])
                size = some.weight[:, 0] * np.linalg.norm(spread @ self.at.w[i], axis=(1, 2))
                flat = (size[:, None, None] * spread).reshape(-1, d)
                of_x[i] += flat.T @ flat
                token = some.token * (size * np.linalg.norm(spread, axis=(1, 2)))[:, None]
                of_token[i] += token.T @ token
        of_x = _triangle(of_x)
        # the two factors count the rows twice
        unit = np.linalg.norm(of_x, axis=(1, 2))[:, None, None]
        return _triangle(of_w[None])[0], unit * np.linalg.inv(_triangle(of_token)), np.linalg.inv(of_x)

    @cached_property
    def _count(self) -> float:
        return float(sum(np.sum(some.weight**2) for some in self.rows))

    def times(self, flat: np.ndarray) -> np.ndarray:
        change, left = self.scaled(flat), []
        w, moved_w = (one.w.reshape(-1, len(one.bias)) for one in (self.at, change))
        for some, read in zip(self.rows, self.reads, strict=True):
            by_logit = _centred(read.pattern, _logits(change, some))
            moved = (by_logit @ some.x).reshape(read.mixed.shape) @ w
            left.append(some.weight * (moved + read.mixed @ moved_w + change.bias))
        return np.concatenate([part.ravel() for part in left])

    def transposed(self, flat: np.ndarray) -> np.ndarray:
        m, d = self.at.key_bias.shape
        by_w, by_theta = np.zeros((m * d, d)), np.zeros((d, m * d))
        by_key_bias, by_bias = np.zeros((m, d)), np.zeros(d)
        ends = np.cumsum([some.y.size for some in self.rows])[:-1]
        for some, read, part in zip(self.rows, self.reads, np.split(flat, ends), strict=True):
            y = some.weight * part.reshape(-1, d)
            back = (y @ self.at.w.reshape(-1, d).T).reshape(-1, m, d) @ np.swapaxes(some.x, 1, 2)
            mixed = _centred(read.pattern, back) @ some.x
            by_w += read.mixed.T @ y
            by_theta += some.token.T @ mixed.reshape(read.mixed.shape)
            by_key_bias += mixed.sum(axis=0)
            by_bias += y.sum(axis=0)
        by_theta = np.moveaxis(by_theta.reshape(d, m, d), 1, 0)
        return self._scaled_back(Parameters(by_theta, by_w.reshape(m, d, d), by_key_bias, by_bias))


def _triangle(moments: np.ndarray) -> np.ndarray:
    size = moments.shape[-1]
    ridge = 1e-12 * np.trace(moments, axis1=1, axis2=2) / size + _TINY
    return np.swapaxes(np.linalg.cholesky(moments + ridge[:, None, None] * np.eye(size)), 1, 2)


def _centred(pattern: np.ndarray, by_logit: np.ndarray) -> np.ndarray:
    """The derivative of a softmax, which is symmetric, times rows."""
    return pattern * (by_logit - np.sum(pattern * by_logit, axis=2, keepdims=True))
