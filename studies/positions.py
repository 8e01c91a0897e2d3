"""Fixed positions added to the tokens: their effect on each phase and on Newton."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.random import Generator

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    PositionedInputs,
    draw_examples,
    make_nice_layer,
    relative_error,
    sinusoidal_positions,
)
from runs import Scale
from studies.line_figure import Panel, line_figure
from studies.rows import chosen, curve, median, of_all, table, values, with_interval
from studies.study import Parameters, Row, Study, Table
from upper import Newton
from upper.floor import counting_floor
from upper.newton.span import fit_in_span
from upper.six_phase import PhaseFailedError, attention_span, refine_by_consistency, sculpt_affine_hull

__all__ = ["STUDY", "positions_of", "predicted_biases", "projection_sums"]

_KINDS = {"sinusoidal": "sinusoidal", "gaussian": "Gaussian"}
_CONTROL = "larger logits"
_STAGES = {"crude": "phase 1", "refined": "phase 3", "span": "span"}
_SCALES = (0.25, 0.5, 1.0, 2.0)
_SIGMA = 2.0
_EXACT = 1e-6
_BROKEN = 2.0  # times the error with equally large logits and no positions
_LOST = 0.5  # a span with a larger error contains little of the heads
_TESTED = 2000  # fresh examples for measuring errors
_EXAMPLES, _ROUND = 2000, 20_000  # of phase 1, in units of d; of a round of phase 3
_ACCEPT = 0.01
_FLOORS, _MORE_FLOORS = 4, 28  # of Newton's examples; the second at the largest scale only


def _cells(scale: Scale) -> list[Parameters]:
    quick = scale is Scale.QUICK
    scales = (0.5, 2.0) if quick else _SCALES
    settings = [("none", 0.0), *((kind, size) for kind in (*_KINDS, _CONTROL) for size in scales)]
    parts = [("phases", 2, 5), ("phases", 3, 3), ("newton", 2, 8)]
    dim = 12 if quick else 16
    return [
        {"part": part, "heads": 2, "tokens": k, "dim": dim, "kind": kind, "scale": size}
        | {"floors": floors, "draw": draw}
        for part, k, draws in (parts[::2] if quick else parts)
        for kind, size in settings
        for floors in ((_FLOORS, _MORE_FLOORS) if part == "newton" and size == scales[-1] else (_FLOORS,))
        for draw in range(1 if quick else draws)
    ]


def _measure(
    *,
    rng: Generator,
    part: str,
    heads: int,
    tokens: int,
    dim: int,
    kind: str,
    scale: float,
    floors: int,
    draw: int,
) -> Mapping[str, Any]:
    sigma = _SIGMA * (1 + scale**2) if kind == _CONTROL else _SIGMA
    layer = make_nice_layer(heads=heads, dim=dim, sigma=sigma, rng=rng)
    normal = rng.standard_normal((tokens, dim))
    positions = positions_of(kind, normal, scale=scale) if kind in _KINDS else np.zeros((tokens, dim))
    inputs = PositionedInputs(BooleanInputs(tokens, dim), positions)
    if part == "phases":
        return _phases(layer, inputs, rng)
    oracle = ExampleOracle(layer, inputs, rng=rng)
    fresh = inputs.sample(_TESTED, rng=rng)
    examples = floors * counting_floor(heads=heads, tokens=tokens, dim=dim)
    fit = Newton(heads=heads, examples=examples, starts=3, work=6000, engine="numpy").fit(oracle, rng=rng)
    reads = np.matmul(layer.patterns(fresh), fresh[:, None]).transpose(0, 2, 1, 3).reshape(-1, heads * dim)
    return {
        "error": relative_error(np.asarray(fit.predict(fresh)), layer(fresh)),
        "condition": float(np.linalg.cond(reads.T @ reads)),  # of Newton's Gram matrix at the target
    }


def _phases(layer: AttentionLayer, inputs: PositionedInputs, rng: Generator) -> dict[str, Any]:
    """The errors of each phase, of which phase 1 has plain and centred sums; None from the phase that failed on."""
    x = inputs.sample(_EXAMPLES * inputs.dim, rng=rng)
    sums = projection_sums(x, layer(x))
    biases = predicted_biases(layer, inputs.positions, x[:_TESTED])
    seed = int(rng.integers(2**32))  # both continue from the same examples
    measured: dict[str, Any] = {}
    for (ending, crude), predicted in zip(sums.items(), biases, strict=True):
        stages = {"crude": _sum_error(crude, layer), "predicted": predicted}
        stages |= _later_phases(layer, inputs, crude, np.random.default_rng(seed))
        measured |= {f"{name}{ending}": value for name, value in stages.items()}
    return measured


def _sum_error(estimate: Float[np.ndarray, "d d"], layer: AttentionLayer) -> float:
    total = layer.w.sum(axis=0)
    return float(np.linalg.norm(estimate - total) / np.linalg.norm(total))


def positions_of(kind: str, normal: Float[np.ndarray, "k d"], *, scale: float) -> Float[np.ndarray, "k d"]:
    """Positions of norm `scale` sqrt(d), `scale` times that of a Boolean token; Gaussian ones are made of `normal`."""
    rows = sinusoidal_positions(*normal.shape) if kind == "sinusoidal" else normal
    return np.asarray(rows * (scale * np.sqrt(rows.shape[1]) / np.linalg.norm(rows, axis=1, keepdims=True)))


def projection_sums(x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]) -> dict[str, np.ndarray]:
    """The mean of (1/k) X^T J Y, plain (""), and with X and Y centred by position ("_centred").

    Notes
    -----
    Derived here. With x_b = u_b + pi_b, pi the positions, pi' their mean, C the mean of (pi_b - pi')^T (pi_b - pi') and
    S = sum_i W_i: without attention the first has the mean S + k pi'^T pi' S. The second has the mean S, and to first
    order in Theta a further bias, sum_i Theta_i C W_i, because x_a Theta pi_b moves the weight towards pi_b; see
    `predicted_biases` beyond first order.
    """
    pairs = {"": (x, y), "_centred": (x - x.mean(axis=0), y - y.mean(axis=0))}
    return {
        name: np.asarray(tokens.sum(axis=1).T @ labels.sum(axis=1) / (x.shape[0] * x.shape[1]))
        for name, (tokens, labels) in pairs.items()
    }


def predicted_biases(
    layer: AttentionLayer, positions: Float[np.ndarray, "k d"], x: Float[np.ndarray, "n k d"]
) -> tuple[float, float]:
    """The effect of positions on the error of phase 1, plain and centred.

    Notes
    -----
    The two are |k pi'^T pi' S| / |S| and |sum_i Theta_i Pi^T D_i Pi W_i| / |S|, with Pi the positions and D_i the mean
    of diag(p) - p^T p over rows p of the patterns on x. The second follows from Stein's identity,
    E[u_a^T p_ab] = E[dp_ab/du_a], which is exact for Gaussian tokens; the tokens' own part is left out. For small
    Theta, D_i is (1/k) (1 - J/k), which gives C.
    """
    total, mean = layer.w.sum(axis=0), positions.mean(axis=0)
    plain = len(positions) * np.outer(mean, mean @ total)
    p = layer.patterns(x).transpose(1, 0, 2, 3).reshape(layer.heads, -1, len(positions))
    spread = np.stack([np.diag(rows.mean(axis=0)) - rows.T @ rows / len(rows) for rows in p])
    centred = np.einsum("mij,mjk,mkl->il", layer.theta, positions.T @ spread @ positions, layer.w)
    size = np.linalg.norm(total)
    return float(np.linalg.norm(plain) / size), float(np.linalg.norm(centred) / size)


def _later_phases(
    layer: AttentionLayer, inputs: PositionedInputs, crude: Float[np.ndarray, "d d"], rng: Generator
) -> dict[str, Any]:
    """Phases 3 to 6 in practical mode from a sum of phase 1; the end is that of Newton from the fit in the span."""
    m, oracle = layer.heads, ExampleOracle(layer, inputs, rng=rng)
    errors: dict[str, Any] = {"refined": None, "span": None, "exact": False}
    try:
        refined = refine_by_consistency(oracle, crude, examples=_ROUND).w
        errors["refined"] = _sum_error(refined, layer)
        span = attention_span(sculpt_affine_hull(oracle, refined, wide=m - 1, accept=_ACCEPT).body)
    except PhaseFailedError:
        return errors
    errors["span"] = span.errors(layer)["span_error"]
    x, y = draw_examples(oracle, _FLOORS * counting_floor(heads=m, tokens=inputs.tokens, dim=inputs.dim))
    start, _ = fit_in_span(x, y, span.scaled_basis, rng=rng)
    begin = AttentionLayer(theta=start.theta, w=start.w)
    newton = Newton(heads=m, start=begin, starts=1, engine="numpy", work=3000)
    fit = newton.fit(ExampleOracle.from_arrays(x, y), rng=rng)
    fresh = inputs.sample(_TESTED, rng=rng)
    errors["exact"] = relative_error(np.asarray(fit.predict(fresh)), layer(fresh)) <= _EXACT
    return errors


def _with_positions(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    return [row for row in chosen(rows, **wanted) if row["kind"] in _KINDS]


def _whole(rows: Sequence[Row]) -> list[Row]:
    """The rows of phases, with the error 1 from the phase that failed on."""
    return [
        {
            name: 1.0 if value is None else value
            for name, value in row.items()
            if name not in ("error", "condition")
        }
        for row in chosen(rows, part="phases")
    ]


def _exact(rows: Sequence[Row]) -> list[bool]:
    return [row["error"] <= _EXACT for row in rows]


def _breaks(rows: Sequence[Row], control: Sequence[Row], name: str) -> str:
    """The first scale at which a median error is twice that of the control."""
    broken = (
        f"{scale:g}"
        for scale in _SCALES
        if (median(chosen(rows, scale=scale), name) or 0.0)
        > _BROKEN * (median(chosen(control, scale=scale), name) or np.inf)
    )
    return next(broken, "never")


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    phases, newton = _whole(rows), chosen(rows, part="newton")
    two, exact, numbers = chosen(phases, tokens=2), [], {}
    for ending in ("", "_centred"):
        for kind in _KINDS:
            there, control = chosen(two, kind=kind), chosen(two, kind=_CONTROL)
            first, second, third = (_breaks(there, control, name + ending) for name in _STAGES)
            numbers[f"breaks_{kind}{ending}"] = f"{first}, {second} and {third}"
        at = [median(chosen(two, kind=kind, scale=2.0), f"crude{ending}") or 0.0 for kind in _KINDS]
        numbers[f"crude{ending}"] = f"{min(at):.2g} to {max(at):.2g}"
        for scale in (1.0, 2.0):
            ends = values(_with_positions(phases, scale=scale), f"exact{ending}")
            numbers[f"exact_{scale:.0f}{ending}"] = of_all(ends)
        exact += values(chosen(_with_positions(phases), **{f"exact{ending}": True}), f"span{ending}")
    fine = [scale for scale in _SCALES if all(_exact(_with_positions(newton, scale=scale)))]
    last = chosen(newton, scale=2.0)
    few = chosen(last, floors=_FLOORS)
    for kind, name in (("sinusoidal", "sinusoidal"), (_CONTROL, "control")):
        numbers[f"newton_4_{name}"] = of_all(_exact(chosen(few, kind=kind)))
        numbers[f"gram_{name}"] = f"{median(chosen(few, kind=kind), 'condition'):.0f}"
    return numbers | {
        "crude_plain": f"{median(chosen(two, kind='none'), 'crude'):.2g}",
        "lost": of_all(span > _LOST for span in exact),
        "newton_until": f"{max(fine):g}",
        "newton_4": of_all(_exact(_with_positions(few))),
        "newton_28": of_all(_exact(_with_positions(last, floors=_MORE_FLOORS))),
    }


def _share(rows: Sequence[Row], floors: int) -> str | None:
    return with_interval(exact) if (exact := _exact(chosen(rows, floors=floors))) else None


def _tables(rows: Sequence[Row]) -> dict[str, Table]:
    names = {**_KINDS, _CONTROL: "none, larger logits", "none": "none"}
    by = {"k": "tokens", "positions": "title", "scale": "scale"}
    stages = {
        f"{title}{', centred' if ending else ''}": f"{name}{ending}"
        for name, title in {
            "crude": "phase 1",
            "predicted": "derived",
            "refined": "phase 3",
            "span": "span",
        }.items()
        for ending in ("", "_centred")
    }
    ends = {"exact, centred": lambda some: of_all(values(some, "exact_centred"))}
    floors = {f"exact, {floors} floors": partial(_share, floors=floors) for floors in (_FLOORS, _MORE_FLOORS)}
    titled = [{**row, "title": names[row["kind"]]} for row in (*_whole(rows), *chosen(rows, part="newton"))]
    return {
        "phases": table(chosen(titled, part="phases"), by, {**stages, **ends}),
        "newton": table(chosen(titled, part="newton"), by, floors | {"Gram": "condition"}),
    }


def _figure(rows: Sequence[Row]) -> Any:
    """Median errors of phase 1 and of the span for two tokens, by scale and kind, as they are and centred."""
    two, panels = chosen(_whole(rows), tokens=2), []
    for name in ("crude", "span"):
        curves = {
            f"{title}{', centred' if ending else ''}": curve(chosen(two, kind=kind), "scale", name + ending)
            for kind, title in _KINDS.items()
            for ending in ("", "_centred")
        }
        curves["no positions, larger logits"] = curve(chosen(two, kind=_CONTROL), "scale", name)
        panels.append(Panel("scale of the positions", f"error of {_STAGES[name]}, k = 2", curves, log_x=True))
    return line_figure(panels)


STUDY = Study(
    name="positions",
    title="Tokens with positions added",
    question="Do the learners still work when a fixed position vector is added to each token, and which phase breaks "
    "first?",
    cells=_cells,
    measure=_measure,
    numbers=_numbers,
    tables=_tables,
    figure=_figure,
    stream=("part", "heads", "tokens", "dim", "draw"),
)
