"""Gradient descent as statistical queries: every coordinate of every gradient is one."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from attention import AttentionLayer, BooleanInputs
from attention.inputs import Rng
from attention.validation import count, non_negative, random_generator
from lower import all_sign_matrices
from sq.confirm import confirmed, nearest_candidate
from sq.oracles import SQOracle
from sq.queries import CorrelationalQueries
from sq.sq_result import Account, SQResult, require_correlational_oracle
from sq.target_family import TargetFamily, require_family

__all__ = ["DescentLearner"]

_MOST_BITS = 12
_IDENTIFIES = 0.5
# norms estimated on a sample may be too small: by so many standard errors the squares are taken larger
_NORM_ERRORS = 6
_MOST_SLOPES = 100_000_000  # a step: about two seconds
_AT_ONCE = 1 << 22  # of them, 32 MiB


@dataclass(frozen=True)
class DescentLearner:
    """Fits a student of attention heads to the hidden part by Adam, its gradients replies to queries.

    Parameters
    ----------
    heads : int
        Heads of the student.
    steps : int
        The most gradient steps.
    rate : float
        Adam's learning rate.
    check : int
        After how many steps the student is compared with the candidates, which costs no query.
    samples : int
        How many random inputs the learner draws itself for what needs no labels, where there are more than 2^12.

    Notes
    -----
    The student's rows are g_a(X) = sum_i sum_b softmax(X Theta_i X^T)_ab <v_i, x_b>. The gradient of
    E sum_a (g - f)^2 / 2 is E g dg - E f dg: the first part needs no labels, and each coordinate of the second is a
    correlational query, scaled by its norm. A step counts heads (d^2 + d). A student within mean square 1/2 of a
    candidate (orthonormal hidden parts are sqrt 2 apart) names it, and one more query confirms or refutes it. A step
    computes samples k heads (d^2 + d) derivatives, in blocks of 32 MiB; more than 10^8 are refused.

    References
    ----------
    That gradient descent on the square loss asks correlational queries is well known; this student is chosen here.
    Adam: Kingma and Ba, arXiv 1412.6980.

    Examples
    --------
    >>> from sq import CSQ, ExactOracle, ParityFamily
    >>> family = ParityFamily(dim=4, bits=1)
    >>> result = DescentLearner().learn(ExactOracle(CSQ(0.01), family, 1), family, rng=0)
    >>> result.secret
    (2,)
    """

    heads: int = 4
    steps: int = 400
    rate: float = 0.03
    check: int = 10
    samples: int = 4096

    def __post_init__(self) -> None:
        for name in ("heads", "steps", "check", "samples"):
            object.__setattr__(self, name, count(name, getattr(self, name)))
        object.__setattr__(self, "rate", non_negative("rate", self.rate, strictly=True))

    def queries_per_step(self, dim: int) -> int:
        """The number of the student's parameters."""
        return self.heads * (dim**2 + dim)

    def learn(self, oracle: SQOracle, family: TargetFamily, *, rng: Rng = None) -> SQResult:
        """Descend until the student is near a candidate, or the steps are spent.

        Parameters
        ----------
        oracle : SQOracle
            Of the model CSQ; exact or honest to be of use.
        family : TargetFamily
            The candidates.
        rng : optional
            Anything `numpy.random.default_rng` accepts (SPEC 7); draws the start, and inputs.

        Raises
        ------
        ValueError
            If the oracle is not correlational, or a step takes more than 10^8 derivatives.
        """
        require_family(family)
        require_correlational_oracle(oracle, "descent learner")
        account = Account("descent learner", oracle, family)
        rng = random_generator(rng)
        k, d, m = family.tokens, family.dim, self.heads
        every = k * d <= _MOST_BITS
        self._require_reach(2 ** (k * d) if every else self.samples, k, d)
        fixed = all_sign_matrices(k, d) if every else None
        parameters = rng.standard_normal(m * (d * d + d)) / np.sqrt(d)
        first, second = np.zeros_like(parameters), np.zeros_like(parameters)
        number, distance = 0, np.inf
        for step in range(1, self.steps + 1):
            student = _Student(parameters, m, d)
            x = BooleanInputs(k, d).sample(self.samples, rng=rng) if fixed is None else fixed
            first_moment, second_moment, own = np.zeros((3, len(parameters)))
            for block in _blocks(x, len(parameters)):
                slopes = student.slopes(block)
                squares = np.sum(slopes**2, axis=1)
                first_moment += squares.sum(axis=0) / len(x)
                second_moment += np.sum(squares**2, axis=0) / len(x)
                own += np.einsum("na,nap->p", student(block), slopes, optimize=True) / len(x)
            spread = np.sqrt(np.maximum(second_moment - first_moment**2, 0.0) / len(x))
            norms = np.sqrt(first_moment + (0 if every else _NORM_ERRORS) * spread)
            norms = np.maximum(norms, 1e-12)
            asked = CorrelationalQueries(_Scaled(student, norms), len(norms), name="gradient")
            gradient = own - norms * oracle.query_many(asked)
            first = 0.9 * first + 0.1 * gradient
            second = 0.999 * second + 0.001 * gradient**2
            size = np.sqrt(second / (1 - 0.999**step)) + 1e-8
            parameters = parameters - self.rate * first / (1 - 0.9**step) / size
            if step % self.check == 0 or step == self.steps:
                number, distance = nearest_candidate(_Student(parameters, m, d)(x), x, family)
                if distance < _IDENTIFIES:
                    why = (
                        f"After {step} gradient steps the student is within mean square {distance:.3g} of target "
                        f"{number}."
                    )
                    return confirmed(account, oracle, family, number, why)
        return account.refused(
            f"After {self.steps} gradient steps the student is near no candidate: the nearest is at mean square "
            f"{distance:.3g}, and {_IDENTIFIES} is needed. Allow more steps, or take it as evidence of hardness."
        )

    def _require_reach(self, samples: int, k: int, d: int) -> None:
        slopes = samples * k * self.queries_per_step(d)
        if slopes > _MOST_SLOPES:
            raise ValueError(
                f"A gradient step takes {samples} inputs x {k} rows x {self.queries_per_step(d)} parameters = "
                f"{slopes:.3g} derivatives: at most {_MOST_SLOPES:,} are computed; take fewer coordinates, heads or "
                "samples."
            )


