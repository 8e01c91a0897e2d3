"""The six phases in words: what each does, what it found, and how far from the truth that is."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from attention import AttentionLayer, Step
from upper.six_phase import Phases

__all__ = ["LEAST_STEP", "PHASES", "PhaseStory", "State", "digits", "tell_phases"]

State = Literal["done", "failed", "not reached", "not run"]

PHASES = (
    "Estimate the sum of the projections",
    "Sculpt the affine hull of the attention matrices",
    "Refine the sum of the projections",
    "Sculpt again with the refined sum",
    "Extract the span of the attention matrices",
    "Search the span for the heads",
)
"""What the phases are called, in their order."""

LEAST_STEP = 1.1
"""A smaller step of a spectrum is told as none: neighbours differ by a few per cent."""


@dataclass(frozen=True)
class PhaseStory:
    """One phase as it is told.

    Attributes
    ----------
    number : int
        1 to 6.
    title : str
        What it is called.
    does : str
        What it does, whatever the target.
    found : tuple of str
        What it found here, in sentences.
    error : tuple of str
        How far that is from the truth, in sentences.
    state : {"done", "failed", "not reached", "not run"}
        How it ended; "not run" where the mode has other phases do its work.
    ended : str
        The same as a sentence.
    examples : int
        Examples it drew.
    measures : dict of str to float
        What its last step measured.
    """

    number: int
    title: str
    does: str
    found: tuple[str, ...]
    error: tuple[str, ...]
    state: State
    ended: str
    examples: int
    measures: dict[str, float]


def tell_phases(phases: Phases, truth: AttentionLayer, mode: str) -> tuple[PhaseStory, ...]:
    """Every phase of a run of the six-phase learner in words.

    Parameters
    ----------
    phases : Phases
        The run, with ground truth in its trace.
    truth : AttentionLayer
        The layer that was to be learned.
    mode : {"practical", "paper"}
        The learner's mode.
    """
    return tuple(_story(number, phases, truth, mode, phases.failed) for number in range(1, 7))


def digits(value: Any) -> str:
    """Two or three digits, as one would say them.

    Examples
    --------
    >>> [digits(value) for value in (0.12345, 3.28, 18452.3, 9.7e-7, 0.0, float("inf"))]
    ['0.123', '3.28', '18,500', '9.7e-7', '0', 'infinite']
    """
    value = float(value)
    if not math.isfinite(value):
        return "infinite" if value == math.inf else "not a number"
    if value == 0:
        return "0"
    if abs(value) >= 1e6 or abs(value) < 1e-3:
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    if abs(value) >= 100:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def _story(number: int, phases: Phases, truth: AttentionLayer, mode: str, failed: int | None) -> PhaseStory:
    steps = [step for step in phases.fit.trace if step.phase == number]
    folded = mode == "practical" and number == 2
    state: State = "not run" if folded else "done" if steps else "not reached"
    if number == failed:
        state = "failed"
    elif failed is not None and not folded and (number > failed or (not steps and number != failed)):
        state = "not reached"
    found: tuple[str, ...] = ()
    error: tuple[str, ...] = ()
    if steps:
        found = tuple(_FOUND[number - 1](phases, steps, truth, mode))
        error = tuple(_error(number, steps, truth))
    elif folded and phases.refinements:
        found = (_thresholds(phases),)
    ended = {
        "done": "Done.",
        "not run": "Not run by itself in practical mode: phase 3 certifies in its rounds, and phase 4 sculpts.",
        "not reached": "Not reached.",
        "failed": f"It failed. {phases.reason[:1].upper()}{phases.reason[1:]}",
    }[state]
    return PhaseStory(
        number=number,
        title=PHASES[number - 1],
        does=_does(number, mode),
        found=found,
        error=error,
        state=state,
        ended=ended,
        examples=_examples(steps) if steps or state != "failed" else _untold(phases),
        measures=dict(steps[-1].measures) if steps else {},
    )


def _examples(steps: Sequence[Step]) -> int:
    return int(sum(step.measures.get("phase_examples", 0) for step in steps))


def _untold(phases: Phases) -> int:
    # a phase that failed before its step was recorded drew what the others did not
    return phases.fit.examples_used - _examples(phases.fit.trace)


def _does(number: int, mode: str) -> str:
    other = _DOES_PRACTICAL.get(number)
    return other if mode == "practical" and other else _DOES[number - 1]


_DOES = (
    "The mean of (1/k) XᵀJY over random examples, J the all-ones matrix, is about the sum ΣW of the projections. "
    "It is one gradient step on a head that attends to every token alike. The estimate is crude: the true "
    "patterns are correlated with the tokens, and no number of examples takes that bias away.",
    "On some rows all heads happen to have the same attention pattern. Such an agreement event shows: the row of "
    "Y is then the tokens averaged by one pattern and sent through ΣW, so it regresses on XΣW with weights that "
    "sum to 1 and leaves almost no residual. If a certified row gives the tokens y and z the weights p and q, and"
    " its own token is x, then xΘ(y − z)ᵀ = ln(p / q) for every head Θ at once. The matrices that satisfy all "
    "these equations up to a tolerance form a convex body K around the affine hull of the heads.",
    "Where a row attends to one token by a large margin under every matrix on the hull that K allows (the paper "
    "asks it of the point of K closest to zero, which stands for the average head), every head's pattern is "
    "nearly one-hot, and the row of Y is nearly one token sent through ΣW: a regression on such rows estimates ΣW"
    " far better than phase 1 could.",
    "The same as phase 2 with the better estimate of ΣW: fewer false agreements, smaller residuals, and a far "
    "thinner body K around the affine hull of the heads.",
    "K is wide along the affine hull of the m heads, in m − 1 directions, and thin in all others. A gap in its "
    "spectrum tells which are which; with the centre of K these directions span all Θᵢ. The search goes on in m "
    "dimensions instead of d².",
    "Every m-tuple of points of a net is tried: the projections of each by linear regression, its error on held-"
    "out examples. The best tuple is the learned layer. No gradient is followed.",
)
_DOES_PRACTICAL = {
    3: "Alternate: certify rows with the estimate of ΣW at hand, and fit ΣW again by least squares on the rows that "
    "are certified, accepting fewer each round. The estimate becomes consistent with its own certificates.",
    6: "Instead of trying a net, descend: the heads are combinations of the span's basis, the projections follow by "
    "least squares, and Levenberg-Marquardt finds the combinations. Newton iterates on all parameters then take "
    "the error to that of the arithmetic.",
}


def _found_sum(phases: Phases, steps: list[Step], truth: AttentionLayer, mode: str) -> list[str]:
    seen = steps[-1].measures
    if math.isinf(seen["standard_error"]):
        return [
            f"The estimate of ΣW from {seen['phase_examples']:,.0f} examples is zero: the projections cancel, or the "
            "labels are zero."
        ]
    return [
        f"From {seen['phase_examples']:,.0f} examples came an estimate of ΣW, a matrix of {truth.dim} × {truth.dim}, "
        f"with a statistical error of {_share(seen['standard_error'])} of its size."
    ]


def _found_hull(phases: Phases, steps: list[Step], truth: AttentionLayer, mode: str) -> list[str]:
    said, d = [], truth.dim
    for step in steps:
        seen, what = step.measures, _round(step)
        said.append(
            f"{what}{seen['accepted']:,.0f} rows were accepted, {_share(seen['acceptance'])} of those looked at, "
            "with a "
            f"relative residual of at most {digits(seen['threshold'])}. They give {seen['equations']:,.0f} "
            "equations in "
            f"d² = {d * d:,} unknowns, of which the best matrix explains {_share(seen['explained'])}; within K "
            "they hold "
            f"up to {digits(seen['tolerance_in_logits'])} logits."
        )
        if math.isfinite(gap := seen.get("gap", math.nan)) and gap < 1e299:
            wide = _some(int(seen["heads"]) - 1, "wide direction")
            said.append(
                f"No direction is wide: the largest step of the spectrum of K is a factor of {digits(gap)}."
                if seen["heads"] == 1
                else f"After {wide} the spectrum of K steps up by a factor of {digits(gap)}."
                if gap >= LEAST_STEP
                else f"The spectrum of K has no gap after {wide}: the next value is hardly larger."
            )
    return said


def _found_refinement(phases: Phases, steps: list[Step], truth: AttentionLayer, mode: str) -> list[str]:
    said = []
    for step in steps:
        seen, what = step.measures, _round(step)
        if "rows" in seen:
            said.append(
                f"{what}{_some(int(seen['rows']), 'row')} of large margin were used, {_share(seen['row_share'])} "
                "of those "
                f"looked at: from {digits(seen['least_margin'])} to {digits(seen['largest_margin'])} logits. The "
                f"condition number of the regression is {digits(seen['condition'])}."
            )
        else:
            said.append(
                f"{_thresholds(phases)} The last round changed the estimate by {digits(seen['last_change'])} of "
                "its "
                f"size; the condition number of its regression is {digits(seen['condition'])}."
            )
    return said


def _thresholds(phases: Phases) -> str:
    thresholds = phases.refinements[-1].series.get("thresholds", np.zeros(0))
    if not thresholds.size:
        return ""
    return (
        f"In {_some(len(thresholds), 'round')} the residual up to which rows are accepted went from "
        f"{digits(thresholds[0])} to {digits(thresholds[-1])}."
    )


def _found_span(phases: Phases, steps: list[Step], truth: AttentionLayer, mode: str) -> list[str]:
    seen = steps[-1].measures
    m, d = int(seen["heads"]), truth.dim
    said = [f"A span of {_some(m, 'dimension')} among d² = {d * d:,}: for {_some(m, 'head')}."]
    if m > 1:
        gap = seen.get("gap", math.inf)
        clear = "clearly" if gap > 10 else "barely" if gap < 1.5 else "visibly"
        if phases.span is None or phases.span.gap is None:
            said.append("The directions are those in which K is widest: this kind of body has no spectrum.")
        elif gap > 1e299:
            said.append("Along them the equations leave K entirely free.")
        else:
            said.append(
                f"Its wide directions are {clear} set apart: the next value of the spectrum is {digits(gap)} times "
                "as large."
            )
        reach = ", ".join(digits(seen[name]) for name in sorted(seen) if name.startswith("reach_"))
        said.append(f"From its centre K reaches {reach} along {'it' if m == 2 else 'them'}, both ways.")
    return said


_TUPLES = {2: "pairs", 3: "triples"}


def _found_heads(phases: Phases, steps: list[Step], truth: AttentionLayer, mode: str) -> list[str]:
    if phases.net is not None:
        net, m = phases.net, phases.net.layer.heads
        best = f"squared relative error of {digits(net.error)} on held-out examples."
        if net.bound is not None:
            best = f"{best[:-1]}, and at most {digits(net.bound)} but with probability .01."
        if m == 1:
            return [f"The hull of one head is a point, and no other was to be tried. It has a {best}"]
        return [
            f"{net.candidates:,} {_TUPLES.get(m, f'{m}-tuples')} were tried, of {_some(net.points, 'point')} a "
            f"head at first, {digits(net.spacing)} of the centre's norm apart, and closer ones around the best.",
            f"The best has a {best}",
        ]
    said = []
    fit = next((step for step in steps if "starts" in step.measures), None)
    if fit is not None:
        starts, residual = int(fit.measures["starts"]), fit.measures["residual"]
        said.append(
            f"Within the span {_some(starts, 'start')} led to a relative residual of {digits(residual)} on "
            f"{fit.measures['phase_examples']:,.0f} examples."
        )
    iterates = [step for step in steps if "damping" in step.measures]
    if iterates:
        said.append(
            f"{_some(len(iterates) - 1, 'Newton iterate')} took it to {digits(iterates[-1].measures['residual'])}."
        )
    if "held_out_error" in steps[-1].measures:
        said.append(
            f"On held-out examples the relative error is {digits(steps[-1].measures['held_out_error'])}."
        )
    return said


_FOUND: tuple[Callable[[Phases, list[Step], AttentionLayer, str], list[str]], ...] = (
    *(_found_sum, _found_hull, _found_refinement, _found_hull, _found_span, _found_heads),
)


def _error(number: int, steps: list[Step], truth: AttentionLayer) -> list[str]:
    said = []
    for step in steps if number in (2, 3, 4) else steps[-1:]:
        seen, what = step.measures, _round(step)
        if number in (1, 3) and not truth.w.sum(axis=0).any():
            said.append(f"{what}The true sum is zero: the projections of the heads cancel.")
        elif number in (1, 3):
            said.append(
                f"{what}The estimate of ΣW is off by {digits(seen['sum_error'])} of the norm of the true sum."
            )
        elif number in (2, 4):
            inside = round(seen["share_inside"] * truth.heads)
            said.append(
                f"{what}The true heads satisfy the certified equations up to {digits(seen['agreement_error'])} "
                "logits "
                f"(root mean square), and {inside} of {_some(truth.heads, 'head')} "
                f"{'lies' if truth.heads == 1 else 'lie'} in K. The worst of them is "
                f"{digits(seen['span_error'])} of its norm away from the span that K suggests."
            )
        elif number == 5:
            angle = seen["span_angle"]
            said.append(
                f"The worst head is {digits(seen['span_error'])} of its norm away from the span; the largest angle "
                f"between the two spans is {digits(angle)} radians, {digits(math.degrees(angle))}°."
            )
        else:
            said.append(f"On fresh inputs the relative error is {digits(seen['unknown_part_error'])}.")
            if "theta_error" in seen:
                said.append(
                    f"The worst head is off by {digits(seen['theta_error'])} in Θ and by "
                    f"{digits(seen['w_error'])} in W."
                )
    return said


def _round(step: Step) -> str:
    return "" if step.round is None else f"Round {step.round}: "


def _some(number: int, word: str) -> str:
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def _share(share: float) -> str:
    if 0.9995 <= share < 1:
        return "more than 99.9%"
    return f"{100 * share:.2g}%" if share < 0.995 else f"{100 * share:.3g}%"
