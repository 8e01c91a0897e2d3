"""All parameters fitted at once to all answers that were paid for, by scipy's least squares."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from jaxtyping import Float

from attention import AnswerPrecision
from attention.layer import softmax
from upper.value_queries.answers import first_copies
from upper.value_queries.logits import Parameters

__all__ = ["polish"]

# Keeps weights and second moments that are zero regular.
_TINY = 1e-100


def polish(
    start: Parameters, answers: list[tuple[np.ndarray, np.ndarray, int]], precision: AnswerPrecision
) -> Parameters:
    """Weighted least squares from `start` on the answers: trust regions, with LSMR inside.

    With Gaussian noise of one size this is maximum likelihood. Rows whose logits or tokens are so large that no start
    predicts them are left out.

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
    O(n m d (d + k)) a product with the Jacobian of n rows; some 80 products each way a step, five steps at most. Holds
    O(n m (d + k)) numbers.
    """
    rows = _rows(start, answers, precision)
    units = _Jacobian(
        start, rows, _read(start, rows)
    )  # unknowns in units that make the start's Jacobian orthonormal

    def at(unknowns: np.ndarray) -> Parameters:
        change = units.scaled(unknowns)
        return _like(start, _flat(start) + _flat(change))

    def residual(unknowns: np.ndarray) -> np.ndarray:
        parameters = at(unknowns)
        return -_residual(parameters, rows, _read(parameters, rows))

    def jacobian(unknowns: np.ndarray) -> scipy.sparse.linalg.LinearOperator:
        parameters = at(unknowns)
        by = _Jacobian(parameters, rows, _read(parameters, rows))
        shape = (len(begun), len(unknowns))
        return scipy.sparse.linalg.LinearOperator(
            shape,
            matvec=lambda change: by.times(units.scaled(change)),
            rmatvec=lambda back: units.scaled_back(by.transposed(back)),
            dtype=float,
        )

    unknowns = np.zeros(_flat(start).size)
    begun = residual(unknowns)
    # a step that takes off less than a thousandth of the squared residual is the last; the first step is not cut short
    fit = scipy.optimize.least_squares(
        residual,
        unknowns,
        jacobian,
        x_scale=max(100 * float(np.linalg.norm(begun)), _TINY),
        ftol=1e-3,
        xtol=None,
        gtol=None,
        max_nfev=5,
        tr_solver="lsmr",
        tr_options={"atol": 1e-4, "btol": 1e-4, "maxiter": 80, "regularize": False},
    )
    return at(fit.x)


def _flat(parameters: Parameters) -> Float[np.ndarray, " p"]:
    return np.concatenate([array.ravel() for array in vars(parameters).values()])


def _like(parameters: Parameters, flat: Float[np.ndarray, " p"]) -> Parameters:
    """The parameters of these shapes in the vector."""
    arrays = vars(parameters).values()
    parts = np.split(flat, np.cumsum([array.size for array in arrays])[:-1])
    return Parameters(*(part.reshape(array.shape) for part, array in zip(parts, arrays, strict=True)))


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
        first = first_copies(x)
        copies = np.diff(np.append(first, x.shape[1]))
        y = np.add.reduceat(y, first, axis=1) / copies[:, None]
        error = np.hypot(precision.noise, precision.accuracy * np.sqrt(np.mean(y**2, axis=2)))
        weight = np.sqrt(count if precision.repeatable else count * copies) / np.maximum(error, _TINY)
        together.setdefault(tuple(copies.tolist()), []).append((x[:, first], y, weight))
    rows = []
    for copied, parts in together.items():
        x, y, weight = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        k = x.shape[1]
        length = np.linalg.norm(x, axis=2)
        token, x, y = x.reshape(-1, x.shape[2]), x.repeat(k, axis=0), y.reshape(-1, x.shape[2])
        every = _Rows(token, x, y, weight.reshape(-1, 1), np.log(copied))
        # a small error of Theta decides where tokens with larger differences of logits attend; and a token that is
        # more than eight times as long as the shortest of its query has such logits once Theta changes
        shortest = np.where(length > 0, length, np.inf).min(axis=1, keepdims=True)
        usable = (length <= 8.0 * shortest).ravel()
        usable &= np.ptp(_logits(start, every), axis=2).max(axis=1) < 30.0
        rows.append(_Rows(token[usable], x[usable], y[usable], every.weight[usable], every.copies))
    return rows


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
    """The derivative of all rows by the parameters, and units of those that make it well conditioned."""

    at: Parameters
    rows: list[_Rows]
    reads: list[_Read]

    def scaled(self, flat: np.ndarray) -> Parameters:
        """The change of the parameters that a change in these units is."""
        change, (of_w, by_token, by_x) = _like(self.at, flat), self._triangles
        m, d = self.at.key_bias.shape
        w = scipy.linalg.solve_triangular(of_w, change.w.reshape(m * d, d)).reshape(m, d, d)
        theta = by_token @ change.theta @ np.swapaxes(by_x, 1, 2)
        key_bias = (by_x @ change.key_bias[..., None])[..., 0]
        return Parameters(theta, w, key_bias, change.bias / np.sqrt(self._count))

    def scaled_back(self, gradient: Parameters) -> np.ndarray:
        """The transpose of `scaled`."""
        of_w, by_token, by_x = self._triangles
        m, d = self.at.key_bias.shape
        w = scipy.linalg.solve_triangular(of_w, gradient.w.reshape(m * d, d), trans="T").reshape(m, d, d)
        theta = np.swapaxes(by_token, 1, 2) @ gradient.theta @ by_x
        key_bias = (np.swapaxes(by_x, 1, 2) @ gradient.key_bias[..., None])[..., 0]
        return _flat(Parameters(theta, w, key_bias, gradient.bias / np.sqrt(self._count)))

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

    def times(self, change: Parameters) -> np.ndarray:
        left = []
        w, moved_w = (parameters.w.reshape(-1, len(parameters.bias)) for parameters in (self.at, change))
        for some, read in zip(self.rows, self.reads, strict=True):
            by_logit = _centred(read.pattern, _logits(change, some))
            moved = (by_logit @ some.x).reshape(read.mixed.shape) @ w
            left.append(some.weight * (moved + read.mixed @ moved_w + change.bias))
        return np.concatenate([part.ravel() for part in left])

    def transposed(self, flat: np.ndarray) -> Parameters:
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
        return Parameters(by_theta, by_w.reshape(m, d, d), by_key_bias, by_bias)


def _triangle(moments: np.ndarray) -> np.ndarray:
    size = moments.shape[-1]
    ridge = 1e-12 * np.trace(moments, axis1=1, axis2=2) / size + _TINY
    return np.swapaxes(np.linalg.cholesky(moments + ridge[:, None, None] * np.eye(size)), 1, 2)


def _centred(pattern: np.ndarray, by_logit: np.ndarray) -> np.ndarray:
    """The derivative of a softmax, which is symmetric, times rows."""
    return pattern * (by_logit - np.sum(pattern * by_logit, axis=2, keepdims=True))
