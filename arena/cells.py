"""One cell of a comparison: one learner on one target with one seed, under one thread, whatever happens."""

from dataclasses import asdict
from importlib.util import find_spec
from inspect import unwrap
from typing import Any

import msgspec

from arena.learner_table import Budgets, DoesNotApplyError, LearnerEntry
from arena.learners import set_up_for
from arena.records import Cell, Status, TracePoint
from arena.target import Target
from lower import FAMILIES
from runs import Cell as EngineCell
from runs import Result, fingerprint

PRELOADED = (
    "scipy.linalg",
    "scipy.optimize",
    "scipy.special",
    "scipy.stats",
    "upper.newton",
    "upper.six_phase",
    "upper.value_queries",
    "upper.linear_attention",
)
"""What the processes of a comparison import before they compute."""
_ERRORS = ("relative_error", "unknown_part_error", "theta_error", "w_error")
_OF_THE_FIT = ("error_rate_bound", "examples_used", "seconds", "engine", "alone")
LEAST_COST = 0.05
"""The cost of a learner that takes milliseconds, in seconds."""


def run_cell(target: Target, entry: LearnerEntry, seed: int, budgets: Budgets) -> Cell:
    """Run one learner on one target; the cell says if the learner does not apply or a package is missing.

    Notes
    -----
    Apart from the seconds, equal versions give equal bits in any process and any order; see `Target.fit`.
    """
    key = (target.name, entry.name, seed)
    try:
        fit, measures = target.fit(entry.build(target, budgets), seed)
    except DoesNotApplyError as error:
        return Cell(*key, Status.NOT_APPLICABLE, message=str(error))
    except ImportError as error:
        if not entry.extra or find_spec(entry.extra) is not None:
            raise
        return Cell(*key, Status.NOT_INSTALLED, message=str(error))
    trace = [
        TracePoint(step.title, step.examples, step.seconds, step.measures.get("unknown_part_error"))
        for step in fit.trace
    ]
    fields: dict[str, Any] = {name: measures.get(name) for name in _ERRORS}
    fields |= {name: getattr(fit, name) for name in _OF_THE_FIT}
    fields |= {"outcome": fit.outcome.name, "outcome_text": fit.explanation}
    return Cell(*key, Status.DONE, succeeded=fit.outcome.succeeded, **fields, trace=tuple(trace))


def engine_cell(target: Target, entry: LearnerEntry, seed: int, budgets: Budgets) -> EngineCell:
    """The call of `run_cell` in the form that the engine computes and stores.

    The arguments hold the records of the target and of the learner, and the number of the target's streams. They also
    hold a hash of the learner as it is set up (or of how, if it cannot be), of the caller's inputs and family, and of
    their code.
    """
    learners: list[Any] = list(set_up_for(entry, [target], budgets))
    family = None if target.instance is None else unwrap(FAMILIES[target.instance.family.name])
    arguments = {
        "target": asdict(target.record),
        "stream": target.stream,
        "learner": asdict(entry.record(learners)),
        "set_up": fingerprint((learners or [entry.build, budgets], target.inputs, family)),
        "seed": seed,
    }
    label = f"{entry.name} on {target.name}"
    cost = LEAST_COST + (entry.costs[target.instance is not None] if learners else 0)
    return EngineCell(_computed, arguments, {"objects": (target, entry, budgets)}, label, cost)


def stored_cell(result: Result) -> Cell:
    """The cell in a result of the engine; a cell that crashed or timed out says so."""
    if result.status == "done":
        return msgspec.convert(result.value, Cell)
    arguments = result.cell.arguments
    names = arguments["target"]["name"], arguments["learner"]["name"], arguments["seed"]
    return Cell(*names, Status(result.status), message=result.message)


def _computed(objects: tuple[Target, LearnerEntry, Budgets], seed: int, **records: Any) -> dict[str, Any]:
    target, entry, budgets = objects
    cell = asdict(run_cell(target, entry, seed, budgets))
    msgspec.convert(cell, Cell)  # a learner may return anything
    return cell


CELL_NAME = EngineCell(_computed).name
"""The name of the function of these cells in a store."""
