"""The heads at one token, by a matrix pencil over rows, and a fit of each to rounding.

Derived here. At equal tokens y, dF_s/dx_t = sum_i w_i(s, t) W_i with w_i(s, t) = e^(l_i(s - t)) / Z_i(s): the move of a
query changes no output, as all outputs are equal. So two rows, as matrices of distances by outputs, differ head by head
by Z_i(s) / Z_i(s') only, and the eigenvectors of their pencil are the p_i with p_i . (delta W_k) = [i = k]. A finite
move tau delta of token t has in row s != t the weight e^(l_i + tau g_i) / (Z_i - e^(l_i) + e^(l_i + tau g_i)), with
l_i and g_i at the distance s - t: a fit of l_i, g_i and p_i to many rows takes the error of differences away.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.optimize import least_squares

from upper.rotary.moved_token import ERRORS, EqualTokens
from upper.value_queries.queries import orthonormal

# Equations of a fit for each unknown; all of them made fits of 16 heads take ten times as long, to the same digits.
_EQUATIONS = 8
# Right fits, of heads and of slopes, take 5 to 20 iterations; random combinations of rows, of which the best is taken.
ITERATIONS, _PENCILS = 50, 24


@dataclass(frozen=True)
class Heads:
    """The weights of all heads at one token."""

    token: Float[np.ndarray, " d"]
    weights: Float[np.ndarray, "m k"]  #: e^(l_i(j)) at the distances j = 0, 1, ..., relative to that at 0
    sums: Float[np.ndarray, "m k"]  #: Z_i of each row
    residual: float  #: of the worst head


def separate_heads(
    equal: EqualTokens, heads: int, length: float, steps: int, rng: np.random.Generator
) -> Heads | None:
    """The heads at a random token of this length, from sequences of 2 m + 8 tokens and so many moves of each.

    None where the pencil or a fit does not separate them.
    """
    n = 2 * heads + 8
    y, delta = length * orthonormal(rng, 2, equal.oracle.dim)
    half = 2 * equal.design.step * np.linspace(0.25, 1.0, steps // 2)
    tau = np.concatenate([-half[::-1], half])
    places = np.repeat(np.arange(n), steps)
    answers = equal.moved(y, np.tile(tau, n)[:, None] * delta, places, n)
    values = answers.reshape(n, steps, n, -1) / tau[:, None, None]
    space = np.linalg.svd(values.reshape(-1, values.shape[-1]), full_matrices=False)[2][:heads].T
    moved = _Moved(tau, values @ space, equal.attended(n))
    duals = _pencil(moved, delta @ equal.linear.projection_sum @ space, rng)
    if duals is None:
        return None
    fits = [_fit(moved, dual, rng) for dual in duals.T]
    noise = ERRORS * equal.error(y) / equal.design.step
    worst = max(fit.residual - noise * float(np.linalg.norm(fit.dual)) for fit in fits)
    if worst > equal.tolerance or np.linalg.cond([fit.dual for fit in fits]) > equal.tolerance**-0.5:
        return None
    scores = np.array([fit.scores for fit in fits])
    weights = np.where(moved.present, np.exp(scores), 0.0)
    sums = weights @ moved.distances_of_rows.T
    return Heads(y, weights[:, n - 1 :], sums, max(fit.residual for fit in fits))


@dataclass(frozen=True)
class _Moved:
    """Answers to moves of each token, over the move."""

    tau: Float[np.ndarray, " q"]
    values: Float[np.ndarray, "k q k m"]  #: of the moved token, the move and the row
    seen: Bool[np.ndarray, "k k"]

    @property
    def distances_of_rows(self) -> Bool[np.ndarray, "k j"]:
        """Which of the distances 1 - k, ..., k - 1 each row has."""
        n = len(self.seen)
        has = np.zeros((n, 2 * n - 1), dtype=bool)
        row, token = np.nonzero(self.seen)
        has[row, row - token + n - 1] = True
        return has

    @property
    def present(self) -> Bool[np.ndarray, " j"]:
        """Which distances there are."""
        return np.asarray(self.distances_of_rows.any(axis=0))

    @property
    def derivative(self) -> Float[np.ndarray, "k k m"]:
        """The values of a small move, by interpolation, of the moved token and the row."""
        others = [self.tau[self.tau != tau] for tau in self.tau]
        at_zero = [np.prod(rest / (rest - tau)) for tau, rest in zip(self.tau, others, strict=True)]
        return np.tensordot(at_zero, self.values, (0, 1))


def _pencil(
    moved: _Moved, total: Float[np.ndarray, " m"], rng: np.random.Generator
) -> Float[np.ndarray, "m m"] | None:
    """The vectors p_i, in columns, from the mean of the rows and the combination that separates best."""
    n, m = len(moved.seen), len(total)
    causal = not moved.seen.all()
    far = n // 2 if causal else n // 3
    rows = np.arange(far, n if causal else n - far)
    distances = np.arange(0 if causal else -far, far + 1)
    slices = moved.derivative[rows[:, None] - distances, rows[:, None]]
    mean = slices.mean(axis=0)
    size, parts = np.linalg.svd((slices - mean).reshape(len(rows), -1), full_matrices=False)[1:]
    many = min(int(np.sum(size > 1e-9 * size[0])), m)
    size, parts = size[:many], parts[:many].reshape(many, len(distances), m)
    best, widest = None, 0.0
    for power in (0.0, 0.5, 1.0):
        for mix in size**power * rng.standard_normal((_PENCILS, many)):
            ratio = np.linalg.lstsq(mean, np.tensordot(mix, parts, 1), rcond=None)[0]
            eigenvalues, vectors = np.linalg.eig(ratio)
            apart = np.abs(eigenvalues[:, None] - eigenvalues)[~np.eye(m, dtype=bool)].min(initial=np.inf)
            # the parts of small size have errors as much larger
            gap = min(float(apart), 1.0) / float(np.linalg.norm(mix / size))
            if not np.imag(eigenvalues).any() and gap > widest:
                best, widest = vectors.real, gap
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = None if best is None else best / (total @ best)
    return scaled if scaled is not None and np.isfinite(scaled).all() else None


@dataclass(frozen=True)
class _Fitted:
    scores: Float[np.ndarray, " j"]  #: l at each distance, 0 at the distance 0
    dual: Float[np.ndarray, " m"]  #: p
    residual: float  #: root mean square


def _fit(moved: _Moved, dual: Float[np.ndarray, " m"], rng: np.random.Generator) -> _Fitted:
    n = len(moved.seen)
    has, zero = moved.distances_of_rows, n - 1
    free = np.flatnonzero(moved.present & (np.arange(2 * n - 1) != zero))
    row, token = np.nonzero(moved.seen & ~np.eye(n, dtype=bool))
    most = _EQUATIONS * (2 * len(free) + len(dual)) // len(moved.tau)
    # every distance has to occur: a row and a column of pairs hold all of them
    edge = (token == 0) | (row == n - 1) | (row == 0)
    chosen = edge | (rng.random(len(row)) * len(row) < most)
    row, token = row[chosen], token[chosen]
    problem = _OneHead(moved.tau, moved.values[token, :, row], row - token + zero, has[row], free)
    weights = np.maximum(moved.derivative @ dual, 1e-5)  # those that differences made negative are small
    scores = np.zeros(2 * n - 1)
    scores[zero:] = np.log(weights[::-1, -1] / weights[-1, -1])
    if has[0].sum() > 1:
        scores[: zero + 1] = np.log(weights[::-1, 0] / weights[0, 0])
    fit = least_squares(
        problem.residual,
        problem.start(scores, dual),
        problem.jacobian,
        method="lm",
        xtol=1e-15,
        ftol=1e-15,
        max_nfev=ITERATIONS,
    )
    scores[free] = fit.x[: len(free)]
    return _Fitted(scores, fit.x[2 * len(free) :], float(np.sqrt(2 * fit.cost / fit.fun.size)))


@dataclass(frozen=True)
class _OneHead:
    """The equations p . value = weight of one head; unknowns are l and g at the distances but 0, and p."""

    tau: Float[np.ndarray, " q"]
    values: Float[np.ndarray, "n q m"]
    distance: Int[np.ndarray, " n"]
    has: Bool[np.ndarray, "n j"]
    free: Int[np.ndarray, " u"]

    def start(self, scores: np.ndarray, dual: np.ndarray) -> np.ndarray:
        """The unknowns where the weights at the first and the last move give the slopes g."""
        first, last = np.clip(self.values[:, [0, -1]] @ dual, 1e-4, 1 - 1e-4).T
        slope = (np.log(last / (1 - last)) - np.log(first / (1 - first))) / (self.tau[-1] - self.tau[0])
        count = np.maximum(np.bincount(self.distance, minlength=len(scores)), 1)
        slopes = np.bincount(self.distance, slope, minlength=len(scores)) / count
        return np.concatenate([scores[self.free], slopes[self.free], dual])

    def _weights(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """e^l at each distance, the sum of a row after the move, and the weight of the moved token."""
        u = len(self.free)
        scores, slopes = np.zeros((2, self.has.shape[1]))
        scores[self.free], slopes[self.free] = x[:u], x[u : 2 * u]
        with np.errstate(over="ignore", invalid="ignore"):
            e = np.exp(np.minimum(scores, 700.0))
            own = e[self.distance][:, None]
            moved = own * np.exp(np.minimum(self.tau * slopes[self.distance][:, None], 700.0))
            sums = (self.has @ e)[:, None] - own + moved
            return e, sums, moved / sums

    def residual(self, x: np.ndarray) -> np.ndarray:
        """The left sides less the right ones."""
        return np.ravel(np.nan_to_num(self.values @ x[2 * len(self.free) :] - self._weights(x)[2], nan=1e9))

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        """Its derivative by the unknowns."""
        n, u = len(self.distance), len(self.free)
        e, sums, weight = self._weights(x)
        full = np.zeros((2, n, len(self.tau), self.has.shape[1]))
        full[0] = (weight / sums)[:, :, None] * (self.has * e)[:, None]
        own = weight * (1 - weight)
        full[0, np.arange(n), :, self.distance] = -own
        full[1, np.arange(n), :, self.distance] = -own * self.tau
        by = np.concatenate([full[0][..., self.free], full[1][..., self.free], self.values], axis=-1)
        return np.nan_to_num(by.reshape(-1, 2 * u + self.values.shape[-1]))
