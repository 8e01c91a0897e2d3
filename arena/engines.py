"""Where learners compute: what is asked for is held to what there is, and what is used is named."""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from arena.students import Effort, Student
from arena.targets import Target
from attention import Learner
from upper import (
    LBFGS,
    SGD,
    Adam,
    FrozenAttention,
    LinearBaseline,
    Newton,
    OneGradientStep,
    SixPhase,
    TunedAdam,
)
from upper.engine import choose_engine
from upper.linear_attention.learner import LinearAttentionLearner

__all__ = ["asked_settings", "engine_used", "on_engine", "placed", "require_engine", "require_known_engine"]

_DEVICE = re.compile(r"cpu|cuda(:\d+)?")
_OF_NUMPY = (LBFGS, SGD, FrozenAttention, LinearAttentionLearner, LinearBaseline, OneGradientStep, SixPhase)


def engine_used(learner: Learner, target: Target) -> str:
    """What a learner computes a target with, as in "numpy", "torch cpu bfloat16"; empty where nothing is known of it.

    The last word is the precision of the products that are most of the work.

    Raises
    ------
    ValueError, ImportError
        If what the learner asks for is not there.

    Notes
    -----
    What Newton's engine "auto" is depends on the size of the problem, on whether torch is installed, and on the
    hardware; where it is to find the number of heads, it is that for the true one. Finding out imports torch where it
    will be used.

    Examples
    --------
    >>> from arena import nice_target
    >>> engine_used(Newton(m=1), nice_target(heads=1, tokens=2, dim=4))
    'numpy'
    """
    if isinstance(learner, Newton):
        heads = target.layer.heads if learner.m == "auto" else learner.m
        return str(learner.engine_for(heads, target.inputs.k, target.layer.dim))
    if isinstance(learner, Adam):
        return f"torch {learner.device} {learner.dtype}"
    if isinstance(learner, TunedAdam):
        return f"torch {learner.device} float32"
    return "numpy" if isinstance(learner, _OF_NUMPY) else ""


def asked_settings(engine: str | None = None, device: str | None = None) -> dict[str, str]:
    """The settings of learners that are asked for, by the names of their fields."""
    return {name: value for name, value in (("engine", engine), ("device", device)) if value is not None}


def require_known_engine(engine: str | None = None, device: str | None = None) -> None:
    """Raise where the words name no engine or device, here or elsewhere.

    Raises
    ------
    ValueError
        If an engine or a device is not known, or the two do not go together.
    """
    if engine not in (None, "auto", "numpy", "torch"):
        raise ValueError(f"The engine is {engine!r}: auto, numpy or torch is needed.")
    if device is not None and not _DEVICE.fullmatch(device):
        raise ValueError(f"The device is {device!r}: cpu, cuda, or cuda:1 for the second GPU, is needed.")
    if engine == "numpy" and device not in (None, "cpu"):
        raise ValueError(f"The device is {device}, and NumPy computes on the CPU: leave out the engine.")


def require_engine(engine: str | None = None, device: str | None = None) -> None:
    """Raise where an engine or a device is not there, so that it is said before the work.

    Raises
    ------
    ValueError
        As `require_known_engine` does, or if torch finds no such device.
    ImportError
        If torch is needed and not installed.
    """
    require_known_engine(engine, device)
    if device is None and engine != "torch":
        return
    try:
        choose_engine(engine or "auto", device)  # type: ignore[arg-type]
    except ImportError:
        what = " and ".join(f"{name} {value}" for name, value in asked_settings(engine, device).items())
        raise ImportError(
            f"To compute on {what}, PyTorch is needed: install it with pip install torch."
        ) from None
    except ValueError:
        raise ValueError(
            f"The device is {device}, which PyTorch does not find here: cpu always is there, and cuda where PyTorch "
            "was installed for it and sees a GPU."
        ) from None


def on_engine(
    students: Sequence[Student], *, engine: str | None = None, device: str | None = None
) -> list[Student]:
    """The students, those of them that have a choice of engine or device set up for what is asked.

    Notes
    -----
    What is asked for becomes a field of the learner, and so a part of what a run store knows its cells by. What
    "auto" comes to does not: the versions there, which say whether torch is installed, stand for it.
    """
    asked = asked_settings(engine, device)
    if not asked:
        return list(students)

    def placed_build(student: Student) -> Callable[[Target, Effort], Learner]:
        return lambda target, effort: placed(student.build(target, effort), asked)

    return [dataclasses.replace(one, build=placed_build(one)) for one in students]


def placed(learner: Any, settings: Mapping[str, str]) -> Any:
    """The learner with those of the settings that it has; the same one where it has none."""
    known = (
        {field.name for field in dataclasses.fields(learner)} if dataclasses.is_dataclass(learner) else set()
    )
    there = {name: value for name, value in settings.items() if name in known}
    return dataclasses.replace(learner, **there) if there else learner
