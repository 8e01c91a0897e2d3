"""How families of models name the tensors of their attention layers, and what they compute beyond the layer."""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

_NEVER, _ALWAYS = r"(?!)", r".*"
# old fairseq calls the encoder of RoBERTa decoder.sentence_encoder
_DECODER = r"(?:.*\.)?decoder\.(?!sentence_encoder).*"
_ROLES = {2: ("fused", "output"), 4: ("query", "key", "value", "output")}
_ROLES[5] = ("fused", *_ROLES[4])


@dataclass(frozen=True, eq=False)
class Naming:
    """The names and the layout of the tensors of a layer, in one family of models.

    A layer's tensors are named ``PREFIX LAYERS.N.MODULE``, with `layers` before the number; without `layers`, as in
    ``PREFIX N.INNER.MODULE``, the names between are free, and the number may be absent. All tensors of attention begin
    with `scope`. `tensors` has the rest of their starts: those of queries, keys, values and outputs; or that of the
    first three in one and that of outputs; or all five, where the three are in one or apart. `known` is a pattern of
    other tensors, which do not change what the layer computes. `norm` says whether the layer norm is before the layer
    or after it; None if it is not known.

    `models` maps the model types (patterns) that compute plain softmax attention with these names to a pattern of the
    prefixes whose layers have a causal mask. It is empty for names that models of all types use. `causal` is that
    pattern for a model whose type is not given. `rotation` says that models with these names rotate queries and keys by
    position, and which coordinates of a head make a plane: f and f + r / 2 of the first r, or 2 f and 2 f + 1; `models`
    are then the types of which this is known. `by_head` says that the three maps in one are stacked head by head.
    """

    name: str
    layers: str | None
    scope: str
    tensors: tuple[str, ...]
    models: Mapping[str, str]
    known: str = _NEVER
    causal: str = _NEVER
    norm: str | None = "after"
    rotation: Literal["halves", "interleaved"] | None = None
    by_head: bool = False

    @cached_property
    def modules(self) -> dict[str, str]:
        """The start of the names of the tensors of each role; "fused" is query, key and value in one."""
        starts = [self.scope + start for start in self.tensors]
        return dict(zip(_ROLES[len(starts)], starts, strict=True))

    def place(self, tensor: str) -> tuple[str, int, str] | None:
        """The prefix, the number and the stem of the layer that a weight is of; None if it is of no such layer."""
        # families share names of output maps
        ends = "|".join(re.escape(module) for role, module in self.modules.items() if role != "output")
        if self.layers is not None:
            pattern = rf"((?:.*\.)?){self.layers}\.(0|[1-9]\d{{0,5}})\.(?:{ends})weight"
            match = re.fullmatch(pattern, tensor)
            return (match[1], int(match[2]), f"{match[1]}{self.layers}.{match[2]}.") if match else None
        match = re.fullmatch(rf"((?:.*\.)?)(?:{ends})weight", tensor)
        # in a decoder, these modules attend to the tokens of the encoder
        if match is None or re.fullmatch(r"(?:.*\.)?(multihead_attn|encoder_attn|cross_?att\w*)\.", match[1]):
            return None
        stem = match[1]
        for numbers in (r"((?:.*\.)?)", r"((?:.*[._])?)"):  # blocks.0.attn, or else encoder_layer_0.attention
            if numbered := re.fullmatch(rf"{numbers}(0|[1-9]\d{{0,5}})\.((?:[^.]*[^.\d][^.]*\.)*)", stem):
                return f"{numbered[1]}N.{numbered[3]}", int(numbered[2]), stem
        return stem, 0, stem

    @property
    def types(self) -> Mapping[str, str]:
        """The model types that may have these names, with their causal prefixes."""
        plain = (model for naming in NAMINGS if naming.rotation is None for model in naming.models)
        return self.models or dict.fromkeys(plain, self.causal)

    def causal_for(self, model: str | None, prefix: str) -> bool | None:
        """Whether the layers of a model type with this prefix have a causal mask; None if the type is not known."""
        if model is None:
            return re.fullmatch(self.causal, prefix) is not None
        patterns = [causal for known, causal in self.types.items() if re.fullmatch(known, model)]
        return re.fullmatch(patterns[0], prefix) is not None if patterns else None


def find_layers(tensors: Collection[str]) -> dict[tuple[Naming, str], dict[int, str]]:
    """The attention layers among names of tensors: for each naming and prefix, the stem of each number's tensors."""
    layers: dict[tuple[Naming, str], dict[int, str]] = defaultdict(dict)
    for tensor in tensors:
        places = [(naming, place) for naming in NAMINGS if (place := naming.place(tensor)) is not None]
        if places:
            # the first naming whose output map is there too, or else the first
            naming, (prefix, number, stem) = min(
                places, key=lambda at: f"{at[1][2]}{at[0].modules['output']}weight" not in tensors
            )
            layers[naming, prefix][number] = stem
    return dict(layers)


