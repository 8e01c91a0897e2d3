"""A certificate: which directions of the parameters of a layer do examples determine, head by head, and how well?"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from attention import AttentionLayer
from attention.layer import read_tokens
from attention.memory import require_memory
from attention.validation import PositiveFloat, PositiveInt, checked
from upper.newton.whitening import Whitening, whitening_of

__all__ = ["LayerCertificate", "certify_layer", "determines_other_inputs"]

# Examples whose derivatives are held at once.
_AT_ONCE = 128
# Singular values of a head above this share of its largest make its rank.
_RANK_SHARE = 1e-9
# Singular values below these shares, of the derivative before the best change of W is taken off, and of the W_i and b,
# are rounding.
_ROUNDED, _CANCELLED = 1e-7, 1e-13
# A head takes part in an unseen direction if its share of the unit vector is above this.
_TAKES_PART = 1e-3
# Outputs are taken to carry so many roundings, and one more for each unit of the largest logit.
_EPS, _ROUNDINGS = float(np.finfo(np.float64).eps), 16
# Directions that rounding moves by less than this share of a head are determined.
_TOLERANCE = 1e-2
# Errors of a head above this, relative to it or on its logits, are beyond first order.
_FIRST_ORDER = 0.3
# A null space is flat if a step of the size of the layer changes outputs by this many times what is determined.
_FLAT = 10
# If fewer examples than this tell about an entry of Theta, there may be others that none tells about.
_FEW_EXAMPLES = 8
# A null space is looked for among at most this many entries of Theta and c, which takes a second or two.
_MOST_SEARCHED = 1024
# The layer is moved along so many directions, by steps relative to its size. At least so many recombined inputs see a
# direction that examples do not if their outputs change by _SEEN times as much.
_MOVES, _RECOMBINED, _FOLDS, _SEEN = 4, 1000, 4, 1e6
_STEPS = [*0.5 ** np.arange(20), *0.1 ** np.arange(7, 13)]


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
        rows, spread = _stacked(here, r), self.whitening.spread
        for i, (of_theta, of_w) in enumerate(zip(self.theta_unseen, self.w_unseen, strict=True)):
            left = _left(self.whitening, len(of_theta) > r * r, self.units[i])
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


@checked
def certify_layer(
    layer: AttentionLayer,
    x: Float[np.ndarray, "n k d"],
    *,
    y: Float[np.ndarray, "n k d"] | None = None,
    rank: PositiveInt | None = None,
    tolerance: PositiveFloat = _TOLERANCE,
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
    at = _Derivative.of(layer, x, rank, whitening_of(x, centred=layer.biased), eps=_eps(y))
    least, error = at.rounding / tolerance, at.rounding
    if y is not None:
        error += float(np.linalg.norm(layer(x) - y)) / np.sqrt(x.shape[0] * x.shape[1])
    null, w_null = at.null_space(least)
    errors = error * at.inverse_norms(least)
    errors[:2, np.hypot(*errors[:2]) > _FIRST_ORDER] = np.inf
    errors[:2] /= at.reach
    here, z = at.whitening.into(layer), at.whitening(x)
    outputs = here(z)
    for move in _null_moves(at, np.random.default_rng(0)):
        with np.errstate(over="ignore", invalid="ignore"):
            change = np.linalg.norm(_moved(here, move, 1.0)(z) - outputs) / np.sqrt(outputs[..., 0].size)
        if not change <= _FLAT * least:
            errors[:] = np.inf
    # the W that undo what changes of the Theta do to the outputs are not determined either
    w_null = np.hstack([w_null, at.undoing(null, least).reshape(len(w_null), -1)])
    r, m = at.whitening.rank, layer.heads
    unseen = (
        [_range(one) for one in at.by_head(null)],
        [_range(w_null[i * r : (i + 1) * r]) for i in range(m)],
    )
    free = [one.shape[1] for one in at.relative]
    both = slice(0, 1 + layer.biased)
    for bounds, directions, numbers in zip((errors[both], errors[2]), unseen, (free, [r] * m), strict=True):
        bounds[..., [one.shape[1] == number for one, number in zip(directions, numbers, strict=True)]] = (
            np.inf
        )
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


def determines_other_inputs(
    layer: AttentionLayer,
    x: Float[np.ndarray, "n k d"],
    *,
    rank: int | None = None,
    rng: np.random.Generator,
) -> bool:
    """Whether the outputs of a layer on the tokens `x` settle those on other inputs, made of the same tokens.

    It is False if the layer can move without a change of its outputs on `x`, to a millionth of the change on recombined
    inputs, whose tokens each stand at their place in some input of `x`. It moves along random directions of the null
    space, by small and by large steps. Recombined inputs may not be of the distribution, as where a token determines
    another. So a quarter of `x` must also show a move that the rest does not, along directions that all of `x` or the
    rest leaves open. Directions that no input sees do no harm.

    Notes
    -----
    A null space that only few inputs see is not looked for where at least eight examples tell about every entry of
    Theta_i. Their number is the participation ratio of x_u^2 Var(x_v), with the variance under the pattern. With more
    than 1024 entries of Theta and c, random directions of single heads stand for the null space, as they are one if a
    head is saturated.
    """
    few = _told_by_few(layer, x)
    if not few.any():
        return True
    whitening, order = whitening_of(x, centred=layer.biased), rng.permutation(len(x))
    times = range(-(-_RECOMBINED // len(x)))
    recombined = [np.stack([rng.permutation(x[:, a]) for a in range(x.shape[1])], axis=1) for _ in times]
    pairs = [(x, np.concatenate(recombined), 1.0), (x, x, 1 - 1 / _FOLDS)]
    for fold in np.array_split(order, min(_FOLDS, len(x) // 2)):
        pairs.append((np.delete(x, fold, axis=0), x[fold], 1.0))
    seen = (_shows_more(layer, whitening, *pair, few, rank, rng) for pair in pairs)
    return not (next(seen) and any(seen))


def _shows_more(
    layer: AttentionLayer,
    whitening: Whitening,
    x: Float[np.ndarray, "n k d"],
    others: Float[np.ndarray, "p k d"],
    share: float,
    few: Bool[np.ndarray, " m"],
    rank: int | None,
    rng: np.random.Generator,
) -> bool:
    """Whether other inputs show a move of the layer that this share of the tokens `x` does not."""
    here, z, others = whitening.into(layer), whitening(x), whitening(others)
    rounding = _ROUNDINGS * _EPS * _sizes(here, z)
    for move in _moves(layer, x, whitening, few, rank, rng):
        for step in _STEPS:
            both = [_moved(here, move, sign * step) for sign in (1, -1)]
            with np.errstate(over="ignore", invalid="ignore"):
                changes, elsewhere = (
                    np.abs(both[0](one) - both[1](one)).max(axis=(1, 2)) for one in (z, others)
                )
            if elsewhere.max() > _SEEN * max(np.quantile(changes, share, method="higher"), rounding):
                return True
    return False


@dataclass(frozen=True, eq=False)
class _Derivative:
    """The derivative of the outputs in relative changes of the parameters, with the best change of W taken off.

    `relative` has, for each head, orthonormal relative changes of [Theta_i; c_i]. `whitened` has these changes over the
    `reach` max(1, L), in whitened coordinates. `vectors` are combinations of all these columns with the singular values
    `values`, descending. `w_into` maps relative changes of the W_i and b to whitened ones. `w_vectors` are relative
    changes of a column of these with the values `w_values`. `undone` is the derivative in whitened changes, (s, d, m e
    r), on a basis of the outputs that W gives, one for each of the `w_values` above rounding.
    """

    whitening: Whitening
    units: Float[np.ndarray, "m 2"]
    reach: Float[np.ndarray, " m"]
    rounding: float
    relative: list[np.ndarray]
    whitened: list[np.ndarray]
    values: Float[np.ndarray, " p"]
    vectors: Float[np.ndarray, "p p"]
    w_into: Float[np.ndarray, "c c"]
    w_values: Float[np.ndarray, " q"]
    w_vectors: Float[np.ndarray, "c q"]
    undone: Float[np.ndarray, "s d mer"]
    w_units: Float[np.ndarray, " m"]

    @classmethod
    def of(
        cls,
        layer: AttentionLayer,
        x: Float[np.ndarray, "n k d"],
        rank: int | None,
        whitening: Whitening,
        *,
        eps: float = _EPS,
    ) -> "_Derivative":
        biased, m, (n, k, d) = layer.biased, layer.heads, x.shape
        r = whitening.rank
        e = r + biased
        require_memory(
            f"A certificate of {m} heads on {r} directions of tokens",
            8 * (6 * (m * r * e) ** 2 + n * k * (m * r + 1) + _AT_ONCE * k * (m * r) * (m * r + d)),
            advice="certify fewer heads, or tokens cut to fewer coordinates",
        )
        here, z, spread = whitening.into(layer), whitening(x)[:, :, :r], whitening.spread
        rows = _stacked(here, r)
        pattern, reads = read_tokens(z, rows[:, :r], rows[:, r] if biased else None, causal=here.causal)
        size = _sizes(here, whitening(x))
        token = float(np.sqrt(np.sum(spread**2) + np.sum(whitening.mean**2)))
        units = _units(rows, whitening, token)
        # the reads in relative changes of the W_i and b
        w = here.w[:, :r] / spread[:, None]
        w_size = np.linalg.norm(w, axis=(1, 2))
        w_units = np.where(w_size > 0, w_size, w_size.max() or 1.0)
        w_into = np.diag(np.concatenate([np.outer(w_units, spread).ravel(), [size or 1.0] * biased]))
        if biased:
            reads = np.concatenate([reads, np.ones((n * k, 1))], axis=1)
            w_into[-1, :-1] = np.outer(w_units, whitening.basis.T @ whitening.mean).ravel()
        basis, w_values, w_vectors = np.linalg.svd(reads @ w_into / np.sqrt(n * k), full_matrices=False)
        logits = layer.logits(x)
        rounding = eps * (_ROUNDINGS + float(np.abs(logits).max())) * size
        reach = np.maximum(1.0, np.ptp(logits, axis=-1).max(axis=(0, 2)))
        basis = basis[:, w_values > rounding]
        whole, undone = _derivative(z, pattern, here.w[:, :r], basis, biased)
        least = max(_ROUNDED * np.sqrt(np.trace(whole)), _CANCELLED * size)
        gram = whole - undone.T @ undone
        relative, whitened, moves = [], [], []
        for head, unit, most in zip(rows, units, reach, strict=True):
            left = _left(whitening, biased, unit)
            free = _directions(np.linalg.solve(left, head / spread), rank)
            into = (left @ free.reshape(e, -1)).reshape(e, r, -1) * spread[:, None]
            relative.append(free)
            whitened.append(into.reshape(e * r, -1) / most)
            moves.append(np.linalg.qr(whitened[-1]))
        parts = range(0, m * e * r, e * r)
        gram = np.vstack([one.T @ gram[i : i + e * r] for (one, _), i in zip(moves, parts, strict=True)])
        gram = np.hstack([gram[:, i : i + e * r] @ one for (one, _), i in zip(moves, parts, strict=True)])
        values, vectors = np.linalg.eigh(gram)
        roots = np.sqrt(np.where(values > least**2, values, 0.0))
        heads = np.split(vectors, np.cumsum([one.shape[1] for one in relative])[:-1])
        root = np.hstack([one.T @ change for one, (_, change) in zip(heads, moves, strict=True)])
        values, vectors = np.linalg.svd(roots[:, None] * root)[1:]
        return cls(
            whitening, units, reach, rounding, relative, whitened, values, vectors.T,
            w_into, w_values, w_vectors.T, undone.reshape(-1, d, m * e * r), w_units,
        )  # fmt: skip

    def by_head(self, changes: Float[np.ndarray, "p u"]) -> list[np.ndarray]:
        """Combinations of the directions as relative changes of [Theta_i; c_i], for each head."""
        return [free @ one for free, one in zip(self.relative, self._split(changes), strict=True)]

    def null_space(self, least: float) -> tuple[Float[np.ndarray, "p u"], Float[np.ndarray, "c v"]]:
        """The directions with values of at most `least`, of the heads and of a column of the W_i and b."""
        seen = int(np.sum(self.w_values > least))
        return self.vectors[:, self.values <= least], np.linalg.svd(self.w_vectors[:, :seen].T)[2][seen:].T

    def undoing(self, changes: Float[np.ndarray, "p u"], least: float) -> Float[np.ndarray, "c d u"]:
        """The relative changes of the W_i and b that do to the outputs what changes of the heads do."""
        moved = self.in_whitened(changes)
        undone = self.undone[: np.sum(self.w_values > least)] @ moved
        into = self.w_vectors[:, : len(undone)] / self.w_values[: len(undone)]
        return np.tensordot(into, undone, 1)

    def in_whitened(self, changes: Float[np.ndarray, "p u"]) -> Float[np.ndarray, "mer u"]:
        """Combinations of the directions in whitened coordinates, heads first."""
        return np.vstack([into @ one for into, one in zip(self.whitened, self._split(changes), strict=True)])

    def inverse_norms(self, least: float) -> Float[np.ndarray, "3 m"]:
        """The norms of the blocks of the Theta_i, c_i and W_i in the pseudo-inverse of the derivative."""
        r, m = self.whitening.rank, len(self.relative)
        seen = self.values > least
        inverse = self.vectors[:, seen] / self.values[seen]
        heads = [(one[: r * r], one[r * r :]) for one in self.by_head(inverse)]
        w_seen = self.w_values > least
        straight = self.w_vectors[:, w_seen] / self.w_values[w_seen]
        squares = self.undone.shape[1] * np.sum(straight**2, axis=1)
        squares += np.sum(self.undoing(inverse, least) ** 2, axis=(1, 2))
        return np.array(
            [
                [np.linalg.norm(theta) for theta, _ in heads],
                [np.linalg.norm(key_bias) for _, key_bias in heads],
                np.sqrt(squares[: m * r].reshape(m, r).sum(axis=1)),
            ]
        )

    def _split(self, changes: np.ndarray) -> list[np.ndarray]:
        return np.split(changes, np.cumsum([one.shape[1] for one in self.relative])[:-1])


def _moves(
    layer: AttentionLayer,
    x: np.ndarray,
    whitening: Whitening,
    few: Bool[np.ndarray, " m"],
    rank: int | None,
    rng: np.random.Generator,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Changes of [Theta_i; c_i] and of the W_i and b, in whitened coordinates, that the outputs may not show."""
    m, r, d = layer.heads, whitening.rank, layer.dim
    e = r + layer.biased
    moves = []
    if m * e * r > _MOST_SEARCHED:
        rows = _stacked(whitening.into(layer), r)
        for i in np.flatnonzero(few):
            change = np.zeros_like(rows)
            change[i] = np.linalg.norm(rows[i]) / r * rng.standard_normal(rows[i].shape)
            moves.append((change, np.zeros((m * r + layer.biased, d))))
        return moves
    return _null_moves(_Derivative.of(layer, x, rank, whitening), rng)


