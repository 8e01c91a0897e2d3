"""The main job: every learner on every target with every seed, each pair a cell of its own, whatever happens in it."""

import os
import time
import warnings
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, replace
from importlib.util import find_spec
from inspect import unwrap
from itertools import product
from typing import Any, Literal

import msgspec

from arena.learner_table import PRESETS, Budgets, DoesNotApplyError, LearnerEntry
from arena.learners import as_learners, require_engine, set_up_for
from arena.records import Cell, Status, TracePoint
from arena.results import Results
from arena.target import Target
from arena.targets import open_targets, preset_targets
from attention import Learner
from attention.validation import PositiveInt, checked
from lower import FAMILIES
from runs import Cell as EngineCell
from runs import Result, Store, StoreError, fingerprint, run, versions
from upper.engine import EngineName

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


@checked
def compare(
    targets: Sequence[Target | str | os.PathLike] | Target | str | os.PathLike | None = None,
    learners: Sequence[LearnerEntry | Learner | str] | LearnerEntry | Learner | str | None = None,
    *,
    preset: Literal["quick", "full"] = "quick",
    seeds: PositiveInt | None = None,
    engine: EngineName | None = None,
    device: str | None = None,
    store: Store | str | os.PathLike | None = None,
    **options: Any,
) -> Results:
    """Run every learner on every target with every seed.

    Parameters
    ----------
    targets : Target or path, or sequence of them, optional
        The targets, or files of targets; by default those of `preset_targets`.
    learners : str, Learner or LearnerEntry, or sequence of them, optional
        Names of `LEARNERS`, learners set up by the caller, or entries; by default those of `LEARNERS` that are
        `by_default`.
    preset : {"quick", "full"}
        Budgets of the learners given by name: quick (a minute or two) or full.
    seeds : int, optional
        Seeds per cell, counted from 0; by default 1 (quick) or 3 (full).
    engine : {"auto", "numpy", "torch"}, optional
        What Newton computes with: numpy (the default), torch, or auto: torch for large problems.
    device : str, optional
        Where Newton and Adam compute, by PyTorch: cpu, cuda, or cuda:1 for the second GPU.
    store : Store or path, optional
        Where cells are kept; cells already there are not computed again. By default nothing is kept.
    **options
        As for `runs.run`: jobs, fresh, retry_failed, timeout, isolated, cluster, progress.

    Returns
    -------
    Results
        The table. After an interruption it holds the cells done so far, and ``made["interrupted"]`` is True, or says
        why the store failed.

    Raises
    ------
    ValueError
        If the preset or a learner is not known, a number is out of range, two targets have the same name, the engine
        or the device is not known, or no learner lets one choose it.
    OSError
        If the store cannot be opened, or the cluster cannot be used.

    Warns
    -----
    RuntimeWarning
        If the store can no longer be written. The table still has every finished cell; the store keeps what it has.

    Notes
    -----
    An engine or a device becomes a field of the learner, so it is part of the key of its cells in a run store. The
    engine that "auto" picks is not part of the key; the stored versions show whether torch was installed.

    Examples
    --------
    >>> from arena import nice_target
    >>> print(compare([nice_target(heads=1, tokens=2, dim=4)], "known-component", isolated=False).cells[0].outcome)
    BEST_OF_CLASS
    """
    budgets = PRESETS[preset]
    seeds = seeds or budgets.seeds
    chosen = preset_targets() if targets is None else open_targets(targets)
    choice = {name: value for name, value in (("engine", engine), ("device", device)) if value is not None}
    # the devices of a cluster's workers are not known here; there each cell reports a missing one
    require_engine(engine, device, here=options.get("cluster") is None)
    entries = [_with_settings(entry, choice) for entry in as_learners(learners)]
    learners_of = [set_up_for(entry, chosen, budgets) for entry in entries]
    for name in choice:
        if not any(hasattr(learner, name) for set_up in learners_of for learner in set_up):
            raise ValueError(f"None of these learners has a choice of {name}: leave it out.")
    made: dict[str, Any] = {"preset": preset, "versions": versions(), "seeds": seeds}
    options["jobs"] = min(options.get("jobs", 1), len(chosen) * len(entries) * seeds)
    made |= {"jobs": options["jobs"], **choice}
    made |= {name: options[name] for name in ("timeout", "fresh") if options.get(name)}
    nothing = Results(
        made,
        tuple(target.record for target in chosen),
        tuple(entry.record(set_up) for entry, set_up in zip(entries, learners_of, strict=True)),
        (),
    )  # refuses equal names before the work starts

    began = time.perf_counter()
    keys = list(product(chosen, entries, range(seeds)))
    work = sorted((engine_cell(*key, budgets) for key in keys), key=_order)
    store = store if store is None or isinstance(store, Store) else Store(store)
    done: dict[str, Result] = {}
    try:
        with closing(run(work, store=store, **options)) as results:
            for result in results:
                done[result.cell.key] = result
    except KeyboardInterrupt:
        made["interrupted"] = True
        if store is not None and not options.get("fresh"):  # a cell that ended meanwhile is only in the store
            missing = {cell.key: cell for cell in work if cell.key not in done}
            for key, data in store.find(missing).items():
                done[key] = replace(Result.from_json(missing[key], data), reused=False)
    except StoreError as error:
        made["interrupted"] = str(error)
        warnings.warn(f"{error} The comparison ended with what it had.", RuntimeWarning, stacklevel=2)
    if store is not None:
        made |= {"store": store.path.name, "reused": sum(result.reused for result in done.values())}
    made["seconds"] = round(time.perf_counter() - began, 3)
    cells = {(cell.target, cell.learner, cell.seed): cell for cell in map(stored_cell, done.values())}
    order = [(target.name, entry.name, seed) for target, entry, seed in keys]
    return replace(nothing, made=made, cells=tuple(cells[key] for key in order if key in cells))


def _with_settings(entry: LearnerEntry, settings: dict[str, Any]) -> LearnerEntry:
    """The entry whose learners have those settings that are fields of theirs."""

    def build(target: Target, budgets: Budgets) -> Any:
        learner: Any = entry.build(target, budgets)
        own = {name: value for name, value in settings.items() if hasattr(learner, name)}
        return replace(learner, **own) if own else learner

    return replace(entry, build=build) if settings else entry


def _order(cell: EngineCell) -> tuple[bool, float]:
    """Cells that take milliseconds come first, so that an interrupted run shows results; then the longest."""
    return cell.cost > 2 * LEAST_COST, -cell.cost


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


CELL_NAMES = (EngineCell(_computed).name, "arena.cells._computed")
"""The names of the function of these cells in a store: now, and before it moved."""
