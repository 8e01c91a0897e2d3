"""Learners that fit a function by correlational queries and name the candidate nearest to it: low degree, descent."""

from dataclasses import dataclass
from functools import partial
from itertools import chain, combinations, islice
from math import comb
from typing import Any

import numpy as np

from attention import AttentionLayer, BooleanInputs
from attention.inputs import Rng
from attention.validation import NonNegativeInt, PositiveInt, checked, random_generator
from lower import all_sign_matrices
from sq.learners import QueryRun, SQResult
from sq.models import ROUNDING
from sq.oracles import SQOracle
from sq.queries import CorrelationalQueries
from sq.target_family import TargetFamily

__all__ = ["DescentLearner", "LowDegreeLearner"]

_MOST_BITS = 12  # inputs of up to so many bits are all enumerated
_MONOMIALS = 64  # monomials in one call of the oracle
_IDENTIFIES = 0.5
# norms estimated on a sample may be too small: their squares are raised by so many standard errors
_NORM_ERRORS = 6
_MOST_SLOPES = 100_000_000  # derivatives in a step: about two seconds
_SLOPES = 1 << 22  # derivatives in memory at once: 32 MiB
_SAMPLES = 4096  # random inputs on which the low-degree learner compares candidates, if there are more
_RATE = 0.03  # the learning rate of Adam
_CHECK = 10  # gradient steps between comparisons with the candidates


@dataclass(frozen=True)
@checked
class LowDegreeLearner:
    """Asks for the coefficients of all monomials of degree at most r in the k d entries of X, in each of the k rows.

    Notes
    -----
    k sum_{i <= r} C(k d, i) queries. A coefficient is seen if its reply differs from 0 by more than tau: then it is not
    0. The hidden part of a parity of l bits has no coefficients below degree 2l + 1, and 4 coefficients +-1/2 at that
    degree. So the learner finds nothing unless r >= 2l + 1 and tau < 1/2. The seen coefficients suggest the nearest
    candidate, and one more query confirms or refutes it.

    References
    ----------
    Linial, Mansour and Nisan 1993 for the idea.

    Examples
    --------
    >>> from sq import CSQ, ExactOracle, ParityFamily
    >>> family = ParityFamily(dim=4, bits=1)
    >>> print(LowDegreeLearner(degree=2).learn(ExactOracle(CSQ(0.3), family, 1), family).explanation)
    None of the 74 coefficients of degree at most 2 was seen: every reply is within 0.3 of 0.
    >>> result = LowDegreeLearner(degree=3).learn(ExactOracle(CSQ(0.3), family, 1), family)
    >>> result.secret, result.asked
    ((2,), 187)
    """

    degree: NonNegativeInt  #: r, at least 0

    def queries(self, tokens: int, dim: int) -> int:
        """The number of coefficients: all queries except the one that confirms."""
        return tokens * sum(comb(tokens * dim, degree) for degree in range(self.degree + 1))

    @checked
    def learn(self, oracle: SQOracle, family: TargetFamily, *, rng: Rng = None) -> SQResult:
        """Ask for all coefficients, and name the target if they reveal it; arguments as for `ScanLearner.learn`."""
        run = QueryRun("low-degree learner", oracle, family)
        tau, k, d = run.tolerance, family.tokens, family.dim
        by_degree = (combinations(range(k * d), degree) for degree in range(self.degree + 1))
        every = ((row, entries) for entries in chain.from_iterable(by_degree) for row in range(k))
        seen: list[tuple[int, tuple[int, ...], float]] = []
        while chunk := list(islice(every, _MONOMIALS)):
            replies = oracle.query_many(
                CorrelationalQueries(partial(_monomials, chunk), len(chunk), name="monomials")
            )
            big = np.abs(replies) > tau + ROUNDING
            seen += [(*chunk[i], float(replies[i])) for i in np.flatnonzero(big)]
        if not seen:
            return run.result(
                f"None of the {run.asked} coefficients of degree at most {self.degree} was seen: every reply is within "
                f"{tau:g} of 0."
            )
        x = all_sign_matrices(k, d) if k * d <= _MOST_BITS else BooleanInputs(k, d).sample(_SAMPLES, rng=rng)
        monomials = _monomials([(row, entries) for row, entries, _ in seen], x)
        number, _ = _nearest(monomials @ np.array([reply for *_, reply in seen]), x, family)
        degree = min(len(entries) for _, entries, _ in seen)
        sizes = [abs(reply) for *_, reply in seen]
        return run.confirmed(
            number,
            f"{len(seen)} coefficients were seen from degree {degree} on, of {min(sizes):.3g} to {max(sizes):.3g}.",
        )


