"""Random networks: as many examples as features determine them, whatever the number of heads."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from attention.metrics import relative_error
from paper_checks.linear_attention.record import Curve, Experiment, HeldFigure, Plot, Report, Table
from upper.linear_attention import (
    FeatureMoments,
    feature_count,
    make_linear_attention,
    regress,
    regress_moments,
)
from upper.linear_attention.regression import CubicRegression

__all__ = [
    "NoiseRow",
    "RandomNetworkRow",
    "around_the_threshold",
    "noise_row",
    "random_experiment",
    "random_network_rows",
]

# relative errors by d, N / D and solver
_REFERENCE: dict[tuple[int, float, str], float] = {
    (2, 1, "svd"): 6e-15,
    (4, 1, "svd"): 8e-15,
    (6, 1, "svd"): 4e-13,
    (8, 1, "svd"): 3e-14,
    (6, 1, "moments"): 3e-8,
    (2, 4, "cholesky"): 5e-15,
    (4, 4, "cholesky"): 5e-15,
    (6, 4, "cholesky"): 5e-15,
    (8, 4, "cholesky"): 5e-15,
}


@dataclass(frozen=True)
class RandomNetworkRow:
    """One network learned from one number of examples: the relative error on fresh inputs."""

    d: int
    heads: int
    features: int
    examples: int
    method: str
    rank: int
    error: float


@dataclass(frozen=True)
class NoiseRow:
    """One network learned from labels with noise s: the mean squared excess on fresh inputs, and s^2 D / N."""

    d: int
    features: int
    examples: int
    noise: float
    excess: float
    predicted: float


def random_experiment(*, seed: int = 0, quick: bool = False, progress: Report | None = None) -> Experiment:
    """Errors around N = D, and under noise.

    Parameters
    ----------
    seed : int
        Seed of every random choice.
    quick : bool
        Smaller dimensions.
    progress : callable, optional
        Told a few words after each piece of work.

    Returns
    -------
    Experiment
        Tables, curves and checks.

    Notes
    -----
    Seconds.

    References
    ----------
    Yau et al., arXiv 2410.10101, experiment on random networks; this setting and the threshold N = D are derived
    here.
    """
    tell = progress or (lambda words: None)
    dims = (2, 4) if quick else (2, 4, 6, 8)
    rows: list[RandomNetworkRow] = []
    for d in dims:
        rng = np.random.default_rng([seed, d])
        for heads in dict.fromkeys((1, d, d * d if d <= 4 else d)):
            rows += random_network_rows(d, heads, _around(feature_count(d)), rng=rng)
            tell(f"d = {d}, {heads} heads")
    near = [row for row in rows if row.examples / row.features in (1, 4) or row.examples == row.features - 1]
    table = Table.of(
        "threshold",
        "Relative error on fresh inputs around N = D, n = 10 Gaussian tokens",
        sorted(near, key=lambda row: (row.d, row.heads, row.examples, row.method == "moments")),
        {
            "d": "d",
            "heads": "heads",
            "D": "features",
            "N": "examples",
            "N - D": lambda row: row.examples - row.features,
            "solved by": "method",
            "rank": "rank",
            "error": "error",
            "error (reference)": lambda row: _REFERENCE.get((row.d, row.examples / row.features, row.method)),
        },
        note="By moments: normal equations alone, with no examples left to correct the solution with. Reference "
        "figures are of other draws: at N = D the error is rounding times the condition of a square random matrix, "
        "which varies by factors of ten from draw to draw.",
    )
    below = {
        d: min(row.error for row in rows if row.d == d and row.examples == row.features - 1) for d in dims
    }
    at = [row.error for row in rows if row.examples == row.features and row.method == "svd"]
    above = [row.error for row in rows if row.examples >= 4 * row.features]
    noisy = noise_row(rng=np.random.default_rng([seed, 100]))
    tell("noise")
    noise = Table(
        name="noise",
        title="Labels with noise s: the excess squared error is s² D/N",
        columns=("d", "D", "N", "s", "excess", "s² D/N", "excess (reference)"),
        rows=((noisy.d, noisy.features, noisy.examples, noisy.noise, noisy.excess, noisy.predicted, 1.0e-4),),
    )
    checks = [
        HeldFigure(
            "one example fewer than features leaves an error",
            "above 1e-3; at d = 8 above 1e-2",
            ", ".join(f"{error:.1e} (d = {d})" for d, error in below.items()),
            min(below.values()) > 1e-3 and below.get(8, np.inf) > 1e-2,
        ),
        HeldFigure(
            "as many examples as features leave none",
            "below 1e-11",
            f"{max(at):.1e} at most",
            max(at) < 1e-11,
        ),
        HeldFigure(
            "four times as many leave none to the last digit",
            "below 1e-13",
            f"{max(above):.1e} at most",
            max(above) < 1e-13,
        ),
        HeldFigure(
            "the excess under noise is s² D/N",
            f"{noisy.predicted:.2e} within a third",
            f"{noisy.excess:.2e}",
            abs(noisy.excess / noisy.predicted - 1) < 1 / 3,
        ),
    ]
    drawn = {
        d: [row for row in rows if row.d == d and row.heads == d and row.method != "moments"] for d in dims
    }
    curves = [
        Curve(
            f"d = {d}",
            tuple(row.examples / row.features for row in drawn[d]),
            tuple(row.error for row in drawn[d]),
        )
        for d in dims
    ]
    return Experiment(
        name="random",
        title="Random networks: the threshold is N = D",
        question="A random network of H heads in d dimensions is learned from N examples by least squares in the "
        f"D = d²(d+1)/2 cubic features, {', '.join(str(feature_count(d)) for d in dims)} for d = "
        f"{', '.join(map(str, dims))}. With N below D the solution of least norm is taken.",
        findings=(
            "The number of heads does not matter to the regression: one head needs as many examples as d² of them.",
            "At N = D the equations are square and their condition random; singular values still give 1e-11 or "
            "better, and from 1.5 D on normal equations with two corrections are as exact as anything.",
        ),
        checks=tuple(checks),
        tables=(table, noise),
        plots=(
            Plot(
                name="threshold",
                words="Relative error on fresh inputs against examples per feature: it falls to rounding at N = D",
                x_label="N / D",
                y_label="relative error",
                curves=tuple(_sorted(curve) for curve in curves),
                verticals={"N = D": 1.0},
            ),
        ),
        seed=seed,
    )


def _around(features: int) -> tuple[tuple[int, str], ...]:
    """Numbers of examples and their solvers: more of them than the table of the acceptance needs, for the curve."""
    few = {max(1, features * share // 4) for share in (1, 2, 3)} - {features - 1}
    return (
        *((n, "svd") for n in sorted(few)),
        *around_the_threshold(features),
        (2 * features, "auto"),
    )


def _sorted(curve: Curve) -> Curve:
    pairs = sorted(zip(curve.x, curve.y, strict=True))
    return Curve(curve.label, tuple(x for x, _ in pairs), tuple(y for _, y in pairs))


def around_the_threshold(features: int) -> tuple[tuple[int, str], ...]:
    """D - 1 examples, D twice, and 4 D, with their solvers: by moments alone, too, to show what those lose."""
    return (features - 1, "svd"), (features, "svd"), (features, "moments"), (4 * features, "auto")


def random_network_rows(
    d: int,
    heads: int,
    examples: Iterable[tuple[int, str]],
    *,
    tokens: int = 10,
    test_examples: int = 1000,
    rng: Generator,
) -> Iterator[RandomNetworkRow]:
    """Learn a random network on Gaussian tokens from the first N of the same examples, for every N and solver.

    Features of Gaussian tokens are independent almost surely, so that exactly D examples determine the function,
    however many heads it has. Below D the solution is that of least norm.
    """
    examples, features = list(examples), feature_count(d)
    model = make_linear_attention(heads=heads, dim=d, rng=rng)
    x = rng.standard_normal((max(number for number, _ in examples), tokens, d))
    fresh = rng.standard_normal((test_examples, tokens, d))
    y, wanted = model(x), model(fresh)
    for number, method in examples:
        if method == "moments":
            moments = FeatureMoments(features, model.outputs)
            moments.add(x[:number], y[:number])
            learned = regress_moments(moments)
        else:
            learned = regress(x[:number], y[:number], method=method, least_norm=True)  # type: ignore[arg-type]
        assert isinstance(learned, CubicRegression)  # as all rows are of tokens
        error = relative_error(learned(fresh), wanted)
        yield RandomNetworkRow(d, heads, features, number, learned.method, learned.rank, error)


def noise_row(
    *,
    rng: Generator,
    d: int = 4,
    heads: int = 4,
    outputs: int | None = None,
    examples: int = 4000,
    noise: float = 0.1,
    tokens: int = 10,
) -> NoiseRow:
    """Learn a random network from labels with independent Gaussian noise: the excess error is s^2 D / N.

    Given the examples, the expected excess is s^2 tr(Lambda (Phi^T Phi)^-1), and Phi^T Phi / N tends to Lambda: D / N
    to first order, somewhat more at finite N.
    """
    model = make_linear_attention(heads=heads, dim=d, outputs=outputs, rng=rng)
    x = rng.standard_normal((examples, tokens, d))
    clean = model(x)
    learned = regress(x, clean + noise * rng.standard_normal(clean.shape))
    fresh = rng.standard_normal((4000, tokens, d))
    excess = float(np.mean((learned(fresh) - model(fresh)) ** 2))
    features = feature_count(d)
    return NoiseRow(d, features, examples, noise, excess, noise**2 * features / examples)
