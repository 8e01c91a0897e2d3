"""The non-degeneracy report: does a layer meet the conditions under which a learner provably succeeds?"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import numpy as np

from attention._arrays import to_numpy
from attention.head_measures import HeadMeasures
from attention.layer import AttentionLayer
from attention.validation import NonNegativeFloat, Whole, checked


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
        return [
            {
                "condition": one.name,
                "on": one.applies_to,
                "measured": "-" if one.measured is None else f"{one.measured:.3g}",
                "wanted": f"{'<=' if one.better == 'small' else '>='} {one.threshold:.3g}",
                "verdict": ("nothing to measure" if one.measured is None else "holds")
                if one.verdict
                else "VIOLATED",
            }
            for one in self.conditions
        ]

    def __str__(self) -> str:
        tokens = "k not given" if self.tokens is None else f"k={self.tokens} tokens"
        violated = f"{len(self.violated)} of {len(self.conditions)} conditions violated"
        verdict = "all conditions hold" if self.satisfied else violated
        title = f"Non-degeneracy of m={self.heads} heads in d={self.dim} coordinates, {tokens}: {verdict}"
        rows = self.rows()
        lines = [
            "{:32}{:7}{:10}{:11}{}".format(*texts) for texts in (rows[0], *(row.values() for row in rows))
        ]
        return "\n".join([title, *lines, _NOTE])

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values, but for infinite numbers."""
        return asdict(self) | {"satisfied": self.satisfied, "violated": self.violated, "note": _NOTE}


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
    * theta_non_arithmetic: ``max prod_j |cos(t theta_j)|`` over columns theta and t; at most 1/2. The range of t
      is ``4 / |theta|`` to ``4 pi sqrt(d) / |theta|``, on a grid of steps of at most ``1 / (4 |theta|)``.
    * theta_norms: ``max |Theta_i|``; at most ``(1 + ln d)^2``. All other conditions are scale-free.
    * theta_norms_comparable, w_norms_comparable: ``max |A_i| / min |A_i|``; at most 4.
    * theta_pairwise_distance: ``min |Theta_i - Theta_j| / max(|Theta_i|, |Theta_j|)``; at least 1/10.
    * theta_linear_independence: the smallest singular value of the stacked ``vec(Theta_i) / |Theta_i|``; at
      least 1/10.
    * theta_affine_independence: singular value m-1 of the stacked ``vec(Theta_i - mean)``, scaled so that the
      first m-1 have root mean square 1; at least 1/10. Differences from the mean do not depend on the order of
      the heads; differences from one head would.
    * heads_against_dimension, tokens_against_dimension: ``m / d`` and ``k / d``; at most 1/4.

    Conditions about pairs are vacuous for one head. A zero head has stable rank 0, and its columns
    lie on a lattice.
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
    "theta_non_arithmetic": (
        "small",
        0.5,
        "Logits do not lie near a lattice (1), as a local limit theorem needs.",
    ),
    "theta_norms": ("small", None, "Logits are at most polylogarithmic: patterns are seldom saturated."),
    "theta_norms_comparable": ("small", 4.0, f"No head drowns the others; {_ZERO}"),
    "theta_pairwise_distance": ("large", 0.1, "No two heads attend in nearly the same way."),
    "theta_linear_independence": ("large", 0.1, "The span of the heads has the dimension m."),
    "theta_affine_independence": ("large", 0.1, "The affine hull of the heads has the dimension m-1."),
    "w_incoherence": ("small", 0.25, "The outputs of different heads can be told apart."),
    "w_stable_rank": ("large", None, "The output of a head keeps many directions of a token."),
    "w_norms_comparable": ("small", 4.0, f"No head's output drowns the others; {_ZERO}"),
    "heads_against_dimension": ("small", 0.25, "The number of heads is much smaller than the dimension."),
    "tokens_against_dimension": ("small", 0.25, "The number of tokens is much smaller than the dimension."),
}
