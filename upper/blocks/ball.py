"""The attention of a pre-norm block as an oracle: short tokens have norms everywhere in a ball."""

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
# The answer to a token alone is known to this
_ALONE = 1e-12


class Ball(DerivedOracle):
    """The layer F of B(X) = Z + N(n(Z)), Z = X + F(n(X)), at tokens y / 10 = n(x), without the norm.

    As n(x) = x / sqrt(|x|^2 / d + eps), each u with |u|^2 < d is the norm of x = u sqrt(eps) / sqrt(1 - |u|^2 / d). So
    tokens have a largest length.

    Where z -> z + N(n(z)) is not injective, an answer has several preimages z. Those of equal tokens are known. From
    the mean of its tokens a query moves to them in `steps`, and Newton's method starts at the quadratic continuation of
    Z - X, whose derivative at equal tokens is 0: all values are alike there, and the changes of weights cancel.
    Where it finds nothing, steps are a quarter as long. The z of a row that sees its own token alone is known.
    """

    def __init__(self, oracle: ValueOracle, g: NormedMap, reach: float, steps: int) -> None:
        super().__init__(oracle)
        self._g, self.each = g, steps
        self.longest = reach * np.sqrt(oracle.dim) / _UNIT

    def _derived(self, y: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k d"]:
        u = _UNIT * y
        if self._g.norm.centred:
            u = u - u.mean(axis=2, keepdims=True)
        attended = np.full_like(u, np.nan)  # Z - X
        left = np.arange(len(u))
        for finer in (1, 4, 16, 64):
            attended[left] = self._followed(u[left], finer * self.each)
            left = left[~np.isfinite(attended[left]).all(axis=(1, 2))]
            if not len(left):
                return attended
        raise NoPreimage("An answer has no preimage near its token.")

    def _followed(self, u: Float[np.ndarray, "n k d"], steps: int) -> Float[np.ndarray, "n k d"]:
        g, mean = self._g, u.mean(axis=1, keepdims=True)
        known = np.broadcast_to(mean @ g.w + g.b, u.shape)
        last = [known, known, known]
        for share in np.arange(1, steps + 1) / steps:
            norms = mean + share * (u - mean)
            x = self._tokens(norms)
            start = x + 3 * (last[2] - last[1]) + last[0]
            alone = (x + norms @ g.w + g.b).reshape(-1, self.dim)
            answers = self._oracle.ask(x).reshape(-1, self.dim)
            z = g.inverse(answers, start.reshape(-1, self.dim))
            off = np.linalg.norm(g.behind(alone) - answers, axis=1)
            exact = off < _ALONE * np.linalg.norm(answers, axis=1)
            z[exact] = alone[exact]
            last = [*last[1:], z.reshape(x.shape) - x]
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
