"""The non-degeneracy report: does a layer meet the conditions under which attention layers are provably learned?"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from attention._arrays import to_numpy
from attention._head_measures import HeadMeasures
from attention.layer import AttentionLayer
from attention.validation import NonNegativeFloat, Whole, checked

__all__ = ["Condition", "ConditionReport", "check_conditions"]


@dataclass(frozen=True)
class Condition:
    """One condition, measured.

    Attributes
    ----------
    name : str
        The condition; thresholds are set by this name.
    applies_to : "Theta", "W" or "shape"
        What it is a condition on.
    measured : float or None
        The measured value, that of the worst head or pair; None where there is nothing to measure.
    better : "small" or "large"
        The direction of good.
    threshold : float
        The condition holds when the measured value is at most (small) or at least (large) this.
    verdict : bool
        Whether it holds; a condition with nothing to measure holds.
    per_head : tuple of float or None
        The value of every head (the worst over its columns or partners); None for one value of all heads.
    explanation : str
        What is measured, and why it matters.
    """

    name: str
    applies_to: Literal["Theta", "W", "shape"]
    measured: float | None
    better: Literal["small", "large"]
    threshold: float
    verdict: bool
    per_head: tuple[float, ...] | None
    explanation: str


@dataclass(frozen=True)
class ConditionReport:
    """The non-degeneracy conditions of one layer; prints as a table.

    Attributes
    ----------
    heads, dim : int
        The numbers m of heads and d of coordinates.
    tokens : int or None
        The number k of tokens, if it was given.
    conditions : tuple of Condition
        All of them, violated or not.
    """

    heads: int
    dim: int
    tokens: int | None
    conditions: tuple[Condition, ...]

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

    def __str__(self) -> str:
        rows = [("condition", "on", "measured", "wanted", "verdict")]
        for one in self.conditions:
            bound = "<=" if one.better == "small" else ">="
            measured, wanted = _told_apart(one.measured, one.threshold)
            verdict = "nothing to measure" if one.measured is None else "holds" if one.verdict else "VIOLATED"
            rows.append((one.name, one.applies_to, measured, f"{bound} {wanted}", verdict))
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
        ]
        lines.insert(1, "  ".join("-" * width for width in widths))
        tokens = "k not given" if self.tokens is None else f"k={self.tokens} tokens"
        some = len(self.violated)
        whole = (
            f"{some} {'condition' if some == 1 else 'conditions'} violated" if some else "all conditions hold"
        )
        title = f"Non-degeneracy of m={self.heads} heads in d={self.dim} coordinates, {tokens}: {whole}"
        return "\n".join([title, *(line.rstrip() for line in lines), _NOTE])

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
    """Measure every non-degeneracy condition of a layer and hold it against a threshold.

    Parameters
    ----------
    layer : AttentionLayer
        The layer, of any array library.
    tokens : int, optional
        The number k of tokens it is used with; the condition on k is not judged without.
    thresholds : mapping of str to float, optional
        Thresholds by the name of the condition, in place of the defaults.

    Raises
    ------
    ValueError
        If `thresholds` has a name that no condition has, or a value below 0.

    Notes
    -----
    What each condition measures, and its default threshold; ``<A, B>`` is ``Tr(A^T B)`` and ``|A|`` the
    Frobenius norm.

    * theta_incoherence, w_incoherence: ``max |<A_i, A_j>| / (|A_i| |A_j|)`` over pairs; at most 1/4.
    * theta_stable_rank, w_stable_rank: ``min |A_i|^2 / |A_i|_op^2``; at least ``max(m, k, ln d)``.
    * theta_trace: ``max Tr(Theta_i)^2 / |Theta_i|^2``; at most 1/4.
    * theta_heavy_column: ``max |column|^2 / |Theta_i|^2``; at most 1/4.
    * theta_non_arithmetic: ``max prod_j |cos(t theta_j)|`` over columns theta and t; at most 1/2. The range of t
      is ``4 / |theta|`` to ``4 pi sqrt(d) / |theta|``, on a grid of steps of at most ``1 / (4 |theta|)``.
    * theta_norms: ``max |Theta_i|``; at most ``(1 + ln d)^2``. All other conditions are free of scale.
    * theta_norms_comparable, w_norms_comparable: ``max |A_i| / min |A_i|``; at most 4.
    * theta_pairwise_distance: ``min |Theta_i - Theta_j| / max(|Theta_i|, |Theta_j|)``; at least 1/10.
    * theta_distinct_singular_values: the smallest gap of neighbouring singular values over the largest value;
      at least 1e-6. Values that are 0 to rounding count once: a low rank is what the stable rank is about.
    * theta_linear_independence: the smallest singular value of the stacked ``vec(Theta_i) / |Theta_i|``; at
      least 1/10.
    * theta_affine_independence: singular value m-1 of the stacked ``vec(Theta_i - mean)``, scaled so that the
      m-1 have root mean square 1; at least 1/10. Differences from the mean, unlike differences from one of
      the heads, do not depend on the order of the heads.
    * heads_against_dimension, tokens_against_dimension: ``m / d`` and ``k / d``; at most 1/4.

    Conditions about pairs are vacuous for one head. A zero head has stable rank 0, no distinct singular values
    and columns on a lattice.
    O(m d^3 + m^2 d^2).

    References
    ----------
    The conditions are those that Chen and Li, arXiv 2402.04084, ask of a layer, as far as they are known to
    us; how they are measured, and all thresholds, are derived here.

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
    theta, w = HeadMeasures(to_numpy(layer.theta)), HeadMeasures(to_numpy(layer.w))
    pairs = m > 1
    measured = {
        "theta_incoherence": theta.incoherence() if pairs else None,
        "theta_stable_rank": theta.stable_rank(),
        "theta_trace": theta.trace(),
        "theta_heavy_column": theta.heavy_column(),
        "theta_non_arithmetic": theta.non_arithmetic(),
        "theta_norms": theta.norms,
        "theta_norms_comparable": theta.norm_ratio() if pairs else None,
        "theta_pairwise_distance": theta.pairwise_distance() if pairs else None,
        "theta_distinct_singular_values": theta.singular_value_gap(),
        "theta_linear_independence": theta.linear_independence(),
        "theta_affine_independence": theta.affine_independence() if pairs else None,
        "w_incoherence": w.incoherence() if pairs else None,
        "w_stable_rank": w.stable_rank(),
        "w_norms_comparable": w.norm_ratio() if pairs else None,
        "heads_against_dimension": m / d,
        "tokens_against_dimension": None if tokens is None else tokens / d,
    }
    rank = float(max(m, tokens or 1, math.log(d)))
    by_shape = {"theta_stable_rank": rank, "w_stable_rank": rank, "theta_norms": (1 + math.log(d)) ** 2}
    conditions = tuple(_condition(name, measured[name], by_shape | given) for name in _CONDITIONS)
    return ConditionReport(heads=m, dim=d, tokens=tokens, conditions=conditions)


