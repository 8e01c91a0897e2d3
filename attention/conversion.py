"""Attention layers of other software as layers of the target class, with notes on what was dropped."""

from dataclasses import dataclass, replace
from typing import Any

from attention.layer import AttentionLayer
from attention.projections import Biases, Projections, layer_parameters, torch_projections
from attention.validation import PositiveInt, checked

__all__ = ["ImportedLayer", "convert_projections", "convert_torch_module"]


@dataclass(frozen=True, eq=False)
class ImportedLayer:
    """A layer that was converted, and notes on the conversion.

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


@checked
def convert_projections(
    projections: Projections,
    *,
    heads: PositiveInt,
    scale: float | None = None,
    biases: Biases = "dropped",
    coordinates: int | None = None,
    notes: tuple[str, ...] = (),
) -> ImportedLayer:
    """The layer F(X) = sum_i softmax(X Theta_i X^T) X W_i that four linear maps make.

    Parameters
    ----------
    projections, heads, scale, biases, coordinates
        As for `attention.projections.layer_parameters`.
    notes : tuple of str
        Sentences to put before those of the conversion.

    Raises
    ------
    ValueError
        If an argument is out of range, the products overflow, or the kept block of a head is zero.

    Examples
    --------
    >>> import numpy as np
    >>> one = convert_projections(Projections(*np.ones((4, 2, 2))), heads=1, biases="absorbed")
    >>> one.layer.w[0].tolist()
    [[2.0, 2.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 0.0]]
    """
    theta, w, about = layer_parameters(
        projections, heads=heads, scale=scale, biases=biases, coordinates=coordinates
    )
    p, d = projections.query.shape
    return ImportedLayer(
        layer=AttentionLayer(theta=theta, w=w),
        head_dim=p // len(theta),
        model_dim=d,
        biases=biases,
        coordinates=coordinates,
        notes=(*notes, *about),
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
        As for `attention.projections.layer_parameters`.

    Raises
    ------
    ValueError
        If `module` is something else, or uses what no layer can express.
    """
    projections = torch_projections(module)
    dropout = f"Dropout of attention patterns ({module.dropout:g}), which acts in training only, is left out."
    converted = convert_projections(
        projections,
        heads=module.num_heads,
        biases=biases,
        coordinates=coordinates,
        notes=(dropout,) if module.dropout else (),
    )
    return replace(converted, source=f"a torch.nn.{type(module).__name__}")
