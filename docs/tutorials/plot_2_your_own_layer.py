r"""
2. Your own layer
=================

Does a layer of your own satisfy the conditions under which learning is proved to be possible? Can it be learned back
even if it does not? This page takes a layer from arrays, and one from a PyTorch module that it trains. Runs in about
ten seconds.
"""

# %%
# From arrays
# -----------
#
# A layer is two arrays of shape (m, d, d), for m heads and d coordinates. In a trained model they are products: queries
# times keys over :math:`\sqrt h`, where h is the dimension of a head, and values times the output map. Here are random
# ones, with logits of standard deviation 2.

import numpy as np

from attention import AttentionLayer

rng = np.random.default_rng(0)
m, d, h = 2, 16, 8
query, key = rng.normal(0, np.sqrt(2 / d), (2, m, d, h))
value = rng.normal(0, np.sqrt(1 / d), (m, d, h))
output = rng.normal(0, np.sqrt(1 / h), (m, h, d))
theta = query @ key.swapaxes(1, 2) / np.sqrt(h)
layer = AttentionLayer(theta=theta, w=value @ output)
print(layer)

# %%
# Its conditions
# --------------
#
# The theorem of Chen and Li requires heads that are incoherent, of large stable rank and far apart, and more. The
# thresholds are this toolkit's own. If a condition is violated, the theorem does not apply. The layer need not be hard.

from attention import check_conditions

print(check_conditions(layer, tokens=3))

# %%
# Learned back
# ------------
#
# A target is the layer together with the distribution of its inputs.

from arena import layer_target, learn

target = layer_target(layer, tokens=3, name="mine")
learned = learn(target, "newton", seed=1)
print(learned)

# %%
# A layer that was trained
# ------------------------
#
# PyTorch trains a module for some seconds: every token must output the mean of the tokens with the same first
# coordinate.

from importlib.util import find_spec

has_torch = find_spec("torch") is not None
if has_torch:
    import torch

    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(d, m, batch_first=True)
    optimiser = torch.optim.Adam(module.parameters(), lr=0.01)
    for _ in range(300):
        x = torch.randint(0, 2, (256, 3, d)) * 2.0 - 1
        same = (x[:, :, None, 0] == x[:, None, :, 0]).float()
        wanted = (same / same.sum(dim=2, keepdim=True)) @ x
        loss = ((module(x, x, x)[0] - wanted) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    print(f"mean squared error after training: {loss.item():.0e}")
else:
    print("PyTorch is not installed: the rest of this page was left out.")

# %%
# `attention.convert_torch_module` converts it and says what was dropped. A checkpoint on disk is read by
# `attention.read_checkpoint_layer`, or made a target at once by `arena.checkpoint_target`.

if has_torch:
    from attention import convert_torch_module

    converted = convert_torch_module(module, biases="dropped")
    trained = converted.layer
    for note in converted.notes:
        print("-", note)

# %%
# Inspected
# ---------
#
# The trained layer is not nice, and the conditions say why. Both heads do the same (incoherence 1, distance near 0).
# They use only one coordinate (stable rank 1, all weight in one column).

if has_torch:
    report = check_conditions(trained, tokens=3)
    print(report)

# %%
# The theorem says nothing about such a layer. Its learner needs heads that agree on few rows and differ on the others.
# These two heads hardly differ. In paper mode the learner stops, and says where and why.

import textwrap

if has_torch:
    own = layer_target(trained, tokens=3, name="trained")
    paper = learn(own, "six-phase-paper", seed=1, preset="quick").fit
    print(textwrap.fill(paper.details.explanation, 90))

# %%
# Learned back nevertheless
# -------------------------
#
# Newton recovers this layer to the last digits. This is one measurement and no promise for other layers.

if has_torch:
    learned = learn(own, "newton", seed=0)
    print(learned)

# %%
# ``save_layer("own.safetensors", trained)`` of `attention` writes it for the command line, where ``inspect`` and
# ``learn`` do what this page did. :doc:`/how-to/your-own-model` is about a checkpoint on disk.
# :doc:`plot_3_first_comparison` shows layers that, as far as is known, cannot be learned back.
