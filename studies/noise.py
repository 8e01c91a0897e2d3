"""Noise on the labels: added noise, or a class drawn from the softmax of each row of the output."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attention import make_nice_layer
from runs import Scale
from studies.intervals import mean_interval
from studies.line_figure import Panel, curve_of, line_figure
from studies.noise_learners import learn_classes, learn_noisy
from studies.rows import chosen, grouped
from studies.study import Parameters, Row, Study
from upper.floor import counting_floor

__all__ = ["STUDY"]

_PHASES = {"crude": "crude sum", "refined": "refined sum", "span": "span"}
_CLASSES = {"squared": "squared loss", "likelihood": "likelihood", "likelihood_law": "bound"}
_SMALL = 0.1  # the largest noise at which a first-order law is compared with the measurement
_BROKEN = 2.0  # times the error without noise
_SETTLED = 0.2  # a first-order law counts as valid if its bound is below this value


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
    sizes = dict(zip(("heads", "tokens", "dim"), size, strict=True))
    return {"kind": kind, **sizes, "level": level, "examples": examples, "draws": draws}


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
            found.append(learn_classes(one, heads, tokens, dim, level, examples))
        else:
            layer = make_nice_layer(heads=heads, dim=dim, rng=one.spawn(1)[0])
            found.append(learn_noisy(one, kind, layer, tokens, level, examples))
    return {name: [one[name] for one in found] for name in found[0]}


_Size = tuple[int, int, int]


def _size(row: Row) -> _Size:
    return row["heads"], row["tokens"], row["dim"]


def _middle(values: Sequence[float | None]) -> float | None:
    """The median of the existing values."""
    there = [value for value in values if value is not None]
    return float(np.median(there)) if there else None


def _excess(rows: Sequence[Row]) -> dict[tuple[_Size, int], tuple[list[float], float | None]]:
    """Newton's excess over the simple law for small noise, one value per layer, and the law of the covariance.

    The values are by size and counting floors. A layer has the same examples and the same scaled noise at every level,
    so its values are averaged.
    """
    small = [row for row in chosen(rows, kind="newton") if row["level"] <= _SMALL]
    found = {}
    for (m, k, d, examples), members in grouped(small, "heads", "tokens", "dim", "examples").items():
        floors = round(examples / counting_floor(heads=m, tokens=k, dim=d))
        found[(m, k, d), floors] = (
            [float(np.mean(values)) for values in zip(*(row["ratio"] for row in members), strict=False)],
            _middle([law for row in members for law in row["law"]]),
        )
    return dict(sorted(found.items()))


def _simple_law(row: Row) -> float:
    """The relative error by the simple law."""
    m, k, d = _size(row)
    return float(row["level"] * np.sqrt(2 * m * d / (row["examples"] * k)))


def _breaking(rows: Sequence[Row]) -> dict[str, float | None]:
    """The least noise at which a phase's error is twice that without noise; None if no measured noise reaches it."""
    there = {row["level"]: row for row in chosen(rows, kind="phases")}
    found: dict[str, float | None] = {}
    for name in _PHASES if 0.0 in there else ():
        clean = _middle(there[0.0][name])
        if clean is None:
            continue
        errors = {level: _middle(row[name]) for level, row in sorted(there.items())}
        worse = [level for level, error in errors.items() if error is None or error > _BROKEN * clean]
        found[name] = worse[0] if worse else None
    return found


def _slopes(rows: Sequence[Row]) -> dict[float, list[float]]:
    """Exponents of the examples in the error of maximum likelihood, by gain, one per layer of the smallest size."""
    there, slopes = _smallest(rows), {}
    for gain in sorted({row["level"] for row in there}):
        settled = [
            row for row in there if row["level"] == gain and np.median(row["likelihood_law"]) < _SETTLED
        ]
        if len(settled) > 1:
            places = np.log([row["examples"] for row in settled])
            errors = zip(*(row["likelihood"] for row in settled), strict=False)
            slopes[gain] = [float(np.polyfit(places, np.log(one), 1)[0]) for one in errors]
    return slopes


def _smallest(rows: Sequence[Row]) -> list[Row]:
    """The rows with classes at the smallest dimension, by gain and examples."""
    there = chosen(rows, kind="sampled")
    dim = min((row["dim"] for row in there), default=0)
    return sorted(
        (row for row in there if row["dim"] == dim), key=lambda row: (row["level"], row["examples"])
    )


def _better(rows: Sequence[Row]) -> dict[tuple[_Size, float], list[int]]:
    """The number of examples at which maximum likelihood beats squared loss on every layer, by size and gain."""
    found: dict[tuple[_Size, float], list[int]] = {}
    for row in sorted(chosen(rows, kind="sampled"), key=lambda row: int(row["examples"])):
        there = found.setdefault((_size(row), row["level"]), [])
        if all(likely < squared for likely, squared in zip(row["likelihood"], row["squared"], strict=True)):
            there.append(row["examples"])
    return found


