"""Search among the secrets of a distribution: two halves, samples as tests of their sums, and the likeliest secret."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from lwe.attacks.attack import Attack, AttackEndedError, AttackOutcome, Attempt, Finding
from lwe.attacks.evidence import errors_listed, label_residues, secret_score, share_right
from lwe.distributions import FixedWeight
from lwe.parameters import LWEParameters
from lwe.residues import centred
from lwe.samples import LWRSamples, Rounding, inner_products

_MOST_VALUES = 1 << 20
_SPARE_BITS = 10  # 2^-10 false candidates are expected to pass the chosen samples
_TRIALS = 2048
_AT_ONCE = 1 << 16
_JUDGED = 2e4  # candidates, judged in about 15 seconds
_TAILS = 1e-3  # the chance that a secret has a tail value, which are left out
_MISSED = 0.01  # the chance that one round with errors drops the secret


@dataclass(frozen=True, eq=False)
class Half:
    """Vectors of one length, numbered: the values of a part of the secret's entries."""

    size: int  #: the length
    number: int  #: how many there are
    vectors: Callable[[Int[np.ndarray, " N"]], Int[np.ndarray, "N size"]]  #: those of some numbers


def _product_half(values: Int[np.ndarray, " v"], size: int) -> Half:
    """Vectors of independent entries, each one of `values`; the last entry counts fastest."""
    most = len(values)
    powers = most ** np.arange(size - 1, -1, -1)
    return Half(size, most**size, lambda indices: values[indices[:, None] // powers % most])


def _sparse_half(size: int, weight: int, signs: bool) -> Half:
    """Vectors with exactly `weight` entries that are 1, or with signs -1 or 1, the others 0.

    Their places are numbered by the combinatorial number system, their signs by bits.
    """
    ways = [
        np.array([min(math.comb(top, place), 1 << 62) for top in range(size + 1)])
        for place in range(weight + 1)
    ]

    def vectors(indices: Int[np.ndarray, " N"]) -> Int[np.ndarray, "N size"]:
        found, every = np.zeros((len(indices), size), dtype=np.int64), np.arange(len(indices))
        indices, negative = np.divmod(indices, 1 << weight if signs else 1)
        for place in range(weight, 0, -1):
            chosen = np.searchsorted(ways[place], indices, side="right") - 1
            indices = indices - ways[place][chosen]
            found[every, chosen] = 1 - 2 * (negative >> (place - 1) & 1)
        return found

    return Half(size, math.comb(size, weight) << (weight if signs else 0), vectors)


Pairs = tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"], int]
"""Pairs (i, j) of a first and a second half that pass all windows, and the number of pairs that were tested."""


@dataclass(frozen=True, eq=False)
class SecretSpace:
    """All secrets of a distribution."""

    number: int  #: how many
    #: A bound on the probability that the secret is not among them, because the tails of the distribution are cut off
    missed: float
    #: maps a size m to pairs of halves on the first n - m and the last m entries; the pairs together give every
    #: secret once
    split: Callable[[int], list[tuple[Half, Half]]]

    def __str__(self) -> str:
        return f"{self.number:.4g}" if self.number < 1 << 53 else f"2^{math.log2(self.number):.1f}"


def secret_space(parameters: LWEParameters) -> SecretSpace | None:
    """The secrets of the parameters' distribution; None if their entries have more than 2^20 values.

    Tail values are left out as long as the probability that a secret has one of them is at most 1/1000.
    """
    n, q, distribution = parameters.n, parameters.q, parameters.Xs
    if isinstance(distribution, FixedWeight):  # all signs: a superset where their numbers are fixed too
        weight, signs = distribution.total, q > 2 and distribution.counts[1] > 0

        def halves(size: int) -> list[tuple[Half, Half]]:
            weights = range(max(0, weight - size), min(weight, n - size) + 1)
            return [
                (_sparse_half(n - size, share, signs), _sparse_half(size, weight - share, signs))
                for share in weights
            ]

        return SecretSpace(halves(n)[0][1].number, 0.0, halves)
    if not distribution.listed or (distribution.is_uniform(q) and q > _MOST_VALUES):
        return None
    values, weights = distribution.support(q)
    order = np.argsort(-weights, kind="stable")
    left_out = 1 - np.cumsum(weights[order])
    likely = order[: 1 + int(np.argmax(left_out <= _TAILS / n))]
    if len(likely) > _MOST_VALUES:
        return None
    values = values[likely]
    lost = max(0.0, n * float(left_out[len(likely) - 1]))
    return SecretSpace(
        int(len(values) ** n),
        lost if lost > 1e-12 else 0.0,
        lambda size: [(_product_half(values, n - size), _product_half(values, size))],
    )


def label_windows(
    labels: Int[np.ndarray, " N"],
    parameters: LWEParameters,
    *,
    missed: float,
    rounding: Rounding = "down",
) -> tuple[Int[np.ndarray, " N"], Int[np.ndarray, " N"]]:
    """For each label, the residues <a, s> mod q that it allows: the first, and how many follow one another.

    With errors, the window misses the true residue with probability at most `missed`.
    """
    q = parameters.q
    first, after = label_residues(labels, parameters, rounding)
    if not parameters.noisy:
        return first, after - first
    if parameters.Xe.is_uniform(q):
        return first, np.full_like(first, q)
    errors, weights = parameters.error_support()
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
        rng: np.random.Generator,
    ) -> "Windows":
        """Samples that leave 2^-10 false candidates, or all samples; chosen by trials on random candidates.

        Samples that exclude no candidate are left out, so the choice can be empty.
        """
        q = parameters.q
        some = rng.permutation(len(samples))[:256]
        rows = centred(samples.public[some], q)
        first, width = label_windows(
            samples.labels[some], parameters, missed=missed, rounding=samples.rounding
        )
        _, half = space.split(parameters.n)[0]
        trials = half.vectors(rng.integers(half.number, size=_TRIALS))
        passes = _residues(trials, rows, first, q) < width
        rates = passes.mean(axis=0)
        telling = np.flatnonzero((rates < 1 - 1e-3) & (width < q))
        order, shares, alive = list[int](), list[float](), np.ones(_TRIALS, dtype=bool)
        bits = math.log2(space.number) + _SPARE_BITS
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
        self, half: Half, attempt: Attempt, *, last: bool = False, numbers: range | None = None
    ) -> Int[np.ndarray, "K number"]:
        """The inner products mod q of all or some vectors of a half; for the last half, minus the starts."""
        numbers = range(half.number) if numbers is None else numbers
        rows = self.rows[:, self.rows.shape[1] - half.size :] if last else self.rows[:, : half.size]
        starts = self.starts if last else np.zeros_like(self.starts)
        products = np.empty((len(self), len(numbers)), dtype=self.dtype)
        for begin in range(0, len(numbers), _AT_ONCE):
            attempt.check()
            vectors = half.vectors(np.array(numbers[begin : begin + _AT_ONCE]))
            products[:, begin : begin + _AT_ONCE] = _residues(vectors, rows, starts, self.modulus).T
        return products

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


