"""Files that ``torch.save`` wrote: their tensors, without running any code that is in them."""

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

from attention.files import guarded, require_file, wrong
from attention.foreign import printable

__all__ = ["read_torch_file"]

_EXPORT = "export it with safetensors.torch.save_file, or in transformers with save_pretrained(safe_serialization=True)"


def read_torch_file(path: Path) -> dict[str, Callable[[], tuple[np.ndarray, str]]]:
    """The tensors of a file by name, each as a function that gives the array and the type in the file.

    Floats become float64. The tensors of mappings in mappings are named with dots between. What is no tensor is left
    out. A FileFormatError if torch is not installed, the file is damaged, or it needs more than tensors to be read.
    """
    require_file(path)
    if find_spec("torch") is None:
        raise wrong(path, f"torch, which reads this file, is not installed; {_EXPORT}")
    import torch

    def load() -> dict[str, Any]:
        try:
            # a mapped file is read only where a tensor is used
            mapped = zipfile.is_zipfile(path)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what torch.load warns of, it then refuses
                content = torch.load(str(path), map_location="cpu", weights_only=True, mmap=mapped)
        except UnpicklingError as error:
            if named := re.search(r"GLOBAL ([\w.]+)", str(error)):
                needs = f"it needs {named[1]:.100}, and only tensors are read, as a pickle may run code"
                raise wrong(path, f"{needs}; {_EXPORT}") from None
            raise ValueError("it is damaged, or of another kind") from None
        except (RuntimeError, EOFError):  # several sentences
            raise ValueError("it is damaged, or of another kind") from None
        return dict(_tensors("", content))

    tensors = guarded(path, "the file is no valid PyTorch file", load)
    return {printable(name): partial(_array, path, name, tensor) for name, tensor in tensors.items()}


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
