"""The secret is cut in two: what one half makes of some samples says which other halves can go with it."""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal, get_args

import numpy as np

from attention.validation import count, one_of
from lwe.attack import AttackResult
from lwe.attacks.candidates import Judge, Windows
from lwe.attacks.exhaustive import search_secrets
from lwe.attacks.secret_space import Half, SecretSpace
from lwe.attempt import Attempt, BaseAttack

__all__ = ["MeetInTheMiddleAttack"]

Join = Literal["boxes", "words"]

_PIECE = 1 << 12  # second halves whose table is in the processor's cache
_FIRSTS = 1 << 9
_PAIRS = 1 << 20
_ENOUGH_PAIRS = 1 << 14
_CELLS = 1 << 5
_ROW_BITS = 16  # a pair tested on its own costs as much as many words
_LARGEST_KEY = 1 << 22
# nanoseconds, as measured on one core of an ordinary machine: of a probe, of testing a pair, of a word for one sample
_PROBE, _PAIR, _WORD = 30.0, 12.0, 0.6


@dataclass(frozen=True)
class MeetInTheMiddleAttack(BaseAttack):
    """List both halves of the secret, and put together only those that fit on some samples.

    Applies to the secrets and errors of `ExhaustiveAttack`; gains most where labels are fine (p of 8 and more, or
    learning with small errors).

    Parameters
    ----------
    join : {"boxes", "words"}, optional
        How halves are put together, see Notes; by an estimate of their costs if left out.
    work : int, optional
        The most candidates there may be; None for no limit but the budget's seconds.

    Raises
    ------
    ValueError
        If `join` is another one or `work` is below 1.

    Notes
    -----
    With x = <a', s'> of the first half and y = <a'', s''> of the second one, a label says that x + y mod q lies in
    a window of width w, about q/p. Lists of N = sqrt(S) halves each of S candidates are made, O(N) numbers for
    each sample used: about log2(S)/log2(q/w) of them.

    Boxes: Z_q is cut into floor(q/w) cells of at least w residues, for each of m samples; the first halves are
    sorted into the boxes of m cells. For a second half, x must lie in a window of width w, which meets at most two
    neighbouring cells: at most 2^m boxes are looked into. So no pair is missed: the failure probability is 0. About
    N 2^m boxes and N^2 (2w/q)^m pairs; near N (the square root of exhaustive search) for w << q, no gain for w = q/2.

    Words: for each residue x the second halves that fit are a table of bits; the rows of a few samples are combined
    by AND, 64 pairs in one operation. Complete too; S/64 operations for about 8/log2(q/w) pairs of samples. It
    wins where labels are coarse (p = 2), by a constant factor only.

    Without errors it finds a secret if there is one of the law; with errors see `ExhaustiveAttack`.

    References
    ----------
    Howgrave-Graham 2007, "A hybrid lattice-reduction and meet-in-the-middle attack against NTRU" (boxes for sums
    that nearly agree); Cheon, Hhan, Hong and Son 2019, "A hybrid of dual and meet-in-the-middle attack on sparse and
    ternary secret LWE" (the same with locality-sensitive hashing). The windows of rounding, the probing of both
    neighbours and the comparison by words are derived here.

    Examples
    --------
    >>> from lwe.laws import TernaryLaw
    >>> from lwe.parameters import LWRParameters
    >>> from lwe.samples import make_samples
    >>> parameters = LWRParameters(secret_dim=12, modulus=64, levels=16, secret=TernaryLaw(), matrix="uniform")
    >>> samples, secret = make_samples(parameters, 200, rng=0)
    >>> result = MeetInTheMiddleAttack()(samples, parameters, rng=0)
    >>> result.outcome.name, bool((result.secret == secret).all())
    ('BROKEN', True)
    """

    join: Join | None = None
    work: int | None = None

    name: ClassVar[str] = "meet in the middle"

    def __post_init__(self) -> None:
        one_of("join", self.join, (*get_args(Join), None))
        if self.work is not None:
            object.__setattr__(self, "work", count("work", self.work))

    def run(self, attempt: Attempt, generator: np.random.Generator) -> AttackResult:
        """Search, in up to three rounds where there are errors."""
        return search_secrets(attempt, generator, self.work, self._search)

    def _search(self, attempt: Attempt, space: SecretSpace, windows: Windows, judge: Judge) -> None:
        n = attempt.parameters.secret_dim
        size = min(range(n + 1), key=lambda one: sum(a.number + b.number for a, b in space.split(one)))
        halves = space.split(size)
        longest = max(first.number + last.number for first, last in halves)
        numbers = longest * (len(windows) * windows.ring.dtype.itemsize + 2 * 8 * len(windows))
        attempt.require_memory(numbers, f"Both lists, of {longest:.3g} halves together,")
        for first, last in halves:
            attempt.check()
            left = windows.sums(first, slice(0, n - size), shifted=False, check=attempt.check)
            right = windows.sums(last, slice(n - size, n), shifted=True, check=attempt.check)
            boxes = None if self.join == "words" else _Boxes.choose(windows, left, right)
            words = first.number * last.number / 64 * _rows_needed(windows) * _WORD
            if boxes is not None and (self.join == "boxes" or boxes.cost(left, right) < words):
                attempt.details["join"] = "boxes"
                found = boxes.join(attempt, windows, left, right, (first, last), judge)
            else:
                attempt.details["join"] = "words"
                found = _join_words(attempt, windows, left, right, (first, last), judge)
            if found:
                return


