"""A certificate: which directions of the parameters of a layer do examples determine, head by head, and how well?"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer
from attention.validation import PositiveFloat, PositiveInt, checked
from upper.newton.derivative import Derivative, Rounding, left_map, moved, null_moves, span_of, stacked
from upper.newton.whitening import Whitening, whitening_of


@dataclass(frozen=True, eq=False)
class LayerCertificate:
    """What examples determine of a layer, to first order at the layer itself, on the span of the tokens.

    Changes of a head are relative: those of Theta_i in units of |Theta_i|, those of W_i in units of |W_i|, and those of
    c_i in units of the larger of |c_i| and |Theta_i| |x|, with |x| the root mean square of a token. If the logits of a
    row differ by up to L > 1, a change of Theta_i and c_i by 1 / L is large already.

    Attributes
    ----------
    whitening : Whitening
        The span of the tokens, of r dimensions; nothing is determined across it.
    free : list of int
        For each head, the number of directions in which Theta_i and c_i can change: e r, where e = r + 1 with biases
        and else r; or q (e + r - q) for heads of a known rank q.
    theta_values : array (sum of free,)
        Singular values, descending, of the derivative of the outputs in the relative changes of the Theta_i and c_i
        along these directions, over max(1, L), after the best change of the W_i and b is taken off.
    w_values : array (m r,) or (m r + 1,)
        Singular values of the outputs in the relative changes of the W_i, and of b with biases.
    theta_unseen, w_unseen : list of array (e r, u_i) and (r, v_i)
        For each head, orthonormal directions of (Theta_i, c_i), and of the columns of W_i, that are not determined,
        alone or together with others.
    theta_error, key_bias_error, w_error : list of float
        For each head, bounds to first order on the errors of Theta_i, c_i and W_i along the directions that are
        determined, relative to these parts of Theta_i and W_i and to the unit of c_i. They are 0 for the c_i without
        biases, and infinite if no direction is determined or first order is not enough: if the bounds are large, or the
        layers with these outputs do not lie along a plane.
    rounding : float
        The rounding of the outputs, as the root mean square of a row.
    tolerance : float
        A direction is determined if rounding of the outputs moves it, times max(1, L), by less than this.
    units : array (m, 2)
        The units of the changes of the Theta_i and c_i.
    """

    whitening: Whitening
    free: list[int]
    theta_values: Float[np.ndarray, " p"]
    w_values: Float[np.ndarray, " q"]
    theta_unseen: list[np.ndarray]
    w_unseen: list[np.ndarray]
    theta_error: list[float]
    key_bias_error: list[float]
    w_error: list[float]
    rounding: float
    tolerance: float
    units: Float[np.ndarray, "m 2"]

    @property
    def theta(self) -> list[int]:
        """For each head, the number of directions of Theta_i and c_i that are determined."""
        return [free - unseen.shape[1] for free, unseen in zip(self.free, self.theta_unseen, strict=True)]

    @property
    def w(self) -> list[int]:
        """For each head, the number of directions of the columns of W_i that are determined."""
        return [len(unseen) - unseen.shape[1] for unseen in self.w_unseen]

    @property
    def determined(self) -> bool:
        """Whether every direction on the span of the tokens is determined, for all heads."""
        return not any(unseen.size for unseen in (*self.theta_unseen, *self.w_unseen))

    def project(self, layer: AttentionLayer) -> AttentionLayer:
        """What the examples determine of a layer with the same heads in the same order; the rest is zero.

        Two layers with these outputs agree in it, to first order. Compare a fitted layer with a known one so.
        """
        r = self.whitening.rank
        needed = len(self.w_unseen), len(self.whitening.mean)
        if (layer.heads, layer.dim) != needed:
            raise ValueError(
                f"The layer has {layer.heads} heads in {layer.dim} dimensions: {needed[0]} in {needed[1]} are needed."
            )
        here = self.whitening.into(layer)
        theta, w = np.zeros_like(here.theta), np.zeros_like(here.w)
        key_bias = None if here.key_bias is None else np.zeros_like(here.key_bias)
        rows, spread = stacked(here, r), self.whitening.spread
        for i, (of_theta, of_w) in enumerate(zip(self.theta_unseen, self.w_unseen, strict=True)):
            left = left_map(self.whitening, len(of_theta) > r * r, self.units[i])
            relative = np.linalg.solve(left, rows[i, : len(left)] / spread)
            flat = relative.ravel()
            seen = left @ (flat - of_theta @ (of_theta.T @ flat)).reshape(relative.shape) * spread
            theta[i, :r, :r], columns = seen[:r], here.w[i, :r] / spread[:, None]
            w[i, :r] = spread[:, None] * (columns - of_w @ (of_w.T @ columns))
            if key_bias is not None and len(seen) > r:
                key_bias[i, :r] = seen[r]
        return self.whitening.back(AttentionLayer(theta, w, key_bias, here.bias, here.causal))

    def __str__(self) -> str:
        r, d = self.whitening.rank, len(self.whitening.mean)
        spread = self.whitening.spread
        lines = [
            f"The tokens span {r} of {d} directions; along these, their spread is {spread[0]:.3g} to {spread[-1]:.3g}."
        ]
        for i, (theta, w) in enumerate(zip(self.theta, self.w, strict=True)):
            bounds = [self.theta_error[i], self.key_bias_error[i]][: 1 + any(self.key_bias_error)]
            lines.append(
                f"Head {i}: {theta} of {self.free[i]} directions of Theta and c are locally determined"
                + (f", to a relative error of {_listed(bounds)}" if theta else "")
                + f"; {w} of {r} of W"
                + (f", to {_listed([self.w_error[i]])}." if w else ".")
            )
        for name, values in (("Theta and c", self.theta_values), ("W and b", self.w_values)):
            lines.append(f"Singular values for {name}: {abs(values[0]):.3g} to {abs(values[-1]):.3g}.")
        lines.append(f"Rounding of the outputs: {self.rounding:.3g}.")
        if not self.determined:
            lines.append("Changes along the other directions are lost in rounding on these tokens.")
            if self.free == [len(unseen) for unseen in self.theta_unseen]:
                lines.append("If heads have a lower rank, more directions may be determined.")
        return "\n".join(lines)


_FIRST_ORDER = 0.3
"""Errors of a head above this, relative to it or on its logits, are beyond first order."""
_FLAT = 10
"""A null space is flat if a step of the size of the layer changes outputs by this many times what is determined."""


@checked
def certify_layer(
    layer: AttentionLayer,
    x: Float[np.ndarray, "n k d"],
    *,
    y: Float[np.ndarray, "n k d"] | None = None,
    rank: PositiveInt | None = None,
    tolerance: PositiveFloat = 1e-2,
) -> LayerCertificate:
    """Which directions of the parameters of `layer` its outputs on the tokens `x` determine, and to what error.

    Parameters
    ----------
    layer : AttentionLayer
        The layer at which the derivative is taken, such as one that was learned. If it has biases, these are unknown.
    x : array (n, k, d)
        Tokens.
    y : array (n, k, d), optional
        The labels to which the layer was fitted. Their difference from the outputs is then part of the error, and
        numbers of float32 have the rounding of float32.
    rank : int, optional
        The rank q of every Theta_i, if it is known to be low, as in `Newton`. Fewer examples then determine Theta_i
        and c_i.
    tolerance : float
        A direction is determined if rounding of the outputs moves it by less than this share of the head, and logits by
        less than this.

    Raises
    ------
    ValueError
        If shapes do not match, or all tokens are equal.
    NotEnoughMemoryError
        If the square matrix of m r e unknowns does not fit.

    Notes
    -----
    Derived here. F is linear in the W_i and b: F = Z W with Z = [P_1 X ... P_m X 1]. To first order, a change of
    Theta_i moves F_a by x_a dTheta_i M_a with M_a = sum_b P_ab (x_b - mean) V_b across the pattern, V = X W_i. The part
    that a change of W and b can undo is taken off by an orthonormal basis of the range of Z.

    *Determined.* Let the outputs have errors of the root mean square s. A direction of singular value v then moves by
    at most s / v. It is determined if this is below the tolerance for s = eps (16 + l) |F|, with l the largest logit
    and |F| the sum over heads of the sizes of their outputs. That is the information of the examples in floating-point
    arithmetic, and not a comparison of singular values with one another.

    *Error bars.* For a fit, s is this rounding and the size of y - F(X). All errors of this size move Theta_i, on its
    determined directions, by at most s times the Frobenius norm of its block of the pseudo-inverse; the same for c_i
    and W_i. The bounds are of first order, and hold for whatever errors of the labels, also for noise.

    *Locally.* Other layers may have the same outputs on all such tokens, away from this one. With two tokens,
    heads whose W_i sum to zero may change the signs of their Theta_i and c_i together. On one-hot tokens, heads with
    equal W_i may exchange single entries of their Theta_i.

    Products of derivatives are formed in whitened coordinates, in which singular values below 1e-7 of the derivative
    without the change of W are rounding, and count as zero.

    With a known rank q, [Theta_i; c_i^T] is a matrix of rank q, and changes along the manifold of these matrices:
    U U^T D + D V V^T - U U^T D V V^T for its singular vectors U and V. A head of lower rank than q is at no smooth
    point of the manifold, and all its directions count, as without a rank. The W_i are free in both cases, so a
    known rank of the W_i may determine more than the certificate says, never less.

    Time
    O(n k (m r)^2 (e^2 + e d)) + O((m r e)^3), and n k m r (d + m r) + 4 (m r e)^2 numbers.

    Examples
    --------
    >>> from attention import make_nice_layer
    >>> x = np.random.default_rng(0).standard_normal((200, 3, 4))
    >>> x[:, :, 3] = x[:, :, 0]
    >>> certificate = certify_layer(make_nice_layer(heads=1, dim=4, rng=1), x)
    >>> certificate.whitening.rank, certificate.theta, certificate.w
    (3, [9], [3])
    >>> certificate.theta_error[0] < 1e-12
    True
    """
    if layer.dim != x.shape[2]:
        raise ValueError(f"x has {x.shape[2]} coordinates: {layer.dim}, those of the layer, are needed.")
    if y is not None and y.shape != x.shape:
        raise ValueError(f"y has the shape {y.shape}: {x.shape}, that of x, is needed.")
    rules = Rounding(eps=_eps(y))
    at = Derivative.of(layer, x, rank, whitening_of(x, centred=layer.biased), rules)
    least, error = at.rounding / tolerance, at.rounding
    if y is not None:
        error += float(np.linalg.norm(layer(x) - y)) / np.sqrt(x.shape[0] * x.shape[1])
    null, w_null = at.null_space(least)
    errors = error * at.inverse_norms(least)
    errors[:2, np.hypot(*errors[:2]) > _FIRST_ORDER] = np.inf
    errors[:2] /= at.reach
    here, z = at.whitening.into(layer), at.whitening(x)
    outputs = here(z)
    for move in null_moves(at, np.random.default_rng(0)):
        with np.errstate(over="ignore", invalid="ignore"):
            change = np.linalg.norm(moved(here, move, 1.0)(z) - outputs) / np.sqrt(outputs[..., 0].size)
        if not change <= _FLAT * least:
            errors[:] = np.inf
    # the W that undo what changes of the Theta do to the outputs are not determined either
    w_null = np.hstack([w_null, at.undoing(null, least).reshape(len(w_null), -1)])
    r, m = at.whitening.rank, layer.heads
    unseen = (
        [span_of(change, rules.part) for change in at.by_head(null)],
        [span_of(w_null[i * r : (i + 1) * r], rules.part) for i in range(m)],
    )
    free = [directions.shape[1] for directions in at.relative]
    both = slice(0, 1 + layer.biased)
    for bounds, directions, numbers in zip((errors[both], errors[2]), unseen, (free, [r] * m), strict=True):
        bounds[..., [space.shape[1] for space in directions] == np.array(numbers)] = np.inf
    certificate = LayerCertificate(
        whitening=at.whitening,
        free=free,
        theta_values=at.values,
        w_values=at.w_values,
        theta_unseen=unseen[0],
        w_unseen=unseen[1],
        theta_error=[],
        key_bias_error=errors[1].tolist(),
        w_error=[],
        rounding=at.rounding,
        tolerance=tolerance,
        units=at.units,
    )
    # relative to what is determined: the rest may be far larger
    seen = certificate.project(layer)
    for bounds, units, parts in ((errors[0], at.units[:, 0], seen.theta), (errors[2], at.w_units, seen.w)):
        size = np.linalg.norm(parts, axis=(1, 2))
        bounds[size == 0] = np.inf
        bounds[size > 0] *= (units / np.where(size > 0, size, 1.0))[size > 0]
    return replace(certificate, theta_error=errors[0].tolist(), w_error=errors[2].tolist())


def _listed(bounds: list[float]) -> str:
    return " and ".join(f"{bound:.1g}" if np.isfinite(bound) else "no known bound" for bound in bounds)


def _eps(y: Float[np.ndarray, "n k d"] | None) -> float:
    with np.errstate(over="ignore"):
        single = y is not None and bool((y == y.astype(np.float32)).all())
    return float(np.finfo(np.float32 if single else np.float64).eps)
