"""Learning curves: the errors in F and in Theta against the number of random examples, and of value queries."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from arena.cells import fit_target, target_stream
from arena.drawing import Drawing
from arena.formats import aligned, as_plain, error_text
from arena.learner_table import LEARNERS
from arena.learning import learn, set_up
from arena.targets import Target
from attention import Outcome
from attention.learning import Access
from attention.validation import PositiveInt, count
from runs import Cell, Result, fingerprint, run
from studies.line_figure import Panel, curve_of, line_figure
from studies.rows import grouped
from upper import ByQueries, Newton, counting_floor
from upper.floor import LayerClass

__all__ = ["LearningPoint", "draw_learning_curve", "learning_curve", "learning_table"]

_FRACTIONS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 4.0, 8.0)
# Below the floor there is nothing to find: more passes bring no layer closer.
_PASSES, _PASSES_BELOW = 20_000, 2000
_NAMES = {"random examples": "Newton, random examples", "value queries": "By queries"}


@dataclass(frozen=True)
class LearningPoint:
    """One run of a learner with a budget.

    Attributes
    ----------
    access : "random examples" or "value queries"
        What the budget counts. Newton learns from examples, `ByQueries` from queries.
    fraction : float
        The budget over the counting floor; of queries, over the number that the learner takes without a budget.
    seed : int
        The seed of the run.
    number : int
        The budget.
    floor : int
        `upper.counting_floor`: with fewer examples or queries several layers give the same answers.
    outcome : str
        The name of the `attention.Outcome`; empty if the run failed.
    error : float or None
        The relative error in F, on what is not known in advance; of given examples, on those held out.
    theta_error : float or None
        The error in Theta of the worst head, 1 if no layer was found; None if the fit has another number of heads. Of
        given examples, the bound by `upper.certify_layer`; None without a certificate.
    determined : float or None
        For given examples, the share of the directions of Theta and c that the certificate calls determined.
    seconds : float
        The time of the fit.
    message : str
        Why the run failed.
    """

    access: Access
    fraction: float
    seed: int
    number: int
    floor: int
    outcome: str = ""
    error: float | None = None
    theta_error: float | None = None
    determined: float | None = None
    seconds: float = 0.0
    message: str = ""

    @property
    def recovered(self) -> bool:
        """Whether the learner ended with a success."""
        return bool(self.outcome) and Outcome[self.outcome].succeeded

    def row(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return asdict(self)


class _UnderdeterminedNewton(Newton):
    """Newton that also fits fewer examples than the counting floor, which then fit many layers."""

    @property
    def _known(self) -> LayerClass:
        return replace(super()._known, cap=None if self.examples is None else self.examples - 1)


def learning_curve(
    source: Target | Sequence[Path],
    *,
    heads: PositiveInt | Literal["auto"] = "auto",
    seeds: PositiveInt = 3,
    seed: int = 0,
    on_point: Callable[[LearningPoint], None] | None = None,
    **options: Any,
) -> tuple[LearningPoint, ...]:
    """Learn a layer from more and more random examples, and from more and more value queries.

    Parameters
    ----------
    source : Target or sequence of path
        A target, with biases and a causal mask if its layer has them. Or files of examples, as for `arena.learn`:
        there are no queries then, and the examples are taken in their order.
    heads : int or "auto"
        For given examples: heads; found by default.
    seeds : int
        Runs for each number of examples; medians are shown.
    seed : int
        The first seed.
    on_point : callable, optional
        Called with each point as soon as it exists.
    **options
        As for `runs.run`: jobs, timeout, store, fresh, isolated, cluster.

    Raises
    ------
    ValueError
        If there is one token or one coordinate, examples are malformed, or a number is out of range.

    Notes
    -----
    Budgets of examples are 1/2 to 8 counting floors; budgets of queries are 1/2, 3/4 and all of what `ByQueries` takes.

    Examples
    --------
    >>> from arena import nice_target
    >>> points = learning_curve(nice_target(heads=1, tokens=3, dim=6), seeds=1, isolated=False)
    >>> all(point.theta_error > 0.1 for point in points if point.number <= point.floor)
    True
    >>> all(point.theta_error < 1e-10 for point in points if point.fraction >= 2)
    True
    """
    runs = range(count("seed", seed, least=0), seed + count("seeds", seeds))
    points: list[LearningPoint] = []

    def compute(cells: Sequence[Cell]) -> Iterator[Result]:
        for result in run(cells, retry_failed=True, **options):
            points.append(_point(result))
            if on_point is not None:
                on_point(points[-1])
            yield result

    if isinstance(source, Target):
        list(compute(_layer_cells(source, runs)))
    else:
        given = {**_of_files(source), "heads": heads, "number": None}
        whole = list(compute([Cell(_from_files, {**given, "seed": one}) for one in runs]))
        list(compute([cell for result in whole if result.status == "done" for cell in _fewer(result)]))
    return tuple(sorted(points, key=lambda point: (point.access, point.fraction, point.seed)))


def _layer_cells(target: Target, seeds: Sequence[int]) -> list[Cell]:
    layer, k = target.layer, target.inputs.tokens
    if k < 2 or layer.dim < 2:
        raise ValueError(
            f"The layer has {k} token(s) in {layer.dim} dimension(s): at least two of both are needed, or there is no "
            "attention to learn; set the number of tokens by --tokens."
        )
    floor = counting_floor(
        heads=layer.heads, tokens=k, dim=layer.dim, biases=layer.biased, causal=layer.causal
    )
    budgets = {"random examples": _FRACTIONS, "value queries": [one for one in _FRACTIONS if one <= 1]}
    return [
        Cell(
            _from_layer,
            {
                "stream": target_stream(target),
                "access": access,
                "fraction": fraction,
                "seed": seed,
                "floor": floor,
            },
            {"target": target},
        )
        for access, fractions in budgets.items()
        for fraction in fractions
        for seed in seeds
    ]


def _from_layer(
    target: Target, access: Access, fraction: float, seed: int, floor: int, stream: int
) -> dict[str, Any]:
    """The fields of a point; the stream of the target's random numbers distinguishes targets."""
    number = max(2, math.ceil(fraction * floor))
    if access == "value queries":
        learner: Any = ByQueries()
        if fraction < 1:
            whole, _ = fit_target(target, learner, seed, each_step=False)
            number = max(target.layer.dim + 1, math.ceil(fraction * whole.examples_used))
            learner = ByQueries(examples=number)
    else:
        work = _PASSES if fraction > 1 else _PASSES_BELOW
        learner = _UnderdeterminedNewton(
            **vars(set_up(target, LEARNERS["newton"], examples=number, work=work))
        )
    fit, measures = fit_target(target, learner, seed, each_step=False)
    if access == "value queries" and fraction >= 1:
        number = fit.examples_used
    return as_plain(
        {
            "number": number,
            "outcome": fit.outcome.name,
            "error": measures["unknown_part_error"],
            "theta_error": 1.0 if fit.layer is None else measures.get("theta_error"),
            "seconds": fit.seconds,
        }
    )


