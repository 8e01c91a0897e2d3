"""Bases of lattices, and their reduction in small steps by fpylll, with checks of the clock between calls."""

import importlib.util
import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from lwe.attacks.attack import Attack, AttackEndedError, AttackOutcome, Attempt, Finding
from lwe.costs.primal import lengths_tell
from lwe.costs.reduction import root_hermite_factor
from lwe.parameters import LWEParameters
from lwe.residues import product_residue

_UNLIMITED_SECONDS = 20.0  # the most that trials are expected to take if there is no time limit
_ROWS_IN_30_SECONDS = 260  # the size of a basis mod 128 that LLL surely reduces within 30 seconds
_UNPRUNED = 20  # blocks below this are enumerated in full


def require_lattices(parameters: LWEParameters) -> None:
    """End the attack unless fpylll can be imported, and short vectors carry information on the secret."""
    if any(importlib.util.find_spec(name) is None for name in ("fpylll", "cysignals")):
        raise AttackEndedError(
            AttackOutcome.MISSING,
            "It needs fpylll, which is not installed: install it with `pip install fpylll cysignals`.",
        )
    if not lengths_tell(parameters):
        raise AttackEndedError(
            AttackOutcome.NOT_APPLICABLE,
            "Lengths of errors say nothing here: the modulus is 2, errors are as wide as the modulus, or there is one "
            "secret only.",
        )


