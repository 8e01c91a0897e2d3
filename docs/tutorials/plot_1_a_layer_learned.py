r"""
1. A layer hidden, and learned
==============================

Two learners learn a nice layer from examples: the one to use in practice, and the one that has a theorem. Runs in about
ten seconds.
"""

# %%
# The problem
# -----------
#
# A layer of multi-head attention maps a matrix X of k tokens, one a row and each of d coordinates, to k outputs:
#
# .. math:: F(X) = \sum_{i=1}^m \mathrm{softmax}\big(X \Theta_i X^\top\big)\, X W_i .
#
# Head i has an *attention matrix* :math:`\Theta_i`, which decides who attends to whom, and a *projection*
# :math:`W_i`, which decides what is passed on. Both are d x d, and both are hidden. The softmax acts on rows.
#
# A learner sees examples :math:`(X, F(X))` for random X and nothing else, as in PAC learning. It must predict F on
# fresh X. The distribution of X is known, and the labels are exact unless noise is added.
#
# Two results are known. If the layer meets the conditions of Chen and Li (arXiv 2402.04084), k is at most logarithmic
# in d and m far below d, a learner provably succeeds in time :math:`(dk)^{O(m^3)}`. In the worst case no learner
# succeeds in polynomial time, under an assumption of cryptography. This page is about the first result.

# %%
# A nice layer
# ------------
#
# `attention.make_nice_layer` draws the entries of all matrices at random, such that a logit has standard deviation 2.

from attention import BooleanInputs, make_nice_layer

m, k, d = 2, 2, 16
layer = make_nice_layer(heads=m, dim=d, rng=0)
inputs = BooleanInputs(tokens=k, dim=d)
print(layer)
print("unknown numbers:", 2 * m * d**2)

# %%
# The layer is a function. Arrays of any library go in, and the same kind comes out.

x = inputs.sample(1000, rng=1)
y = layer(x)
print(x.shape, "->", y.shape)

# %%
# A look at it
# ------------
#
# ``patterns`` gives the attention of every head. Row a shows how token a distributes its attention; it sums to 1.

print(layer.patterns(x)[0].round(2))

# %%
# On some rows the heads agree, and the theorem uses these rows. If all heads have the same pattern p, the label of the
# row is :math:`p X \sum_i W_i`, which depends only on the sum of the projections. Agreement up to a tolerance in logits
# has probability of order :math:`\text{tolerance}^{(m-1)(k-1)}`. Here the exponent is 1: half the tolerance, half the
# rows. Many heads or tokens are expensive.

import numpy as np

many = layer.patterns(inputs.sample(20_000, rng=2))
logits = np.log(many[..., 0] / many[..., 1])  # (examples, heads, rows)
apart = np.abs(logits[:, 0] - logits[:, 1])
for tolerance in (0.4, 0.2, 0.1):
    print(f"{np.mean(apart < tolerance):.1%} of the rows agree up to {tolerance} logits")

# %%
# Is the layer nice? `attention.check_conditions` measures what the theorem requires of a layer, as far as that is known
# to us. This layer meets all conditions.

from attention import check_conditions

report = check_conditions(layer, tokens=k)
print(report)

# %%
# Learned by Newton's method
# --------------------------
#
# In practice, use Newton's method. It has no theorem. Its error is measured on fresh examples.

from arena import layer_target, learn

target = layer_target(layer, tokens=k, name="mine")
learned = learn(target, "newton", seed=2)
print(learned)

# %%
# Examples do not determine the order of the heads, so heads are matched before they are compared.

from attention import parameter_errors

print(parameter_errors(learned.layer, layer).theta)

# %%
# Learned by the six phases
# -------------------------
#
# The learner of Chen and Li has six phases and uses no gradient. Here it runs in "paper mode", which keeps to these
# phases; details and constants are ours. The trace has a step for each phase, with its errors against the truth:

from arena.views.phases import draw_phases

phases = learn(target, "six-phase-paper", seed=2, preset="quick")
for step in phases.fit.trace:
    print(step.title)
    for name in ("sum_error", "span_error", "unknown_part_error"):
        if name in step.measures:
            print(f"   {name}: {step.measures[name]:.2g}")

# %%
# Phase 1 knows the sum of the projections to a tenth, and phase 3 to a thousandth. Phase 4 then also knows the span of
# the heads, and phase 6 finds the heads in it. In the figure crosses are the entries after phase 1, dots those after
# phase 3.

drawings = draw_phases(phases.fit, layer)
drawings["sum"]

# %%
# Phase 6 tries every pair of points of a net in that span. Dark is a small error. The two dark spots are one solution,
# because heads have no order.

drawings["search"]

# %%
# Both learners have learned the layer. The six phases have a theorem and need hundreds of times as many examples.
# Newton has measurements only, and finds all digits.

for name, one in {"Newton": learned, "six phases": phases}.items():
    print(f"{name:11}  error {one.error:.0e}  examples {one.fit.examples_used:,}")

# %%
# Adam learns such layers too, from hundreds of thousands of examples and up to the rounding of float32.
# :doc:`plot_3_first_comparison` shows a *hard* layer.
