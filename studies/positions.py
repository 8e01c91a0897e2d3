"""Tokens with positions added.

Do the learners still work when a fixed position vector is added to each token, and which phase breaks first?
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.random import Generator

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    PositionedInputs,
    make_nice_layer,
    relative_error,
    sinusoidal_positions,
)
from runs import Scale
from studies.line_figure import Panel, line_figure
from studies.rows import chosen, curve, median, of_all, table, with_interval
from studies.study import Parameters, Row, Table
from upper import Newton
from upper.floor import counting_floor
from upper.six_phase import PhaseFailedError, attention_span, refine_by_consistency, sculpt_affine_hull

STREAM = ("part", "heads", "tokens", "dim", "draw")

_KINDS = {"sinusoidal": "sinusoidal", "gaussian": "Gaussian"}
_CONTROL = "larger logits"
_STAGES = {"crude": "phase 1", "refined": "phase 3", "span": "span"}
_SCALES = (0.25, 0.5, 1.0, 2.0)
_SIGMA = 2.0
_EXACT = 1e-6
_BROKEN = 2.0  # times the error with equally large logits and no positions
_TESTED = 2000  # fresh examples for measuring errors
_EXAMPLES, _ROUND = 2000, 20_000  # of phase 1, in units of d; of a round of phase 3
_ACCEPT = 0.01
_FLOORS, _MORE_FLOORS = 4, 28  # of Newton's examples; the second at the largest scale only


def cells(scale: Scale) -> list[Parameters]:
    quick = scale is Scale.QUICK
    scales = (0.5, 2.0) if quick else _SCALES
    settings = [("none", 0.0), *((kind, size) for kind in (*_KINDS, _CONTROL) for size in scales)]
    return [
        {"part": part, "heads": 2, "tokens": 2, "dim": 12 if quick else 16, "kind": kind, "scale": size}
        | {"floors": floors, "draw": draw}
        for part, draws in {"phases": 5, "newton": 8}.items()
        for kind, size in settings
        for floors in ((_FLOORS, _MORE_FLOORS) if part == "newton" and size == scales[-1] else (_FLOORS,))
        for draw in range(1 if quick else draws)
    ]


def measure(*, rng: Generator, part: str, kind: str, scale: float, **size: int) -> Mapping[str, Any]:
    heads, tokens, dim = size["heads"], size["tokens"], size["dim"]
    sigma = _SIGMA * (1 + scale**2) if kind == _CONTROL else _SIGMA
    layer = make_nice_layer(heads=heads, dim=dim, sigma=sigma, rng=rng)
    normal = rng.standard_normal((tokens, dim))
    positions = positions_of(kind, normal, scale=scale) if kind in _KINDS else np.zeros((tokens, dim))
    inputs = PositionedInputs(BooleanInputs(tokens, dim), positions)
    if part == "phases":
        return _phases(layer, inputs, rng)
    oracle = ExampleOracle(layer, inputs, rng=rng)
    fresh = inputs.sample(_TESTED, rng=rng)
    examples = size["floors"] * counting_floor(heads=heads, tokens=tokens, dim=dim)
    fit = Newton(heads=heads, examples=examples, starts=3, work=6000, engine="numpy").fit(oracle, rng=rng)
    return {"error": relative_error(np.asarray(fit.predict(fresh)), layer(fresh))}


def _phases(layer: AttentionLayer, inputs: PositionedInputs, rng: Generator) -> dict[str, Any]:
    """The errors of each phase, of which phase 1 has plain and centred sums; None from the phase that failed on."""
    x = inputs.sample(_EXAMPLES * inputs.dim, rng=rng)
    sums = projection_sums(x, layer(x))
    biases = predicted_biases(layer, inputs.positions, x[:_TESTED])
    seed = int(rng.integers(2**32))  # both continue from the same examples
    measured: dict[str, Any] = {}
    for (ending, crude), predicted in zip(sums.items(), biases, strict=True):
        oracle = ExampleOracle(layer, inputs, rng=np.random.default_rng(seed))
        stages = {"crude": _sum_error(crude, layer), "predicted": predicted, "refined": None, "span": None}
        try:
            refined = refine_by_consistency(oracle, crude, examples=_ROUND).w
            stages["refined"] = _sum_error(refined, layer)
            hull = sculpt_affine_hull(oracle, refined, wide=layer.heads - 1, accept=_ACCEPT)
            stages["span"] = attention_span(hull.body).errors(layer)["span_error"]
        except PhaseFailedError:
            pass  # the errors from this phase on stay None
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


def _phases_of(rows: Sequence[Row]) -> list[Row]:
    """The rows of phases, with the error 1 from the phase that failed on."""
    return [
        {name: 1.0 if value is None else value for name, value in row.items() if name != "error"}
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


def numbers(rows: Sequence[Row]) -> dict[str, Any]:
    phases, newton = _phases_of(rows), [row for row in chosen(rows, part="newton") if row["kind"] in _KINDS]
    control = chosen(phases, kind=_CONTROL)
    breaks = {
        f"breaks_{kind}{ending}": "{}, {} and {}".format(
            *(_breaks(chosen(phases, kind=kind), control, name + ending) for name in _STAGES)
        )
        for kind in _KINDS
        for ending in ("", "_centred")
    }
    return breaks | {
        "newton_until": f"{max(scale for scale in _SCALES if all(_exact(chosen(newton, scale=scale)))):g}",
        **{
            f"newton_{floors}": of_all(_exact(chosen(newton, scale=2.0, floors=floors)))
            for floors in (_FLOORS, _MORE_FLOORS)
        },
    }


def tables(rows: Sequence[Row]) -> dict[str, Table]:
    names = {**_KINDS, _CONTROL: "none, larger logits", "none": "none"}
    by = {"positions": "title", "scale": "scale"}
    stages = {
        f"{title}{', centred' if ending else ''}": f"{name}{ending}"
        for name, title in {"crude": "phase 1", "predicted": "derived", **_STAGES}.items()
        for ending in ("", "_centred")
    }
    newton = {"exact": lambda draws: with_interval(_exact(draws))}
    titled = [
        {**row, "title": names[row["kind"]]} for row in (*_phases_of(rows), *chosen(rows, part="newton"))
    ]
    return {
        "phases": table(chosen(titled, part="phases"), by, stages),
        "newton": table(chosen(titled, part="newton"), by | {"floors": "floors"}, newton),
    }


def figure(rows: Sequence[Row]) -> Any:
    """Median errors of phase 1 and of the span by scale and kind, as they are and centred."""
    phases, panels = _phases_of(rows), []
    for name in ("crude", "span"):
        curves = {
            f"{title}{', centred' if ending else ''}": curve(
                chosen(phases, kind=kind), "scale", name + ending
            )
            for kind, title in _KINDS.items()
            for ending in ("", "_centred")
        }
        curves["no positions, larger logits"] = curve(chosen(phases, kind=_CONTROL), "scale", name)
        panels.append(Panel("scale of the positions", f"error of {_STAGES[name]}", curves, log_x=True))
    return line_figure(panels)
