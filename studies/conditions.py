"""Which heads meet the non-degeneracy conditions as d grows: random, structured, and imported ones."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import chdtri

from attention import (
    AttentionLayer,
    check_conditions,
    make_affinely_dependent_layer,
    make_block_diagonal_layer,
    make_close_heads_layer,
    make_diagonal_layer,
    make_low_rank_layer,
    make_nice_layer,
    make_repeated_singular_values_layer,
    make_transformer_shaped_layer,
)
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
from studies.intervals import Interval, slope_interval
from studies.line_figure import decade_axis, title_axes
from studies.rows import of_all
from studies.study import Parameters, Row, Study
from studies.trained_heads import TASKS, trained_layer

__all__ = ["STUDY", "exponents", "heaviest_column_law", "stable_rank_law"]

_HEADS = _TOKENS = 4
_MADE: Mapping[str, Callable[..., AttentionLayer]] = {
    "random": make_nice_layer,
    "diagonal": make_diagonal_layer,
    "blocks of 4": lambda **sizes: make_block_diagonal_layer(**sizes, block=4),
    "rank 4": lambda **sizes: make_low_rank_layer(**sizes, rank=4),
    "5 % apart": lambda **sizes: make_close_heads_layer(**sizes, gap=0.05),
    "values twice": make_repeated_singular_values_layer,
    "affinely dependent": make_affinely_dependent_layer,
    "transformer-shaped": lambda heads, dim, rng: make_transformer_shaped_layer(
        heads=heads, dim=dim, rank=dim // heads, strengths=(2.0, 12.0), rng=rng
    ),
}
_IMPORTED = {f"imported, {task}": task for task in TASKS}
_PANELS = {
    "theta_incoherence": "incoherence",
    "theta_stable_rank": "stable rank",
    "theta_trace": "Tr²/‖Θ‖²",
    "theta_non_arithmetic": "lattice",
}
_MEASURES = (*_PANELS, "theta_heavy_column", "theta_norms_comparable", "theta_distinct_singular_values")
_LEAST_DRAWN = 1e-8  # zero is drawn here on a logarithmic axis


def _cells(scale: Scale) -> Sequence[Parameters]:
    if scale is Scale.QUICK:
        draws = {16: 40, 32: 40, 64: 16}
        few, trained = dict.fromkeys((16, 64), 2), dict.fromkeys((16, 32), 1)
    else:
        draws = {16: 100, 32: 100, 64: 60, 128: 30, 256: 16, 512: 8}
        few, trained = {16: 10, 64: 6, 256: 3}, {16: 5, 32: 5, 64: 4}
    sizes = dict.fromkeys(_MADE, few) | {"random": draws} | dict.fromkeys(_IMPORTED, trained)
    return [
        {"family": family, "dim": dim, "draws": number}
        for family, numbers in sizes.items()
        for dim, number in numbers.items()
    ]


def _measure(*, rng: Generator, family: str, dim: int, draws: int) -> dict[str, Any]:
    """For each layer, the measures of the worst head or pair, and the names of the violated conditions."""
    reports, losses = [], []
    for _ in range(draws):
        if family in _MADE:
            layer = _MADE[family](heads=_HEADS, dim=dim, rng=rng)
        else:
            layer, loss = trained_layer(_IMPORTED[family], dim, rng, heads=_HEADS)
            losses.append(loss)
        reports.append(check_conditions(layer, tokens=_TOKENS))
    return {
        "measured": {name: [_finite(report[name].measured) for report in reports] for name in _MEASURES},
        "threshold": {name: reports[0][name].threshold for name in _PANELS},
        "violated": [list(report.violated) for report in reports],
        "mean_stable_rank": [
            float(np.mean(report["theta_stable_rank"].per_head or [math.nan])) for report in reports
        ],
        "loss": losses,
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def exponents(rows: Sequence[Row]) -> dict[str, tuple[Interval, float]]:
    """For random heads, the exponent in d of each measure, and the exponent of its law over the same sizes.

    Notes
    -----
    The laws, derived here: 1/d for a normalised inner product; the largest of 4 d chi-squared columns; the edge of the
    Marchenko-Pastur law; d^-3/2 for the smallest of d gaps that repel linearly.
    """
    random = [row for row in rows if row["family"] == "random"]
    if len({row["dim"] for row in random}) < 3:
        return {}
    laws: dict[str, tuple[Callable[[Row], Sequence[float]], Callable[[int], float]]] = {
        "incoherence": (lambda row: _values(row, "theta_incoherence"), lambda d: 1 / d),
        "trace": (lambda row: _values(row, "theta_trace"), lambda d: 1 / d),
        "column": (lambda row: _values(row, "theta_heavy_column"), heaviest_column_law),
        "norms": (lambda row: [one - 1 for one in _values(row, "theta_norms_comparable")], lambda d: 1 / d),
        "rank": (lambda row: row["mean_stable_rank"], stable_rank_law),
        "gap": (lambda row: _values(row, "theta_distinct_singular_values"), lambda d: d**-1.5),
    }
    dims = [row["dim"] for row in random for _ in range(row["draws"])]
    places = np.log(dims)
    return {
        name: (
            slope_interval(places, [math.log(one) for row in random for one in values(row)]),
            slope_interval(places, [math.log(law(dim)) for dim in dims]).estimate,
        )
        for name, (values, law) in laws.items()
    }


def heaviest_column_law(dim: int) -> float:
    """The median of the largest of m d independent chi-squared variables, over their sum d^2."""
    return float(chdtri(dim, -math.expm1(math.log(0.5) / (_HEADS * dim)))) / dim**2


def stable_rank_law(dim: int) -> float:
    """The edge of the Marchenko-Pastur law, with the mean of the Tracy-Widom law: about d/4."""
    return float(dim**2 / (4 * dim - 2 - 1.2065 * 2 ** (4 / 3) * dim ** (1 / 3)))


def _values(row: Row, name: str) -> list[float]:
    return [float(one) for one in row["measured"][name] if one is not None]


def _median(row: Row, name: str) -> float:
    return float(np.median(_values(row, name)))


def _share(rows: Sequence[Row], fails: str | None = None) -> str:
    """The number of layers that meet all conditions, or that fail the named one."""
    layers = [names for row in rows for names in row["violated"]]
    return of_all(not names if fails is None else fails in names for names in layers)


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    kinds = {
        "random": [row for row in rows if row["family"] == "random"],
        "untrained": [row for row in rows if row["family"] == "imported, untrained"],
        "trained": [row for row in rows if row["family"] in ("imported, recall", "imported, masked")],
        "structured": [row for row in rows if row["family"] in list(_MADE)[1:]],
    }
    named: dict[str, Any] = {kind: _share(those) for kind, those in kinds.items()}
    for kind in ("random", "untrained"):
        named |= {f"{kind}_{row['dim']}": _share([row]) for row in kinds[kind]}
    named["random_64_on"] = _share([row for row in kinds["random"] if row["dim"] >= 64])
    for kind in ("trained", "untrained"):
        named[f"{kind}_incoherent"] = _share(kinds[kind], "theta_incoherence")
    for row in kinds["trained"]:
        name = f"{_IMPORTED[row['family']]}_{row['dim']}"
        named[f"{name}_incoherence"] = f"{_median(row, 'theta_incoherence'):.2f}"
        named[f"{name}_rank"] = f"{_median(row, 'theta_stable_rank'):.1f}"
        named[f"{name}_loss"] = f"{np.median(row['loss']):.2f}"
    for name, (slope, law) in exponents(rows).items():
        named[f"{name}_slope"] = f"{slope.estimate:.2f} ({slope.low:.2f} to {slope.high:.2f})"
        named[f"{name}_law"] = f"{law:.2f}"
    return named


def _table(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Every family at its largest d."""
    largest: dict[str, Row] = {}
    for row in rows:
        if row["family"] not in largest or row["dim"] >= largest[row["family"]]["dim"]:
            largest[row["family"]] = row
    return [
        {
            "heads": family,
            "d": str(row["dim"]),
            "all hold": _share([row]),
            **{words: f"{_median(row, name):.2g}" for name, words in _PANELS.items()},
            "fails on every layer": _always(row),
        }
        for family, row in largest.items()
    ]


