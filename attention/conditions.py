"""The non-degeneracy report: does a layer meet the conditions under which a learner provably succeeds?"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float

from attention._arrays import to_numpy
from attention.layer import AttentionLayer
from attention.validation import NonNegativeFloat, Whole, checked

__all__ = ["Condition", "ConditionReport", "check_conditions"]

_START = 4.0  # t0, in units of 1 / |column|: phi(t0) is about exp(-8) for a column without structure
_LAST = 4 * np.pi  # T, in units of 1 / (root mean square of the column): four periods of equal |entries|
_STEP = 0.25  # of the grid of t, in units of 1 / |column|
_AT_ONCE = 16  # coordinates to multiply before dropping grid points that cannot be the maximum


@dataclass(frozen=True)
class Condition:
    """One condition, measured."""

    name: str  #: the condition; thresholds are set by this name
    applies_to: Literal["Theta", "W", "shape"]  #: what it is a condition on
    #: the measured value of the worst head or pair; None if there is nothing to measure
    measured: float | None
    better: Literal["small", "large"]  #: which values are better
    #: the condition holds when the measured value is at most (small) or at least (large) this
    threshold: float
    verdict: bool  #: whether it holds; a condition with nothing to measure holds
    #: the value of every head, the worst over its columns or pairs; None if the heads share one value
    per_head: tuple[float, ...] | None
    explanation: str  #: what is measured, and why it matters


@dataclass(frozen=True)
class ConditionReport:
    """The non-degeneracy conditions of one layer; prints as a table."""

    heads: int  #: the number m of heads
    dim: int  #: the number d of coordinates
    tokens: int | None  #: the number k of tokens, if it was given
    conditions: tuple[Condition, ...]  #: all of them, violated or not

    @property
    def satisfied(self) -> bool:
        """Whether every condition holds."""
        return not self.violated

    @property
    def violated(self) -> tuple[str, ...]:
        """The names of the conditions that do not hold."""
        return tuple(condition.name for condition in self.conditions if not condition.verdict)

    def __getitem__(self, name: str) -> Condition:
        for condition in self.conditions:
            if isinstance(name, str) and condition.name == name:
                return condition
        raise KeyError(name)

    def rows(self) -> list[dict[str, str]]:
        """A row of text for each condition, by column."""
        rows = []
        for condition in self.conditions:
            measured, wanted = _told_apart(condition.measured, condition.threshold)
            held = "holds" if condition.verdict else "VIOLATED"
            verdict = "nothing to measure" if condition.measured is None else held
            wanted = f"{'<=' if condition.better == 'small' else '>='} {wanted}"
            texts = (condition.name, condition.applies_to, measured, wanted, verdict)
            rows.append(dict(zip(("condition", "on", "measured", "wanted", "verdict"), texts, strict=True)))
        return rows

    def __str__(self) -> str:
        rows = self.rows()
        header = list(rows[0]) if rows else []
        lines = [header, *(list(row.values()) for row in rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
        lines.insert(1, ["-" * width for width in widths])
        table = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
        ]
        tokens = "k not given" if self.tokens is None else f"k={self.tokens} tokens"
        some = len(self.violated)
        whole = f"{some} condition{'s' * (some > 1)} violated" if some else "all conditions hold"
        title = f"Non-degeneracy of m={self.heads} heads in d={self.dim} coordinates, {tokens}: {whole}"
        return "\n".join([title, *(line.rstrip() for line in table), _NOTE])

    def to_json(self) -> dict[str, Any]:
        """The report as plain JSON values; an infinite value becomes the text "infinity"."""
        return {
            "heads": self.heads,
            "dim": self.dim,
            "tokens": self.tokens,
            "satisfied": self.satisfied,
            "violated": list(self.violated),
            "conditions": [
                {name: _plain(value) for name, value in vars(condition).items()}
                for condition in self.conditions
            ],
            "note": _NOTE,
        }


_NOTE = (
    "The thresholds are this toolkit's own and can be set by name: the constants of the paper's conditions "
    "are not known to us."
)


@checked
def check_conditions(
    layer: AttentionLayer,
    *,
    tokens: Annotated[int, Whole(1, 2**53)] | None = None,
    thresholds: Mapping[str, NonNegativeFloat] | None = None,
) -> ConditionReport:
    """Measure every non-degeneracy condition of a layer and compare it with a threshold.

    Parameters
    ----------
    layer : AttentionLayer
        The layer, of any array library.
    tokens : int, optional
        The number k of tokens of its inputs; without it, the condition on k is not judged.
    thresholds : mapping of str to float, optional
        Thresholds by the name of the condition, in place of the defaults.

    Notes
    -----
    The list gives the measure and the default threshold of each condition. ``<A, B>`` is ``Tr(A^T B)``, and ``|A|``
    is the Frobenius norm.

    * theta_incoherence, w_incoherence: ``max |<A_i, A_j>| / (|A_i| |A_j|)`` over pairs; at most 1/4.
    * theta_stable_rank, w_stable_rank: ``min |A_i|^2 / |A_i|_op^2``; at least ``max(m, k, ln d)``.
    * theta_trace: ``max Tr(Theta_i)^2 / |Theta_i|^2``; at most 1/4.
    * theta_heavy_column: ``max |column|^2 / |Theta_i|^2``; at most 1/4.
    * theta_non_arithmetic: ``max prod_j |cos(t theta_j)|`` over columns theta and t; at most 1/2. The range of t
      is ``4 / |theta|`` to ``4 pi sqrt(d) / |theta|``, on a grid of steps of at most ``1 / (4 |theta|)``.
    * theta_norms: ``max |Theta_i|``; at most ``(1 + ln d)^2``. All other conditions are scale-free.
    * theta_norms_comparable, w_norms_comparable: ``max |A_i| / min |A_i|``; at most 4.
    * theta_pairwise_distance: ``min |Theta_i - Theta_j| / max(|Theta_i|, |Theta_j|)``; at least 1/10.
    * theta_distinct_singular_values: the smallest gap of neighbouring singular values over the largest value;
      at least 1e-6. All values that are 0 up to rounding count as one value: theta_stable_rank judges a low rank.
    * theta_linear_independence: the smallest singular value of the stacked ``vec(Theta_i) / |Theta_i|``; at
      least 1/10.
    * theta_affine_independence: singular value m-1 of the stacked ``vec(Theta_i - mean)``, scaled so that the
      first m-1 have root mean square 1; at least 1/10. Differences from the mean do not depend on the order of
      the heads; differences from one head would.
    * heads_against_dimension, tokens_against_dimension: ``m / d`` and ``k / d``; at most 1/4.

    Conditions about pairs are vacuous for one head. A zero head has stable rank 0 and no distinct singular values,
    and its columns lie on a lattice.
    O(m d^3 + m^2 d^2).

    References
    ----------
    The conditions of Chen and Li, arXiv 2402.04084, as far as they are known to us; the measures and all thresholds
    are this toolkit's own.

    Examples
    --------
    >>> from attention import make_nice_layer
    >>> report = check_conditions(make_nice_layer(heads=2, dim=64, rng=0), tokens=2)
    >>> report.satisfied
    True
    >>> report["heads_against_dimension"].measured
    0.03125
    """
    given = dict(thresholds or {})
    if unknown := set(given) - set(_CONDITIONS):
        raise ValueError(
            f"thresholds names {', '.join(sorted(unknown))}: only {', '.join(_CONDITIONS)} have one."
        )
    m, d = layer.heads, layer.dim
    measures = {"theta": HeadMeasures(to_numpy(layer.theta)), "w": HeadMeasures(to_numpy(layer.w))}
    rank = float(max(m, tokens or 1, math.log(d)))
    by_shape = {"theta_stable_rank": rank, "w_stable_rank": rank, "theta_norms": (1 + math.log(d)) ** 2}

    def judge(name: str) -> Condition:
        better, default, explanation = _CONDITIONS[name]
        threshold = float((by_shape | given).get(name, default))  # type: ignore[arg-type]
        prefix, _, measure = name.partition("_")
        measured: Any = None
        if prefix in measures:
            if m > 1 or measure not in _OF_PAIRS:
                measured = getattr(measures[prefix], measure)()
            else:
                explanation = f"Nothing to measure, as one head makes no pair. {explanation}"
        elif prefix == "heads":
            measured = m / d
        elif tokens is not None:
            measured = tokens / d
        else:
            explanation = f"Nothing to measure, as the number of tokens was not given. {explanation}"
        per_head = None
        if isinstance(measured, np.ndarray):
            per_head = tuple(map(float, measured))
            measured = max(per_head) if better == "small" else min(per_head)
        holds = measured is None or (measured <= threshold if better == "small" else measured >= threshold)
        on = _APPLIES_TO.get(prefix, "shape")
        return Condition(name, on, measured, better, threshold, bool(holds), per_head, explanation)

    return ConditionReport(
        heads=m, dim=d, tokens=tokens, conditions=tuple(judge(name) for name in _CONDITIONS)
    )


_APPLIES_TO: dict[str, Any] = {"theta": "Theta", "w": "W"}
_OF_PAIRS = {"incoherence", "norms_comparable", "pairwise_distance", "affine_independence"}
_ZERO = "infinite with a zero head beside others."
# For each condition: which values are better, the default threshold (None if it depends on the shape), why it matters.
# The name after "theta_" or "w_" is that of a method of `HeadMeasures`.
_CONDITIONS: dict[str, tuple[Literal["small", "large"], float | None, str]] = {
    "theta_incoherence": ("small", 0.25, "Heads that point in different directions can be told apart."),
    "theta_stable_rank": ("large", None, "Many directions matter alike, so that logits are nearly Gaussian."),
    "theta_trace": ("small", 0.25, "The logit of a token on itself behaves like the logits on the others."),
    "theta_heavy_column": ("small", 0.25, "No single coordinate of a token decides the logits."),
    "theta_non_arithmetic": (
        "small",
        0.5,
        "Logits do not lie near a lattice (1), as a local limit theorem needs.",
    ),
    "theta_norms": ("small", None, "Logits are at most polylogarithmic: patterns are seldom saturated."),
    "theta_norms_comparable": ("small", 4.0, f"No head drowns the others; {_ZERO}"),
    "theta_pairwise_distance": ("large", 0.1, "No two heads attend in nearly the same way."),
    "theta_distinct_singular_values": ("large", 1e-6, "Singular vectors are determined, not left free."),
    "theta_linear_independence": ("large", 0.1, "The span of the heads has the dimension m."),
    "theta_affine_independence": ("large", 0.1, "The affine hull of the heads has the dimension m-1."),
    "w_incoherence": ("small", 0.25, "The outputs of different heads can be told apart."),
    "w_stable_rank": ("large", None, "The output of a head keeps many directions of a token."),
    "w_norms_comparable": ("small", 4.0, f"No head's output drowns the others; {_ZERO}"),
    "heads_against_dimension": ("small", 0.25, "The number of heads is much smaller than the dimension."),
    "tokens_against_dimension": ("small", 0.25, "The number of tokens is much smaller than the dimension."),
}


def _told_apart(measured: float | None, threshold: float) -> tuple[str, str]:
    """Both numbers with three digits, or with as many as are needed to show that they differ."""
    if measured is None:
        return "-", f"{threshold:.3g}"
    digits = 3
    # 17 digits distinguish any two floats
    while digits < 17 and measured != threshold and f"{measured:.{digits}g}" == f"{threshold:.{digits}g}":
        digits += 1
    return f"{measured + 0.0:.{digits}g}", f"{threshold:.{digits}g}"  # no minus zero


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(map(_plain, value))
    return "infinity" if isinstance(value, float) and math.isinf(value) else value


class HeadMeasures:
    """The measures of the conditions, for matrices A_1, .., A_m given as an array (m, d, d).

    Each head is first divided by its largest entry, so that squares neither overflow nor vanish; zero heads stay
    zero.
    """

    def __init__(self, heads: Float[np.ndarray, "m d d"]) -> None:
        self._epsilon = float(np.finfo(heads.dtype).eps)
        heads = np.asarray(heads, dtype=np.float64)
        self._m, self._d, _ = heads.shape
        scale = np.abs(heads).max(axis=(1, 2))
        self._scale = np.where(scale > 0, scale, 1.0)
        self._heads = heads / self._scale[:, None, None]
        self._size = np.linalg.norm(self._heads, axis=(1, 2))  # 0 for a zero head, else from 1 to d
        self._per_size = np.divide(1.0, self._size, out=np.zeros(self._m), where=self._size > 0)

    def norms(self) -> Float[np.ndarray, " m"]:
        """|A_i|."""
        with np.errstate(over="ignore"):
            return self._size * self._scale

    def norms_comparable(self) -> float:
        """Max |A_i| / min |A_i|; infinite with a zero head beside others, 1 if all are zero."""
        sizes = np.sort(self._size * (self._scale / self._scale.max()))
        with np.errstate(over="ignore"):
            return 1.0 if sizes[-1] == 0 else np.inf if sizes[0] == 0 else float(sizes[-1] / sizes[0])

    def incoherence(self) -> Float[np.ndarray, " m"]:
        """The largest |<A_i, A_j>| / (|A_i| |A_j|) of every head over the other heads."""
        gram = np.abs(self._units @ self._units.T)
        np.fill_diagonal(gram, 0)
        return gram.max(axis=1)

    def stable_rank(self) -> Float[np.ndarray, " m"]:
        """The stable rank |A_i|^2 / |A_i|_op^2; 0 for a zero head."""
        largest = self._singular_values[:, 0]
        return np.divide(self._size, largest, out=np.zeros(self._m), where=largest > 0) ** 2

    def trace(self) -> Float[np.ndarray, " m"]:
        """Tr(A_i)^2 / |A_i|^2; 0 for a zero head."""
        return (np.trace(self._heads, axis1=1, axis2=2) * self._per_size) ** 2

    def heavy_column(self) -> Float[np.ndarray, " m"]:
        """The largest squared norm of a column of A_i over |A_i|^2; 0 for a zero head."""
        return (np.linalg.norm(self._heads, axis=1).max(axis=1) * self._per_size) ** 2

    def non_arithmetic(self) -> Float[np.ndarray, " m"]:
        """The largest `largest_characteristic_value` of the columns of every head; 1 if a column is zero."""
        return np.array([largest_characteristic_value(head).max() for head in self._heads])

    def pairwise_distance(self) -> Float[np.ndarray, " m"]:
        """The smallest |A_i - A_j| / max(|A_i|, |A_j|) of every head over the others; 0 for two zero heads."""
        relative = self._scale / self._scale.max()
        heads, sizes = self._heads * relative[:, None, None], self._size * relative
        distance = np.full((self._m, self._m), np.inf)
        for i in range(self._m):
            for j in range(i):  # differences, not expanded squares: those lose half the digits of close heads
                larger = max(sizes[i], sizes[j])
                gap = np.linalg.norm(heads[i] - heads[j]) / larger if larger > 0 else 0.0
                distance[i, j] = distance[j, i] = gap
        return distance.min(axis=1)

    def distinct_singular_values(self) -> Float[np.ndarray, " m"]:
        """The smallest gap of neighbouring singular values over the largest one; values of 0 count once."""
        gaps = np.zeros(self._m)
        for head, values in enumerate(self._singular_values):
            if values[0] > 0:
                rank = int((values > self._d * self._epsilon * values[0]).sum())
                distinct = np.append(values[:rank], [0.0] if rank < self._d else [])
                gaps[head] = (distinct[:-1] - distinct[1:]).min(initial=values[0]) / values[0]
        return gaps

    def linear_independence(self) -> float:
        """The smallest singular value of the stacked vec(A_i) / |A_i|."""
        if self._m > self._d**2:
            return 0.0
        return float(np.linalg.svd(self._units, compute_uv=False)[-1])

    def affine_independence(self) -> float:
        """Singular value m-1 of the stacked vec(A_i - mean), scaled to a root mean square of 1."""
        if self._m - 1 > self._d**2:
            return 0.0
        heads = self._heads * (self._scale / self._scale.max())[:, None, None]
        centred = (heads - heads.mean(axis=0)).reshape(self._m, -1)
        size = np.linalg.norm(centred)
        if size <= self._m * self._epsilon * np.linalg.norm(heads):  # equal heads, to rounding
            return 0.0
        return float(np.linalg.svd(centred, compute_uv=False)[self._m - 2] * np.sqrt(self._m - 1) / size)

    @cached_property
    def _units(self) -> Float[np.ndarray, "m dd"]:
        return (self._heads * self._per_size[:, None, None]).reshape(self._m, -1)

    @cached_property
    def _singular_values(self) -> Float[np.ndarray, "m d"]:
        return np.linalg.svd(self._heads, compute_uv=False)


def largest_characteristic_value(columns: Float[np.ndarray, "d n"]) -> Float[np.ndarray, " n"]:
    """Max over t in [t0, T] of phi(t) = prod_j |cos(t theta_j)| for each column theta: how near a lattice it is.

    The value is 0 if the column is far from every lattice. It is 1 if all entries are multiples of one number, or zero.

    phi is the modulus of the characteristic function of sum_j +-theta_j with random signs; a local limit theorem
    needs it small. The range is scale-free: t0 = 4 / |theta| and T = 4 pi sqrt(d) / |theta|. The grid has steps of at
    most 1 / (4 |theta|); it misses at most a factor exp(-1 / (128 p^2)) of a maximum p. A grid point is dropped once
    its partial product is below the column's value at t0. Columns without structure take O(d n sqrt(d)) cosines.
    """
    d, n = columns.shape
    norm = np.linalg.norm(columns, axis=0)
    largest = np.ones(n)
    alive = norm > 0
    if not alive.any():
        return largest
    # with unit columns, all columns share one grid
    units = -np.sort(-np.abs(columns[:, alive] / norm[alive]), axis=0)
    last = _LAST * np.sqrt(d)
    grid = np.linspace(_START, last, int(np.ceil((last - _START) / _STEP)) + 1)
    with np.errstate(divide="ignore"):  # a zero of phi gives log 0 = -inf
        best = np.log(np.abs(np.cos(_START * units))).sum(axis=0)
        column, point = (index.ravel() for index in np.indices((units.shape[1], grid.size)))
        log = np.zeros(column.size)
        for first in range(0, d, _AT_ONCE):
            product = np.ones(column.size)
            for row in units[first : first + _AT_ONCE]:
                product *= np.cos(grid[point] * row[column])
            log += np.log(np.abs(product))
            higher = log > best[column]
            column, point, log = column[higher], point[higher], log[higher]
    np.maximum.at(best, column, log)
    largest[alive] = np.exp(best)
    return largest
