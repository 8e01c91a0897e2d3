"""The same layers on Boolean, Gaussian, sphere and slice tokens: examples needed, and errors."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from attention import (
    BooleanInputs,
    GaussianInputs,
    GroundTruth,
    Inputs,
    SliceInputs,
    SphereInputs,
    make_nice_layer,
)
from runs import Scale
from runs.figures import axes_in, canvas, dimension_axis, legend_above, line_look
from studies.fits import fit_errors
from studies.intervals import mean_interval, proportion_interval
from studies.line_figure import decade_axis, title_axes
from studies.rows import chosen, of_all
from studies.study import Parameters, Row, Study
from upper import GradientDescent, Newton, counting_floor
from upper.six_phase import SixPhase

__all__ = ["STUDY", "discordant_layers"]

_LAWS = {"boolean": "Boolean", "gaussian": "Gaussian", "sphere": "sphere", "slice": "slice"}
_ADAM_STEPS = 600  # each on a fresh batch
_EXACT = 1e-6  # the relative error on fresh tokens below which a fit is called exact
_LEARNERS = {"phases": "practical mode", "paper": "paper mode", "adam": "Adam"}
_MEASURES = {
    ("phases", "crude"): "crude sum",
    ("phases", "sampling"): "sampling error of the crude sum",
    ("phases", "refined"): "refined sum",
    ("phases", "span"): "span",
    ("paper", "refined"): "refined sum",
    ("paper", "span"): "span",
    ("paper", "error"): "prediction",
    ("adam", "error"): "prediction",
}


def _cells(scale: Scale) -> Sequence[Parameters]:
    names = ("learner", "inputs", "heads", "tokens", "dim", "examples", "draws")
    return [
        dict(zip(names, (learner, law, *size, examples, draws), strict=True))
        for learner, law, size, examples, draws in (_quick() if scale is Scale.QUICK else _full())
    ]


_Case = tuple[str, str, tuple[int, int, int], int, int]


def _quick() -> Iterator[_Case]:
    yield from _newton((2, 2, 16), (1.5, 2.0, 4.0), 3)
    for law in _LAWS:
        yield from (("phases", law, (2, 2, 16), n, 2) for n in (20_000, 40_000))
        yield "paper", law, (2, 2, 16), 150_000, 1
        yield from (("adam", law, (2, 2, 16), _ADAM_STEPS * batch, 1) for batch in (16, 48))


def _full() -> Iterator[_Case]:
    floors = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
    yield from _newton((2, 2, 16), floors, 16)
    yield from _newton((4, 4, 32), floors, 8)
    yield from _newton((2, 2, 32), floors, 4)
    for law in _LAWS:
        yield from (("phases", law, (2, 2, 16), n, 4) for n in (30_000, 120_000, 440_000))
        yield from (("phases", law, (2, 2, 32), n, 3) for n in (90_000, 260_000, 740_000))
        yield "paper", law, (2, 2, 16), 430_000, 6
        yield from (("adam", law, (2, 2, 32), _ADAM_STEPS * batch, 3) for batch in (32, 64, 128, 256))


def _newton(size: tuple[int, int, int], floors: Sequence[float], draws: int) -> Iterator[_Case]:
    m, k, d = size
    floor = counting_floor(heads=m, tokens=k, dim=d)
    for law in _LAWS:
        for times in floors:
            # Newton needs at least one more than the floor, because it holds one out
            yield "newton", law, size, max(round(times * floor), floor + 1), draws


def _measure(
    *, rng: Generator, learner: str, inputs: str, heads: int, tokens: int, dim: int, examples: int, draws: int
) -> dict[str, Any]:
    """One fit for each of several layers: its error on fresh tokens of the same law, and the errors of the phases."""
    law, found = _tokens(inputs, tokens, dim), []
    fitted: Any = {
        "newton": lambda: Newton(heads, examples=examples, starts=1, work=3000, engine="numpy"),
        "phases": lambda: SixPhase(heads, examples=examples),
        "paper": lambda: SixPhase(heads, mode="paper", examples=examples),
        "adam": lambda: GradientDescent(
            heads, work=_ADAM_STEPS, batch=examples // _ADAM_STEPS, learning_rate=0.01
        ),
    }[learner]()
    for one in rng.spawn(draws):
        for_layer, for_truth, for_examples, for_learner = one.spawn(4)
        layer = make_nice_layer(heads=heads, dim=dim, rng=for_layer)
        truth = GroundTruth.draw(layer, law, 1000, rng=for_truth)
        found.append(fit_errors(fitted, truth, law, for_examples=for_examples, for_learner=for_learner))
    return {name: [one[name] for one in found] for name in found[0]}


def _tokens(law: str, tokens: int, dim: int) -> Inputs:
    """Tokens of a law; slice tokens are Boolean with equally many 1 and -1."""
    if law == "slice":
        return SliceInputs((dim,), ((dim // 2,),) * tokens)
    return {"boolean": BooleanInputs, "gaussian": GaussianInputs, "sphere": SphereInputs}[law](tokens, dim)


def _size(row: Row) -> tuple[int, int, int]:
    return row["heads"], row["tokens"], row["dim"]


def _floors(row: Row) -> float:
    """Examples in units of the counting floor, in quarters."""
    m, k, d = _size(row)
    return round(4 * row["examples"] / counting_floor(heads=m, tokens=k, dim=d)) / 4


def _exact(row: Row) -> list[bool]:
    return [error < _EXACT for error in row["error"]]


def _median(row: Row, name: str) -> float | None:
    values = [value for value in row[name] if value is not None]
    return float(np.median(values)) if values else None


def discordant_layers(rows: Sequence[Row], law: str) -> tuple[int, int]:
    """For Newton: the layers exact more often with Boolean tokens, and those exact more often with this law.

    A layer counts once, even if it was fitted with several numbers of examples.
    """
    balance: dict[tuple[Any, ...], int] = {}
    plain = {(_size(row), row["examples"]): row for row in chosen(rows, learner="newton", inputs="boolean")}
    for row in chosen(rows, learner="newton", inputs=law):
        other = plain.get((_size(row), row["examples"]))
        for place, (one, two) in enumerate(zip(_exact(other), _exact(row), strict=True) if other else ()):
            key = (_size(row), place)
            balance[key] = balance.get(key, 0) + one - two
    return sum(value > 0 for value in balance.values()), sum(value < 0 for value in balance.values())


def _steps(rows: Sequence[Row], size: tuple[int, int, int], law: str) -> str:
    """The two neighbouring floors between which Newton's share of exact layers reaches one half."""
    own = sorted(
        (row for row in chosen(rows, learner="newton", inputs=law) if _size(row) == size), key=_floors
    )
    enough = [2 * sum(_exact(row)) >= len(row["error"]) for row in own]
    first = enough.index(True) if any(enough) else len(own)
    before = f"{_floors(own[first - 1]):g}" if first else "0"
    return f"{before} to {_floors(own[first]):g}" if first < len(own) else f"above {before}"


