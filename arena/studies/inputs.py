"""Study: the same layers on Boolean, Gaussian and sphere tokens, and on a slice: examples needed, and errors."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from arena.studies._inputs_figure import draw_inputs
from arena.studies._inputs_measures import LAWS, fitted, tokens_of
from arena.studies._inputs_rows import (
    MEASURES,
    exact_fits,
    floors_of,
    median,
    of_learner,
    size_of,
)
from arena.studies._inputs_words import found_in_words
from arena.studies._noise_measures import columns
from arena.studies.study import Parameters, Row, Study, Table
from attention import make_nice_layer
from paper_checks import Scale
from upper.floor import counting_floor

__all__ = ["STUDY"]

_SHOWN = {
    "phases": ("crude", "sampling", "refined", "span"),
    "paper": ("refined", "span", "error"),
    "adam": ("error",),
}


def _cells(scale: Scale) -> list[Parameters]:
    return list(_quick() if scale is Scale.QUICK else _full())


def _quick() -> Iterator[Parameters]:
    yield from _newton((2, 2, 16), (1.5, 2.0, 4.0), 3)
    for law in LAWS:
        yield from (_cell("phases", law, (2, 2, 16), n, 2) for n in (20_000, 40_000))
        yield _cell("paper", law, (2, 2, 16), 150_000, 1)
        yield from (_cell("adam", law, (2, 2, 16), 600 * batch, 1) for batch in (16, 48))


def _full() -> Iterator[Parameters]:
    floors = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
    yield from _newton((2, 2, 16), floors, 16)
    yield from _newton((4, 4, 32), floors, 8)
    yield from _newton((2, 2, 32), floors, 4)
    for law in LAWS:
        yield from (_cell("phases", law, (2, 2, 16), n, 4) for n in (30_000, 120_000, 440_000))
        yield from (_cell("phases", law, (2, 2, 32), n, 3) for n in (90_000, 260_000, 740_000))
        yield _cell("paper", law, (2, 2, 16), 430_000, 6)
        yield from (_cell("adam", law, (2, 2, 32), 600 * batch, 3) for batch in (32, 64, 128, 256))


def _newton(size: tuple[int, int, int], floors: Sequence[float], draws: int) -> Iterator[Parameters]:
    m, k, d = size
    floor = counting_floor(heads=m, tokens=k, dim=d)
    for law in LAWS:
        for times in floors:
            # one more than the floor is the least that Newton takes: it holds one out
            yield _cell("newton", law, size, max(round(times * floor), floor + 1), draws)


def _cell(learner: str, law: str, size: tuple[int, int, int], examples: int, draws: int) -> Parameters:
    m, k, d = size
    return {
        "learner": learner,
        "inputs": law,
        "heads": m,
        "tokens": k,
        "dim": d,
        "examples": examples,
        "draws": draws,
    }


def _measure(
    *,
    rng: np.random.Generator,
    learner: str,
    inputs: str,
    heads: int,
    tokens: int,
    dim: int,
    examples: int,
    draws: int,
) -> Mapping[str, Any]:
    law = tokens_of(inputs, tokens, dim)
    found = []
    for one in rng.spawn(draws):
        layer = make_nice_layer(heads=heads, dim=dim, rng=one.spawn(1)[0])
        found.append(fitted(one, learner, layer, law, examples))
    return columns(found)


def _table(rows: Sequence[Row]) -> Table:
    lines = []
    for size in sorted(
        {size_of(row) for row in of_learner(rows, "newton")}, key=lambda size: (size[2], size)
    ):
        for floors in sorted({floors_of(row) for row in of_learner(rows, "newton") if size_of(row) == size}):
            there = [
                row for row in of_learner(rows, "newton") if (size_of(row), floors_of(row)) == (size, floors)
            ]
            shares = [exact_fits([row for row in there if row["inputs"] == law]) for law in LAWS]
            cells = [f"{exact} of {total}" if total else "" for exact, total in shares]
            lines.append((f"Newton at {floors:g} floors: exact", ", ".join(map(str, size)), *cells))
    for learner, words in (("phases", "phases"), ("paper", "paper mode"), ("adam", "Adam")):
        for size in sorted({size_of(row) for row in of_learner(rows, learner)}):
            there = [row for row in of_learner(rows, learner) if size_of(row) == size]
            most = max(row["examples"] for row in there)
            for name in _SHOWN[learner]:
                found = [
                    median(
                        [
                            one
                            for row in of_learner(there, learner, law)
                            if row["examples"] == most
                            for one in row[name]
                        ]
                    )
                    for law in LAWS
                ]
                lines.append(
                    (
                        f"{words}, {most} examples: {MEASURES.get(name, 'error')}",
                        ", ".join(map(str, size)),
                        *("none" if value is None else f"{value:.2g}" for value in found),
                    )
                )
    return Table(("measured", "m, k, d", *LAWS.values()), tuple(lines))


STUDY = Study(
    name="inputs",
    title="Boolean, Gaussian and sphere tokens",
    question="Gaussian or sphere inputs against Boolean: how many examples does each learner need, and what errors "
    "does it make?",
    expected="The specification asks this and gives no figure; its counting floor counts equations, whatever the "
    "tokens; phase 1 rests on E[x x^T] = I, the same for all three, and their fourth moments and the norms of "
    "Gaussian rows, d (1 +- sqrt(2/d)), differ in terms of order 1/d: one expects the same floors and errors that "
    "agree to about ten per cent at d = 32, Gaussian tokens being the odd ones.",
    limits="Random layers with logits of standard deviation 2 and d up to 32; layers with a diagonal or a lattice, "
    "where Boolean tokens are special, are the subject of other studies; only one slice.",
    how="Nice random layers, the same for every law; errors of predictions are relative, on 1000 fresh inputs of the "
    "law itself; those of the crude sum, the refined sum and the span are of the matrices. Slice tokens are Boolean "
    "with as many 1 as -1: then E[x x^T] has rank d - 1, and nothing can be learned along the all-ones direction; no "
    "prediction needs it, but the error of the crude sum counts it, and phase 3, which asks for tokens of full rank, "
    "ends there. Newton: one start, at most 3000 passes, from 1 to 6 counting "
    "floors (a twentieth is held out); exact means an error below 1e-6. A law is said to be better "
    "only where it is exact more often on more layers than chance explains (Clopper-Pearson, 95 %; a layer counts "
    "once); otherwise it is said between which numbers of examples each law goes from exact on less than half of the "
    "layers to half or more, and how far those are apart. Six phases in practical mode within three "
    "budgets, the same for all laws: error of the crude sum and the part of it that is sampling error, of the refined "
    "sum, and of the span; paper mode at d = 16. Adam: 600 steps at rate .01 on fresh batches of 32 to 256. Ratios are "
    "geometric means over layers, each with both laws, at the most examples of each size and learner, 95 % by "
    "Student's t of their logarithms (3 to 6 layers: first, runs of one layer from several numbers of examples were "
    "taken for as many layers, and sizes for one); of so many intervals one may be off by chance, and the headline "
    "names those away from 1 by a factor of 1.25 at least; bars are 95 % by "
    "Clopper and Pearson; other numbers are medians.",
    cells=_cells,
    measure=_measure,
    found=found_in_words,
    table=_table,
    draw=draw_inputs,
    stream=("learner", "heads", "tokens", "dim"),
    needs=("torch",),
)
