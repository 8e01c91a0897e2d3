"""Constraints declared in annotations: each kind accepts, converts and refuses, and so do those who use them."""

import gc
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from jaxtyping import Float, Int, Shaped

from attention import AttentionLayer, BooleanInputs, Inputs
from attention.validation import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Real,
    Whole,
    checked,
)

pytestmark = pytest.mark.bad_input
TWO = np.ones((2, 2))


def a_function(value):
    return value


# annotation: values with what they become, and values that are refused with a part of the error
KINDS = [
    (
        PositiveInt,
        [(3, 3), (np.int8(3), 3), (2**70, 2**70)],
        [
            (0, "x is 0: a whole number of at least 1"),
            (True, "x is True"),
            (1.0, "x is 1.0"),
            ("1", "x is '1'"),
        ],
    ),
    (NonNegativeInt, [(0, 0)], [(-1, "at least 0")]),
    (Annotated[int, Whole(2, 4)], [(4, 4)], [(5, "x is 5: a whole number of at least 2 and of at most 4")]),
    (int, [(-5, -5)], [(0.5, "a whole number")]),
    (
        PositiveFloat,
        [(1, 1.0), (np.float32(0.5), 0.5), (np.array(2), 2.0)],
        [
            (0, "above 0"),
            (np.inf, "x is inf"),
            (np.nan, "finite"),
            (np.array([1.0]), "x is"),
            (np.array(True), "x is"),
            (True, "x is True"),
            ("0.5", "x is '0.5'"),
        ],
    ),
    (NonNegativeFloat, [(0, 0.0)], [(-1e-9, "at least 0")]),
    (
        Annotated[float, Real(above=0, most=1)],
        [(1, 1.0)],
        [(0.0, "above 0 and of at most 1"), (1.5, "x is 1.5")],
    ),
    (Annotated[float, Real(below=1)], [(-9, -9.0)], [(1, "below 1")]),
    (float, [(-2, -2.0)], [(1j, "a finite number"), (10**400, "a finite number")]),
    (Literal["a", 2], [("a", "a"), (2, 2)], [("b", "x is 'b': 'a' or 2"), (2.0, "x is 2.0")]),
    (bool, [(True, True), (np.bool_(False), False)], [(1, "True or False"), ("True", "True or False")]),
    (str, [("a", "a")], [(1, "a text"), (b"a", "a text")]),
    (Inputs, [(BooleanInputs(2, 2), BooleanInputs(2, 2))], [(2, "an Inputs"), (TWO, "of the type ndarray")]),
    (PositiveInt | None, [(None, None), (2, 2)], [(0, "x is 0: .* or None"), ("a", "x is 'a'")]),
    (
        tuple[PositiveInt, ...],
        [([1, 2], (1, 2)), ((), ()), (np.arange(1, 3), (1, 2))],
        [([1, 0], "x is a sequence with 0"), (3, "x is 3"), ("12", "x is '12'"), (np.array(3), "x is")],
    ),
    (Sequence[str], [(["a"], ("a",))], [("a", "x is 'a'"), ([1], "a sequence with 1")]),
    (
        Mapping[str, PositiveInt],
        [({"a": 1}, {"a": 1})],
        [({"a": 0}, "x is a mapping to 0"), ({1: 1}, "x is {1: 1}"), ([], "a mapping from texts")],
    ),
    (Callable[[int], int], [(a_function, a_function)], [(3, "a function")]),
    (Any, [(3, 3), (None, None)], []),
    (object, [("a", "a")], []),
]


@pytest.mark.parametrize(("annotation", "right", "wrong"), KINDS)
def test_every_kind_converts_what_fits_and_refuses_the_rest(annotation, right, wrong):
    def plain(x):
        return x

    plain.__annotations__ = {"x": annotation}
    use = checked(plain)
    for value, made in right:
        found = use(value)
        assert found == made
        assert type(found) is type(made)
    for value, words in wrong:
        with pytest.raises(ValueError, match=words):
            use(value)


class TestArrays:
    def test_numpy_arrays_are_doubles_and_lists_are_read(self):
        def use(x: Float[np.ndarray, "n d"], w: Float[np.ndarray, "d 2"], i: Int[np.ndarray, " n"]) -> Any:
            return x, w, i

        x, w, i = checked(use)([[1, 2, 3]], np.ones((3, 2), np.float32), [4])
        assert x.dtype == w.dtype == np.float64
        assert i.dtype.kind == "i"
        for wrong, words in [
            ((np.ones((1, 3)), np.ones((2, 2)), [4]), r"w is an array of shape \(2, 2\), where d is 3"),
            ((np.ones((1, 2)), np.ones((2, 3)), [4]), r"w is an array of shape \(2, 3\)"),
            ((np.ones(2), TWO, [4]), r"x is an array of shape \(2,\): .* of shape \(n, d\) is needed"),
            ((np.ones((0, 2)), TWO, []), r"x is an array of shape \(0, 2\)"),
            ((np.full((1, 2), np.nan), TWO, [4]), "x is an array with NaN or infinite"),
            ((TWO[:1] * 1j, TWO, [4]), "x is an array of complex128"),
            ((TWO[:1], TWO, [0.5]), "i is an array of float64: an array of finite whole numbers"),
            (([[1], [1, 2]], TWO, [4]), "x is of the type list"),
        ]:
            with pytest.raises(ValueError, match=words):
                checked(use)(*wrong)

    def test_arrays_of_any_library_stay_there(self):
        torch = pytest.importorskip("torch", reason="PyTorch is an extra")

        def use(x: Shaped[Any, "n d d"]) -> Any:
            return x

        tensor, single = torch.ones((2, 3, 3)), np.ones((1, 2, 2), np.float32)
        assert checked(use)(tensor) is tensor
        assert checked(use)(single) is single
        for wrong, words in [
            (torch.ones((2, 3, 4)), "where d is 3"),
            (torch.full((1, 1, 1), torch.nan), "NaN"),
            ([[[1.0]]], "of the type list"),
        ]:
            with pytest.raises(ValueError, match=words):
                checked(use)(wrong)


def test_fields_of_a_dataclass_are_held_before_its_own_checks():
    @dataclass(frozen=True)
    @checked
    class Base:
        n: PositiveInt

    @dataclass(frozen=True)
    @checked
    class Pair(Base):
        share: Annotated[float, Real(least=0, most=1)] = 0.5

        def __post_init__(self) -> None:
            if self.share * self.n > 2:
                raise ValueError("share * n is above 2: at most 2 is needed.")

    assert Pair(np.int64(2), 1) == Pair(2, 1.0)

    @dataclass(frozen=True)
    @checked
    class Triple(Pair):
        more: PositiveInt = 1

    for arguments, words in (((0, 1), "n is 0"), ((1, 2), "share is 2.0"), ((3, 1), "is above 2")):
        for kind in (Pair, Triple):
            with pytest.raises(ValueError, match=words):
                kind(*arguments)


def test_an_argument_that_may_be_none_keeps_no_value_alive():
    gc.disable()  # which would find a cycle
    try:
        layer = AttentionLayer(*np.zeros((2, 1, 3, 3)))  # key_bias is None: its other annotation refuses that
        gone = weakref.ref(layer.theta)
        del layer
        assert gone() is None
    finally:
        gc.enable()
