"""Layers of `attention`, made, converted, checked and called with what a user may give by mistake."""

import json

import numpy as np
import pytest
from attention_makers import a_layer, layer, plain, precision, softmax
from fuzzing import (
    Argument,
    Given,
    Sizes,
    Subject,
    anything,
    array,
    assert_finite,
    choice,
    fixed,
    made,
    real,
    seed,
    whole,
)
from hypothesis import strategies as st

import attention
from attention import (
    AttentionLayer,
)


def layer_is_right(result, given):
    theta, w = plain(given["theta"]), plain(given["w"])
    assert result.theta.shape == theta.shape
    np.testing.assert_allclose(plain(result.theta), theta, rtol=1e-2, atol=0)
    np.testing.assert_allclose(plain(result.w), w, rtol=1e-2, atol=0)
    assert_finite(result)


def made_layer_is_right(result, given):
    heads, dim = int(given["heads"]), int(given["dim"])
    assert result.theta.shape == result.w.shape == (heads, dim, dim)
    assert result.theta.dtype == np.float64
    assert_finite(result)


def reference(target, x):
    x, theta, w = plain(x), plain(target.theta), plain(target.w)
    logits = np.einsum("...ad,ide,...be->...iab", x, theta, x)
    return logits, np.einsum("...iab,...bd,ide->...ae", softmax(logits), x, w)


def output_is_right(which):
    def right(result, given):
        x, target = given["x"], given["layer"]
        assert_finite(plain(result))
        assert type(result) is type(x) or isinstance(x, np.ndarray)
        logits, outputs = reference(target, x)
        wanted = {"call": outputs, "logits": logits, "patterns": softmax(logits)}[which]
        assert tuple(result.shape) == wanted.shape
        size = float(np.abs(logits).max(initial=1.0))
        # logits in low precision: their rounding, and what the softmax makes of it
        error = precision(x, target.theta) * 50 * max(size, 1.0)
        if error < 0.1:
            np.testing.assert_allclose(
                plain(result), wanted, rtol=error, atol=error * np.abs(wanted).max(initial=0)
            )

    return right


def pattern_is_right(result, given):
    assert_finite(plain(result))
    np.testing.assert_allclose(
        plain(result), softmax(plain(given["logits"])), atol=precision(given["logits"]) * 10
    )


def report_is_right(result, given):
    assert len(result.conditions) == 16
    text = str(result)
    assert "nan" not in text
    json.dumps(result.to_json(), allow_nan=False)


def converted_is_right(result, given):
    assert_finite(result.layer)
    assert all(isinstance(note, str) for note in result.notes)


def made_by(make, **arguments):
    name = make.__name__
    return Subject(f"attention.{name}", make, arguments | {"rng": seed()}, right=made_layer_is_right)


def parameters(size: Sizes):
    return {name: array((size.m, size.d, size.d)) for name in ("theta", "w")}


def layer_and_x(size: Sizes):
    own = Given("<layer>", lambda: layer(size.m, size.d))
    low = Given("<float32 layer>", lambda: layer(size.m, size.d).map(lambda one: one.astype(np.float32)))
    return {
        "layer": Argument(st.just(own), st.sampled_from([own, low])),
        "x": array((size.n, size.k, size.d)),
    }


def mapped_is_right(result, given):
    np.testing.assert_array_equal(
        plain(result.theta), plain(given["convert"](np.array(given["target"].theta)))
    )


def maps(size: Sizes):
    p = 2 * size.m
    shapes = {"query": (p, size.d), "key": (p, size.d), "value": (p, size.d), "output": (size.d, p)}
    biases = {"query_bias": (p,), "output_bias": (size.d,)}
    return {name: array(shape, torch=False) for name, shape in (shapes | biases).items()}


def projections(size: Sizes):
    draw = np.random.default_rng(0).standard_normal
    p, d = 2 * size.m, size.d
    return attention.projections.Projections(
        draw((p, d)), draw((p, d)), draw((p, d)), draw((d, p)), draw(p), None, draw(p)
    )


def a_module():
    import torch

    torch.manual_seed(0)
    return torch.nn.MultiheadAttention(4, 2)


def mapped(target, convert):
    return target.map(convert)


