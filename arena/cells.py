"""One cell of a comparison: one learner on one target with one seed, under one thread, whatever happens."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from importlib.util import find_spec
from inspect import unwrap
from typing import Any

import msgspec
import numpy as np

from arena.learner_table import Budgets, DoesNotApplyError, LearnerEntry
from arena.learners import set_up_for
from arena.records import Cell, Status, TracePoint
from arena.targets import Target
from attention import Fit, Learner, ValueOracle
from attention.fits import Progress
from attention.inputs import inputs_to_json
from attention.learning import access_of
from attention.validation import count
from lower import FAMILIES
from runs import Cell as EngineCell
from runs import Result, fingerprint, single_thread

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
    Apart from the seconds, equal versions give equal bits in any process and any order; see `fit_target`.
    """
    key = (target.name, entry.name, seed)
    try:
        fit, measures = fit_target(target, entry.build(target, budgets), seed)
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


def fit_target(
    target: Target,
    learner: Learner,
    seed: int,
    *,
    oracle: ValueOracle | None = None,
    noise: float = 0.0,
    progress: Progress | None = None,
    fresh: int = 2000,
    each_step: bool = True,
) -> tuple[Fit, dict[str, float]]:
    """Run a learner that is set up, and measure its fit on fresh examples with noise-free labels.

    Parameters
    ----------
    oracle : ValueOracle, optional
        What the learner sees of the target, if it is not `Target.oracle`.
    fresh : int
        The number of fresh examples.
    each_step : bool
        Whether the steps of the trace are measured too. On large layers this takes longer than learning.

    Notes
    -----
    Everything runs under one thread of BLAS and of torch, from three independent streams (the examples, the learner,
    the measuring). The streams depend on the seed and on the target's content, not on its name or its path.
    """
    seed = count("seed", seed, least=0)
    which = target_stream(target)
    for_oracle, for_learner, for_truth = (np.random.default_rng([seed, which, stream]) for stream in range(3))
    with single_thread(torch=may_use_torch(learner)):
        truth = target.ground_truth(fresh, rng=for_truth)  # refuses sizes beyond the memory before any work
        seen = oracle or target.oracle(access_of(learner), noise=noise, rng=for_oracle)
        fit = learner.fit(seen, rng=for_learner, truth=truth if each_step else None, progress=progress)
        return fit, truth.measure(predict=fit.predict, layer=fit.layer)


def may_use_torch(learner: Learner) -> bool:
    """Whether a fit of this learner may load torch, so that its threads are to be limited first."""
    return getattr(learner, "engine", "torch" if hasattr(learner, "device") else "numpy") != "numpy"


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
        "stream": target_stream(target),
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


def target_stream(target: Target) -> int:
    """A number below 2^64 that selects a target's random streams, from its numbers, inputs and known part."""
    known = None if target.instance is None else target.instance.known
    parts = {"layer": target.layer, "inputs": inputs_to_json(target.inputs), "known": known}
    content = {name: identity(value) for name, value in parts.items()}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return int.from_bytes(hashlib.sha256(text.encode("ascii")).digest()[:8], "big")


def identity(value: Any) -> Any:
    """A value as JSON: dataclasses by their fields, arrays by a hash of their bytes, other objects by a fingerprint."""
    parts: list[Any] = []
    top, described = _described(value, parts), []
    for part in parts:  # the list grows during the loop
        # a field that is not given, None or False, is left out: streams stay as they were when a class gets one
        fields = {
            field.name: _described(getattr(part, field.name), parts)
            for field in dataclasses.fields(part)
            if not (field.default in (None, False) and getattr(part, field.name) is field.default)
        }
        name = getattr(part, "stream_name", f"{type(part).__module__}.{type(part).__qualname__}")
        described.append({"dataclass": [{"named": name}, fields]})
    return {"is": top, "parts": described}


def _described(value: Any, parts: list[Any]) -> Any:
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float) and np.isfinite(value):
        return float(value)
    if isinstance(value, Mapping):
        return {"mapping": [[key, _described(value[key], parts)] for key in sorted(value)]}
    if isinstance(value, list | tuple):
        return [_described(item, parts) for item in value]
    if isinstance(value, np.ndarray):
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return {"array": ["numpy.ndarray", str(value.dtype), list(value.shape), content]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if not any(value is part for part in parts):
            parts.append(value)
        return {"part": next(number for number, part in enumerate(parts) if part is value)}
    return {"fingerprint": fingerprint(value)}
