"""Faults in the library that several claims must detect."""

from dataclasses import replace

import numpy as np

from paper_checks.faults import Fault, given, returned

__all__ = [
    "EQUATION_LOST",
    "HALF_LOGITS",
    "NEGATED_LOGITS",
    "NO_ONE_OVER_K",
    "NO_PADS",
    "ONE_WEIGHT",
    "OPPOSITE_SECRET",
    "REPLIES_NEAR_ONE",
    "REVERSED_COEFFICIENTS",
]

EQUATION_LOST = Fault(
    "lower.gf2:solve_gf2",
    lambda right: lambda equations, bits: right(equations[1:], bits[1:]),
    "elimination without the first equation",
)
HALF_LOGITS = Fault(
    "attention.layer:attention_pattern", given(lambda logits: logits / 2), "the softmax of half the logits"
)
NEGATED_LOGITS = Fault(
    "attention.layer:attention_pattern", given(lambda logits: -logits), "the softmax of the negated logits"
)
NO_ONE_OVER_K = Fault(
    "upper.six_phase.phase1_projection_sum:_correlate",
    lambda right: lambda x, y: (x.shape[1] * right(x, y)[0], right(x, y)[1]),
    "phase 1 without the factor 1/k",
)
NO_PADS = Fault(
    "lwe.heads:lwr_heads",
    returned(
        lambda stairs: replace(
            stairs,
            thresholds=stairs.thresholds[1:-1],
            coefficients=stairs.coefficients[1:-1],
            slopes=np.asarray(stairs.slopes)[1:-1],
        )
    ),
    "the heads without the pads",
)
ONE_WEIGHT = Fault(
    "upper.linear_attention.features:_weights",
    lambda right: lambda d: np.ones_like(right(d)),
    "features of weight 1 off the diagonal, too",
)
OPPOSITE_SECRET = Fault(
    "lwe.attacks.attack:_judge",
    lambda right: (
        lambda result, finding, *rest: right(result, replace(finding, secret=-finding.secret), *rest)
    ),
    "the secret found with the opposite sign",
)
REPLIES_NEAR_ONE = Fault(
    "sq.adversaries:ReferenceAdversary._choose",
    lambda right: lambda self, values, many, reference, group: right(self, values, many, 1.0, group),
    "replies near 1 in place of 0",
)
REVERSED_COEFFICIENTS = Fault(
    "sq.parities:parity_heads",
    returned(lambda heads: replace(heads, coefficients=heads.coefficients[::-1])),
    "the heads' coefficients in reverse order",
)
