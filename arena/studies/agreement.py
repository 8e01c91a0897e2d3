"""Study: how often two heads agree below the tolerance 1/sqrt d, where a local limit theorem is needed."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtr

from arena._canvas import canvas
from arena._phrases import sentence
from arena.paper_figure import PaperFigure, legend_above, line_look, paper_figure
from arena.phase_axes import axes_in, decade_limits, decade_ticks, name_axes
from arena.studies.study import Parameters, Row, Study, Table
from arena.targets import inputs_named
from attention import AttentionLayer, check_conditions, make_nice_layer
from paper_checks import Scale, mean_interval

__all__ = ["STUDY"]

_SIGMA = 2.0
_FRACTIONS = tuple(4.0**-power for power in range(6))  # of 1/sqrt d
_HEADS = {"generic": "generic", "lattice": "on a lattice of a quarter", "signs": "plus or minus one value"}
_ROWS = 2048  # own tokens a batch, and as many other tokens: every pair counts
_AS_OFTEN, _OFTENER = 0.05, 2.0  # off the law by less is as often; times as often as the law
_NEVER = 1e-3  # shown in place of no agreement at all, which a logarithm cannot show


def _cells(scale: Scale) -> list[Parameters]:
    quick = scale is Scale.QUICK
    return [
        {"heads": heads, "inputs": inputs, "dim": dim, "draw": draw, "batches": 4 if quick else 32}
        for heads in _HEADS
        for inputs in ("boolean", "gaussian")
        for dim in ((16, 64) if quick else (16, 32, 64, 128, 256))
        for draw in range(1 if quick else 3)
    ]


def _measure(
    *, rng: np.random.Generator, heads: str, inputs: str, dim: int, draw: int, batches: int
) -> Mapping[str, Any]:
    layer = _layer(heads, dim, rng)
    contrast = layer.theta[0] - layer.theta[1]
    tolerances = np.array(_FRACTIONS) / np.sqrt(dim)
    tokens = inputs_named(inputs, 2, dim)
    alike = 2.0 ** (1 - dim) if inputs == "boolean" else 0.0  # the chance that x_2 is x_1 or -x_1
    limits = tolerances * (1 + 1e-9) + 1e-12
    ratios, shares, left_out = [], [], 0
    for _ in range(batches):
        own, other = tokens.sample(_ROWS, rng=rng)[:, 0], tokens.sample(_ROWS, rng=rng)[:, 1]
        coefficients = own @ contrast
        centre = np.einsum("nd,nd->n", coefficients, own)
        gaps = coefficients @ other.T
        gaps -= centre[:, None]
        np.abs(gaps, out=gaps)
        kept = gaps.size
        if alike:  # equal tokens agree whatever the heads are, and the learner drops them
            parallel = _parallel(own, other)
            gaps[parallel] = np.inf
            kept -= len(parallel[0])
        left_out += gaps.size - kept
        hits = np.searchsorted(np.sort(gaps[gaps <= limits[0]]), limits) / kept
        # without the two tokens along x_1 the mean stays and the variance is this
        width = np.sqrt((np.sum(coefficients**2, axis=1) - alike * centre**2) / (1 - alike))
        normal = [np.mean(ndtr((t - centre) / width) - ndtr((-t - centre) / width)) for t in tolerances]
        ratios.append(hits / normal)
        shares.append(hits)
    intervals = [mean_interval(column) for column in np.array(ratios).T]
    report = {one.name: one for one in check_conditions(layer).conditions}
    return {
        "arithmetic": report["theta_non_arithmetic"].measured,
        "fractions": list(_FRACTIONS),
        "left_out": left_out / (batches * _ROWS**2),
        "share": np.mean(shares, axis=0).tolist(),
        "ratio": [one.estimate for one in intervals],
        "low": [one.low for one in intervals],
        "high": [one.high for one in intervals],
    }


def _parallel(own: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of the pairs of Boolean tokens that are equal or opposite."""
    lines: dict[bytes, int] = {}
    first, second = (
        np.array(
            [lines.setdefault(line.tobytes(), len(lines)) for line in np.packbits(x * x[:, :1] > 0, axis=1)]
        )
        for x in (own, other)
    )
    rows = np.flatnonzero(np.isin(first, second))
    among, columns = np.nonzero(first[rows][:, None] == second)
    return rows[among], columns


