"""Study: the same layers on Boolean, Gaussian and sphere tokens, and on a slice: examples needed, and errors."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from arena._canvas import canvas
from arena.paper_figure import PaperFigure, dimension_axis, legend_above, line_look, paper_figure
from arena.phase_axes import axes_in, decade_limits, decade_ticks, name_axes
from arena.studies._inputs_measures import LAWS, fitted, tokens_of
from arena.studies._inputs_rows import (
    CONFIDENCE,
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
from paper_checks import Scale, proportion_interval
from upper.floor import counting_floor

__all__ = ["STUDY"]

_MEASURES = {"crude": "crude sum", "sampling": "its sampling error", "refined": "refined sum", "span": "span"}
_SHOWN = {
    "phases": ("crude", "sampling", "refined", "span"),
    "paper": ("refined", "span", "error"),
    "adam": ("error",),
}
_DASHES: Mapping[str, Any] = {"crude": (0, (1, 1.5)), "refined": (0, (5, 2)), "span": "-"}


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
                        f"{words}, {most} examples: {_MEASURES.get(name, 'error')}",
                        ", ".join(map(str, size)),
                        *("none" if value is None else f"{value:.2g}" for value in found),
                    )
                )
    return Table(("measured", "m, k, d", *LAWS.values()), tuple(lines))


def _draw(rows: Sequence[Row]) -> PaperFigure:
    with canvas(8.6, 3.5) as figure:
        boxes = [(0.055 + 0.325 * place, 0.145, 0.265, 0.59) for place in range(3)]
        newton, phases, adam = (axes_in(figure, box) for box in boxes)
        _draw_newton(newton, rows)
        _draw_phases(phases, rows)
        _draw_adam(adam, rows)
        legend_above(figure, columns=4)
        return paper_figure(
            figure,
            "Newton's exact fits, the phases' errors and Adam's error with Boolean, Gaussian, sphere and slice tokens",
        )


def _draw_newton(axes: Any, rows: Sequence[Row]) -> None:
    there = of_learner(rows, "newton")
    places = sorted({floors_of(row) for row in there})
    for number, (law, words) in enumerate(LAWS.items()):
        points = []
        for floors in places:
            exact, total = exact_fits(
                [row for row in there if (row["inputs"], floors_of(row)) == (law, floors)]
            )
            if total:
                interval = proportion_interval(exact, total, confidence=CONFIDENCE)
                points.append((floors, interval.estimate, interval.low, interval.high))
        if points:
            at, share, low, high = np.array(points).T
            shifted = at * 1.025 ** (number - 1.5)  # side by side, so that the bars can be told apart
            look = line_look(number)
            axes.errorbar(shifted, share, [share - low, high - share], **look, capsize=2, label=words)
    dimension_axis(axes, places or [1.0])
    axes.set_ylim(-0.04, 1.04)
    name_axes(axes, "examples / counting floor", "share of exact fits")
    axes.set_title("Newton", fontsize=9, loc="right")


def _draw_phases(axes: Any, rows: Sequence[Row]) -> None:
    there = of_learner(rows, "phases")
    dim = max((row["dim"] for row in there), default=0)
    drawn: list[float] = []
    for number, law in enumerate(LAWS):
        for name, dashes in _DASHES.items():
            points = sorted(
                (row["examples"], median(row[name]))
                for row in there
                if (row["dim"], row["inputs"]) == (dim, law)
            )
            shown = [(at, error) for at, error in points if error is not None]
            if shown:
                axes.plot(*zip(*shown, strict=True), **{**line_look(number), "linestyle": dashes})
                drawn += [error for _, error in shown]
    for name, dashes in _DASHES.items():
        axes.plot([], [], color="0.4", linestyle=dashes, linewidth=1.3, label=_MEASURES[name])
    _scaled(axes, sorted({row["examples"] for row in there if row["dim"] == dim}) or [1], drawn)
    name_axes(axes, "examples", "")
    axes.set_title(f"six phases, d = {dim}: relative error", fontsize=9, loc="right")


def _draw_adam(axes: Any, rows: Sequence[Row]) -> None:
    there = of_learner(rows, "adam")
    drawn: list[float] = []
    for number, law in enumerate(LAWS):
        points = sorted(
            (row["examples"], float(np.median(row["error"]))) for row in there if row["inputs"] == law
        )
        if points:
            axes.plot(*zip(*points, strict=True), **line_look(number))
            drawn += [error for _, error in points]
    _scaled(axes, sorted({row["examples"] for row in there}) or [1], drawn)
    name_axes(axes, "fresh examples", "")
    axes.set_title("Adam: relative error", fontsize=9, loc="right")


def _scaled(axes: Any, places: Sequence[int], values: Sequence[float]) -> None:
    from matplotlib.ticker import FuncFormatter

    dimension_axis(axes, places)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / 1000:.3g}k" if x >= 1000 else f"{x:g}"))
    axes.set_yscale("log")
    low, high = decade_limits([value for value in values if value > 0] or [1.0])
    axes.set_ylim(low, high)
    decade_ticks(axes.yaxis, low, high)


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
    how="Nice random layers, the same for every law; errors are relative, on 1000 fresh tokens of the law itself. "
    "Slice tokens are Boolean with as many 1 as -1: then E[x x^T] has rank d - 1, and nothing can be learned along "
    "the all-ones direction, nor is it needed. Newton: one start, at most 3000 passes, from 1 to 6 counting floors (a "
    "twentieth is held out); exact means an error below 1e-6. A law is said to be better "
    "only where it is exact more often on more layers than chance explains (Clopper-Pearson, 95 %; a layer counts "
    "once); otherwise it is said between which numbers of examples each law goes from exact on less than half of the "
    "layers to half or more, and how far those are apart. Six phases in practical mode within three "
    "budgets, the same for all laws: error of the crude sum and the part of it that is sampling error, of the refined "
    "sum, and of the span; paper mode at d = 16. Adam: 600 steps at rate .01 on fresh batches of 16 to 256. Ratios are "
    "geometric means over layers, each with both laws, at the most examples of each size and learner, 95 % by "
    "Student's t of their logarithms (3 to 6 layers: first, runs of one layer from several numbers of examples were "
    "taken for as many layers, and sizes for one); of so many intervals one may be off by chance, and the headline "
    "names those away from 1 by a factor of 1.25 at least; bars are 95 % by "
    "Clopper and Pearson; other numbers are medians.",
    cells=_cells,
    measure=_measure,
    found=found_in_words,
    table=_table,
    draw=_draw,
    stream=("learner", "heads", "tokens", "dim"),
    needs=("torch",),
)
