"""The main job: every learner on every target, side by side."""

import os
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from itertools import product
from typing import Any, Literal

from arena.cells import LEAST_COST, engine_cell, stored_cell
from arena.learner_table import PRESETS, Budgets, LearnerEntry
from arena.learners import as_learners, require_engine, set_up_for
from arena.records import Cell
from arena.results import Results
from arena.target import Target
from arena.target_files import load_targets
from arena.targets import preset_targets
from attention import Learner
from attention.validation import PositiveInt, checked
from runs import Cell as EngineCell
from runs import Store, StoreError, run, versions
from upper.engine import EngineName


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
    >>> print(compare([nice_target(heads=1, tokens=2, dim=4)], "known-part", isolated=False).cells[0].outcome)
    BEST_OF_CLASS
    """
    budgets = PRESETS[preset]
    seeds = seeds or budgets.seeds
    chosen = preset_targets() if targets is None else _open(targets)
    choice = {name: value for name, value in (("engine", engine), ("device", device)) if value is not None}
    require_engine(engine, device, here=False)
    entries = [_with_settings(entry, choice) for entry in as_learners(learners)]
    learners_of = [set_up_for(entry, chosen, budgets) for entry in entries]
    for name in choice:
        if not any(hasattr(learner, name) for set_up in learners_of for learner in set_up):
            raise ValueError(f"None of these learners has a choice of {name}: leave it out.")
    made: dict[str, Any] = {"preset": preset, "versions": versions(), "seeds": seeds}
    made |= {"jobs": options.get("jobs", 1), **choice}
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
    cells: dict[tuple[str, str, int], Cell] = {}
    reused = 0
    try:
        with closing(run(work, store=store, **options)) as results:
            for result in results:
                cell = stored_cell(result)
                cells[cell.target, cell.learner, cell.seed] = cell
                reused += result.reused
    except KeyboardInterrupt:
        made["interrupted"] = True
    except StoreError as error:
        made["interrupted"] = str(error)
        warnings.warn(f"{error} The comparison ended with what it had.", RuntimeWarning, stacklevel=2)
    if store is not None:
        made |= {"store": store.path.name, "reused": reused}
    made["seconds"] = round(time.perf_counter() - began, 3)
    order = [(target.name, entry.name, seed) for target, entry, seed in keys]
    return replace(nothing, made=made, cells=tuple(cells[key] for key in order if key in cells))


def _open(targets: Any) -> list[Target]:
    """The targets, files read; equal titles get the name added, because tables and figures show only titles."""
    given = [targets] if isinstance(targets, Target | str | os.PathLike) else list(targets)
    if not given:
        raise ValueError("No target is given: give some, or none at all for those of preset_targets.")
    paths = [target for target in given if not isinstance(target, Target)]
    files = iter(load_targets(paths) if paths else ())
    opened = [target if isinstance(target, Target) else next(files) for target in given]
    times = Counter(target.title for target in opened)
    return [
        target if times[target.title] == 1 else replace(target, title=f"{target.name}: {target.title}")
        for target in opened
    ]


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
