"""Read single attention layers from checkpoints of trained models, by the names of their tensors."""

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from attention.checkpoint_config import (
    RENAME,
    Config,
    Rotation,
    expand_groups,
    head_count,
    logit_scale,
    read_rotation,
    require_known,
    rotates,
)
from attention.conversion import Biases, ImportedLayer, Projections, convert_projections, convert_rotary
from attention.files import stored_tensors
from attention.foreign import guarded, read_json, require_finite, wrong
from attention.namings import NAMINGS, Naming, find_layers, unwrapped
from attention.torch_files import PICKLES, is_pickle, read_torch_file
from attention.validation import NonNegativeInt, PositiveInt, checked

__all__ = ["checkpoint_layers", "read_checkpoint_layer"]


Tensors = Mapping[str, Callable[[], tuple[np.ndarray, str]]]
"""Tensors by name, each as a function that gives the array and its type in the file."""


@dataclass(frozen=True, eq=False)
class StoredAttention:
    """The attention of a layer as a checkpoint has it, and where it was found."""

    path: Path
    tensors: Tensors
    naming: Naming
    config: Config
    stem: str  #: what the names of the layer's tensors begin with
    projections: Projections
    heads: int
    scale: float  #: of the logits
    causal: bool
    transposed: bool  #: whether the rows of weights are inputs
    notes: tuple[str, ...]
    key_heads: (
        int  #: the number of key and value maps before they were repeated for the heads that share them
    )
    rotation: Rotation | None = None  #: None for a layer without rotary positions


