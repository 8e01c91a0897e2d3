r"""
6. Read a block back
====================

A transformer block is attention, and then a network on every token. Value queries read both. Runs in a few seconds.
"""

# %%
# A block that answers
# --------------------
#
# The learner sees the answers alone. It finds the heads, the width, the activation and the residuals.

from attention import ValueOracle, block_errors, make_nice_block
from upper import BlockByQueries

block = make_nice_block(heads=2, dim=16, width=64, rng=0)
fit = BlockByQueries().fit(ValueOracle(block), rng=1)
print(fit)

# %%
# First the network, then the attention
# -------------------------------------

for step in fit.trace:
    print(f"{step.examples:5} queries: {step.name}")
print(f"{block.network}; worst error of a parameter: {block_errors(fit.details, block).worst:.0e}")

# %%
# A secret behind a network
# -------------------------
#
# Heads that hide a parity are put into a block. Elimination, which solves the parity, does not apply; `block` reads it.

import arena

hidden = arena.block_target(arena.parity_target(heads=2, dim=16), width=32)
results = arena.compare(hidden, "linear,elimination,by-queries,block", isolated=False)
for cell in results.cells:
    print(cell.learner, cell.outcome or cell.message, cell.unknown_part_error or "")

# %%
# :doc:`/explanations/blocks` says why this works.