@dataclass(frozen=True)
class SearchAttack(Attack):
    """The common part of exhaustive search and meet in the middle: limits, choice of samples, rounds, answer."""

    most: ClassVar[int] = (
        1 << 62
    )  #: candidates; a larger search is refused before it starts, on every machine

    @abstractmethod
    def candidates(
        self, attempt: Attempt, space: SecretSpace, windows: Windows
    ) -> Iterator[Int[np.ndarray, "N n"]]:
        """All secrets that pass the windows, some at a time."""

    def run(self, attempt: Attempt, rng: np.random.Generator) -> Iterator[Finding]:
        """Search, in up to three rounds if there are errors.

        Without errors the answer is the first candidate with all labels right. With errors it is the likeliest one.
        """
        parameters, samples = attempt.parameters, attempt.samples
        space = secret_space(parameters)
        if space is None:
            raise AttackEndedError(
                AttackOutcome.NOT_APPLICABLE,
                f"The entries of a {parameters.Xs} secret have too many values to list.",
            )
        if parameters.Xe.is_uniform(parameters.q):
            raise AttackEndedError(
                AttackOutcome.NOT_APPLICABLE,
                f"Labels do not depend on the secret: errors {parameters.Xe} are uniform mod {parameters.q}.",
            )
        if parameters.noisy and not errors_listed(parameters):
            raise AttackEndedError(
                AttackOutcome.REFUSED,
                f"The errors {parameters.Xe} have more values mod {parameters.q} than the 2^22 that are listed.",
            )
        if space.number > self.most:
            raise AttackEndedError(
                AttackOutcome.REFUSED,
                f"There are {space} candidates, and 2^{math.log2(self.most):.0f} are the most: take a smaller secret.",
            )
        attempt.details.update({"candidates": space.number, "missed_tails": space.missed})
        for turn in range(1, 4 if parameters.noisy else 2):
            windows = Windows.choose(samples, parameters, space, missed=_MISSED / 64, rng=rng)
            if not len(windows):
                raise AttackEndedError(
                    AttackOutcome.NOT_APPLICABLE,
                    "No sample excludes any candidate: the labels of all of them are alike, or the errors too wide.",
                )
            # where all samples are windows already, no others tell the candidates that are left apart
            if windows.left * space.number > (_JUDGED if len(windows) == len(samples) else 1e6):
                raise AttackEndedError(
                    AttackOutcome.TOO_FEW_SAMPLES,
                    f"{len(windows)} samples would leave about {windows.left * space.number:.2g} of {space} "
                    "candidates: give more samples.",
                )
            missed = len(windows) * _MISSED / 64 if parameters.noisy else 0.0
            attempt.details.update({"windows": len(windows), "rounds": turn, "missed_errors": missed**turn})
            which = "the likeliest" if parameters.noisy else "with all labels"
            words = f"Of {space} candidates a secret was found, {which} of {len(samples)}."
            best = None
            try:
                for vector in self._better(attempt, space, windows):
                    best = vector
            except AttackEndedError:
                if best is not None:
                    yield Finding(words, best)
                raise
            if best is not None:
                yield Finding(words, best)
                return
        raise AttackEndedError(
            AttackOutcome.NOTHING,
            f"None of {space} candidates has the labels: the secret or the errors are of another distribution.",
        )

    def _better(
        self, attempt: Attempt, space: SecretSpace, windows: Windows
    ) -> Iterator[Int[np.ndarray, " n"]]:
        """Candidates that pass, each likelier than those before; without errors only one that has all labels."""
        parameters, samples = attempt.parameters, attempt.samples
        few = samples.take(min(64, len(samples)))  # these exclude most wrong candidates
        score, highest = secret_score(samples, parameters), -math.inf if parameters.noisy else 1 - 1e-12
        attempt.details["judged"] = 0
        for vectors in self.candidates(attempt, space, windows):
            for vector in vectors:
                attempt.check()
                attempt.details["judged"] += 1
                if not parameters.noisy and share_right(vector, few, parameters) < 1:
                    continue
                if (value := score(vector)) > highest:
                    highest = value
                    yield vector
                    if not parameters.noisy:
                        return


def even_split(space: SecretSpace, n: int, *, most: int = 1 << 62) -> int:
    """The size of the second half that makes both lists shortest, if the second list has at most `most` entries."""
    fitting = [size for size in range(n + 1) if max(last.number for _, last in space.split(size)) <= most]
    return min(fitting, key=lambda size: sum(first.number + last.number for first, last in space.split(size)))


def _residues(
    vectors: Int[np.ndarray, "N size"],
    rows: Int[np.ndarray, "K size"],
    starts: Int[np.ndarray, " K"],
    modulus: int,
) -> Int[np.ndarray, "N K"]:
    """<a, s> - start mod q for all vectors s and rows a; the rows are centred."""
    if modulus**2 * max(vectors.shape[1], 1) < 1 << 52:  # floating-point numbers are exact, and faster
        products = vectors.astype(np.float64) @ rows.T.astype(np.float64) - starts
        products -= modulus * np.floor(products / modulus)
        return products.astype(np.int64)
    products = np.stack([inner_products(vectors, row, modulus) for row in rows], axis=1)
    return np.mod(products - starts, modulus)
