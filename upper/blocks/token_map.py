"""What a network or a block answers to one token: g(x) = x A + c + sum_j act(u_j . x + a_j) v_j."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from attention import Activation, FeedForward, activation

__all__ = ["TokenMap", "signs_for", "signs_from"]

# Newton's method: steps, halvings of a step, and the relative residual at which a row has its preimage.
_STEPS, _HALVINGS, _SOLVED = 60, 30, 1e-15
# Tokens whose Jacobians are formed at once.
_AT_ONCE = 2**22


@dataclass(frozen=True)
class TokenMap:
    """g(x) = x A + c + sum_j act(u_j . x + a_j) v_j.

    For ReLU and GELU act(t) = t + act(-t), so a neuron (u, a, v) and the linear part A are the same function as
    (-u, -a, v) and A + u v^T: 2^h choices of `flipped` are one g.
    """

    activation: Activation
    u: Float[np.ndarray, "h d"]
    a: Float[np.ndarray, " h"]
    v: Float[np.ndarray, "h d"]
    linear: Float[np.ndarray, "d d"]  #: A
    constant: Float[np.ndarray, " d"]  #: c

    def __call__(self, x: Float[np.ndarray, "*n d"]) -> Float[np.ndarray, "*n d"]:
        """The outputs on tokens."""
        hidden = activation(self.activation, x @ self.u.T + self.a)
        return x @ self.linear + self.constant + hidden @ self.v

    def flipped(self, signs: Bool[np.ndarray, " h"]) -> "TokenMap":
        """The same function with these neurons turned round."""
        if self.activation == "tanh":
            return self
        turned = np.where(signs, -1.0, 1.0)
        return replace(
            self,
            u=self.u * turned[:, None],
            a=self.a * turned,
            linear=self.linear + self.u[signs].T @ self.v[signs],
            constant=self.constant + self.a[signs] @ self.v[signs],
        )

    def jacobian(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d d"]:
        """dg_b/dx_a at [., a, b]; O(n h d^2)."""
        slope = activation(self.activation, x @ self.u.T + self.a, derivative=1)
        return self.linear + (self.u.T * slope[:, None, :]) @ self.v

    def inverse(
        self, y: Float[np.ndarray, "n d"], start: Float[np.ndarray, "n d"]
    ) -> Float[np.ndarray, "n d"]:
        """Preimages of the rows of `y`, by Newton's method from `start`; NaN where it does not end."""
        step = max(1, _AT_ONCE // self.u.shape[1] ** 2)
        parts = [slice(i, i + step) for i in range(0, len(y), step)]
        return np.concatenate([self._inverse(y[part], start[part].copy()) for part in parts]) if parts else y

    def _inverse(self, y: Float[np.ndarray, "n d"], x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        off = y - self(x)
        size = np.linalg.norm(y - self.constant, axis=1) + np.linalg.norm(self.constant)
        moving = np.arange(len(y))
        for _ in range(_STEPS):
            jacobian = self.jacobian(x[moving])
            try:
                step = np.linalg.solve(np.swapaxes(jacobian, 1, 2), off[moving][..., None])[..., 0]
            except np.linalg.LinAlgError:
                step = (np.linalg.pinv(np.swapaxes(jacobian, 1, 2)) @ off[moving][..., None])[..., 0]
            left, length = np.arange(len(moving)), 1.0
            improved = np.zeros(len(moving), dtype=bool)
            for _ in range(_HALVINGS):  # where kinks lie between, a whole step may be too long
                rows = moving[left]
                x_new = x[rows] + length * step[left]
                off_new = y[rows] - self(x_new)
                better = np.linalg.norm(off_new, axis=1) < np.linalg.norm(off[rows], axis=1)
                x[rows[better]], off[rows[better]] = x_new[better], off_new[better]
                improved[left[better]] = True
                left, length = left[~better], length / 2
                if not len(left):
                    break
            # a step that no longer helps ends a row, at rounding or stuck
            going = improved & (np.linalg.norm(off[moving], axis=1) > _SOLVED * size[moving])
            moving = moving[going]
            if not len(moving):
                break
        x[np.linalg.norm(off, axis=1) > 1e-9 * size] = np.nan
        return x

    def network(self, *, linear: Float[np.ndarray, "d d"], residual: bool) -> FeedForward:
        """The network z -> [z +] act(z W1 + b1) W2 + b2 with z = x A, where A is `linear`: U = A W1."""
        return FeedForward(
            w1=np.linalg.solve(linear, self.u.T),
            b1=self.a,
            w2=self.v,
            b2=self.constant,
            activation=self.activation,
            residual=residual,
        )


def signs_for(g: TokenMap, linear: Float[np.ndarray, "d d"]) -> tuple[Bool[np.ndarray, " h"], float]:
    """Which neurons to turn for the linear part to be `linear`, and how far the solution is from zeros and ones.

    A - A_found = sum_j s_j u_j v_j^T has the normal equations ((U U^T) o (V V^T)) s = diag(U (A - A_found) V^T).
    """
    gram = (g.u @ g.u.T) * (g.v @ g.v.T)
    return _rounded(gram, np.sum((g.u @ (linear - g.linear)) * g.v, axis=1))


def signs_from(
    g: TokenMap, differences: Float[np.ndarray, "p d"], moved: Float[np.ndarray, "p d"]
) -> tuple[Bool[np.ndarray, " h"], float]:
    """The same from e_p A = delta_p for pairs p: e_p sum_j s_j u_j v_j^T = delta_p - e_p A_found.

    The e_p are `moved` and the delta_p `differences`; 1.5 h / d pairs suffice.
    """
    along = moved @ g.u.T
    gram = (along.T @ along) * (g.v @ g.v.T)
    rest = differences - moved @ g.linear
    return _rounded(gram, np.sum(along * (rest @ g.v.T), axis=0))


def _rounded(gram: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, float]:
    size = np.sqrt(np.maximum(np.diag(gram), np.finfo(float).tiny))
    solved = np.linalg.lstsq(gram / np.outer(size, size), right / size, rcond=None)[0] / size
    signs = solved > 0.5
    return signs, float(np.max(np.abs(solved - signs), initial=0.0))
