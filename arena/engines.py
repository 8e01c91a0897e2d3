"""Where learners compute: check that the wanted engine and device exist, and give settings to learners."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import upper

__all__ = ["require_engine", "with_settings"]


def require_engine(engine: str | None = None, device: str | None = None, *, here: bool = True) -> None:
    """Raise if an engine or a device is not known or, unless `here` is False, is missing on this machine.

    ValueError if the two do not go together, the device is not known, or torch finds no such device. ImportError if
    torch is needed and not installed.
    """
    if device is not None and not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise ValueError(f"The device is {device!r}: cpu, cuda, or cuda:1 for the second GPU, is needed.")
    if engine == "numpy" and device not in (None, "cpu"):
        raise ValueError(f"The device is {device}, and NumPy computes on the CPU: leave out the engine.")
    if not here or (device is None and engine != "torch"):
        return
    try:
        upper.choose_engine(engine or "auto", device)  # type: ignore[arg-type]
    except ValueError:
        raise ValueError(
            f"The device is {device}, which PyTorch does not find here: cpu always is there, and cuda where PyTorch "
            "was installed for it and sees a GPU."
        ) from None


def with_settings(learner: Any, settings: Mapping[str, Any]) -> Any:
    """The learner with those settings that are fields of it."""
    fields = (
        {field.name for field in dataclasses.fields(learner)} if dataclasses.is_dataclass(learner) else ()
    )
    own = {name: value for name, value in settings.items() if name in fields}
    return dataclasses.replace(learner, **own) if own else learner