def _blocks(x: np.ndarray, parameters: int) -> Iterator[np.ndarray]:
    rows = max(1, _AT_ONCE // (parameters * x.shape[1]))
    for start in range(0, len(x), rows):
        yield x[start : start + rows]


class _Student:
    """Attention heads whose outputs are numbers, with the derivatives of the rows in every parameter."""

    def __init__(self, parameters: np.ndarray, m: int, d: int) -> None:
        self._theta = parameters[: m * d * d].reshape(m, d, d)
        self._v = parameters[m * d * d :].reshape(m, d)
        self._heads = AttentionLayer(self._theta, np.zeros_like(self._theta))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        mixed = self._heads.patterns(x) @ x[:, None]
        return np.einsum("nmad,md->na", mixed, self._v, optimize=True)

    def slopes(self, x: np.ndarray) -> np.ndarray:
        """The derivatives (n, k, p) of the rows."""
        n, k = x.shape[:2]
        patterns = self._heads.patterns(x)
        mixed = patterns @ x[:, None]
        values = np.einsum("nbd,md->nmb", x, self._v)
        centred = values[:, :, None, :] - np.einsum("nmad,md->nma", mixed, self._v)[..., None]
        pulled = (patterns * centred) @ x[:, None]  # d g_a / d (x_a Theta_i)
        by_theta = np.einsum("nap,nmaq->nampq", x, pulled).reshape(n, k, -1)
        return np.concatenate([by_theta, mixed.transpose(0, 2, 1, 3).reshape(n, k, -1)], axis=-1)


@dataclass(frozen=True, eq=False)
class _Scaled:
    student: _Student
    norms: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return self.student.slopes(x) / self.norms