# name: direction of good, default threshold (None where it depends on the shape), why it matters
_CONDITIONS: dict[str, tuple[Literal["small", "large"], float | None, str]] = {
    "theta_incoherence": ("small", 0.25, "Heads that point in different directions can be told apart."),
    "theta_stable_rank": ("large", None, "Many directions matter alike, so that logits are nearly Gaussian."),
    "theta_trace": ("small", 0.25, "The logit of a token on itself behaves like the logits on the others."),
    "theta_heavy_column": ("small", 0.25, "No single coordinate of a token decides the logits."),
    "theta_non_arithmetic": (
        "small",
        0.5,
        "The logits do not lie near a lattice, as a local limit theorem needs; 1 is a lattice.",
    ),
    "theta_norms": (
        "small",
        None,
        "Logits are at most polylogarithmic, so that patterns are seldom saturated.",
    ),
    "theta_norms_comparable": (
        "small",
        4.0,
        "No head drowns the others; infinite with a zero head beside others.",
    ),
    "theta_pairwise_distance": ("large", 0.1, "No two heads attend in nearly the same way."),
    "theta_distinct_singular_values": (
        "large",
        1e-6,
        "Singular vectors are determined, repeated values leave them free.",
    ),
    "theta_linear_independence": ("large", 0.1, "The span of the heads has the dimension m."),
    "theta_affine_independence": ("large", 0.1, "The affine hull of the heads has the dimension m-1."),
    "w_incoherence": ("small", 0.25, "The outputs of different heads can be told apart."),
    "w_stable_rank": ("large", None, "The output of a head keeps many directions of a token."),
    "w_norms_comparable": (
        "small",
        4.0,
        "No head's output drowns the others; infinite with a zero head beside others.",
    ),
    "heads_against_dimension": ("small", 0.25, "The number of heads is much smaller than the dimension."),
    "tokens_against_dimension": ("small", 0.25, "The number of tokens is much smaller than the dimension."),
}


def _condition(name: str, measured: np.ndarray | float | None, thresholds: Mapping[str, float]) -> Condition:
    """The condition, judged; an array holds a value of every head, and the worst one counts."""
    prefix, _, _ = name.partition("_")
    better, default, explanation = _CONDITIONS[name]
    threshold = float(thresholds.get(name, default))  # type: ignore[arg-type]
    per_head = None
    if measured is None:
        missing = "the number of tokens was not given" if prefix == "tokens" else "one head makes no pair"
        explanation = f"Nothing to measure, as {missing}. {explanation}"
    elif isinstance(measured, np.ndarray):
        per_head = tuple(float(one) for one in measured)
        measured = max(per_head) if better == "small" else min(per_head)
    applies_to: dict[str, Literal["Theta", "W"]] = {"theta": "Theta", "w": "W"}
    return Condition(
        name=name,
        applies_to=applies_to.get(prefix, "shape"),
        measured=measured,
        better=better,
        threshold=threshold,
        verdict=measured is None or (measured <= threshold if better == "small" else measured >= threshold),
        per_head=per_head,
        explanation=explanation,
    )


def _told_apart(measured: float | None, threshold: float) -> tuple[str, str]:
    """Both numbers to three digits, or to as many as it takes to read that they differ."""
    if measured is None:
        return "-", f"{threshold:.3g}"
    digits = 3
    # 17 digits tell any two floats apart
    while digits < 17 and measured != threshold and f"{measured:.{digits}g}" == f"{threshold:.{digits}g}":
        digits += 1
    return f"{measured + 0.0:.{digits}g}", f"{threshold:.{digits}g}"  # no minus zero


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return "infinity" if isinstance(value, float) and math.isinf(value) else value
