"""What the config beside a checkpoint says of its attention: its class, heads, scale, and rotation by position."""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from attention.foreign import read_json, wrong
from attention.namings import Naming
from attention.rotary import rotary_frequencies
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
# keys that `read_rotation` reads
_OF_ROTATION = {"rope_theta", "rope_scaling", "rope_parameters", "rotary_emb_base"}
_OF_ROTATION |= {"rotary_pct", "partial_rotary_factor", "rotary_dim", "sliding_window"}
_OF_NORMS = re.compile(r"(?:.*[._])?(?:q|k|qk|query|key)_?(?:layer)?norm\..*")
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

    def other_logits(self, *, rotary: bool = False) -> str | None:
        """Why the logits are others than those of the class, or of rotary layers; None if nothing says so."""
        positions = self.values.get("position_embedding_type")
        known = _OF_ROTATION if rotary else set()
        keys = [
            name
            for name, value in self.values.items()
            if value and name not in known and _OTHER_LOGITS.fullmatch(name)
        ]
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

    def number(self, values: Mapping[str, Any], name: str) -> float:
        """The positive number of this name, among values that the config has."""
        number = values.get(name)
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number < math.inf:
            raise wrong(self.path, f"{name} is {number!r:.40}: a positive number is needed")
        return float(number)

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


def require_known(shown: Path, naming: Naming, config: Config, names: Collection[str], stem: str) -> bool:
    """Refuse a layer that computes something else from the same tensors; whether it has a causal mask."""
    own = sorted(name.removeprefix(stem) for name in names if name.startswith(stem + naming.scope))
    if norms := [name for name in own if _OF_NORMS.fullmatch(name)]:
        raise wrong(
            shown,
            f"the layer has {norms[0]!r}: queries and keys are normalised before their products, which is another "
            "layer than those known here",
        )
    rotary = rotates(naming, config)
    if why := config.other_logits(rotary=rotary):
        raise wrong(shown, why)
    if "auto_map" in config.values:
        raise wrong(
            shown, "by config.json (auto_map), the model runs code of its own, which is not known here"
        )
    if rotary and config.model_type is None:
        raise wrong(
            shown,
            f"in models with {naming.name}'s names, as far as config.json does not say otherwise, queries and keys are "
            f"rotated by position: a config with a model_type ({' or '.join(naming.models)}) says how",
        )
    if (causal := naming.causal_for(config.model_type, config.prefix)) is None:
        raise wrong(
            shown,
            f"by {config.path.name}, the model is of type {config.model_type!r:.60}, and layers with these names are "
            f"known of {', '.join(naming.types)} only; {RENAME}",
        )
    for name in sorted(names):
        if rotary and name.endswith(".inv_freq"):
            continue
        match = _OF_POSITIONS.match(name)
        if match and (stem.startswith(match[1]) or match[1].startswith(stem)):
            raise wrong(shown, f"by the tensor {name!r:.200}, {_OTHER}")
    read = {f"{module}{kind}" for module in naming.modules.values() for kind in ("weight", "bias")}
    for name in own:
        if name not in read and not re.fullmatch(naming.known, name.removeprefix(naming.scope)):
            raise wrong(
                shown, f"the layer has {name!r:.200}, and what it does to the attention is not known here"
            )
    return causal or bool(config.flag("is_decoder"))


def rotates(naming: Naming, config: Config) -> bool:
    """Whether a layer with these names rotates queries and keys."""
    plain = config.values.get("use_rope") is False or config.values.get("position_embedding_type") is not None
    return naming.rotation is not None and not plain


@dataclass(frozen=True, eq=False)
class Rotation:
    """The rotation of the queries and keys of a head by position."""

    frequencies: Float[np.ndarray, " f"]  #: radians a position of each plane, 0 of those that are not rotated
    places: Int[np.ndarray, " p"]  #: the coordinate of the model at each one of `attention.RotaryLayer`
    notes: tuple[str, ...] = ()


