"""Study: fixed positions added to the tokens: what they do to each phase, to Newton and to Adam."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from arena.studies._positions import (
    gram_condition,
    later_phases,
    phase_one_errors,
    positions_of,
    predicted_biases,
    projection_sums,
)
from arena.studies._positions_figure import draw_positions
from arena.studies._positions_table import positions_table
from arena.studies._positions_words import found_in_words
from arena.studies.study import Parameters, Study
from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    PositionedInputs,
    make_nice_layer,
    relative_error,
)
from paper_checks import Scale
from upper import Adam, Newton
from upper.floor import counting_floor

__all__ = ["STUDY"]

_SIGMA = 2.0
_KINDS = ("sinusoidal", "gaussian", "one-hot")
_SCALES = (0.25, 0.5, 1.0, 2.0)
_TESTED = 2000  # fresh examples that errors are measured on
_EXAMPLES = 2000  # of phase 1, in units of d
_FLOORS, _MORE_FLOORS = 4, 28  # of Newton's examples; the second at the largest scale only
_NEWTON_WORK, _ADAM_STEPS, _ADAM_BATCH = 6000, 600, 256


def _cells(scale: Scale) -> list[Parameters]:
    quick = scale is Scale.QUICK
    kinds, scales = (_KINDS[:2], (0.5, 2.0)) if quick else (_KINDS, _SCALES)
    where: list[Mapping[str, Any]] = [
        {"kind": "none", "scale": 0.0},
        *({"kind": kind, "scale": size} for kind in kinds for size in scales),
        *({"kind": "larger logits", "scale": size} for size in scales),
    ]
    # part, (m, k, d), draws
    parts = (
        [("phases", (2, 2, 12), 1), ("newton", (2, 2, 12), 1), ("adam", (2, 2, 12), 1)]
        if quick
        else [
            ("phases", (2, 2, 16), 5),
            ("phases", (2, 3, 16), 3),
            ("newton", (2, 2, 16), 8),
            ("newton", (2, 3, 16), 8),
            ("adam", (2, 2, 16), 3),
        ]
    )
    return [
        {"part": part, "heads": m, "tokens": k, "dim": d, **one, "floors": floors, "draw": draw}
        for part, (m, k, d), draws in parts
        for one in where
        for floors in (_floors(one, max(scales)) if part == "newton" else (None,))
        if not (quick and part == "adam" and one["kind"] not in ("none", "gaussian"))  # the longest cells
        for draw in range(draws)
    ]


def _floors(where: Mapping[str, Any], largest: float) -> tuple[int, ...]:
    return (_FLOORS, _MORE_FLOORS) if where["scale"] == largest else (_FLOORS,)


def _measure(
    *,
    rng: np.random.Generator,
    part: str,
    heads: int,
    tokens: int,
    dim: int,
    kind: str,
    scale: float,
    floors: int | None,
    draw: int,
) -> Mapping[str, Any]:
    larger = kind == "larger logits"
    sigma = _SIGMA * (1 + scale**2) if larger else _SIGMA
    layer = make_nice_layer(heads=heads, dim=dim, sigma=sigma, rng=rng)
    normal = rng.standard_normal((tokens, dim))
    if kind in _KINDS:
        positions = positions_of(kind, tokens, dim, scale=scale, normal=normal)
    else:
        positions = np.zeros((tokens, dim))
    inputs = PositionedInputs(BooleanInputs(tokens, dim), positions)
    if part == "phases":
        return _phases(layer, inputs, rng)
    oracle = ExampleOracle(layer, inputs, rng=rng)
    fresh = inputs.sample(_TESTED, rng=rng)
    if part == "adam":
        adam = Adam(m=heads, work=_ADAM_STEPS, batch=_ADAM_BATCH, learning_rate=0.01, dtype="float64")
        return {"error": _error(adam.fit(oracle, rng=rng).predict, layer, fresh)}
    examples = (floors or _FLOORS) * counting_floor(heads=heads, tokens=tokens, dim=dim)
    newton = Newton(m=heads, examples=examples, starts=3, work=_NEWTON_WORK, engine="numpy")
    fit = newton.fit(oracle, rng=rng)
    passes = fit.trace[-1].measures.get("passes")
    return {
        "error": _error(fit.predict, layer, fresh),
        "outcome": fit.outcome.name,
        "passes": None if passes is None else int(passes),
        "condition": gram_condition(layer, fresh),
    }


def _phases(layer: AttentionLayer, inputs: PositionedInputs, rng: np.random.Generator) -> dict[str, Any]:
    x = inputs.sample(_EXAMPLES * inputs.d, rng=rng)
    sums = projection_sums(x, layer(x), inputs.positions)
    before, after = predicted_biases(layer, inputs.positions, x[:_TESTED])
    seed = int(rng.integers(2**32))  # both go on from the same examples
    later = {
        name: later_phases(layer, inputs, sums[name], rng=np.random.default_rng(seed))
        for name in ("as it is", "centred")
    }
    return {
        "crude": phase_one_errors(sums, layer),
        "predicted": {"as it is": before, "centred": after},
        **{what: {name: found[what] for name, found in later.items()} for what in later["centred"]},
    }


def _error(predict: Any, layer: AttentionLayer, fresh: np.ndarray) -> float:
    return relative_error(np.asarray(predict(fresh), dtype=np.float64), layer(fresh))


STUDY = Study(
    name="positions",
    title="Tokens with positions added",
    question="Do the learners still work when a fixed position vector is added to each token, and which phase breaks "
    "first?",
    expected="The specification only says that tokens with positional encodings added are in the family of inputs, "
    "and Chen and Li's theorem is for tokens of mean zero; derived from the phases as the specification states them: "
    "phase 1 breaks first, by a term of rank one along the mean position that centring by position takes off, later "
    "phases stand until larger logits make agreement rarer, and Newton only meets a Gram matrix of a larger condition "
    "number.",
    limits="Two heads, two or three tokens, d = 12 or 16, positions of equal norm and known which token has which; "
    "positions that are drawn anew, relative ones, and masks are not looked at.",
    how="Nice layers, sigma 2, on Boolean tokens u with positions pi added: sinusoidal (the first few, which are nearly"
    " parallel), Gaussian or one-hot, all of norm scale times sqrt(d), the norm of a token. Phase 1 is the mean of "
    "(1/k) X^T J Y over 2000 d examples: as it is; with the known pi taken off X; and with X and Y centred by "
    "position. Derived: with pi' the mean position and S = sum W the first tends, without attention, to S + k pi'^T"
    " pi' S; the other two to S + sum Theta_i Pi^T D_i Pi W_i, D_i the mean of diag(p) - p^T p over rows p, for the"
    " logit of token b moves with u_a Theta pi_b, and both have the bias that mean-zero tokens have. From there "
    "phases 3 to 6 go on in practical mode on the tokens as they are, with 20 000 examples a round of refinement "
    "and 1 % of the rows accepted; what failed counts as error 1. Phases are judged by what is measured before "
    "Newton has a part: the sums of phases 1 and 3 and the worst head's distance from the span, where 1 is a head "
    "of which the span holds nothing. Positions enlarge logits, their standard deviation to about 2 (1 + scale^2): "
    "the control is sigma of that size without positions, at every scale. A phase breaks where its median over "
    "kinds and targets is more than twice the control's at the same scale, by interpolation between scales; scales "
    "within a quarter of the least count as the same. Phase 6 ends in Newton's iterates, so an exact end says "
    "little for the phases where Newton alone, on as many examples, is exact too. Newton has four counting floors "
    "of examples, at the largest scale also 28, and three starts; Adam 600 steps of 256 fresh examples at rate .01 "
    "in float64. Errors are relative, on fresh examples, medians over five targets (three for k = 3 and Adam, eight"
    " for Newton), ends of the range as lines; exact is below 1e-6, intervals 95 % by Clopper and Pearson. At the "
    "quick scale sizes and numbers are smaller. The derived bias and the control were settled after trials on other"
    " draws, and the expectation was written after them.",
    cells=_cells,
    measure=_measure,
    found=found_in_words,
    table=positions_table,
    draw=draw_positions,
    stream=("part", "heads", "tokens", "dim", "draw"),
    needs=("torch",),
)
