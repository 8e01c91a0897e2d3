"""Read single attention layers from checkpoints of trained models, by the names of their tensors."""

import math
import os
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from attention.conversion import Biases, ImportedLayer, Projections, convert_projections
from attention.files import guarded, read_json, read_safetensors, require_finite, tensor_types, wrong
from attention.namings import NAMINGS, Naming, find_layers
from attention.torch_files import read_torch_file
from attention.validation import NonNegativeInt, PositiveInt, as_path, checked

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
        The number m of heads. If None, it is read from the ``config.json`` beside the file. If both are given and
        differ, this one is used, with a note.
    prefix : str, optional
        The prefix of the layers' names, or its beginning; needed if the file holds several models.
    biases, coordinates
        As for `attention.convert_projections`.

    Raises
    ------
    FileFormatError
        If a file is missing, damaged, needs Python objects other than tensors, has no layer with a known naming, or
        its heads share keys or rotate queries and keys by position: no layer of this class does these.
    ValueError
        If there is no such layer, several models fit, or the number of heads is not known or does not fit.

    Notes
    -----
    These namings are supported, after any prefix. With weights A applied as x A^T + b: BERT's and RoBERTa's
    (``layer.N.attention.self.query``), DistilBERT's (``layer.N.attention.q_lin``), ALBERT's
    (``albert_layers.N.attention.query``), ViT's (``layer.N.attention.attention.query``), that of PyTorch's
    TransformerEncoder (``layers.N.self_attn.in_proj_weight``), and any other ``torch.nn.MultiheadAttention``. This one
    may have its three maps in one tensor (``in_proj_weight``) or apart (``q_proj_weight``). Its number is the last one
    in its name, or 0. Applied as x A + b, GPT-2's: ``h.N.attn.c_attn`` of shape (d, 3 p) and ``h.N.attn.c_proj`` of
    shape (p, d). Biases may be absent. Entries are floats of any precision, and become float64 without rounding.

    Logits are divided by sqrt(h), with h the dimension of a head. For GPT-2, ``scale_attn_weights`` and
    ``scale_attn_by_inverse_layer_idx`` of the config are applied. The number of heads in the config gives h, so
    layers with pruned heads are read too. The layer does not include what the model computes around it (masks,
    position terms, layer norm); the notes name these.

    Only the headers and the tensors of this layer are read. The layer takes 16 m d^2 bytes.

    References
    ----------
    The names, layouts and options are those of the Hugging Face implementations and of PyTorch.
    """
    shown, files = _locate(as_path(path))
    config_path = shown.parent / "config.json"
    naming, prefix, there = _choose(shown, files, prefix)
    if layer not in there:
        raise ValueError(
            f"{shown} has no layer {layer} of attention: with the prefix {prefix!r} there are {_ranges(there)}."
        )
    stem, config = there[layer], _read_config(config_path)
    own = {name.removeprefix(stem) for name in files if name.startswith(stem + naming.scope)}
    _require_plain(shown, config, own)
    projections, types = _read_projections(shown, naming, files, stem)
    p, d = projections.query.shape
    m, notes = _heads(config_path, config, heads, p, d)
    scale, beyond = _beyond(naming, config, layer, p // m)
    if rounded := sorted(types - {"float32", "float64"}):
        beyond.append(f"Stored in {' and '.join(rounded)}: the numbers are taken as they are, in float64.")
    read = {f"{module}{kind}" for module in naming.modules.values() for kind in ("weight", "bias")}
    if unread := sorted(own - read - naming.known):
        beyond.append(f"Of the layer's tensors these were not used: {', '.join(unread):.200}.")
    biased = {role for role, module in naming.modules.items() if f"{module}bias" in own}
    biased |= {"query", "key", "value"} if "fused" in biased else set()
    if biased and (absent := [one for one in ("query", "key", "value", "output") if one not in biased]):
        beyond.append(f"The file has no bias of the {' and '.join(absent)}: these are taken to be zero.")
    causal = naming.causal or bool(config is not None and config.is_decoder)
    imported = convert_projections(
        projections, heads=m, scale=scale, biases=biases, coordinates=coordinates, causal=causal
    )
    return replace(
        imported,
        notes=(*notes, *beyond, *imported.notes),
        source=shown.name,
        naming=naming.name,
        prefix=prefix,
        number=layer,
    )


@checked
def checkpoint_layers(path: str | os.PathLike[str], *, prefix: str | None = None) -> tuple[int, ...]:
    """The numbers of the attention layers in a checkpoint, in order; parameters as of `read_checkpoint_layer`."""
    shown, files = _locate(as_path(path))
    return tuple(sorted(_choose(shown, files, prefix)[2]))


_KNOWN = f"{', '.join(naming.name for naming in NAMINGS[:-1])} or {NAMINGS[-1].name}"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_INDEX = ".index.json"
# in the order in which they are looked for in a folder
_USUAL = [f"{name}{end}" for name in ("model.safetensors", "pytorch_model.bin") for end in ("", _INDEX)]
_ENDS = (".safetensors", *_PICKLES)
_ROTATES = "its queries and keys are rotated by their positions, which no layer of this class does"
_RENAME = "rename its tensors, or give the four maps of a layer to attention.conversion.convert_projections"
_SHARES = "its heads share keys, where each head of a layer of this class has its own"


def _locate(path: Path) -> tuple[Path, dict[str, Path]]:
    """The file or index to read, and the file of every tensor."""
    if os.path.isdir(path):
        path = _in_folder(path)
    if not path.name.endswith(_INDEX):
        return path, dict.fromkeys(read_torch_file(path) if _is_pickle(path) else tensor_types(path), path)
    weight_map = read_json(path, "index").get("weight_map")
    if not isinstance(weight_map, dict) or not all(
        isinstance(part, str) and os.path.basename(part) == part not in ("", ".", "..")
        for part in weight_map.values()
    ):
        raise wrong(path, "the index has no weight_map from names of tensors to names of files beside it")
    return path, {name: path.parent / part for name, part in weight_map.items()}


def _is_pickle(path: Path) -> bool:
    return path.name.lower().endswith(_PICKLES)


def _in_folder(folder: Path) -> Path:
    for name in _USUAL:
        if (folder / name).exists():
            return folder / name
    files = sorted(one.name for one in folder.iterdir())
    for kind in (_ENDS[:1], _ENDS[1:]):  # safetensors first
        found = [name for name in files if name.lower().endswith(kind)]
        if len(found) == 1:
            return folder / found[0]
        if found:
            raise wrong(folder, f"the folder holds {', '.join(found):.300}; give one of them")
    raise wrong(folder, f"the folder holds no {_USUAL[0]}, and no other file that ends in {', '.join(_ENDS)}")


def _choose(shown: Path, files: Mapping[str, Path], prefix: str | None) -> tuple[Naming, str, dict[int, str]]:
    """The naming and the full prefix of the model, and the stem of the tensors of each of its layers."""
    found = find_layers(files)
    if not found:
        some = ", ".join(repr(name) for name in sorted(files)[:3]) or "none"
        raise wrong(
            shown,
            f"there is no attention layer named as in {_KNOWN}; names of tensors there: {some:.300}"
            f"{_why_unknown(shown, files)}",
        )
    fitting = list(found)
    if prefix is not None:
        exact = [one for one in found if one[1] in (prefix, f"{prefix}.")]
        fitting = exact or [one for one in found if one[1].startswith(prefix)]
    if len(fitting) != 1:
        listed = "; ".join(
            f"{one[1]!r} ({one[0].name} naming, {_ranges(found[one])})" for one in fitting or list(found)
        )
        why = "several models fit" if fitting else f"no layers have the prefix {prefix!r}"
        raise ValueError(f"{shown}: {why}: give as prefix one of {listed}.")
    return *fitting[0], found[fitting[0]]


def _why_unknown(shown: Path, files: Mapping[str, Path]) -> str:
    """What the config, or the shapes of the first maps, say of a model with another naming."""
    config = _read_config(shown.parent / "config.json")
    if config is not None and config.rotated:
        return f"; by config.json, {_ROTATES}"
    query = next((name for name in sorted(files) if name.endswith(".q_proj.weight")), "")
    key = query.replace(".q_proj.", ".k_proj.")
    if not query:
        return f"; {_RENAME}"
    if key in files:
        rows = [len(_stored(files, [name])[name][0]) for name in (query, key)]
        if rows[0] != rows[1]:
            return f"; {_SHARES}: {rows[1]} rows of keys, {rows[0]} of queries"
    return (
        "; models with a q_proj may rotate queries and keys by position, which no layer of this class does; if this "
        f"one does not, {_RENAME}"
    )


def _require_plain(shown: Path, config: "_Config | None", tensors: Collection[str]) -> None:
    """Refuse a layer that computes something else from the same tensors."""
    if config is not None and config.rotated:
        raise wrong(shown, f"by config.json, {_ROTATES}")
    if rotary := sorted(name for name in tensors if "rotary" in name):
        raise wrong(shown, f"by {rotary[0]!r:.200}, {_ROTATES}")
    if added := sorted(name for name in tensors if name.endswith(("bias_k", "bias_v"))):
        raise wrong(
            shown, f"the layer has {added[0]!r:.200}, a learned token that no layer of this class has"
        )


def _ranges(numbers: Collection[int]) -> str:
    ordered = sorted(numbers)
    if len(ordered) > 1 and ordered == list(range(ordered[0], ordered[-1] + 1)):
        return f"layers {ordered[0]} to {ordered[-1]}"
    return f"layers {', '.join(map(str, ordered)):.200}"


def _stored(files: Mapping[str, Path], names: Collection[str]) -> dict[str, tuple[np.ndarray, str]]:
    """Tensors by name, each with its type in the file."""
    of_file: dict[Path, list[str]] = defaultdict(list)
    for name in names:
        of_file[files[name]].append(name)
    found: dict[str, tuple[np.ndarray, str]] = {}
    for path, some in of_file.items():
        if _is_pickle(path):
            held = read_torch_file(path)
            if missing := [name for name in some if name not in held]:
                raise wrong(path, f"the file holds no tensor named {missing[0]!r:.200}")
            found |= {name: held[name]() for name in some}
        else:
            arrays, types = read_safetensors(path, some, bfloat16=True)[0], tensor_types(path)
            brain = {name for name in some if types[name] == "BF16"}
            found |= {
                name: (array, "bfloat16" if name in brain else str(array.dtype))
                for name, array in arrays.items()
            }
    for name, (array, kind) in found.items():
        if array.dtype.kind != "f":
            raise wrong(files[name], f"tensor {name!r:.200} has dtype {kind}; floats are needed")
        require_finite(files[name], f"tensor {name!r:.200}", array)
    return found


def _read_projections(
    shown: Path, naming: Naming, files: Mapping[str, Path], stem: str
) -> tuple[Projections, set[str]]:
    """The four maps from the tensors of each module, with biases if there are any; and the types in the file."""
    names = {
        (role, kind): f"{stem}{module}{kind}"
        for role, module in naming.modules.items()
        for kind in ("weight", "bias")
        if f"{stem}{module}{kind}" in files
    }
    in_one = ("query", "key", "value")
    there = {role for role, kind in names if kind == "weight"}
    there |= set(in_one) if "fused" in there else set()
    if missing := [role for role in (*in_one, "output") if role not in there]:
        module = naming.modules.get(missing[0]) or naming.modules["fused"]
        raise wrong(shown, f"the tensor {f'{stem}{module}weight'!r:.200} is missing")
    alone = sorted(names[role, "weight"] for role in in_one if (role, "weight") in names)
    if alone and ("fused", "weight") in names:
        both = f"{names['fused', 'weight']!r:.200} and {alone[0]!r:.200}"
        raise wrong(shown, f"the layer has {both}: one of the two is needed, as they may differ")
    found = _stored(files, names.values())
    arrays = {place: found[name][0] for place, name in names.items()}
    if ("query", "weight") in arrays:
        keys, queries = (arrays[role, "weight"].shape for role in ("key", "query"))
        if len(keys) == len(queries) == 2 and 0 < keys[0] < queries[0] and queries[0] % keys[0] == 0:
            raise wrong(shown, f"{_SHARES}: {keys[0]} rows of keys, {queries[0]} of queries")

    def made() -> Projections:
        maps: dict[str, Any] = {}
        for (role, kind), array in arrays.items():
            turned = array.T if naming.transposed and kind == "weight" else array
            roles, parts = (in_one, np.split(turned, 3)) if role == "fused" else ((role,), [turned])
            maps |= dict(
                zip([one if kind == "weight" else f"{one}_bias" for one in roles], parts, strict=True)
            )
        return Projections(**maps)

    first = next(iter(names.values()))
    shapes = "(d, 3 p) and (p, d)" if naming.transposed else "(p, d) and (d, p)"
    projections = guarded(shown, f"{first!r:.200} and the tensors beside it have no shapes {shapes}", made)
    return projections, {kind for _, kind in found.values()}


class _Config(msgspec.Struct):
    """The values that are read from the ``config.json`` beside a checkpoint; None if the file lacks one."""

    num_attention_heads: Annotated[int, msgspec.Meta(ge=1)] | None = None
    n_head: Annotated[int, msgspec.Meta(ge=1)] | None = None
    n_heads: Annotated[int, msgspec.Meta(ge=1)] | None = None
    is_decoder: bool | None = None
    scale_attn_weights: bool | None = None
    scale_attn_by_inverse_layer_idx: bool | None = None
    position_embedding_type: Any = None
    rope_theta: Any = None
    rope_scaling: Any = None
    rope_parameters: Any = None
    rotary_dim: Any = None
    model_type: Any = None

    @property
    def rotated(self) -> bool:
        """Whether queries and keys are rotated by their positions."""
        keys = (self.rope_theta, self.rope_scaling, self.rope_parameters, self.rotary_dim)
        return self.position_embedding_type == "rotary" or any(keys)


def _read_config(path: Path) -> _Config | None:
    """The values of a config file; None if there is no such file."""
    if not path.exists():
        return None
    values = read_json(path, "config")
    return guarded(path, "the config is not as it should be", lambda: msgspec.convert(values, _Config))


def _heads(path: Path, config: _Config | None, heads: int | None, p: int, d: int) -> tuple[int, list[str]]:
    """The number of heads of the layer, and notes on it."""
    names = ("num_attention_heads", "n_heads", "n_head")
    name = next((one for one in names if getattr(config, one, None)), names[0])
    named: int | None = getattr(config, name, None)
    if heads is not None:
        if p % heads:
            raise ValueError(f"heads is {heads}: a divisor of {p}, the rows of the query map, is needed.")
        if named is None or named * p == heads * d:
            return heads, []
        asked = f"{heads} heads were asked for, where config.json says {name} = {named}"
        return heads, [f"{asked}: this layer is then another one than the model's."]
    if named is None:
        told = f"{path} does not tell" if config else f"{path} is not there to tell"
        raise ValueError(f"{told} how many heads the layer has: give heads (--heads).")
    if d % named or p % (d // named):
        raise wrong(
            path,
            f"{name} is {named}, which does not divide a query map of {p} rows and {d} columns into heads",
        )
    left = p * named // d
    pruned = f"Of the {named} heads in config.json {left} are there: the others were pruned."
    return left, [pruned] if p != d else []


def _beyond(naming: Naming, found: _Config | None, number: int, h: int) -> tuple[float, list[str]]:
    """The factor of the logits, and notes on what the model computes and the layer does not."""
    config = found or _Config()
    scale = 1 / math.sqrt(h)
    around = "any layer norm" if naming.norm is None else f"the layer norm {naming.norm} it"
    notes = [f"The residual connection around the layer and {around} are no part of it."]
    if naming.causal or config.is_decoder:
        notes.append("The layer is causal: a token attends to earlier ones and itself, as in the model.")
    if naming.causal and config.scale_attn_weights is False:
        scale = 1.0
        notes.append("The logits are not divided by sqrt(h), as config.json says.")
    if naming.causal and config.scale_attn_by_inverse_layer_idx:
        scale /= number + 1
        notes.append(
            f"The logits are divided by {number + 1}, the layer's number plus one, as config.json says."
        )
    if config.position_embedding_type not in (None, "absolute"):
        notes.append(
            f"The model's position terms in the logits ({config.position_embedding_type!r:.40}) are left out."
        )
    if config.model_type not in (None, *naming.models):
        notes.append(
            f"The model is of type {config.model_type!r:.40}: what it does otherwise than {naming.name} is not known "
            "here."
        )
    if found is None:
        notes.append("There is no config.json beside the file: what it might say is taken to be as usual.")
    return scale, notes