def read_attention(
    path: str | os.PathLike[str], *, layer: int, heads: int | None, prefix: str | None
) -> StoredAttention:
    """The four maps of a layer; parameters as of `read_checkpoint_layer`."""
    shown, tensors = _locate(Path(path))
    naming, prefix, stems = _choose(shown, tensors, prefix)
    if layer not in stems:
        raise ValueError(
            f"{shown} has no layer {layer} of attention: with the prefix {prefix!r} there are {_listed(stems)}."
        )
    stem, config = stems[layer], Config.read(shown, prefix)
    causal = require_known(shown, naming, config, tensors, stem)
    arrays, types, transposed = _read_maps(shown, naming, tensors, stem)
    (p, d), known = arrays["query"].shape, bool(config.model_type and naming.models)
    m, notes = head_count(config, heads, p, d, known=known)
    if naming.by_head:
        arrays |= _unstacked(arrays, m)
    groups = expand_groups(shown, config, arrays, m)
    rotation = read_rotation(naming, config, p // m) if rotates(naming, config) else None
    if groups < m:
        copies = ": here each head has its own copy" if rotation is None else ""
        notes.append(f"Keys and values are shared by groups of {m // groups} heads{copies}.")
    notes += [] if rotation is None else rotation.notes
    scale, beyond = logit_scale(naming, config, layer, p // m, causal=causal, known=known)
    notes += beyond
    if rounded := sorted(types - {"float32", "float64"}):
        notes.append(f"Stored in {' and '.join(rounded)}: the numbers are taken as they are, in float64.")
    biased = {role for role in _ROLES if f"{role}_bias" in arrays}
    if biased and (absent := [role for role in _ROLES if role not in biased]):
        notes.append(f"The file has no bias of the {' and '.join(absent)}: these are taken to be zero.")
    projections = guarded(shown, f"the tensors of {stem!r:.200} make no layer", lambda: Projections(**arrays))
    return StoredAttention(
        shown,
        tensors,
        naming,
        config,
        stem,
        projections,
        m,
        scale,
        causal,
        transposed,
        tuple(notes),
        groups,
        rotation,
    )


@checked
def read_checkpoint_layer(
    path: str | os.PathLike[str],
    *,
    layer: NonNegativeInt,
    heads: PositiveInt | None = None,
    prefix: str | None = None,
    biases: Biases = "kept",
    coordinates: int | None = None,
) -> ImportedLayer[Any]:
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
        Number of first coordinates of the layer to keep; by default all. Not of a layer with rotary positions.

    Raises
    ------
    FileFormatError
        If a file is missing, damaged or of another kind, needs Python objects other than tensors, has no layer with a
        known naming, or contradicts its config; or if its attention is another function: terms of the positions
        other than a rotation of queries and keys, norms of these, windows, model types that are not known, tensors
        beside the four maps.
    ValueError
        If there is no such layer, several models fit, or the number of heads is not known or does not fit.

    Notes
    -----
    ``attention/namings.py`` has the names of tensors that are known, after any prefix: those of BERT, DistilBERT,
    ALBERT, ViT, timm, GPT-2, nanoGPT, BART, CLIP, Whisper, fairseq, Llama (also of Mistral and Qwen2), GPT-NeoX, GPT-J
    and any ``torch.nn.MultiheadAttention``. Segments that wrappers put in, such as ``_orig_mod`` and ``module``, are
    ignored. The number of a MultiheadAttention is the last one in its name, or 0. Biases may be absent. Entries are
    floats of any precision, and become float64 without rounding.

    The config must name a model type that is known to compute softmax attention, without terms of the positions or with
    queries and keys rotated by them: then the layer is a `RotaryLayer`. If it names none, or there is no config, the
    notes say what was assumed; of rotations nothing is. Of a composite model, the section of the part is read:
    ``text_config`` for the prefix ``text_model``.

    Logits are divided by sqrt(h), with h the dimension of a head: ``head_dim`` or ``attention_head_size`` of the
    config, or else d over the number of heads, also where heads were pruned. Keys and values that groups of heads share
    are repeated. For GPT-2, ``scale_attn_weights`` and ``scale_attn_by_inverse_layer_idx`` of the config are applied.
    The layer does not include what the model computes around it (masks, layer norm); the notes name these.

    Only the headers and the tensors of this layer are read. The layer takes 16 m d^2 bytes.

    References
    ----------
    The names, layouts and options are those of the Hugging Face implementations, timm, fairseq, nanoGPT and PyTorch.
    """
    stored = read_attention(path, layer=layer, heads=heads, prefix=prefix)
    shape: Any = {"heads": stored.heads, "scale": stored.scale, "biases": biases, "causal": stored.causal}
    rotation = stored.rotation
    if rotation is None:
        imported: ImportedLayer[Any] = convert_projections(
            stored.projections, coordinates=coordinates, **shape
        )
    elif coordinates is None:
        shape |= {"key_heads": stored.key_heads, "frequencies": rotation.frequencies}
        imported = convert_rotary(stored.projections, places=rotation.places, **shape)
    else:
        raise ValueError(
            f"coordinates is {coordinates}: leave it out, a layer with rotary positions is taken whole."
        )
    around = "any layer norm" if stored.naming.norm is None else f"the layer norm {stored.naming.norm} it"
    return replace(
        imported,
        notes=(
            f"The residual connection around the layer and {around} are no part of it.",
            *stored.notes,
            *imported.notes,
        ),
        source=stored.path.name,
        naming=stored.naming.name,
        prefix=stored.config.prefix,
        number=layer,
    )


@checked
def checkpoint_layers(path: str | os.PathLike[str], *, prefix: str | None = None) -> tuple[int, ...]:
    """The numbers of the attention layers in a checkpoint, in order; parameters as of `read_checkpoint_layer`."""
    shown, tensors = _locate(Path(path))
    return tuple(sorted(_choose(shown, tensors, prefix)[2]))


_ROLES = ("query", "key", "value", "output")
_KNOWN = f"{', '.join(naming.name for naming in NAMINGS[:-1])} or {NAMINGS[-1].name}"
_INDEX = ".index.json"
# in the order in which they are looked for in a folder
_USUAL = [f"{name}{end}" for name in ("model.safetensors", "pytorch_model.bin") for end in ("", _INDEX)]


def _locate(path: Path) -> tuple[Path, Tensors]:
    """The file or index to read, and its tensors by their names without segments of wrappers."""
    if os.path.isdir(path):
        path = _in_folder(path)
    tensors = _parts(path) if path.name.endswith(_INDEX) else _opened(path)
    plain: dict[str, Any] = {}
    for name, read in tensors.items():
        if unwrapped(name) in plain:
            raise wrong(
                path, f"{name!r:.200} and another tensor differ in wrappers only: one of the two is needed"
            )
        plain[unwrapped(name)] = read
    return path, plain


def _opened(path: Path) -> Tensors:
    return read_torch_file(path) if is_pickle(path) else stored_tensors(path)


def _parts(index: Path) -> Tensors:
    """The tensors of a checkpoint of several files, which are opened where a tensor is read."""
    weight_map = read_json(index, "index").get("weight_map")
    if not isinstance(weight_map, dict) or not all(
        isinstance(part, str) and os.path.basename(part) == part not in ("", ".", "..")
        for part in weight_map.values()
    ):
        raise wrong(index, "the index has no weight_map from names of tensors to names of files beside it")

    opened = cache(_opened)

    def read(path: Path, name: str) -> tuple[np.ndarray, str]:
        tensors = opened(path)
        if name not in tensors:
            raise wrong(path, f"the file holds no tensor named {name!r:.200}")
        return tensors[name]()

    return {name: partial(read, index.parent / part, name) for name, part in weight_map.items()}


def _in_folder(folder: Path) -> Path:
    for name in _USUAL:
        if (folder / name).exists():
            return folder / name
    files = sorted(file.name for file in folder.iterdir())
    for ends in ((".safetensors",), PICKLES):
        names = [name for name in files if name.lower().endswith(ends)]
        if len(names) == 1:
            return folder / names[0]
        if names:
            raise wrong(folder, f"the folder holds {', '.join(names):.300}; give one of them")
    allowed = ", ".join((".safetensors", *PICKLES))
    raise wrong(folder, f"the folder holds no {_USUAL[0]}, and no other file that ends in {allowed}")


def _choose(shown: Path, tensors: Tensors, prefix: str | None) -> tuple[Naming, str, dict[int, str]]:
    """The naming and the full prefix of the model, and the stem of the tensors of each of its layers."""
    if adapter := sorted(name for name in tensors if "lora_" in name):
        merge = "which is not part of the weights: merge it into them (in peft, merge_and_unload)"
        raise wrong(shown, f"the file has an adapter, {adapter[0]!r:.200}, {merge}")
    layers = find_layers(tensors)
    if not layers:
        some = ", ".join(repr(name) for name in sorted(tensors)[:3]) or "none"
        why = Config.read(shown, "").other_logits() or RENAME
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
            f"{at[1]!r} ({at[0].name} naming, {_listed(layers[at])})" for at in fitting or list(layers)
        )
        why = "several models fit" if fitting else f"no layers have the prefix {prefix!r}"
        raise ValueError(f"{shown}: {why}: give as prefix one of {listed}.")
    return *fitting[0], layers[fitting[0]]


def _listed(numbers: Collection[int]) -> str:
    return f"layers {', '.join(map(str, sorted(numbers))):.200}"


def _read_maps(
    shown: Path, naming: Naming, tensors: Tensors, stem: str
) -> tuple[dict[str, Any], set[str], bool]:
    """The four maps, rows as outputs, and the biases that there are; their types; whether rows were inputs."""
    names = {
        (role, kind): f"{stem}{module}{kind}"
        for role, module in naming.modules.items()
        for kind in ("weight", "bias")
        if f"{stem}{module}{kind}" in tensors
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
    arrays, types = {}, set()
    for (role, kind), name in names.items():
        arrays[role, kind], dtype = read_floats(shown, tensors, stem, name, 2 if kind == "weight" else 1)
        types.add(dtype)
    transposed = False
    if ("fused", "weight") in arrays:
        fused, output = arrays["fused", "weight"], arrays["output", "weight"]
        transposed = len(fused) != 3 * output.shape[1]
        if transposed:
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
    return maps, types, transposed


def _unstacked(maps: Mapping[str, Any], m: int) -> dict[str, Any]:
    """Queries, keys and values of maps that were stacked head by head, [q_1, k_1, v_1, q_2, ...]."""
    apart: dict[str, Any] = {}
    for kind in ("", "_bias"):
        names = [f"{role}{kind}" for role in _ROLES[:3] if f"{role}{kind}" in maps]
        if names:
            rows = np.concatenate([maps[name] for name in names])
            by_head = rows.reshape(m, 3, -1, *rows.shape[1:]).swapaxes(0, 1)
            apart |= dict(zip(names, by_head.reshape(3, -1, *rows.shape[1:]), strict=True))
    return apart


def read_floats(shown: Path, tensors: Tensors, stem: str, name: str, axes: int) -> tuple[np.ndarray, str]:
    """A tensor of finite floats with so many axes, and its type in the file."""
    array, dtype = tensors[name]()
    if array.dtype.kind != "f":
        raise wrong(shown, f"tensor {name!r:.200} has dtype {dtype}; floats are needed")
    if array.ndim != axes or not array.size:
        raise wrong(shown, f"the tensors of {stem!r:.200} are no matrices and vectors")
    return require_finite(shown, f"tensor {name!r:.200}", array), dtype
