r"""
1. A layer hidden, and learned
==============================

What the problem is; a nice layer; what it looks like; how it is learned from examples, by the learner that one would
run and by the one that has a theorem. Runs in about ten seconds.
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
# A learner sees examples :math:`(X, F(X))` for random X and nothing else. It must predict F on fresh X. This is
# learning from examples as in PAC learning; here the distribution of X is known, and the labels are exact unless
# noise is asked for.
#
# Two things are known about it. If the heads are in general position, in a sense made precise by Chen and Li (arXiv
# 2402.04084), there is a learner that is proved to succeed in time :math:`(dk)^{O(m^3)}`. In the worst case there is
# none in polynomial time, under an assumption of cryptography. This page is about the first.

# %%
# A nice layer
# ------------
#
# `attention.make_nice_layer` draws the entries of all matrices at random, such that a logit has standard deviation 2.

from attention import BooleanInputs, make_nice_layer

m, k, d = 2, 2, 16
layer = make_nice_layer(heads=m, dim=d, rng=0)
inputs = BooleanInputs(k=k, d=d)
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
# ``patterns`` gives the attention of every head: row a says how token a spreads its attention, and sums to 1. The
# heads of a random layer do not agree: here they are, on one example.

print(layer.patterns(x)[0].round(2))

# %%
# Now and then they do agree. The theorem lives on such rows: where all heads have the same pattern p, the label of
# the row is :math:`p X \sum_i W_i`, and the sum of the projections is all that matters. Agreement up to a tolerance
# in logits has probability of order :math:`\text{tolerance}^{(m-1)(k-1)}`, which is why many heads or tokens are
# expensive. Here the exponent is 1: half the tolerance, half the rows.

import numpy as np

many = layer.patterns(inputs.sample(20_000, rng=2))
logits = np.log(many[..., 0] / many[..., 1])  # (examples, heads, rows)
apart = np.abs(logits[:, 0] - logits[:, 1])
for tolerance in (0.4, 0.2, 0.1):
    print(f"{np.mean(apart < tolerance):.1%} of the rows agree up to {tolerance} logits")

# %%
# Is it nice? `attention.check_conditions` measures what the theorem asks of a layer, as far as that is known to us.
# Random layers meet the conditions better and better as d grows (measured); here all of them hold already.

from attention import check_conditions

report = check_conditions(layer, tokens=k)
print(report)

# %%
# What one of them means, and why the theorem asks for it:

print(report["theta_stable_rank"].explanation)

# %%
# Learned, as one would
# ---------------------
#
# Newton's method on all parameters is the learner to reach for. It has no theorem: what it did is measured, on fresh
# examples.

from arena import layer_target, learn

target = layer_target(layer, tokens=k, name="mine")
learned = learn(target, "newton", seed=2)
print(learned)

# %%
# The fitted layer is a layer. Heads are determined up to their order only, so that they are matched before they are
# compared.

from attention import parameter_errors

print(parameter_errors(learned.layer, layer).theta)

# %%
# Learned, as is proved
# ---------------------
#
# The learner of Chen and Li has six phases and asks for no gradient. Here it keeps to them ("paper mode"); its
# details and all constants are ours. `arena.learn_phases` keeps what each phase found. Each phase has a record;
# `errors` says how far it is from the truth:

from arena import learn_phases

told = learn_phases(target, "six-phase-paper", seed=2, preset="quick")
for record in told.records:
    print(f"{record.number}. {record.title}")
    for label, error in record.errors.items():
        print(f"   {label}: {error:.2g}")

# %%
# Follow the error: phase 1 knows the sum of the projections to a tenth, phase 3 to a thousandth; phase 4 then knows
# the span of the heads as well, and phase 6 finds the heads in it. In the figure of phase 3, crosses are the entries
# after phase 1 and dots those after phase 3.

told.drawings["phase-3-sum"]

# %%
# Phase 6 tries every pair of points of a net in that span. Dark is a small error; the two dark spots are one
# solution, as heads have no order.

told.drawings["phase-6-net"]

# %%
# Both learners have learned the layer, and they differ in what one knows and what it costs. The six phases come with
# a theorem (for conditions whose constants we do not know) and hundreds of times the examples; Newton with
# measurements, and all digits.

for name, one in {"Newton": learned, "six phases": told.learned}.items():
    print(f"{name:11}  error {one.error:.0e}  examples {one.fit.examples_used:,}")

# %%
# Side by side
# ------------
#
# `arena.compare` puts learners beside each other, here with least squares on the token and the mean token, which is
# what no attention at all can reach. The table says "learned" up to an error of .001; the net of the last phase comes
# about as near, and could be made finer. "Reached" is that learner's own tolerance.

from arena import compare

results = compare([target], "newton,six-phase-paper,linear")
results

# %%
# The error against the examples drawn, step by step:

results.plot("mine", against="examples")

# %%
# Plain gradient descent does it too: Adam learns such layers, from hundreds of thousands of examples, up to the
# rounding of float32. That a layer is *hard* is another matter: see :doc:`plot_3_first_comparison`. Next: a layer of
# your own, :doc:`plot_2_your_own_layer`.
