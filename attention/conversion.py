"""Convert attention layers of other software, given as arrays or torch modules, into layers of the target class."""

import math
import sys
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
from jaxtyping import Float

from attention.layer import AttentionLayer
from attention.validation import PositiveInt, checked

__all__ = ["Biases", "ImportedLayer", "Projections", "convert_projections", "convert_torch_module"]

Biases = Literal["dropped", "absorbed"]
_MAPS = ("query", "key", "value", "output")


@dataclass(frozen=True, eq=False)
class ImportedLayer:
    """A layer that was converted, and notes on the conversion."""

    layer: AttentionLayer  #: the layer, in float64; d + 1 coordinates where biases were absorbed
    #: the dimension h of a head, which bounds the rank of Theta_i and of W_i (h + 1 with absorbed biases)
    head_dim: int
    model_dim: int  #: the number d of coordinates of a token of the model
    biases: Biases  #: whether the biases were dropped or absorbed
    coordinates: int | None  #: how many of the d coordinates were kept; None for all
    #: sentences: what was dropped, how large it was, and what else the model computes
    notes: tuple[str, ...]
    source: str = ""  #: its origin: the name of the file, or the class of the module
    naming: str = "torch"  #: the names and layouts of its tensors: "torch", "BERT" or "GPT-2"
    prefix: str = ""  #: the prefix of the tensor names, before the layer's own names
    number: int | None = None  #: the number of the layer in its model, from 0


@dataclass(frozen=True, eq=False)
@checked
class Projections:
    """The four linear maps of an attention layer, each y = x A^T + b on rows x; biases that are None are zero.

    Parameters
    ----------
    query, key, value : array (p, d)
        Head i owns rows i h to (i + 1) h, where p = m h.
    output : array (d, p)
        Maps the concatenated outputs of all heads back to d coordinates.
    query_bias, key_bias, value_bias : array (p,), optional
    output_bias : array (d,), optional
    """

    query: Float[np.ndarray, "p d"]
    key: Float[np.ndarray, "p d"]
    value: Float[np.ndarray, "p d"]
    output: Float[np.ndarray, "d p"]
    query_bias: Float[np.ndarray, " p"] | None = None
    key_bias: Float[np.ndarray, " p"] | None = None
    value_bias: Float[np.ndarray, " p"] | None = None
    output_bias: Float[np.ndarray, " d"] | None = None

    def __post_init__(self) -> None:
        for name in _MAPS:
            if getattr(self, f"{name}_bias") is None:
                object.__setattr__(self, f"{name}_bias", np.zeros(len(getattr(self, name))))

    @property
    def biased(self) -> tuple[str, ...]:
        """Which of query, key, value and output have a bias that is not zero."""
        return tuple(name for name in _MAPS if np.any(getattr(self, f"{name}_bias")))


