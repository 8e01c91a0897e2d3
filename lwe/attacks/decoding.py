"""Decoding with rows of bits or trits that are zero in some columns: list near vectors, and judge by fresh rows."""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import scipy
from jaxtyping import Float, Int

from lwe.attacks.attack import AttackEndedError, AttackOutcome, Attempt
from lwe.attacks.reduction import (
    Reduction,
    TrialAttack,
    TrialPlan,
    left_inverse,
    modular_hermite_form,
    reduction_seconds,
)
from lwe.attacks.refinement import label_middles, unwrapped
from lwe.costs.deviations import deviations
from lwe.costs.reduction import root_hermite_factor
from lwe.parameters import LWEParameters
from lwe.residues import centred
from lwe.samples import LWRSamples, inner_products

_BLOCKS = (30, 40)  # the last block sizes of BKZ before the enumeration
_MARGINS = (-0.5, -0.25, 0.0, 0.25, 0.5, 1.0, 1.5, 2.0)
_MOST_DIMENSIONS = 100
_MOST_SECRETS = 100_000  # of one enumeration
_AT_ONCE = 500
_JUDGES = 2000  # the most fresh rows of a group
_FITTED = 100_000  # the most rows of a least squares problem
_OFFERED, _LEVEL = 3, 1e-6  # the most secrets of one list that are completed, and the evidence that they need
_NODE, _LISTED = 5e-8, 6e-5  # seconds of a node of the enumeration, and of a secret in the list, on one core


@dataclass(frozen=True)
class DecodingAttack(TrialAttack):
    """Decode in lattices of rows that are zero in some columns: samples of a smaller problem. For bits and trits.

    Notes
    -----
    About one row of bits in 2^f is zero in f columns. Trial by trial, the attack takes m such rows, reduces their
    lattice, and lists the vectors that are as close to the labels as the errors are, by pruned enumeration (bounded
    distance decoding). Most of them belong to wrong secrets. Thousands of rows that were not used, with one nonzero
    entry in those columns, tell which one is right, and complete it. `best_plan` chooses f, m and the pruning.

    References
    ----------
    Liu and Nguyen 2013, "Solving BDD by enumeration". The zero columns and the judgement by other rows: derived here.

    Examples
    --------
    >>> from lwe import LWEParameters, make_samples
    >>> parameters = LWEParameters(n=16, q=64, p=2)
    >>> samples, secret = make_samples(parameters, 8000, rng=0)
    >>> result = DecodingAttack()(samples, parameters, rng=0)
    >>> result.outcome.name in ("BROKEN", "MISSING")  # missing without fpylll
    True
    """

    name: ClassVar[str] = "bdd"

    def plan(self, attempt: Attempt, seconds: float, rng: np.random.Generator) -> "ZeroPlan | None":
        """By `best_plan`."""
        if attempt.parameters.matrix not in ("binary", "ternary"):
            raise AttackEndedError(AttackOutcome.NOT_APPLICABLE, "It is for rows of bits or trits.")
        _, rows = zero_columns(attempt.samples.public, attempt.parameters.n - 1, rng)
        return best_plan(attempt.parameters, [len(zero_rows) for zero_rows in rows], seconds)

    def trial(
        self, attempt: Attempt, plan: "ZeroPlan", rng: np.random.Generator
    ) -> Iterator[Int[np.ndarray, " n"]]:
        """Reduce the lattice of some zero rows, list its vectors near the labels, judge the secrets.

        Yields the few secrets that fresh rows support, completed to all columns.
        """
        parameters, q = attempt.parameters, attempt.parameters.q
        zeros = ZeroColumns(attempt.samples, parameters, plan.columns, rng)
        public, middle = zeros.lattice(plan.samples)
        m, k = public.shape
        inverse = left_inverse(public, q) if m > k else None
        if inverse is None:
            return
        reduction = Reduction(modular_hermite_form(public.T, q), attempt, rng, short=public.T)
        own = np.vstack([public.T, reduction.rows(range(k))]).astype(np.float64)
        if np.linalg.matrix_rank(own) > k:
            return  # with a small modulus its columns are no short vectors of the lattice
        for block_size in range(10, plan.block_size + 1, 10):
            for _ in range(2):
                deque(reduction.tour(block_size, k), maxlen=0)
        attempt.details["block_size"] = plan.block_size
        bounds = close_bounds(deviations(parameters).error, m - k, plan.margin)
        vectors = reduction.close(middle, k, bounds, most=_MOST_SECRETS)
        # the least change of the vector by the lattice's own short vectors
        change = np.linalg.lstsq(public.astype(np.float64), (middle - vectors).T, rcond=None)[0].T
        secrets = np.stack([inner_products(vectors, row, q) for row in inverse], axis=1)
        secrets = centred(secrets + np.rint(change).astype(np.int64), q)
        evidence = zeros.evidence(secrets, m)
        for place in np.argsort(evidence)[:_OFFERED]:
            if evidence[place] <= math.log(_LEVEL):
                yield zeros.completed(secrets[place])


