"""Where learners compute: check that the wanted engine and device exist, and set learners up for them."""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import upper
from arena.learners import Budgets, LearnerEntry
from arena.targets import Target
from attention import Learner

__all__ = [
    "asked_settings",
    "on_engine",
    "placed",
    "require_engine",
    "require_known_engine",
]

_DEVICE = re.compile(r"cpu|cuda(:\d+)?")


def asked_settings(engine: str | None = None, device: str | None = None) -> dict[str, str]:
    """The given settings, keyed by the learner's field names."""
    return {name: value for name, value in (("engine", engine), ("device", device)) if value is not None}


def require_known_engine(engine: str | None = None, device: str | None = None) -> None:
    """Raise if the engine or the device is unknown; whether it exists on this machine is not checked.

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
    """Raise if an engine or a device is missing on this machine, before any work starts.

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
        upper.choose_engine(engine or "auto", device)  # type: ignore[arg-type]
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
    entries: Sequence[LearnerEntry], *, engine: str | None = None, device: str | None = None
) -> list[LearnerEntry]:
    """The entries; learners that let one choose an engine or a device get the given choice.

    Raises
    ------
    ValueError
        As `require_known_engine` does.

    Notes
    -----
    The choice becomes a field of the learner, so it is part of the key of its cells in a run store. The engine that
    "auto" picks is not part of the key; the stored versions show whether torch was installed.
    """
    require_known_engine(engine, device)
    asked = asked_settings(engine, device)

    def placed_build(entry: LearnerEntry) -> Callable[[Target, Budgets], Learner]:
        return lambda target, budgets: placed(entry.build(target, budgets), asked)

    return [dataclasses.replace(one, build=placed_build(one)) for one in entries]


def placed(learner: Any, settings: Mapping[str, str]) -> Any:
    """The learner with those settings that are fields of it; unchanged if none is."""
    known = (
        {field.name for field in dataclasses.fields(learner)} if dataclasses.is_dataclass(learner) else set()
    )
    there = {name: value for name, value in settings.items() if name in known}
    return dataclasses.replace(learner, **there) if there else learner
