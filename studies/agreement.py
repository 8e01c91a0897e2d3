"""Agreement below the tolerance 1/√d.

Do two heads agree within a tolerance far below 1/√d as often as a normal distribution says?
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import ndtr

from attention import AttentionLayer, BooleanInputs, GaussianInputs, make_nice_layer
from runs import Scale
from studies.intervals import mean_interval
from studies.line_figure import Panel, line_figure
from studies.rows import chosen, grouped, of_all, table, values
from studies.study import Parameters, Row, Table

_POWERS = range(6)  # the tolerances are 4^-power / sqrt d
_SIGMA = 2.0
_KINDS = {"generic": "generic", "lattice": "on a lattice of a quarter", "signs": "plus or minus one value"}
_INPUTS = {"boolean": BooleanInputs, "gaussian": GaussianInputs}
_ROWS = 2048  # first tokens per batch, and the same number of second tokens; every pair counts


def cells(scale: Scale) -> Sequence[Parameters]:
    quick = scale is Scale.QUICK
    return [
        {"heads": heads, "inputs": inputs, "dim": dim, "draw": draw, "batches": 4 if quick else 32}
        for heads in _KINDS
        for inputs in _INPUTS
        for dim in ((16, 64) if quick else (16, 32, 64, 128, 256))
        if inputs == "boolean" or dim == 16  # gaps of Gaussian tokens are normal, which checks the method
        for draw in range(1 if quick else 3)
    ]


def measure(*, rng: Generator, heads: str, inputs: str, dim: int, draw: int, batches: int) -> list[Row]:
    """For each tolerance the share of agreement, and its excess over a normal distribution's, by batches."""
    layer = heads_of_kind(heads, dim, rng)
    contrast = layer.theta[0] - layer.theta[1]
    tolerances = 4.0 ** -np.array(_POWERS) / np.sqrt(dim)
    limits = tolerances * (1 + 1e-9) + 1e-12
    tokens = _INPUTS[inputs](2, dim)
    parallel = 2.0 ** (1 - dim) if inputs == "boolean" else 0.0  # the chance that x_2 is x_1 or -x_1
    shares, ratios = [], []
    for _ in range(batches):
        first, second = tokens.sample(_ROWS, rng=rng)[:, 0], tokens.sample(_ROWS, rng=rng)[:, 1]
        coefficients = first @ contrast
        centre = np.einsum("nd,nd->n", coefficients, first)
        gaps = coefficients @ second.T
        gaps -= centre[:, None]
        np.abs(gaps, out=gaps)
        pairs = gaps.size
        if parallel:  # heads always agree on equal tokens, and the learner drops them
            same = np.abs(first @ second.T) == dim
            gaps[same] = np.inf
            pairs -= int(same.sum())
        share = np.searchsorted(np.sort(gaps[gaps <= limits[0]]), limits) / pairs
        # without the two tokens along x_1 the mean is unchanged and the variance is this
        width = np.sqrt((np.sum(coefficients**2, axis=1) - parallel * centre**2) / (1 - parallel))
        normal = [np.mean(ndtr((t - centre) / width) - ndtr((-t - centre) / width)) for t in tolerances]
        shares.append(share)
        ratios.append(share / normal)
    intervals = [mean_interval(column) for column in np.array(ratios).T]
    return [
        {
            "power": power,
            "share": float(share),
            "excess": interval.estimate - 1,
            "half_width": interval.high - interval.estimate,
        }
        for power, share, interval in zip(_POWERS, np.mean(shares, axis=0), intervals, strict=True)
    ]


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
    """Agreement over a normal distribution's, for gaps on a lattice, at a tolerance in units of the spacing."""
    return (2 * math.floor(within * (1 + 1e-9)) + 1) / (2 * within)


def _ratios(rows: Iterable[Row], *kinds: str) -> list[dict[str, Any]]:
    """For Boolean tokens the mean over draws of each kind of heads, d and tolerance, beside that of a lattice."""
    ratios = []
    for (kind, dim, power), draws in grouped(chosen(rows, inputs="boolean"), "heads", "dim", "power").items():
        place = {"heads": _KINDS[kind], "dim": dim, "power": power, "spacing": spacing(kind, dim)}
        within = 4.0**-power / math.sqrt(dim) / (place["spacing"] or math.nan)
        ratio = 1 + float(np.mean(values(draws, "excess")))
        # draws are independent
        half_width = math.hypot(*values(draws, "half_width")) / len(draws)
        ratios.append(place | {"within": within, "ratio": ratio, "half_width": half_width, "draws": draws})
    return [row for row in ratios if row["heads"] in [_KINDS[kind] for kind in kinds or _KINDS]]


def numbers(rows: Sequence[Row]) -> dict[str, Any]:
    generic, lattices = _ratios(rows, "generic"), _ratios(rows, "lattice", "signs")
    numbers: dict[str, Any] = {
        "worst": f"{max(abs(row['ratio'] - 1) for row in generic):.1%}",
        "lattice_worst": f"{max(abs(row['ratio'] / lattice_law(row['within']) - 1) for row in lattices):.1%}",
        "rarest": f"{min(row['ratio'] for row in lattices):.2g}",
        "gaussian_excluded": of_all(
            abs(row["excess"]) > row["half_width"] for row in chosen(rows, inputs="gaussian")
        ),
    }
    for name, power in (("wide", _POWERS[0]), ("narrow", _POWERS[-1])):
        numbers[f"chance_{name}"] = f"{max(values(chosen(generic, power=power), 'half_width')):.1%}"
    wide = chosen(generic, power=_POWERS[0])
    for name, row in (("first", wide[0]), ("last", wide[-1])):
        numbers[f"{name}_dim"] = row["dim"]
        numbers[f"{name}_missing"] = f"{100 * (1 - row['ratio']):.2g}%"
        numbers[f"{name}_excluded"] = of_all(draw["excess"] + draw["half_width"] < 0 for draw in row["draws"])
        for kind in ("signs", "lattice"):
            (narrow,) = chosen(lattices, heads=_KINDS[kind], dim=row["dim"], power=_POWERS[-1])
            numbers[f"{kind}_{name}"] = f"{narrow['ratio']:.0f}"
    return numbers


def tables(rows: Sequence[Row]) -> dict[str, Table]:
    """Boolean tokens; the distribution is exactly normal for Gaussian ones."""
    columns: dict[str, Any] = {"spacing": "spacing"}
    for title, power in {"1/√d": 0, "1/(16√d)": 2, "1/(1024√d)": 5}.items():
        columns[f"ratio at {title}"] = lambda own, power=power: f"{chosen(own, power=power)[0]['ratio']:.4g}"
    return {"ratios": table(_ratios(rows), {"heads": "heads", "d": "dim"}, columns)}


def figure(rows: Sequence[Row]) -> Any:
    """Agreement over the normal distribution's of heads on lattices, all on one curve."""
    points = {
        _KINDS[kind]: [
            (math.log2(row["within"]), row["ratio"]) for row in _ratios(rows, kind) if row["ratio"]
        ]
        for kind in ("lattice", "signs")
    }
    law = [(place, lattice_law(2.0**place)) for own in points.values() for place, _ in own]
    title = "agreement / normal distribution, heads on lattices"
    curves = {"points of the lattice": law} | points
    return line_figure([Panel("log₂(tolerance / spacing of the gaps)", title, curves)])
