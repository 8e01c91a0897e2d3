"""Signs of neurons behind a norm: a turned neuron and the linear map are one on the sphere, but not near the origin."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import least_squares

from attention.feed_forward import activation
from attention.norm import Norm
from upper.blocks.kinks import Ask
from upper.blocks.normed_map import NormedMap
from upper.blocks.token_map import TokenMap


@dataclass(frozen=True)
class _Rules:
    """How signs are fitted; on nice blocks they end within .002 of zeros and ones."""

    length: float = (
        8.0  #: of tokens' entries: n(z) - n(x) is then an eighth, so the equations are nearly quadratic
    )
    queries: float = 4.0  #: for every unknown over d
    more: int = 20  #: queries besides


_RULES = _Rules()


def turn_signs(sphere: TokenMap, norm: Norm, ask: Ask, rng: np.random.Generator) -> tuple[NormedMap, float]:
    """The block behind its map of the sphere, and how far the signs are from zeros and ones.

    For ReLU and GELU act(t) = t + act(-t). With s_j = 1 for a turned neuron, W is A + sum_j s_j u_j v_j^T, and the
    network has the linear part -sum_j s_j t_j v_j. W enters n(z), so least squares from s = 1/2 finds s and b from
    tokens of medium length. O(n d (h + d)^2) a step. For tanh there is no sign to find.
    """
    h, d = sphere.u.shape
    free = h if sphere.activation != "tanh" else 0
    n = int(_RULES.queries * (h + d) / d) + _RULES.more
    x = _RULES.length * rng.standard_normal((n, d))
    answers = ask(x)
    nx = norm(x)
    products = nx @ sphere.u.T

    def passed(unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The signs, z, and t_j at n(z)."""
        s = np.append(unknowns[:free], np.zeros(h - free))
        z = x + nx @ sphere.linear + (products * s) @ sphere.v + unknowns[free:]
        return s, z, norm(z) @ sphere.u.T + sphere.a

    def rest(unknowns: np.ndarray) -> np.ndarray:
        s, z, t = passed(unknowns)
        hidden = activation(sphere.activation, t) - s * (t - sphere.a)
        predicted = z + hidden @ sphere.v + sphere.constant - unknowns[free:]
        return (predicted - answers).ravel()

    def jacobian(unknowns: np.ndarray) -> np.ndarray:
        s, z, t = passed(unknowns)
        by_s = products[:, :free, None] * sphere.v[:free]
        moved = np.concatenate([by_s, np.broadcast_to(np.eye(d), (n, d, d))], axis=1)
        slope = activation(sphere.activation, t, derivative=True) - s
        out = moved + ((norm.derivative(z, moved) @ sphere.u.T) * slope[:, None]) @ sphere.v
        out[:, :free] -= (t - sphere.a)[:, :free, None] * sphere.v[:free]
        out[:, free:] -= np.eye(d)
        return np.swapaxes(out, 1, 2).reshape(n * d, -1)

    fit = least_squares(rest, np.append(np.full(free, 0.5), np.zeros(d)), jacobian, method="lm")
    s, b = passed(fit.x)[0], fit.x[free:]
    b = b - norm.centred * b.mean()  # which nothing shows
    turned = s > 0.5
    return _turned(sphere, turned, norm, b), float(np.max(np.abs(s - turned), initial=0.0))


def _turned(
    sphere: TokenMap, turned: Bool[np.ndarray, " h"], norm: Norm, b: Float[np.ndarray, " d"]
) -> NormedMap:
    flipped = sphere.flipped(turned)  # of the same map of the sphere: its linear part is W
    network = replace(flipped, linear=np.zeros_like(flipped.linear), constant=flipped.constant - b)
    return NormedMap(norm, flipped.linear, b, network)
