"""A network of which only directions of outputs are known: Gauss-Newton, lengths and linear parameters eliminated."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve, eigh, solve_triangular

from attention.feed_forward import activation
from upper.blocks.token_map import TokenMap


@dataclass(frozen=True)
class _Rules:
    """How the fit runs; from a start error of 1e-4 it takes 3 steps on nice blocks."""

    steps: int = 20
    exact: float = 1e-13
    #: a step that leaves more than this share of the error is the last, of an error that is small or not
    enough: tuple[float, float] = (0.5, 0.95)
    small: float = 1e-5
    slow: float = 0.2  #: one that leaves more than this asks for a new factorisation
    ridge: float = 1e-12  #: of the scaled normal matrix


_RULES = _Rules()


@dataclass(frozen=True)
class _Eliminated:
    """The best lengths and linear parameters for given neurons."""

    lengths: Float[np.ndarray, " n"]
    design: Float[np.ndarray, "n l"]
    basis: Float[np.ndarray, "n l"]  #: orthonormal, of the design
    rest: Float[np.ndarray, "n d"]  #: what the linear parameters do not explain of lengths times directions
    error: float

    @classmethod
    def of(cls, g: TokenMap, n: np.ndarray, directions: np.ndarray) -> "_Eliminated":
        """The lengths r with diag(r) F in the span of the design: the least eigenvector of (1 - P) o (F F^T)."""
        hidden = activation(g.activation, n @ g.u.T + g.a)
        design = np.concatenate([hidden, n, np.ones((len(n), 1))], axis=1)
        basis = np.linalg.qr(design)[0]
        off = np.eye(len(n)) - basis @ basis.T
        lengths = eigh(off * (directions @ directions.T), subset_by_index=[0, 0])[1][:, 0]
        lengths = lengths / lengths.mean()
        scaled = lengths[:, None] * directions
        rest = scaled - basis @ (basis.T @ scaled)
        return cls(lengths, design, basis, rest, float(np.linalg.norm(rest) / np.linalg.norm(scaled)))


def fit_directions(
    g: TokenMap, n: Float[np.ndarray, "n D"], directions: Float[np.ndarray, "n D"]
) -> tuple[TokenMap, Float[np.ndarray, " n"], float]:
    """Fit g(n) = length times direction at points n: the map, up to one factor, the lengths, and the relative error.

    Linear parameters and lengths are eliminated; Kaufman's normal matrix of the neurons is (D^T P D) o (v v^T), less
    what lengths explain. O(n h^2 D^2 + h^3 D^3) a factorisation.
    """
    h, d = g.u.shape
    state = _Eliminated.of(g, n, directions)
    factor = None
    for _ in range(_RULES.steps):
        if state.error < _RULES.exact:
            break
        if factor is None:
            factor = _factorised(g, n, directions, state)
        cholesky, size, derivative, v = factor
        right = np.einsum("nhc,nh->hc", derivative, state.rest @ v.T).ravel()
        step = (cho_solve(cholesky, right / size) / size).reshape(h, d + 1)
        moved = replace(g, u=g.u + step[:, :-1], a=g.a + step[:, -1])
        new = _Eliminated.of(moved, n, directions)
        share = new.error / state.error
        if share < 1:
            g, state = moved, new
        if share > _RULES.enough[state.error > _RULES.small]:
            break
        if share > _RULES.slow:
            factor = None
    solved = np.linalg.lstsq(state.design, state.lengths[:, None] * directions, rcond=None)[0]
    fitted = replace(g, v=solved[:h], linear=solved[h:-1], constant=solved[-1])
    return fitted, state.lengths, state.error


def _factorised(
    g: TokenMap, n: np.ndarray, directions: np.ndarray, state: _Eliminated
) -> tuple[tuple[np.ndarray, bool], np.ndarray, np.ndarray, np.ndarray]:
    h = len(g.u)
    v = np.linalg.lstsq(state.design, state.lengths[:, None] * directions, rcond=None)[0][:h]
    slope = activation(g.activation, n @ g.u.T + g.a, derivative=True)
    derivative = (slope[:, :, None] * np.column_stack([n, np.ones(len(n))])[:, None]).reshape(len(n), -1)
    derivative -= state.basis @ (state.basis.T @ derivative)
    columns = derivative.shape[1] // h
    normal = (derivative.T @ derivative).reshape(h, columns, h, columns)
    normal *= (v @ v.T)[:, None, :, None]
    normal = normal.reshape(h * columns, -1)
    derivative = derivative.reshape(len(n), h, columns)
    by_lengths = (derivative * (directions @ v.T)[:, :, None]).reshape(len(n), -1)
    off = (np.eye(len(n)) - state.basis @ state.basis.T) * (directions @ directions.T)
    off += np.outer(state.lengths, state.lengths) * (np.trace(off) / len(n) ** 2)  # one factor is free
    by_lengths = solve_triangular(np.linalg.cholesky(off), by_lengths, lower=True)
    normal -= by_lengths.T @ by_lengths
    size = np.sqrt(np.maximum(np.diag(normal), np.finfo(float).tiny))
    normal /= size
    normal /= size[:, None]
    normal[np.diag_indices_from(normal)] += _RULES.ridge
    return cho_factor(normal, lower=True, overwrite_a=True), size, derivative, v