def _extent(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"


def _mean(values: Sequence[float]) -> str:
    """The mean, with its interval by Student's t for three layers or more."""
    if len(values) < 3:
        return f"{np.mean(values):.2f}"
    interval = mean_interval(values, confidence=0.95)
    return f"{interval.estimate:.2f} ({interval.low:.2f} to {interval.high:.2f})"


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    excess = _excess(rows)
    named: dict[str, Any] = {
        f"newton_{floors}": _extent(
            [float(np.mean(values)) for (_, at), (values, _) in excess.items() if at == floors]
        )
        for _, floors in excess
    }
    if beside := [float(np.mean(values)) / law for values, law in excess.values() if law is not None]:
        named["newton_covariance"] = _extent(beside)
    named |= {f"{name}_breaks": level for name, level in _breaking(rows).items()}
    for row in chosen(rows, kind="phases"):
        if row["level"] == 1.0:
            named |= {f"{name}_loud": f"{_middle(row[name]) or 1.0:.2f}" for name in _PHASES}
    for row in chosen(rows, kind="adam"):
        ratio = np.mean(np.square(row["error"])) / _simple_law(row) ** 2
        named[f"adam_{row['level']:g}".replace(".", "_")] = f"{ratio:.2g}"
    if linear := [float(np.median(row["error"])) for row in chosen(rows, kind="linear")]:
        named |= {"linear_least": f"{min(linear):.3f}", "linear_most": f"{max(linear):.3f}"}
    for (size, gain), examples in _better(rows).items():
        named[f"better_{size[2]}_{gain:g}".replace(".", "_")] = ", ".join(map(str, examples)) or "none"
    for row in _smallest(rows):  # for each gain, the most examples come last
        at = f"{row['level']:g}".replace(".", "_")
        for name in ("squared", "floor", "likelihood"):
            named[f"{name}_{at}"] = f"{_middle(row[name]):.2g}"
        over = f"{np.mean(np.divide(row['likelihood'], row['likelihood_law'])):.2f}"
        named.setdefault(f"bound_few_{at}", over)
        named[f"bound_many_{at}"] = over
    for gain, values in _slopes(rows).items():
        named[f"slope_{gain:g}".replace(".", "_")] = _mean(values)
    return named


def _table(rows: Sequence[Row]) -> list[dict[str, str]]:
    lines: list[tuple[str, _Size, str, str, str, str]] = []
    for (size, floors), (values, law) in _excess(rows).items():
        beside = "1" if law is None else f"1; of the covariance {law:.2f}"
        lines.append(
            ("Newton: excess / law", size, f"up to {_SMALL:g}", f"{floors} floors", _mean(values), beside)
        )
    for row in chosen(rows, kind="adam"):
        ratios = (np.square(row["error"]) / _simple_law(row) ** 2).tolist()
        where = (_size(row), f"{row['level']:g}", str(row["examples"]))
        lines.append(("Adam: squared error / law", *where, _mean(ratios), "1"))
    for row in chosen(rows, kind="phases"):
        where = (_size(row), f"{row['level']:g}", str(row["examples"]))
        lines.append(
            ("six phases: crude sum, refined, span, end", *where, _medians(row, *_PHASES, "error"), "")
        )
    largest = {
        (_size(row), row["level"]): row
        for row in sorted(chosen(rows, kind="sampled"), key=lambda row: int(row["examples"]))
    }
    for row in largest.values():
        where = (_size(row), f"{row['level']:g}", str(row["examples"]))
        whole = [np.hypot(*pair) for pair in zip(row["floor"], row["squared_law"], strict=True)]
        laws = f"{np.median(whole):.2g}, {_medians(row, 'likelihood_law')}"
        found = _medians(row, "squared", "likelihood", "linear", "crude")
        lines.append(("classes: squared loss, likelihood, linear, crude sum", *where, found, laws))
    return [
        {
            "case": case,
            "m, k, d": ", ".join(map(str, size)),
            "s or gain": level,
            "examples": examples,
            "found": found,
            "law": law,
        }
        for case, size, level, examples, found, law in lines
    ]


def _medians(row: Row, *names: str) -> str:
    values = [_middle(row[name]) for name in names]
    return ", ".join("none" if value is None else f"{value:.2g}" for value in values)


def _figure(rows: Sequence[Row]) -> Any:
    """Median errors against added noise, and against examples with classes for labels."""
    added: dict[str, dict[float, float | None]] = {}
    main = [row for row in rows if row["dim"] == 16 and row["level"] > 0]
    newton = chosen(main, kind="newton")
    most = max((row["examples"] for row in newton), default=0)
    newton = chosen(newton, examples=most)
    added[f"Newton, {most} examples"] = {row["level"]: _middle(row["error"]) for row in newton}
    added["simple law"] = {row["level"]: _simple_law(row) for row in newton}
    for name, title in _PHASES.items():
        added[f"phases: {title}"] = {row["level"]: _middle(row[name]) for row in chosen(main, kind="phases")}
    for kind, title in (("adam", "Adam"), ("linear", "linear")):
        added[title] = {row["level"]: _middle(row["error"]) for row in chosen(main, kind=kind)}
    classes: dict[str, dict[float, float | None]] = {}
    for row in _smallest(rows):
        if row["level"] in (1.0, 4.0):
            for name, title in _CLASSES.items():
                points = classes.setdefault(f"{title}, gain {row['level']:g}", {})
                points[row["examples"]] = _middle(row[name])
    titles = (
        ("noise s, in units of the labels", "relative error, added noise"),
        ("examples", "relative error, classes"),
    )
    return line_figure(
        [
            Panel(*words, {title: curve_of(line) for title, line in lines.items()}, log_x=True)
            for words, lines in zip(titles, (added, classes), strict=True)
        ]
    )


STUDY = Study(
    name="noise",
    title="Noise on the labels",
    question="What does noise on the labels do to each learner, and what if a label is only a class that was drawn by "
    "the softmax of the output?",
    cells=_cells,
    measure=_measure,
    numbers=_numbers,
    table=_table,
    figure=_figure,
    stream=("kind", "heads", "tokens", "dim"),
    needs=("torch",),
)
