"""However an array is laid out, and whatever library it is of, the result is that of a plain copy."""

import copy
import dataclasses
import importlib.util
import inspect
import itertools
import types
from collections.abc import Mapping
from functools import partial

import numpy as np
import pytest

import attention
import lower
import lwe
import sq
import upper
import upper.linear_attention as linear
from attention import AttentionLayer, BooleanInputs, ExampleOracle

pytestmark = [pytest.mark.bad_input, pytest.mark.extras]


def read_only(a):
    a = a.copy()
    a.flags.writeable = False
    return a


def tensor(dtype=None, grad=False):
    def convert(a):
        import torch

        made = torch.from_numpy(np.ascontiguousarray(a).copy())
        made = made.to(getattr(torch, dtype)) if dtype and made.is_floating_point() else made
        return made.requires_grad_() if grad and made.is_floating_point() else made

    return convert


NUMPY = {
    "by columns": np.asfortranarray,
    "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "backwards in memory": lambda a: np.ascontiguousarray(a[::-1])[::-1],
    "read-only": read_only,
    "other byte order": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "masked": np.ma.masked_array,
    "float32": lambda a: a.astype(np.float32) if a.dtype.kind == "f" else a,
    "long double": lambda a: a.astype(np.longdouble) if a.dtype.kind == "f" else a,
}
LISTS = {"list": lambda a: a.tolist()}
TENSORS = {"tensor": tensor(), "float32 tensor": tensor("float32"), "tensor with gradient": tensor(grad=True)}
TENSORS = TENSORS if importlib.util.find_spec("torch") else {}
DRESSES = NUMPY | LISTS | TENSORS

# methods, and how they are reached from arrays
THETA, W, TOKENS = np.random.default_rng(0).standard_normal((3, 2, 4, 4))
LAYER, INPUTS = attention.make_nice_layer(heads=2, dim=3, rng=0), BooleanInputs(2, 3)
X, Y = ExampleOracle(LAYER, INPUTS, rng=0).draw(60)
VALUES, TENSOR = Y.sum(axis=1), np.ones((1, 2, 2, 2))
PARITY = sq.ParityFamily(dim=5, bits=2, construction="B")
SMALL = lwe.LWEParameters(n=4, q=8, p=2)
SAMPLES, _ = lwe.make_samples(SMALL, 60, rng=0)
KNOWN = lower.KnownComponent(mixing=np.ones((2, 2)), projection=np.eye(3))


def layer(theta, w):
    return AttentionLayer(theta=theta, w=w)


KEPT = [
    partial(lambda theta, w, x: layer(theta, w)(x), theta=THETA, w=W, x=TOKENS),
    partial(lambda theta, w, x: layer(theta, w).logits(x), theta=THETA, w=W, x=TOKENS),
    partial(lambda theta, w, x: layer(theta, w).patterns(x), theta=THETA, w=W, x=TOKENS),
    partial(attention.attention_pattern, logits=THETA),
    partial(lambda v, q, x: linear.LinearAttention(v=v, q=q)(x), v=THETA, q=W, x=TOKENS),
    partial(linear.cubic_features, x=X),
    partial(linear.softmax_features, x=X, kind="plain"),
    partial(KNOWN.__call__, x=X),
    partial(dataclasses.replace(KNOWN, gate=0, off=KNOWN).__call__, x=X),
]
WIDENED = {"__call__"}  # single precision of NumPy becomes double
GIVEN = [
    partial(attention.PositionedInputs, inputs=INPUTS, positions=np.ones((2, 3))),
    partial(ExampleOracle.from_arrays, x=X, y=Y),
    partial(attention.unknown_part_error, predicted=X, target=Y, known=None),
    partial(upper.certify_layer, layer=LAYER, x=X),
    partial(upper.gauss_newton, x=X, y=Y, start=np.eye(3)[None], rng=np.random.default_rng(0)),
    partial(linear.certify, data=X, domain=X),
    partial(linear.cubic_kernel, x=X, other=X),
    partial(linear.heads_of_tensor, tensor=TENSOR),
    partial(linear.regress, x=X, y=VALUES),
    partial(lower.solve_gf2, matrix=np.eye(3), bits=np.ones(3)),
    partial(PARITY.hidden, number=0, x=BooleanInputs(2, 5).sample(3, rng=0)),
    partial(sq.GroupQuery, numbers=np.array([0]), weights=np.array([1.0])),
    partial(sq.sq_dimension, gram=sq.gram_matrix(PARITY), correlation=0.3),
    partial(lwe.LWRSamples, public=SAMPLES.public, labels=SAMPLES.labels),
]
CALLS = KEPT + GIVEN


def result_of(call, dress):
    """The result with all arrays dressed; a ValueError if it is refused."""
    given = {name: copy.deepcopy(value) for name, value in call.keywords.items()}
    arrays = {name: dress(one) for name, one in given.items() if isinstance(one, np.ndarray)}
    before = {name: np.array(plain(one)) for name, one in arrays.items()}
    seeds = {"rng": 0} if "rng" in inspect.signature(call.func).parameters and "rng" not in given else {}
    found = call.func(**given | arrays | seeds)
    found = list(itertools.islice(found, 2)) if isinstance(found, types.GeneratorType) else found
    for name, one in arrays.items():
        assert np.array_equal(plain(one), before[name]), f"{name} was changed"
    return found


def plain(one):
    return np.asarray(one.detach() if hasattr(one, "detach") else one, dtype=float)


def parts(value, where="result"):
    """The arrays and numbers of a result, by where they stand."""
    if isinstance(value, float | np.number | np.ndarray) or hasattr(value, "detach"):
        yield where, value
    elif isinstance(value, Mapping | tuple | list):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, one in items:
            yield from parts(one, f"{where}[{key}]")
    elif dataclasses.is_dataclass(value):
        for one in dataclasses.fields(value):
            if one.name != "seconds":
                yield from parts(getattr(value, one.name), f"{where}.{one.name}")


def rounded(a):
    """The array with entries that single precision holds."""
    return a.astype(np.float32).astype(float) if a.dtype.kind == "f" else a


def assert_same(found, wanted, single):
    found, wanted = dict(parts(found)), dict(parts(wanted))
    assert found.keys() == wanted.keys()
    for where, one in wanted.items():
        a, b = plain(found[where]), plain(one)
        size = np.abs(b[np.isfinite(b)]).max(initial=0)
        tolerance = 2e-4 if single else 1e-7
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * size, err_msg=where)


@pytest.mark.parametrize("call", CALLS, ids=[one.func.__qualname__ for one in CALLS])
def test_every_layout_and_type_gives_the_result_of_a_plain_copy_or_is_refused(call):
    """Where arrays of any library go in, arrays of that library come out."""
    wanted = result_of(call, rounded)
    for name, dress in (DRESSES if call in GIVEN else NUMPY | TENSORS).items():
        try:
            found = result_of(call, lambda a, dress=dress: dress(rounded(a)))
        except ValueError:
            assert name == "masked" or (call in GIVEN and name in (*LISTS, *TENSORS)), f"{name} is refused"
            continue
        assert_same(found, wanted, single="float32" in name)
        for where, one in parts(found) if call in KEPT and name != "masked" else ():
            assert type(one) is (type(TENSORS["tensor"](X)) if name in TENSORS else np.ndarray), (
                f"{name}: {where}"
            )
            single = "float32" in name and call.func.__name__ not in WIDENED
            assert not single or "float32" in str(one.dtype), f"{name}: {where}"