@dataclass(frozen=True)
class ZeroPlan(TrialPlan):
    """How many columns are zero in the rows of a lattice, how many rows it has, and what a trial should do."""

    block_size: int  #: the last block size of BKZ before the enumeration
    margin: float  #: c of `close_bounds`


def close_bounds(deviation: float, dimensions: int, margin: float) -> Float[np.ndarray, " dimensions"]:
    """sigma^2 (i + c sqrt(2i)) for i from all dimensions down to 1: mean plus c deviations of i squared errors."""
    i = np.arange(dimensions, 0, -1)
    return deviation**2 * np.maximum(i + margin * np.sqrt(2 * i), 1e-9)


def zero_columns(
    public: Int[np.ndarray, "N n"], most: int, generator: np.random.Generator
) -> tuple[list[int], list[Int[np.ndarray, " rows"]]]:
    """Up to `most` columns, and the rows that are zero in the first 0, 1, 2, ... of them.

    The first two columns are random, so that trials differ. Each further one is that which leaves the most rows.
    """
    columns, chosen, rows = list(range(public.shape[1])), list[int](), [np.arange(len(public))]
    while len(chosen) < most:
        zeros = public[rows[-1]][:, columns] == 0
        place = int(generator.integers(len(columns)) if len(chosen) < 2 else np.argmax(zeros.sum(axis=0)))
        rows.append(rows[-1][zeros[:, place]])
        chosen.append(columns.pop(place))
    return chosen, rows


def best_plan(parameters: LWEParameters, rows: list[int], seconds: float) -> ZeroPlan | None:
    """The plan with the fewest expected seconds until success; None if none is expected to fit into `seconds`.

    `rows` says how many rows are zero in 0, 1, 2, ... columns.

    Notes
    -----
    Rows that are zero in f columns are samples of a problem of k = n - f entries; about one row in 2^f is. The lattice
    of m such rows has k short vectors of its own. Orthogonal to them it has
    d = m - k dimensions and volume q^d / (m c)^(k/2), where c is the variance of an entry. The logarithms of a reduced
    basis are taken to fall on a line (the geometric series assumption).

    The nodes with i coordinates are about the volume of the admitted vectors divided by that of the last i rows, and
    the admitted volume is about 2/(i + 2) of the ball's (linear pruning, Gama, Nguyen and Regev 2010). The probability
    of success is simulated for normal errors.
    """
    sizes = deviations(parameters)
    if sizes.column == 0 or sizes.error <= 0:
        return None
    best, least = None, math.inf
    for columns, number in enumerate(rows):
        k = sizes.n - columns
        # other columns may leave fewer rows, and without zero columns some rows have to judge
        most = int(number * (0.9 if columns else 0.5)) - k
        for d in range(12, min(most, _MOST_DIMENSIONS) + 1, 4):
            m, i = k + d, np.arange(1, d + 1)
            log_volume = d * math.log(sizes.q) - k / 2 * math.log(m * sizes.column)
            for block_size in _BLOCKS:
                slope = math.log(root_hermite_factor(block_size))
                last = np.cumsum(log_volume / d - slope * (d + 1 - 2 * i))
                for margin in _MARGINS:
                    radii = close_bounds(sizes.error, d, margin)[::-1]
                    balls = i / 2 * np.log(math.pi * radii) - scipy.special.gammaln(i / 2 + 1)
                    nodes = np.exp(np.minimum(balls - last + np.log(2 / (i + 2)), 100))
                    cost = _NODE * float(nodes.sum()) + _LISTED * float(nodes[-1])
                    cost += reduction_seconds(m, block_size)
                    success = float(_successes(margin)[d - 1])
                    # an enumeration cannot be stopped
                    if nodes[-1] <= _MOST_SECRETS / 3 and cost <= seconds / 10 and cost < least * success:
                        best, least = ZeroPlan(columns, m, success, cost, block_size, margin), cost / success
    return best if least <= seconds else None