def _of_files(files: Sequence[Path]) -> dict[str, Any]:
    """The files, and what is in them, so that other examples at the same place are learned anew."""
    paths = [Path(file).absolute() for file in files]
    return {
        "files": [str(path) for path in paths],
        "content": fingerprint([path.read_bytes() for path in paths]),
    }


def _fewer(whole: Result) -> Iterator[Cell]:
    """The cells with fewer examples than a run on all of them, for the heads, biases and mask that it found."""
    found = whole.value
    for fraction in _FRACTIONS:
        number = max(2, math.ceil(fraction * found["floor"]))
        if number < found["number"]:
            shape = {name: found[name] for name in ("heads", "biases", "causal", "floor")}
            yield Cell(_from_files, {**whole.cell.arguments, **shape, "number": number})


def _from_files(
    files: Sequence[str],
    content: str,
    heads: int | str,
    seed: int,
    number: int | None,
    floor: int = 0,
    biases: bool = False,
    causal: bool = False,
) -> dict[str, Any]:
    learner: Any = "newton"
    if number is not None:
        work = _PASSES if number > floor else _PASSES_BELOW
        learner = _UnderdeterminedNewton(heads, number, work=work, biases=biases, causal=causal)  # type: ignore[arg-type]
    learned = learn(files, learner, heads=heads, seed=seed)
    layer, certificate = learned.layer, learned.certificate
    k, d = learned.data["tokens"], learned.data["dim"]
    if number is None:
        if layer is None or not layer.heads:
            raise ValueError("No attention head explains these examples: there is no Theta to learn.")
        heads, biases, causal = layer.heads, layer.biased, layer.causal
        floor = counting_floor(heads=heads, tokens=k, dim=d, biases=biases, causal=causal)
    number = learned.fit.examples_used
    return as_plain(
        {
            "heads": heads,
            "biases": biases,
            "causal": causal,
            "floor": floor,
            "fraction": number / floor,
            "number": number,
            "outcome": learned.fit.outcome.name,
            "error": learned.error,
            "theta_error": None if certificate is None else max(certificate.theta_error),
            "determined": None if certificate is None else sum(certificate.theta) / sum(certificate.free),
            "seconds": learned.fit.seconds,
        }
    )


