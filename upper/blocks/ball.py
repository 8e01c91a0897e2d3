"""The attention of a pre-norm block as an oracle: short tokens have norms everywhere in a ball."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer, ValueOracle
from attention.value_oracle import DerivedOracle
from upper.blocks.normed_map import NormedMap
from upper.blocks.peel import NoPreimage

# Tokens of the oracle are so many times shorter behind the norm, where those of length sqrt(d) are on the sphere.
_UNIT = 0.1
# No token is nearer to the sphere: the tokens of the block grow as 1 / sqrt(1 - share^2).
_REACH = 0.98
# Random weights with which preimages are looked for
_DRAWS = 12


class Ball(DerivedOracle):
    """The layer F of B(X) = Z + N(n(Z)), Z = X + F(n(X)), at tokens y / 10 = n(x), without the norm.

    As n(x) = x / sqrt(|x|^2 / d + eps), each u with |u|^2 < d is the norm of x = u sqrt(eps) / sqrt(1 - |u|^2 / d). So
    tokens have a largest length.
    """

    def __init__(self, oracle: ValueOracle, g: NormedMap, reach: float) -> None:
        super().__init__(oracle)
        self._g = g
        self.longest = reach * np.sqrt(oracle.dim) / _UNIT

    def _derived(self, y: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k d"]:
        d = y.shape[2]
        u = _UNIT * y
        if self._g.norm.centred:
            u = u - u.mean(axis=2, keepdims=True)
        share = np.sum(u**2, axis=2, keepdims=True) / d
        if share.max() > _REACH**2:
            raise NoPreimage("A token is longer than norms are: shorter ones are needed.")
        x = u * np.sqrt(self._g.norm.eps / (1 - share))
        answers = self._oracle.ask(x).reshape(-1, d)
        z = np.full_like(answers, np.nan)
        left = np.arange(len(z))
        for weights in _first_weights(x.shape[1], self._rng):
            # Newton's method starts where all heads have these weights
            start = (x + (weights @ u) @ self._g.w + self._g.b).reshape(-1, d)
            z[left] = self._g.inverse(answers[left], start[left])
            left = left[~np.isfinite(z[left]).all(axis=1)]
            if not len(left):
                break
        else:
            raise NoPreimage("An answer has no preimage near its token.")
        return z.reshape(x.shape) - x


def _first_weights(tokens: int, rng: np.random.Generator) -> Iterator[Float[np.ndarray, "k k"]]:
    """Weights with which heads may attend: all to their own token, to all alike, and at random."""
    yield np.eye(tokens)
    yield np.full((tokens, tokens), 1 / tokens)
    for _ in range(_DRAWS):
        yield rng.dirichlet(np.full(tokens, 1 / tokens), size=tokens)


def in_units_of_the_norm(layer: AttentionLayer) -> AttentionLayer:
    """The layer that acts on norms, from the one that acts on tokens of a `Ball`."""
    bias = None if layer.key_bias is None else layer.key_bias / _UNIT
    return AttentionLayer(layer.theta / _UNIT**2, layer.w / _UNIT, bias, layer.bias, causal=layer.causal)
