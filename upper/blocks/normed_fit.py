"""All parameters of a pre-norm block's map of one token, to rounding: Gauss-Newton with one factorisation."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from attention.feed_forward import activation
from upper.blocks.kinks import Ask
from upper.blocks.normed_map import NormedMap, find_eps
from upper.blocks.scaled_cholesky import ScaledCholesky, kaufman, neuron_derivative
from upper.blocks.sphere import on_both_sides


@dataclass(frozen=True)
class _Rules:
    """How the fit runs; on nice blocks a step leaves .05 to .1 of the error, and one factorisation is enough."""

    #: the length of what attention adds, over that of tokens, half of them each: n(z) - n(x) shows b
    added: tuple[float, float] = (0.1, 0.2)
    least: float = 1.0  #: of the size of tokens' entries
    queries: float = 1.5  #: for every unknown over d
    more: int = 20  #: queries besides
    steps: int = 200  #: of trained blocks some leave .75 of the error
    factorisations: int = 4
    #: a step that leaves more than this share asks for a new eps, and where that no longer changes by this share, for a
    #: new derivative: each eps has the digits of the fit before, so two or three are needed
    slow: float = 0.5
    settled: float = 1e-9
    exact: float = 1e-15  #: the error at which the fit ends


_RULES = _Rules()


@dataclass(frozen=True)
class _Derivative:
    """What one factorisation needs: the derivatives by neurons and by b, projected off the linear parameters."""

    basis: Float[np.ndarray, "n l"]  #: orthonormal, of the linear parameters
    neurons: Float[np.ndarray, "n h c"]
    outputs: Float[np.ndarray, "h d"]  #: v
    bias: Float[np.ndarray, "n d d"]
    factor: ScaledCholesky

    def step(self, rest: Float[np.ndarray, "n d"]) -> tuple[np.ndarray, np.ndarray]:
        """The changes of neurons, (h, c), and of b."""
        rest = rest - self.basis @ (self.basis.T @ rest)
        by_neurons = np.einsum("nhc,nh->hc", self.neurons, rest @ self.outputs.T)
        by_bias = np.tensordot(self.bias, rest, axes=([0, 2], [0, 1]))
        step = self.factor.step(np.concatenate([by_neurons.ravel(), by_bias]))
        return step[: by_neurons.size].reshape(by_neurons.shape), step[by_neurons.size :]


def fit_normed(
    ask: Ask, g: NormedMap, space: Float[np.ndarray, "r d"], rng: np.random.Generator
) -> tuple[NormedMap, float]:
    """Fit u, a, b and eps by Gauss-Newton, with v, W and the constant eliminated; the map and its relative error.

    The derivative of z by W is left out of the elimination, which costs a factor of 10 a step where n(z) - n(x) is a
    tenth. Kaufman's normal matrix is (D^T P D) o (v v^T), as in `fit_offsets`, bordered by b. O(n h^2 d^2 + h^3 d^3)
    for each of the few factorisations. `space` has the orthonormal rows in which n(x) lies.
    """
    x = _tokens(g, space, rng)
    answers = ask(x)
    moved = answers - x
    size = float(np.linalg.norm(moved))
    nx = g.norm(x) @ space.T
    rest = answers - g(x)
    error = float(np.linalg.norm(rest)) / size
    derivative, factorised = None, 0
    for _ in range(_RULES.steps):
        if derivative is None:
            derivative = _derivative(g, x, nx, space)
            factorised += 1
        neurons, bias = derivative.step(rest)
        network = replace(g.network, u=g.network.u + neurons[:, :-1] @ space, a=g.network.a + neurons[:, -1])
        new = _with_linear(replace(g, b=g.b + bias, network=network), x, nx, moved, space)
        rest = answers - new(x)
        new_error = float(np.linalg.norm(rest)) / size
        slow = not new_error < _RULES.slow * error
        if not slow or new_error < error:
            g, error = new, new_error
        if error < _RULES.exact:
            break
        if slow:
            eps = find_eps(g, ask, rng)
            if abs(eps - g.norm.eps) <= _RULES.settled * eps:
                if factorised == _RULES.factorisations:
                    break
                derivative = None
            g = replace(g, norm=replace(g.norm, eps=eps))
            nx, rest = g.norm(x) @ space.T, answers - g(x)
            error = float(np.linalg.norm(rest)) / size
    return g, error


def _tokens(g: NormedMap, space: np.ndarray, rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
    """Random tokens, half of them longer than the others, on both sides of all planes."""
    h, d = g.network.u.shape
    x = rng.standard_normal((int(_RULES.queries * (2 * h + d)) + _RULES.more, d))
    x = on_both_sides(g.norm(x), g.network, space, rng)
    added = np.sqrt(np.mean((g.norm(x) @ g.w + g.b) ** 2))
    lengths = np.maximum(added / np.array(_RULES.added), _RULES.least)
    return x * rng.choice(lengths, (len(x), 1))


def _with_linear(
    g: NormedMap, x: np.ndarray, nx: np.ndarray, moved: np.ndarray, space: np.ndarray
) -> NormedMap:
    """The best v, W and constant for these neurons, where n(z) is as it is."""
    hidden = activation(g.network.activation, g.norm(g.attended(x)) @ g.network.u.T + g.network.a)
    design = np.concatenate([hidden, nx, np.ones((len(x), 1))], axis=1)
    solved = np.linalg.lstsq(design, moved, rcond=None)[0]
    h = hidden.shape[1]
    network = replace(g.network, v=solved[:h], constant=solved[-1] - g.b)
    return replace(g, w=space.T @ solved[h:-1], network=network)


def _derivative(g: NormedMap, x: np.ndarray, nx: np.ndarray, space: np.ndarray) -> _Derivative:
    u, v = g.network.u, g.network.v
    (h, d), n = u.shape, len(x)
    z = g.attended(x)
    nz = g.norm(z)
    t = nz @ u.T + g.network.a
    slope = activation(g.network.activation, t, derivative=True)
    ones = np.ones((n, 1))
    basis = np.linalg.qr(np.concatenate([activation(g.network.activation, t), nx, ones], axis=1))[0]
    neurons = neuron_derivative(slope, np.concatenate([nz @ space.T, ones], axis=1), basis)
    # dz/db is the identity, which the constant takes; what is left goes through the norm
    identity = np.broadcast_to(np.eye(d), (n, d, d))
    bias = ((g.norm.derivative(z, identity) @ u.T) * slope[:, None]) @ v
    bias = bias - (basis @ (basis.T @ bias.reshape(n, -1))).reshape(bias.shape)
    beside = np.stack([neurons[:, j].T @ (bias @ v[j]) for j in range(h)]).reshape(-1, d)
    corner = np.tensordot(bias, bias, axes=([0, 2], [0, 2]))
    whole = np.block([[kaufman(neurons, v), beside], [beside.T, corner]])
    return _Derivative(basis, neurons, v, bias, ScaledCholesky.of(whole))
