"""Study: noise on the labels, added or by drawing a class from the softmax of each row of the output."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from arena.studies._noise_figure import draw_noise
from arena.studies._noise_measures import additive, columns, sampled
from arena.studies._noise_rows import (
    PHASES,
    SMALL,
    excess_ratios,
    mean_words,
    middle,
    of_kind,
    over_law,
    size_of,
)
from arena.studies._noise_words import found_in_words
from arena.studies.study import Parameters, Row, Study, Table
from attention import make_nice_layer
from paper_checks import Scale
from upper.floor import counting_floor

__all__ = ["STUDY"]


def _cells(scale: Scale) -> list[Parameters]:
    return list(_quick() if scale is Scale.QUICK else _full())


def _quick() -> Iterator[Parameters]:
    yield from _newton((2, 3, 8), (4, 64), (0.1,), 4)
    yield from _newton((2, 2, 16), (4, 16), (0.01, 0.1, 1.0), 2)
    yield from (_cell("phases", (2, 2, 16), level, 40_000, 1) for level in (0.0, 0.01, 0.1, 1.0))
    yield from (_cell("adam", (2, 2, 16), level, 38_400, 1) for level in (0.01, 0.1, 1.0))
    yield from (_cell("linear", (2, 2, 16), level, 8192, 2) for level in (0.01, 0.1, 1.0))
    for gain, draws in ((1.0, 1), (4.0, 2)):
        yield from (_cell("sampled", (2, 3, 8), gain, n, draws) for n in (1024, 2048))


def _full() -> Iterator[Parameters]:
    levels = (0.001, 0.01, 0.1, 1.0)
    yield from _newton((2, 3, 8), (4, 8, 16, 32, 64), levels, 12)
    yield from _newton((2, 2, 16), (4, 8, 16, 32, 64), levels, 4)
    yield from _newton((4, 4, 32), (4, 32), (0.01, 0.1), 2)
    for level in (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0):
        yield _cell("phases", (2, 2, 16), level, 450_000, 3)
    yield from (_cell("adam", (2, 2, 16), level, 256_000, 3) for level in levels)
    yield from (_cell("linear", (2, 2, 16), level, 8192, 12) for level in levels)
    for gain in (0.5, 1.0, 2.0, 4.0):
        yield from (_cell("sampled", (2, 3, 8), gain, n, 3) for n in (1024, 4096, 16384))
    yield from (_cell("sampled", (2, 2, 16), 2.0, n, 2) for n in (2048, 16384))


def _newton(
    size: tuple[int, int, int], floors: Sequence[int], levels: Sequence[float], draws: int
) -> Iterator[Parameters]:
    m, k, d = size
    floor = counting_floor(heads=m, tokens=k, dim=d)
    yield from (_cell("newton", size, level, times * floor, draws) for times in floors for level in levels)


def _cell(kind: str, size: tuple[int, int, int], level: float, examples: int, draws: int) -> Parameters:
    m, k, d = size
    return {
        "kind": kind,
        "heads": m,
        "tokens": k,
        "dim": d,
        "level": level,
        "examples": examples,
        "draws": draws,
    }


def _measure(
    *,
    rng: np.random.Generator,
    kind: str,
    heads: int,
    tokens: int,
    dim: int,
    level: float,
    examples: int,
    draws: int,
) -> Mapping[str, Any]:
    found = []
    for one in rng.spawn(draws):
        if kind == "sampled":
            found.append(sampled(one, heads, tokens, dim, level, examples))
        else:
            layer = make_nice_layer(heads=heads, dim=dim, rng=one.spawn(1)[0])
            found.append(additive(one, kind, layer, tokens, level, examples))
    return columns(found)


def _table(rows: Sequence[Row]) -> Table:
    lines = []
    for (size, floors), (values, law) in excess_ratios(rows).items():
        lines.append(
            (
                "Newton: excess / law",
                _named(size),
                f"up to {SMALL:g}",
                f"{floors} floors",
                f"{mean_words(values)}, {len(values)} layers",
                "1" if law is None else f"1; of the covariance {law:.2f}",
            )
        )
    for row in of_kind(rows, "adam"):
        ratios = over_law(rows, "adam")[row["level"]]
        lines.append(
            (
                "Adam: squared error / law",
                _named(size_of(row)),
                f"{row['level']:g}",
                str(row["examples"]),
                f"{mean_words(ratios)}, {len(ratios)} layers",
                "1",
            )
        )
    for row in of_kind(rows, "phases"):
        errors = [middle(row[name]) for name in (*PHASES, "error")]
        lines.append(
            (
                "six phases: crude sum, refined, span, end",
                _named(size_of(row)),
                f"{row['level']:g}",
                str(row["examples"]),
                ", ".join("none" if error is None else f"{error:.2g}" for error in errors),
                "",
            )
        )
    sizes = sorted(
        {(size_of(row), row["level"]) for row in of_kind(rows, "sampled")}, key=lambda key: (key[0][2], key)
    )
    for size, gain in sizes:
        row = max(
            (one for one in of_kind(rows, "sampled") if (size_of(one), one["level"]) == (size, gain)),
            key=lambda one: one["examples"],
        )
        whole = [np.hypot(*pair) for pair in zip(row["floor"], row["squared_law"], strict=True)]
        lines.append(
            (
                "classes: squared loss, likelihood, linear, crude sum",
                _named(size),
                f"{gain:g}",
                str(row["examples"]),
                ", ".join(
                    f"{middle(row[name]):.2g}" for name in ("squared", "likelihood", "linear", "crude")
                ),
                f"{np.median(whole):.2g}, {middle(row['likelihood_law']):.2g}",
            )
        )
    return Table(("case", "m, k, d", "s or gain", "examples", "found", "law"), tuple(lines))


def _named(size: tuple[int, int, int]) -> str:
    return ", ".join(map(str, size))


STUDY = Study(
    name="noise",
    title="Noise on the labels",
    question="What does noise on the labels do to each learner, and what if a label is only a class that was drawn by "
    "the softmax of the output?",
    expected="The specification says that Newton's excess squared error is s^2 2 m d^2/(N k d) within 10 % (measured "
    "before: 1.4 to 2.4 times that at 4 floors, within 10 % at 32), phases 2 to 4, which look for small residuals, "
    "should break before phase 1, which is a mean; for classes it says nothing: derived here, squared loss has a floor "
    "of order gain^2, and maximum likelihood should go as N^-1/2.",
    limits="Small nice layers on Boolean tokens only; maximum likelihood is the likelier of two ends of L-BFGS, which "
    "is not proved to be the global maximum; Adam was not run on classes; the laws are to first order in the noise.",
    how="Added noise: independent Gaussian noise of s times the labels' root mean square on every entry. Newton (5 "
    "starts) at 4 to 64 counting floors, with its excess error over s^2 2 m d^2/(N k d) and, where there are at most "
    "256 unknowns, over the same of the covariance of least squares at the target, tr(G (J^T J)^-1), J the derivative "
    "and G that of 1000 fresh inputs. A layer has the same examples and the same noise, scaled, at every level: its "
    "ratios up to s = .1 are averaged, and intervals are over layers (95 %, Student's t). The six phases in practical "
    "mode, Adam (batches of 256, each example once) and linear regression; Adam's whole squared error is held against "
    "the same law, called the simple one. A phase's error is compared with its own without noise, which for phase 1 is "
    "mostly its bias. Classes: in each row "
    "a class c is drawn with probability softmax(gain Y_a)_c. As softmax does not change when a number is added to a "
    "row, only the layer whose W_i have rows of mean zero can be told: targets and errors are of that layer, its "
    "outputs scaled to root mean square 1. Squared loss (Newton, linear regression, phase 1) is given the labels d "
    "(e_c - 1/d)/gain, whose mean is Y_a plus terms of order gain; those of first order are even in X, and layers are "
    "odd, F(-X) = -F(X), so that the best layer is off by order gain^2 only (derived here). The floor is Newton's "
    "error where it is given the mean of the labels. Maximum likelihood: cross-entropy by L-BFGS from Newton's layer "
    "and from a random one, the likelier of the two; its law is the Cramer-Rao bound at the target. The law of "
    "squared loss in the table is its floor and its sampling error, by the sandwich formula, in quadrature. Both laws "
    "are averages over 8192 inputs (first over 300: as a matrix is inverted, they came out too large, by up to a fifth "
    "the bound, which maximum likelihood then seemed to beat). Numbers in the table and the figure are, but for "
    "Newton's ratios, which are means, medians over 2 to 12 layers: 12, 4 and 2 for Newton by size, 3 for the phases "
    "and Adam, 12 for linear regression, 3 and 2 for classes; bars are the least and the largest. The exponents are "
    "fitted at the smallest size to errors whose law is below .2, a threshold that was set after first rows were "
    "seen, one a layer; the layers and their examples are the same at every gain.",
    cells=_cells,
    measure=_measure,
    found=found_in_words,
    table=_table,
    draw=draw_noise,
    stream=("kind", "heads", "tokens", "dim"),
    needs=("torch",),
)
