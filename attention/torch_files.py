"""Files that ``torch.save`` wrote: their tensors, without running any code that is in them."""

import argparse
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np

from attention.foreign import guarded, printable, require_file, wrong

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
"""How the names of files of ``torch.save`` end."""

_EXPORT = "export it with safetensors.torch.save_file, or in transformers with save_pretrained(safe_serialization=True)"

_SETTINGS = ("args", "cfg", "config", "hparams", "hyper_parameters", "model_args")
_PLAIN = str | int | float | None


def is_pickle(path: Path) -> bool:
    """Whether a file is one of ``torch.save``, by the end of its name."""
    return path.name.lower().endswith(PICKLES)


def read_torch_file(path: Path) -> dict[str, Callable[[], tuple[np.ndarray, str]]]:
    """The tensors of a file by name, each as a function that gives the array and the type in the file.

    Floats become float64. The tensors of mappings in mappings are named with dots between. What is no tensor is left
    out. A FileFormatError if torch is not installed, the file is damaged, or it needs more than tensors to be read.
    """
    tensors = guarded(path, "the file is no valid PyTorch file", lambda: dict(_tensors("", _content(path))))
    return {printable(name): partial(_array, path, name, tensor) for name, tensor in tensors.items()}


def read_torch_settings(path: Path) -> dict[str, Any]:
    """The numbers and texts that a training program stored beside the tensors, as nanoGPT, fairseq and Lightning do."""
    content = guarded(path, "the file is no valid PyTorch file", lambda: _content(path))
    settings: dict[str, Any] = {}
    for name in _SETTINGS if isinstance(content, Mapping) else ():
        settings |= _settings(content.get(name))
    return settings


def _settings(record: Any) -> dict[str, Any]:
    record = vars(record) if isinstance(record, argparse.Namespace) else record
    if not isinstance(record, Mapping):
        return {}
    plain = {name: value for name, value in record.items() if isinstance(value, _PLAIN)}
    return plain | _settings(record.get("model"))


def _content(path: Path) -> Any:
    require_file(path)
    if find_spec("torch") is None:
        raise wrong(path, f"torch, which reads this file, is not installed; {_EXPORT}")
    import torch

    try:
        # a mapped file is read only where a tensor is used
        mapped = zipfile.is_zipfile(path)
        # training settings, as fairseq stores them: a plain record
        with torch.serialization.safe_globals([argparse.Namespace]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what torch.load warns of, it then refuses
            return torch.load(str(path), map_location="cpu", weights_only=True, mmap=mapped)
    except UnpicklingError as error:
        if named := re.search(r"GLOBAL ([\w.]+)", str(error)):
            needs = f"it needs {named[1]:.100}, and only tensors are read, as a pickle may run code"
            raise wrong(path, f"{needs}; {_EXPORT}") from None
        raise ValueError("it is damaged, or of another kind") from None
    except (RuntimeError, EOFError):  # several sentences
        raise ValueError("it is damaged, or of another kind") from None


def _tensors(stem: str, content: Any) -> Iterator[tuple[str, Any]]:
    import torch

    if isinstance(content, torch.Tensor):
        yield stem.removesuffix("."), content
    elif isinstance(content, Mapping):
        for name, value in content.items():
            yield from _tensors(f"{stem}{name}.", value)


def _array(path: Path, name: str, tensor: Any) -> tuple[np.ndarray, str]:
    def convert() -> np.ndarray:
        here = tensor.detach()
        return np.array((here.double() if here.is_floating_point() else here).numpy())

    array = guarded(path, f"tensor {name!r:.200} cannot be read", convert)
    return array, str(tensor.dtype).removeprefix("torch.")
