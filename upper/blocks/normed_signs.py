"""Signs of neurons behind a norm: a turned neuron and the linear map are one on the sphere, but not near the origin."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from attention.feed_forward import activation
from attention.norm import Norm
from upper.blocks.kinks import Ask
from upper.blocks.normed_map import NormedMap
from upper.blocks.token_map import TokenMap


@dataclass(frozen=True)
class _Rules:
    """How signs are fitted; on nice blocks 4 steps end within .002 of zeros and ones."""

    length: float = (
        8.0  #: of tokens' entries: n(z) - n(x) is then an eighth, so the equations are nearly quadratic
    )
    queries: float = 4.0  #: for every unknown over d
    more: int = 20  #: queries besides
    steps: int = 30
    shortest: float = 1e-3  #: of a step's halvings
    enough: float = 0.9  #: a step that leaves more than this share of the error is the last


_RULES = _Rules()


def turn_signs(sphere: TokenMap, norm: Norm, ask: Ask, rng: np.random.Generator) -> tuple[NormedMap, float]:
    """The block behind its map of the sphere, and how far the signs are from zeros and ones.

    For ReLU and GELU act(t) = t + act(-t). With s_j = 1 for a turned neuron, W is A + sum_j s_j u_j v_j^T, and the
    network has the linear part -sum_j s_j t_j v_j. W enters n(z), so Gauss-Newton from s = 1/2 finds s and b from
    tokens of medium length. O(n d (h + d)^2) a step. For tanh there is no sign to find.
    """
    h, d = sphere.u.shape
    free = h if sphere.activation != "tanh" else 0
    n = int(_RULES.queries * (h + d) / d) + _RULES.more
    x = _RULES.length * rng.standard_normal((n, d))
    answers = ask(x)
    nx = norm(x)
    products = nx @ sphere.u.T

    def residual(s: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        z = x + nx @ sphere.linear + (products * s) @ sphere.v + b
        t = norm(z) @ sphere.u.T + sphere.a
        hidden = activation(sphere.activation, t) - s * (t - sphere.a)
        return z, t, answers - z - hidden @ sphere.v - sphere.constant + b

    s, b = np.full(h, 0.5 if free else 0.0), np.zeros(d)
    z, t, rest = residual(s, b)
    for _ in range(_RULES.steps):
        slope = activation(sphere.activation, t, derivative=True) - s

        def through(moved: np.ndarray, z: np.ndarray = z, slope: np.ndarray = slope) -> np.ndarray:
            return moved + ((norm.derivative(z, moved) @ sphere.u.T) * slope[:, None]) @ sphere.v

        by_b = through(np.broadcast_to(np.eye(d), (n, d, d))) - np.eye(d)
        by_s = (
            through(products[:, :free, None] * sphere.v[:free])
            - (t - sphere.a)[:, :free, None] * sphere.v[:free]
        )
        jacobian = np.swapaxes(np.concatenate([by_s, by_b], axis=1), 1, 2).reshape(n * d, -1)
        step = np.linalg.lstsq(jacobian, rest.ravel(), rcond=1e-12)[0]
        error, length = np.linalg.norm(rest), 1.0
        while length > _RULES.shortest:
            new_s, new_b = s.copy(), b + length * step[free:]
            new_s[:free] += length * step[:free]
            new = residual(new_s, new_b)
            if np.linalg.norm(new[2]) < error:
                break
            length /= 2
        else:
            break
        s, b, (z, t, rest) = new_s, new_b, new
        if np.linalg.norm(rest) > _RULES.enough * error:
            break
    turned = s > 0.5
    return _turned(sphere, turned, norm, b), float(np.max(np.abs(s - turned), initial=0.0))


def _turned(
    sphere: TokenMap, turned: Bool[np.ndarray, " h"], norm: Norm, b: Float[np.ndarray, " d"]
) -> NormedMap:
    flipped = sphere.flipped(turned)  # of the same map of the sphere: its linear part is W
    network = replace(flipped, linear=np.zeros_like(flipped.linear), constant=flipped.constant - b)
    return NormedMap(norm, flipped.linear, b, network)
