"""What the subjects of `upper` share: oracles, examples, arguments, and how a number is compared with a formula."""

import importlib.util
from typing import Any

import numpy as np
from fuzzing import Argument, Given, Subject, anything, array, fixed, made
from hypothesis import strategies as st

from attention import BooleanInputs, ExampleOracle, make_nice_layer

__all__ = [
    "EXAMPLES",
    "OPTIONAL",
    "ORACLE",
    "THETA",
    "TORCH",
    "X",
    "Y",
    "a_number",
    "agrees",
    "bounded",
    "done",
    "given",
    "is_orthonormal",
    "layer",
    "numbers",
    "only",
    "oracle",
    "softmax_attention",
    "with_bounded_work",
]

TORCH = importlib.util.find_spec("torch") is not None
if TORCH:
    import torch  # noqa: F401  (within a case it would count as that case's time and memory)


def layer(m=1, d=3):
    return make_nice_layer(heads=m, dim=d, rng=0)


def oracle(m=1, k=2, d=3):
    return ExampleOracle(layer(m, d), BooleanInputs(k, d), rng=0)


def only(make, label):
    """An argument that is never hostile: what the call is a method of."""
    return Argument(*[st.just(Given(label, make))] * 2)


def given(values):
    """Entries for `array`: those of given values, so that they fit other arguments."""
    return lambda rng, shape: (
        np.broadcast_to(values, shape).copy() if values.shape == shape else values.copy()
    )


ORACLE = made(oracle, "<oracle>")
EXAMPLES = oracle(1, 2, 3).draw(40)
X, Y = (array(one.shape, of=given(one), torch=False) for one in EXAMPLES)
THETA = array((1, 3, 3), torch=False)
OPTIONAL = anything(None)

# what costs time in proportion: a minute of work that was asked for is no hang
_WORK = {
    "work",
    "starts",
    "rounds",
    "lengths",
    "steps",
    "restarts",
    "iterates",
    "draws",
    "samples",
}


def bounded(arguments, *more):
    """The same arguments, amounts of work never huge: who asks for 10^12 passes gets them."""
    few = st.sampled_from([fixed(one) for one in (0, -1, True, None, "3", 1.5, np.int8(3), 2, [])])
    return {
        name: Argument(one.sane, few) if name in _WORK or name in more else one
        for name, one in arguments.items()
    }


def with_bounded_work(subjects, *more):
    """The same subjects, amounts of work never huge."""
    return [
        Subject(
            **{
                **{name: getattr(one, name) for name in one.__dataclass_fields__},
                "arguments": (lambda size, one=one: bounded(one.arguments(size), *more))
                if callable(one.arguments)
                else bounded(one.arguments, *more),
            }
        )
        for one in subjects
    ]


# ------------------------------------------------------------------------------------------- what is right


def done(result, arguments):
    repr(result)


def a_number(result, arguments):
    assert isinstance(result, int)
    assert result >= 0


def numbers(value: Any) -> np.ndarray:
    """The numbers of an array of any library, in the widest type: squares of huge ones are still numbers."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().double().numpy()
    return np.asarray(value, dtype=np.longdouble)


def agrees(found: Any, wanted: Any, *, size: Any = None, rtol: float = 1e-9, what: str = "result") -> None:
    """Numbers agree with those of a formula, up to the rounding of their type.

    `size` is the size of the terms of a sum that may cancel.
    """
    bytes_each = getattr(getattr(found, "dtype", None), "itemsize", 8)
    rtol = 3e-2 if bytes_each <= 2 else 1e-4 if bytes_each <= 4 else rtol
    with np.errstate(all="ignore"):
        found, wanted = numbers(found), numbers(wanted)
        assert found.shape == wanted.shape, f"{what} has shape {found.shape}: {wanted.shape} is right"
        size = wanted if size is None else numbers(size)
        # numbers below the smallest normal one have no digits to be right in
        most = rtol * np.abs(size).max(initial=0) + 1e-300
        off = np.abs(found - wanted).max(initial=0)
    assert off <= most, f"{what} is off by {float(off):.3g}, of numbers up to {float(most / rtol):.3g}"


def is_orthonormal(directions: Any, what: str = "directions", atol: float = 1e-8) -> None:
    """Matrices, or columns of one, of norm 1 and at right angles."""
    rows = np.asarray(directions, float).reshape(len(directions), -1) if len(directions) else np.zeros((0, 1))
    np.testing.assert_allclose(rows @ rows.T, np.eye(len(rows)), atol=atol, err_msg=what)


def softmax_attention(x: Any, theta: Any, w: Any) -> np.ndarray:
    """sum_i softmax(X Theta_i X^T) X W_i, as it is written."""
    x, theta, w = numbers(x), numbers(theta), numbers(w)
    total = np.zeros_like(x)
    with np.errstate(all="ignore"):
        for one, projection in zip(theta, w, strict=True):
            logits = np.einsum("...ad,de,...be->...ab", x, one, x)
            pattern = np.exp(logits - logits.max(axis=-1, keepdims=True))
            pattern /= pattern.sum(axis=-1, keepdims=True)
            total += pattern @ x @ projection
    return total
