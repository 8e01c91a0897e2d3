"""Random networks: as many examples as features determine them, whatever the number of heads."""

import numpy as np

from paper_checks.linear_attention.record import Curve, Experiment, HeldFigure, Plot, Report, Table
from upper.linear_attention import feature_count
from upper.linear_attention.tasks import (
    RandomNetworkRow,
    Solver,
    around_the_threshold,
    noise_row,
    random_network_rows,
)

__all__ = ["random_experiment"]

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
        rows += random_network_rows(
            (d,),
            tuple(dict.fromkeys((1, d, d * d if d <= 4 else d))),
            examples=_around,
            rng=np.random.default_rng([seed, d]),
            progress=lambda row: tell(f"d = {row.d}, {row.heads} heads, N = {row.examples}"),
        )
    near = [row for row in rows if row.examples / row.features in (1, 4) or row.examples == row.features - 1]
    table = Table(
        name="threshold",
        title="Relative error on fresh inputs around N = D, n = 10 Gaussian tokens",
        columns=("d", "heads", "D", "N", "N - D", "solved by", "rank", "error", "error (reference)"),
        rows=tuple(
            (
                row.d,
                row.heads,
                row.features,
                row.examples,
                row.examples - row.features,
                row.method,
                row.rank,
                row.error,
                _REFERENCE.get((row.d, row.examples / row.features, row.method)),
            )
            for row in sorted(near, key=lambda row: (row.d, row.heads, row.examples, row.method == "moments"))
        ),
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


def _around(features: int) -> tuple[tuple[int, Solver], ...]:
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
