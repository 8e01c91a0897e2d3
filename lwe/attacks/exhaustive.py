"""Exhaustive search: try every secret, 64 at once, and drop it at the first sample that contradicts it."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Int

from attention.validation import checked
from lower.walsh import walsh_hadamard
from lwe.attacks.attack import AttackEndedError, AttackOutcome, Attempt, Finding
from lwe.attacks.search import Pairs, SearchAttack, SecretSpace, Windows, even_split, secret_space
from lwe.costs.deviations import error_character

_BLOCK = 1 << 16  # halves whose sums are in memory at once
_PIECE = 1 << 12  # second halves whose table is in the processor's cache
_FIRSTS = 1 << 10
_CELLS = 1 << 5
_RELIANCE = 3.0  # standard deviations between the largest wrong sum and the right one
_CHOSEN = 1 << 22  # candidates times samples in memory at once
_ROW_BITS = 16  # a pair tested on its own costs as much as many words
_TRANSFORMED = 25  # the most bits of a secret for a transform over all secrets: 1 GiB


@dataclass(frozen=True)
@checked
class ExhaustiveAttack(SearchAttack):
    """Try all secrets of the distribution, sample by sample with early abort.

    Applies to distributions with few secrets: binary, ternary, sparse, binomial and rounded Gaussian, and uniform with
    a small modulus; with any public matrix, with rounding and with small errors.

    Notes
    -----
    A secret is cut into two halves. For each residue of the first half, rounded to one of 32 cells, a table of bits
    marks the second halves that fit. The rows of a few samples are combined by AND, 64 candidates in one operation. The
    few remaining candidates are tested one by one. The samples that exclude the most are used first. S candidates (v^n
    for entries of v values, C(n, h) 2^h for sparse ones) cost about S / (8 log2 p) operations on words. Memory is
    constant.

    Without errors the search is complete: if a secret of the distribution has all labels right, it finds one. With
    errors it drops a candidate at an error so rare that, over all samples used, its chance is below 1/100. If no
    candidate remains, up to two more rounds use other samples. Tails that a secret reaches with probability below
    1/1000 are not tried. Both numbers are in `details`.

    A flipped bit excludes nobody. So for q = 2 with flips the answer is the candidate that most labels agree with. Up
    to n = 25 a Walsh-Hadamard transform counts for all 2^n secrets in all N samples: O(N n + n 2^n). Beyond, each
    candidate is compared with (sqrt(2 ln S) + 3)^2 / (1 - 2 eta)^2 samples: O(S N n).

    Examples
    --------
    >>> from lwe import LWEParameters, TERNARY, make_samples
    >>> parameters = LWEParameters(n=8, q=16, p=2, Xs=TERNARY)
    >>> samples, secret = make_samples(parameters, 500, rng=0)
    >>> result = ExhaustiveAttack()(samples, parameters, rng=0)
    >>> result.outcome.name, bool((result.secret == secret).all())
    ('BROKEN', True)
    """

    name: ClassVar[str] = "exhaustive"
    most: ClassVar[int] = 1 << 36

    def run(self, attempt: Attempt, rng: np.random.Generator) -> Iterator[Finding]:
        """Search, in up to three rounds if there are errors; for flipped bits by the share of labels that agree."""
        parameters = attempt.parameters
        space = secret_space(parameters) if parameters.q == 2 and parameters.noisy else None
        if space and space.number <= self.most and not parameters.Xe.is_uniform(2):
            yield _by_agreement(attempt, space)
        else:
            yield from super().run(attempt, rng)

    def candidates(
        self, attempt: Attempt, space: SecretSpace, windows: Windows
    ) -> Iterator[Int[np.ndarray, "N n"]]:
        """Those that pass; the search ends as soon as its speed shows that time will not suffice."""
        n, tried, began = attempt.parameters.n, 0, time.perf_counter()
        for first, last in space.split(even_split(space, n, most=_BLOCK)):
            right = windows.sums(last, attempt, last=True)
            for start in range(0, first.number, _BLOCK):
                numbers = range(start, min(start + _BLOCK, first.number))
                left = windows.sums(first, attempt, numbers=numbers)
                for i, j, pairs in fitting_pairs(windows, left, right):
                    attempt.check()
                    tried += pairs
                    attempt.details["tried"] = tried
                    if len(i):
                        yield np.hstack([first.vectors(i + start), last.vectors(j)])
                    seconds = time.perf_counter() - began
                    needed = seconds / tried * (space.number - tried)
                    if seconds > 0.2 and needed > attempt.seconds_left:
                        raise AttackEndedError(
                            AttackOutcome.REFUSED,
                            f"There are {space} candidates, looked at {tried / seconds:.2g} a second: {needed:.3g} "
                            f"more seconds are needed and {attempt.seconds_left:.3g} are left.",
                        )


def _by_agreement(attempt: Attempt, space: SecretSpace) -> Finding:
    """The candidate that agrees with most of the labels, which are bits with flips."""
    parameters, samples, n = attempt.parameters, attempt.samples, attempt.parameters.n
    transform = n <= _TRANSFORMED
    if transform:
        attempt.require_memory(4 * 8 << n, "The transform")
    else:
        bias = error_character(parameters)
        # the largest of S wrong sums is about sqrt(2 ln S N); the right one, N times the bias, is to be well above it
        needed = math.ceil((math.sqrt(2 * math.log(space.number)) + _RELIANCE) ** 2 / bias**2)
        samples = samples.take(min(needed, len(samples)))
    attempt.details.update({"candidates": space.number, "samples": len(samples)})
    public, powers = samples.public & 1, 1 << np.arange(n)
    sums = np.empty(0)
    if transform:  # of signs: in each place the labels that agree minus those that do not
        sums = walsh_hadamard(np.bincount(public @ powers, 1.0 - 2 * samples.labels, 1 << n)) * 2.0**n
    columns = public.T.astype(np.float32)
    _, whole = space.split(n)[0]
    most, best = -1, np.zeros(n, dtype=np.int64)
    rows = _BLOCK if transform else max(1, _CHOSEN // len(samples))
    for start in range(0, space.number, rows):
        attempt.check()
        vectors = whole.vectors(np.arange(start, min(start + rows, space.number)))
        if transform:
            agreeing = (len(samples) + np.rint(sums[vectors @ powers]).astype(np.int64)) // 2
        else:  # whole numbers below 2^24 are exact in float32
            bits = (vectors.astype(np.float32) @ columns).astype(np.int32) & 1
            agreeing = np.count_nonzero(bits == samples.labels, axis=1)
        place = int(agreeing.argmax())
        if agreeing[place] > most:
            most, best = int(agreeing[place]), vectors[place]
    return Finding(f"Of {space} candidates this one agrees with most of {len(samples)} labels, {most}.", best)


def fitting_pairs(windows: Windows, left: np.ndarray, right: np.ndarray) -> Iterator[Pairs]:
    """The pairs (i, j) of columns that pass all windows, in parts, and the number of pairs in each part."""
    q, passing = windows.modulus, np.cumprod(windows.passing)
    # so many samples leave about one of 2^16 pairs
    tests = 1 + int(np.argmax(np.append(passing[:-1], 0.0) < 2.0**-_ROW_BITS))
    cells = min(q, _CELLS)
    ends = -(-np.arange(cells + 1) * q // cells)  # cell c has the residues ends[c] to ends[c + 1] - 1
    tests += tests % 2 if tests < len(windows) else 0
    cell = left[:tests].astype(np.int64) * cells // q
    # two samples in one table
    keys = [cell[test] * cells + cell[test + 1] for test in range(0, tests - 1, 2)]
    keys += [cell[tests - 1]] if tests % 2 else []
    for begin in range(0, right.shape[1], _PIECE):
        piece = right[:, begin : begin + _PIECE]
        single = [_table(windows, test, piece, ends) for test in range(tests)]
        tables = [
            (single[test][:, None] & single[test + 1]).reshape(cells**2, -1)
            for test in range(0, tests - 1, 2)
        ]
        tables += [single[tests - 1]] if tests % 2 else []
        for start in range(0, left.shape[1], _FIRSTS):
            fit = tables[0].take(keys[0][start : start + _FIRSTS], axis=0)
            row = np.empty_like(fit)
            for table, key in zip(tables[1:], keys[1:], strict=True):
                table.take(key[start : start + _FIRSTS], axis=0, out=row, mode="clip")
                np.bitwise_and(fit, row, out=fit)
            i, j = _set_bits(fit)
            yield *windows.surviving(left, right, i + start, j + begin), len(fit) * piece.shape[1]


def _table(windows: Windows, test: int, right: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """(cells, words): bit j of row c is set if second half j fits some residue of cell c."""
    # x + y is in the window for some x of the cell: a window from the cell's last residue on, wider by the cell
    sums = (ends[1:, None] - 1).astype(right.dtype) + right[test]
    fitting = np.packbits(windows.fit(test, sums, np.diff(ends)[:, None] - 1), axis=1, bitorder="little")
    return np.pad(fitting, ((0, 0), (0, -fitting.shape[1] % 8))).view(np.uint64)


def _set_bits(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows and the bit numbers that are set."""
    at = np.flatnonzero(words.ravel() != 0)  # flatnonzero is several times faster on truth values
    if not len(at):
        return at, at
    bits = np.unpackbits(words.ravel()[at].view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    which, bit = np.nonzero(bits)
    row, word = np.divmod(at[which], words.shape[1])
    return row, word * 64 + bit
