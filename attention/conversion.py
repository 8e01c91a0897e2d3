"""Attention layers of other software as layers of the target class, biases dropped or absorbed, coordinates cut."""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from jaxtyping import Float

from attention._arrays import shown
from attention.layer import AttentionLayer
from attention.validation import count, finite_number, one_of, real_array, require_instance

__all__ = ["Biases", "ImportedLayer", "Projections", "convert_projections", "convert_torch_module"]

Biases = Literal["dropped", "absorbed"]
_MAPS = ("query", "key", "value", "output")


@dataclass(frozen=True, eq=False)
class ImportedLayer:
    """A layer that was converted, and what is to be said of the conversion.

    Attributes
    ----------
    layer : AttentionLayer
        The layer, in float64; d + 1 coordinates where biases were absorbed.
    head_dim : int
        The dimension h of a head, which bounds the rank of Theta_i and of W_i (h + 1 with absorbed biases).
    model_dim : int
        The number d of coordinates of a token of the model.
    biases : "dropped" or "absorbed"
        What became of the biases.
    coordinates : int or None
        How many of the d coordinates were kept; None for all.
    notes : tuple of str
        Sentences: what was dropped and how large it was, and what the model does beyond this layer.
    source : str
        Where it is from: the name of the file, or the class of the module.
    naming : str
        "torch", "BERT" or "GPT-2": which names and layouts its tensors had.
    prefix : str
        What stood before the layer's own names.
    number : int or None
        The number of the layer in its model, from 0.
    """

    layer: AttentionLayer
    head_dim: int
    model_dim: int
    biases: Biases
    coordinates: int | None
    notes: tuple[str, ...]
    source: str = ""
    naming: str = "torch"
    prefix: str = ""
    number: int | None = None


@dataclass(frozen=True, eq=False)
class Projections:
    """The four linear maps of an attention layer, each y = x A^T + b on rows x.

    Parameters
    ----------
    query, key, value : array (p, d)
        Head i owns rows i h to (i + 1) h, where p = m h.
    output : array (d, p)
        Takes the outputs of all heads, side by side, back to d coordinates.
    query_bias, key_bias, value_bias : array (p,), optional
        Zero if None.
    output_bias : array (d,), optional
        Zero if None.

    Raises
    ------
    ValueError
        If the shapes do not fit together or an entry is not finite.
    """

    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    output: np.ndarray
    query_bias: Any = None
    key_bias: Any = None
    value_bias: Any = None
    output_bias: Any = None

    @classmethod
    def of(cls, maps: Mapping[str, tuple[Any, Any]]) -> "Projections":
        """The projections from a weight and a bias (or None) for each of query, key, value and output."""
        weights = {name: weight for name, (weight, _) in maps.items()}
        return cls(**weights, **{f"{name}_bias": bias for name, (_, bias) in maps.items()})

    def __post_init__(self) -> None:
        p, d = real_array("query", self.query, ("p", "d")).shape
        shapes: dict[str, tuple[int, ...]] = {
            "query": (p, d),
            "key": (p, d),
            "value": (p, d),
            "output": (d, p),
        }
        shapes |= {"query_bias": (p,), "key_bias": (p,), "value_bias": (p,), "output_bias": (d,)}
        for name, shape in shapes.items():
            given = getattr(self, name)
            without = given is None and name.endswith("_bias")
            array = np.zeros(shape) if without else real_array(name, given, shape)
            object.__setattr__(self, name, array)

    @property
    def biased(self) -> tuple[str, ...]:
        """Which of query, key, value and output have a bias that is not zero."""
        return tuple(name for name in _MAPS if np.any(getattr(self, f"{name}_bias")))