def _layer(heads: str, dim: int, rng: np.random.Generator) -> AttentionLayer:
    nice = make_nice_layer(heads=2, dim=dim, sigma=_SIGMA, rng=rng)
    unit = _SIGMA / dim
    theta = {
        "generic": lambda: nice.theta,
        "lattice": lambda: np.round(nice.theta / (unit / 4)) * (unit / 4),
        "signs": lambda: np.where(nice.theta < 0, -unit, unit),
    }[heads]()
    return AttentionLayer(theta=theta, w=nice.w)


def _means(rows: Sequence[Row]) -> dict[tuple[str, str, int], tuple[float, np.ndarray]]:
    """By heads, inputs and d: the arithmetic measure and the ratios, means over draws."""
    groups: dict[tuple[str, str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["heads"], row["inputs"], row["dim"]), []).append(row)
    return {
        key: (
            float(np.mean([row["arithmetic"] for row in members])),
            np.mean([row["ratio"] for row in members], axis=0),
        )
        for key, members in groups.items()
    }


def _found(rows: Sequence[Row]) -> str:
    means = _means(rows)
    told = _answer(means)
    for heads, inputs, words in (
        ("generic", "gaussian", "Gaussian tokens"),
        ("generic", "boolean", "Boolean tokens"),
    ):
        chosen = {key[2]: ratio for key, (_, ratio) in means.items() if key[:2] == (heads, inputs)}
        if chosen:
            worst = {dim: float(np.abs(ratio - 1).max()) for dim, ratio in chosen.items()}
            first, last = min(worst), max(worst)
            told.append(
                f"with generic heads and {words} the share of agreement is within {worst[last]:.1%} of the normal "
                f"law's at d = {last} down to a thousandth of 1/sqrt d, where chance is {_chance(rows, last):.0%}"
                + (
                    f", and within {worst[first]:.1%} at d = {first}, where it is {_chance(rows, first):.0%}"
                    if first < last
                    else ""
                )
            )
    for heads in ("lattice", "signs"):
        chosen = {key[2]: ratio for key, (_, ratio) in means.items() if key[:2] == (heads, "boolean")}
        gauss = [
            np.abs(ratio - 1).max()
            for key, (_, ratio) in means.items()
            if key[:2] == (heads, "gaussian") and key[2] == max(chosen, default=0)
        ]
        if chosen:
            last = max(chosen)
            told.append(
                f"with entries {_HEADS[heads]} and d = {last} Boolean tokens agree {chosen[last][-1]:.3g} times as "
                f"often as the law says at {_fraction(_FRACTIONS[-1])}, the smallest tolerance measured, "
                f"{chosen[last][-2]:.3g} times at {_fraction(_FRACTIONS[-2])} and {chosen[last][0]:.3g} times at "
                f"{_fraction(_FRACTIONS[0])}"
                + (f", Gaussian ones within {max(gauss):.1%} of the law" if gauss else "")
            )
    if left := {row["dim"]: row["left_out"] for row in rows if row["left_out"]}:
        told.append(
            f"pairs of equal or opposite Boolean tokens, which are left out, were {left[min(left)]:.1e} of all at d = "
            f"{min(left)}"
        )
    return sentence("; ".join(told))


def _chance(rows: Sequence[Row], dim: int) -> float:
    """Half the width of the intervals of a mean over draws, where they are widest, of generic heads."""
    widths: dict[str, list[np.ndarray]] = {}
    for row in rows:
        if (row["heads"], row["dim"]) == ("generic", dim):
            widths.setdefault(row["inputs"], []).append((np.array(row["high"]) - np.array(row["low"])) / 2)
    return max(float((np.mean(each, axis=0) / np.sqrt(len(each))).max()) for each in widths.values())


def _answer(means: Mapping[tuple[str, str, int], tuple[float, np.ndarray]]) -> list[str]:
    last = max((dim for *_, dim in means), default=0)
    generic = max(
        (float(np.abs(ratio - 1).max()) for (heads, *_), (_, ratio) in means.items() if heads == "generic"),
        default=None,
    )
    often = [
        float(ratio[-1])
        for (heads, inputs, dim), (_, ratio) in means.items()
        if heads != "generic" and inputs == "boolean" and dim == last
    ]
    if generic is None or not often:
        return []
    smallest = _fraction(_FRACTIONS[-1])
    said = (
        f"generic heads agree as often as the normal law says, with Boolean tokens and with Gaussian ones, within "
        f"{generic:.1%} at every d and tolerance measured"
        if generic < _AS_OFTEN
        else f"generic heads agree as often as the normal law says only within {generic:.1%}"
    )
    if min(often) > _OFTENER:
        return [
            f"{said}, while heads whose entries take few values agree {min(often):.3g} to {max(often):.3g} times as "
            f"often at {smallest}, with Boolean tokens at d = {last}"
        ]
    return [said]


