"""Read whole transformer blocks from checkpoints: attention, norms and network, as the model computes them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, get_args

import numpy as np
from jaxtyping import Float

from attention.block import Block
from attention.checkpoints import StoredAttention, read_attention, read_floats
from attention.conversion import Projections, convert_projections
from attention.feed_forward import Activation, FeedForward
from attention.foreign import guarded, wrong
from attention.layer import causal_mask, softmax
from attention.norm import Norm
from attention.validation import NonNegativeInt, PositiveInt, checked

__all__ = ["StoredBlock", "read_checkpoint_block"]


@dataclass(frozen=True, eq=False)
class StoredBlock:
    """A block of a trained model; calling it computes what the model does, from the maps as they are stored.

    No product of two stored matrices is formed, so that this is another way to the outputs than that of `block`.
    """

    projections: Projections
    heads: int
    scale: float  #: of the logits
    causal: bool
    norms: tuple[Norm, Norm]
    network: FeedForward
    norm_first: bool  #: whether the norms stand before attention and network, or behind the sums
    notes: tuple[str, ...] = ()

    @property
    def dim(self) -> int:
        """The number d of coordinates of a token."""
        return self.network.dim

    @property
    def head_dim(self) -> int:
        """The dimension of a head, which bounds the rank of its Theta and W."""
        return len(self.projections.query) // self.heads

    def __call__(self, x: Float[np.ndarray, "*batch k d"]) -> Float[np.ndarray, "*batch k d"]:
        """The outputs on the token matrices `x`."""
        network = replace(self.network, residual=False)
        first, second = self.norms
        if self.norm_first:
            z = x + self._attended(first(x))
            return z + network(second(z))
        z = first(x + self._attended(x))
        return second(z + network(z))

    def _attended(self, x: Any) -> Any:
        maps = self.projections
        query, key, value = (
            (x @ weight.T + bias).reshape(*x.shape[:-1], self.heads, -1).swapaxes(-2, -3)
            for weight, bias in (
                (maps.query, maps.query_bias),
                (maps.key, maps.key_bias),
                (maps.value, maps.value_bias),
            )
        )
        logits = self.scale * query @ key.swapaxes(-1, -2)
        if self.causal:
            logits = logits + causal_mask(logits.shape[-1], logits, np)
        mixed = softmax(logits, np) @ value
        return mixed.swapaxes(-2, -3).reshape(*x.shape[:-1], -1) @ maps.output.T + maps.output_bias

    @cached_property
    def block(self) -> Block:
        """The block that computes the same, with heads as Theta_i and W_i."""
        layer = convert_projections(
            self.projections, heads=self.heads, scale=self.scale, causal=self.causal
        ).layer
        return Block(layer, self.network, norms=self.norms, norm_first=self.norm_first)


@checked
def read_checkpoint_block(
    path: str | os.PathLike[str],
    *,
    layer: NonNegativeInt,
    heads: PositiveInt | None = None,
    prefix: str | None = None,
) -> StoredBlock:
    """Read one transformer block of a model from a checkpoint; parameters as of `read_checkpoint_layer`.

    Raises
    ------
    FileFormatError
        As `read_checkpoint_layer`, or if a tensor of the norms or of the network is missing, or the block has others.
    ValueError
        As `read_checkpoint_layer`.

    Notes
    -----
    The names known are those of BERT, DistilBERT, ALBERT, ViT, timm, GPT-2, nanoGPT and
    ``torch.nn.TransformerEncoderLayer``. The activation and eps are those of the config, and for modules of PyTorch it
    may say ``norm_first``. Where it is silent, the defaults of the family are taken, and a note says so.
    """
    stored = read_attention(path, layer=layer, heads=heads, prefix=prefix)
    # a module of PyTorch that is no layer of a stack has no number in its names
    alone = stored.naming.name == "MultiheadAttention" and stored.stem.endswith("self_attn.")
    family = "PyTorch" if alone else stored.naming.name
    stem = stored.stem.removesuffix("self_attn.") if alone else stored.stem
    if (names := _BLOCKS.get(family)) is None:
        raise wrong(
            stored.path,
            f"the layers have {family}'s names, and whole blocks are known of {', '.join(_BLOCKS)} only",
        )
    scope = "self_attn." if alone else stored.naming.scope
    arrays = _read_arrays(stored, stem, scope, names)
    settings, notes = _settings(stored, names)

    def built() -> StoredBlock:
        first, second = names.linear
        network = FeedForward(
            arrays[f"{first}weight"].T,
            arrays[f"{first}bias"],
            arrays[f"{second}weight"].T,
            arrays[f"{second}bias"],
            settings.activation,
        )
        before, behind = (
            Norm(arrays[f"{at}weight"], arrays[f"{at}bias"], settings.eps) for at in names.norms
        )
        if {before.dim, behind.dim, network.dim} != {stored.projections.query.shape[1]}:
            raise ValueError("its parts have tokens of different dimensions")
        return StoredBlock(
            stored.projections,
            stored.heads,
            stored.scale,
            stored.causal,
            (before, behind),
            network,
            settings.norm_first,
            (*stored.notes, *notes),
        )

    return guarded(stored.path, f"the tensors of {stem!r:.200} make no block", built)


@dataclass(frozen=True)
class _Settings:
    """What no tensor says of a block."""

    norm_first: bool
    activation: Activation
    eps: float


@dataclass(frozen=True)
class _Names:
    """How tensors of the two norms and of the two maps begin, and what the family does by default."""

    norms: tuple[str, str]
    linear: tuple[str, str]
    defaults: _Settings


_DENSE = ("intermediate.dense.", "output.dense.")
_BLOCKS: Mapping[str, _Names] = {
    "BERT": _Names(
        ("attention.output.LayerNorm.", "output.LayerNorm."), _DENSE, _Settings(False, "gelu", 1e-12)
    ),
    "DistilBERT": _Names(
        ("sa_layer_norm.", "output_layer_norm."),
        ("ffn.lin1.", "ffn.lin2."),
        _Settings(False, "gelu", 1e-12),
    ),
    "ALBERT": _Names(
        ("attention.LayerNorm.", "full_layer_layer_norm."),
        ("ffn.", "ffn_output."),
        _Settings(False, "gelu_tanh", 1e-12),
    ),
    "ViT": _Names(("layernorm_before.", "layernorm_after."), _DENSE, _Settings(True, "gelu", 1e-12)),
    "timm": _Names(("norm1.", "norm2."), ("mlp.fc1.", "mlp.fc2."), _Settings(True, "gelu", 1e-6)),
    "GPT-2": _Names(("ln_1.", "ln_2."), ("mlp.c_fc.", "mlp.c_proj."), _Settings(True, "gelu_tanh", 1e-5)),
    "PyTorch": _Names(("norm1.", "norm2."), ("linear1.", "linear2."), _Settings(False, "relu", 1e-5)),
}
_ACTIVATIONS: Mapping[str, Activation] = {
    **{name: name for name in get_args(Activation)},
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python": "gelu",
}
_ACTIVATION_KEYS = ("hidden_act", "activation_function", "activation", "hidden_activation")
_EPS_KEYS = ("layer_norm_eps", "layer_norm_epsilon", "layernorm_eps", "norm_eps")


def _read_arrays(stored: StoredAttention, stem: str, scope: str, names: _Names) -> dict[str, Any]:
    """The tensors of norms and maps, weights with outputs as rows; absent biases are zero."""
    shown, tensors = stored.path, stored.tensors
    own = {name.removeprefix(stem) for name in tensors if name.startswith(stem)}
    parts = {
        f"{start}{kind}": start for start in (*names.norms, *names.linear) for kind in ("weight", "bias")
    }
    if other := sorted(name for name in own - parts.keys() if not name.startswith(scope)):
        raise wrong(shown, f"the block has {stem + other[0]!r:.200}, and what it does is not known here")
    arrays: dict[str, Any] = {}
    for name, start in parts.items():
        weight = name.endswith("weight")
        if name not in own:
            if weight:
                raise wrong(shown, f"the layer is no whole block: the tensor {stem + name!r:.200} is missing")
            arrays[name] = np.zeros(len(arrays[f"{start}weight"]))
            continue
        axes = 2 if weight and start in names.linear else 1
        array, _ = read_floats(shown, tensors, stem, stem + name, axes)
        arrays[name] = array.T if axes == 2 and stored.transposed else array
    return {name: array.astype(np.float64) for name, array in arrays.items()}


def _settings(stored: StoredAttention, names: _Names) -> tuple[_Settings, list[str]]:
    """The order of the norms, the activation and eps, from the config or else by default; notes on the latter."""
    config, defaults = stored.config, names.defaults
    values = config.values
    if stored.naming.name == "GPT-2" and not stored.transposed:  # nanoGPT
        defaults = replace(defaults, activation="gelu")
    named = next((values[key] for key in _ACTIVATION_KEYS if values.get(key) is not None), None)
    activation = defaults.activation if named is None else _ACTIVATIONS.get(str(named).lower())
    if activation is None:
        raise wrong(config.path, f"the activation is {named!r:.60}; {', '.join(_ACTIVATIONS)} are known")
    eps = next((values[key] for key in _EPS_KEYS if values.get(key) is not None), None)
    if eps is not None and (isinstance(eps, bool) or not isinstance(eps, int | float) or not 0 <= eps < 1):
        raise wrong(config.path, f"the eps of the norms is {eps!r:.40}: a number from 0 to 1 is needed")
    open_order = names is _BLOCKS["PyTorch"]
    norm_first = config.flag("norm_first") if open_order else None
    settings = _Settings(
        defaults.norm_first if norm_first is None else norm_first,
        activation,
        defaults.eps if eps is None else float(eps),
    )
    assumed = [f"activation {activation}"] if named is None else []
    assumed += [f"eps {settings.eps:g}"] if eps is None else []
    assumed += [f"norm_first {settings.norm_first}".lower()] if open_order and norm_first is None else []
    note = f"{config.path.name} does not say all of the block. Assumed: {', '.join(assumed)}."
    return settings, [note] if assumed else []
