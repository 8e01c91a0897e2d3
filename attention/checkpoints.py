"""Read single attention layers from checkpoints of trained models, by the names of their tensors."""

import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from attention.checkpoint_config import (
    RENAME,
    Config,
    beyond_the_layer,
    expand_groups,
    head_count,
    require_plain,
)
from attention.conversion import Biases, ImportedLayer, Projections, convert_projections
from attention.files import stored_tensors
from attention.foreign import guarded, read_json, require_file, require_finite, wrong
from attention.namings import NAMINGS, Naming, find_layers, unwrapped
from attention.torch_files import PICKLES, is_pickle, read_torch_file
from attention.validation import NonNegativeInt, PositiveInt, checked

__all__ = ["checkpoint_layers", "read_checkpoint_layer"]


@checked
def read_checkpoint_layer(
    path: str | os.PathLike[str],
    *,
    layer: NonNegativeInt,
    heads: PositiveInt | None = None,
    prefix: str | None = None,
    biases: Biases = "kept",
    coordinates: int | None = None,
) -> ImportedLayer:
    """Read one attention layer of a model from a checkpoint: safetensors, or a PyTorch file of tensors.

    Parameters
    ----------
    path : path
        The file, or its index (``model.safetensors.index.json``) if it has several parts, or the folder of either. A
        file that ends in .bin, .pt, .pth or .ckpt is read by ``torch.load`` with ``weights_only=True``, so it runs no
        code.
    layer : int
        The number of the layer, from 0.
    heads : int, optional
        Number m of heads. By default it is read from the ``config.json`` beside the file, or else from the settings
        inside a PyTorch file. If both are given and differ, this one is used, with a note.
    prefix : str, optional
        Prefix of the layers' names, or its beginning; needed if the file holds several models.
    biases : "kept" or "dropped"
        Biases of the layer: kept, or dropped.
    coordinates : int, optional
        Number of first coordinates of the layer to keep; by default all.

    Raises
    ------
    FileFormatError
        If a file is missing, damaged or of another kind, needs Python objects other than tensors, has no layer with a
        known naming, or contradicts its config; or if its attention is another function: queries and keys rotated by
        position, other terms of the positions, model types that are not known, tensors beside the four maps.
    ValueError
        If there is no such layer, several models fit, or the number of heads is not known or does not fit.

    Notes
    -----
    ``attention/namings.py`` has the names of tensors that are known, after any prefix: those of BERT, DistilBERT,
    ALBERT, ViT, timm, GPT-2, nanoGPT, BART, CLIP, Whisper, fairseq and any ``torch.nn.MultiheadAttention``, and Llama's
    where the config says that nothing is rotated. Segments that wrappers put in, such as ``_orig_mod`` and ``module``,
    are ignored. The number of a MultiheadAttention is the last one in its name, or 0. Biases may be absent. Entries are
    floats of any precision, and become float64 without rounding.

    The config must name a model type that is known to compute softmax attention without terms of the positions. If it
    names none, or there is no config, the notes say what was assumed. Of a composite model, the section of the part is
    read: ``text_config`` for the prefix ``text_model``.

    Logits are divided by sqrt(h), with h the dimension of a head: ``head_dim`` or ``attention_head_size`` of the
    config, or else d over the number of heads, also where heads were pruned. Keys and values that groups of heads share
    are repeated. For GPT-2, ``scale_attn_weights`` and ``scale_attn_by_inverse_layer_idx`` of the config are applied.
    The layer does not include what the model computes around it (masks, layer norm); the notes name these.

    Only the headers and the tensors of this layer are read. The layer takes 16 m d^2 bytes.

    References
    ----------
    The names, layouts and options are those of the Hugging Face implementations, timm, fairseq, nanoGPT and PyTorch.
    """
    shown, places = _locate(Path(path))
    naming, prefix, stems = _choose(shown, places, prefix)
    if layer not in stems:
        raise ValueError(
            f"{shown} has no layer {layer} of attention: with the prefix {prefix!r} there are {_ranges(stems)}."
        )
    stem, config = stems[layer], Config.read(shown, prefix)
    causal = require_plain(shown, naming, config, places, stem)
    arrays, types = _read_maps(shown, naming, places, stem)
    (p, d), known = arrays["query"].shape, bool(config.model_type and naming.models)
    m, notes = head_count(config, heads, p, d, known=known)
    notes += expand_groups(shown, config, arrays, m)
    scale, around = beyond_the_layer(naming, config, layer, p // m, causal=causal, known=known)
    notes += around
    if rounded := sorted(types - {"float32", "float64"}):
        notes.append(f"Stored in {' and '.join(rounded)}: the numbers are taken as they are, in float64.")
    biased = {role for role in _ROLES if f"{role}_bias" in arrays}
    if biased and (absent := [role for role in _ROLES if role not in biased]):
        notes.append(f"The file has no bias of the {' and '.join(absent)}: these are taken to be zero.")
    projections = guarded(shown, f"the tensors of {stem!r:.200} make no layer", lambda: Projections(**arrays))
    imported = convert_projections(
        projections, heads=m, scale=scale, biases=biases, coordinates=coordinates, causal=causal
    )
    return replace(
        imported,
        notes=(*notes, *imported.notes),
        source=shown.name,
        naming=naming.name,
        prefix=prefix,
        number=layer,
    )


@checked
def checkpoint_layers(path: str | os.PathLike[str], *, prefix: str | None = None) -> tuple[int, ...]:
    """The numbers of the attention layers in a checkpoint, in order; parameters as of `read_checkpoint_layer`."""
    shown, places = _locate(Path(path))
    return tuple(sorted(_choose(shown, places, prefix)[2]))


_Places = dict[str, tuple[Path, str]]
"""The file of every tensor and its name there, by its name without segments of wrappers."""

_ROLES = ("query", "key", "value", "output")
_KNOWN = f"{', '.join(naming.name for naming in NAMINGS[:-1])} or {NAMINGS[-1].name}"
_INDEX = ".index.json"
# in the order in which they are looked for in a folder
_USUAL = [f"{name}{end}" for name in ("model.safetensors", "pytorch_model.bin") for end in ("", _INDEX)]
_ENDS = (".safetensors", *PICKLES)
_OTHER_KINDS = {
    "GGUF": rb"GGUF",
    "HDF5": rb"\x89HDF\r\n\x1a\n",
    # a protocol buffer whose first field is a version; a safetensors file may begin so, but has a brace as ninth byte
    "ONNX": rb"\x08[\x01-\x7f][\x12\x1a\x22\x3a\x42](?!.{5}\{)",
}


def _locate(path: Path) -> tuple[Path, _Places]:
    """The file or index to read, and the place of every tensor."""
    if os.path.isdir(path):
        path = _in_folder(path)
    if not path.name.endswith(_INDEX):
        _require_kind(path)
        files = dict.fromkeys(_opened(path), path)
    else:
        weight_map = read_json(path, "index").get("weight_map")
        if not isinstance(weight_map, dict) or not all(
            isinstance(part, str) and os.path.basename(part) == part not in ("", ".", "..")
            for part in weight_map.values()
        ):
            raise wrong(path, "the index has no weight_map from names of tensors to names of files beside it")
        files = {name: path.parent / part for name, part in weight_map.items()}
    places: _Places = {}
    for name, file in files.items():
        if (plain := unwrapped(name)) in places:
            both = f"{places[plain][1]!r:.200} and {name!r:.200}"
            raise wrong(path, f"the tensors {both} differ in wrappers only: one of the two is needed")
        places[plain] = (file, name)
    return path, places


def _require_kind(path: Path) -> None:
    """Refuse a file that is empty, or whose first bytes are those of another kind."""
    require_file(path)
    with path.open("rb") as file:
        start = file.read(9)
    if not start:
        raise wrong(path, "the file is empty")
    kind = next((kind for kind, magic in _OTHER_KINDS.items() if re.match(magic, start, re.DOTALL)), None)
    if kind is not None:
        raise wrong(
            path,
            f"this is a file of kind {kind}: save the model's tensors as safetensors, or with torch.save",
        )


def _in_folder(folder: Path) -> Path:
    for name in _USUAL:
        if (folder / name).exists():
            return folder / name
    files = sorted(file.name for file in folder.iterdir())
    # safetensors first; the last ones are refused by their kind
    for ends in (_ENDS[:1], _ENDS[1:], (".onnx", ".gguf", ".h5", ".hdf5")):
        names = [name for name in files if name.lower().endswith(ends)]
        if len(names) == 1:
            return folder / names[0]
        if names:
            raise wrong(folder, f"the folder holds {', '.join(names):.300}; give one of them")
    raise wrong(folder, f"the folder holds no {_USUAL[0]}, and no other file that ends in {', '.join(_ENDS)}")


def _choose(shown: Path, places: _Places, prefix: str | None) -> tuple[Naming, str, dict[int, str]]:
    """The naming and the full prefix of the model, and the stem of the tensors of each of its layers."""
    if adapter := sorted(name for name in places if "lora_" in name):
        merge = "which is not part of the weights: merge it into them (in peft, merge_and_unload)"
        raise wrong(shown, f"the file has an adapter, {adapter[0]!r:.200}, {merge}")
    layers = find_layers(places)
    if not layers:
        some = ", ".join(repr(name) for name in sorted(places)[:3]) or "none"
        why = Config.read(shown, "").other_logits or RENAME
        raise wrong(
            shown,
            f"there is no attention layer named as in {_KNOWN}; names of tensors there: {some:.300}; {why}",
        )
    fitting = list(layers)
    if prefix is not None:
        prefix = unwrapped(prefix)
        exact = [at for at in layers if at[1] in (prefix, f"{prefix}.")]
        fitting = exact or [at for at in layers if at[1].startswith(prefix)]
    if len(fitting) != 1:
        listed = "; ".join(
            f"{at[1]!r} ({at[0].name} naming, {_ranges(layers[at])})" for at in fitting or list(layers)
        )
        why = "several models fit" if fitting else f"no layers have the prefix {prefix!r}"
        raise ValueError(f"{shown}: {why}: give as prefix one of {listed}.")
    return *fitting[0], layers[fitting[0]]


def _ranges(numbers: Collection[int]) -> str:
    ordered = sorted(numbers)
    if len(ordered) > 1 and ordered == list(range(ordered[0], ordered[-1] + 1)):
        return f"layers {ordered[0]} to {ordered[-1]}"
    return f"layers {', '.join(map(str, ordered)):.200}"


def _opened(path: Path) -> Mapping[str, Callable[[], tuple[np.ndarray, str]]]:
    """The tensors of a file by name, each as a function that gives the array and its type in the file."""
    return read_torch_file(path) if is_pickle(path) else stored_tensors(path)


def _stored(places: _Places, names: Collection[str]) -> dict[str, tuple[np.ndarray, str]]:
    """Tensors by name, each with its type in the file."""
    files = {path: _opened(path) for path in {places[name][0] for name in names}}
    tensors = {}
    for name in names:
        path, stored = places[name]
        if stored not in files[path]:
            raise wrong(path, f"the file holds no tensor named {stored!r:.200}")
        array, kind = files[path][stored]()
        if array.dtype.kind != "f":
            raise wrong(path, f"tensor {name!r:.200} has dtype {kind}; floats are needed")
        tensors[name] = require_finite(path, f"tensor {name!r:.200}", array), kind
    return tensors


def _read_maps(shown: Path, naming: Naming, places: _Places, stem: str) -> tuple[dict[str, Any], set[str]]:
    """The four maps, rows as outputs, and the biases that there are, as for `Projections`; the types in the file."""
    names = {
        (role, kind): f"{stem}{module}{kind}"
        for role, module in naming.modules.items()
        for kind in ("weight", "bias")
        if f"{stem}{module}{kind}" in places
    }
    in_one = _ROLES[:3]
    weights = {role for role, kind in names if kind == "weight"}
    weights |= set(in_one) if "fused" in weights else set()
    if missing := [role for role in _ROLES if role not in weights]:
        module = naming.modules.get(missing[0]) or naming.modules["fused"]
        raise wrong(shown, f"the tensor {f'{stem}{module}weight'!r:.200} is missing")
    alone = sorted(names[role, "weight"] for role in in_one if (role, "weight") in names)
    if alone and ("fused", "weight") in names:
        both = f"{names['fused', 'weight']!r:.200} and {alone[0]!r:.200}"
        raise wrong(shown, f"the layer has {both}: one of the two is needed, as they may differ")
    stored = _stored(places, names.values())
    arrays = {at: stored[name][0] for at, name in names.items()}
    if any(
        array.ndim != (2 if kind == "weight" else 1) or not array.size for (_, kind), array in arrays.items()
    ):
        raise wrong(shown, f"the tensors of {stem!r:.200} are no matrices and vectors")
    if ("fused", "weight") in arrays:
        fused, output = arrays["fused", "weight"], arrays["output", "weight"]
        if len(fused) != 3 * output.shape[1]:
            # the rows of a Conv1D are inputs: (d, 3 p) and (p, d) are never (3 p, d) and (d, p) of another p and d
            arrays |= {("fused", "weight"): fused.T, ("output", "weight"): output.T}
    maps: dict[str, Any] = {}
    for (role, kind), array in arrays.items():
        roles, parts = (in_one, np.array_split(array, 3)) if role == "fused" else ((role,), [array])
        maps |= dict(zip([f"{role}_bias" if kind == "bias" else role for role in roles], parts, strict=True))
    if maps["output"].shape != maps["query"].shape[::-1]:
        shapes = f"{maps['query'].shape} and {maps['output'].shape}"
        raise wrong(
            shown, f"the maps of queries and outputs of {stem!r:.200} have shapes {shapes}: (p, d) and (d, p)"
        )
    return maps, {kind for _, kind in stored.values()}
