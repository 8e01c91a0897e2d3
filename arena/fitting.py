"""Run a learner on a target and measure its fit; the random streams of a target, which follow from its content."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from attention import Fit, Learner, ValueOracle
from attention.fits import Progress
from attention.inputs import inputs_to_json
from attention.learning import access_of
from attention.validation import count
from runs import fingerprint, single_thread

if TYPE_CHECKING:
    from arena.targets import Target


def fit_target(
    target: "Target",
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


def target_stream(target: "Target") -> int:
    """A number below 2^64 that selects a target's random streams, from its numbers, inputs and known component."""
    known = None if target.instance is None else target.instance.known
    parts = {"layer": target.answers, "inputs": inputs_to_json(target.inputs), "known": known}
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
