"""Models of linear attention as safetensors files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attention._arrays import to_numpy
from attention.errors import FileFormatError
from attention.files import FilePath, read_tensors, write_tensors
from attention.validation import require_mapping
from upper.linear_attention.model import LinearAttention

__all__ = ["load_linear_attention", "save_linear_attention"]

_KIND = "linear-attention"


def save_linear_attention(
    path: FilePath, model: LinearAttention, *, made: Mapping[str, Any] | None = None
) -> None:
    """Write a model: its matrices v and q as data, and how they were made for the record.

    Parameters
    ----------
    path : path
        Where to; a file that is there is replaced when the new one is complete.
    model : LinearAttention
        The model, of any array library.
    made : mapping, optional
        How it was made, as JSON values.

    Raises
    ------
    ValueError
        If it is no such model, or `made` has no JSON form.
    OSError
        If the file cannot be written.
    """
    if not isinstance(model, LinearAttention):
        raise ValueError(
            f"The model is a {type(model).__name__}: save_linear_attention writes a LinearAttention only."
        )
    if made is not None:
        require_mapping("made", made)
    tensors = {"v": to_numpy(model.v), "q": to_numpy(model.q)}
    write_tensors(path, _KIND, tensors, {"average": model.average, "made": dict(made or {})})


def load_linear_attention(path: FilePath) -> LinearAttention:
    """Read what `save_linear_attention` wrote.

    Raises
    ------
    FileFormatError
        If the file is missing, damaged, or holds something else.
    """
    stored = read_tensors(path, kind=_KIND)
    average = stored.metadata.get("average", False)
    try:
        if set(stored.tensors) != {"v", "q"} or not isinstance(average, bool):
            raise ValueError("v and q, and whether G is a mean, are needed.")
        return LinearAttention(stored.tensors["v"], stored.tensors["q"], average)
    except ValueError as error:
        raise FileFormatError(f"{Path(path)}: {error}") from None