def _null_moves(at: _Derivative, rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Random changes, as large as a layer, of [Theta_i; c_i] and of the W_i and b that are not determined; whitened."""
    null, w_null = at.null_space(at.rounding / _TOLERANCE)
    (m, r), d = (len(at.relative), at.whitening.rank), at.undone.shape[1]
    moves = []
    for _ in range(_MOVES if w_null.size else 0):
        w = w_null @ rng.standard_normal((w_null.shape[1], d)) / np.sqrt(w_null.size)
        moves.append((np.zeros((m, len(at.whitened[0]) // r, r)), at.w_into @ w))
    for _ in range(_MOVES if null.size else 0):
        change = null @ rng.standard_normal((null.shape[1], 1)) / np.sqrt(null.shape[1])
        undoing = at.undoing(change, at.rounding)[:, :, 0]
        move = at.in_whitened(change).reshape(m, -1, r), -(at.w_into @ undoing)
        moves.append((at.reach.max() * move[0], at.reach.max() * move[1]))
    return moves


def _moved(here: AttentionLayer, move: tuple[np.ndarray, np.ndarray], step: float) -> AttentionLayer:
    """A layer in whitened coordinates, moved."""
    rows, columns = (step * one for one in move)
    (m, _, r), d = rows.shape, here.dim
    theta = here.theta + np.pad(rows[:, :r], ((0, 0), (0, d - r), (0, d - r)))
    w = here.w + np.pad(columns[: m * r].reshape(m, r, d), ((0, 0), (0, d - r), (0, 0)))
    if here.key_bias is None or here.bias is None:
        return replace(here, theta=theta, w=w)
    key_bias = here.key_bias + np.pad(rows[:, r], ((0, 0), (0, d - r)))
    return AttentionLayer(theta, w, key_bias, here.bias + columns[-1], here.causal)


def _told_by_few(layer: AttentionLayer, x: Float[np.ndarray, "n k d"]) -> Bool[np.ndarray, " m"]:
    """Whether few examples tell about some entry of Theta_i or c_i, for each head."""
    (n, k, d), m = x.shape, layer.heads
    total, squares, uniform = np.zeros((d + 1, m, d)), np.zeros((d + 1, m, d)), np.zeros((d + 1, 1, d))
    for first in range(0, n, _AT_ONCE):
        tokens = x[first : first + _AT_ONCE]
        pattern, reads = read_tokens(tokens, layer.theta, layer.key_bias, causal=layer.causal)
        square = tokens * tokens
        spread = (pattern.reshape(-1, k * m, k) @ square).reshape(reads.shape) - reads * reads
        least = 1e-12 * square.max(axis=(0, 1))
        spread = np.where(spread > np.tile(least, m), spread, 0.0).reshape(-1, k, m * d)
        left = np.concatenate([square, np.full((*square.shape[:2], 1), float(layer.biased))], axis=2)
        left = left.transpose(0, 2, 1)
        told = (left @ spread).reshape(-1, d + 1, m, d)
        total += told.sum(axis=0)
        squares += np.einsum("nemd,nemd->emd", told, told)
        uniform[:, 0] += np.einsum("nek,nd->ed", left, tokens.var(axis=1))
    return np.any((uniform > 0) & (total**2 <= _FEW_EXAMPLES * squares), axis=(0, 2))


def _stacked(here: AttentionLayer, r: int) -> Float[np.ndarray, "m e r"]:
    """The first r rows and columns of the Theta_i, with c_i as a last row if the layer has biases."""
    if here.key_bias is None:
        return here.theta[:, :r, :r]
    return np.concatenate([here.theta[:, :r, :r], here.key_bias[:, None, :r]], axis=1)


def _left(whitening: Whitening, biased: bool, unit: Float[np.ndarray, " 2"]) -> Float[np.ndarray, "e e"]:
    """The matrix A with A H diag(spread) = [Theta'; c'] in whitened coordinates, for relative H = [Theta; c]."""
    left = np.diag(np.append(unit[0] * whitening.spread, [unit[1]] * biased))
    if biased:
        left[-1, :-1] = unit[0] * (whitening.mean @ whitening.basis)
    return left


def _units(rows: Float[np.ndarray, "m e r"], whitening: Whitening, token: float) -> Float[np.ndarray, "m 2"]:
    r = whitening.rank
    units = np.ones((len(rows), 2))
    for head, unit in zip(rows, units, strict=True):
        matrix = np.linalg.solve(_left(whitening, len(head) > r, unit), head / whitening.spread)
        unit[0] = np.linalg.norm(matrix[:r]) or 1 / token**2
        unit[1] = max(float(np.linalg.norm(matrix[r:])), unit[0] * token)
    return units


def _sizes(layer: AttentionLayer, x: Float[np.ndarray, "n k d"]) -> float:
    """The sum over heads of the root mean square of their outputs on a token, and the size of b."""
    reads = read_tokens(x, layer.theta, layer.key_bias, causal=layer.causal)[1].reshape(
        -1, layer.heads, 1, layer.dim
    )
    size = np.sqrt(np.sum((reads @ layer.w) ** 2, axis=(2, 3)).mean(axis=0)).sum()
    return float(size + (0.0 if layer.bias is None else np.linalg.norm(layer.bias)))


def _listed(bounds: list[float]) -> str:
    return " and ".join(f"{bound:.1g}" if np.isfinite(bound) else "no known bound" for bound in bounds)


def _eps(y: Float[np.ndarray, "n k d"] | None) -> float:
    with np.errstate(over="ignore"):
        single = y is not None and bool((y == y.astype(np.float32)).all())
    return float(np.finfo(np.float32 if single else np.float64).eps)


def _derivative(
    z: Float[np.ndarray, "n k r"],
    pattern: Float[np.ndarray, "n k m k"],
    w: Float[np.ndarray, "m r d"],
    basis: Float[np.ndarray, "rows q"],
    biased: bool,
) -> tuple[Float[np.ndarray, "mer mer"], Float[np.ndarray, "qd mer"]]:
    """J^T J and Q^T J, J the derivative of the outputs in (Theta_i, c_i) over the root of their number, heads first.

    Q is the basis.
    """
    (n, k, r), (m, _, d), q = z.shape, w.shape, basis.shape[1]
    e = r + biased
    whole = np.zeros((e * e, (m * r) ** 2))
    seen = np.zeros((q * e, m * r * d))
    for first in range(0, n, _AT_ONCE):
        few = slice(first, first + _AT_ONCE)
        tokens, p = z[few], pattern[few]
        values = np.einsum("nbr,mrd->nmbd", tokens, w)
        own = np.einsum("namb,nbr->namr", p, tokens)
        by_head = p.transpose(0, 2, 1, 3)  # (n, m, k, k)
        mean = by_head @ values
        # sum_b P_ab z_bq V_bo, and the product of the means taken off
        product = np.einsum("nbr,nmbd->nmbrd", tokens, values).reshape(len(tokens), m, k, r * d)
        moved = (by_head @ product).reshape(len(tokens), m, k, r, d)
        moved -= own.transpose(0, 2, 1, 3)[..., None] * mean[..., None, :]
        moved = moved.transpose(0, 2, 1, 3, 4).reshape(-1, m * r, d)
        left = tokens.reshape(-1, r)
        left = np.pad(left, ((0, 0), (0, 1)), constant_values=1.0) if biased else left
        inner = (moved @ moved.transpose(0, 2, 1)).reshape(len(left), -1)
        whole += (left[:, :, None] * left[:, None, :]).reshape(len(left), -1).T @ inner
        rows = basis[first * k : first * k + len(left)]
        seen += (rows[:, :, None] * left[:, None, :]).reshape(len(left), -1).T @ moved.reshape(len(left), -1)
    size = m * e * r
    gram = whole.reshape(e, e, m, r, m, r).transpose(2, 0, 3, 4, 1, 5).reshape(size, size)
    seen = seen.reshape(q, e, m, r, d).transpose(0, 4, 2, 1, 3).reshape(q * d, size)
    return gram / (n * k), seen / np.sqrt(n * k)


def _directions(matrix: Float[np.ndarray, "e r"], rank: int | None) -> Float[np.ndarray, "er free"]:
    """Orthonormal directions in which a matrix can change among those of its rank; all if it has another rank."""
    left, values, right = np.linalg.svd(matrix)
    if rank is None or rank >= len(right) or np.sum(values > _RANK_SHARE * values[0]) != rank:
        return np.eye(matrix.size)
    along = np.ones((len(left), len(right)), dtype=bool)
    along[rank:, rank:] = False
    return np.kron(left, right.T)[:, along.ravel()]


def _range(block: Float[np.ndarray, "p u"]) -> Float[np.ndarray, "p v"]:
    """Orthonormal directions that the columns of a block of a null space span."""
    left, values, _ = np.linalg.svd(block, full_matrices=False)
    return left[:, values > _TAKES_PART]
