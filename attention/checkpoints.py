"""One attention layer out of a model's safetensors checkpoint, with the tensor names of BERT or of GPT-2."""

import math
import os
import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from attention._containers import read_json, read_safetensors, tensor_names, wrong
from attention.conversion import ImportedLayer, convert_projections
from attention.projections import Biases, Projections
from attention.validation import NonNegativeInt, PositiveInt, as_path, checked

__all__ = ["read_checkpoint_layer"]


@checked
def read_checkpoint_layer(
    path: str | os.PathLike[str],
    *,
    layer: NonNegativeInt,
    heads: PositiveInt | None = None,
    prefix: str | None = None,
    biases: Biases = "dropped",
    coordinates: int | None = None,
) -> ImportedLayer:
    """Read one attention layer of a model from a safetensors checkpoint.

    Parameters
    ----------
    path : path
        The file, its index (``model.safetensors.index.json``) where it is in several parts, or the folder of either.
    layer : int
        The number of the layer, from 0.
    heads : int, optional
        The number m of heads; that of the ``config.json`` beside the file if None. Where both are there and differ,
        this one is used, and a note says so.
    prefix : str, optional
        What stands before the layers' names, or how it begins; needed where the file holds several models.
    biases, coordinates
        As for `attention.projections.layer_parameters`.

    Raises
    ------
    FileFormatError
        If a file is missing or damaged, is no safetensors file, or a tensor is missing, misshapen or not finite.
    ValueError
        If there is no such layer or prefix, or an argument is out of range.

    Notes
    -----
    Two namings are known. BERT's: ``layer.N.attention.self.query``, ``.key`` and ``.value``, and
    ``layer.N.attention.output.dense``, with weights A applied as x A^T + b. GPT-2's: ``h.N.attn.c_attn`` of shape
    (d, 3 p) and ``h.N.attn.c_proj`` of shape (p, d), applied as x A + b. Biases may be absent. Entries are float16,
    bfloat16, float32 or float64, and become float64.

    Logits are divided by sqrt(h), h the dimension of a head; for GPT-2, ``scale_attn_weights`` and
    ``scale_attn_by_inverse_layer_idx`` of the config are honoured. The config's number of heads tells h, so that
    layers some of whose heads were pruned are read too. What the model does around the layer (masks, position
    terms, layer norm) is no part of it, and the notes name it.

    Only headers and the tensors of the one layer are read. The layer takes 16 m d^2 bytes.

    References
    ----------
    The names, layouts and options are those of the Hugging Face implementations of BERT and GPT-2.
    """
    checkpoint = _locate(as_path(path))
    naming, prefix = _choose(checkpoint, prefix, layer)
    stem = f"{prefix}{naming.layers}.{layer}."
    tensors = _needed(checkpoint, naming, stem)
    arrays = checkpoint.read(tensors)
    p, d = _shape(checkpoint, naming, tensors, arrays)
    config = _config(checkpoint)
    m, notes = _heads(config, heads, p, d)
    scale, beyond = _beyond(naming, config, layer, p // m)
    unread = sorted(
        name.removeprefix(stem)
        for name in checkpoint.files
        if name.startswith(stem + naming.scope)
        and name not in tensors.values()
        and name.removeprefix(stem) not in naming.known
    )
    if unread:
        beyond.append(f"Of the layer's tensors these were not used: {', '.join(unread):.200}.")
    imported = convert_projections(
        _projections(naming, arrays),
        heads=m,
        scale=scale,
        biases=biases,
        coordinates=coordinates,
        notes=(*notes, *beyond),
    )
    return replace(imported, source=checkpoint.shown.name, naming=naming.name, prefix=prefix, number=layer)


@dataclass(frozen=True, eq=False)
class _Naming:
    """How a family of models names the tensors of a layer, and how it lays them out.

    `models` are the types whose attention is known to be that of the family. `modules` maps a role to what follows
    ``layers.N.``; all tensors of attention begin with `scope`, and `known` ones among them may go unread without a
    note. Fused: query, key and value are one weight, and weights are transposed.
    """

    name: str
    models: Collection[str]
    layers: str
    modules: Mapping[str, str]
    scope: str
    known: Collection[str]
    fused: bool


_NORM = "attention.output.LayerNorm"
_NAMINGS = (
    _Naming(
        name="BERT",
        models=("bert", "roberta", "xlm-roberta", "camembert", "electra"),
        layers="layer",
        modules={role: f"attention.self.{role}" for role in ("query", "key", "value")}
        | {"output": "attention.output.dense"},
        scope="attention.",
        known={f"{_NORM}.{one}" for one in ("weight", "bias", "gamma", "beta")},
        fused=False,
    ),
    _Naming(
        name="GPT-2",
        models=("gpt2",),
        layers="h",
        modules={"fused": "attn.c_attn", "output": "attn.c_proj"},
        scope="attn.",
        known={"attn.bias", "attn.masked_bias"},  # the causal mask, which the notes name
        fused=True,
    ),
)


@dataclass(frozen=True)
class _Checkpoint:
    """The file or index that was given, and the file of every tensor."""

    shown: Path
    files: Mapping[str, Path]

    def read(self, tensors: Mapping[str, str]) -> dict[str, np.ndarray]:
        """The arrays by role."""
        arrays: dict[str, np.ndarray] = {}
        for path in dict.fromkeys(self.files[name] for name in tensors.values()):
            here = [name for name in tensors.values() if self.files[name] == path]
            arrays |= read_safetensors(path, here, bfloat16=True)[0]
        for name, array in arrays.items():
            if array.dtype.kind != "f":
                raise wrong(
                    self.files[name], f"tensor {name!r:.200} has dtype {array.dtype}; floats are needed"
                )
        return {role: arrays[name] for role, name in tensors.items()}


_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"


def _locate(path: Path) -> _Checkpoint:
    if os.path.isdir(path):
        path = _in_folder(path)
    if path.name.lower().endswith(_PICKLES) and os.path.exists(path):
        raise wrong(path, f"a PyTorch pickle is never opened, as it may run code; {_EXPORT}")
    if not path.name.endswith(".index.json"):
        return _Checkpoint(path, dict.fromkeys(tensor_names(path), path))
    weight_map = read_json(path, "index").get("weight_map")
    if not isinstance(weight_map, dict) or not all(
        isinstance(part, str) and os.path.basename(part) == part not in ("", ".", "..")
        for part in weight_map.values()
    ):
        raise wrong(path, "the index has no weight_map from names of tensors to names of files beside it")
    return _Checkpoint(path, {name: path.parent / part for name, part in weight_map.items()})


_EXPORT = "export it with safetensors.torch.save_file, or in transformers with save_pretrained(safe_serialization=True)"


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
    raise wrong(
        folder,
        f"the folder holds no {_SINGLE}" + (f", and a pickle is never opened; {_EXPORT}" if pickles else ""),
    )


def _choose(checkpoint: _Checkpoint, prefix: str | None, number: int) -> tuple[_Naming, str]:
    """The naming and the whole prefix of the one model that has the layer."""
    found: dict[tuple[_Naming, str], set[int]] = defaultdict(set)
    for naming in _NAMINGS:
        modules = "|".join(re.escape(module) for module in naming.modules.values())
        pattern = re.compile(rf"((?:.*\.)?){naming.layers}\.(0|[1-9]\d{{0,5}})\.(?:{modules})\.weight")
        for name in checkpoint.files:
            if match := pattern.fullmatch(name):
                found[naming, match[1]].add(int(match[2]))
    if not found:
        some = ", ".join(repr(name) for name in sorted(checkpoint.files)[:3]) or "none"
        raise wrong(
            checkpoint.shown,
            f"there is no attention layer named as in BERT or GPT-2; names of tensors there: {some:.300}",
        )
    fitting = list(found)
    if prefix is not None:
        exact = [one for one in found if one[1] in (prefix, f"{prefix}.")]
        fitting = exact or [one for one in found if one[1].startswith(prefix)]
    if len(fitting) != 1:
        listed = "; ".join(
            f"{one[1]!r} ({one[0].name} naming, {_ranges(found[one])})" for one in fitting or list(found)
        )
        said = "several models fit" if fitting else f"no layers have the prefix {prefix!r}"
        raise ValueError(f"{checkpoint.shown}: {said}: give as prefix one of {listed}.")
    naming, whole = fitting[0]
    if number not in found[fitting[0]]:
        raise ValueError(
            f"{checkpoint.shown} has no layer {number} of attention: with the prefix {whole!r} there are "
            f"{_ranges(found[fitting[0]])}."
        )
    return naming, whole


def _ranges(numbers: set[int]) -> str:
    ordered = sorted(numbers)
    if len(ordered) == 1:
        return f"layer {ordered[0]}"
    if ordered == list(range(ordered[0], ordered[-1] + 1)):
        return f"layers {ordered[0]} to {ordered[-1]}"
    return f"layers {', '.join(map(str, ordered)):.200}"


def _needed(checkpoint: _Checkpoint, naming: _Naming, stem: str) -> dict[str, str]:
    """The names of the tensors to be read, by role; biases are read where there are any."""
    weights = {role: f"{stem}{module}.weight" for role, module in naming.modules.items()}
    for name in weights.values():
        if name not in checkpoint.files:
            raise wrong(checkpoint.shown, f"the tensor {name!r:.200} is missing")
    biases = {f"{role}_bias": f"{stem}{module}.bias" for role, module in naming.modules.items()}
    return weights | {role: name for role, name in biases.items() if name in checkpoint.files}


def _shape(
    checkpoint: _Checkpoint, naming: _Naming, tensors: Mapping[str, str], arrays: Mapping[str, np.ndarray]
) -> tuple[int, int]:
    """Rows p of the query map and coordinates d, every tensor held to them."""
    shapes = {role: array.shape for role, array in arrays.items()}
    first = "fused" if naming.fused else "query"
    given = shapes[first][::-1] if naming.fused else shapes[first]
    parts = 3 if naming.fused else 1
    if len(given) != 2 or 0 in given or given[0] % parts:
        wanted = "(d, 3 p)" if naming.fused else "(p, d)"
        raise wrong(
            checkpoint.shown, f"tensor {tensors[first]!r:.200} has shape {shapes[first]}; {wanted} is needed"
        )
    p, d = given[0] // parts, given[1]
    for role, shape in shapes.items():
        module = role.removesuffix("_bias")
        rows, columns = (d, p) if module == "output" else (given[0], d)
        weight = (columns, rows) if naming.fused else (rows, columns)
        needed = (rows,) if role != module else weight
        if shape != needed:
            raise wrong(
                checkpoint.shown, f"tensor {tensors[role]!r:.200} has shape {shape}; {needed} is needed"
            )
    return p, d


def _projections(naming: _Naming, arrays: Mapping[str, np.ndarray]) -> Projections:
    if not naming.fused:
        return Projections(**arrays)
    biases: list[Any] = np.split(arrays["fused_bias"], 3) if "fused_bias" in arrays else [None] * 3
    parts = zip(("query", "key", "value"), np.split(arrays["fused"].T, 3), biases, strict=True)
    maps = {name: (weight, bias) for name, weight, bias in parts}
    return Projections.of(maps | {"output": (arrays["output"].T, arrays.get("output_bias"))})


@dataclass(frozen=True)
class _Config:
    """The ``config.json`` beside a checkpoint; `values` is None where there is none."""

    path: Path
    values: Mapping[str, Any] | None

    def truth(self, name: str, default: bool) -> bool:
        value = (self.values or {}).get(name)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise wrong(self.path, f"{name} is {value!r:.50} where true or false is needed")
        return value

    def heads(self) -> tuple[str, int] | None:
        """What the number of heads is called there, and the number."""
        for name in ("num_attention_heads", "n_head"):
            value = (self.values or {}).get(name)
            if value is not None:
                if type(value) is not int or value < 1:
                    raise wrong(
                        self.path, f"{name} is {value!r:.50} where a whole number of at least 1 is needed"
                    )
                return name, value
        return None


def _config(checkpoint: _Checkpoint) -> _Config:
    path = checkpoint.shown.parent / "config.json"
    return _Config(path, read_json(path, "config") if path.exists() else None)


def _heads(config: _Config, heads: int | None, p: int, d: int) -> tuple[int, list[str]]:
    """How many heads the layer has, and notes on that."""
    named = config.heads()
    if heads is None and named is None:
        told = "does not tell" if config.values is not None else "would tell, and is not there,"
        raise ValueError(f"{config.path} {told} how many heads the layer has: give heads (--heads).")
    notes = []
    if heads is not None:
        if p % heads:
            raise ValueError(f"heads is {heads}: a divisor of {p}, the rows of the query map, is needed.")
        if named is not None and named[1] * p != heads * d:
            notes.append(f"{heads} heads were asked for, where config.json says {named[0]} = {named[1]}.")
        return heads, notes
    assert named is not None
    name, m = named
    if d % m or p % (d // m):
        raise wrong(
            config.path,
            f"{name} is {m}, which does not divide a query map of {p} rows and {d} columns into heads",
        )
    if p != d:
        notes.append(f"Of the {m} heads in config.json {p * m // d} are there: the others were pruned.")
    return p * m // d, notes


_CAUSAL = (
    "The model's causal mask is left out: here every token attends to all tokens, not only to earlier ones."
)


def _beyond(naming: _Naming, config: _Config, number: int, h: int) -> tuple[float, list[str]]:
    """The factor of the logits, and what the model does that the layer does not."""
    scale = 1 / math.sqrt(h)
    values = config.values or {}
    side = "before" if naming.fused else "after"
    notes = [f"The residual connection around the layer and the layer norm {side} it are no part of it."]
    if naming.fused or config.truth("is_decoder", False):
        notes.append(_CAUSAL)
    if naming.fused and not config.truth("scale_attn_weights", True):
        scale = 1.0
        notes.append("The logits are not divided by sqrt(h), as config.json says.")
    if naming.fused and config.truth("scale_attn_by_inverse_layer_idx", False):
        scale /= number + 1
        notes.append(
            f"The logits are divided by {number + 1}, the layer's number plus one, as config.json says."
        )
    if (positions := values.get("position_embedding_type", "absolute")) != "absolute":
        notes.append(f"The model's position terms in the logits ({positions!r:.40}) are left out.")
    if (kind := values.get("model_type")) not in (None, *naming.models):
        notes.append(
            f"The model is of type {kind!r:.40}: what it does otherwise than {naming.name} is not known here."
        )
    if config.values is None:
        notes.append("There is no config.json beside the file: what it might say is taken to be as usual.")
    return scale, notes
