"""Distributions of tokens in `attention`, made and drawn from with what a user may give by mistake."""

import math

import numpy as np
import pytest
from attention_makers import some_inputs
from fuzzing import (
    Argument,
    Given,
    Sizes,
    Subject,
    anything,
    array,
    assert_finite,
    real,
    seed,
    whole,
)
from hypothesis import strategies as st

import attention
from attention import (
    BooleanInputs,
    ConstantCoordinateInputs,
    GaussianInputs,
    PositionedInputs,
    SliceInputs,
    SphereInputs,
)


def sample_is_right(result, given):
    n, inputs = int(given["n"]), given["inputs"]
    assert result.shape == (n, inputs.k, inputs.d)
    assert result.dtype == np.float64
    assert_finite(result)
    entries_are_right(result, inputs)


def entries_are_right(x, inputs):
    """What each distribution promises of every draw."""
    match inputs:
        case BooleanInputs():
            np.testing.assert_allclose(np.abs(x), 1, atol=1e-12)
        case SphereInputs():
            np.testing.assert_allclose((x**2).sum(axis=-1), inputs.d, rtol=1e-12)
        case SliceInputs():
            assert set(np.unique(x)) <= {0.0, 1.0, -1.0}
        case PositionedInputs():
            entries_are_right(x - inputs.positions, inputs.inputs) if np.abs(
                inputs.positions
            ).max() < 10 else None
        case ConstantCoordinateInputs():
            assert (x[..., -1] == 1).all()
            entries_are_right(x[..., :-1], inputs.inputs)


def shape_is_kept(result, given):
    assert (result.k, result.d) == (int(given["k"]), int(given["d"]))


def positions_are_right(result, given):
    assert result.shape == (int(given["k"]), int(given["d"]))
    scale, (k, d) = float(given["scale"]), result.shape
    wanted = np.array(
        [
            [(math.cos if j % 2 else math.sin)(a / 10000 ** (2 * (j // 2) / d)) for j in range(d)]
            for a in range(k)
        ]
    )
    np.testing.assert_allclose(result, scale * wanted, rtol=1e-9, atol=1e-12 * scale)


def sampled(inputs, n, rng):
    return inputs.sample(n, rng=rng)


def samplers(kind, make, **how):
    return Subject(
        f"attention.{kind}.sample",
        sampled,
        lambda size: {
            "inputs": Argument(
                st.just(Given(kind, lambda: make(size))), st.just(Given(kind, lambda: make(size)))
            ),
            "n": whole(0, 6),
            "rng": seed(),
        },
        right=sample_is_right,
        **how,
    )


def slice_inputs(size: Sizes):
    return SliceInputs((size.d, 1), tuple((size.d // 2, 1) for _ in range(size.k)))


SUBJECTS = [
    *[
        Subject(f"attention.{kind.__name__}", kind, {"k": whole(), "d": whole()}, right=shape_is_kept)
        for kind in (BooleanInputs, GaussianInputs, SphereInputs)
    ],
    Subject(
        "attention.SliceInputs",
        SliceInputs,
        {"blocks": anything((2, 3)), "weights": anything(((1, 2), (0, 3)))},
        right=lambda result, given: sample_is_right(result.sample(2, rng=0), {"n": 2, "inputs": result}),
        words=("block", "weight"),
    ),
    Subject(
        "attention.PositionedInputs",
        PositionedInputs,
        lambda size: {
            "inputs": some_inputs(size.k, size.d),
            "positions": array((size.k, size.d), torch=False),
        },
        right=lambda result, given: sample_is_right(result.sample(2, rng=0), {"n": 2, "inputs": result}),
    ),
    Subject(
        "attention.ConstantCoordinateInputs",
        ConstantCoordinateInputs,
        {"inputs": some_inputs()},
        right=lambda result, given: sample_is_right(result.sample(2, rng=0), {"n": 2, "inputs": result}),
    ),
    samplers("BooleanInputs", lambda size: BooleanInputs(size.k, size.d)),
    samplers("GaussianInputs", lambda size: GaussianInputs(size.k, size.d)),
    samplers("SphereInputs", lambda size: SphereInputs(size.k, size.d)),
    samplers("SliceInputs", slice_inputs),
    Subject(
        "attention.sinusoidal_positions",
        attention.sinusoidal_positions,
        {"k": whole(), "d": whole(), "scale": real()},
        right=positions_are_right,
    ),
    samplers(
        "ConstantCoordinateInputs", lambda size: ConstantCoordinateInputs(BooleanInputs(size.k, size.d))
    ),
    samplers(
        "PositionedInputs",
        lambda size: PositionedInputs(GaussianInputs(size.k, size.d), np.ones((size.k, size.d))),
    ),
    # a distribution of enormous matrices is made at once, and refused when it is to be drawn from
    samplers(
        "BooleanInputs.of many coordinates",
        lambda size: BooleanInputs(*((10**6, 10**9) if size.n > 1 else (1, 1))),
        refuses=True,
    ),
]


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)