def _ratios(rows: Sequence[Row], law: str, learner: str, name: str) -> dict[tuple[int, int], list[float]]:
    """The error divided by the error with Boolean tokens, by d and examples; one for each layer that has both."""
    plain = {(row["dim"], row["examples"]): row for row in chosen(rows, learner=learner, inputs="boolean")}
    found = {}
    for row in chosen(rows, learner=learner, inputs=law):
        if (other := plain.get((row["dim"], row["examples"]))) is not None:
            pairs = zip(other[name], row[name], strict=True)
            found[row["dim"], row["examples"]] = [two / one for one, two in pairs if one and two]
    return found


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    newton = [row for row in chosen(rows, learner="newton") if row["inputs"] != "slice"]
    for size in {_size(row): None for row in newton}:
        laws = {row["inputs"]: None for row in newton if _size(row) == size}
        named["step_{}_{}_{}".format(*size)] = " or ".join(
            dict.fromkeys(_steps(newton, size, law) for law in laws)
        )
    for law in ("gaussian", "sphere"):
        plain, this = discordant_layers(rows, law)
        named |= {f"{law}_plain": plain, f"{law}_this": this}
        if plain + this:
            share = proportion_interval(this, plain + this, confidence=0.95)
            named[f"{law}_share"] = f"{share.low:.2f} to {share.high:.2f}"
        for learner, name in _MEASURES:
            means = {
                key: ratios for key, ratios in _ratios(rows, law, learner, name).items() if len(ratios) > 2
            }
            for dim in {dim for dim, _ in means}:
                counts = sorted(examples for one, examples in means if one == dim)
                mean = mean_interval(np.log(means[dim, counts[-1]]), confidence=0.95)
                low, middle, high = np.exp([mean.low, mean.estimate, mean.high])
                named[f"{law}_{learner}_{name}_{dim}"] = f"{middle:.2f} ({low:.2f} to {high:.2f})"
                if learner == "adam":
                    named[f"{law}_adam_fewest"] = f"{np.exp(np.mean(np.log(means[dim, counts[0]]))):.2f}"
                    named["adam_fewest"], named["adam_most"] = counts[0], counts[-1]
    spans = [span for row in rows if row["inputs"] == "slice" and "span" in row for span in row["span"]]
    named["slice_spans"] = of_all(span is not None for span in spans)
    for row in chosen(
        rows, learner="phases", inputs="slice"
    ):  # in ascending order of examples: the last stays
        for other in chosen(
            rows, learner="phases", inputs="boolean", dim=row["dim"], examples=row["examples"]
        ):
            crude, plain_crude = _median(row, "crude"), _median(other, "crude")
            if crude is not None and plain_crude is not None:
                named[f"slice_crude_{row['dim']}"] = f"{crude:.2g}"
                named[f"slice_expected_{row['dim']}"] = f"{np.hypot(plain_crude, row['dim'] ** -0.5):.2g}"
    return named


