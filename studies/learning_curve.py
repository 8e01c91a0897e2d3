"""Learning curves: the errors in F and in Theta against the number of random examples, and of value queries."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Protocol

import numpy as np

from attention import AttentionLayer, Fit, Outcome
from attention.learning import Access
from attention.validation import NonNegativeInt, PositiveInt, checked
from studies.line_figure import Panel, line_figure
from studies.rows import chosen, curve, of_all, table, values
from studies.study import Row, Study, Table
from upper import ByQueries, Newton, counting_floor
from upper.floor import LayerClass

_FRACTIONS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 4.0, 8.0)
# Below the floor there is nothing to find: more passes bring no layer closer.
_PASSES, _PASSES_BELOW = 20_000, 2000
_NAMES = {"random examples": "Newton, random examples", "value queries": "By queries"}


class Source(Protocol):
    """What is learned from, such as an `arena.Target`, or examples, which have no layer."""

    @property
    def content(self) -> str:
        """What distinguishes it from other sources."""

    @property
    def layer(self) -> AttentionLayer | None:
        """The layer, if it is known."""

    def measured(self, learner: Any, *, seed: int) -> tuple[Fit, dict[str, float | None]]:
        """A fit, its ``error`` and ``theta_error``, and of examples the share of directions that is ``determined``."""


class _UnderdeterminedNewton(Newton):
    """Newton that also fits fewer examples than the counting floor, which then fit many layers."""

    @property
    def _known(self) -> LayerClass:
        return replace(super()._known, cap=None if self.examples is None else self.examples - 1)


@checked
def learning_curve(
    source: Any,
    tokens: PositiveInt,
    *,
    heads: PositiveInt | Literal["auto"] = "auto",
    seeds: PositiveInt = 3,
    seed: NonNegativeInt = 0,
) -> Study:
    """Learn a layer from more and more random examples, and from more and more value queries.

    Parameters
    ----------
    source : Source
        A target, with biases and a causal mask if its layer has them, or examples: there are no queries then, and the
        examples are taken in their order.
    tokens : int
        Number k of its tokens.
    heads : int or "auto"
        For given examples: heads; found by default.
    seeds : int
        Runs for each number of examples; medians are shown.
    seed : int
        The first seed.

    Returns
    -------
    Study
        A row for each run. `error` is the relative error in F on what is not known in advance; of given examples, on
        those held out. `theta_error` is the error in Theta of the worst head: 1 if no layer was found, None if the fit
        has another number of heads; of given examples the bound by `upper.certify_layer`, None without a certificate.
        `determined` is the share of the directions of Theta and c that the certificate calls determined.

    Raises
    ------
    ValueError
        If there is one token or one coordinate, or a number is out of range.

    Notes
    -----
    Budgets of examples are 1/2 to 8 counting floors; budgets of queries are 1/2, 3/4 and all of what `ByQueries` takes.
    """
    layer, common = source.layer, {"content": source.content, "tokens": tokens}
    if layer is None:
        budgets: list[dict[str, Any]] = [{"access": "random examples", "heads": heads}]
    elif heads != "auto":
        raise ValueError("heads is for examples, a layer has its own: leave it out.")
    elif tokens < 2 or layer.dim < 2:
        raise ValueError(
            f"The layer has {tokens} token(s) in {layer.dim} dimension(s): at least two of both are needed, or there "
            "is no attention to learn; set the number of tokens by --tokens."
        )
    else:
        shape = {"heads": layer.heads, "biases": layer.biased, "causal": layer.causal}
        shape["floor"] = counting_floor(tokens=tokens, dim=layer.dim, **shape)
        budgets = _budgets("random examples", shape["floor"], shape)
        budgets.append({"access": "value queries", "floor": shape["floor"]})
    return Study(
        name="examples",
        title="What examples give away",
        question="How large are the errors in F and in Theta? Fractions are of the counting floor, below which no "
        "learner can tell the layer (derived), or of the queries that the learner takes.",
        cells=lambda scale: [
            {**common, **budget, "seed": at} for budget in budgets for at in range(seed, seed + seeds)
        ],
        measure=_learned,
        objects={"source": source},
        following=_fewer,
        numbers=lambda rows: {
            "counting floor": " or ".join(map(str, sorted({row["floor"] for row in rows})))
        },
        tables=_tables,
        figure=_figure,
    )


def _budgets(access: Access, unit: int, shape: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A part of a cell for each fraction of a unit: the counting floor, or the queries that are needed."""
    return [
        {"access": access, "fraction": fraction, "budget": max(2, math.ceil(fraction * unit)), **shape}
        for fraction in _FRACTIONS
    ]


