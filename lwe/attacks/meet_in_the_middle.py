"""Meet in the middle: cut the secret into two halves, and combine only halves that fit on some samples."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Int

from attention.validation import checked
from lwe.attacks.attack import Attempt
from lwe.attacks.exhaustive import fitting_pairs
from lwe.attacks.search import Pairs, SearchAttack, SecretSpace, Windows, even_split
from lwe.residues import product_quotient

_PIECE = 1 << 12  # second halves that are looked up at once
_PAIRS = 1 << 20
_LARGEST_KEY = 1 << 22
_PROBE = (
    2.5  # seconds to look a box up, over those to test a pair, as measured on one core of an ordinary machine
)


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
        """Those that pass, by boxes if they reduce the cost."""
        size = even_split(space, attempt.parameters.n)
        # nearly all sparse secrets have about half of their weight in each half, and these lists are the shortest
        for first, last in sorted(space.split(size), key=lambda both: both[0].number + both[1].number):
            longest = first.number + last.number
            numbers = longest * (len(windows) * windows.dtype.itemsize + 2 * 8 * len(windows))
            attempt.require_memory(numbers, f"Both lists, of {longest:.3g} halves together,")
            left, right = windows.sums(first, attempt), windows.sums(last, attempt, last=True)
            cells = window_cells(windows, first.number)
            pairs = boxed_pairs(windows, left, right, cells) if cells else fitting_pairs(windows, left, right)
            attempt.details["join"] = "boxes" if cells else "words"
            for i, j, _ in pairs:
                attempt.check()
                if len(i):
                    yield np.hstack([first.vectors(i), last.vectors(j)])


def window_cells(windows: Windows, number: int) -> list[int]:
    """How many cells each of the first samples has, so that boxes of `number` halves are cheapest; none if no gain."""
    q, cells, probes, pairs = windows.modulus, list[int](), 1.0, float(number)
    for width in map(int, windows.widths):
        k = q // width
        more, fewer = probes * (1 + (width - 1) * k / q), pairs * (1 / max(k, 1) + (width - 1) / q)
        gain = _PROBE * probes + pairs - _PROBE * more - fewer
        if k < 3 or gain <= 0 or math.prod([*cells, k]) > min(_LARGEST_KEY, 64 * number):
            break
        cells.append(k)
        probes, pairs = more, fewer
    return cells


def boxed_pairs(windows: Windows, left: np.ndarray, right: np.ndarray, cells: list[int]) -> Iterator[Pairs]:
    """The pairs of `fitting_pairs`, if the first halves are sorted into boxes by their cells in the first samples."""
    q, keys = windows.modulus, np.zeros(left.shape[1], dtype=np.int64)

    def cell(residues: np.ndarray, k: int) -> np.ndarray:
        # every cell has at least floor(q/k) >= w residues, so a window meets at most two
        return product_quotient(residues.astype(np.int64), k, q, k * q)

    for test, k in enumerate(cells):
        keys = keys * k + cell(left[test], k)
    order, sizes = np.argsort(keys, kind="stable"), np.bincount(keys, minlength=math.prod(cells))
    starts, left = (
        np.cumsum(sizes) - sizes,
        left[:, order],
    )  # testing the pairs of a box reads memory in order
    for begin in range(0, right.shape[1], _PIECE):
        piece = right[:, begin : begin + _PIECE]
        # all boxes that may contain partners, and the second half that looks there
        of, boxes = np.arange(piece.shape[1]), np.zeros(piece.shape[1], dtype=np.int64)
        for test, k in enumerate(cells):
            least = np.mod(-piece[test], q)
            lower, upper = cell(least, k), cell((least + (windows.widths[test] - 1)) % q, k)
            both = np.flatnonzero((lower != upper)[of])
            boxes = np.concatenate([boxes * k + lower[of], boxes[both] * k + upper[of[both]]])
            of = np.concatenate([of, of[both]])
        filled = np.flatnonzero(sizes[boxes])
        of, boxes = of[filled] + begin, boxes[filled]
        ends = np.cumsum(sizes[boxes])
        for part in np.split(np.arange(len(of)), np.flatnonzero(np.diff(ends // _PAIRS)) + 1):
            lengths = sizes[boxes[part]]
            before = np.cumsum(lengths) - lengths
            i = np.repeat(starts[boxes[part]] - before, lengths) + np.arange(lengths.sum())
            i, j = windows.surviving(left, right, i, np.repeat(of[part], lengths))
            yield order[i], j, int(lengths.sum())
