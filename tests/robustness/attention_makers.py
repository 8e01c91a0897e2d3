"""Layers, inputs and strategies of arguments that the robustness tests of `attention` share."""

import numpy as np
from fuzzing import anything, array, fixed, made
from hypothesis import strategies as st

import attention
from attention import BooleanInputs, ExampleOracle, GaussianInputs, PositionedInputs, SphereInputs


def layer(m=2, d=3, rng=0):
    return attention.make_nice_layer(heads=m, dim=d, rng=rng)


def a_layer(m=2, d=3):
    return made(lambda: layer(m, d), f"<layer {m} {d}>")


def an_oracle(m=2, k=2, d=3):
    return made(lambda: ExampleOracle(layer(m, d), BooleanInputs(k, d), rng=0), f"<oracle {m} {k} {d}>")


def some_inputs(k=2, d=3):
    return anything(
        st.sampled_from(
            [
                fixed(BooleanInputs(k, d)),
                fixed(GaussianInputs(k, d)),
                fixed(SphereInputs(k, d)),
                fixed(PositionedInputs(BooleanInputs(k, d), np.ones((k, d)))),
            ]
        )
    )


def plain(x):
    """Anything array-like in double precision."""
    return np.asarray(x.detach().double() if hasattr(x, "detach") else x, dtype=float)


def precision(*arrays):
    kinds = [str(one.dtype).rpartition(".")[2] for one in arrays if hasattr(one, "dtype")]
    kinds = ["float16" if kind == "bfloat16" else kind for kind in kinds]
    eps = {"float16": 1e-2, "float32": 1e-6}
    # the widest of them is computed in
    return min([eps.get(kind, 1e-14) for kind in kinds if "float" in kind] or [1e-14])


def softmax(z):
    z = np.exp(z - z.max(axis=-1, keepdims=True))
    return z / z.sum(axis=-1, keepdims=True)


def outputs(*names):
    return lambda size: {name: array((size.n, size.k, size.d)) for name in names}
