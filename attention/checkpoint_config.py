"""What the config beside a checkpoint says of its attention: is it of the class, how many heads has it, which scale?"""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attention.foreign import read_json, wrong
from attention.namings import Naming
from attention.torch_files import is_pickle, read_torch_settings

_OTHER = "its logits have terms of the positions, a scale or a window that no layer of this class has"
RENAME = (
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


@dataclass(frozen=True)
class Config:
    """What the ``config.json`` beside a checkpoint, or else the checkpoint, says of the model with a prefix."""

    path: Path
    prefix: str
    values: Mapping[str, Any]

    @classmethod
    def read(cls, checkpoint: Path, prefix: str) -> "Config":
        """The config of a checkpoint, for the part of the model with this prefix."""
        path = checkpoint.parent / "config.json"
        values = read_json(path, "config") if path.exists() else {}
        if not path.exists() and is_pickle(checkpoint) and (settings := read_torch_settings(checkpoint)):
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
        return f"by {self.path.name} ({keys[0]} = {self.values[keys[0]]!r:.60}), {_OTHER}"

    def flag(self, name: str) -> bool | None:
        """Whether this is true, if it is given."""
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


def require_plain(shown: Path, naming: Naming, config: Config, names: Collection[str], stem: str) -> bool:
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
        raise wrong(
            shown, f"in models with {naming.name}'s names, {unless}, queries and keys are rotated by position"
        )
    if (causal := naming.causal_for(config.model_type, config.prefix)) is None:
        raise wrong(
            shown,
            f"by {config.path.name}, the model is of type {config.model_type!r:.60}, and layers with these names are "
            f"known of {', '.join(naming.types)} only; {RENAME}",
        )
    for name in sorted(names):
        match = _OF_POSITIONS.match(name)
        if match and (stem.startswith(match[1]) or match[1].startswith(stem)):
            raise wrong(shown, f"by the tensor {name!r:.200}, {_OTHER}")
    own = sorted(name.removeprefix(stem) for name in names if name.startswith(stem + naming.scope))
    read = {f"{module}{kind}" for module in naming.modules.values() for kind in ("weight", "bias")}
    for name in own:
        if name not in read and not re.fullmatch(naming.known, name.removeprefix(naming.scope)):
            raise wrong(
                shown, f"the layer has {name!r:.200}, and what it does to the attention is not known here"
            )
    return causal or bool(config.flag("is_decoder"))


def head_count(config: Config, asked: int | None, p: int, d: int, *, known: bool) -> tuple[int, list[str]]:
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


def expand_groups(shown: Path, config: Config, maps: dict[str, Any], m: int) -> list[str]:
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


def logit_scale(
    naming: Naming, config: Config, number: int, h: int, *, causal: bool, known: bool
) -> tuple[float, list[str]]:
    """The factor of the logits, and notes on it, on a mask, and on what the model is assumed to compute."""
    scale, notes = 1 / math.sqrt(h), []
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
