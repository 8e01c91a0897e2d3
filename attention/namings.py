"""How families of models name the tensors of their attention layers, and what they compute beyond the layer."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

__all__ = ["NAMINGS", "Naming", "find_layers"]


@dataclass(frozen=True, eq=False)
class Naming:
    """The names and the layout of the tensors of a layer, in one family of models.

    `models` are the model types that are known to have the attention of the family. A layer's tensors are named
    ``PREFIX LAYERS.N.MODULE``, with `layers` before the number; without `layers`, as in ``PREFIX N.INNER.MODULE``, the
    names between are free, and the number may be absent. `modules` maps a role to the start of its tensors' names;
    "fused" is query, key and value in one, which may be given beside the three. All tensors of attention begin with
    `scope`; those in `known` may stay unread without a note. Weights are A^T if `transposed`. `norm` says whether the
    layer norm is before the layer or after it; None if it is not known.
    """

    name: str
    models: Collection[str]
    layers: str | None
    modules: Mapping[str, str]
    scope: str = "attention."
    known: frozenset[str] = frozenset()
    transposed: bool = False
    causal: bool = False
    norm: str | None = "after"

    @property
    def inputs(self) -> list[str]:
        """The starts of the names of all modules but the output map, whose name families share."""
        return [module for role, module in self.modules.items() if role != "output"]

    def place(self, tensor: str) -> tuple[str, int, str] | None:
        """The prefix, the number and the stem of the layer that a weight is of; None if it is of no such layer."""
        ends = "|".join(map(re.escape, self.inputs))
        if self.layers is not None:
            pattern = rf"((?:.*\.)?){self.layers}\.(0|[1-9]\d{{0,5}})\.(?:{ends})weight"
            match = re.fullmatch(pattern, tensor)
            return (match[1], int(match[2]), f"{match[1]}{self.layers}.{match[2]}.") if match else None
        match = re.fullmatch(rf"((?:.*\.)?)(?:{ends})weight", tensor)
        # in a decoder, these modules attend to the tokens of the encoder
        if match is None or match[1].endswith("multihead_attn."):
            return None
        stem = match[1]
        for numbers in (r"((?:.*\.)?)", r"((?:.*[._])?)"):  # blocks.0.attn, or else encoder_layer_0.attention
            if numbered := re.fullmatch(rf"{numbers}(0|[1-9]\d{{0,5}})\.((?:[^.]*[^.\d][^.]*\.)*)", stem):
                return f"{numbered[1]}N.{numbered[3]}", int(numbered[2]), stem
        return stem, 0, stem


def find_layers(tensors: Iterable[str]) -> dict[tuple[Naming, str], dict[int, str]]:
    """The attention layers among names of tensors: for each naming and prefix, the stem of each number's tensors."""
    found: dict[tuple[Naming, str], dict[int, str]] = defaultdict(dict)
    for tensor in tensors:
        for naming in NAMINGS:
            if (place := naming.place(tensor)) is not None:
                prefix, number, stem = place
                found[naming, prefix][number] = stem
                break
    return dict(found)


def _separate(*modules: str) -> dict[str, str]:
    return dict(zip(("query", "key", "value", "output"), modules, strict=True))


def _norm(name: str) -> frozenset[str]:
    return frozenset(f"{name}.{one}" for one in ("weight", "bias", "gamma", "beta"))


_TORCH = {"fused": "in_proj_", "output": "out_proj."} | {
    one: f"{one[0]}_proj_" for one in ("query", "key", "value")
}

NAMINGS = (
    Naming(
        "BERT",
        ("bert", "roberta", "xlm-roberta", "camembert", "electra"),
        "layer",
        _separate(
            *(f"attention.self.{one}." for one in ("query", "key", "value")), "attention.output.dense."
        ),
        known=_norm("attention.output.LayerNorm"),
    ),
    Naming(
        "DistilBERT",
        ("distilbert",),
        "layer",
        _separate(*(f"attention.{one}_lin." for one in ("q", "k", "v", "out"))),
    ),
    Naming(
        "ALBERT",
        ("albert",),
        "albert_layers",
        _separate(*(f"attention.{one}." for one in ("query", "key", "value", "dense"))),
        known=_norm("attention.LayerNorm"),
    ),
    Naming(
        "ViT",
        ("vit", "deit"),
        "layer",
        _separate(
            *(f"attention.attention.{one}." for one in ("query", "key", "value")), "attention.output.dense."
        ),
        norm="before",
    ),
    Naming(
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
    Naming(
        "PyTorch",
        (),
        "layers",
        {role: f"self_attn.{module}" for role, module in _TORCH.items()},
        scope="self_attn.",
    ),
    Naming("MultiheadAttention", (), None, _TORCH, scope="", norm=None),
)
"""In the order in which they are tried: the last one takes any ``torch.nn.MultiheadAttention`` that is left."""