@checked
def convert_projections(
    projections: Projections,
    *,
    heads: PositiveInt,
    scale: float | None = None,
    biases: Biases = "dropped",
    coordinates: PositiveInt | None = None,
) -> ImportedLayer:
    """The layer F(X) = sum_i softmax(X Theta_i X^T) X W_i of four linear maps, and notes on what was dropped.

    Parameters
    ----------
    projections : Projections
    heads : int
        The number m of heads; it divides p.
    scale : float, optional
        The factor of the logits; 1 / sqrt(h) if None.
    biases : "dropped" or "absorbed"
        "absorbed" adds a last coordinate to the tokens, which must be 1 in every token. The layer's first d output
        coordinates are then those of the maps with their biases, and the last output is 0.
    coordinates : int, optional
        Keep only this many of the d coordinates, the first ones, of tokens and of outputs. The logits of every head are
        rescaled to keep their spread on Boolean tokens; the constant coordinate stays.

    Notes
    -----
    With Q_i, K_i, V_i the rows of head i and O_i its columns of the output map, Theta_i = scale Q_i^T K_i and
    W_i = V_i^T O_i^T. If biases are absorbed, Q_i, K_i and V_i get their bias as a last column, and 1/m of the output
    bias is added to the last row of each W_i. A key bias adds the same number to all logits of a row, so F does not
    depend on it. It is kept so that the logits agree too.

    The spread of a head's logits is the norm of Theta_i without the column of the constant coordinate. This is the
    standard deviation of the logit between two different Boolean tokens. A ValueError if the kept block of a head is
    zero. O(m h d'^2) with d' the coordinates kept. The maps are those of Vaswani et al., arXiv 1706.03762,
    Section 3.2.2.

    Examples
    --------
    >>> import numpy as np
    >>> one = convert_projections(Projections(*np.ones((4, 2, 2))), heads=1, biases="absorbed")
    >>> one.layer.w[0].tolist()
    [[2.0, 2.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 0.0]]
    """
    p, d = projections.query.shape
    if p % heads:
        raise ValueError(f"heads is {heads}: a divisor of {p}, the rows of the query map, is needed.")
    kept = d if coordinates is None else coordinates
    if kept > d:
        raise ValueError(f"coordinates is {kept}: at most {d} is possible, as many as a token has.")
    scale = 1 / math.sqrt(p // heads) if scale is None else scale
    with np.errstate(over="ignore", invalid="ignore"):  # the layer refuses what overflowed
        theta, w, factors = _parameters(projections, heads, scale, biases == "absorbed", kept)
        notes = _about_biases(projections, biases == "absorbed")
    if kept < d:
        notes.append(
            f"The first {kept} of {d} coordinates were kept; the logits of each head were rescaled, by "
            f"{factors.min():.3g} to {factors.max():.3g}, to keep their spread on Boolean tokens."
        )
    layer = AttentionLayer(theta=theta, w=w)
    return ImportedLayer(layer, p // heads, d, biases, coordinates, tuple(notes))


def convert_torch_module(
    module: Any, *, biases: Biases | None = None, coordinates: int | None = None
) -> ImportedLayer:
    """A ``torch.nn.MultiheadAttention`` as a layer, with notes on what was dropped.

    Parameters
    ----------
    module : torch.nn.MultiheadAttention
        Parameters of any floating type; ``batch_first`` makes no difference. The layer is the module's
        self-attention without mask, in evaluation mode.
    biases, coordinates
        As for `convert_projections`; `biases` is needed if one of the module's biases is not zero.

    Notes
    -----
    A ValueError if `module` is of another class, or has biases while `biases` is not given, or uses ``kdim``,
    ``vdim``, ``add_bias_kv`` or ``add_zero_attn``.
    """
    torch = sys.modules.get("torch")  # a caller with such a module has imported torch
    if torch is None or not isinstance(module, torch.nn.MultiheadAttention):
        raise ValueError(f"module is a {type(module).__name__}: a torch.nn.MultiheadAttention is needed.")
    beyond = {
        "kdim or vdim other than embed_dim": not module._qkv_same_embed_dim,
        "add_bias_kv": module.bias_k is not None or module.bias_v is not None,
        "add_zero_attn": module.add_zero_attn,
    }
    if used := [name for name, one in beyond.items() if one]:
        raise ValueError(f"The module uses {used[0]}, which no layer of this class can express.")
    parameters = (module.in_proj_weight, module.in_proj_bias, module.out_proj.weight, module.out_proj.bias)
    if not all(one is None or (torch.is_tensor(one) and not one.is_meta) for one in parameters):
        raise ValueError("The module's parameters are quantised or on the meta device: load them first.")
    # float64 on the CPU holds every other floating type exactly
    inward, inward_bias, outward, outward_bias = [
        None if one is None else one.detach().cpu().double().numpy() for one in parameters
    ]
    inward_biases: list[Any] = [None] * 3 if inward_bias is None else [*np.split(inward_bias, 3)]
    given: list[Any] = [*np.split(cast(np.ndarray, inward), 3), outward, *inward_biases, outward_bias]
    projections = Projections(*given)
    if biases is None and projections.biased:
        raise ValueError(
            f"The module has biases that are not zero ({', '.join(projections.biased)}), and a layer has none: "
            "biases='dropped' leaves them out, biases='absorbed' keeps them by a last coordinate that is 1."
        )
    converted = convert_projections(
        projections, heads=module.num_heads, biases=biases or "dropped", coordinates=coordinates
    )
    dropout = f"Dropout of attention patterns ({module.dropout:g}), which acts in training only, is left out."
    notes = (dropout, *converted.notes) if module.dropout else converted.notes
    return replace(converted, source=f"a torch.nn.{type(module).__name__}", notes=notes)


def _parameters(
    projections: Projections, m: int, scale: float, absorbed: bool, kept: int
) -> tuple[Float[np.ndarray, "m e e"], Float[np.ndarray, "m e e"], Float[np.ndarray, " m"]]:
    """Theta, W and the factors by which the logits were rescaled."""
    d = projections.query.shape[1]

    def by_head(name: str) -> np.ndarray:
        weight, bias = getattr(projections, name), getattr(projections, f"{name}_bias")
        stacked = np.column_stack([weight, bias]) if absorbed else weight
        return stacked.reshape(m, -1, stacked.shape[1])

    query, key, value = by_head("query"), by_head("key"), by_head("value")
    output = projections.output[:kept].reshape(kept, m, -1).transpose(1, 2, 0)

    columns = [*range(kept), d] if absorbed else list(range(kept))
    product = query[:, :, columns].transpose(0, 2, 1) @ key[:, :, columns]
    factors = np.ones(m)
    if kept < d:
        before = _product_norms(query, key[:, :, :d])
        after = np.linalg.norm(product[:, :, :kept], axis=(1, 2))
        # the kept block is only rounding error; rescaling it would invent a head
        if (empty := after <= 1e-14 * before).any():
            raise ValueError(
                f"The first {kept} coordinates of Theta of head {np.argmax(empty)} are zero: keep more coordinates."
            )
        factors = before / after
    theta = (scale * factors)[:, None, None] * product
    w = np.zeros_like(theta)
    w[:, :, :kept] = value[:, :, columns].transpose(0, 2, 1) @ output
    if absorbed:
        w[:, -1, :kept] += cast(np.ndarray, projections.output_bias)[:kept] / m
    if kept < d and not (zero := np.any(w, axis=(1, 2))).all():
        raise ValueError(
            f"The first {kept} coordinates of W of head {np.argmin(zero)} are zero: keep more coordinates."
        )
    return theta, w, factors


def _product_norms(
    left: Float[np.ndarray, "m h a"], right: Float[np.ndarray, "m h b"]
) -> Float[np.ndarray, " m"]:
    """The Frobenius norms of left_i^T right_i, from two Gram matrices of the small side."""
    grams = (left @ left.transpose(0, 2, 1)) * (right @ right.transpose(0, 2, 1))
    return np.sqrt(np.maximum(grams.sum(axis=(1, 2)), 0))


def _about_biases(projections: Projections, absorbed: bool) -> list[str]:
    if absorbed:
        return [
            "The biases were absorbed: every token has a last coordinate that is 1, and the last output is 0. The "
            "last column of each Theta and the split of the last row of W over heads do not show in the outputs."
        ]
    one_token = _product_norms(projections.value[None], projections.output.T[None])[0]
    nouns = {"query": "queries", "key": "keys", "value": "values", "output": "output for one token alone"}
    notes = []
    for name in projections.biased:
        size = float(one_token if name == "output" else np.linalg.norm(getattr(projections, name)))
        norm = float(np.linalg.norm(getattr(projections, f"{name}_bias")))
        what = f"the size of the {nouns[name]}"
        share = f"{norm / size:.3g} of {what}" if size > 0 else f"{what} is zero"
        harmless = ", and without influence on the outputs" if name == "key" else ""
        notes.append(f"The {name} bias was dropped: {share}{harmless}.")
    if notes:
        notes.append("Sizes are root mean squares on tokens of independent coordinates of variance 1.")
    return notes