def _fewer(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Cells with fewer examples or queries than each run that had no budget, for the shape that it found."""
    cells = []
    for row in rows:
        if row.get("budget") is None:
            unit = row["floor"] if row["access"] == "random examples" else row["number"]
            names = ("content", "tokens", "seed", "heads", "biases", "causal", "floor")
            shape = {name: row[name] for name in names if name in row}
            cells += [cell for cell in _budgets(row["access"], unit, shape) if cell["budget"] < row["number"]]
    return cells


def _learned(
    *, rng: Any, source: Source, content: str, tokens: int, access: Access, seed: int, **cell: Any
) -> dict[str, Any]:
    """One run; without a budget it has what there is, or as much as it takes. The content distinguishes sources."""
    budget = cell.get("budget")
    shape: dict[str, Any] = {name: cell[name] for name in ("heads", "biases", "causal") if name in cell}
    learner: Any = ByQueries(examples=budget)
    if access == "random examples" and budget is None:
        causal = bool(getattr(source, "causal", False))
        learner = Newton(shape["heads"], work=_PASSES, biases="auto", causal=causal)
    elif access == "random examples":
        work = _PASSES if budget > cell["floor"] else _PASSES_BELOW
        learner = _UnderdeterminedNewton(examples=budget, work=work, **shape)
    fit, errors = source.measured(learner, seed=seed)
    row = {"fraction": 1.0, "number": budget or fit.examples_used, "outcome": fit.outcome.name, **cell}
    for name, error in errors.items():
        row[name] = None if error is None or not math.isfinite(error) else error
    if access == "random examples" and budget is None:
        layer = fit.layer
        if layer is None or not layer.heads:
            raise ValueError("No attention head explains these examples: there is no Theta to learn.")
        shape = {"heads": layer.heads, "biases": layer.biased, "causal": layer.causal}
        floor = counting_floor(tokens=tokens, dim=layer.dim, **shape)
        row |= shape | {"floor": floor, "fraction": fit.examples_used / floor}
    return row | {"seconds": fit.seconds}


def _tables(rows: Sequence[Row]) -> dict[str, Table]:
    """A line for each budget, with the medians of its runs."""
    given = "determined" in rows[0]
    columns: dict[str, Any] = {
        "number": "number",
        "error in F": "error",
        "bound in Theta" if given else "in Theta": "theta_error",
        **({"determined": "determined"} if given else {}),
        "recovered": lambda those: of_all(Outcome[row["outcome"]].succeeded for row in those),
    }
    ordered = sorted(rows, key=lambda row: (row["access"], row["fraction"]))
    return {"medians": table(ordered, {"learned from": "access", "fraction": "fraction"}, columns)}


def _figure(rows: Sequence[Row]) -> Any:
    """Medians against the numbers of examples and of queries; the dotted line is the counting floor."""
    floor = float(np.median(values(rows, "floor")))
    of_theta = "bound on the error in Theta" if "determined" in rows[0] else "error in Theta"
    panels = [
        Panel(
            f"examples or queries (dotted: the counting floor, {floor:g})",
            label,
            {title: curve(chosen(rows, access=access), "number", name) for access, title in _NAMES.items()},
            log_x=True,
            verticals=[floor],
        )
        for name, label in (("error", "error in F"), ("theta_error", f"{of_theta}, worst head"))
    ]
    return line_figure(panels)