def _point(result: Result) -> LearningPoint:
    given = {"access": "random examples", "fraction": 0.0, "number": 0, "floor": 0} | dict(
        result.cell.arguments
    )
    given |= dict(result.value) if result.status == "done" else {"message": result.message}
    return msgspec.convert({name: value for name, value in given.items() if value is not None}, LearningPoint)


def _medians(points: Sequence[LearningPoint]) -> list[dict[str, Any]]:
    """For each budget the medians over its runs; a median is None if no run has the number."""
    rows = [point.row() | {"recovered": point.recovered} for point in points if point.outcome]
    medians = []
    for (access, fraction), those in grouped(rows, "access", "fraction").items():
        row: dict[str, Any] = {"access": access, "fraction": fraction, "floor": those[0]["floor"]}
        for name in ("number", "error", "theta_error", "determined"):
            values = [one[name] for one in those if one[name] is not None]
            row[name] = float(np.median(values)) if values else None
        row["recovered"], row["runs"] = sum(one["recovered"] for one in those), len(those)
        medians.append(row)
    return medians


def learning_table(points: Sequence[LearningPoint]) -> str:
    """A row for each budget, with the medians of its runs; below, the counting floor."""
    medians = _medians(points)
    given = any(row["determined"] is not None for row in medians) or all(
        point.theta_error is None for point in points
    )
    rows = [
        (
            "learned from",
            "number",
            "in floors",
            "error in F",
            "in Theta",
            *["determined"] * given,
            "recovered",
        )
    ]
    for row in medians:
        errors = ["-" if row[name] is None else error_text(row[name]) for name in ("error", "theta_error")]
        share = ["-" if row["determined"] is None else f"{row['determined']:.0%}"] * given
        size = f"{row['number']:.0f}", f"{row['number'] / row['floor']:.3g}"
        rows.append((row["access"], *size, *errors, *share, f"{row['recovered']} of {row['runs']}"))
    floors = " or ".join(str(floor) for floor in sorted({row["floor"] for row in medians}))
    of_theta = (
        "the certificate's bound for the worst head, and the share of directions that the examples determine"
        if given
        else "of the worst head, 1 if there is no layer"
    )
    notes = (
        f"Counting floor: {floors}. From fewer examples or queries no learner can tell the layer (derived).",
        f"Theta: {of_theta}. Medians.",
    )
    return "\n".join([aligned(rows, left=1), "", *notes])


def draw_learning_curve(points: Sequence[LearningPoint]) -> Drawing:
    """The errors in F and in Theta against the number of examples and of queries; a dotted line is the counting floor.

    Raises
    ------
    ValueError
        If no run came to an end.
    """
    medians = _medians(points)
    if not medians:
        raise ValueError("There is no point to draw: every run failed.")
    floor = float(np.median([row["floor"] for row in medians]))
    panels, bound = [], any(row["determined"] is not None for row in medians)
    of_theta = "bound on the error in Theta, worst head" if bound else "error in Theta, worst head"
    for name, label in (("error", "error in F"), ("theta_error", of_theta)):
        curves = {
            title: curve_of({row["number"]: row[name] for row in medians if row["access"] == access})
            for access, title in _NAMES.items()
        }
        below = f"examples or queries (dotted: the counting floor, {floor:g})"
        panels.append(Panel(below, label, curves, log_x=True, verticals=[floor]))
    return Drawing(
        line_figure(panels), "Errors in F and in Theta against the number of examples and of queries"
    )
