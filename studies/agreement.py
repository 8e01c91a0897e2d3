"""The probability that two heads agree at tolerances below 1/sqrt d, compared with a normal law."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from numpy.random import Generator
from scipy.special import ndtr

from attention import AttentionLayer, BooleanInputs, GaussianInputs, check_conditions, make_nice_layer
from runs import Scale
from runs.figures import (
    FAINT,
    INK,
    axes_in,
    canvas,
    dimension_axis,
    legend_above,
    line_look,
)
from studies.intervals import mean_interval
from studies.line_figure import decade_axis, number_text, title_axes
from studies.rows import grouped, of_all
from studies.study import Parameters, Row, Study

__all__ = ["FRACTIONS", "STUDY", "heads_of_kind", "lattice_law", "parallel_pairs", "spacing"]

FRACTIONS = tuple(4.0**-power for power in range(6))
"""The tolerances, in units of 1/sqrt d."""

_SIGMA = 2.0
_KINDS = ("generic", "lattice", "signs")
_INPUTS = {"boolean": BooleanInputs, "gaussian": GaussianInputs}
_ROWS = 2048  # first tokens per batch, and the same number of second tokens; every pair counts


def _cells(scale: Scale) -> Sequence[Parameters]:
    quick = scale is Scale.QUICK
    return [
        {"heads": heads, "inputs": inputs, "dim": dim, "draw": draw, "batches": 4 if quick else 32}
        for heads in _KINDS
        for inputs in _INPUTS
        for dim in ((16, 64) if quick else (16, 32, 64, 128, 256))
        for draw in range(1 if quick else 3)
    ]


def _measure(*, rng: Generator, heads: str, inputs: str, dim: int, draw: int, batches: int) -> dict[str, Any]:
    """The share of agreement at each tolerance, and its ratio to the normal law with an interval over batches."""
    layer = heads_of_kind(heads, dim, rng)
    contrast = layer.theta[0] - layer.theta[1]
    tolerances = np.array(FRACTIONS) / np.sqrt(dim)
    limits = tolerances * (1 + 1e-9) + 1e-12
    tokens = _INPUTS[inputs](2, dim)
    alike = 2.0 ** (1 - dim) if inputs == "boolean" else 0.0  # the chance that x_2 is x_1 or -x_1
    ratios, shares, left_out = [], [], 0
    for _ in range(batches):
        own, other = tokens.sample(_ROWS, rng=rng)[:, 0], tokens.sample(_ROWS, rng=rng)[:, 1]
        coefficients = own @ contrast
        centre = np.einsum("nd,nd->n", coefficients, own)
        gaps = coefficients @ other.T
        gaps -= centre[:, None]
        np.abs(gaps, out=gaps)
        kept = gaps.size
        if alike:  # heads always agree on equal tokens, and the learner drops them
            pairs = parallel_pairs(own, other)
            gaps[pairs] = np.inf
            kept -= len(pairs[0])
        left_out += gaps.size - kept
        hits = np.searchsorted(np.sort(gaps[gaps <= limits[0]]), limits) / kept
        # without the two tokens along x_1 the mean is unchanged and the variance is this
        width = np.sqrt((np.sum(coefficients**2, axis=1) - alike * centre**2) / (1 - alike))
        normal = [np.mean(ndtr((t - centre) / width) - ndtr((-t - centre) / width)) for t in tolerances]
        ratios.append(hits / normal)
        shares.append(hits)
    intervals = [mean_interval(column) for column in np.array(ratios).T]
    return {
        "arithmetic": check_conditions(layer)["theta_non_arithmetic"].measured,
        "left_out": left_out / (batches * _ROWS**2),
        "share": np.mean(shares, axis=0).tolist(),
        "ratio": [one.estimate for one in intervals],
        "low": [one.low for one in intervals],
        "high": [one.high for one in intervals],
    }


def heads_of_kind(kind: str, dim: int, rng: Generator) -> AttentionLayer:
    """Two nice heads; or these heads rounded to a quarter of their deviation, or their signs times the deviation."""
    nice = make_nice_layer(heads=2, dim=dim, sigma=_SIGMA, rng=rng)
    unit = _SIGMA / dim
    theta = {
        "generic": nice.theta,
        "lattice": np.round(nice.theta / (unit / 4)) * (unit / 4),
        "signs": np.where(nice.theta < 0, -unit, unit),
    }[kind]
    return AttentionLayer(theta=theta, w=nice.w)


def parallel_pairs(
    own: Float[ndarray, "n d"], other: Float[ndarray, "p d"]
) -> tuple[Int[ndarray, "q"], Int[ndarray, "q"]]:
    """Indices of the pairs of Boolean tokens that are equal or opposite."""
    lines: dict[bytes, int] = {}
    first, second = (
        np.array(
            [lines.setdefault(bits.tobytes(), len(lines)) for bits in np.packbits(x * x[:, :1] > 0, axis=1)]
        )
        for x in (own, other)
    )
    rows = np.flatnonzero(np.isin(first, second))
    among, columns = np.nonzero(first[rows][:, None] == second)
    return rows[among], columns


def spacing(kind: str, dim: int) -> float | None:
    """The spacing of the possible gaps of heads on a lattice: twice the spacing of the entries of Theta_1 - Theta_2.

    Notes
    -----
    With Boolean tokens a gap is a sum of c_j (x_1j - x_2j) with c = x_1 (Theta_1 - Theta_2), and x_1j - x_2j is 0 or
    twice a sign. Entries of plus or minus sigma/d have differences on a lattice of 2 sigma/d; entries rounded to
    sigma/4d, on one of sigma/4d. Derived here.
    """
    return {"signs": 4 * _SIGMA / dim, "lattice": _SIGMA / (2 * dim)}.get(kind)


def lattice_law(within: float) -> float:
    """Agreement divided by the normal law, for gaps on a lattice, at a tolerance in units of the spacing."""
    return (2 * math.floor(within * (1 + 1e-9)) + 1) / (2 * within)


def _grouped(rows: Sequence[Row]) -> dict[tuple[Any, ...], list[Row]]:
    return grouped(rows, "heads", "inputs", "dim")


def _ratio(draws: Sequence[Row]) -> np.ndarray:
    """The mean over draws, at each tolerance."""
    return np.mean([row["ratio"] for row in draws], axis=0)


def _half_width(draws: Sequence[Row]) -> np.ndarray:
    """The half-width of the interval of that mean; draws are independent."""
    widths = np.array([(np.array(row["high"]) - np.array(row["low"])) / 2 for row in draws])
    return np.sqrt(np.sum(widths**2, axis=0)) / len(draws)


def _of_lattice(kind: str, dim: int, draws: Sequence[Row]) -> list[tuple[float, float]]:
    """The tolerances in units of the spacing, and the ratios there."""
    unit = (spacing(kind, dim) or math.nan) * math.sqrt(dim)
    return [(fraction / unit, float(one)) for fraction, one in zip(FRACTIONS, _ratio(draws), strict=True)]


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    groups = _grouped(rows)
    boolean = {(kind, dim): draws for (kind, inputs, dim), draws in groups.items() if inputs == "boolean"}
    generic = {dim: draws for (kind, dim), draws in boolean.items() if kind == "generic"}
    lattices = {key: draws for key, draws in boolean.items() if key[0] != "generic"}
    normal = [draws for (_, inputs, _), draws in groups.items() if inputs == "gaussian"]
    named: dict[str, Any] = {}
    if generic:
        named["worst"] = f"{_worst(generic.values()):.1%}"
        for name, place in (("wide", 0), ("narrow", -1)):
            named[f"chance_{name}"] = f"{max(_half_width(draws)[place] for draws in generic.values()):.1%}"
        for name, dim in (("first", min(generic)), ("last", max(generic))):
            named[f"{name}_dim"] = dim
            named[f"{name}_missing"] = f"{100 * (1 - _ratio(generic[dim])[0]):.2g}%"
            named[f"{name}_excluded"] = of_all(row["high"][0] < 1 for row in generic[dim])
        named["left_out"] = number_text(generic[min(generic)][0]["left_out"])
    if lattices:
        pairs = [pair for key, draws in lattices.items() for pair in _of_lattice(*key, draws)]
        named["lattice_worst"] = f"{max(abs(ratio / lattice_law(at) - 1) for at, ratio in pairs):.1%}"
        named["rarest"] = f"{min(ratio for _, ratio in pairs):.2g}"
        for kind in dict.fromkeys(kind for kind, _ in lattices):
            last = {dim: _ratio(draws)[-1] for (one, dim), draws in lattices.items() if one == kind}
            named[f"{kind}_first"] = f"{last[min(last)]:.0f}"
            named[f"{kind}_last"] = f"{last[max(last)]:.0f}"
    if normal:
        ends = [
            pair for draws in normal for row in draws for pair in zip(row["low"], row["high"], strict=True)
        ]
        named["gaussian_worst"] = f"{_worst(normal):.1%}"
        named["gaussian_excluded"] = of_all(low > 1 or high < 1 for low, high in ends)
    return named


def _worst(groups: Iterable[Sequence[Row]]) -> float:
    """The largest deviation of a mean over draws from the law."""
    return max(float(np.abs(_ratio(draws) - 1).max()) for draws in groups)


_HEADS = {"generic": "generic", "lattice": "on a lattice of a quarter", "signs": "plus or minus one value"}
_COLUMNS = {0: "ratio at 1/√d", 2: "ratio at 1/(16√d)", 5: "ratio at 1/(1024√d)"}


def _table(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Boolean tokens; the law is exact for Gaussian ones."""
    return [
        {
            "heads": _HEADS[kind],
            "d": str(dim),
            "arithmetic": f"{np.mean([row['arithmetic'] for row in draws]):.2f}",
            "spacing": number_text(spacing(kind, dim)),
            **{name: f"{_ratio(draws)[place]:.4g}" for place, name in _COLUMNS.items()},
        }
        for (kind, inputs, dim), draws in _grouped(rows).items()
        if inputs == "boolean"
    ]


