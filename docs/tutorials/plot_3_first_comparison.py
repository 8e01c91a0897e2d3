r"""
3. A first comparison
=====================

Which learner learns which layer, and which layer is learned from examples by none but an attack made for it? Runs in
about fifteen seconds.
"""

# %%
# Three targets
# -------------
#
# Two layers are *nice*: their parameters are random. The third hides a parity of three of its coordinates. All are
# small, so this page runs in seconds.

from arena import compare, nice_target, parity_target

targets = [
    nice_target(heads=1, tokens=2, dim=10, seed=1),
    nice_target(heads=2, tokens=3, dim=12, seed=2),
    parity_target(heads=2, dim=16, seed=3),
]
for target in targets:
    print(f"{target.name}: {target.record.title}")

# %%
# A target says what is known about it in advance and, if it is hard, why. Every statement of a certificate says whether
# it is proved, derived here or measured. These are the proved ones:

import textwrap

hard = targets[2].record
print(textwrap.fill(hard.known, 72))
for statement in hard.certificate:
    if statement.status == "proved":
        print(f"- {statement.name}: {statement.value}")

# %%
# Five learners
# -------------
#
# Newton's method, least squares, the part of the target that is known in advance, and Gaussian elimination, an attack
# on parities only. The fifth asks for :math:`F(X)` at an :math:`X` of its choice. Each runs with two seeds.

learners = ["newton", "linear", "known-component", "elimination", "by-queries"]
results = compare(targets, learners, seeds=2)
results

# %%
# The number is the error on what is *not* known in advance. 1 means that nothing was learned beyond the known
# component, and 1e-15 that every digit was learned. That Newton learns the nice layers is measured. Elimination
# provably finds a noise-free parity from about 2(d + 9) examples, up to one failure in some hundreds of tries. That
# Newton does not find it is only measured: the certificate bounds correlational queries, and Newton looks at the
# examples themselves. The learner that asks value queries finds all three.

# %%
# Pictures
# --------
#
# The same as a heat map. In a notebook it is shown; ``results.plot().save("errors.svg")`` keeps it.

results.plot()

# %%
# The next plot shows one target: the error of each learner against the seconds, or with ``against="examples"`` against
# the examples. The marker shows where the learner ended.

results.plot("nice-2-3-12", against="seconds")

# %%
# Numbers
# -------
#
# One pair of target and learner over its seeds:

summary = results.summary("nice-2-3-12", "newton")
print(summary.verdict, summary.outcome)
print(f"errors from {summary.error_min:.0e} to {summary.error_max:.0e}")

# %%
# ``results.to_pandas()`` is a data frame with a row for each fit, and ``results.only`` a part of the comparison.

# %%
# Keeping it
# ----------
#
# ``save`` writes the record and a page: one HTML file with the figures, every certificate and the data inside, which
# needs no network. ``load`` gives the record back, every float to its last bit.

import tempfile

from arena import Results

with tempfile.TemporaryDirectory() as folder:
    for path in results.save(folder):
        print(f"{path.name}: {path.stat().st_size // 1000} kB")
    assert Results.load(folder) == results

# %%
# ``compare(..., store="runs.sqlite")`` stores every fit as soon as it is done, so an interrupted comparison can resume.
# On the command line all of this is ``attention-bounds compare``.
