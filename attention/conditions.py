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
    #: the measured value of the worst head or pair; None if there is nothing to measure
    measured: float | None
    better: Literal["small", "large"]  #: which values are better
    #: the condition holds when the measured value is at most (small) or at least (large) this
    threshold: float
    verdict: bool  #: whether it holds; a condition with nothing to measure holds
    #: the value of every head, the worst over its columns or pairs; None if the heads share one value
    per_head: tuple[float, ...] | None


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
        lines = ["{:32}{:10}{:11}{}".format(*texts) for texts in (rows[0], *(row.values() for row in rows))]
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

    * theta_incoherence, w_incoherence: ``max |<A_i, A_j>| / (|A_i| |A_j|)`` over pairs; at most 1/4, so that
      heads can be told apart.
    * theta_stable_rank, w_stable_rank: ``min |A_i|^2 / |A_i|_op^2``; at least ``max(m, k, ln d)``, so that
      logits are nearly Gaussian.
    * theta_trace: ``max Tr(Theta_i)^2 / |Theta_i|^2``; at most 1/4, as the logit of a token on itself behaves like the
      others then.
    * theta_non_arithmetic: ``max prod_j |cos(t theta_j)|`` over columns theta and t; at most 1/2, as a local
      limit theorem needs. The range of t is ``4 / |theta|`` to ``4 pi sqrt(d) / |theta|``, on a grid of steps of at
      most ``1 / (4 |theta|)``.
    * theta_norms: ``max |Theta_i|``; at most ``(1 + ln d)^2``, so that patterns are seldom saturated. All other
      conditions are scale-free.
    * theta_norms_comparable, w_norms_comparable: ``max |A_i| / min |A_i|``; at most 4.
    * theta_pairwise_distance: ``min |Theta_i - Theta_j| / max(|Theta_i|, |Theta_j|)``; at least 1/10.
    * theta_linear_independence: the smallest singular value of the stacked ``vec(Theta_i) / |Theta_i|``; at
      least 1/10.
    * theta_affine_independence: singular value m-1 of the stacked ``vec(Theta_i - mean)``, scaled so that the
      first m-1 have root mean square 1; at least 1/10. Differences from the mean do not depend on the order of
      the heads; differences from one head would.
    * heads_against_dimension, tokens_against_dimension: ``m / d`` and ``k / d``; at most 1/4.

    Conditions about pairs are vacuous for one head. A zero head has stable rank 0, and its columns lie on a lattice.
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
    m, d = layer.heads, layer.dim
    theta, w = (HeadMeasures(to_numpy(matrices)) for matrices in (layer.theta, layer.w))
    rank, pairs = float(max(m, tokens or 1, math.log(d))), m > 1
    table: dict[str, tuple[Any, Literal["small", "large"], float]] = {
        "theta_incoherence": (theta.incoherence() if pairs else None, "small", 0.25),
        "theta_stable_rank": (theta.stable_rank(), "large", rank),
        "theta_trace": (theta.trace(), "small", 0.25),
        "theta_non_arithmetic": (theta.non_arithmetic(), "small", 0.5),
        "theta_norms": (theta.norms(), "small", (1 + math.log(d)) ** 2),
        "theta_norms_comparable": (theta.norms_comparable() if pairs else None, "small", 4.0),
        "theta_pairwise_distance": (theta.pairwise_distance() if pairs else None, "large", 0.1),
        "theta_linear_independence": (theta.linear_independence(), "large", 0.1),
        "theta_affine_independence": (theta.affine_independence() if pairs else None, "large", 0.1),
        "w_incoherence": (w.incoherence() if pairs else None, "small", 0.25),
        "w_stable_rank": (w.stable_rank(), "large", rank),
        "w_norms_comparable": (w.norms_comparable() if pairs else None, "small", 4.0),
        "heads_against_dimension": (m / d, "small", 0.25),
        "tokens_against_dimension": (None if tokens is None else tokens / d, "small", 0.25),
    }
    given = dict(thresholds or {})
    if unknown := set(given) - set(table):
        raise ValueError(f"thresholds names {', '.join(sorted(unknown))}: only {', '.join(table)} have one.")
    conditions = [
        _judged(name, measured, better, given.get(name, default))
        for name, (measured, better, default) in table.items()
    ]
    return ConditionReport(heads=m, dim=d, tokens=tokens, conditions=tuple(conditions))


def _judged(name: str, measured: Any, better: Literal["small", "large"], threshold: float) -> Condition:
    per_head = None
    if isinstance(measured, np.ndarray):
        per_head = tuple(map(float, measured))
        measured = max(per_head) if better == "small" else min(per_head)
    holds = measured is None or (measured <= threshold if better == "small" else measured >= threshold)
    return Condition(name, measured, better, float(threshold), bool(holds), per_head)