COUNTS = {"heads": whole(), "dim": whole()}
SUBJECTS = [
    Subject("attention.AttentionLayer", AttentionLayer, parameters, right=layer_is_right),
    Subject(
        "attention.AttentionLayer.call", lambda layer, x: layer(x), layer_and_x, right=output_is_right("call")
    ),
    Subject(
        "attention.AttentionLayer.logits",
        lambda layer, x: layer.logits(x),
        layer_and_x,
        right=output_is_right("logits"),
    ),
    Subject(
        "attention.AttentionLayer.patterns",
        lambda layer, x: layer.patterns(x),
        layer_and_x,
        right=output_is_right("patterns"),
    ),
    Subject(
        "attention.AttentionLayer.map",
        mapped,
        {
            "target": Argument(st.just(Given("<layer>", layer)), st.just(Given("<layer>", layer))),
            "convert": anything(fixed(lambda one: one.astype(np.float32), "<to float32>")),
        },
        right=mapped_is_right,
    ),
    Subject(
        "attention.attention_pattern",
        attention.attention_pattern,
        lambda size: {"logits": array((size.m, size.k))},
        right=pattern_is_right,
    ),
    made_by(attention.make_nice_layer, **COUNTS, sigma=real()),
    made_by(attention.make_diagonal_layer, **COUNTS, sigma=real()),
    made_by(
        attention.make_block_diagonal_layer, heads=whole(), dim=whole(3, 5), block=whole(1, 3), sigma=real()
    ),
    made_by(
        attention.make_low_rank_layer,
        heads=whole(),
        dim=whole(3, 5),
        rank=whole(1, 3),
        w_rank=whole(1, 3),
        sigma=real(),
    ),
    made_by(
        attention.make_close_heads_layer, heads=whole(2, 4), dim=whole(3, 5), gap=real(0.0, 1.4), sigma=real()
    ),
    made_by(
        attention.make_repeated_singular_values_layer,
        heads=whole(),
        dim=whole(3, 5),
        multiplicity=whole(2, 3),
        sigma=real(),
    ),
    made_by(attention.make_affinely_dependent_layer, heads=whole(3, 5), dim=whole(3, 5), sigma=real()),
    made_by(
        attention.make_transformer_shaped_layer,
        heads=whole(),
        dim=whole(4, 6),
        rank=whole(1, 3),
        exponent=real(0.0, 1.0),
        incoherence=real(0.0, 0.9),
        strengths=anything((2.0, 8.0)),
    ),
    Subject(
        "attention.check_conditions",
        attention.check_conditions,
        lambda size: {
            "layer": a_layer(size.m, size.d),
            "tokens": whole(),
            "thresholds": anything({"theta_trace": 0.5}),
        },
        right=report_is_right,
    ),
    Subject(
        "attention.check_conditions.of any entries",
        lambda theta, w, tokens: attention.check_conditions(AttentionLayer(theta=theta, w=w), tokens=tokens),
        lambda size: parameters(size) | {"tokens": whole()},
        right=report_is_right,
    ),
    Subject(
        "attention.Projections",
        attention.projections.Projections,
        maps,
        right=lambda result, given: assert_finite(vars(result)),
    ),
    Subject(
        "attention.convert_projections",
        attention.conversion.convert_projections,
        lambda size: {
            "projections": made(lambda: projections(size), "<projections>"),
            "heads": choice(1, 2),
            "scale": real(),
            "biases": choice("dropped", "absorbed"),
            "coordinates": whole(size.d, size.d),
            "notes": anything(()),
        },
        right=converted_is_right,
        words=("theta", "w"),
    ),
    Subject(
        "attention.convert_torch_module",
        attention.convert_torch_module,
        {
            "module": made(a_module, "<module>"),
            "biases": choice("dropped", "absorbed"),
            "coordinates": whole(2, 4),
        },
        right=converted_is_right,
        needs="torch",
    ),
    Subject(
        "attention.AttentionLayer.from_torch",
        AttentionLayer.from_torch,
        {
            "module": made(a_module, "<module>"),
            "biases": choice("dropped", "absorbed"),
            "coordinates": whole(2, 4),
        },
        needs="torch",
    ),
]


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)
