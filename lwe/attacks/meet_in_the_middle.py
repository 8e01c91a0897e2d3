"""Meet in the middle: cut the secret into two halves, and combine only halves that fit on some samples."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Int

from attention.validation import checked
from lwe.attacks.attack import Attempt
from lwe.attacks.exhaustive import fitting_pairs, tests_by_words
from lwe.attacks.search import SearchAttack, SecretSpace, Windows, even_split
from lwe.residues import product_quotient

__all__ = ["MeetInTheMiddleAttack"]

_PIECE = 1 << 12  # second halves that are looked up at once
_PAIRS = 1 << 20
_LARGEST_KEY = 1 << 22
# nanoseconds, as measured on one core of an ordinary machine: of a probe, of testing a pair, of a word for one sample
_PROBE, _PAIR, _WORD = 30.0, 12.0, 0.6


@dataclass(frozen=True)
@checked
class MeetInTheMiddleAttack(SearchAttack):
    """List both halves of the secret, and combine only those that fit on some samples.

    Applies to the secrets and errors of `ExhaustiveAttack`. It gains the most if labels are fine (p of 8 and more, or
    learning with small errors).

    Notes
    -----
    With x = <a', s'> of the first half and y = <a'', s''> of the second one, a label says that x + y mod q lies in
    a window of width w, about q/p. Lists of N = sqrt(S) halves each of S candidates are made, O(N) numbers for
    each sample used: about log2(S)/log2(q/w) of them.

    For each of m samples, Z_q is cut into floor(q/w) cells of at least w residues. The first halves are sorted into the
    boxes of m cells. For a second half, x must lie in a window of width w, which meets at most two neighbouring cells.
    So at most 2^m boxes are searched, and no pair is missed. About N 2^m boxes and N^2 (2w/q)^m pairs: near N for
    w << q, no gain for w = q/2. If boxes do not reduce the cost, all pairs are tried, as in `ExhaustiveAttack`, which
    also describes the treatment of errors.

    References
    ----------
    Howgrave-Graham 2007 (boxes for sums that nearly agree); Cheon, Hhan, Hong and Son 2019 (the same by hashing). The
    windows of rounding and the probing of both neighbours are derived here.

    Examples
    --------
    >>> from lwe import LWEParameters, TERNARY, make_samples
    >>> parameters = LWEParameters(n=12, q=64, p=16, Xs=TERNARY, matrix="uniform")
    >>> samples, secret = make_samples(parameters, 200, rng=0)
    >>> result = MeetInTheMiddleAttack()(samples, parameters, rng=0)
    >>> result.outcome.name, bool((result.secret == secret).all())
    ('BROKEN', True)
    """

    name: ClassVar[str] = "meet-in-the-middle"
    title: ClassVar[str] = "Meet in the middle"

    def candidates(
        self, attempt: Attempt, space: SecretSpace, windows: Windows
    ) -> Iterator[Int[np.ndarray, "N n"]]:
        """Those that pass, by the cheaper of two joins."""
        size = even_split(space, attempt.parameters.n)
        # nearly all sparse secrets have about half of their weight in each half, and these lists are the shortest
        for first, last in sorted(space.split(size), key=lambda both: both[0].number + both[1].number):
            longest = first.number + last.number
            numbers = longest * (len(windows) * windows.dtype.itemsize + 2 * 8 * len(windows))
            attempt.require_memory(numbers, f"Both lists, of {longest:.3g} halves together,")
            left, right = windows.sums(first, attempt), windows.sums(last, attempt, last=True)
            boxes = _Boxes.choose(windows, left, right)
            words = first.number * last.number / 64 * tests_by_words(windows) * _WORD
            by_boxes = boxes.cost < words
            attempt.details["join"] = "boxes" if by_boxes else "words"
            for i, j, _ in boxes.pairs() if by_boxes else fitting_pairs(windows, left, right):
                attempt.check()
                if len(i):
                    yield np.hstack([first.vectors(i), last.vectors(j)])


@dataclass(frozen=True, eq=False)
class _Boxes:
    """The first `len(cells)` samples; the residues of each are cut into cells at least as wide as a window."""

    windows: Windows
    left: np.ndarray
    right: np.ndarray
    cells: tuple[int, ...]
    cost: float  #: expected nanoseconds

    @classmethod
    def choose(cls, windows: Windows, left: np.ndarray, right: np.ndarray) -> "_Boxes":
        """The cheapest boxes under the assumption of uniform inner products."""
        q, number, halves = windows.modulus, left.shape[1], right.shape[1]
        best = cls(windows, left, right, (), halves * number * _PAIR)
        for coarser in (1, 2, 4):
            cells: tuple[int, ...] = ()
            probes, share, boxes = 1.0, 1.0, 1
            for width in windows.widths:
                k = max(1, q // (int(width) * coarser))
                boxes *= k
                if k < 2 or boxes > min(_LARGEST_KEY, 64 * number):
                    break
                cells += (k,)
                probes *= 1 + (int(width) - 1) * k / q
                share *= min(1.0, 1 / k + (int(width) - 1) / q)
                cost = halves * (probes * _PROBE + number * share * _PAIR)
                if cost < best.cost:
                    best = cls(windows, left, right, cells, cost)
        return best

    def pairs(self) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
        """The pairs (i, j) of columns that pass all windows, part by part, and how many pairs were tested for it."""
        keys = self._keys()
        order = np.argsort(keys, kind="stable")
        sizes = np.bincount(keys, minlength=self._boxes)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        left = self.left[:, order]  # boxes lie together: testing their pairs reads memory in order
        for begin in range(0, self.right.shape[1], _PIECE):
            of, probed = self._probes(self.right[:, begin : begin + _PIECE])
            filled = np.flatnonzero(sizes[probed])
            of, probed = of[filled] + begin, probed[filled]
            ends = np.cumsum(sizes[probed])
            done, since = 0, 0
            while done < len(of):  # so many probes at once that their pairs fit
                until = max(done + 1, int(np.searchsorted(ends, since + _PAIRS, side="right")))
                lengths = sizes[probed[done:until]]
                before = np.cumsum(lengths) - lengths
                i = np.repeat(starts[probed[done:until]] - before, lengths) + np.arange(lengths.sum())
                i, j = self.windows.surviving(left, self.right, i, np.repeat(of[done:until], lengths))
                yield order[i], j, int(lengths.sum())
                done, since = until, int(ends[until - 1])

    @property
    def _boxes(self) -> int:
        return int(np.prod(self.cells, dtype=np.int64))

    def _keys(self) -> np.ndarray:
        keys = np.zeros(self.left.shape[1], dtype=np.int64)
        for test, k in enumerate(self.cells):
            keys = keys * k + self._cell(self.left[test].astype(np.int64), k)
        return keys

    def _probes(self, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All boxes that may contain partners of the second halves (columns); `right` holds y - start."""
        q = self.windows.modulus
        of, keys = np.arange(right.shape[1]), np.zeros(right.shape[1], dtype=np.int64)
        for test, k in enumerate(self.cells):
            least = np.mod(-right[test].astype(np.int64), q)
            lower = self._cell(least, k)
            upper = self._cell(np.mod(least + int(self.windows.widths[test]) - 1, q), k)
            both = np.flatnonzero((lower != upper)[of])
            keys, of = (
                np.concatenate([keys * k + lower[of], keys[both] * k + upper[of[both]]]),
                np.concatenate([of, of[both]]),
            )
        return of, keys

    def _cell(self, residues: np.ndarray, k: int) -> np.ndarray:
        # every cell has at least floor(q/k) >= w residues, so a window meets at most two
        return product_quotient(residues, k, self.windows.modulus, k * self.windows.modulus)
