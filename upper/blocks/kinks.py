"""The kinks of a piecewise linear map along a path: where each neuron of a network switches, far from the origin."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

Ask = Callable[[Float[np.ndarray, "n d"]], Float[np.ndarray, "n d"]]
"""Answers tokens (n, d) with outputs (n, d)."""

# A new piece takes this share of its interval: a wide one meets kinks, a narrow one has a slope of few digits.
_SHARE = 1 / 32
# The pieces at the ends of a segment take this share of it, as nothing beyond them tells whether a kink is inside.
_END = 1e-5
# A kink nearer to a piece than this share of the gap may lie inside the piece.
_NEAR = 1e-6
# Rounds of division, and pieces for every coordinate of a token: a map that is not piecewise linear has no end.
_MOST = 64
# The lines of regions are read at these shares of their lengths.
_READ_AT = np.array([0.05, 0.95])


@dataclass(frozen=True)
class Path:
    """A polyline: segments from start to end, each with a direction of unit length."""

    starts: Float[np.ndarray, "s d"]
    ends: Float[np.ndarray, "s d"]

    @property
    def lengths(self) -> Float[np.ndarray, " s"]:
        """The lengths of the segments."""
        return np.linalg.norm(self.ends - self.starts, axis=1)

    @property
    def directions(self) -> Float[np.ndarray, "s d"]:
        """The directions of the segments."""
        return (self.ends - self.starts) / self.lengths[:, None]

    def at(
        self, segment: Int[np.ndarray, " *n"], place: Float[np.ndarray, " *n"]
    ) -> Float[np.ndarray, "*n d"]:
        """The points at these places, lengths from the starts of their segments."""
        return self.starts[segment] + place[..., None] * self.directions[segment]


def answer_error(answers: Float[np.ndarray, "*n d"]) -> float:
    """How far off answers may be, as a norm: 32 units of float64 of the largest one, in every entry."""
    return float(32 * np.finfo(float).eps * np.abs(answers).max() * np.sqrt(answers.shape[-1]))


def half_circle(radius: float, dim: int, rng: np.random.Generator) -> Path:
    """P -> Q -> -P in a random plane, |P| = |Q| = radius: it crosses every plane through the origin once."""
    p, q = radius * np.linalg.qr(rng.standard_normal((dim, 2)))[0].T
    return Path(np.array([p, q]), np.array([q, -p]))


@dataclass(frozen=True)
class Regions:
    """The h + s intervals of a path of s segments between its h kinks, in order, and the line in each."""

    path: Path
    segment: Int[np.ndarray, " n"]  #: the segment of each region
    low: Float[np.ndarray, " n"]  #: its beginning
    high: Float[np.ndarray, " n"]  #: its end
    place: Float[np.ndarray, "n 2"]  #: two places in it
    answers: Float[np.ndarray, "n 2 d"]  #: the answers there
    error: float  #: how far answers may be off, as a norm

    @property
    def left(self) -> Int[np.ndarray, " h"]:
        """The region before each kink; the next one is the region behind it."""
        return np.flatnonzero(self.segment[1:] == self.segment[:-1])

    @property
    def kinks_before(self) -> Int[np.ndarray, " n"]:
        """How many kinks the path has before each region."""
        return np.arange(len(self.segment)) - self.segment

    @property
    def slopes(self) -> Float[np.ndarray, "n d"]:
        """The derivative along the path."""
        return (self.answers[:, 1] - self.answers[:, 0]) / (self.place[:, 1] - self.place[:, 0])[:, None]

    def line(
        self, region: Int[np.ndarray, " *n"], place: Float[np.ndarray, " *n"]
    ) -> Float[np.ndarray, "*n d"]:
        """The line of a region at a place."""
        return self.answers[region, 0] + self.slopes[region] * (place - self.place[region, 0])[..., None]

    @property
    def jumps(self) -> Float[np.ndarray, "h d"]:
        """By how much the slope changes at each kink."""
        return self.slopes[self.left + 1] - self.slopes[self.left]

    @property
    def kinks(self) -> Float[np.ndarray, " h"]:
        """The places of the kinks, where the lines on both sides meet."""
        left, jumps = self.left, self.jumps
        at = self.place[left, 1]
        apart = self.line(left + 1, at) - self.line(left, at)
        return at - np.sum(apart * jumps, axis=1) / np.sum(jumps**2, axis=1)

    def read_again(self, ask: Ask, margin: Float[np.ndarray, " h"]) -> "Regions | None":
        """The same with lines from places far apart, this far from the kinks; None if a region is too short."""
        low, high, left = self.low.copy(), self.high.copy(), self.left
        kinks = self.kinks
        high[left], low[left + 1] = kinks - margin, kinks + margin
        if np.any(high <= low):
            return None
        place = low[:, None] + (high - low)[:, None] * _READ_AT
        points = self.path.at(self.segment[:, None].repeat(2, axis=1), place)
        answers = ask(points.reshape(-1, points.shape[-1])).reshape(points.shape)
        return Regions(self.path, self.segment, low, high, place, answers, self.error)


def find_regions(ask: Ask, path: Path, rng: np.random.Generator, *, least: float) -> Regions | None:
    """All kinks of a path, by about 3.5 queries a kink; None where two are nearer than `least` or a piece is spoiled.

    Two points make a piece, which has a line. Between two pieces there is no kink if the lines agree, and one if their
    difference at one of them is parallel to the difference of the slopes, in all d outputs. Else the interval between
    them is divided. Pieces that contain a kink, or touch the curve of a smooth one, are dropped.
    """
    segments = range(len(path.starts))

    def read(segment: Int[np.ndarray, " n"], place: Float[np.ndarray, "n 2"]) -> np.ndarray:
        x = path.at(segment[:, None].repeat(2, axis=1), place)
        return ask(x.reshape(-1, x.shape[-1])).reshape(x.shape)

    pieces = []
    for segment, length in enumerate(path.lengths):
        place = np.array([[0, _END], [1 - _END, 1]]) * length
        pieces.append(_Pieces(place, read(np.full(2, segment), place)))
    error = answer_error(np.stack([part.answers for part in pieces]))
    for _ in range(_MOST):
        pieces = [_without_spoiled(part, error) for part in pieces]
        between = [_between(part, 1, error) for part in pieces]
        places = []
        for part, found in zip(pieces, between, strict=True):
            low, high = part.place[:-1, 1][found.several], part.place[1:, 0][found.several]
            if np.any(high - low < least):
                return None
            middle = low + (high - low) * rng.uniform(0.4, 0.6, len(low))
            places.append(middle[:, None] + _SHARE * (high - low)[:, None] * np.array([-0.5, 0.5]))
        if not sum(map(len, places)):
            return _regions(path, pieces, between, error)
        if sum(map(len, places)) > _MOST * path.starts.shape[1]:
            return None
        which = np.repeat(segments, [len(part) for part in places])
        answers = read(which, np.concatenate(places))
        pieces = [pieces[i].with_more(places[i], answers[which == i]) for i in segments]
    return None


@dataclass(frozen=True)
class _Pieces:
    """Pairs of points on a segment, in order."""

    place: Float[np.ndarray, "n 2"]
    answers: Float[np.ndarray, "n 2 d"]

    def with_more(self, place: np.ndarray, answers: np.ndarray) -> "_Pieces":
        place, answers = np.concatenate([self.place, place]), np.concatenate([self.answers, answers])
        order = np.argsort(place[:, 0])
        return _Pieces(place[order], answers[order])

    def only(self, kept: Bool[np.ndarray, " n"]) -> "_Pieces":
        return _Pieces(self.place[kept], self.answers[kept])


@dataclass(frozen=True)
class _Between:
    """What lies between pairs of pieces."""

    several: Bool[np.ndarray, " n"]  #: more than one kink
    single: Bool[np.ndarray, " n"]
    straight: Bool[np.ndarray, " n"]
    kink: Float[np.ndarray, " n"]  #: the place of a single one
    at_left: Bool[np.ndarray, " n"]  #: whether it may lie in the left piece
    at_right: Bool[np.ndarray, " n"]


def _between(pieces: _Pieces, apart: int, error: float) -> _Between:
    """What lies between each piece and the one so many pieces further."""
    widths = pieces.place[:, 1] - pieces.place[:, 0]
    slopes = (pieces.answers[:, 1] - pieces.answers[:, 0]) / widths[:, None]
    left, right = slice(None, -apart), slice(apart, None)
    gap = pieces.place[right, 0] - pieces.place[left, 1]
    missed = pieces.answers[right, 0] - pieces.answers[left, 1] - slopes[left] * gap[:, None]
    jump = slopes[right] - slopes[left]
    jump_error, missed_error = (
        error * (1 / widths[left] + 1 / widths[right]),
        error * (1 + gap / widths[left]),
    )
    size = np.maximum(np.linalg.norm(jump, axis=1), np.finfo(float).tiny)
    straight = (size <= jump_error) & (np.linalg.norm(missed, axis=1) <= missed_error)
    before_right = np.sum(missed * jump, axis=1) / size**2  # how far before the right piece the kink lies
    off = np.linalg.norm(missed - before_right[:, None] * jump, axis=1)
    slack = 2 * missed_error / size
    single = (
        ~straight
        & (size > jump_error)
        & (off <= missed_error + np.abs(before_right) * jump_error)
        & (before_right >= -slack)
        & (before_right <= gap + slack)
    )
    near = slack + _NEAR * gap
    return _Between(
        several=~straight & ~single,
        single=single,
        straight=straight,
        kink=pieces.place[right, 0] - before_right,
        at_left=single & (before_right > gap - near),
        at_right=single & (before_right < near),
    )


def _without_spoiled(pieces: _Pieces, error: float) -> _Pieces:
    """Drop inner pieces in which a kink may lie, and those that do not agree with neighbours that agree."""
    while len(pieces.place) > 2:
        one, two = _between(pieces, 1, error), _between(pieces, 2, error)
        agrees = (one.straight[:-1] | one.straight[1:]) & ~one.several[:-1] & ~one.several[1:]
        spoiled = (~two.several & ~agrees) | one.at_right[:-1] | one.at_left[1:]
        # not two neighbours at once: without one, the other may agree
        kept = np.ones(len(pieces.place), dtype=bool)
        for i in np.flatnonzero(spoiled) + 1:
            kept[i] = not kept[i - 1]
        if kept.all():
            break
        pieces = pieces.only(kept)
    return pieces


def _regions(path: Path, pieces: list[_Pieces], between: list[_Between], error: float) -> Regions | None:
    """The regions between single kinks; None if the piece at an end has one inside."""
    segment, low, high, place, answers = [], [], [], [], []
    for number, (part, found) in enumerate(zip(pieces, between, strict=True)):
        if found.at_left[0] or found.at_right[-1]:
            return None
        cuts = np.flatnonzero(found.single)
        first, last = np.append(0, cuts + 1), np.append(cuts, len(part.place) - 1)
        segment.append(np.full(len(first), number))
        low.append(np.append(0.0, found.kink[cuts]))
        high.append(np.append(found.kink[cuts], path.lengths[number]))
        place.append(np.stack([part.place[first, 0], part.place[last, 1]], axis=1))
        answers.append(np.stack([part.answers[first, 0], part.answers[last, 1]], axis=1))
    return Regions(
        path,
        np.concatenate(segment),
        np.concatenate(low),
        np.concatenate(high),
        np.concatenate(place),
        np.concatenate(answers),
        error,
    )
