"""From a nice layer to a hidden parity.

On a path from a nice random layer to one that hides a parity, where does each learner stop, and is it the slopes,
the attention or the projections that stop it?
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.random import Generator
from scipy.special import comb, expit

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    Learner,
    make_nice_layer,
    unknown_part_error,
)
from runs import Scale
from sq import parity_heads
from studies.line_figure import Panel, line_figure
from studies.rows import chosen, curve, grouped, median, of_all, table, values, with_interval
from studies.study import Parameters, Row, Table
from upper import GradientDescent, Newton
from upper.six_phase import SixPhase

STREAM = ("dim", "bits", "ends", "draw")
NEEDS = ("torch",)

_TITLES = {"newton": "Newton", "six-phase": "six phases", "adam": "Adam, 8 heads"}
_SHAPES = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99, 1.0)
_STEEPEST = 8.0  # the factor on the slopes of all heads at s = 1
_SIGMA = 2.0  # standard deviation of the logits of the nice end
_FRESH = 2000
# errors on the secret's part; the first leaves a tenth of its energy
_LEARNED, _EXACT, _DIVERGED = 0.3, 1e-6, 1e3
_PATHS = (("newton", 0.0), ("newton", 1.0), ("six-phase", 0.0), ("adam", 0.0), ("adam", 1.0))


def cells(scale: Scale) -> list[Parameters]:
    quick = scale is Scale.QUICK
    newton = {"learner": "newton", "dim": 8 if quick else 12, "bits": 3, "ends": "generic", "slope": 0.0}
    settings: list[Parameters] = [
        {**newton, "learner": learner, "slope": slope, "shape": t, "projections": t}
        for learner, slope in (_PATHS[:3] if quick else _PATHS)  # Adam takes the longest
        for t in ((0.0, 0.8, 0.95, 1.0) if quick else _SHAPES)
    ]
    settings += [{**newton, "shape": a, "projections": 1.0 - a} for a in (0.0, 1.0)]
    draws = {"newton": 2, "six-phase": 1, "adam": 1} if quick else {"newton": 5, "six-phase": 5, "adam": 2}
    return [{**setting, "draw": draw} for setting in settings for draw in range(draws[setting["learner"]])]


_LEARNERS: Mapping[str, Callable[[int, int], Learner]] = {
    "newton": lambda m, d: Newton(heads=m, examples=14 * d**2, work=1500, starts=5),
    "six-phase": lambda m, d: SixPhase(heads=m, examples=40_000, work=1500),
    "adam": lambda m, d: GradientDescent(heads=8, work=1500, batch=256, learning_rate=0.01),
}


def measure(
    *, rng: Generator, learner: str, dim: int, bits: int, ends: str, draw: int, **where: float
) -> Mapping[str, Any]:
    # separate, so that every cell of a draw has the same ends, examples and tests
    for_path, for_oracle, for_learner, for_tests = rng.spawn(4)
    point = draw_point(dim, bits, rng=for_path, **where)
    inputs = BooleanInputs(tokens=2, dim=dim)
    oracle = ExampleOracle(point.layer, inputs, rng=for_oracle)
    fit = _LEARNERS[learner](point.layer.heads, dim).fit(oracle, rng=for_learner)
    x = inputs.sample(_FRESH, rng=for_tests)
    predicted = np.asarray(fit.predict(x), dtype=np.float64)
    error = unknown_part_error(predicted, point.layer(x), point.known(x))
    return {"error": min(error, _DIVERGED) if math.isfinite(error) else _DIVERGED}


@dataclass(frozen=True, eq=False)
class PathPoint:
    """A layer between a nice one and a parity of a secret set; `draw_point` has the formulas.

    Attributes
    ----------
    secret : array of int (l,)
        The coordinates of the parity, none of them the gate, which is 0.
    shape : float
        The share of the parity in attention.
    generic : array (m, d, d)
        The generic part of the Theta_i.
    slopes, thresholds : array (m,)
        Of the parity's part of the Theta_i.
    w : array (m, d, d)
        The W_i.
    gated : array (m,)
        Their part along E.
    """

    secret: Int[np.ndarray, " l"]
    shape: float
    generic: Float[np.ndarray, "m d d"]
    slopes: Float[np.ndarray, " m"]
    thresholds: Float[np.ndarray, " m"]
    w: Float[np.ndarray, "m d d"]
    gated: Float[np.ndarray, " m"]

    @property
    def layer(self) -> AttentionLayer:
        """The layer."""
        diagonals = np.zeros((len(self.w), self.w.shape[1]))
        diagonals[:, self.secret] = 1.0
        diagonals[:, 0] = -self.thresholds
        theta = self.generic + _by_head(self.slopes) * [np.diag(row) for row in diagonals]
        return AttentionLayer(theta=theta, w=self.w)

    def by_count(self, x: Float[np.ndarray, "n 2 d"]) -> Float[np.ndarray, "counts n 2 d"]:
        """The layer's output if the tokens differ in N = 0, ..., l of the secret coordinates.

        Notes
        -----
        The secret enters only by that number N: a row's logits differ by x_a G (x_a - x_b) + 2 beta (N - t [gate]).
        """
        gap = x - x[:, ::-1]
        logits = np.einsum("nrd,mde,nre->mnr", x, self.generic, gap, optimize=True)
        gate = np.asarray(gap[:, 0, 0] != 0, dtype=float)[:, None]
        outputs = []
        for number in range(len(self.secret) + 1):
            steep = 2 * _by_head(self.slopes) * (number - _by_head(self.thresholds) * gate)
            read = x[:, ::-1] + expit(logits + steep)[..., None] * gap  # p x_a + (1 - p) x_b
            outputs.append(np.einsum("mnrd,mde->nre", read, self.w, optimize=True))
        return np.stack(outputs)

    def known(self, x: Float[np.ndarray, "n 2 d"]) -> Float[np.ndarray, "n 2 d"]:
        """The known part without the secret: the mean over all secrets, given everything else; exact.

        Notes
        -----
        Over secrets N is hypergeometric given the number of coordinates in which the tokens differ. At a = b = 1 it is
        the known part of the parity plus the mean of all parities, whose norm is 1 / sqrt(C(d - 1, l)). At a = 0 the
        layer has no secret. The known part is then the mean over nice layers: heads attend evenly, and only the part
        of W_i along E remains.
        """
        if self.shape == 0:
            even = np.zeros_like(x)
            even[:, :, 0] = x[:, :, 0].mean(axis=1, keepdims=True) * self.gated.sum()
            return even
        others, bits = x.shape[2] - 1, len(self.secret)
        differ = (x[:, 0, 1:] != x[:, 1, 1:]).sum(axis=1)
        number = np.arange(bits + 1)[:, None]
        chances = comb(differ, number) * comb(others - differ, bits - number) / comb(others, bits)
        return np.asarray(np.einsum("cn,cnrd->nrd", chances, self.by_count(x)))


def draw_point(
    dim: int, bits: int, *, shape: float, projections: float, slope: float, rng: Generator
) -> PathPoint:
    """Draw a nice end and a secret set, and go to a point between: a, b and s are shape, projections and slope.

    Notes
    -----
    The other end is the minimal parity, construction D of `sq.parity_heads`. With N_i and A_i the nice Theta_i and W_i,
    sigma = 2 the standard deviation of the nice logits, H_i the parity's Theta_i at s = 0, eta_i its norm and
    E = e_0 e_0^T,

        Theta_i = f sigma^(1-a) eta_i^a [(1-a) N_i / sigma + a H_i / eta_i] / hypot(1-a, a),
        W_i = d^((1-b)/2) |c_i|^b [(1-b) A_i / sqrt(d) + b sign(c_i) E] / hypot(1-b, b).

    The norms of N_i and A_i are sigma and sqrt(d) on average. So directions move on a straight line and norms move
    geometrically: shape and slope vary independently. All slopes are multiplied by f = 8^s, and the c_i solve the
    parity's equations at those slopes: at a = b = 1 the layer is an exact parity for every s. For a < 1 the matrices
    Theta_i have full rank; their stable rank falls, and the heads become parallel. Derived here.
    """
    a, b, factor = shape, projections, _STEEPEST**slope
    secret = np.sort(1 + rng.choice(dim - 1, size=bits, replace=False))
    parity = parity_heads("D", bits=bits)  # of the fewest heads that hide so many bits
    steep = parity_heads("D", bits=bits, slopes=(factor * parity.slopes).tolist())
    nice = make_nice_layer(heads=len(parity.slopes), dim=dim, sigma=_SIGMA, rng=rng)
    norms = parity.slopes * np.sqrt(bits + parity.thresholds**2)
    scale = factor * _SIGMA ** (1 - a) * norms**a / np.hypot(1 - a, a)
    generic = _by_head(scale * ((1 - a) / _SIGMA)) * nice.theta
    w_scale = np.sqrt(dim) ** (1 - b) * np.abs(steep.coefficients) ** b / np.hypot(1 - b, b)
    w = _by_head(w_scale * ((1 - b) / np.sqrt(dim))) * nice.w
    gated = w_scale * b * np.sign(steep.coefficients)
    w[:, 0, 0] += gated
    return PathPoint(secret, shape, generic, scale * a / norms * parity.slopes, parity.thresholds, w, gated)


def _by_head(numbers: Float[np.ndarray, " m"]) -> Float[np.ndarray, "m 1 1"]:
    """A number a head, to multiply matrices with."""
    return numbers[:, None, None]


def _path(rows: Sequence[Row]) -> list[Row]:
    """Along the path attention and projections move together."""
    return [row for row in rows if row["shape"] == row["projections"]]


def _learned(rows: Sequence[Row], below: float = _LEARNED) -> list[bool]:
    return [row["error"] < below for row in rows]


def numbers(rows: Sequence[Row]) -> dict[str, Any]:
    newton = chosen(rows, learner="newton", slope=0.0)
    exact = [t for (t,), draws in grouped(_path(newton), "shape").items() if all(_learned(draws, _EXACT))]
    ends = grouped(chosen(_path(rows), shape=1.0), "learner", "slope").values()
    learned = {
        "attention": chosen(newton, shape=1.0, projections=0.0),
        "projections": chosen(newton, shape=0.0, projections=1.0),
        "together": chosen(newton, shape=1.0, projections=1.0),
        "steep": chosen(_path(rows), learner="newton", slope=1.0, shape=0.0),
    }
    return {
        "exact_until": f"{max(exact, default=math.nan):g}",
        "least": f"{min(float(np.median(values(draws, 'error'))) for draws in ends):.2f}",
        **{name: of_all(_learned(draws)) for name, draws in learned.items()},
    }


def tables(rows: Sequence[Row]) -> dict[str, Table]:
    shown = [
        {**row, "title": _TITLES[row["learner"]], "slopes": f"× {_STEEPEST ** row['slope']:g}"}
        for row in _path(rows)
    ]
    shares = sorted({row["shape"] for row in shown})
    return {
        "errors": table(
            shown,
            {"learner": "title", "slopes": "slopes"},
            {f"t = {t:g}": lambda own, t=t: median(chosen(own, shape=t), "error") for t in shares}
            | {"learned at t = 1": lambda own: with_interval(_learned(chosen(own, shape=1.0)))},
        )
    }


def figure(rows: Sequence[Row]) -> Any:
    """Median errors of every learner along the path."""
    curves = {
        title: curve(chosen(_path(rows), learner=name, slope=0.0), "shape", "error")
        for name, title in _TITLES.items()
    }
    return line_figure(
        [Panel("share t", "median error on the secret's part", curves, horizontals=(_LEARNED,))]
    )