@lru_cache(maxsize=16)
def _successes(margin: float) -> Float[np.ndarray, " dimensions"]:
    """For each number of dimensions, the probability that normal errors keep all `close_bounds`; of 4000 draws."""
    squares = np.random.default_rng(0).standard_normal((4000, _MOST_DIMENSIONS)) ** 2
    within = np.cumsum(squares, axis=1) <= close_bounds(1.0, _MOST_DIMENSIONS, margin)[::-1]
    return np.maximum(np.logical_and.accumulate(within, axis=1).mean(axis=0), 1e-4)


class ZeroColumns:
    """The training samples whose rows are zero in some columns, and their neighbours, which judge secrets.

    The zero rows are samples of the problem without these columns. Rows that are zero in all but one of them have
    shifted labels: by the entry of the secret there, a constant that is unknown. A right secret on the other columns
    leaves residues near the constant, a wrong one leaves them uniform.
    """

    def __init__(
        self, samples: LWRSamples, parameters: LWEParameters, columns: int, generator: np.random.Generator
    ) -> None:
        self._q = parameters.q
        self._public = centred(samples.public, self._q)
        self._middle = label_middles(samples, parameters)
        self.zero, rows = zero_columns(self._public, columns, generator)
        self.others = np.setdiff1d(np.arange(parameters.n), self.zero)
        self.rows = generator.permutation(rows[-1])

    def lattice(self, samples: int) -> tuple[Int[np.ndarray, "m k"], Float[np.ndarray, " m"]]:
        """The first rows, without the zero columns, and the middles of what their labels stand for."""
        chosen = self.rows[:samples]
        return self._public[np.ix_(chosen, self.others)], self._middle[chosen]

    def evidence(self, secrets: Int[np.ndarray, "N k"], used: int) -> Float[np.ndarray, " N"]:
        """Log of the probability that residues as uneven as those of each secret arise from uniform ones.

        The residues r of each group of fresh rows give |sum exp(2 pi i r/q)|^2, divided by the number of rows. For
        uniform residues of large groups it is exponential with mean 1, and the sum over groups is gamma distributed.
        """
        groups = [self.rows[used:][:_JUDGES], *self._neighbours()]
        groups = [rows for rows in groups if len(rows)]
        if not groups:
            return np.zeros(len(secrets))
        judges, lengths = np.concatenate(groups), np.array([len(rows) for rows in groups])
        starts = np.cumsum(lengths) - lengths
        public, middle = self._public[np.ix_(judges, self.others)], self._middle[judges]
        evidence = np.empty(len(secrets))
        for begin in range(0, len(secrets), _AT_ONCE):
            turned = self._turned(public, middle[:, None], secrets[begin : begin + _AT_ONCE].T)
            sums = np.abs(np.add.reduceat(turned, starts, axis=0)) ** 2 / lengths[:, None]
            evidence[begin : begin + _AT_ONCE] = scipy.stats.gamma.logsf(sums.sum(axis=0), len(groups))
        return evidence

    def completed(self, secret: Int[np.ndarray, " k"]) -> Int[np.ndarray, " n"]:
        """The secret on all columns, from what it is on the others: column by column, by the shift of labels.

        After each column least squares improves all entries so far, from twice as many rows as before.
        """
        whole = np.zeros(self._public.shape[1])
        whole[self.others] = secret
        known, left = list(self.others), list(self.zero)
        while True:
            rows = np.flatnonzero(~self._public[:, left].any(axis=1))[:_FITTED]
            public, middle = self._public[rows], self._middle[rows]
            if len(known) > len(self.others):
                turned = self._turned(public, middle, whole)
                low, zero, high = (turned[public[:, known[-1]] == entry].sum() for entry in (-1, 0, 1))
                shift = high * np.conj(zero) + zero * np.conj(low)
                whole[known[-1]] = np.angle(shift) * self._q / (2 * math.pi)
            whole[known] = unwrapped(whole[known], public[:, known].astype(np.float64), middle, self._q)
            if not left:
                return np.rint(whole).astype(np.int64)
            known.append(left.pop())

    def _neighbours(self) -> Iterator[Int[np.ndarray, " rows"]]:
        away = self._public[:, self.zero]
        near = np.flatnonzero(np.count_nonzero(away, axis=1) == 1)
        for column in range(len(self.zero)):
            for entry in (-1, 1):
                yield near[away[near, column] == entry][:_JUDGES]

    def _turned(self, public: np.ndarray, middle: np.ndarray, secret: np.ndarray) -> np.ndarray:
        return np.exp(2j * math.pi / self._q * (middle - public @ secret))