def _figure(rows: Sequence[Row]) -> Any:
    with canvas(9.6, 3.9) as figure:
        _draw_generic(axes_in(figure, (0.06, 0.13, 0.40, 0.66)), rows)
        _draw_lattices(axes_in(figure, (0.56, 0.13, 0.42, 0.66)), rows)
        legend_above(figure, columns=5)
        return figure


def _draw_generic(axes: Any, rows: Sequence[Row]) -> None:
    """Agreement over the law at the largest tolerance, against d, with intervals."""
    dims = sorted({row["dim"] for row in rows})
    for place, (inputs, label) in enumerate(
        (("boolean", "generic, Boolean"), ("gaussian", "generic, Gaussian"))
    ):
        own = {key[2]: draws for key, draws in _grouped(rows).items() if key[:2] == ("generic", inputs)}
        if own:
            off = [100 * (_ratio(draws)[0] - 1) for draws in own.values()]
            bars = [100 * _half_width(draws)[0] for draws in own.values()]
            aside = [dim * (1.05 if place else 0.95) for dim in own]
            axes.errorbar(
                aside, off, yerr=bars, label=label, capsize=2, **{**line_look(place), "linestyle": "none"}
            )
    dimension_axis(axes, dims)
    axes.set_xlim(dims[0] / 1.25, dims[-1] * 1.25)
    axes.axhline(0, color=FAINT, linewidth=0.9)
    title_axes(axes, "d", "agreement at 1/√d off the normal law, %")