def convert_projections(
    projections: Projections,
    *,
    heads: int,
    scale: float | None = None,
    biases: Biases = "dropped",
    coordinates: int | None = None,
    notes: tuple[str, ...] = (),
) -> ImportedLayer:
    """The layer F(X) = sum_i softmax(X Theta_i X^T) X W_i that four linear maps make.

    Parameters
    ----------
    projections : Projections
        The maps.
    heads : int
        The number m of heads; it divides p.
    scale : float, optional
        The factor of the logits; 1 / sqrt(h) if None.
    biases : "dropped" or "absorbed"
        "absorbed" adds a last coordinate to the tokens, to be 1 in every one: the layer's first d output
        coordinates are then those of the maps with their biases, and the last is 0.
    coordinates : int, optional
        Keep the first so many of the d coordinates, of tokens and of outputs. The logits of every head are
        rescaled to keep their spread on Boolean tokens; the constant coordinate stays.
    notes : tuple of str
        Sentences to put before those of the conversion.

    Raises
    ------
    ValueError
        If an argument is out of range, the products overflow, or the kept block of a head is zero.

    Notes
    -----
    With Q_i, K_i, V_i the rows of head i and O_i its columns of the output map, Theta_i = scale Q_i^T K_i and
    W_i = V_i^T O_i^T. Absorbed, Q_i, K_i and V_i get their bias as a last column, and a share 1/m of the output
    bias is added to the last row of each W_i. A key bias moves all logits of a row alike, so that F does not
    depend on it; it is kept so that the logits agree too. Of a layer with a constant coordinate F determines
    neither the last column of a Theta_i nor how the last row of W is split over the heads.

    The spread of a head's logits is the norm of Theta_i without the constant's column: the standard deviation of
    the logit of a token on another, both Boolean. O(m h d'^2) with d' the coordinates kept.

    References
    ----------
    The maps are those of Vaswani et al., arXiv 1706.03762, Section 3.2.2. The conversion is derived here.

    Examples
    --------
    >>> import numpy as np
    >>> one = convert_projections(Projections(*np.ones((4, 2, 2))), heads=1, biases="absorbed")
    >>> one.layer.w[0].tolist()
    [[2.0, 2.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 0.0]]
    """
    require_instance("projections", projections, Projections, needed="a Projections")
    p, d = projections.query.shape
    m = count("heads", heads)
    if p % m:
        raise ValueError(f"heads is {m}: a divisor of {p}, the rows of the query map, is needed.")
    one_of("biases", biases, ("dropped", "absorbed"))
    scale = None if scale is None else finite_number("scale", scale)
    if not isinstance(notes, tuple | list) or not all(isinstance(note, str) for note in notes):
        raise ValueError(f"notes is {shown(notes)}: a tuple of texts is needed.")
    kept = d if coordinates is None else count("coordinates", coordinates)
    if kept > d:
        raise ValueError(f"coordinates is {kept}: at most {d} is possible, as many as a token has.")
    h = p // m
    absorbed = biases == "absorbed"
    with np.errstate(over="ignore", invalid="ignore"):  # the layer refuses what overflowed
        theta, w, factors = _parameters(
            projections, m, 1 / math.sqrt(h) if scale is None else scale, absorbed, kept
        )
        said = _about_biases(projections, absorbed)
    if kept < d:
        said.append(
            f"The first {kept} of {d} coordinates were kept; the logits of each head were rescaled, by "
            f"{factors.min():.3g} to {factors.max():.3g}, to keep their spread on Boolean tokens."
        )
    return ImportedLayer(
        layer=AttentionLayer(theta=theta, w=w),
        head_dim=h,
        model_dim=d,
        biases=biases,
        coordinates=None if coordinates is None else kept,
        notes=(*notes, *said),
    )


def convert_torch_module(
    module: Any, *, biases: Biases = "dropped", coordinates: int | None = None
) -> ImportedLayer:
    """A ``torch.nn.MultiheadAttention`` as a layer, with notes on what was dropped.

    Parameters
    ----------
    module : torch.nn.MultiheadAttention
        Parameters of any floating type; ``batch_first`` makes no difference. The layer is the module's
        self-attention without mask, in evaluation mode.
    biases, coordinates
        As for `convert_projections`.

    Raises
    ------
    ValueError
        If `module` is something else, or has keys or values of another dimension (``kdim``, ``vdim``), biases
        among the keys (``add_bias_kv``) or a zero token (``add_zero_attn``).
    """
    projections = torch_projections(module)
    notes: tuple[str, ...] = ()
    if module.dropout:
        notes = (
            f"Dropout of attention patterns ({module.dropout:g}), which acts in training only, is left out.",
        )
    converted = convert_projections(
        projections, heads=module.num_heads, biases=biases, coordinates=coordinates, notes=notes
    )
    return ImportedLayer(**vars(converted) | {"source": f"a torch.nn.{type(module).__name__}"})


