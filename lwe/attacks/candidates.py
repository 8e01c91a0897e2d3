"""Which secrets a few samples leave possible, and which of those all samples do."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from lwe.attacks.secret_space import Half, ProductHalf, SecretSpace, products
from lwe.attempt import Attempt
from lwe.evidence import error_support, label_log_likelihoods, label_residues
from lwe.parameters import LWRParameters, centred, rounded
from lwe.samples import LWRSamples, inner_products

__all__ = ["Judge", "Ring", "Windows", "label_windows"]

_SPARE_BITS = 10  # of false candidates, 2^-10 are expected to pass the samples chosen
_TRIALS = 2048


def label_windows(
    labels: Int[np.ndarray, " N"], parameters: LWRParameters, *, missed: float
) -> tuple[Int[np.ndarray, " N"], Int[np.ndarray, " N"]]:
    """For each label, the residues <a, s> mod q that it allows: the first, and how many follow one another.

    With errors, up to probability `missed` that the true one is not among them.

    Raises
    ------
    BudgetSpentError
        If errors have more values than are listed.
    """
    q = parameters.modulus
    first, after = label_residues(labels, parameters)
    if not parameters.noisy:
        return first, after - first
    if parameters.noise.is_uniform(q):
        return first, np.full_like(first, q)
    errors, weights = error_support(parameters)
    mass = np.cumsum(weights)
    least = int(errors[np.searchsorted(mass, missed / 2, side="right")])
    most = int(errors[min(int(np.searchsorted(mass, 1 - missed / 2)), len(errors) - 1)])
    return np.mod(first - most, q), np.minimum(after - first + most - least, q)


@dataclass(frozen=True)
class Ring:
    """Residues mod q in the fewest bytes, so that the test (x + y) mod q < w takes few operations.

    Notes
    -----
    A power of two is scaled to the width of a machine number, which then wraps by itself; for other moduli the sum
    is below 2q, and the smaller of it and of itself minus q, which wraps to a large number if negative, is reduced.
    """

    modulus: int

    @cached_property
    def natural(self) -> bool:
        """Whether q is a power of two."""
        return self.modulus & (self.modulus - 1) == 0

    @cached_property
    def dtype(self) -> np.dtype:
        """Unsigned, of 8, 16 or 32 bits."""
        largest = self.modulus if self.natural else 2 * self.modulus
        return np.dtype(np.uint8 if largest <= 1 << 8 else np.uint16 if largest <= 1 << 16 else np.uint32)

    @cached_property
    def factor(self) -> int:
        """By what residues are multiplied."""
        return (1 << (8 * self.dtype.itemsize)) // self.modulus if self.natural else 1

    def encode(self, residues: Int[np.ndarray, "..."]) -> Shaped[np.ndarray, "..."]:
        """Residues in [0, q) as such numbers."""
        return (residues * self.factor).astype(self.dtype)

    def below(self, x: np.ndarray, y: np.ndarray, width: int) -> Bool[np.ndarray, "..."]:
        """Whether (x + y) mod q < width, for 0 < width <= q."""
        total = x + y
        if not self.natural:
            np.minimum(total, total - self.dtype.type(self.modulus), out=total)
        return total <= self.dtype.type(width * self.factor - 1)


@dataclass(frozen=True, eq=False)
class Windows:
    """Samples as tests of candidates, the most telling first.

    Attributes
    ----------
    rows : array of int (K, n)
        The rows a, centred mod q.
    starts, widths : array of int (K,)
        A candidate passes if (<a, s> - start) mod q < width.
    passing : array (K,)
        The share of candidates that pass, of those that passed the tests before; measured, or by the mean.
    chosen : array of int (K,)
        Which samples they are.
    ring : Ring
        In which sums are compared.
    """

    rows: Int[np.ndarray, "K n"]
    starts: Int[np.ndarray, " K"]
    widths: Int[np.ndarray, " K"]
    passing: Float[np.ndarray, " K"]
    chosen: Int[np.ndarray, " K"]
    ring: Ring

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def choose(
        cls,
        samples: LWRSamples,
        parameters: LWRParameters,
        space: SecretSpace,
        *,
        missed: float,
        generator: np.random.Generator,
    ) -> "Windows":
        """As many samples as leave 2^-10 false candidates, or all of them; tried on random candidates.

        Samples that exclude nobody are left out, so the choice can be empty.
        """
        q = parameters.modulus
        some = generator.permutation(len(samples))[:256]
        rows = centred(samples.public[some], q)
        first, width = label_windows(samples.labels[some], parameters, missed=missed)
        _, half = space.split(parameters.secret_dim)[0]
        if isinstance(half, ProductHalf):
            vectors = generator.choice(half.values, size=(_TRIALS, half.size))
        else:
            vectors = half.vectors(generator.integers(half.number, size=_TRIALS))
        passes = np.mod(products(vectors, rows, q) - first, q) < width
        rates = passes.mean(axis=0)
        telling = np.flatnonzero((rates < 1 - 1e-3) & (width < q))
        order: list[int] = []
        shares: list[float] = []
        bits = math.log2(space.number) + _SPARE_BITS
        alive = np.ones(_TRIALS, dtype=bool)
        rest = list(telling[np.argsort(rates[telling], kind="stable")])
        while rest and bits > 0 and alive.sum() >= 32:
            now = passes[alive][:, rest].mean(axis=0)
            at = int(np.argmin(now))
            share = max(float(now[at]), 0.5 / alive.sum())
            chosen = rest.pop(at)
            order.append(chosen)
            shares.append(share)
            alive &= passes[:, chosen]
            bits += math.log2(share)
        # a share below what the trials can measure is taken as half of one of them
        mean = max(float(rates[telling].mean()), 0.5 / _TRIALS) if len(telling) else 1.0
        while rest and bits > 0:
            order.append(rest.pop(0))
            shares.append(mean)
            bits += math.log2(mean)
        at_last = np.array(order, dtype=np.int64)
        return cls(rows[at_last], first[at_last], width[at_last], np.array(shares), some[at_last], Ring(q))

    @property
    def left(self) -> float:
        """The share of false candidates that pass them all, if they pass independently."""
        return float(np.prod(self.passing))

    def sums(
        self, half: Half, columns: slice, *, shifted: bool, check: Callable[[], None]
    ) -> Shaped[np.ndarray, "K number"]:
        """The encoded inner products of all vectors of a half; `shifted`: with the starts taken off.

        `check` is called before each of the samples, and may raise.
        """
        found = np.empty((len(self), half.number), dtype=self.ring.dtype)
        for test in range(len(self)):
            check()
            residues = half.residues(self.rows[test : test + 1, columns], self.ring.modulus)[0]
            if shifted:
                residues = np.mod(residues - self.starts[test], self.ring.modulus)
            found[test] = self.ring.encode(residues)
        return found

    def some_sums(self, vectors: Int[np.ndarray, "N size"], columns: slice) -> Shaped[np.ndarray, "K N"]:
        """The encoded inner products of some vectors of a first half."""
        return self.ring.encode(products(vectors, self.rows[:, columns], self.ring.modulus).T)

    def surviving(
        self,
        left: np.ndarray,
        right: np.ndarray,
        i: np.ndarray,
        j: np.ndarray,
        first: int = 0,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The pairs (i, j) of columns of encoded sums that pass all tests from the number `first` on."""
        for test in range(first, len(self)):
            if not len(i):
                break
            passed = self.ring.below(left[test, i], right[test, j], int(self.widths[test]))
            i, j = i[passed], j[passed]
        return i, j


