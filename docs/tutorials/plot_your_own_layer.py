r"""
Your own layer
==============

Does a layer of one's own satisfy the conditions under which learning is proved to be possible? And can it be learned
back from examples, whatever the conditions say?
"""

# %%
# From arrays
# -----------
#
# A layer is two arrays of shape (m, d, d), for m heads and d coordinates: :math:`\Theta_i` makes the logits of head i,
# :math:`W_i` its output. In a trained model they come as products: queries times keys over :math:`\sqrt h`, with h the
# dimension of a head, and values times the output map. Here are random ones, with logits of standard deviation 2.

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
# It maps k tokens of d coordinates to k outputs; ``patterns`` shows who attends to whom.

from attention import BooleanInputs

x = BooleanInputs(k=3, d=d).sample(1, rng=1)
print(layer(x).shape)
print(layer.patterns(x)[0, 0].round(2))

# %%
# From a trained model
# --------------------
#
# With PyTorch, the self-attention of a module is one call. A checkpoint on disk is read by
# `attention.read_checkpoint_layer`, or made a target at once by `arena.checkpoint_target`.

from importlib.util import find_spec

if find_spec("torch") is not None:
    import torch

    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(d, m, bias=False, batch_first=True)
    module = module.double()
    from_torch = AttentionLayer.from_torch(module)
    tokens = torch.from_numpy(x)
    with torch.no_grad():
        theirs = module(tokens, tokens, tokens)[0].numpy()
    difference = np.abs(from_torch(x) - theirs).max()
    print(f"largest difference to the module: {difference:.0e}")
else:
    print("PyTorch is not installed: this part was left out.")

# %%
# Its conditions
# --------------
#
# The theorem of Chen and Li asks for heads that are incoherent, of large stable rank and far apart, among others. The
# thresholds are this toolkit's own: the constants of the theorem are not known to us. A violated condition says that
# the theorem is silent, not that the layer is hard.

from attention import check_conditions

print(check_conditions(layer, tokens=3))

# %%
# Learned back
# ------------
#
# A target is the layer together with the distribution of its inputs. Newton has no theorem of its own; what counts is
# the error on fresh examples.

from arena import layer_target, learn

target = layer_target(layer, tokens=3, name="mine")
learned = learn(target, "newton", seed=1)
print(learned)

# %%
# The fitted layer is a layer like any other. Heads are determined up to their order only, so they are matched before
# they are compared.

from attention import parameter_errors

errors = parameter_errors(learned.layer, layer)
print("Theta:", errors.theta)
print("W:    ", errors.w)

# %%
# ``learned.save("fitted.safetensors")`` writes it as a file that every command reads.

# %%
# Beside other learners
# ---------------------
#
# Least squares on the token and the mean token is what no attention at all can reach.

from arena import compare

results = compare([target], "newton,linear,known-part")
results

# %%
# Newton converges quadratically near the end, which shows against the time; its examples are drawn at the start.

results.plot("mine", against="seconds")