def _draw_lattices(axes: Any, rows: Sequence[Row]) -> None:
    """Agreement over the law against the tolerance: all d and both lattices fall on one curve."""
    across, ratios = [1.0], [1.0]
    for place, kind in enumerate(_KINDS[1:], start=2):
        pairs = [
            pair
            for (one, inputs, dim), draws in _grouped(rows).items()
            if (one, inputs) == (kind, "boolean")
            for pair in _of_lattice(kind, dim, draws)
            if pair[1] > 0
        ]
        if pairs:
            axes.plot(
                *zip(*pairs, strict=True), label=_HEADS[kind], **{**line_look(place), "linestyle": "none"}
            )
            across += [within for within, _ in pairs]
            ratios += [ratio for _, ratio in pairs]
    fine = np.geomspace(min(across) / 1.3, 1.3 * max(across), 800)
    axes.plot(
        fine, [lattice_law(one) for one in fine], color=INK, linewidth=0.9, label="points of the lattice"
    )
    axes.axhline(1, color=FAINT, linewidth=0.9, linestyle=(0, (2, 2)))
    decade_axis(axes.xaxis, across)
    decade_axis(axes.yaxis, ratios)
    title_axes(axes, "tolerance / spacing of the gaps", "agreement / normal law, heads on lattices")


STUDY = Study(
    name="agreement",
    title="Agreement below the tolerance 1/√d",
    question="Do two heads agree within a tolerance far below 1/√d as often as a normal law says?",
    cells=_cells,
    measure=_measure,
    numbers=_numbers,
    table=_table,
    figure=_figure,
)