def _monomials(chunk: list[tuple[int, tuple[int, ...]]], x: np.ndarray) -> np.ndarray:
    """prod_{e in entries} X_e in one row of the output and 0 in the others, for each of some (row, entries)."""
    n, k, d = x.shape
    flat = np.ascontiguousarray(x.reshape(n, k * d).T)
    values = np.zeros((n, k, len(chunk)))
    for place, (row, entries) in enumerate(chunk):
        values[:, row, place] = flat[list(entries)].prod(axis=0)
    return values


def _nearest(values: np.ndarray, x: np.ndarray, family: TargetFamily) -> tuple[int, float]:
    """The candidate whose hidden part is nearest to a function on the inputs, and the mean square distance.

    Orthonormal hidden parts are sqrt 2 apart, so at most one candidate has a mean square distance below 1/2 over all
    inputs.
    """
    size, n = family.secrets.size, len(x)
    distances = [float(np.sum((family.hidden(number, x) - values) ** 2)) / n for number in range(size)]
    best = int(np.argmin(distances))
    return best, distances[best]


@dataclass(frozen=True)
@checked
class DescentLearner:
    """Fits a student of attention heads to the hidden part by Adam, with gradients from replies to queries.

    Notes
    -----
    The student's rows are g_a(X) = sum_i sum_b softmax(X Theta_i X^T)_ab <v_i, x_b>. The gradient of
    E sum_a (g - f)^2 / 2 is E g dg - E f dg. The first part needs no labels. Each coordinate of the second is a
    correlational query, scaled by its norm, so a step counts heads (d^2 + d) queries. Orthonormal hidden parts are
    sqrt 2 apart. So a student within mean square 1/2 of a candidate identifies it; one more query checks the result. A
    step computes samples k heads (d^2 + d) derivatives, in blocks of 32 MiB; more than 10^8 are refused.

    References
    ----------
    Adam: Kingma and Ba, arXiv 1412.6980.

    Examples
    --------
    >>> from sq import CSQ, ExactOracle, ParityFamily
    >>> family = ParityFamily(dim=4, bits=1)
    >>> result = DescentLearner().learn(ExactOracle(CSQ(0.01), family, 1), family, rng=0)
    >>> result.secret
    (2,)
    """

    heads: PositiveInt = 4  #: heads of the student
    steps: PositiveInt = 400  #: the most gradient steps
    #: if there are more than 2^12 inputs: how many the learner draws for the computations without labels
    samples: PositiveInt = 4096

    def queries_per_step(self, dim: int) -> int:
        """The number of the student's parameters."""
        return self.heads * (dim**2 + dim)

    @checked
    def learn(self, oracle: SQOracle, family: TargetFamily, *, rng: Rng = None) -> SQResult:
        """Descend until the student is near a candidate; arguments as for `ScanLearner.learn`."""
        run = QueryRun("descent learner", oracle, family)
        rng = random_generator(rng)
        k, d, m = family.tokens, family.dim, self.heads
        every = k * d <= _MOST_BITS
        parameters_a_step = self.queries_per_step(d)
        slopes = (2 ** (k * d) if every else self.samples) * k * parameters_a_step
        if slopes > _MOST_SLOPES:
            raise ValueError(
                f"A gradient step takes {slopes:.3g} derivatives, of {parameters_a_step} parameters: at most "
                f"{_MOST_SLOPES:,} are computed; take fewer coordinates, heads or samples."
            )
        fixed = all_sign_matrices(k, d) if every else None
        parameters = rng.standard_normal(m * (d * d + d)) / np.sqrt(d)
        first, second = np.zeros_like(parameters), np.zeros_like(parameters)
        number, distance = 0, np.inf
        for step in range(1, self.steps + 1):
            student = _Student(parameters, m, d)
            x = BooleanInputs(k, d).sample(self.samples, rng=rng) if fixed is None else fixed
            own, norms = student.moments(x, errors=0 if every else _NORM_ERRORS)
            scaled = partial(student.slopes, norms=norms)
            asked = CorrelationalQueries(scaled, len(norms), name="gradient")
            gradient = own - norms * oracle.query_many(asked)
            first = 0.9 * first + 0.1 * gradient
            second = 0.999 * second + 0.001 * gradient**2
            size = np.sqrt(second / (1 - 0.999**step)) + 1e-8
            parameters = parameters - _RATE * first / (1 - 0.9**step) / size
            if step % _CHECK == 0 or step == self.steps:
                number, distance = _nearest(_Student(parameters, m, d)(x), x, family)
                if distance < _IDENTIFIES:
                    return run.confirmed(
                        number,
                        f"After {step} gradient steps the student is within mean square {distance:.3g} of target "
                        f"{number}.",
                    )
        return run.result(
            f"After {self.steps} gradient steps the student is near no candidate: the nearest is at mean square "
            f"{distance:.3g}, and {_IDENTIFIES} is needed. Allow more steps, or take it as evidence of hardness."
        )