def _table(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Newton at every number of examples; the other learners at their largest number."""
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for row in sorted(
        chosen(rows, learner="newton"), key=lambda row: (row["dim"], row["heads"], _floors(row))
    ):
        what, size = f"Newton at {_floors(row):g} floors: exact", ", ".join(map(str, _size(row)))
        lines.setdefault((what, size), {})[row["inputs"]] = of_all(_exact(row))
    for learner, name in _MEASURES:
        for row in sorted(chosen(rows, learner=learner), key=lambda row: (row["dim"], row["examples"])):
            what = f"{_LEARNERS[learner]}: error of the {_MEASURES[learner, name]}".replace(
                "error of the sampling", "sampling"
            )
            value = _median(row, name)
            size = ", ".join(map(str, _size(row)))
            lines.setdefault((what, size), {})[row["inputs"]] = "none" if value is None else f"{value:.2g}"
    return [
        {"measured": what, "m, k, d": size, **{title: cells.get(law, "-") for law, title in _LAWS.items()}}
        for (what, size), cells in lines.items()
    ]


_DASHES = {"crude": (0, (1, 1.5)), "refined": (0, (5, 2)), "span": "-"}


def _figure(rows: Sequence[Row]) -> Any:
    with canvas(9.2, 6.6) as figure:
        boxes = [(0.06 + 0.49 * (place % 2), 0.52 - 0.43 * (place // 2), 0.42, 0.31) for place in range(4)]
        newton, phases, paper, adam = (axes_in(figure, box) for box in boxes)
        _draw_newton(newton, rows)
        _draw_errors(phases, _largest(rows, "phases"), _DASHES)
        _draw_layers(paper, _largest(rows, "paper"))
        _draw_errors(adam, _largest(rows, "adam"), {"error": "-"})
        for axes, learner in ((phases, "phases"), (paper, "paper"), (adam, "adam")):
            dim = max((row["dim"] for row in chosen(rows, learner=learner)), default=0)
            axes.set_title(f"{_LEARNERS[learner]}, d = {dim}: relative error", fontsize=9.5, loc="left")
        for place, title in enumerate(_LAWS.values()):
            newton.plot([], [], label=title, **line_look(place) | {"linestyle": "-"})
        for name, dashes in _DASHES.items():
            newton.plot([], [], color="0.4", linestyle=dashes, label=_MEASURES["phases", name])
        legend_above(figure, columns=4)
        return figure


def _largest(rows: Sequence[Row], learner: str) -> list[Row]:
    """The rows of a learner at its largest size, in the order of their examples."""
    own = chosen(rows, learner=learner)
    most = max(((row["dim"], row["heads"]) for row in own), default=None)
    return sorted(
        (row for row in own if (row["dim"], row["heads"]) == most), key=lambda row: int(row["examples"])
    )


def _draw_newton(axes: Any, rows: Sequence[Row]) -> None:
    """The share of layers learned exactly, with intervals, the laws side by side."""
    own = _largest(rows, "newton")
    for place, law in enumerate(_LAWS):
        for row in chosen(own, inputs=law):
            share = proportion_interval(sum(_exact(row)), len(row["error"]), confidence=0.95)
            bar = [[share.estimate - share.low], [share.high - share.estimate]]
            at = _floors(row) * 1.03 ** (place - 1.5)
            axes.errorbar(at, share.estimate, bar, **line_look(place) | {"linestyle": "none"}, capsize=2)
    dimension_axis(axes, [_floors(row) for row in own] or [1.0])
    axes.set_ylim(-0.04, 1.04)
    size = ", ".join(map(str, _size(own[0]))) if own else ""
    title_axes(axes, "examples / counting floor", f"Newton, m, k, d = {size}: share of layers exact")


def _draw_errors(axes: Any, rows: Sequence[Row], dashes: dict[str, Any]) -> None:
    """Medians against examples: colour and mark show the law, dashes show the quantity."""
    drawn = []
    for place, law in enumerate(_LAWS):
        for name, style in dashes.items():
            pairs = [(row["examples"], _median(row, name)) for row in chosen(rows, inputs=law)]
            shown = [(examples, value) for examples, value in pairs if value is not None]
            if shown:
                axes.plot(*zip(*shown, strict=True), **line_look(place) | {"linestyle": style})
                drawn += [value for _, value in shown]
    dimension_axis(axes, [row["examples"] for row in rows] or [1])
    axes.set_xlabel("examples", loc="left")
    decade_axis(axes.yaxis, drawn or [1.0])


def _draw_layers(axes: Any, rows: Sequence[Row]) -> None:
    """A mark for each layer."""
    names, drawn = ("refined", "span", "error"), []
    for place, law in enumerate(_LAWS):
        for at, name in enumerate(names):
            errors = [error for row in chosen(rows, inputs=law) for error in row[name] if error is not None]
            look = line_look(place) | {"linestyle": "none", "markersize": 4.0}
            axes.plot([at + 0.17 * (place - 1.5)] * len(errors), errors, **look)
            drawn += errors
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.set_xticks(range(len(names)), [_MEASURES["paper", name] for name in names])
    decade_axis(axes.yaxis, drawn or [1.0])


STUDY = Study(
    name="inputs",
    title="Boolean, Gaussian and sphere tokens",
    question="How many examples does each learner need, and what errors does it make, with Gaussian or sphere tokens?",
    cells=_cells,
    measure=_measure,
    numbers=_numbers,
    table=_table,
    figure=_figure,
    stream=("learner", "heads", "tokens", "dim"),
    needs=("torch",),
)
