"""Every instance and realisation of `sq`, made and verified with what a user may give by mistake."""

import math

import numpy as np
import pytest
from fuzzing import Argument, Subject, array, assert_finite, choice, fixed, real, seed, whole
from hypothesis import strategies as st
from sq_makers import (
    CONSTRUCTION,
    DIRECTION,
    INSTANCE,
    OPTIONAL,
    SLOPES,
    parity,
)

import lower
import sq


def instance_is_right(result, given):
    if result.layer.dim <= 30:
        assert_finite((result.layer.theta, result.layer.w))
        assert lower.verify_instance(result, sq.DEFINITIONS).holds
    if given["secret"] is not None:
        assert sorted(result.secret.tolist()) == sorted(int(one) for one in given["secret"])


def heads_are_right(result, given):
    """sum_i c_i tanh(beta_i (N - t_i)) is c0 + (-1)^N, at every N that the construction sees."""
    bits = given["bits"]
    n = np.arange(-bits if result.construction == "A" else 0, bits + 1)
    with np.errstate(over="ignore"):
        steps = np.tanh(result.slopes * (n[:, None] - result.thresholds))
    missed = np.abs(steps @ result.coefficients - result.c0 - (-1.0) ** n).max()
    assert missed <= result.error() + 1e-12 * (1 + np.abs(result.coefficients).sum())
    assert result.c == pytest.approx(math.fsum(result.coefficients))
    assert result.heads == sq.heads_needed(result.construction, bits)


def number_of_heads_is_right(result, given):
    bits = int(given["bits"])
    assert result == {"A": 2 * bits, "B": bits, "C": bits, "D": bits // 2 + 1}[given["construction"]]


def parity_layer_is_right(result, given):
    """Theta_i = beta_i (sum_{j in S} e_j e_j^T - t_i e_g e_g^T) and W_i = c_i e_g w^T, entry by entry."""
    heads, gate = parity().heads, given["gate"]
    w = np.eye(5)[gate] if given["direction"] is None else np.asarray(given["direction"], float)
    theta, output = np.zeros((heads.heads, 5, 5)), np.zeros((heads.heads, 5, 5))
    for i in range(heads.heads):
        for j in given["secret"]:
            theta[i, int(j), int(j)] = heads.slopes[i]
        theta[i, gate, gate] -= heads.slopes[i] * heads.thresholds[i]
        output[i, gate] = heads.coefficients[i] * w
    np.testing.assert_allclose(result.theta, theta, rtol=1e-12)
    np.testing.assert_allclose(result.w, output, rtol=1e-6, atol=0)


def table_is_right(result, given):
    """Two heads make each of them: the number of targets of the formula is that of the family."""
    for one in result:
        family = one.make(result.dim)
        assert one.targets(result.dim) == family.secrets.size
        assert family.instance(0).layer.heads == 2
    str(result)


def targets_are_right(result, given):
    assert result == math.comb(given["dim"] - 1, 3)


SUBJECTS = [
    Subject(
        "sq.make_parity_instance",
        sq.make_parity_instance,
        {
            "dim": whole(6, 8),
            "bits": Argument(st.sampled_from([fixed(None), fixed(2), fixed(3)]), whole().hostile),
            "construction": CONSTRUCTION,
            "heads": OPTIONAL,
            "beta": Argument(st.just(fixed(None)), real().hostile),
            "slopes": SLOPES,
            "rng": seed(),
            "secret": Argument(
                st.just(fixed(None)), array((2,), of=lambda rng, shape: np.array([1, 3]), torch=False).hostile
            ),
            "direction": Argument(st.just(fixed(None)), array((6,), torch=False).hostile),
        },
        right=instance_is_right,
    ),
    Subject(
        "sq.parity_heads",
        sq.parity_heads,
        {
            "construction": CONSTRUCTION,
            "bits": whole(1, 4),
            "beta": Argument(st.just(fixed(None)), real().hostile),
            "slopes": SLOPES,
        },
        right=heads_are_right,
    ),
    Subject(
        "sq.heads_needed",
        sq.heads_needed,
        {"construction": CONSTRUCTION, "bits": whole()},
        right=number_of_heads_is_right,
    ),
    Subject(
        "sq.ProfileHeads.layer",
        lambda secret, dim, gate, direction: parity().heads.layer(
            secret, dim=dim, gate=gate, direction=direction
        ),
        {
            "secret": array((2,), of=lambda rng, shape: np.array([1, 3]), torch=False),
            "dim": whole(5, 5),
            "gate": choice(0),
            "direction": DIRECTION,
        },
        right=parity_layer_is_right,
    ),
    Subject(
        "sq.define_symmetric",
        lambda instance: sq.define_symmetric(parity(), instance),
        {"instance": INSTANCE},
        right=lambda result, given: assert_finite(result.error()),
        share=0.4,
    ),
    Subject(
        "sq.two_head_families",
        sq.two_head_families,
        {"bits": choice(4, 6), "dim": whole(8, 12)},
        right=table_is_right,
    ),
    Subject(
        "sq.TwoHeadFamily.targets",
        lambda dim: sq.two_head_families()[0].targets(dim),
        {"dim": whole(5, 9)},
        right=targets_are_right,
    ),
]


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)
