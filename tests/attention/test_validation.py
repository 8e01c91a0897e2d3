"""Constraints declared in annotations: each kind accepts, converts and refuses, and so do those who use them."""

import ast
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from jaxtyping import Float, Int, Shaped

import attention
import upper
from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    GroundTruth,
    Inputs,
    Recorder,
    make_nice_layer,
)
from attention.projections import Projections
from attention.validation import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Real,
    Whole,
    bad_values,
    check,
    checked,
    constraints,
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


@pytest.mark.parametrize(("annotation", "right", "wrong"), KINDS, ids=[str(kind[0]) for kind in KINDS])
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
    for value in bad_values(plain).get("x", []):
        with pytest.raises(ValueError, match=r"^x is .* needed\.$"):
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
    for arguments, words in (((0, 1), "n is 0"), ((1, 2), "share is 2.0"), ((3, 1), "is above 2")):
        with pytest.raises(ValueError, match=words):
            Pair(*arguments)


def test_a_call_that_does_not_fit_the_signature_is_a_type_error():
    with pytest.raises(TypeError):
        make_nice_layer(heads=1)


def test_huge_and_long_values_are_shortened():
    with pytest.raises(ValueError, match=r"^x is '(a{60,80}) \.\.\.: a whole number"):
        check("x", "a" * 1000, Whole())
    with pytest.raises(ValueError, match=r"x is 10\^\d+: "):
        check("x", 2**4000, Whole(0, 3))


LAYER, INPUTS = make_nice_layer(heads=2, dim=3, rng=0), BooleanInputs(2, 3)
MAPS = dict.fromkeys(("query", "key", "value", "output"), np.eye(3))
SIZES = {"heads": 3, "dim": 4}
# arguments that are right; classes that need at most m are called without an entry
RIGHT: dict[str, dict[str, Any]] = {
    "read_checkpoint_layer": {"path": "none", "layer": 0, "heads": 2},
    "check_conditions": {"layer": LAYER, "tokens": 2, "thresholds": {"theta_trace": 0.5}},
    "convert_projections": {"projections": Projections(**MAPS), "heads": 1},
    "layer_parameters": {"projections": Projections(**MAPS), "heads": 1},
    "Projections": MAPS,
    "write_tensors": {"path": "none/none", "kind": "some", "tensors": {}, "metadata": {}},
    "read_tensors": {"path": "none", "kind": "some"},
    "read_arrays": {"path": "none", "names": ["a"]},
    "save_layer": {"path": "none/none", "layer": LAYER, "inputs": INPUTS, "made": {}},
    "make_nice_layer": SIZES,
    "make_block_diagonal_layer": SIZES | {"block": 2},
    "make_low_rank_layer": SIZES | {"rank": 2, "w_rank": 2},
    "make_close_heads_layer": SIZES | {"gap": 0.5},
    "make_repeated_singular_values_layer": SIZES,
    "make_affinely_dependent_layer": SIZES,
    "make_transformer_shaped_layer": SIZES | {"rank": 2},
    "BooleanInputs": {"k": 2, "d": 3},
    "SliceInputs": {"blocks": [2], "weights": [[1]]},
    "PositionedInputs": {"inputs": INPUTS, "positions": np.ones((2, 3))},
    "ConstantCoordinateInputs": {"inputs": INPUTS},
    "sinusoidal_positions": {"k": 2, "d": 3},
    "AttentionLayer": {"theta": TWO[None], "w": TWO[None]},
    "GroundTruth": {"layer": LAYER, "x": np.ones((1, 2, 3)), "known": LAYER},
    "parameter_errors": {"fitted": LAYER, "truth": LAYER},
}
METHODS = [
    (ExampleOracle, ExampleOracle.__init__, {"target": LAYER, "inputs": INPUTS}),
    (ExampleOracle.from_arrays, ExampleOracle.from_arrays, {"x": TWO[None], "y": TWO[None]}),
    (LAYER.map, AttentionLayer.map, {"convert": a_function}),
    (GroundTruth.draw, GroundTruth.draw, {"layer": LAYER, "inputs": INPUTS}),
    (Recorder, Recorder.__init__, {"oracle": ExampleOracle(LAYER, INPUTS)}),
]


def checked_subjects():
    """The public functions and classes under ``@checked`` whose right arguments are known."""
    for package in (attention, upper):
        folder = Path(package.__file__).parent
        for path in sorted(folder.rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for node in tree.body:
                if not any(
                    getattr(one, "id", "") == "checked" for one in getattr(node, "decorator_list", ())
                ):
                    continue
                module = ".".join((package.__name__, *path.relative_to(folder).with_suffix("").parts))
                subject = getattr(importlib.import_module(module), node.name)
                if node.name in RIGHT or (isinstance(subject, type) and needed_fields(subject) <= {"m"}):
                    yield subject


def needed_fields(subject):
    fields = vars(subject).get("__dataclass_fields__", {})
    return {name for name in fields if name not in vars(subject) and name in constraints(subject)}


def right_arguments(subject):
    return RIGHT.get(subject.__name__, {"m": 2} if "m" in constraints(subject) else {})


SUBJECTS = [
    *(
        (subject, subject, RIGHT.get(subject.__name__, {"m": 2} if "m" in constraints(subject) else {}))
        for subject in checked_subjects()
    ),
    *METHODS,
]


@pytest.mark.parametrize(
    ("call", "subject", "right"), SUBJECTS, ids=[one.__qualname__ for _, one, _ in SUBJECTS]
)
def test_every_bad_value_of_every_argument_is_refused_by_name(call, subject, right, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if call not in (attention.read_checkpoint_layer,) and "path" not in right:
        call(**right)
    refused = 0
    for name, values in bad_values(subject).items():
        for value in values:
            with pytest.raises(ValueError, match=rf"^{name} is "):
                call(**right | {name: value})
            refused += 1
    assert refused
