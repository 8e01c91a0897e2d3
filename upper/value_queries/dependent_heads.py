"""Heads whose outputs or slopes are dependent, which no pencil separates: their sigmoids fitted together."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import scipy
from jaxtyping import Bool, Float

from attention import AttentionLayer, Recorder
from upper.value_queries.logits import Parameters
from upper.value_queries.queries import Tolerances, TwoTokens, orthonormal

MOST_DEPENDENT = 8
"""So many heads are looked for at most: random starts that reach all of more heads become rare."""


@dataclass(frozen=True)
class _Search:
    """How heads are looked for at the first difference, and how they are followed from there."""

    #: random starts for each number of heads, double as many in every round. Of 224 layers of 3 and 4 heads the
    #: hardest took 140 starts of both numbers together
    rounds: int = 7
    few_rounds: int = 4  #: where outputs span the space, as those of many heads do that no fit explains
    evaluations: int = 80  #: of the network, in one fit
    distinct: float = 1e-6  #: two sigmoids, and one without output, are no separate heads below this share
    spare: int = 4  #: points beyond the d that show all entries of u_i
    change: float = 0.25  #: of delta, relative to its length; halved where a fit ends elsewhere
    halvings: int = 6


_BY = _Search()


@dataclass(frozen=True)
class FreeSigns:
    """The sets of heads whose signs queries of two tokens leave open.

    The heads (Theta_i, c_i, W_i) of such a set can all be replaced by (-Theta_i, -c_i, -W_i).
    """

    sets: tuple[tuple[int, ...], ...]  #: of indices of heads; empty if all signs are determined
    #: whether a head attends to all tokens alike; it takes the difference, so every other head is a set of its own
    uniform: bool


def free_signs(layer: AttentionLayer, zero: float = Tolerances.sums) -> FreeSigns | None:
    """Which signs of a layer two tokens do not determine.

    Sums of projections are zero below a share `zero` of the largest. All sets of heads are tried if projections are
    dependent, O(2^m); None if these are more than 2^16.
    """
    theta = layer.theta if layer.key_bias is None else np.dstack([layer.theta, layer.key_bias])
    sizes = np.linalg.norm(theta, axis=(1, 2))
    alike = sizes <= zero * sizes.max(initial=0)
    if alike.any():
        return FreeSigns(tuple((int(i),) for i in np.flatnonzero(~alike)), True)
    flat = layer.w.reshape(layer.heads, -1)
    flat = flat / np.linalg.norm(flat, axis=1).max()
    if np.linalg.matrix_rank(flat, tol=zero) == layer.heads:
        return FreeSigns((), False)
    if layer.heads > 16:
        return None
    free = (chosen for chosen, total in _sums(flat) if np.linalg.norm(total) <= zero)
    return FreeSigns(tuple(tuple(np.flatnonzero(chosen).tolist()) for chosen in free if chosen.any()), False)


@dataclass(frozen=True)
class _Network:
    """The values of g for one difference, in coordinates of their span."""

    inner: Float[np.ndarray, "n e"]  #: points x, with a 1 for the offset beta
    shift: Float[np.ndarray, " n"]  #: the logarithm of the ratio of copies
    values: Float[np.ndarray, "n r"]
    #: v_1 + ... + v_m, the value where all sigmoids are 1; None of two tokens, whose signs are free
    total: Float[np.ndarray, " r"] | None
    span: Float[np.ndarray, "r d"]


@dataclass(frozen=True)
class _Fitted:
    """Sigmoids of a network, and what they add to the output."""

    slopes: Float[np.ndarray, "m e"]  #: u_i and beta_i
    values: Float[np.ndarray, "m d"]  #: v_i
    constant: Float[np.ndarray, " d"]  #: of two tokens: what the signs of the sigmoids leave over
    residual: float  #: root mean square, relative to the values

    def distinct(self, signs_free: bool) -> bool:
        """Whether no two sigmoids are one, or opposite where signs are free; none of these is a constant."""
        lengths = np.linalg.norm(self.slopes, axis=1)
        if signs_free and np.linalg.norm(self.slopes[:, :-1], axis=1).min() <= _BY.distinct * lengths.max():
            return False
        return all(
            np.linalg.norm(self.slopes[i] - sign * self.slopes[j]) > _BY.distinct * (lengths[i] + lengths[j])
            for i, j in combinations(range(len(lengths)), 2)
            for sign in ((1, -1) if signs_free else (1,))
        )


def dependent_heads(
    pairs: TwoTokens, rank: int, heads: int | None, rng: np.random.Generator, recorder: Recorder
) -> Parameters | None:
    """All heads of a layer of a few heads, however their projections and slopes depend on each other.

    Parameters
    ----------
    pairs : TwoTokens
        Queries of two tokens.
    rank : int
        The rank of their values.
    heads : int or None
        The number of heads, if it is known.

    Returns
    -------
    Parameters or None
        None if no fit reaches the precision of the answers.

    Notes
    -----
    Derived here. For one difference delta of the tokens x and x - delta, and k - 1 copies of x, the sigmoids
    sigma(u_i . x + beta_i + ln(k - 1)) are linearly independent, whatever the v_i are; so the v_i are linear in the
    values once the u_i and beta_i are known. Levenberg-Marquardt from random starts finds these, without a guarantee.
    A residual of rounding size shows that it did. Other differences, delta + s q_j, start from there. As
    u_i = Theta_i delta, beta_i = c_i . delta and v_i = delta W_i, d of them give all parameters.

    With more than two tokens the copies tell u_i from -u_i: sigma(-z + ln 2) is no multiple of sigma(z + ln 2) and 1.
    With two, signs are free, and a constant is left over: a sum of v_i over the heads whose sign is wrong, or half of
    what a head adds that attends to all tokens alike.

    About d (d + m d / (2 rank)) queries; O(n m^2 d^2) for n rows in each step of a fit.
    """
    first = _first(pairs, rank, heads, rng)
    if first is None:
        return None
    delta, fit = first
    recorder.step("Heads fitted together", heads=len(fit.values), residual=fit.residual)
    followed = _followed(pairs, rank, delta, fit, rng)
    if followed is None:
        return None
    parameters, constant = followed
    recorder.step("Projections", heads=len(parameters.w))
    return _signed(parameters, constant, pairs.tolerances.sums) if pairs.oracle.tokens == 2 else parameters


def _first(
    pairs: TwoTokens, rank: int, heads: int | None, rng: np.random.Generator
) -> tuple[Float[np.ndarray, " d"], _Fitted] | None:
    """A difference, and the sigmoids there. Few heads go first: more fit the same values in many ways."""
    d = pairs.oracle.dim
    # of two tokens a head that attends to all alike is a constant
    least = rank if pairs.oracle.tokens != 2 else max(rank - 1, 1)
    most = (
        rank if rank == d else max(rank, min(rank + 2, MOST_DEPENDENT))
    )  # more than d heads are not looked for
    numbers = [heads] if heads else range(least, most + 1)
    delta = pairs.scale * orthonormal(rng, 1, d)[0]
    points, exact = _points(pairs, max(numbers), rank, rng), pairs.tolerances.residual
    networks = _networks(pairs, points, delta, rank, both=True)
    for round_ in range(_BY.rounds if rank < d else _BY.few_rounds):
        for more, m in enumerate(numbers):
            for _ in range(2**round_ if more <= round_ else 0):
                # logits of the spread of those at the scale
                start = rng.standard_normal((m, d + 1)) / (1.5 * pairs.scale)
                start[:, -1] *= pairs.scale / 2
                fit = _fit(networks, start)
                needed = _needed(fit, networks)
                if heads is None and fit.residual < exact and needed.any() and not needed.all():
                    fit = _fit(networks, fit.slopes[needed])
                    needed = _needed(fit, networks)
                if fit.residual < exact and needed.all() and fit.distinct(networks.total is None):
                    return delta, fit
    return None


def _needed(fit: _Fitted, network: _Network) -> Bool[np.ndarray, " m"]:
    """Which sigmoids add to the values, and bend at some point: one that does not is a constant."""
    sizes = np.linalg.norm(fit.values, axis=1)
    at = scipy.special.expit(network.inner @ fit.slopes.T + network.shift[:, None])
    bends = (at * (1 - at)).max(axis=0) > _BY.distinct
    return (sizes > _BY.distinct * sizes.max()) & bends


def _followed(
    pairs: TwoTokens, rank: int, delta: np.ndarray, first: _Fitted, rng: np.random.Generator
) -> tuple[Parameters, Float[np.ndarray, "d d"]] | None:
    """The parameters, and the constant that is left over as a function of delta, from d more differences."""
    m, d = first.values.shape
    directions = orthonormal(rng, d, d)
    points, exact = _points(pairs, m, rank, rng), pairs.tolerances.residual
    slopes, values, constants = np.empty((d, m, d + 1)), np.empty((d, m, d)), np.empty((d, d))
    for j, direction in enumerate(directions):
        longest = change = _BY.change * pairs.scale
        asked = [_networks(pairs, points, delta + change * direction, rank, both=False)]
        while (
            fit := _in_order(_fit(asked[-1], first.slopes), first, asked[-1].total is None)
        ).residual > exact:
            if len(asked) == _BY.halvings:
                return None
            change /= 2
            asked.append(_networks(pairs, points, delta + change * direction, rank, both=False))
        # slopes are linear in delta: those at the longest change are known now, where errors count least
        again = _fit(asked[0], first.slopes + longest / change * (fit.slopes - first.slopes))
        if again.residual <= exact:
            fit, change = again, longest
        slopes[j], values[j] = (fit.slopes - first.slopes) / change, (fit.values - first.values) / change
        constants[j] = (fit.constant - first.constant) / change
    slopes, values = (np.einsum("jme,jd->mde", array, directions) for array in (slopes, values))
    # u_i = Theta_i delta: the slopes are columns of Theta_i
    theta, key_bias = np.swapaxes(slopes[:, :, :d], 1, 2), slopes[:, :, d]
    return Parameters(theta, values, key_bias, pairs.linear.bias), directions.T @ constants


def _signed(found: Parameters, constant: Float[np.ndarray, "d d"], zero: float) -> Parameters:
    """Heads with signs for which no constant is left over, or with a head that attends to all tokens alike.

    As sigma(z) v = v - sigma(-z) v, the wrong signs S leave the sum of their v_i over. A head that attends to two
    tokens alike adds half of its output.
    """
    size = np.linalg.norm(found.w, axis=(1, 2)).max()
    for wrong, total in _sums(found.w):
        if np.linalg.norm(total + constant) <= zero * size:
            sign = np.where(wrong, -1.0, 1.0)
            theta, w = (sign[:, None, None] * array for array in (found.theta, found.w))
            return Parameters(theta, w, sign[:, None] * found.key_bias, found.bias)
    none = np.zeros_like(constant)
    return Parameters(
        np.concatenate([found.theta, none[None]]),
        np.concatenate([found.w, 2 * constant[None]]),
        np.concatenate([found.key_bias, none[:1]]),
        found.bias,
    )


def _sums(arrays: Float[np.ndarray, "m *d"]) -> Iterator[tuple[Bool[np.ndarray, " m"], np.ndarray]]:
    """Every set of heads, with the sum of its arrays; the smallest sets first."""
    m = len(arrays)
    for size in range(m + 1):
        for members in combinations(range(m), size):
            chosen = np.isin(np.arange(m), members)
            yield chosen, arrays[chosen].sum(axis=0)


def _points(pairs: TwoTokens, m: int, rank: int, rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
    """Points that span the space, with more numbers in their values than the sigmoids have unknowns."""
    d = pairs.oracle.dim
    n = d + _BY.spare + m * (d + 1) // (2 * rank)
    return 2 * pairs.scale / np.sqrt(d) * rng.standard_normal((n, d))


def _networks(
    pairs: TwoTokens, x: Float[np.ndarray, "n d"], delta: Float[np.ndarray, " d"], rank: int, *, both: bool
) -> _Network:
    """The values at x and at x - delta; with `both` also those of queries with the numbers of copies exchanged."""
    k = pairs.oracle.tokens or 3
    other = x - delta
    rest = pairs.linear.bias + other @ pairs.linear.projection_sum
    points, shifts, values = [], [], []
    for copies in (k - 1, 1) if both and k > 2 else (k - 1,):
        answers = pairs.ask(np.stack([x, other], axis=1).repeat([copies, k - copies], axis=1))
        points += [x, other]
        shifts.append(np.full(2 * len(x), np.log(copies / (k - copies))))
        values += [answers[:, 0] - rest, answers[:, -1] - rest]
    at, g = np.concatenate(points), np.concatenate(values)
    span = np.linalg.svd(g, full_matrices=False)[2][:rank]
    total = span @ (delta @ pairs.linear.projection_sum) if k > 2 else None
    return _Network(
        np.concatenate([at, np.ones((len(at), 1))], axis=1), np.concatenate(shifts), g @ span.T, total, span
    )


def _fit(network: _Network, start: Float[np.ndarray, "m e"]) -> _Fitted:
    """Least squares on u_i and beta_i; the v_i, in which the values are linear, are eliminated."""
    shape, total = start.shape, network.total
    two = total is None
    values = network.values if total is None else np.concatenate([network.values, total[None]])
    size = float(np.sqrt(np.sum(values**2)))

    def sigmoids(unknowns: np.ndarray) -> np.ndarray:
        """A column for each head. Two tokens have a column of ones; others a row in which all sigmoids are 1."""
        columns = scipy.special.expit(network.inner @ unknowns.reshape(shape).T + network.shift[:, None])
        beside = np.ones((len(columns), 1)) if two else np.ones((1, shape[0]))
        return np.concatenate([columns, beside], axis=1 if two else 0)

    def residual(unknowns: np.ndarray) -> np.ndarray:
        q = np.linalg.qr(sigmoids(unknowns))[0]
        return ((values - q @ (q.T @ values)) / size).ravel()

    def jacobian(unknowns: np.ndarray) -> np.ndarray:
        columns = sigmoids(unknowns)
        q, v = np.linalg.qr(columns)[0], np.linalg.lstsq(columns, values, rcond=None)[0]
        slopes = (columns * (1 - columns))[: len(network.inner), : shape[0]]
        moves = np.zeros((shape[0], len(values), shape[1]))
        moves[:, : len(slopes)] = slopes.T[:, :, None] * network.inner
        moves -= q @ (q.T @ moves)
        by = moves[:, :, None, :] * (v[: shape[0]] / size)[:, None, :, None]
        return -np.moveaxis(by, 0, 2).reshape(values.size, -1)

    solved = scipy.optimize.least_squares(
        residual,
        start.ravel(),
        jacobian,
        method="lm",
        max_nfev=_BY.evaluations,
        xtol=1e-15,
        ftol=1e-15,
        gtol=1e-15,
    )
    v = np.linalg.lstsq(sigmoids(solved.x), values, rcond=None)[0] @ network.span
    constant = v[-1] if two else np.zeros(v.shape[1])
    return _Fitted(solved.x.reshape(shape), v[: shape[0]], constant, float(np.sqrt(2 * solved.cost)))


def _in_order(fit: _Fitted, first: _Fitted, signs_free: bool) -> _Fitted:
    """The heads in the order, and with the signs, of those they have changed the least from."""

    def far(sign: int) -> np.ndarray:
        return sum(
            np.linalg.norm(sign * new[None] - old[:, None], axis=2) / np.linalg.norm(old)
            for new, old in ((fit.slopes, first.slopes), (fit.values, first.values))
        )

    same, opposite = far(1), far(-1) if signs_free else np.full((len(fit.values), 1), np.inf)
    rows, order = scipy.optimize.linear_sum_assignment(np.minimum(same, opposite))
    turned = same[rows, order] > np.broadcast_to(opposite, same.shape)[rows, order]
    signs = np.where(turned, -1.0, 1.0)[:, None]
    slopes, values = fit.slopes[order], fit.values[order]
    # sigma(z) v = v - sigma(-z) v
    constant = fit.constant + values[turned].sum(axis=0)
    return _Fitted(signs * slopes, signs * values, constant, fit.residual)