def torch_projections(module: Any) -> Projections:
    """The four maps of a ``torch.nn.MultiheadAttention``, in float64; raises as `convert_torch_module` says."""
    torch = sys.modules.get("torch")  # whoever has such a module has imported it
    if torch is None or not isinstance(module, torch.nn.MultiheadAttention):
        raise ValueError(f"module is a {type(module).__name__}: a torch.nn.MultiheadAttention is needed.")
    beyond = {
        "kdim or vdim other than embed_dim": not module._qkv_same_embed_dim,
        "add_bias_kv": module.bias_k is not None or module.bias_v is not None,
        "add_zero_attn": module.add_zero_attn,
    }
    for name, used in beyond.items():
        if used:
            raise ValueError(f"The module uses {name}, which no layer of this class can express.")
    parameters = (module.in_proj_weight, module.in_proj_bias, module.out_proj.weight, module.out_proj.bias)
    if not all(one is None or (torch.is_tensor(one) and not one.is_meta) for one in parameters):
        raise ValueError(
            "The module has no plain parameters (quantised, or on the meta device): load them first."
        )
    # float64 on the CPU holds every other floating type exactly
    inward, inward_bias, outward, outward_bias = (
        None if one is None else one.detach().cpu().double().numpy() for one in parameters
    )
    in_biases: list[Any] = [None] * 3 if inward_bias is None else np.split(inward_bias, 3)
    parts = zip(_MAPS[:3], np.split(cast(Any, inward), 3), in_biases, strict=True)
    maps = {name: (weight, bias) for name, weight, bias in parts} | {"output": (outward, outward_bias)}
    return Projections.of(maps)


def _parameters(
    projections: Projections, m: int, scale: float, absorbed: bool, kept: int
) -> tuple[Float[np.ndarray, "m e e"], Float[np.ndarray, "m e e"], Float[np.ndarray, " m"]]:
    """Theta, W and the factors by which the logits were rescaled."""
    d = projections.query.shape[1]

    def by_head(weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
        stacked = np.column_stack([weight, bias]) if absorbed else weight
        return stacked.reshape(m, -1, stacked.shape[1])

    query = by_head(projections.query, projections.query_bias)
    key = by_head(projections.key, projections.key_bias)
    value = by_head(projections.value, projections.value_bias)
    output = projections.output[:kept].reshape(kept, m, -1).transpose(1, 2, 0)

    columns = [*range(kept), d] if absorbed else list(range(kept))
    product = query[:, :, columns].transpose(0, 2, 1) @ key[:, :, columns]
    factors = np.ones(m)
    if kept < d:
        before, after = (
            _product_norms(query, key[:, :, :d]),
            np.linalg.norm(product[:, :, :kept], axis=(1, 2)),
        )
        # what is left of a larger whole is rounding, and to blow that up would be to make up a head
        if (empty := after <= 1e-14 * before).any():
            raise ValueError(
                f"The first {kept} coordinates of Theta of head {np.argmax(empty)} are zero: keep more coordinates."
            )
        factors = before / after
    theta = (scale * factors)[:, None, None] * product
    w = np.zeros_like(theta)
    w[:, :, :kept] = value[:, :, columns].transpose(0, 2, 1) @ output
    if absorbed:
        w[:, -1, :kept] += projections.output_bias[:kept] / m
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
    one_token = float(_product_norms(projections.value[None], projections.output.T[None])[0])
    sizes: dict[str, tuple[np.ndarray, Any, str]] = {
        "query": (projections.query_bias, np.linalg.norm(projections.query), "the size of the queries"),
        "key": (projections.key_bias, np.linalg.norm(projections.key), "the size of the keys"),
        "value": (projections.value_bias, np.linalg.norm(projections.value), "the size of the values"),
        "output": (projections.output_bias, one_token, "the size of the output for one token alone"),
    }
    said = []
    for name, (bias, size, what) in sizes.items():
        norm = float(np.linalg.norm(bias))
        if norm > 0:
            share = f"{norm / float(size):.3g} of {what}" if size > 0 else f"{what} is zero"
            harmless = ", and without influence on the outputs" if name == "key" else ""
            said.append(f"The {name} bias was dropped: {share}{harmless}.")
    if said:
        said.append("Sizes are root mean squares on tokens of independent coordinates of variance 1.")
    return said
