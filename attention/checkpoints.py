"""Read single attention layers from checkpoints of trained models, by the names of their tensors."""

import math
import os
import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from attention.conversion import Biases, ImportedLayer, Projections, convert_projections
from attention.files import (
    guarded,
    read_json,
    read_safetensors,
    require_file,
    require_finite,
    tensor_types,
    wrong,
)
from attention.namings import NAMINGS, Naming, find_layers, unwrapped
from attention.torch_files import read_torch_file, read_torch_settings
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
    shown, places = _locate(as_path(path))
    naming, prefix, stems = _choose(shown, places, prefix)
    if layer not in stems:
        raise ValueError(
            f"{shown} has no layer {layer} of attention: with the prefix {prefix!r} there are {_ranges(stems)}."
        )
    stem, config = stems[layer], _Config.read(shown, prefix)
    causal = _require_plain(shown, naming, config, places, stem)
    arrays, types = _read_maps(shown, naming, places, stem)
    (p, d), known = arrays["query"].shape, bool(config.model_type and naming.models)
    m, notes = _heads(config, heads, p, d, known=known)
    notes += _expand_groups(shown, config, arrays, m)
    scale, around = _beyond(naming, config, layer, p // m, causal=causal, known=known)
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
    shown, places = _locate(as_path(path))
    return tuple(sorted(_choose(shown, places, prefix)[2]))


_Places = dict[str, tuple[Path, str]]
"""The file of every tensor and its name there, by its name without segments of wrappers."""

_ROLES = ("query", "key", "value", "output")
_KNOWN = f"{', '.join(naming.name for naming in NAMINGS[:-1])} or {NAMINGS[-1].name}"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_INDEX = ".index.json"
# in the order in which they are looked for in a folder
_USUAL = [f"{name}{end}" for name in ("model.safetensors", "pytorch_model.bin") for end in ("", _INDEX)]
_ENDS = (".safetensors", *_PICKLES)
_OTHER_KINDS = {
    "GGUF": rb"GGUF",
    "HDF5": rb"\x89HDF\r\n\x1a\n",
    # a protocol buffer whose first field is a version; a safetensors file may begin so, but has a brace as ninth byte
    "ONNX": rb"\x08[\x01-\x7f][\x12\x1a\x22\x3a\x42](?!.{5}\{)",
}
_ROTATES = "its queries and keys are rotated by their positions, which no layer of this class does"
_RENAME = (
    "if this one computes softmax attention without terms of the positions, rename its tensors, or give the four maps "
    "of a layer to attention.conversion.convert_projections"
)
# keys of a config, one of which is set where logits have other terms, another scale or a window
_OTHER_LOGITS = re.compile(
    r"(?:.*_)?(rope|rotary|alibi|relative|softcapping|multiplier|(sliding|attention)_window|pre_attn_scalar"
    r"|qk_(layer)?norm|(softmax|attention|attn|qk)_scale)(?:_.*)?"
)
# a segment of the name of a tensor that holds terms of the positions, after what it belongs to
_OF_POSITIONS = re.compile(r"((?:.*?\.)??)[^.]*(?:rotary|rel_pos|relative|alibi|(?<![a-z])rope(?![a-z]))")
_PLAIN_POSITIONS = (None, "absolute", "learned", "sinusoidal", "none", "nope")
_BESIDE = {
    "bias_k": "a learned token that no layer of this class has",
    "bias_v": "a learned token that no layer of this class has",
    "": "and what it does to the attention is not known here",
}


def _locate(path: Path) -> tuple[Path, _Places]:
    """The file or index to read, and the place of every tensor."""
    if os.path.isdir(path):
        path = _in_folder(path)
    if not path.name.endswith(_INDEX):
        _require_kind(path)
        files = dict.fromkeys(read_torch_file(path) if _is_pickle(path) else tensor_types(path), path)
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


def _is_pickle(path: Path) -> bool:
    return path.name.lower().endswith(_PICKLES)


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
        why = _Config.read(shown, "").other_logits or _RENAME
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


@dataclass(frozen=True)
class _Config:
    """What the ``config.json`` beside a checkpoint, or else the checkpoint, says of the model with a prefix."""

    path: Path
    prefix: str
    values: Mapping[str, Any]

    @classmethod
    def read(cls, checkpoint: Path, prefix: str) -> "_Config":
        path = checkpoint.parent / "config.json"
        values = read_json(path, "config") if path.exists() else {}
        if not path.exists() and _is_pickle(checkpoint) and (settings := read_torch_settings(checkpoint)):
            path, values = checkpoint, settings
        parts = [re.sub("_(model|tower)$", "", segment) for segment in prefix.split(".")]
        sections = [values.get(name) for part in parts for name in (part, f"{part}_config")]
        # a composite model has a section for each part
        section = next((section for section in sections if isinstance(section, dict)), {})
        return cls(path, prefix, values | section)

    @property
    def model_type(self) -> str | None:
        """The architecture in timm, or else the model type."""
        given = self.values.get("architecture") or self.values.get("model_type")
        return None if given is None else str(given)

    @property
    def other_logits(self) -> str | None:
        """Why the logits are others than those of the class; None if nothing says so."""
        positions = self.values.get("position_embedding_type")
        keys = [name for name, value in self.values.items() if value and _OTHER_LOGITS.fullmatch(name)]
        if positions not in _PLAIN_POSITIONS:
            keys.insert(0, "position_embedding_type")
        if not keys:
            return None
        why = "its logits have terms, a scale or a window that no layer of this class has"
        if any(word in f"{keys[0]} {positions}" for word in ("rope", "rotary")):
            why = _ROTATES
        return f"by {self.path.name} ({keys[0]} = {self.values[keys[0]]!r:.60}), {why}"

    def flag(self, name: str) -> bool | None:
        if not isinstance(value := self.values.get(name), bool | None):
            raise wrong(self.path, f"{name} is {value!r:.40}: true or false is needed")
        return value

    def count(self, *names: str) -> tuple[str, int] | None:
        """The first of these names that is given, and its value; those that are given must agree."""
        given = {name: self.values[name] for name in names if self.values.get(name) is not None}
        for name, value in given.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise wrong(self.path, f"{name} is {value!r:.40}: a whole number from 1 on is needed")
        if len(set(given.values())) > 1:
            listed = " and ".join(f"{name} = {value}" for name, value in given.items())
            raise wrong(self.path, f"{listed} differ, and should be the same")
        return next(iter(given.items()), None)

    @property
    def heads(self) -> tuple[str, int] | None:
        """The number of heads, with the name that it has in the config."""
        stacks = [part for part in self.prefix.split(".") if part in ("encoder", "decoder")]
        return self.count(*(f"{stack}_attention_heads" for stack in stacks[:1])) or self.count(
            "num_attention_heads", "attention_heads", "n_head", "n_heads", "num_heads", "nhead"
        )


def _require_plain(shown: Path, naming: Naming, config: _Config, places: _Places, stem: str) -> bool:
    """Refuse a layer that computes something else from the same tensors; whether it has a causal mask."""
    if why := config.other_logits:
        raise wrong(shown, why)
    if "auto_map" in config.values:
        raise wrong(
            shown, "by config.json (auto_map), the model runs code of its own, which is not known here"
        )
    plain = config.values.get("use_rope") is False or config.values.get("position_embedding_type") is not None
    if naming.rotates and not plain:
        unless = "as far as config.json does not say otherwise"
        raise wrong(shown, f"in models with {naming.name}'s names, {unless}, {_ROTATES}")
    if (causal := naming.causal_for(config.model_type, config.prefix)) is None:
        raise wrong(
            shown,
            f"by {config.path.name}, the model is of type {config.model_type!r:.60}, and layers with these names are "
            f"known of {', '.join(naming.types)} only; {_RENAME}",
        )
    for name in sorted(places):
        match = _OF_POSITIONS.match(name)
        if match and (stem.startswith(match[1]) or match[1].startswith(stem)):
            why = _ROTATES if re.search("rotary|rope", name) else "its logits have terms of the positions"
            raise wrong(shown, f"by the tensor {name!r:.200}, {why}")
    own = {name.removeprefix(stem) for name in places if name.startswith(stem + naming.scope)}
    read = {f"{module}{kind}" for module in naming.modules.values() for kind in ("weight", "bias")}
    if unread := sorted(own - read - naming.known):
        name, why = next((name, why) for part, why in _BESIDE.items() for name in unread if part in name)
        raise wrong(shown, f"the layer has {name!r:.200}, {why}")
    return causal or bool(config.flag("is_decoder"))


def _stored(places: _Places, names: Collection[str]) -> dict[str, tuple[np.ndarray, str]]:
    """Tensors by name, each with its type in the file."""
    of_file: dict[Path, dict[str, str]] = defaultdict(dict)
    for name in names:
        file, stored = places[name]
        of_file[file][stored] = name
    tensors: dict[str, tuple[np.ndarray, str]] = {}
    for path, some in of_file.items():
        if _is_pickle(path):
            held = read_torch_file(path)
            if missing := [name for name in some if name not in held]:
                raise wrong(path, f"the file holds no tensor named {missing[0]!r:.200}")
            tensors |= {name: held[stored]() for stored, name in some.items()}
        else:
            arrays, types = read_safetensors(path, some, bfloat16=True)[0], tensor_types(path)
            brain = {stored for stored in some if types[stored] == "BF16"}
            tensors |= {
                some[stored]: (array, "bfloat16" if stored in brain else str(array.dtype))
                for stored, array in arrays.items()
            }
    for name, (array, kind) in tensors.items():
        if array.dtype.kind != "f":
            raise wrong(places[name][0], f"tensor {name!r:.200} has dtype {kind}; floats are needed")
        require_finite(places[name][0], f"tensor {name!r:.200}", array)
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


def _heads(config: _Config, asked: int | None, p: int, d: int, *, known: bool) -> tuple[int, list[str]]:
    """The number of heads of the layer, and notes on it; `known` says whether the model's type is."""
    if asked is not None and p % asked:
        raise ValueError(f"heads is {asked}: a divisor of {p}, the rows of the query map, is needed.")
    named = config.heads
    size = config.count("head_dim", "attention_head_size", "head_size", "d_head", "d_kv", "kv_channels")
    if named is None and size is None:
        if asked is not None:
            return asked, []
        state = "does not tell" if config.path.exists() else "is not there to tell"
        raise ValueError(f"{config.path} {state} how many heads the layer has: give heads (--heads).")
    said = " and ".join(f"{name} = {value}" for name, value in filter(None, (named, size)))
    number = named[1] if named else 0
    h = size[1] if size else d // number if number and d % number == 0 else 0
    fits = {p // h} if h and p % h == 0 and not 0 < number < p // h else set()
    # heads may be smaller or larger than d / number where neither the config nor the model's type gives their size
    if number and size is None and not known and p % number == 0 and not config.values.get("pruned_heads"):
        fits.add(number)
    if asked is not None:
        other = f"{asked} heads were asked for, where {config.path.name} says {said}: this layer is then another one"
        return asked, [] if asked in fits else [f"{other} than the model's."]
    if len(fits) != 1:
        ways = "fits in two ways, with and without pruned heads," if fits else "does not fit"
        raise wrong(
            config.path, f"{said} {ways} to a query map of {p} rows and {d} columns: give heads (--heads)"
        )
    left = fits.pop()
    pruned = f"Of the {number} heads in {config.path.name} {left} are there: the others were pruned."
    return left, [pruned] if left < number else []


def _expand_groups(shown: Path, config: _Config, maps: dict[str, Any], m: int) -> list[str]:
    """Repeat the keys and values that groups of heads share; notes on it."""
    p, rows = len(maps["query"]), len(maps["key"])
    h = p // m
    named = config.count("num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_head_kv")
    groups = rows // h if rows % h == 0 else 0
    if not groups or m % groups or len(maps["value"]) != rows or (named and named[1] != groups):
        counts = f"{p} rows of queries, {rows} of keys and {len(maps['value'])} of values"
        said = f", and {config.path.name} says {named[0]} = {named[1]}" if named else ""
        raise wrong(shown, f"{counts} make no groups of {m} heads of dimension {h}{said}")
    if groups == m:
        return []
    for name in ("key", "value", "key_bias", "value_bias"):
        if name in maps and len(maps[name]) == rows:
            grouped = maps[name].reshape(groups, h, *maps[name].shape[1:])
            maps[name] = np.repeat(grouped, m // groups, axis=0).reshape(p, *maps[name].shape[1:])
    return [f"Keys and values are shared by groups of {m // groups} heads: here each head has its own copy."]


def _beyond(
    naming: Naming, config: _Config, number: int, h: int, *, causal: bool, known: bool
) -> tuple[float, list[str]]:
    """The factor of the logits, and notes on what the model computes beyond the layer, or is assumed to compute."""
    scale = 1 / math.sqrt(h)
    around = "any layer norm" if naming.norm is None else f"the layer norm {naming.norm} it"
    notes = [f"The residual connection around the layer and {around} are no part of it."]
    if causal:
        notes.append("The layer is causal: a token attends to earlier ones and itself, as in the model.")
    if config.flag("scale_attn_weights") is False:
        scale = 1.0
        notes.append(f"The logits are not divided by sqrt(h), as {config.path.name} says.")
    if config.flag("scale_attn_by_inverse_layer_idx"):
        scale /= number + 1
        notes.append(
            f"The logits are divided by {number + 1}, the layer's number plus one, as {config.path.name} says."
        )
    if not known:
        why = (
            f"{config.path.name} names no type of model"
            if config.path.exists()
            else "There is no config.json"
        )
        order = "queries, keys and values stacked in this order, " if "fused" in naming.modules else ""
        notes.append(
            f"{why} that tells more than the names of the tensors. Assumed are softmax self-attention, {order}products "
            f"divided by sqrt(h), no terms of the positions, and {'a' if causal else 'no'} causal mask."
        )
    if (config.path.parent / "adapter_config.json").exists():
        notes.append("An adapter lies beside the file (adapter_config.json). It is not merged.")
    return scale, notes