class Judge:
    """Candidates that passed the tests are held against all samples here.

    Without errors the first one with all labels is the answer. With errors the likeliest is.

    Parameters
    ----------
    attempt : Attempt
        The run; its training samples are the judges.
    """

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._samples, self._parameters = attempt.training, attempt.parameters
        self.best: np.ndarray | None = None
        self.score = -math.inf
        self.offered = 0
        if self._parameters.noisy:
            self._likelihoods = label_log_likelihoods(self._samples, self._parameters)

    def offer(self, vectors: Int[np.ndarray, "N n"]) -> bool:
        """Look at candidates; True if no other one needs to be looked at.

        Raises
        ------
        BudgetSpentError
            If the time is over; `best` is what was found until then.
        """
        for vector in vectors:
            self._attempt.check()
            self.offered += 1
            if self._parameters.noisy:
                score = float(self._likelihoods(vector).sum())
                if score > self.score:
                    self.best, self.score = vector, score
            elif self._fits(vector):
                self.best, self.score = vector, 0.0
                return True
        return False

    def _fits(self, vector: np.ndarray) -> bool:
        q, p = self._parameters.modulus, self._parameters.levels
        few = slice(0, 64)  # most that are wrong are so on few samples
        for rows, labels in (
            (self._samples.public[few], self._samples.labels[few]),
            (self._samples.public, self._samples.labels),
        ):
            if not np.array_equal(rounded(inner_products(rows, vector, q), q, p), labels):
                return False
        return True