def _always(row: Row) -> str:
    names = [name for name in row["violated"][0] if all(name in names for names in row["violated"])]
    return ", ".join(name.replace("_", " ") for name in names) or "none"


def _figure(rows: Sequence[Row]) -> Any:
    families = [name for name in (*_MADE, *_IMPORTED) if any(row["family"] == name for row in rows)]
    with canvas(9.2, 6.4) as figure:
        for place, name in enumerate(_PANELS):
            axes = axes_in(figure, (0.07 + 0.49 * (place % 2), 0.50 - 0.42 * (place // 2), 0.42, 0.30))
            _draw(axes, rows, families, name)
        legend_above(figure, columns=4)
        return figure


def _draw(axes: Any, rows: Sequence[Row], families: Sequence[str], name: str) -> None:
    threshold = {row["dim"]: row["threshold"][name] for row in rows}
    drawn = [*threshold.values()]
    for place, family in enumerate(families):
        here = [row for row in rows if row["family"] == family]
        heights = [max(_median(row, name), _LEAST_DRAWN) for row in here]
        axes.plot([row["dim"] for row in here], heights, label=family, **_look(family, place))
        drawn += heights
    dims = sorted(threshold)
    axes.fill_between(
        dims,
        [threshold[dim] for dim in dims],
        1e-9 if name == "theta_stable_rank" else 1e9,
        color=FAINT,
        alpha=0.15,
        linewidth=0,
        label="violates the condition",
    )
    decade_axis(axes.yaxis, drawn)
    dimension_axis(axes, dims)
    title_axes(axes, "d", _PANELS[name])


def _look(family: str, place: int) -> dict[str, Any]:
    """Random heads in ink, structured ones thin, those of transformers thick and dashed."""
    look = {**line_look(max(place - 1, 0)), "markersize": 4.0, "linestyle": "-", "linewidth": 0.8}
    if family == "random":
        return {**look, "color": INK, "linewidth": 2.2, "zorder": 6}
    if family in _IMPORTED:
        return {**look, "linestyle": (0, (4, 1.5)), "linewidth": 2.0}
    return look


STUDY = Study(
    name="conditions",
    title="Who meets the non-degeneracy conditions",
    question="Do random, structured and imported heads meet the non-degeneracy conditions as d grows?",
    cells=_cells,
    measure=_measure,
    numbers=_numbers,
    table=_table,
    figure=_figure,
    needs=("torch",),
)