def _table(rows: Sequence[Row]) -> Table:
    shown = (0, 2, len(_FRACTIONS) - 1)
    names = tuple(f"ratio at {_fraction(_FRACTIONS[place])}" for place in shown)
    return Table(
        ("heads", "tokens", "d", "arithmetic", *names),
        tuple(
            (
                _HEADS[heads],
                inputs,
                str(dim),
                f"{arithmetic:.2f}",
                *(f"{ratio[place]:.4g}" for place in shown),
            )
            for (heads, inputs, dim), (arithmetic, ratio) in _means(rows).items()
        ),
    )


def _fraction(value: float) -> str:
    return "1/√d" if value == 1 else f"1/({round(1 / value)}√d)"


def _draw(rows: Sequence[Row]) -> PaperFigure:
    means = _means(rows)
    kinds = [heads for heads in _HEADS if any(key[0] == heads for key in means)]
    dims = sorted({key[2] for key in means})
    values = [max(float(one), _NEVER) for _, ratio in means.values() for one in ratio]
    with canvas(2.5 * len(kinds) + 0.6, 3.0) as figure:
        for place, heads in enumerate(kinds):
            width = 0.88 / len(kinds)
            axes = axes_in(figure, (0.08 + place * width, 0.17, width - 0.05, 0.55))
            for (kind, inputs, dim), (_, ratio) in means.items():
                if kind == heads:
                    look = line_look(dims.index(dim))
                    dashes = {"linestyle": "-" if inputs == "boolean" else (0, (1, 1.5))}
                    label = f"d = {dim}, {inputs}"
                    axes.plot(_FRACTIONS, np.maximum(ratio, _NEVER), **{**look, **dashes}, label=label)
            axes.set_xscale("log")
            decade_ticks(axes.xaxis, min(_FRACTIONS), max(_FRACTIONS))
            axes.set_yscale("log")
            low, high = decade_limits([*values, 0.5, 2.0])
            axes.set_ylim(low, high)
            decade_ticks(axes.yaxis, low, high)
            axes.set_title(_HEADS[heads], fontsize=9, loc="right")
            name_axes(axes, "tolerance, in units of 1/√d", "agreement / normal law" if place == 0 else "")
        legend_above(figure, columns=4)
        return paper_figure(
            figure,
            "How much more often heads agree than by a normal law, against the tolerance, by heads and tokens",
        )


STUDY = Study(
    name="agreement",
    title="Agreement below the tolerance 1/sqrt d",
    question="Do two heads agree within eps as often as a normal law says when eps is far below 1/sqrt d, and for "
    "which heads and tokens?",
    expected="The talk on Chen and Li's result names the local limit: with Boolean tokens the difference of two logits "
    "is a sum of d random signs, for which a normal law can fail at distances below 1/sqrt d where entries are "
    "arithmetic, while for generic entries, and for Gaussian tokens, it holds.",
    limits="Two heads and two tokens only, sigma 2, tolerances down to 1/(1024√d): where entries lie on a lattice "
    "the share stops falling below its spacing, so that its ratio to the law there says how small the tolerance is; a "
    "share that is right on average over rows says nothing about rows under a condition, and what tolerance the "
    "paper's proof needs is not known here.",
    how="With k = 2 two heads agree within eps where |x_1 (Theta_1 - Theta_2) (x_1 - x_2)| is at most eps. Given x_1 "
    "that is a sum over the coordinates of x_2; the normal law of the same mean and variance, averaged over x_1, is "
    "what the share of agreement is divided by. Pairs of equal or of opposite Boolean tokens are left out of the "
    "share and of the law: equal ones agree whatever the heads are, and of neither can the learner read a pattern. An "
    "earlier measurement counted them, which showed as agreement above the law at d = 16. Entries: those of a nice "
    "layer, the same rounded to a lattice of a quarter of their standard deviation, and their signs times it. Batches "
    "of 2048 x 2048 pairs of tokens; the intervals of every row are 99.9 % by Student's t over batches. The column "
    "arithmetic is the measure of the conditions report, 1 for entries on one lattice.",
    cells=_cells,
    measure=_measure,
    found=_found,
    table=_table,
    draw=_draw,
)
