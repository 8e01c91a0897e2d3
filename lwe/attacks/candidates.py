"""Secrets that a few samples leave possible, and those among them that all samples leave possible."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from lwe.attacks.attack import Attempt
from lwe.attacks.evidence import error_support, label_residues, secret_score, share_right
from lwe.attacks.secret_space import Half, ProductHalf, SecretSpace
from lwe.parameters import LWEParameters, centred
from lwe.samples import LWRSamples, Rounding, inner_products

__all__ = ["Judge", "Windows", "label_windows"]

_SPARE_BITS = 10  # 2^-10 false candidates are expected to pass the chosen samples
_TRIALS = 2048
_AT_ONCE = 1 << 16


def label_windows(
    labels: Int[np.ndarray, " N"],
    parameters: LWEParameters,
    *,
    missed: float,
    rounding: Rounding = "down",
) -> tuple[Int[np.ndarray, " N"], Int[np.ndarray, " N"]]:
    """For each label, the residues <a, s> mod q that it allows: the first, and how many follow one another.

    With errors, the window misses the true residue with probability at most `missed`. `RefusedError` if errors have too
    many values to list.
    """
    q = parameters.q
    first, after = label_residues(labels, parameters, rounding)
    if not parameters.noisy:
        return first, after - first
    if parameters.Xe.is_uniform(q):
        return first, np.full_like(first, q)
    errors, weights = error_support(parameters)
    mass = np.cumsum(weights)
    least = int(errors[np.searchsorted(mass, missed / 2, side="right")])
    most = int(errors[min(int(np.searchsorted(mass, 1 - missed / 2)), len(errors) - 1)])
    return np.mod(first - most, q), np.minimum(after - first + most - least, q)


@dataclass(frozen=True, eq=False)
class Windows:
    """Samples as tests of candidates; the tests that exclude the most come first."""

    rows: Int[np.ndarray, "K n"]  #: the rows a, centred mod q
    #: A candidate passes if (<a, s> - start) mod q < width
    starts: Int[np.ndarray, " K"]
    widths: Int[np.ndarray, " K"]
    #: the share of candidates that pass, among those that passed the earlier tests; measured, or the mean
    passing: Float[np.ndarray, " K"]
    modulus: int  #: q

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def choose(
        cls,
        samples: LWRSamples,
        parameters: LWEParameters,
        space: SecretSpace,
        *,
        missed: float,
        generator: np.random.Generator,
    ) -> "Windows":
        """Samples that leave 2^-10 false candidates, or all samples; chosen by trials on random candidates.

        Samples that exclude no candidate are left out, so the choice can be empty.
        """
        q = parameters.q
        some = generator.permutation(len(samples))[:256]
        rows = centred(samples.public[some], q)
        first, width = label_windows(
            samples.labels[some], parameters, missed=missed, rounding=samples.rounding
        )
        _, half = space.split(parameters.n)[0]
        if isinstance(half, ProductHalf):
            vectors = generator.choice(half.values, size=(_TRIALS, half.size))
        else:
            vectors = half.vectors(generator.integers(half.number, size=_TRIALS))
        passes = _residues(vectors, rows, first, q) < width
        rates = passes.mean(axis=0)
        telling = np.flatnonzero((rates < 1 - 1e-3) & (width < q))
        order: list[int] = []
        shares: list[float] = []
        bits = math.log2(space.number) + _SPARE_BITS
        alive = np.ones(_TRIALS, dtype=bool)
        rest = list(telling[np.argsort(rates[telling], kind="stable")])
        # a share too small for the trials counts as half of one trial
        mean = max(float(rates[telling].mean()), 0.5 / _TRIALS) if len(telling) else 1.0
        while rest and bits > 0:
            at, share = 0, mean
            if alive.sum() >= 32:
                now = passes[alive][:, rest].mean(axis=0)
                at = int(np.argmin(now))
                share = max(float(now[at]), 0.5 / alive.sum())
            order.append(rest.pop(at))
            shares.append(share)
            alive &= passes[:, order[-1]]
            bits += math.log2(share)
        return cls(rows[order], first[order], width[order], np.array(shares), q)

    @property
    def dtype(self) -> np.dtype:
        """A type in which two residues can be added."""
        return np.dtype(np.int32 if self.modulus < 1 << 30 else np.int64)

    @property
    def left(self) -> float:
        """The share of false candidates that pass them all, if they pass independently."""
        return float(np.prod(self.passing))

    def sums(
        self, half: Half, check: Callable[[], None], *, last: bool = False, numbers: range | None = None
    ) -> Int[np.ndarray, "K number"]:
        """The inner products mod q of all or some vectors of a half; for the last half, minus the starts.

        `check` is called from time to time, and may raise.
        """
        numbers = range(half.number) if numbers is None else numbers
        rows = self.rows[:, self.rows.shape[1] - half.size :] if last else self.rows[:, : half.size]
        starts = self.starts if last else np.zeros_like(self.starts)
        found = np.empty((len(self), len(numbers)), dtype=self.dtype)
        for begin in range(0, len(numbers), _AT_ONCE):
            check()
            vectors = half.vectors(np.array(numbers[begin : begin + _AT_ONCE]))
            found[:, begin : begin + _AT_ONCE] = _residues(vectors, rows, starts, self.modulus).T
        return found

    def fit(self, test: int, sums: np.ndarray, wider: np.ndarray | int = 0) -> Bool[np.ndarray, "..."]:
        """Whether sums of two residues are in the window of a test, or in a window that is larger by `wider`."""
        np.subtract(sums, self.modulus, out=sums, where=sums >= self.modulus)
        return sums < self.widths[test] + wider

    def surviving(
        self, left: np.ndarray, right: np.ndarray, i: np.ndarray, j: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The pairs (i, j) of columns of sums that pass all tests."""
        for test in range(len(self)):
            if not len(i):
                break
            passed = self.fit(test, left[test, i] + right[test, j])
            i, j = i[passed], j[passed]
        return i, j


class Judge:
    """Compares candidates that passed the tests with all samples.

    Without errors the answer is the first candidate with all labels right. With errors it is the most likely one.
    """

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self.best: np.ndarray | None = None
        self.score = -math.inf
        self.offered = 0
        self._score = secret_score(attempt.samples, attempt.parameters)
        # a few samples exclude most wrong candidates
        self._few = attempt.samples.take(min(64, len(attempt.samples)))

    def offer(self, vectors: Int[np.ndarray, "N n"]) -> bool:
        """Judge candidates; True if no further ones are needed. Raises if no time is left."""
        parameters = self._attempt.parameters
        for vector in vectors:
            self._attempt.check()
            self.offered += 1
            if not parameters.noisy and share_right(vector, self._few, parameters) < 1:
                continue
            score = self._score(vector)
            if parameters.noisy and score > self.score:
                self.best, self.score = vector, score
            elif not parameters.noisy and score == 1:
                self.best, self.score = vector, score
                return True
        return False


def _residues(
    vectors: Int[np.ndarray, "N size"],
    rows: Int[np.ndarray, "K size"],
    starts: Int[np.ndarray, " K"],
    modulus: int,
) -> Int[np.ndarray, "N K"]:
    """<a, s> - start mod q for all vectors s and rows a; the rows are centred."""
    if modulus**2 * max(vectors.shape[1], 1) < 1 << 52:  # floating-point numbers are exact, and faster
        found = vectors.astype(np.float64) @ rows.T.astype(np.float64) - starts
        found -= modulus * np.floor(found / modulus)
        return found.astype(np.int64)
    found = np.stack([inner_products(vectors, row, modulus) for row in rows], axis=1)
    return np.mod(found - starts, modulus)