_WRAPPERS = {"_orig_mod", "module", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_forward_module"}
_WRAPPERS |= {"base_layer"}  # of an adapter


def unwrapped(name: str) -> str:
    """A name without the segments that torch.compile, data parallelism, FSDP, checkpointing and adapters put in."""
    return ".".join(segment for segment in name.split(".") if segment not in _WRAPPERS)


_QKV = ("query.", "key.", "value.")
_BERT = "bert|roberta|xlm-roberta|camembert|electra|data2vec-text|ernie|bert-generation"
_VIT = "vit|deit|vit_mae|vit_msn|ijepa|dinov2|audio-spectrogram-transformer"
_TIMM = (
    r"(vit|deit)_(tiny|small|base|large|huge)(_distilled)?_patch\d+(_reg4|_clip|_siglip)?(_dinov2)?(_\d+)?"
)
_TRANSLATES = "bart|mbart|marian|pegasus|m2m_100|blenderbot(-small)?|plbart|whisper|opt"
_BART = {
    _TRANSLATES: _DECODER,
    "clip_vision_model|siglip(_text_model|_vision_model)?": _NEVER,
    "clip_text_model|biogpt": _ALWAYS,
    "clip": r"(?:.*\.)?text_model\..*",
}
_FREQUENCIES = r"rotary_emb\.inv_freq"  # which follow from the config
_TORCH = ("in_proj_", "q_proj_", "k_proj_", "v_proj_", "out_proj.")

NAMINGS = (
    Naming(
        "BERT",
        "layer",
        "attention.",
        (*(f"self.{role}" for role in _QKV), "output.dense."),
        {_BERT: _NEVER},
        known=r"output\.LayerNorm\..*",
    ),
    Naming(
        "DistilBERT",
        "layer",
        "attention.",
        ("q_lin.", "k_lin.", "v_lin.", "out_lin."),
        {"distilbert": _NEVER},
    ),
    Naming(
        "ALBERT", "albert_layers", "attention.", (*_QKV, "dense."), {"albert": _NEVER}, known=r"LayerNorm\..*"
    ),
    Naming(
        "ViT",
        "layer",
        "attention.",
        (*(f"attention.{role}" for role in _QKV), "output.dense."),
        {_VIT: _NEVER},
        norm="before",
    ),
    Naming("timm", "blocks", "attn.", ("qkv.", "proj."), {_TIMM: _NEVER}, norm="before"),
    Naming(
        "GPT-2",
        "h",
        "attn.",
        ("c_attn.", "c_proj."),
        {"gpt2|imagegpt": _ALWAYS},
        known="(masked_)?bias",  # the causal mask, which the notes name
        causal=_ALWAYS,
        norm="before",
    ),
    Naming(
        "Llama",
        "layers",
        "self_attn.",
        ("q_proj.", "k_proj.", "v_proj.", "o_proj."),
        {"llama|mistral|qwen2": _ALWAYS},
        known=_FREQUENCIES,
        causal=_ALWAYS,
        norm="before",
        rotation="halves",
    ),
    Naming(
        "GPT-NeoX",
        "layers",
        "attention.",
        ("query_key_value.", "dense."),
        {"gpt_neox": _ALWAYS},
        known=f"(masked_)?bias|{_FREQUENCIES}",
        causal=_ALWAYS,
        norm="before",
        rotation="halves",
        by_head=True,
    ),
    Naming(
        "GPT-J",
        "h",
        "attn.",
        ("q_proj.", "k_proj.", "v_proj.", "out_proj."),
        {"gptj": _ALWAYS},
        known="(masked_)?bias",
        causal=_ALWAYS,
        norm="before",
        rotation="interleaved",
    ),
    Naming(
        "BART",
        "layers",
        "self_attn.",
        ("q_proj.", "k_proj.", "v_proj.", "out_proj."),
        _BART,
        causal=_DECODER,
        norm=None,
    ),
    Naming(
        "OpenAI's Whisper",
        "blocks",
        "attn.",
        (*_QKV, "out."),
        {"whisper": _DECODER},
        causal=_DECODER,
        norm="before",
    ),
    Naming("PyTorch", "layers", "self_attn.", _TORCH, {}, causal=_DECODER),
    Naming("MultiheadAttention", None, "", _TORCH, {}, norm=None),
)
"""In the order in which they are tried: the last one takes any ``torch.nn.MultiheadAttention`` that is left."""
