"""Study: how often two heads agree below the tolerance 1/sqrt d, where a local limit theorem is needed."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import ndtr

from arena.studies._agreement_figure import draw_agreement
from arena.studies._agreement_words import FRACTIONS, HEADS, SIGMA, agreement_table, found_in_words
from arena.studies.study import Parameters, Study
from arena.targets import inputs_named
from attention import AttentionLayer, check_conditions, make_nice_layer
from paper_checks import Scale, mean_interval

__all__ = ["STUDY"]

_SIGMA, _FRACTIONS, _HEADS = SIGMA, FRACTIONS, HEADS
_ROWS = 2048  # own tokens a batch, and as many other tokens: every pair counts


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
    "what the share of agreement is divided by. With Gaussian tokens the sum is exactly normal given x_1, so that they "
    "check the method and tell nothing of the heads. Pairs of equal or of opposite Boolean tokens are left out of the "
    "share and of the law: equal ones agree whatever the heads are, and of neither can the learner read a pattern. An "
    "earlier measurement counted them, which showed as agreement above the law at d = 16. Entries: those of a nice "
    "layer, the same rounded to a lattice of a quarter of their standard deviation, and their signs times it; "
    "the gaps of the last two lie on lattices too, of the spacing in the table (derived here). Batches "
    "of 2048 x 2048 pairs of tokens; the intervals of every row are 99.9 % by Student's t over "
    "batches, those of means over draws of the root of the sum of their squares. The column "
    "arithmetic is the measure of the conditions report, 1 for entries on one lattice.",
    cells=_cells,
    measure=_measure,
    found=found_in_words,
    table=agreement_table,
    draw=draw_agreement,
)
