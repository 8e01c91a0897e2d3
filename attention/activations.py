"""Examples of an attention layer inside a model: what goes in and out of it while the model runs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from attention.examples import ExampleOracle

_MASKS = ("attn_mask", "key_padding_mask", "attention_mask", "head_mask")
# positions of the masks among the arguments of torch.nn.MultiheadAttention
_MASK_PLACES = {3: "key_padding_mask", 5: "attn_mask"}


def attention_layer_examples(model: Any, layer: Any, inputs: Any) -> ExampleOracle:
    """The tokens that go into an attention layer of a torch model, and the outputs of the layer, as examples.

    Parameters
    ----------
    model : torch.nn.Module
        The model. It runs in evaluation mode, without gradients; its mode is restored.
    layer : torch.nn.Module or str
        The attention module inside the model, or its dotted name, such as ``"encoder.layer.1.attention"``. It may be a
        `torch.nn.MultiheadAttention`, or a module whose first argument is the tokens and whose (first) output is the
        output of the layer. A module with a submodule ``output.dense`` or ``dense``, as the attention of BERT, ViT and
        ALBERT in transformers, gives the output of that, before the residual connection.
    inputs : tensor, tuple, mapping or list of these
        What the model takes: one argument, several, named ones, or a list of such batches.

    Returns
    -------
    ExampleOracle
        Serves tokens and outputs, (n, k, d), in the order in which they went through. Their precision is that of the
        model: ``model.double()`` gives examples without rounding. Where the model calls the layer several times, each
        call adds examples.

    Raises
    ------
    ValueError
        If the layer is not in the model, or is not called; if it mixes two sequences (cross-attention), or has another
        mask than the causal one: no layer of the class does this. Also if the numbers of tokens of two batches differ.

    Notes
    -----
    The examples hold one layer F with F(tokens) = outputs if the module is self-attention without positions of its own.
    This is not checked: a learner's held-out examples do. Where the model is causal, so must the learner be:
    ``Newton(heads=4, causal=True)``.

    Examples
    --------
    ``Newton(heads=4, biases=True).fit(attention_layer_examples(model, "layers.1.self_attn", batch))``
    """
    import torch

    if not isinstance(model, torch.nn.Module):
        raise ValueError(f"model is a {type(model).__name__}: a torch.nn.Module is needed.")
    module = _found(model, layer)
    multihead = isinstance(module, torch.nn.MultiheadAttention)
    last = getattr(getattr(module, "output", module), "dense", module)
    tokens: list[np.ndarray] = []
    outputs: list[np.ndarray] = []

    def before(_: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
        _require_plain(module, multihead, positional, named)
        first = positional[0] if positional else named.get("query", named.get("hidden_states"))
        tokens.append(_array(first, flip=multihead and not module.batch_first))

    def after(_: Any, __: Any, output: Any) -> None:
        first = output[0] if isinstance(output, tuple | list) else output
        outputs.append(_array(first, flip=multihead and not module.batch_first))

    with _evaluating(model), torch.no_grad():
        handles = [
            module.register_forward_pre_hook(before, with_kwargs=True),
            last.register_forward_hook(after),
        ]
        try:
            for batch in inputs if isinstance(inputs, list) else [inputs]:
                if isinstance(batch, Mapping):
                    model(**batch)
                else:
                    model(*(batch if isinstance(batch, tuple) else (batch,)))
        finally:
            for handle in handles:
                handle.remove()
    if not tokens:
        raise ValueError(
            "The model ran and did not call the layer: give a layer that these inputs go through."
        )
    shapes = sorted({batch.shape[1:] for batch in tokens})
    if len(shapes) > 1:
        raise ValueError(
            f"The layer got token matrices of the shapes {shapes[0]} and {shapes[-1]}: one number of tokens is needed."
        )
    return ExampleOracle.from_arrays(np.concatenate(tokens), np.concatenate(outputs))


def _found(model: Any, layer: Any) -> Any:
    """The submodule that `layer` is or names."""
    named = dict(model.named_modules(remove_duplicate=False))
    if isinstance(layer, str):
        if layer not in named:
            near = [name for name in named if name.endswith(("attn", "attention"))]
            raise ValueError(
                f"The model has no submodule {layer!r}; its attention modules may be {', '.join(near[:4]) or 'none'}."
            )
        return named[layer]
    if not any(layer is module for module in named.values()):
        raise ValueError(f"layer is a {type(layer).__name__} that is no submodule of the model.")
    return layer


def _require_plain(
    module: Any, multihead: bool, positional: tuple[Any, ...], named: Mapping[str, Any]
) -> None:
    """Refuse a call that is not self-attention of all tokens, or of all earlier ones."""
    given = {name: named.get(name) for name in _MASKS}
    if multihead:
        given |= {_MASK_PLACES[i]: mask for i, mask in enumerate(positional) if i in _MASK_PLACES}
        maps = (*positional[:3], *(named[name] for name in ("query", "key", "value") if name in named))
        first, rest = maps[0], maps[1:]
        if any(x is not first and (x.shape != first.shape or bool((x != first).any())) for x in rest):
            raise ValueError(
                "The layer gets queries, keys and values of different tokens: self-attention is needed."
            )
    elif len(positional) > 1:
        given["attention_mask"] = positional[1]
    for name, mask in given.items():
        if mask is None:
            continue
        # a mask of booleans marks what is left out in torch.nn, and what is kept in transformers
        additive = mask if mask.is_floating_point() or multihead else ~mask.bool()
        hidden = additive != 0
        if bool(hidden.any()) and not (multihead and name == "attn_mask" and _is_causal(hidden)):
            raise ValueError(
                f"The layer gets a mask, {name}, that leaves tokens out: give inputs without padding."
            )


def _is_causal(hidden: Any) -> bool:
    return hidden.ndim == 2 and bool((hidden == hidden.new_ones(hidden.shape).triu(1)).all())


def _array(tensor: Any, *, flip: bool) -> np.ndarray:
    """A tensor (n, k, d) as an array; (k, n, d) if `flip`, or one token matrix (k, d), become (n, k, d)."""
    if getattr(tensor, "ndim", 0) not in (2, 3):
        raise ValueError(
            "The module does not take token matrices (n, k, d) as its first argument, or gives no such output: name "
            "the attention module itself."
        )
    if tensor.ndim == 2:
        tensor = tensor[None]
    elif flip:
        tensor = tensor.transpose(0, 1)
    return np.array(
        tensor.detach().cpu().double().numpy()
    )  # a copy: the model may write into the tensor later


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Put every part of a model into evaluation mode, and back."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