def modular_hermite_form(
    rows: Int[np.ndarray, "k m"], modulus: int, columns: int | None = None
) -> Int[np.ndarray, "columns m"]:
    """The basis in Hermite form of the lattice that some rows and q Z^m span: upper triangular, for any q.

    The diagonal has positive divisors of q; the entries above each divisor are residues smaller than it. Rows may be
    dependent, and pivots need not be units. `columns` is the number of columns that are eliminated and of rows that are
    returned; all by default.

    Elimination modulo q, column by column. The pivot is the row whose entry has the smallest common divisor g with q.
    It is scaled so that the entry becomes g, and q/g times it stays among the rows. O(k m^2) if pivots are units; at
    worst log q times as much.

    References
    ----------
    Cohen 1993, "A course in computational algebraic number theory", section 2.4.2 (Hermite form modulo D).
    """
    width = rows.shape[1]
    columns = width if columns is None else columns
    form = modulus * np.eye(columns, width, dtype=np.int64)
    left = np.mod(rows, modulus)
    for j in range(columns):
        while len(places := np.flatnonzero(left[:, j])):
            divisors = np.gcd(left[places, j], modulus)
            place, divisor = int(places[np.argmin(divisors)]), int(divisors.min())
            unit = _unit(int(left[place, j]) // divisor, modulus // divisor, modulus)
            pivot = product_residue(left[place], unit, modulus, modulus**2)
            quotients = left[:, j] // divisor
            quotients[place] = 0
            # entries not divisible by the divisor keep a smaller remainder: the next divisor has fewer factors
            products = product_residue(quotients[:, None], pivot[j:], modulus, modulus**2)
            left[:, j:] = (left[:, j:] - products) % modulus
            left[place] = pivot
            if np.count_nonzero(left[:, j]) == 1:
                form[j] = pivot
                left[place] = product_residue(pivot, modulus // divisor, modulus, modulus**2)
                break
    for j in range(columns):
        quotients = form[:j, j] // form[j, j]
        form[:j, j] -= quotients * form[j, j]
        # entries that are not reduced would grow beyond 64 bits
        form[:j, j + 1 :] -= product_residue(quotients[:, None], form[j, j + 1 :], modulus, modulus**2)
        form[:j, j + 1 :] %= modulus
    return form


def left_inverse(public: Int[np.ndarray, "m n"], modulus: int) -> Int[np.ndarray, "n m"] | None:
    """A matrix T with T A = 1 mod q, in O(n m^2). None if none exists: then A s mod q does not determine s."""
    m, n = public.shape
    form = modular_hermite_form(np.column_stack([public, np.eye(m, dtype=np.int64)]), modulus, n)
    return form[:, n:] if np.all(np.diagonal(form) == 1) else None


def _unit(value: int, cofactor: int, modulus: int) -> int:
    """A unit u mod q with u value = 1 mod the cofactor."""
    unit = pow(value, -1, cofactor) if cofactor > 1 else 1
    while math.gcd(unit, modulus) != 1:
        unit += cofactor
    return unit


def most_rows(seconds: float, modulus: int) -> int:
    """How many rows LLL, which cannot be stopped, reduces in half of the time; 2000 without a limit.

    A rule of thumb, measured for q up to 2^31: time grows with log q and the fifth power of the number of rows.
    """
    share = max(seconds, 0.0) / 60 * 7 / max(math.log2(modulus), 7)
    return 2000 if math.isinf(seconds) else int(_ROWS_IN_30_SECONDS * share**0.2)


def reduction_seconds(rows: int, block_size: int) -> float:
    """About how long LLL and a few tours of BKZ take, with blocks that grow up to a size of at most 40."""
    return 0.05 * (rows / 60) ** 3 * (1 if block_size <= 30 else 5)


def larger_block(block_size: int) -> int:
    """The next block size after this one."""
    return block_size + (4 if block_size < 46 else 2)


class Reduction:
    """A basis that is reduced in place: by LLL when it is made, one call that cannot be stopped, then by tours of BKZ.

    The attempt's memory and clock are checked before LLL, and its clock after each block. The pruning of BKZ 2.0 (Chen
    and Nguyen 2011) is computed here for each block size, from the geometric series assumption, because fpylll's wheel
    has no strategies. fpylll makes random choices with its single global generator; `generator` draws the seed.
    """

    def __init__(
        self,
        basis: Int[np.ndarray, "D D"],
        attempt: Attempt,
        generator: np.random.Generator,
        *,
        short: Int[np.ndarray, "own D"] | None = None,
    ) -> None:
        """`short` are short vectors of the lattice. LLL begins with them, so the first rows span what they span."""
        from fpylll import FPLLL, LLL, IntegerMatrix

        self.dim, self._attempt = len(basis), attempt
        attempt.require_memory(64 * self.dim**2, f"A basis of {self.dim} rows")
        attempt.details.update(dimension=self.dim, block_size=2)
        attempt.check()
        FPLLL.set_random_seed(int(generator.integers(2**31)))
        rows = basis if short is None else np.vstack([short, basis])
        matrix = IntegerMatrix.from_matrix(rows.tolist())
        LLL.reduction(matrix)
        # dependent rows became zero, and come first
        self.matrix = matrix.submatrix(len(rows) - self.dim, 0, len(rows), matrix.ncols)

    def tour(self, block_size: int, first: int = 0) -> Iterator[int]:
        """One tour of BKZ over the rows from `first` on; yields the first row of each block when it is done."""
        from fpylll import BKZ
        from fpylll.fplll.bkz import BKZReduction

        gso, lll = self._objects
        parameters = bkz_parameters(block_size)
        bkz = BKZReduction(gso, lll, BKZ.Param(2))
        for place in range(first, self.dim - 1):
            bkz.svp_reduction(place, min(block_size, self.dim - place), parameters)
            self._attempt.check()
            yield place
        lll()

    def close(
        self, target: Float[np.ndarray, " D"], first: int, bounds: Float[np.ndarray, " d"], *, most: int
    ) -> Int[np.ndarray, "N D"]:
        """Combinations of the rows from `first` on that are close to a target, by pruned enumeration: `most` at most.

        `bounds[i]` is the largest squared length of the part of the difference that is orthogonal to the first
        `first + i` rows. The enumeration cannot be stopped.
        """
        from fpylll import Enumeration, EvaluatorStrategy
        from fpylll.fplll.enumeration import EnumerationError

        gso, _ = self._objects
        gso.update_gso()
        enumeration = Enumeration(gso, nr_solutions=most, strategy=EvaluatorStrategy.FIRST_N_SOLUTIONS)
        # coordinates of the whole target: fplll counts them from the first row of the basis
        given = {"target": gso.from_canonical(target.tolist()), "pruning": (bounds / bounds[0]).tolist()}
        try:
            solutions = enumeration.enumerate(first, self.dim, float(bounds[0]), 0, **given)
        except EnumerationError:  # there is none
            solutions = []
        coefficients = np.array([coordinates for _, coordinates in solutions]).reshape(
            len(solutions), self.dim - first
        )
        return np.rint(coefficients).astype(np.int64) @ self.rows(range(first, self.dim))

    def rows(self, places: Iterable[int]) -> Int[np.ndarray, "rows D"]:
        """Rows of the basis as it is now."""
        entries = [[int(entry) for entry in self.matrix[place]] for place in places]
        return np.array(entries, dtype=np.int64).reshape(len(entries), self.matrix.ncols)

    def marked(self, value: int, places: Iterable[int], *, longest: float) -> list[int]:
        """The rows among `places` whose last entry is plus or minus `value` and whose length is at most `longest`."""
        last = self.matrix.ncols - 1
        marked = [place for place in places if abs(self.matrix[place, last]) == value]
        return [place for place in marked if self.matrix[place].norm() <= longest]

    @cached_property
    def _objects(self) -> tuple[Any, Any]:
        from fpylll import GSO, LLL

        gso = GSO.Mat(self.matrix, float_type="d" if self.dim <= 160 else "ld")
        gso.update_gso()
        return gso, LLL.Reduction(gso)


@lru_cache(maxsize=64)
def bkz_parameters(block_size: int) -> Any:
    """The parameters of a BKZ call with that block size."""
    from fpylll import BKZ

    return BKZ.Param(
        block_size,
        strategies=[_strategy(size) for size in range(block_size + 1)],
        flags=BKZ.MAX_LOOPS | BKZ.GH_BND,
        max_loops=1,
    )


@lru_cache(maxsize=128)
def _strategy(block_size: int) -> Any:
    from fpylll import Pruning
    from fpylll.fplll.bkz_param import Strategy
    from fpylll.util import gaussian_heuristic

    if block_size < _UNPRUNED:
        return Strategy(block_size)
    factor = root_hermite_factor(block_size)
    profile = [factor ** (2 * (block_size - 1 - 2 * place)) for place in range(block_size)]
    pruning = Pruning.run(
        1.05 * gaussian_heuristic(profile),
        2**16 if block_size < 50 else 2**18,
        [profile],
        0.5 if block_size < 50 else 0.3,
        flags=Pruning.GRADIENT,
    )
    before = [] if block_size < 40 else [block_size - (20 if block_size < 60 else 22)]
    return Strategy(block_size, preprocessing_block_sizes=before, pruning_parameters=[pruning])


@dataclass(frozen=True)
class TrialPlan:
    """What a trial of an attack does that leaves columns of the matrix out."""

    columns: int  #: how many are left out
    samples: int  #: m, the rows of the lattice
    success: float  #: the probability that one trial finds the secret
    seconds: float  #: about how long a trial takes

    @property
    def trials(self) -> int:
        """After so many trials the secret is missed with probability e^-7."""
        return math.ceil(7 / self.success)


class TrialAttack(Attack):
    """Trials that leave columns out. If those of the best plan would outlast the budget, the attack does not apply."""

    @abstractmethod
    def plan(self, attempt: Attempt, seconds: float, rng: np.random.Generator) -> Any:
        """The `TrialPlan` of the fewest expected seconds; None if no success is expected within so many."""

    @abstractmethod
    def trial(self, attempt: Attempt, plan: Any, rng: np.random.Generator) -> Iterator[Int[np.ndarray, " n"]]:
        """The secrets that one trial finds."""

    def run(self, attempt: Attempt, rng: np.random.Generator) -> Iterator[Finding]:
        """Find secrets, trial by trial."""
        require_lattices(attempt.parameters)
        seconds = _UNLIMITED_SECONDS if attempt.budget.seconds is None else attempt.seconds_left
        if (plan := self.plan(attempt, seconds, rng)) is None:
            raise AttackEndedError(
                AttackOutcome.NOT_APPLICABLE,
                f"No number of columns to leave out is worth its trials in {seconds:.3g} seconds.",
            )
        words, details = f"{plan.samples} samples without {plan.columns} columns", attempt.details
        for trial in range(plan.trials):
            attempt.check()
            details.update(samples=plan.samples, columns_left_out=plan.columns, rounds=trial + 1)
            for secret in self.trial(attempt, plan, rng):
                reduced = f"of dimension {details['dimension']}, LLL and BKZ with blocks up to {details['block_size']}"
                yield Finding(f"{words} in a lattice {reduced}.", secret, near=True)
        raise AttackEndedError(AttackOutcome.NOTHING, f"In {plan.trials} trials {words} gave no secret.")
