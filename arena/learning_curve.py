"""Learning curves: the errors in F and in Theta against the number of random examples, and of value queries."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from arena.cells import fit_target, target_stream
from arena.formats import as_plain
from arena.given_examples import GivenExamples
from arena.learner_table import LEARNERS, PRESETS
from arena.learning import learn, open_source
from arena.targets import InputsName, Target
from attention import Outcome
from attention.learning import Access
from attention.validation import NonNegativeInt, PositiveInt, checked
from runs import fingerprint
from studies import Row, Study
from studies.line_figure import Panel, line_figure
from studies.rows import chosen, curve, of_all, table, values
from studies.study import Table
from upper import ByQueries, Newton, counting_floor
from upper.floor import LayerClass

_FRACTIONS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 4.0, 8.0)
# Below the floor there is nothing to find: more passes bring no layer closer.
_PASSES, _PASSES_BELOW = 20_000, 2000
_FOUND = ("heads", "biases", "causal", "floor")
_NAMES = {"random examples": "Newton, random examples", "value queries": "By queries"}


class _UnderdeterminedNewton(Newton):
    """Newton that also fits fewer examples than the counting floor, which then fit many layers."""

    @property
    def _known(self) -> LayerClass:
        return replace(super()._known, cap=None if self.examples is None else self.examples - 1)


@checked
def learning_curve(
    source: Target | GivenExamples | str | Path | Sequence[str | Path],
    *,
    heads: PositiveInt | Literal["auto"] = "auto",
    tokens: PositiveInt | None = None,
    inputs: InputsName | None = None,
    seeds: PositiveInt = 3,
    seed: NonNegativeInt = 0,
) -> Study:
    """Learn a layer from more and more random examples, and from more and more value queries.

    Parameters
    ----------
    source : Target, path or paths
        As for `arena.learn`: a target, with biases and a causal mask if its layer has them, or files of examples: there
        are no queries then, and the examples are taken in their order.
    heads : int or "auto"
        For given examples: heads; found by default.
    tokens : int, optional
        Number k of tokens, instead of the file's.
    inputs : {"boolean", "gaussian", "sphere"}, optional
        Distribution of the tokens, instead of the file's.
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
        If there is one token or one coordinate, examples are malformed, or a number is out of range.

    Notes
    -----
    Budgets of examples are 1/2 to 8 counting floors; budgets of queries are 1/2, 3/4 and all of what `ByQueries` takes.

    Examples
    --------
    >>> from arena import nice_target
    >>> from studies import run_study
    >>> rows = run_study(learning_curve(nice_target(heads=1, tokens=3, dim=6), seeds=1), isolated=False).rows
    >>> all(row["theta_error"] > 0.1 for row in rows if row["number"] <= row["floor"])
    True
    >>> all(row["theta_error"] < 1e-10 for row in rows if row["fraction"] >= 2)
    True
    """
    opened = open_source(source, tokens=tokens, inputs=inputs)
    if isinstance(opened, GivenExamples):
        content = fingerprint((opened.x, opened.y))  # other examples in the same files are learned anew
        budgets: list[dict[str, Any]] = [{"access": "random examples", "heads": heads}]
    else:
        assert isinstance(opened, Target)
        if heads != "auto":
            raise ValueError("heads is for examples, a layer has its own: leave it out.")
        content, layer, k = str(target_stream(opened)), opened.layer, opened.inputs.tokens
        if k < 2 or layer.dim < 2:
            raise ValueError(
                f"The layer has {k} token(s) in {layer.dim} dimension(s): at least two of both are needed, or there is "
                "no attention to learn; set the number of tokens by --tokens."
            )
        shape = {"biases": layer.biased, "causal": layer.causal}
        floor = counting_floor(heads=layer.heads, tokens=k, dim=layer.dim, **shape)
        built: Any = LEARNERS["newton"].build(opened, PRESETS["full"])
        found = shape | {"heads": built.heads, "floor": floor}
        budgets = [*_budgets("random examples", floor, found), {"access": "value queries", "floor": floor}]
    return Study(
        name="examples",
        title="What examples give away",
        question="How large are the errors in F and in Theta? Fractions are of the counting floor, below which no "
        "learner can tell the layer (derived), or of the queries that the learner takes.",
        cells=lambda scale: [
            {"content": content, **budget, "seed": one}
            for budget in budgets
            for one in range(seed, seed + seeds)
        ],
        measure=_learned,
        objects={"source": opened},
        following=_fewer,
        numbers=lambda rows: {
            "counting floor": " or ".join(map(str, sorted({row["floor"] for row in rows})))
        },
        tables=_tables,
        figure=_figure,
    )


def _budgets(access: Access, unit: int, found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A part of a cell for each fraction of a unit: the counting floor, or the queries that are needed."""
    return [
        {"access": access, "fraction": fraction, "budget": max(2, math.ceil(fraction * unit)), **found}
        for fraction in _FRACTIONS
    ]


def _fewer(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Cells with fewer examples or queries than each run that had no budget, for what it found."""
    cells = []
    for row in rows:
        if row.get("budget") is None:
            unit = row["floor"] if row["access"] == "random examples" else row["number"]
            found = {name: row[name] for name in ("content", "seed", *_FOUND) if name in row}
            cells += [cell for cell in _budgets(row["access"], unit, found) if cell["budget"] < row["number"]]
    return cells


def _learned(
    *,
    rng: Any,
    source: Target | GivenExamples,
    content: str,
    access: Access,
    seed: int,
    fraction: float | None = None,
    budget: int | None = None,
    heads: PositiveInt | Literal["auto"] = "auto",
    biases: bool = False,
    causal: bool = False,
    floor: int = 0,
) -> dict[str, Any]:
    """One run; without a budget it has what there is, or as much as it takes. The content distinguishes sources."""
    learner: Any = ByQueries(examples=budget) if access == "value queries" else "newton"
    if budget is not None and access == "random examples":
        work = _PASSES if budget > floor else _PASSES_BELOW
        learner = _UnderdeterminedNewton(heads, budget, work=work, biases=biases, causal=causal)
    if isinstance(source, Target):
        fit, measures = fit_target(source, learner, seed, each_step=False)
        theta = 1.0 if fit.layer is None else measures.get("theta_error")
        errors = {"error": measures["unknown_part_error"], "theta_error": theta}
    else:
        learned = learn(source, learner, heads=heads, seed=seed)
        fit, certificate = learned.fit, learned.certificate
        errors = {
            "error": learned.error,
            "theta_error": None if certificate is None else max(certificate.theta_error),
            "determined": None if certificate is None else sum(certificate.theta) / sum(certificate.free),
        }
        if budget is None:
            layer, (_, k, d) = fit.layer, source.x.shape
            if layer is None or not layer.heads:
                raise ValueError("No attention head explains these examples: there is no Theta to learn.")
            heads, biases, causal = layer.heads, layer.biased, layer.causal
            floor = counting_floor(heads=heads, tokens=k, dim=d, biases=biases, causal=causal)
            fraction = fit.examples_used / floor
    row = {"fraction": fraction or 1.0, "number": budget or fit.examples_used, "outcome": fit.outcome.name}
    found = {"heads": heads, "biases": biases, "causal": causal, "floor": floor}
    return as_plain({**row, **found, **errors, "seconds": fit.seconds})


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
