"""Convert attention layers of other software, given as arrays or torch modules, into layers of the target class."""

import math
import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar, cast

import numpy as np
from jaxtyping import Float, Int

from attention.layer import AttentionLayer
from attention.rotary import RotaryLayer
from attention.validation import PositiveInt, checked

__all__ = [
    "Biases",
    "ImportedLayer",
    "Projections",
    "convert_projections",
    "convert_rotary",
    "convert_torch_module",
]

LayerT = TypeVar("LayerT", AttentionLayer, RotaryLayer)
Biases = Literal["kept", "dropped"]
_MAPS = ("query", "key", "value", "output")
_SAME = 1e-6  # relative; both compute in float64, where layers of any size agree to 1e-12


@dataclass(frozen=True, eq=False)
class ImportedLayer(Generic[LayerT]):
    """A layer that was converted, and notes on the conversion."""

    layer: LayerT  #: the layer, in float64
    head_dim: int  #: the dimension h of a head, which bounds the rank of Theta_i and of W_i
    model_dim: int  #: the number d of coordinates of a token of the model
    biases: Biases  #: whether the biases were kept or dropped
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
    biases: Biases = "kept",
    coordinates: PositiveInt | None = None,
    causal: bool = False,
) -> ImportedLayer[AttentionLayer]:
    """The layer F(X) = 1 b^T + sum_i softmax(X Theta_i X^T + 1 (X c_i)^T) X W_i of four linear maps, and notes on it.

    Parameters
    ----------
    projections : Projections
    heads : int
        The number m of heads; it divides p.
    scale : float, optional
        The factor of the logits; 1 / sqrt(h) if None.
    biases : "kept" or "dropped"
        "dropped" leaves out c and b, for learners of the class without biases.
    coordinates : int, optional
        Keep only this many of the d coordinates, the first ones, of tokens and of outputs. The logits of every head are
        rescaled to keep their spread on Boolean tokens.
    causal : bool
        Whether a token attends to earlier ones and itself only.

    Notes
    -----
    With Q_i, K_i, V_i the rows of head i, q_i its query bias and O_i its columns of the output map,
    Theta_i = scale Q_i^T K_i, W_i = V_i^T O_i^T and c_i = scale K_i^T q_i. The vector b is the output bias plus the
    output map of the value bias. A key bias adds the same number to all logits of a row, so F does not depend on
    it. A layer has no c or no b where all biases that it comes from are zero.

    The spread of a head's logits is the norm of Theta_i, the standard deviation of the logit between two different
    Boolean tokens. A ValueError if the kept block of a head is
    zero. O(m h d'^2) with d' the coordinates kept. The maps are those of Vaswani et al., arXiv 1706.03762,
    Section 3.2.2.

    Examples
    --------
    >>> import numpy as np
    >>> one = convert_projections(Projections(*np.ones((4, 2, 2)), query_bias=np.ones(2)), heads=1, scale=1.0)
    >>> one.layer.w[0].tolist(), one.layer.key_bias.tolist(), one.layer.bias
    ([[2.0, 2.0], [2.0, 2.0]], [[2.0, 2.0]], None)
    """
    p, d = projections.query.shape
    if p % heads:
        raise ValueError(f"heads is {heads}: a divisor of {p}, the rows of the query map, is needed.")
    kept = d if coordinates is None else coordinates
    if kept > d:
        raise ValueError(f"coordinates is {kept}: at most {d} is possible, as many as a token has.")
    scale = 1 / math.sqrt(p // heads) if scale is None else scale
    with np.errstate(over="ignore", invalid="ignore"):  # the layer refuses what overflowed
        theta, w, factors = _parameters(projections, heads, scale, kept)
        key_bias, bias = _biases(projections, scale * factors, kept) if biases == "kept" else (None, None)
        notes = _about_biases(projections) if biases == "dropped" else []
    if kept < d:
        notes.append(
            f"The first {kept} of {d} coordinates were kept; the logits of each head were rescaled, by "
            f"{factors.min():.3g} to {factors.max():.3g}, to keep their spread on Boolean tokens."
        )
    layer = AttentionLayer(theta, w, key_bias, bias, causal)
    return ImportedLayer(layer, p // heads, d, biases, coordinates, tuple(notes))


@checked
def convert_rotary(
    projections: Projections,
    *,
    heads: PositiveInt,
    key_heads: PositiveInt,
    frequencies: Float[np.ndarray, " f"],
    places: Int[np.ndarray, " h"],
    scale: float | None = None,
    biases: Biases = "kept",
    causal: bool = True,
) -> ImportedLayer[RotaryLayer]:
    """The layer with rotary positions of four linear maps, and notes on it.

    Parameters
    ----------
    projections : Projections
        Key and value maps that heads share are repeated for each of these.
    heads, key_heads : int
        The numbers m of heads, and g of different key maps.
    frequencies : array (h / 2,)
        Radians a position, 0 of planes that are not rotated.
    places : array (h,)
        The coordinate of a head of the model at each coordinate of a head of the layer, where f and f + h / 2 are a
        plane.
    scale, biases, causal
        As for `convert_projections`.

    Notes
    -----
    The factor of the logits is in the queries. The vector b is the output bias plus the output map of the value bias.
    """
    _, w, _ = _parameters(projections, heads, 1.0, projections.query.shape[1])
    p, d = projections.query.shape
    h, each = p // heads, heads // key_heads
    scale = 1 / math.sqrt(h) if scale is None else scale
    query, key = (
        getattr(projections, name).reshape(heads, h, d)[:, places].swapaxes(1, 2) for name in ("query", "key")
    )
    given: dict[str, Any] = {}
    if biases == "kept":
        query_bias, key_bias = (
            getattr(projections, name).reshape(heads, h)[:, places] for name in ("query_bias", "key_bias")
        )
        given = {"query_bias": scale * query_bias, "key_bias": key_bias[::each]}
        given["bias"] = _biases(projections, np.ones(heads), d)[1]
        given = {name: bias for name, bias in given.items() if bias is not None and np.any(bias)}
    notes = _about_biases(projections, rotary=True) if biases == "dropped" else []
    layer = RotaryLayer(scale * query, key[::each], w, frequencies, causal=causal, **given)
    return ImportedLayer(layer, h, d, biases, None, tuple(notes))


def convert_torch_module(
    module: Any, *, biases: Biases = "kept", causal: bool = False
) -> ImportedLayer[AttentionLayer]:
    """A ``torch.nn.MultiheadAttention`` as a layer, with notes on what was dropped.

    Parameters
    ----------
    module : torch.nn.MultiheadAttention
        Parameters of any floating type; ``batch_first`` makes no difference. The layer is the module's
        self-attention, in evaluation mode.
    biases, causal
        As for `convert_projections`; a module does not say whether it is called with a causal mask.

    Notes
    -----
    A ValueError if `module` is of another class, a subclass among them, has hooks, or uses ``kdim``, ``vdim``,
    ``add_bias_kv`` or ``add_zero_attn``. A copy of the module runs once, in float64 on random tokens: a ValueError if
    its outputs differ from the layer's by more than 1e-6.
    """
    torch = sys.modules.get("torch")  # a caller with such a module has imported torch
    if torch is None or type(module) is not torch.nn.MultiheadAttention:
        shown = f"{type(module).__module__}.{type(module).__qualname__}"
        raise ValueError(
            f"module is a {shown}: a torch.nn.MultiheadAttention is needed, as another class, a subclass too, may "
            "compute something else."
        )
    parameters = (module.in_proj_weight, module.in_proj_bias, module.out_proj.weight, module.out_proj.bias)
    tensors = [one for one in parameters if one is not None]
    if not module._qkv_same_embed_dim:
        beyond = "kdim or vdim: keys and values of other tokens (cross-attention) are no layer of this class"
    elif module.bias_k is not None or module.bias_v is not None or module.add_zero_attn:
        beyond = "add_bias_kv or add_zero_attn: a further token that no layer of this class has"
    elif not all(torch.is_tensor(one) and not one.is_meta and one.is_floating_point() for one in tensors):
        beyond = "parameters that are complex, quantised or on the meta device: real numbers are needed"
    else:
        beyond = ""
    if beyond:
        raise ValueError(f"The module has {beyond}.")
    # float64 on the CPU holds every other floating type exactly
    inward, inward_bias, outward, outward_bias = [
        None if one is None else one.detach().cpu().double().numpy() for one in parameters
    ]
    inward_biases: list[Any] = [None] * 3 if inward_bias is None else [*np.split(inward_bias, 3)]
    given: list[Any] = [*np.split(cast(np.ndarray, inward), 3), outward, *inward_biases, outward_bias]
    projections = Projections(*given)
    order = (0, 1, 2) if module.batch_first else (1, 0, 2)

    def answer(copy: Any, x: Any) -> Any:
        tokens = x.permute(order)
        return copy(tokens, tokens, tokens, need_weights=False)[0].permute(order)

    require_same(module, convert_projections(projections, heads=module.num_heads).layer, answer)
    converted = convert_projections(projections, heads=module.num_heads, biases=biases, causal=causal)
    dropout = f"Dropout of attention patterns ({module.dropout:g}), which acts in training only, is left out."
    notes = (dropout, *converted.notes) if module.dropout else converted.notes
    return replace(converted, source=f"a torch.nn.{type(module).__name__}", notes=notes)


def require_same(module: Any, target: Any, answer: Callable[[Any, Any], Any]) -> None:
    """Refuse a module that computes something else from its parameters than their layer, network or block.

    `answer` asks a copy of the module in float64, without dropout, for its outputs on tokens (n, k, d).
    """
    import torch

    x = np.random.default_rng(0).normal(size=(2, 3, target.dim))
    try:
        copy = deepcopy(module).cpu().double().eval()
        with torch.no_grad():
            output = answer(copy, torch.from_numpy(x)).numpy()
    except Exception as error:  # what a changed module raises is not known
        raise ValueError(f"The module fails on random tokens: {' '.join(str(error).split()):.200}.") from None
    wanted = target(x)
    distance = np.linalg.norm(output - wanted)
    if not distance <= _SAME * np.linalg.norm(wanted):
        raise ValueError(
            f"On random tokens, the module's outputs differ from those of the layer of its parameters by "
            f"{distance / (np.linalg.norm(wanted) or 1):.2g}: it computes something else."
        )


def _parameters(
    projections: Projections, m: int, scale: float, kept: int
) -> tuple[Float[np.ndarray, "m e e"], Float[np.ndarray, "m e e"], Float[np.ndarray, " m"]]:
    """Theta, W and the factors by which the logits were rescaled."""
    d = projections.query.shape[1]
    query, key, value = (getattr(projections, name).reshape(m, -1, d) for name in ("query", "key", "value"))
    output = projections.output[:kept].reshape(kept, m, -1).transpose(1, 2, 0)
    product = query[:, :, :kept].transpose(0, 2, 1) @ key[:, :, :kept]
    factors = np.ones(m)
    if kept < d:
        # the norms of query_i^T key_i, from Gram matrices of the small side
        grams = (query @ query.transpose(0, 2, 1)) * (key @ key.transpose(0, 2, 1))
        before = np.sqrt(np.maximum(grams.sum(axis=(1, 2)), 0))
        after = np.linalg.norm(product, axis=(1, 2))
        # the kept block is only rounding error; rescaling it would invent a head
        if (empty := after <= 1e-14 * before).any():
            raise ValueError(
                f"The first {kept} coordinates of Theta of head {np.argmax(empty)} are zero: keep more coordinates."
            )
        factors = before / after
    theta = (scale * factors)[:, None, None] * product
    w = value[:, :, :kept].transpose(0, 2, 1) @ output
    if kept < d and not (zero := np.any(w, axis=(1, 2))).all():
        raise ValueError(
            f"The first {kept} coordinates of W of head {np.argmin(zero)} are zero: keep more coordinates."
        )
    return theta, w, factors


def _biases(
    projections: Projections, scale: Float[np.ndarray, " m"], kept: int
) -> tuple[Float[np.ndarray, "m e"] | None, Float[np.ndarray, " e"] | None]:
    """The vectors c_i, from the query bias, and b, from the value and output biases; None where these are zero."""
    key = projections.key[:, :kept].reshape(len(scale), -1, kept)
    query_bias = cast(np.ndarray, projections.query_bias).reshape(len(scale), -1)
    key_bias = scale[:, None] * np.einsum("mhd,mh->md", key, query_bias)
    bias = projections.output @ cast(np.ndarray, projections.value_bias) + projections.output_bias
    return (key_bias if np.any(key_bias) else None), (bias[:kept] if np.any(bias[:kept]) else None)


def _about_biases(projections: Projections, *, rotary: bool = False) -> list[str]:
    norms = {name: float(np.linalg.norm(getattr(projections, f"{name}_bias"))) for name in projections.biased}
    harmless = {} if rotary else {"key": ", and it has no influence on the outputs"}
    return [
        f"The {name} bias was dropped: its norm is {norm:.3g}{harmless.get(name, '')}."
        for name, norm in norms.items()
    ]