class _Student:
    """Attention heads whose outputs are numbers, with the derivatives of the rows in every parameter."""

    def __init__(self, parameters: np.ndarray, m: int, d: int) -> None:
        self._theta = parameters[: m * d * d].reshape(m, d, d)
        self._v = parameters[m * d * d :].reshape(m, d)
        self._heads = AttentionLayer(self._theta, np.zeros_like(self._theta))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        mixed = self._heads.patterns(x) @ x[:, None]
        return np.einsum("nmad,md->na", mixed, self._v, optimize=True)

    def slopes(self, x: np.ndarray, *, norms: Any = 1.0) -> np.ndarray:
        """The derivatives (n, k, p) of the rows, divided by their norms."""
        n, k = x.shape[:2]
        patterns = self._heads.patterns(x)
        mixed = patterns @ x[:, None]
        values = np.einsum("nbd,md->nmb", x, self._v)
        centred = values[:, :, None, :] - np.einsum("nmad,md->nma", mixed, self._v)[..., None]
        pulled = (patterns * centred) @ x[:, None]  # d g_a / d (x_a Theta_i)
        by_theta = np.einsum("nap,nmaq->nampq", x, pulled).reshape(n, k, -1)
        return np.concatenate([by_theta, mixed.transpose(0, 2, 1, 3).reshape(n, k, -1)], axis=-1) / norms

    def moments(self, x: np.ndarray, *, errors: int) -> tuple[np.ndarray, np.ndarray]:
        """E sum_a g_a dg_a, and the norms of the derivatives; their squares are raised by `errors` standard errors."""
        parameters = self._theta.size + self._v.size
        first, second, own = np.zeros((3, parameters))
        rows = max(1, _SLOPES // (parameters * x.shape[1]))
        for block in (x[start : start + rows] for start in range(0, len(x), rows)):
            slopes = self.slopes(block)
            squares = np.sum(slopes**2, axis=1)
            first += squares.sum(axis=0) / len(x)
            second += np.sum(squares**2, axis=0) / len(x)
            own += np.einsum("na,nap->p", self(block), slopes, optimize=True) / len(x)
        spread = np.sqrt(np.maximum(second - first**2, 0.0) / len(x))
        return own, np.maximum(np.sqrt(first + errors * spread), 1e-12)
