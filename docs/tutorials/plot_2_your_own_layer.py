r"""
2. Your own layer
=================

Does a layer of your own satisfy the conditions under which learning is proved to be possible? Can it be learned back,
whatever they say? From plain arrays, and from a PyTorch module that is trained on this page. Runs in about half a
minute.
"""

# %%
# From arrays
# -----------
#
# A layer is two arrays of shape (m, d, d), for m heads and d coordinates: :math:`\Theta_i` makes the logits of head
# i, :math:`W_i` its output. In a trained model they come as products: queries times keys over :math:`\sqrt h`, with h
# the dimension of a head, and values times the output map. Here are random ones, with logits of standard deviation 2.

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
# Heads are determined up to their order only, so they are matched before they are compared.

from attention import parameter_errors

errors = parameter_errors(learned.layer, layer)
print("Theta:", errors.theta)
print("W:    ", errors.w)

# %%
# ``learned.save("fitted.safetensors")`` writes it as a file that every command reads.

# %%
# What the six phases say of it
# -----------------------------
#
# The provable learner says more: phase by phase, how near to the truth it came, and where it would break. The gap in
# the spectrum is the witness of phase 5. The body K is wide in m - 1 directions and thin in all others.

import textwrap

from arena import learn_phases

told = learn_phases(target, "six-phase", seed=1, preset="quick")
for record in told.records:
    errors = ", ".join(f"{label} {error:.2g}" for label, error in record.errors.items())
    print(textwrap.fill(f"Phase {record.number}, {record.state}: {errors}", 90, subsequent_indent="   "))
told.drawings["phase-4-spectrum"]

# %%
# Here it runs as one would run it today ("practical mode"), and Newton steps at the end of phase 6 take the error to
# rounding. ``print(told)`` prints all of them, ``told.save("phases")`` makes a page with every figure.

# %%
# A layer that was trained
# ------------------------
#
# Random matrices are one thing, trained ones another. With PyTorch at hand we train a module for some seconds on a
# task that has to do with one coordinate: every token shall take the mean of those tokens that have the same first
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
# In one example, tokens attend as the task wants it:

if has_torch:
    print("first coordinates:", x[0, :, 0].tolist())
    print(trained.patterns(x[:1].double().numpy())[0, 0].round(2))

# %%
# Inspected
# ---------
#
# What training made of it is the opposite of nice, and the conditions say in what way. Both heads do the same thing
# (incoherence 1, distance near 0) and look at one coordinate only (stable rank 1, all weight in one column).

if has_torch:
    report = check_conditions(trained, tokens=3)
    print(report)

# %%
# The theorem is silent about such a layer. Its learner lives on heads that agree on few rows and differ on the
# others, and these two hardly differ at all. In paper mode it stops, and says where and why.

if has_torch:
    own = layer_target(trained, tokens=3, name="trained")
    paper = learn_phases(own, "six-phase-paper", seed=1, preset="quick")
    for record in paper.records:
        print(f"Phase {record.number}: {record.state}")
    print(textwrap.fill(paper.phases.explanation, 90))

# %%
# Learned back, all the same
# --------------------------
#
# A theorem that is silent is no lower bound. Newton recovers this layer to the last digits. That is one measurement,
# and no promise for other layers.

if has_torch:
    learned = learn(own, "newton", seed=0)
    print(learned)
    print("heads, worst error in Theta:", parameter_errors(learned.layer, trained).theta.max())

# %%
# Beside other learners
# ---------------------
#
# Back to the random layer. Least squares on the token and the mean token is what no attention at all can reach.

from arena import compare

results = compare([target], "newton,linear,known-part")
results

# %%
# Newton converges quadratically near the end, which shows against the time; its examples are drawn at the start.

results.plot("mine", against="seconds")

# %%
# A trained module gets to the command line as a file: after ``save_layer("own.safetensors", trained)``, from
# `attention.save_layer`, ``attention-bounds inspect own.safetensors --tokens 3`` and ``attention-bounds learn
# own.safetensors --tokens 3`` do what this page did. For a checkpoint on disk, see :doc:`/how-to/your-own-model`. Why
# some layers cannot be learned back at all, as far as is known: :doc:`plot_3_first_comparison`.
