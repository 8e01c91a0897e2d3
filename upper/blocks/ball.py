"""The attention of a pre-norm block as an oracle: short tokens have norms everywhere in a ball."""

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer, ValueOracle
from upper.blocks.normed_map import NormedMap
from upper.blocks.peel import NoPreimage

# Tokens of the oracle are so many times shorter behind the norm, where those of length sqrt(d) are on the sphere.
_UNIT = 0.1
# No token is nearer to the sphere: the tokens of the block grow as 1 / sqrt(1 - share^2).
_REACH = 0.98


class Ball(ValueOracle):
    """The layer F of B(X) = Z + N(n(Z)), Z = X + F(n(X)), at tokens y / 10 = n(x), without the norm.

    As n(x) = x / sqrt(|x|^2 / d + eps), each u with |u|^2 < d is the norm of x = u sqrt(eps) / sqrt(1 - |u|^2 / d). So
    tokens have a largest length.

    Where z -> z + N(n(z)) is not injective, an answer has several preimages z. Those of equal tokens are known. From
    the mean of its tokens a query moves to them in `steps`, and Newton's method starts at the quadratic continuation of
    Z - X, which is even in the distance to first order: all weights are alike at equal tokens, and their changes cancel.
    """

    def __init__(self, oracle: ValueOracle, g: NormedMap, reach: float, steps: int) -> None:
        self._oracle, self._g, self._steps = oracle, g, steps
        self._prepare(self._peeled, oracle.tokens, oracle.dim, 0.0, None, None)
        self.longest = reach * np.sqrt(oracle.dim) / _UNIT

    @property
    def remaining(self) -> int | None:
        """How many queries the block has left."""
        return None if self._oracle.remaining is None else self._oracle.remaining // self._steps

    def _peeled(self, y: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k d"]:
        u = _UNIT * y
        if self._g.norm.centred:
            u = u - u.mean(axis=2, keepdims=True)
        mean = u.mean(axis=1, keepdims=True)
        attended = np.broadcast_to(mean @ self._g.w + self._g.b, u.shape)  # Z - X
        last = [attended, attended, attended]
        for share in np.arange(1, self._steps + 1) / self._steps:
            x = self._tokens(mean + share * (u - mean))
            start = x + 3 * (last[2] - last[1]) + last[0]
            rows = self._oracle.ask(x).reshape(-1, self.dim), start.reshape(-1, self.dim)
            z = self._g.inverse(*rows).reshape(x.shape)
            if not np.isfinite(z).all():
                raise NoPreimage("An answer has no preimage near its token.")
            last = [*last[1:], z - x]
        return last[2]

    def _tokens(self, u: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k d"]:
        """The tokens with these norms."""
        share = np.mean(u**2, axis=2, keepdims=True)
        if share.max() > _REACH**2:
            raise NoPreimage("A token is longer than norms are: shorter ones are needed.")
        return u * np.sqrt(self._g.norm.eps / (1 - share))


def in_units_of_the_norm(layer: AttentionLayer) -> AttentionLayer:
    """The layer that acts on norms, from the one that acts on tokens of a `Ball`."""
    bias = None if layer.key_bias is None else layer.key_bias / _UNIT
    return AttentionLayer(layer.theta / _UNIT**2, layer.w / _UNIT, bias, layer.bias, causal=layer.causal)
