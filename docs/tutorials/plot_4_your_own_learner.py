r"""
4. Your own learner
===================

A learner is a frozen dataclass of its parameters with a ``fit``. This page writes one, tests it against the contract of
all learners, and compares it with the built-in ones. Runs in about half a minute.
"""

# %%
# An idea
# -------
#
# Near flat attention, the softmax is linear in its logits:
#
# .. math:: F(X)_a \approx \sum_i \Big(\bar x + x_a \Theta_i \, C\Big) W_i, \qquad
#           C = \frac1k \sum_b x_b^\top (x_b - \bar x),
#
# where :math:`\bar x` is the mean token. So every attention layer is nearly linear in the mean token, and in the
# products of a coordinate of the token with an entry of the symmetric matrix C. A ridge regression on these features
# can learn the first order, and no more, even from unlimited examples.

import numpy as np


def features(x):
    """The mean token, and x_a times C: (n, k, d + d * d (d + 1) / 2)."""
    n, k, d = x.shape
    mean = x.mean(axis=1, keepdims=True)
    covariance = np.einsum("nbi,nbj->nij", x, x - mean) / k
    upper = covariance[:, *np.triu_indices(d)]
    products = x[:, :, :, None] * upper[:, None, None, :]
    mean = np.broadcast_to(mean, x.shape)
    return np.concatenate([mean, products.reshape(n, k, -1)], axis=2)


# %%
# A learner
# ---------
#
# ``minimum_examples`` is the least number of examples that ``fit`` needs. `attention.check_budget` compares the budget
# with it and with what the oracle has. `attention.draw_examples` refuses examples that are not finite or have a wrong
# shape. The recorder keeps the time, the number of examples and the trace. The ground truth measures and never helps.

from dataclasses import dataclass

from attention import Outcome, Recorder, check_budget, draw_examples


@dataclass(frozen=True)
class CubicRidge:
    """Ridge regression on what the first order of the softmax is linear in.

    Best of its class up to the penalty; no theorem says how good the
    class is.
    """

    examples: int = 1500
    penalty: float = 1e-6

    def __post_init__(self):
        if self.examples < 0:
            raise ValueError("examples is negative: at least 0 is needed.")

    def minimum_examples(self, tokens, dim):
        return 1

    def fit(self, oracle, *, rng=None, truth=None, progress=None):
        recorder = Recorder(oracle, truth=truth, progress=progress)
        x, y = draw_examples(oracle, check_budget(self, oracle))
        a = np.concatenate(features(x))
        b = np.concatenate(y)
        gram = a.T @ a + self.penalty * len(a) * np.eye(a.shape[1])
        solution = np.linalg.solve(gram, a.T @ b)

        def predict(x):
            return features(x) @ solution

        recorder.step("Ridge regression", predict=predict)
        return recorder.fit(Outcome.BEST_OF_CLASS, predict=predict)


# %%
# The contract
# ------------
#
# `attention.testing.check_learner` tests it. The same seed must give the same bits, measured or not. The budget must be
# kept. The outcome must claim no more than fresh examples confirm. Wrong input must be an error with a sentence.

from attention import BooleanInputs, make_nice_layer
from attention.testing import check_learner

layer, inputs = make_nice_layer(heads=1, dim=4, rng=0), BooleanInputs(tokens=2, dim=4)
fit = check_learner(CubicRidge(examples=300), layer, inputs)
print(fit.outcome.name)

# %%
# Beside the others
# -----------------
#
# `arena.compare` takes learners of your own together with names. The first two targets differ in how far attention is
# from flat: sigma is the standard deviation of a logit.

from arena import compare, nice_target, parity_target

shape = {"heads": 2, "tokens": 3, "dim": 8, "seed": 1}
targets = [
    nice_target(**shape, sigma=0.3, name="nearly flat"),
    nice_target(**shape, sigma=2.0, name="sharp"),
    parity_target(heads=2, dim=10, seed=2),
]
results = compare(targets, [CubicRidge(), "newton", "linear", "known-component"])
results

# %%
# If attention is nearly flat, the first order is most of the layer, and the regression has an error of a few per cent.
# If attention is sharp, it misses much (measured). On the parity it must fail: its features are polynomials of degree
# three in the entries of X, and the certificate says at which degree the hidden part begins:

import textwrap

for line in targets[2].record.certificate:
    if "lowest degree" in line.name:
        print(textwrap.fill(str(line), 72))

# %%

results.plot()
