"""A network of which only directions of outputs are known: Gauss-Newton, lengths and linear parameters eliminated."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from scipy.linalg import eigh, solve_triangular

from attention.feed_forward import activation
from upper.blocks.scaled_cholesky import ScaledCholesky, kaufman, neuron_derivative
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


_RULES = _Rules()


@dataclass(frozen=True)
class Eliminated:
    """The best lengths and linear parameters for given neurons."""

    lengths: Float[np.ndarray, " n"]
    basis: Float[np.ndarray, "n l"]  #: orthonormal, of what linear parameters multiply
    rest: Float[np.ndarray, "n d"]  #: what the linear parameters do not explain of lengths times directions
    error: float

    @classmethod
    def of(cls, g: TokenMap, n: np.ndarray, directions: np.ndarray) -> "Eliminated":
        """The lengths r with diag(r) F in the span of the design: the least eigenvector of (1 - P) o (F F^T)."""
        basis = np.linalg.qr(g.design(n))[0]
        off = np.eye(len(n)) - basis @ basis.T
        lengths = eigh(off * (directions @ directions.T), subset_by_index=[0, 0])[1][:, 0]
        lengths = lengths / lengths.mean()
        scaled = lengths[:, None] * directions
        rest = scaled - basis @ (basis.T @ scaled)
        return cls(lengths, basis, rest, float(np.linalg.norm(rest) / np.linalg.norm(scaled)))


def fit_directions(
    g: TokenMap, n: Float[np.ndarray, "n D"], directions: Float[np.ndarray, "n D"]
) -> tuple[TokenMap, Float[np.ndarray, " n"], float]:
    """Fit g(n) = length times direction at points n: the map, up to one factor, the lengths, and the relative error.

    Linear parameters and lengths are eliminated; Kaufman's normal matrix of the neurons is (D^T P D) o (v v^T), less
    what lengths explain. O(n h^2 D^2 + h^3 D^3) a factorisation.
    """
    h, d = g.u.shape
    state = Eliminated.of(g, n, directions)
    factor = None
    for _ in range(_RULES.steps):
        if state.error < _RULES.exact:
            break
        if factor is None:
            try:
                factor = _factorised(g, n, directions, state)
            except (
                np.linalg.LinAlgError,
                ValueError,
            ):  # a wrong start: neurons are not told apart, or are infinite
                break
        cholesky, derivative, v = factor
        right = np.einsum("nhc,nh->hc", derivative, state.rest @ v.T).ravel()
        step = cholesky.step(right).reshape(h, d + 1)
        moved = replace(g, u=g.u + step[:, :-1], a=g.a + step[:, -1])
        new = Eliminated.of(moved, n, directions)
        share = new.error / state.error
        if share < 1:
            g, state = moved, new
        if share > _RULES.enough[state.error > _RULES.small]:
            break
        if share > _RULES.slow:
            factor = None
    return g.with_outputs(n, state.lengths[:, None] * directions), state.lengths, state.error


def _factorised(
    g: TokenMap, n: np.ndarray, directions: np.ndarray, state: Eliminated
) -> tuple[ScaledCholesky, Float[np.ndarray, "n h c"], Float[np.ndarray, "h d"]]:
    """The factor, the derivative by the neurons, and v."""
    v = g.with_outputs(n, state.lengths[:, None] * directions).v
    slope = activation(g.activation, n @ g.u.T + g.a, derivative=True)
    derivative = neuron_derivative(slope, np.column_stack([n, np.ones(len(n))]), state.basis)
    by_lengths = (derivative * (directions @ v.T)[:, :, None]).reshape(len(n), -1)
    off = (np.eye(len(n)) - state.basis @ state.basis.T) * (directions @ directions.T)
    off += np.outer(state.lengths, state.lengths) * (np.trace(off) / len(n) ** 2)  # one factor is free
    by_lengths = solve_triangular(np.linalg.cholesky(off), by_lengths, lower=True)
    return ScaledCholesky.of(kaufman(derivative, v) - by_lengths.T @ by_lengths), derivative, v
