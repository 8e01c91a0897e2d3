"""Read single attention layers from safetensors checkpoints of trained models, by the names of their tensors."""

import math
import os
import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from attention.conversion import Biases, ImportedLayer, Projections, convert_projections
from attention.files import guarded, read_json, read_safetensors, tensor_names, wrong
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
    """Read one attention layer of a model from a safetensors checkpoint.

    Parameters
    ----------
    path : path
        The file, or its index (``model.safetensors.index.json``) if it has several parts, or the folder of either.
    layer : int
        The number of the layer, from 0.
    heads : int, optional
        The number m of heads. If None, it is read from the ``config.json`` beside the file. If both are given and
        differ, this one is used, with a note.
    prefix : str, optional
        The prefix of the layers' names, or its beginning; needed if the file holds several models.
    biases, coordinates
        As for `attention.convert_projections`.

    Notes
    -----
    These namings are supported, after any prefix. With weights A applied as x A^T + b: BERT's and RoBERTa's
    (``layer.N.attention.self.query``), DistilBERT's (``layer.N.attention.q_lin``), ALBERT's
    (``albert_layers.N.attention.query``), ViT's (``layer.N.attention.attention.query``), and that of PyTorch's
    TransformerEncoder (``layers.N.self_attn.in_proj_weight``). Applied as x A + b, GPT-2's: ``h.N.attn.c_attn`` of
    shape (d, 3 p) and ``h.N.attn.c_proj`` of shape (p, d). Biases may be absent. Entries are float16, bfloat16, float32
    or float64, and become float64. Models that rotate queries and keys by their positions, or whose heads share keys,
    have no layer of this class.

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
    naming, prefix, there = _choose(shown, files, prefix)
    if layer not in there:
        raise ValueError(
            f"{shown} has no layer {layer} of attention: with the prefix {prefix!r} there are {_ranges(there)}."
        )
    stem = f"{prefix}{naming.layers}.{layer}."
    projections = _read_projections(shown, naming, files, stem)
    p, d = projections.query.shape
    config_path = shown.parent / "config.json"
    config = _read_config(config_path)
    m, notes = _heads(config_path, config, heads, p, d)
    scale, beyond = _beyond(naming, config, layer, p // m)
    read = {f"{module}{kind}" for module in naming.modules.values() for kind in ("weight", "bias")}
    own = {name.removeprefix(stem) for name in files if name.startswith(stem + naming.scope)}
    if unread := sorted(own - read - naming.known):
        beyond.append(f"Of the layer's tensors these were not used: {', '.join(unread):.200}.")
    imported = convert_projections(projections, heads=m, scale=scale, biases=biases, coordinates=coordinates)
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


@dataclass(frozen=True, eq=False)
class _Naming:
    """The names and the layout of the tensors of a layer, in one family of models.

    `models` are the model types that are known to have the attention of the family. `modules` maps a role to the start
    of its tensors' names after ``layers.N.``; "fused" is query, key and value in one. All tensors of attention begin
    with `scope`; those in `known` may stay unread without a note. Weights are A^T if `transposed`. `norm` says whether
    the layer norm is before the layer or after it.
    """

    name: str
    models: Collection[str]
    layers: str
    modules: Mapping[str, str]
    scope: str = "attention."
    known: frozenset[str] = frozenset()
    transposed: bool = False
    causal: bool = False
    norm: str = "after"


def _separate(*modules: str) -> dict[str, str]:
    return dict(zip(("query", "key", "value", "output"), modules, strict=True))


def _norm(name: str) -> frozenset[str]:
    return frozenset(f"{name}.{one}" for one in ("weight", "bias", "gamma", "beta"))


_NAMINGS = (
    _Naming(
        "BERT",
        ("bert", "roberta", "xlm-roberta", "camembert", "electra"),
        "layer",
        _separate(
            *(f"attention.self.{one}." for one in ("query", "key", "value")), "attention.output.dense."
        ),
        known=_norm("attention.output.LayerNorm"),
    ),
    _Naming(
        "DistilBERT",
        ("distilbert",),
        "layer",
        _separate(*(f"attention.{one}_lin." for one in ("q", "k", "v", "out"))),
    ),
    _Naming(
        "ALBERT",
        ("albert",),
        "albert_layers",
        _separate(*(f"attention.{one}." for one in ("query", "key", "value", "dense"))),
        known=_norm("attention.LayerNorm"),
    ),
    _Naming(
        "ViT",
        ("vit", "deit"),
        "layer",
        _separate(
            *(f"attention.attention.{one}." for one in ("query", "key", "value")), "attention.output.dense."
        ),
        norm="before",
    ),
    _Naming(
        "GPT-2",
        ("gpt2",),
        "h",
        {"fused": "attn.c_attn.", "output": "attn.c_proj."},
        scope="attn.",
        known=frozenset({"attn.bias", "attn.masked_bias"}),  # the causal mask, which the notes name
        transposed=True,
        causal=True,
        norm="before",
    ),
    _Naming(
        "PyTorch",
        (),
        "layers",
        {"fused": "self_attn.in_proj_", "output": "self_attn.out_proj."},
        scope="self_attn.",
    ),
)
_KNOWN = ", ".join(naming.name for naming in _NAMINGS[:-1]) + f" or {_NAMINGS[-1].name}"

_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_EXPORT = "export it with safetensors.torch.save_file, or in transformers with save_pretrained(safe_serialization=True)"


def _locate(path: Path) -> tuple[Path, dict[str, Path]]:
    """The file or index to read, and the file of every tensor."""
    if os.path.isdir(path):
        path = _in_folder(path)
    if path.name.lower().endswith(_PICKLES) and os.path.exists(path):
        raise wrong(path, f"a PyTorch pickle is never opened, as it may run code; {_EXPORT}")
    if not path.name.endswith(".index.json"):
        return path, dict.fromkeys(tensor_names(path), path)
    weight_map = read_json(path, "index").get("weight_map")
    if not isinstance(weight_map, dict) or not all(
        isinstance(part, str) and os.path.basename(part) == part not in ("", ".", "..")
        for part in weight_map.values()
    ):
        raise wrong(path, "the index has no weight_map from names of tensors to names of files beside it")
    return path, {name: path.parent / part for name, part in weight_map.items()}


def _in_folder(folder: Path) -> Path:
    for name in (_SINGLE, _INDEX):
        if (folder / name).exists():
            return folder / name
    files = sorted(one.name for one in folder.iterdir())
    tensors = [name for name in files if name.endswith(".safetensors")]
    if len(tensors) == 1:
        return folder / tensors[0]
    if tensors:
        raise wrong(folder, f"the folder holds {', '.join(tensors):.300}; give one of them")
    pickles = any(name.lower().endswith(_PICKLES) for name in files)
    never = f", and a pickle is never opened; {_EXPORT}" if pickles else ""
    raise wrong(folder, f"the folder holds no {_SINGLE}{never}")


def _choose(shown: Path, files: Collection[str], prefix: str | None) -> tuple[_Naming, str, set[int]]:
    """The naming and the full prefix of the model, and the numbers of its layers."""
    found: dict[tuple[_Naming, str], set[int]] = defaultdict(set)
    for naming in _NAMINGS:
        # families may share the name of the output map
        modules = "|".join(re.escape(one) for role, one in naming.modules.items() if role != "output")
        pattern = re.compile(rf"((?:.*\.)?){naming.layers}\.(0|[1-9]\d{{0,5}})\.(?:{modules})weight")
        for name in files:
            if match := pattern.fullmatch(name):
                found[naming, match[1]].add(int(match[2]))
    if not found:
        some = ", ".join(repr(name) for name in sorted(files)[:3]) or "none"
        rotated = any(".q_proj." in name for name in files)
        why = "; models with a q_proj may rotate queries and keys by position or share keys, which no layer here does"
        raise wrong(
            shown,
            f"there is no attention layer named as in {_KNOWN}; names of tensors there: {some:.300}{why * rotated}",
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


def _ranges(numbers: set[int]) -> str:
    ordered = sorted(numbers)
    if len(ordered) > 1 and ordered == list(range(ordered[0], ordered[-1] + 1)):
        return f"layers {ordered[0]} to {ordered[-1]}"
    return f"layers {', '.join(map(str, ordered)):.200}"


def _read_projections(shown: Path, naming: _Naming, files: Mapping[str, Path], stem: str) -> Projections:
    """The four maps from the tensors of each module, with biases if there are any."""

    def read(module: str, kind: str) -> np.ndarray | None:
        name = f"{stem}{module}{kind}"
        if name not in files:
            if kind == "weight":
                raise wrong(shown, f"the tensor {name!r:.200} is missing")
            return None
        array = read_safetensors(files[name], [name], bfloat16=True)[0][name]
        if array.dtype.kind != "f":
            raise wrong(files[name], f"tensor {name!r:.200} has dtype {array.dtype}; floats are needed")
        return array

    maps: dict[str, Any] = {role: read(module, "weight") for role, module in naming.modules.items()}
    maps |= {f"{role}_bias": read(module, "bias") for role, module in naming.modules.items()}

    def made() -> Projections:
        weights = {role: maps[role].T if naming.transposed else maps[role] for role in naming.modules}
        if "fused" not in naming.modules:
            return Projections(**maps)
        biases = [None] * 3 if maps["fused_bias"] is None else np.split(maps["fused_bias"], 3)
        given: list[Any] = [*np.split(weights["fused"], 3), weights["output"], *biases, maps["output_bias"]]
        return Projections(*given)

    first = f"{stem}{next(iter(naming.modules.values()))}weight"
    shapes = "(d, 3 p) and (p, d)" if naming.transposed else "(p, d) and (d, p)"
    return guarded(shown, f"{first!r:.200} and the tensors beside it have no shapes {shapes}", made)


class _Config(msgspec.Struct):
    """The values that are read from the ``config.json`` beside a checkpoint; None if the file lacks one."""

    num_attention_heads: Annotated[int, msgspec.Meta(ge=1)] | None = None
    n_head: Annotated[int, msgspec.Meta(ge=1)] | None = None
    n_heads: Annotated[int, msgspec.Meta(ge=1)] | None = None
    is_decoder: bool | None = None
    scale_attn_weights: bool | None = None
    scale_attn_by_inverse_layer_idx: bool | None = None
    position_embedding_type: Any = None
    model_type: Any = None


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
        return heads, [f"{heads} heads were asked for, where config.json says {name} = {named}."]
    if named is None:
        told = "does not tell" if config else "would tell, and is not there,"
        raise ValueError(f"{path} {told} how many heads the layer has: give heads (--heads).")
    if d % named or p % (d // named):
        raise wrong(
            path,
            f"{name} is {named}, which does not divide a query map of {p} rows and {d} columns into heads",
        )
    left = p * named // d
    pruned = f"Of the {named} heads in config.json {left} are there: the others were pruned."
    return left, [pruned] if p != d else []


def _beyond(naming: _Naming, found: _Config | None, number: int, h: int) -> tuple[float, list[str]]:
    """The factor of the logits, and notes on what the model computes and the layer does not."""
    config = found or _Config()
    scale = 1 / math.sqrt(h)
    notes = [
        f"The residual connection around the layer and the layer norm {naming.norm} it are no part of it."
    ]
    if naming.causal or config.is_decoder:
        notes.append(
            "The model's causal mask is left out: here every token attends to all tokens, not only to earlier ones."
        )
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
