"""How families of models name the tensors of their attention layers, and what they compute beyond the layer."""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

_NEVER, _ALWAYS = r"(?!)", r".*"
# old fairseq calls the encoder of RoBERTa decoder.sentence_encoder
_DECODER = r"(?:.*\.)?decoder\.(?!sentence_encoder).*"


@dataclass(frozen=True, eq=False)
class Naming:
    """The names and the layout of the tensors of a layer, in one family of models.

    A layer's tensors are named ``PREFIX LAYERS.N.MODULE``, with `layers` before the number; without `layers`, as in
    ``PREFIX N.INNER.MODULE``, the names between are free, and the number may be absent. `modules` maps a role to the
    start of its tensors' names; "fused" is query, key and value in one, which may be given beside the three. All
    tensors of attention begin with `scope`; those in `known` do not change what the layer computes. `norm` says whether
    the layer norm is before the layer or after it; None if it is not known.

    `models` maps the model types (patterns) that compute plain softmax attention with these names to a pattern of the
    prefixes whose layers have a causal mask. It is empty for names that models of all types use. `causal` is that
    pattern for a model whose type is not given. `rotates` says that models with these names usually rotate queries and
    keys by position.
    """

    name: str
    models: Mapping[str, str]
    layers: str | None
    modules: Mapping[str, str]
    scope: str = "attention."
    known: frozenset[str] = frozenset()
    causal: str = _NEVER
    norm: str | None = "after"
    rotates: bool = False

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
        return self.models or {model: self.causal for naming in NAMINGS for model in naming.models}

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


def _separate(*modules: str) -> dict[str, str]:
    return dict(zip(("query", "key", "value", "output"), modules, strict=True))


def _norm(name: str) -> frozenset[str]:
    return frozenset(f"{name}.{one}" for one in ("weight", "bias", "gamma", "beta"))


def _models(causal: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), causal)


_TORCH = {"fused": "in_proj_", "output": "out_proj."} | {
    one: f"{one[0]}_proj_" for one in ("query", "key", "value")
}

NAMINGS = (
    Naming(
        "BERT",
        _models(
            _NEVER,
            "bert roberta xlm-roberta camembert electra data2vec-text ernie bert-generation",
        ),
        "layer",
        _separate(
            *(f"attention.self.{one}." for one in ("query", "key", "value")), "attention.output.dense."
        ),
        known=_norm("attention.output.LayerNorm"),
    ),
    Naming(
        "DistilBERT",
        _models(_NEVER, "distilbert"),
        "layer",
        _separate(*(f"attention.{one}_lin." for one in ("q", "k", "v", "out"))),
    ),
    Naming(
        "ALBERT",
        _models(_NEVER, "albert"),
        "albert_layers",
        _separate(*(f"attention.{one}." for one in ("query", "key", "value", "dense"))),
        known=_norm("attention.LayerNorm"),
    ),
    Naming(
        "ViT",
        _models(_NEVER, "vit deit vit_mae vit_msn ijepa dinov2 audio-spectrogram-transformer"),
        "layer",
        _separate(
            *(f"attention.attention.{one}." for one in ("query", "key", "value")), "attention.output.dense."
        ),
        norm="before",
    ),
    Naming(
        "timm",
        _models(
            _NEVER,
            r"(vit|deit)_(tiny|small|base|large|huge)(_distilled)?_patch\d+(_reg4|_clip|_siglip)?(_dinov2)?(_\d+)?",
        ),
        "blocks",
        {"fused": "attn.qkv.", "output": "attn.proj."},
        scope="attn.",
        norm="before",
    ),
    Naming(
        "GPT-2",
        _models(_ALWAYS, "gpt2 imagegpt"),
        "h",
        {"fused": "attn.c_attn.", "output": "attn.c_proj."},
        scope="attn.",
        known=frozenset({"attn.bias", "attn.masked_bias"}),  # the causal mask, which the notes name
        causal=_ALWAYS,
        norm="before",
    ),
    Naming(
        "Llama",
        {},
        "layers",
        _separate(*(f"self_attn.{one}_proj." for one in "qkvo")),
        scope="self_attn.",
        causal=_ALWAYS,
        norm="before",
        rotates=True,
    ),
    Naming(
        "BART",
        _models(_DECODER, "bart mbart marian pegasus m2m_100 blenderbot(-small)? plbart whisper opt")
        | _models(_NEVER, "clip_vision_model siglip(_text_model|_vision_model)?")
        | _models(_ALWAYS, "clip_text_model biogpt")
        | {"clip": r"(?:.*\.)?text_model\..*"},
        "layers",
        _separate(*(f"self_attn.{one}_proj." for one in ("q", "k", "v", "out"))),
        scope="self_attn.",
        causal=_DECODER,
        norm=None,
    ),
    Naming(
        "OpenAI's Whisper",
        _models(_DECODER, "whisper"),
        "blocks",
        _separate(*(f"attn.{one}." for one in ("query", "key", "value", "out"))),
        scope="attn.",
        causal=_DECODER,
        norm="before",
    ),
    Naming(
        "PyTorch",
        {},
        "layers",
        {role: f"self_attn.{module}" for role, module in _TORCH.items()},
        scope="self_attn.",
        causal=_DECODER,
    ),
    Naming("MultiheadAttention", {}, None, _TORCH, scope="", norm=None),
)
"""In the order in which they are tried: the last one takes any ``torch.nn.MultiheadAttention`` that is left."""