@dataclass(frozen=True, eq=False)
class _Boxes:
    """The first `len(cells)` samples, each with its residues cut into so many cells of at least a window's width."""

    windows: Windows
    cells: tuple[int, ...]

    @classmethod
    def choose(cls, windows: Windows, left: np.ndarray, right: np.ndarray) -> "_Boxes":
        """The cheapest, were inner products uniform."""
        q, number = windows.ring.modulus, left.shape[1]
        best, least = cls(windows, ()), np.inf
        for coarser in (1, 2, 4):
            cells: tuple[int, ...] = ()
            probes, kept, boxes = 1.0, 1.0, 1
            for width in windows.widths:
                k = max(1, q // (int(width) * coarser))
                boxes *= k
                if k < 2 or boxes > min(_LARGEST_KEY, 64 * number):
                    break
                cells += (k,)
                probes *= 1 + (int(width) - 1) * k / q
                kept *= min(1.0, 1 / k + (int(width) - 1) / q)
                cost = right.shape[1] * (probes * _PROBE + number * kept * _PAIR)
                if cost < least:
                    best, least = cls(windows, cells), cost
        return best

    def cost(self, left: np.ndarray, right: np.ndarray) -> float:
        """In nanoseconds, measured on some of the second halves."""
        sizes = np.bincount(self._keys(left), minlength=self._boxes)
        some = right[:, :: max(1, right.shape[1] // 1024)]
        _, keys = self._probes(some)
        scale = right.shape[1] / some.shape[1]
        return scale * (len(keys) * _PROBE + float(sizes[keys].sum()) * _PAIR)

    def join(
        self,
        attempt: Attempt,
        windows: Windows,
        left: np.ndarray,
        right: np.ndarray,
        halves: tuple[Half, Half],
        judge: Judge,
    ) -> bool:
        keys = self._keys(left)
        order = np.argsort(keys, kind="stable")
        sizes = np.bincount(keys, minlength=self._boxes)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        left = left[:, order]  # boxes lie together: testing their pairs reads memory in order
        for begin in range(0, right.shape[1], _PIECE):
            attempt.check()
            of, probed = self._probes(right[:, begin : begin + _PIECE])
            filled = np.flatnonzero(sizes[probed])
            of, probed = of[filled] + begin, probed[filled]
            ends = np.cumsum(sizes[probed])
            done, since = 0, 0
            while done < len(of):  # so many probes at once that their pairs fit
                until = max(done + 1, int(np.searchsorted(ends, since + _PAIRS, side="right")))
                lengths = sizes[probed[done:until]]
                before = np.cumsum(lengths) - lengths
                i = np.repeat(starts[probed[done:until]] - before, lengths) + np.arange(lengths.sum())
                i, j = windows.surviving(left, right, i, np.repeat(of[done:until], lengths))
                if len(i) and _offer(judge, halves, order[i], j):
                    return True
                done, since = until, int(ends[until - 1])
                attempt.check()
        return False

    @property
    def _boxes(self) -> int:
        return int(np.prod(self.cells, dtype=np.int64))

    def _keys(self, left: np.ndarray) -> np.ndarray:
        keys = np.zeros(left.shape[1], dtype=np.int64)
        for test, k in enumerate(self.cells):
            keys = keys * k + self._cell(left[test].astype(np.int64) // self.windows.ring.factor, k)
        return keys

    def _probes(self, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For second halves (by column), all boxes where partners can be; right holds y - start."""
        q = self.windows.ring.modulus
        of, keys = np.arange(right.shape[1]), np.zeros(right.shape[1], dtype=np.int64)
        for test, k in enumerate(self.cells):
            least = np.mod(-(right[test].astype(np.int64) // self.windows.ring.factor), q)
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
        return residues * k // self.windows.ring.modulus


def _rows_needed(windows: Windows) -> int:
    """So many samples that of 2^16 pairs about one is left."""
    left = np.cumprod(windows.passing)
    return 1 + int(np.argmax(np.append(left[:-1], 0.0) < 2.0**-_ROW_BITS))


def _join_words(
    attempt: Attempt,
    windows: Windows,
    left: np.ndarray,
    right: np.ndarray,
    halves: tuple[Half, Half],
    judge: Judge,
) -> bool:
    """All pairs, 64 at once: a row of a table has a bit for each second half that fits the cells of two samples."""
    ring, tests = windows.ring, _rows_needed(windows)
    q = ring.modulus
    cells = min(q, _CELLS)
    edges = -(-np.arange(cells + 1) * q // cells)  # cell c has the residues from edges[c] to edges[c + 1] - 1
    tests += tests % 2 if tests < len(windows) else 0
    cell = (left[:tests].astype(np.int64) // ring.factor) * cells // q
    keys = [cell[test] * cells + cell[test + 1] for test in range(0, tests - 1, 2)]
    keys += [cell[tests - 1]] if tests % 2 else []
    for begin in range(0, right.shape[1], _PIECE):
        attempt.check()
        piece = right[:, begin : begin + _PIECE]
        tables = [_table(windows, test, piece, edges) for test in range(tests)]
        pairs = [
            (tables[test][:, None] & tables[test + 1][None]).reshape(cells**2, -1)
            for test in range(0, tests - 1, 2)
        ]
        pairs += [tables[tests - 1]] if tests % 2 else []
        kept: list[tuple[np.ndarray, np.ndarray]] = []
        waiting = 0
        for start in range(0, left.shape[1], _FIRSTS):
            attempt.check()
            fit = pairs[0].take(keys[0][start : start + _FIRSTS], axis=0)
            row = np.empty_like(fit)
            for table, key in zip(pairs[1:], keys[1:], strict=True):
                table.take(key[start : start + _FIRSTS], axis=0, out=row, mode="clip")
                np.bitwise_and(fit, row, out=fit)
            i, j = _set_bits(fit)
            kept.append((i + start, j + begin))
            waiting += len(i)
            if waiting >= _ENOUGH_PAIRS or start + _FIRSTS >= left.shape[1]:
                i, j = (np.concatenate(one) for one in zip(*kept, strict=True))
                i, j = windows.surviving(left, right, i, j)
                if len(i) and _offer(judge, halves, i, j):
                    return True
                kept, waiting = [], 0
    return False


def _table(windows: Windows, test: int, piece: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """(cells, words): bit j of row c is set if second half j fits some residue of cell c."""
    ring, width = windows.ring, int(windows.widths[test])
    rows = np.zeros((len(edges) - 1, -(-piece.shape[1] // 64) * 8), dtype=np.uint8)
    for c, (least, after) in enumerate(pairwise(edges)):
        # x + y in the window for some x of the cell: from its last residue on, the window is so much wider
        wider = min(width + int(after - least) - 1, ring.modulus)
        last = ring.encode(np.array([after - 1]))
        packed = np.packbits(ring.below(last, piece[test], wider), bitorder="little")
        rows[c, : len(packed)] = packed
    return rows.view(np.uint64)


def _set_bits(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows and the bit numbers that are set."""
    at = np.flatnonzero(words.ravel() != 0)  # of truth values it is several times faster
    if not len(at):
        return at, at
    bits = np.unpackbits(words.ravel()[at].view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    which, bit = np.nonzero(bits)
    row, word = np.divmod(at[which], words.shape[1])
    return row, word * 64 + bit


def _offer(judge: Judge, halves: tuple[Half, Half], i: np.ndarray, j: np.ndarray) -> bool:
    return judge.offer(np.concatenate([halves[0].vectors(i), halves[1].vectors(j)], axis=1))
