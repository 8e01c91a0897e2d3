"""Heads of small PyTorch attention modules, at the start and after a short training on one of two tasks."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from attention import AttentionLayer, convert_torch_module
from runs import single_thread

if TYPE_CHECKING:
    import torch

__all__ = ["TASKS", "trained_layer"]

_BATCH, _LENGTH, _SYMBOLS = 64, 8, 32
_RATE = {16: 0.01, 32: 0.005}


def trained_layer(
    task: str, dim: int, rng: Generator, *, heads: int = 4, steps: int = 600
) -> tuple[AttentionLayer, float]:
    """A converted `torch.nn.MultiheadAttention` module, and its final loss divided by that of the best constant.

    Parameters
    ----------
    task : str
        One of `TASKS`.
    dim : int
        Dimension of the tokens, a multiple of 4.
    rng : Generator
        Gives the seed of PyTorch.
    heads : int
        Number of heads of the module; each has dimension ``dim / heads``.
        steps : int
        Steps of Adam, each on a fresh batch.
    """
    import torch

    with single_thread(torch=True), torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(2**31)))
        module = torch.nn.MultiheadAttention(dim, heads, bias=False, batch_first=True)
        loss = TASKS[task](module, dim, steps)
    return convert_torch_module(module).layer, loss


def _untrained(module: "torch.nn.MultiheadAttention", dim: int, steps: int) -> float:
    return 1.0


def _recall(module: "torch.nn.MultiheadAttention", dim: int, steps: int) -> float:
    """Every token has a key, two requested keys, and a value; the layer must return the two requested values."""
    import torch

    part = dim // 4

    def loss_of_batch() -> "torch.Tensor":
        key, value = torch.randn(2, _BATCH, _LENGTH, part)
        orders = [torch.rand(_BATCH, _LENGTH).argsort(dim=1) for _ in range(2)]
        asked = [key.gather(1, one[:, :, None].expand(-1, -1, part)) for one in orders]
        answers = [value.gather(1, one[:, :, None].expand(-1, -1, part)) for one in orders]
        x = torch.cat([key, *asked, value], dim=2)
        given = module(x, x, x, need_weights=False)[0][:, :, : 2 * part]
        return torch.mean((given - torch.cat(answers, dim=2)) ** 2)

    return _trained(list(module.parameters()), loss_of_batch, dim, steps)  # the values have variance 1


def _masked(module: "torch.nn.MultiheadAttention", dim: int, steps: int) -> float:
    """A random walk over symbols with one of them hidden; embeddings and readout are trained too."""
    import torch

    symbols = torch.nn.Embedding(_SYMBOLS + 1, dim)
    places = torch.nn.Embedding(_LENGTH, dim)
    readout = torch.nn.Linear(dim, _SYMBOLS)
    following = torch.stack([torch.randperm(_SYMBOLS) for _ in range(3)])  # three symbols may follow each

    def loss_of_batch() -> "torch.Tensor":
        text = torch.randint(_SYMBOLS, (_BATCH, 1))
        for _ in range(_LENGTH - 1):
            text = torch.cat([text, following[torch.randint(3, (_BATCH,)), text[:, -1]][:, None]], dim=1)
        hidden = torch.randint(_LENGTH, (_BATCH,))
        rows = torch.arange(_BATCH)
        seen = text.clone()
        seen[rows, hidden] = _SYMBOLS
        x = symbols(seen) + places.weight
        given = readout((x + module(x, x, x, need_weights=False)[0])[rows, hidden])
        return torch.nn.functional.cross_entropy(given, text[rows, hidden]) / math.log(_SYMBOLS)

    parameters = [one for part in (module, symbols, places, readout) for one in part.parameters()]
    return _trained(parameters, loss_of_batch, dim, steps)


def _trained(
    parameters: list[Any], loss_of_batch: Callable[[], "torch.Tensor"], dim: int, steps: int
) -> float:
    """The mean loss of the last fiftieth of the steps."""
    import torch

    optimiser = torch.optim.Adam(parameters, lr=_RATE.get(dim, 0.003))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    last = []
    for step in range(steps):
        loss = loss_of_batch()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step >= steps - max(1, steps // 50):
            last.append(loss.item())
    return float(np.mean(last))


TASKS: dict[str, Callable[["torch.nn.MultiheadAttention", int, int], float]] = {
    "untrained": _untrained,
    "recall": _recall,
    "masked": _masked,
}
"""The training tasks, by name."""