def read_rotation(naming: Naming, config: Config, h: int) -> Rotation:
    """The rotation of heads of dimension h; windows and scalings that are not known are refused."""
    values, path, notes = config.values, config.path, []
    window, longest = values.get("sliding_window"), values.get("max_position_embeddings")
    cuts = bool(window) and values.get("use_sliding_window") is not False
    if cuts and (not longest or config.number(values, "sliding_window") < longest):
        raise wrong(
            path,
            f"sliding_window = {window!r:.40} cuts the context: a token attends to the last ones only, which is "
            "another layer than those known here",
        )
    scaling = values.get("rope_parameters") or values.get("rope_scaling") or {}
    if not isinstance(scaling, dict) or any(isinstance(value, dict) for value in scaling.values()):
        raise wrong(path, f"the scaling of the frequencies is {scaling!r:.80}: one for all layers is needed")
    given = {name: value for name, value in (*values.items(), *scaling.items()) if value is not None}

    def number(names: tuple[str, ...], usual: float) -> float:
        for name in names:
            if name in given:
                return config.number(given, name)
        notes.append(f"{path.name} gives no {names[0]}: {usual:g} is taken, the family's default.")
        return usual

    family = naming.name
    base = 10000.0 if family == "GPT-J" else number(("rope_theta", "rotary_emb_base"), 10000.0)
    if family == "GPT-J":
        rotated = int(number(("rotary_dim",), 64))
    elif family == "GPT-NeoX":
        rotated = int(h * number(("rotary_pct", "partial_rotary_factor"), 0.25))
    else:
        rotated = int(h * config.number({"partial_rotary_factor": 1.0} | given, "partial_rotary_factor"))
    if h % 2 or rotated % 2 or not 0 < rotated <= h:
        raise wrong(
            path,
            f"{rotated} of {h} coordinates of a head are rotated: even numbers are needed, from 2 to all",
        )
    both, rest = np.arange(rotated), np.split(np.arange(rotated, h), 2)
    first, second = np.split(both, 2) if naming.rotation == "halves" else (both[::2], both[1::2])
    part = "" if rotated == h else f", {rotated} of {h} coordinates of a head"
    return Rotation(
        np.concatenate([_scaled(config, rotary_frequencies(rotated, base), scaling), np.zeros(len(rest[0]))]),
        np.concatenate([first, rest[0], second, rest[1]]),
        (f"Queries and keys are rotated by position, base {base:g}{part}.", *notes),
    )


def _scaled(config: Config, omega: np.ndarray, scaling: Mapping[str, Any]) -> np.ndarray:
    """The frequencies for contexts that were made longer, as in the implementations of Hugging Face."""
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    if kind == "default":
        return omega
    if kind == "linear":
        return omega / config.number(scaling, "factor")
    if kind != "llama3":
        raise wrong(
            config.path,
            f"the frequencies are scaled by the rule {kind!r:.40}: default, linear and llama3 are known",
        )
    names = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    factor, low, high, longest = (config.number(scaling, name) for name in names)
    turns = longest * omega / (2 * np.pi)  # in the context of the first training
    share = np.clip((turns - low) / (high - low), 0, 1)
    return (1 - share) * omega / factor + share * omega


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


def expand_groups(shown: Path, config: Config, maps: dict[str, Any], m: int) -> int:
    """Repeat the keys and values that groups of heads share; the number of groups."""
    p, rows = len(maps["query"]), len(maps["key"])
    h = p // m
    named = config.count("num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_head_kv")
    groups = rows // h if rows % h == 0 else 0
    if not groups or m % groups or len(maps["value"]) != rows or (named and named[1] != groups):
        counts = f"{p} rows of queries, {rows} of keys and {len(maps['value'])} of values"
        said = f", and {config.path.name} says {named[0]} = {named[1]}" if named else ""
        raise wrong(shown, f"{counts} make no groups of {m} heads of dimension {h}{said}")
    for name in ("key", "value", "key_bias", "value_bias"):
        if name in maps and len(maps[name]) == rows:
            grouped = maps[name].reshape(groups, h, *maps[name].shape[1:])
            maps[name] = np.repeat(grouped, m // groups, axis=0).reshape(p, *maps[name].shape[1:])
    return groups


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
