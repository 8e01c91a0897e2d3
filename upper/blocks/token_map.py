"""What a network or a block answers to one token: g(x) = x A + c + sum_j act(u_j . x + a_j) v_j."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from attention import FeedForward
from attention.feed_forward import Activation, activation
from upper.blocks.row_newton import newton_rows

# Steps of Broyden's method.
_BROYDEN = 40
# The relative residual of a row that Broyden's method leaves to no other.
_SOLVED = 1e-11
# Errors are relative to a row's difference from g(base) and so much of its length.
_ROUNDED = 0.01
SIGNS = 0.1
"""Solved signs are this near to zeros and ones, or the equations are those of no network."""

# Rows that Broyden's method takes together: their terms stay in the processor's cache.
_TOGETHER = 128


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

    @classmethod
    def of_neurons(
        cls, kind: Activation, u: Float[np.ndarray, "h d"], a: Float[np.ndarray, " h"]
    ) -> "TokenMap":
        """Neurons without outputs."""
        zero = np.zeros((u.shape[1], u.shape[1]))
        return cls(kind, u, a, np.zeros_like(u), zero, zero[0])

    def __call__(self, x: Float[np.ndarray, "*n d"]) -> Float[np.ndarray, "*n d"]:
        """The outputs on tokens."""
        hidden = activation(self.activation, x @ self.u.T + self.a)
        return x @ self.linear + self.constant + hidden @ self.v

    def design(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n l"]:
        """What v, A and c multiply: the hidden units, x and 1."""
        hidden = activation(self.activation, x @ self.u.T + self.a)
        return np.concatenate([hidden, x, np.ones((len(x), 1))], axis=1)

    def with_outputs(self, x: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n e"]) -> "TokenMap":
        """The map with the v, A and c that fit y best; a neuron that no x meets has none."""
        design = self.design(x)
        size = np.linalg.norm(design, axis=0)
        size[size == 0] = 1.0
        solved = np.linalg.lstsq(design / size, y, rcond=1e-13)[0] / size[:, None]
        h = len(self.u)
        return replace(self, v=solved[:h], linear=solved[h:-1], constant=solved[-1])

    def flipped(self, signs: Bool[np.ndarray, " h"]) -> "TokenMap":
        """The same function with these neurons turned round."""
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
        slope = activation(self.activation, x @ self.u.T + self.a, derivative=True)
        return self.linear + (self.u.T * slope[:, None, :]) @ self.v

    def inverse_jacobian(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d d"]:
        """The inverses of the Jacobians; pseudoinverses where one is singular."""
        jacobians = self.jacobian(x)
        try:
            return np.linalg.inv(jacobians)
        except np.linalg.LinAlgError:
            return np.linalg.pinv(jacobians)

    def amplification(
        self, x: Float[np.ndarray, "n d"], linear: Float[np.ndarray, "d d"]
    ) -> Float[np.ndarray, " n"]:
        """By how much a relative error of g grows in differences of preimages times `linear`, at each token."""
        behind = self.inverse_jacobian(x) @ linear
        return (
            np.linalg.norm(self.jacobian(x), axis=(1, 2)) * np.linalg.norm(behind, axis=(1, 2)) / x.shape[1]
        )

    def inverse(
        self,
        y: Float[np.ndarray, "n d"],
        start: Float[np.ndarray, "n d"],
        base: Float[np.ndarray, "n d"],
    ) -> Float[np.ndarray, "n d"]:
        """Preimages of the rows of `y` near `start`; NaN where none is found.

        Broyden's method from the Jacobian at each row's `base`, at O(h d) a step; rows of one base share its inverse.
        Rows where it fails take Newton's method, at O(h d^2). Errors are relative to a row's difference from g(base).
        """
        x = start.copy()
        size = np.linalg.norm(y - self(base), axis=1) + _ROUNDED * np.linalg.norm(y, axis=1)
        places, which = np.unique(base, axis=0, return_inverse=True)
        order = np.argsort(which.ravel(), kind="stable")
        ends = np.cumsum(np.bincount(which.ravel()))
        for place, rows in zip(places, np.split(order, ends[:-1]), strict=True):
            inverse = self.inverse_jacobian(place[None])[0]
            for part in np.split(rows, range(_TOGETHER, len(rows), _TOGETHER)):
                x[part] = self._by_broyden(y[part], x[part], inverse, _SOLVED * size[part])
        off = np.linalg.norm(y - self(x), axis=1)
        left = np.flatnonzero(~(off <= _SOLVED * size))
        x[left] = newton_rows(self, self.jacobian, y[left], start[left], size[left])
        return x

    def _by_broyden(
        self,
        y: Float[np.ndarray, "n d"],
        x: Float[np.ndarray, "n d"],
        inverse: Float[np.ndarray, "d d"],
        enough: Float[np.ndarray, " n"],
    ) -> Float[np.ndarray, "n d"]:
        """Broyden's good method on all rows: the inverse of each row's Jacobian is one matrix and rank-one terms.

        It ends where all rows have `enough` and none gets much better.
        """
        off = y - self(x)
        columns: list[np.ndarray] = []
        rows: list[np.ndarray] = []

        def applied(vectors: np.ndarray) -> np.ndarray:
            out = vectors @ inverse
            for column, row in zip(columns, rows, strict=True):
                out -= np.sum(vectors * column, axis=1)[:, None] * row
            return out

        best, least = x.copy(), np.linalg.norm(off, axis=1)
        exact = np.finfo(float).eps * np.linalg.norm(y, axis=1)
        step = applied(off)
        with np.errstate(all="ignore"):  # a row that diverges is left to Newton's method
            for _ in range(_BROYDEN):
                x = x + step
                new = y - self(x)
                size = np.linalg.norm(new, axis=1)
                better, much = size < least, size < least / 2
                best[better], least[better] = x[better], size[better]
                if np.all(least <= enough) and not np.any(much & (least > exact)):
                    break
                image = applied(off - new)  # of the step, as the inverse sees it
                column = step @ inverse.T
                for earlier, row in zip(columns, rows, strict=True):
                    column -= np.sum(step * row, axis=1)[:, None] * earlier
                along = np.sum(image * step, axis=1, keepdims=True)
                columns.append(column)
                rows.append(np.where(np.abs(along) > 0, (image - step) / along, 0.0))
                off = new
                step = np.nan_to_num(applied(off), posinf=0.0, neginf=0.0)
        return best

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

    A - A_found = sum_j s_j u_j v_j^T has the normal equations ((U U^T) o (V V^T)) s = diag(U (A - A_found) V^T). tanh
    leaves A no choice.
    """
    if g.activation == "tanh":
        return np.zeros(len(g.u), dtype=bool), float(np.abs(g.linear - linear).max())
    gram = (g.u @ g.u.T) * (g.v @ g.v.T)
    return _rounded(gram, np.sum((g.u @ (linear - g.linear)) * g.v, axis=1))


def signs_from(
    g: TokenMap, differences: Float[np.ndarray, "p d"], moved: Float[np.ndarray, "p d"]
) -> tuple[Bool[np.ndarray, " h"], float]:
    """The same from e_p A = delta_p for pairs p: e_p sum_j s_j u_j v_j^T = delta_p - e_p A_found.

    The e_p are `moved` and the delta_p `differences`; 1.5 h / d pairs suffice.
    """
    if g.activation == "tanh":
        off = np.linalg.norm(moved @ g.linear - differences) / np.linalg.norm(differences)
        return np.zeros(len(g.u), dtype=bool), float(off)
    along = moved @ g.u.T
    gram = (along.T @ along) * (g.v @ g.v.T)
    rest = differences - moved @ g.linear
    return _rounded(gram, np.sum(along * (rest @ g.v.T), axis=0))


def _rounded(gram: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, float]:
    size = np.sqrt(np.maximum(np.diag(gram), np.finfo(float).tiny))
    solved = np.linalg.lstsq(gram / np.outer(size, size), right / size, rcond=None)[0] / size
    signs = solved > 0.5
    return signs, float(np.max(np.abs(solved - signs), initial=0.0))
