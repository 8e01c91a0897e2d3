"""Keys of cells: equal for equal work in any process, and another for anything that could change the numbers."""

import dataclasses
import enum
import json
import os
import subprocess
import sys
import textwrap
import threading
from importlib.util import find_spec
from pathlib import PurePosixPath

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from arena import STUDENTS, nice_target, parity_target
from arena.identity import cell_key, learner_identity, target_identity, target_stream
from arena.students import PRESETS, Student, as_students
from attention import AttentionLayer
from upper import KnownPart, Newton

QUICK = PRESETS["quick"]
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")


@pytest.fixture(scope="module")
def target():
    return nice_target(heads=2, tokens=2, dim=4, seed=1)


@pytest.fixture(scope="module")
def key_of(target):
    """The key of a cell of a learner, everything else being equal."""

    def key(learner):
        (student,) = as_students([learner])
        return cell_key(target_identity(target), learner_identity(student, target, QUICK), 0, {})

    return key


@dataclasses.dataclass(frozen=True)
class Holder(KnownPart):
    """A learner of one's own with one field."""

    held: object = None


# equal work, equal keys

SCRIPT = """
    import enum
    import numpy as np
    from dataclasses import dataclass, field
    from arena import STUDENTS, nice_target, parity_target
    from arena.identity import cell_key, learner_identity, target_identity
    from arena.students import PRESETS, as_students
    from upper import KnownPart

    STEP = 3
    def helper(x):
        return STEP * x

    class Mode(enum.Enum):
        FAST = "fast"

    @dataclass(frozen=True)
    class Own(KnownPart):
        names: frozenset = frozenset("abcdefgh")
        by_name: dict = field(default_factory=lambda: {name: {name} for name in "xyz"})
        mode: Mode = Mode.FAST
        function: object = lambda x: helper(x) + 1
        ufunc: object = np.tanh
        array: np.ndarray = field(default_factory=lambda: np.arange(3.0))
        generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(3))

        def fit(self, oracle, *, rng=None, truth=None, progress=None):
            return helper(super().fit(oracle, rng=rng, truth=truth))

    for target in (nice_target(heads=1, tokens=2, dim=4), parity_target(heads=2, dim=10)):
        for student in [*STUDENTS.values(), *as_students([Own()])]:
            learner = learner_identity(student, target, PRESETS["quick"])
            print(cell_key(target_identity(target), learner, 0, {"a": "1", "b": "2"}))
    """


@pytest.mark.slow
def test_every_process_gives_the_same_keys(tmp_path):
    file = tmp_path / "script.py"
    file.write_text(textwrap.dedent(SCRIPT))
    said = [
        subprocess.run(
            [sys.executable, file],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PYTHONHASHSEED": seed},
        ).stdout.split()
        for seed in ("1", "2")
    ]
    assert said[0] == said[1]
    assert len(set(said[0])) == len(said[0]) == 2 * (len(STUDENTS) + 1)
    assert all(len(key) == 64 and int(key, 16) for key in said[0])


def test_targets_made_twice_are_one():
    for make in (
        lambda: nice_target(heads=2, tokens=3, dim=5, seed=4),
        lambda: parity_target(heads=2, dim=10, seed=4),
    ):
        assert target_identity(make()) == target_identity(make())


def test_order_of_sets_and_mappings_does_not_count(key_of):
    first, second = {"a": 1, "b": {2, 3}}, {"b": {3, 2}, "a": 1}
    assert key_of(Holder(held=first)) == key_of(Holder(held=second))
    assert key_of(Holder(held=frozenset("abc"))) == key_of(Holder(held=frozenset("cba")))
    assert cell_key("t", "l", 0, {"a": "1", "b": "2"}) == cell_key("t", "l", 0, {"b": "2", "a": "1"})


def test_memory_layout_does_not_count(key_of):
    array = np.arange(12.0).reshape(3, 4)
    assert key_of(Holder(held=array)) == key_of(Holder(held=np.asfortranarray(array)))
    assert key_of(Holder(held=array[:, ::2])) == key_of(Holder(held=array[:, ::2].copy()))


# other work, other keys


def test_each_part_counts(target):
    base = {"target": ["t"], "learner": ["l"], "seed": 0, "versions": {"numpy": "2"}}
    others = [
        {"target": ["u"]},
        {"learner": ["m"]},
        {"seed": 1},
        {"versions": {"numpy": "3"}},
        {"versions": {}},
        {"versions": {"numpy": "2", "torch": "2"}},
        {"target": ["l"], "learner": ["t"]},
    ]
    keys = [cell_key(**base), *(cell_key(**(base | other)) for other in others)]
    assert len(set(keys)) == len(keys)


def test_code_of_the_toolkit_counts(monkeypatch):
    from arena import identity

    before = cell_key("t", "l", 0, {})
    monkeypatch.setattr(identity, "toolkit_code", lambda: "another")
    assert cell_key("t", "l", 0, {}) != before


def test_the_code_that_counts_is_there_and_is_read(monkeypatch, tmp_path):
    from arena import made_with

    read = []
    monkeypatch.setattr(made_with.Path, "read_bytes", lambda self: read.append(self) or b"")
    made_with.toolkit_code.__wrapped__()
    names = {f"{file.parent.name}/{file.name}" for file in read}
    assert {"arena/cells.py", "arena/effort.py", "arena/student_table.py", "arena/students.py"} <= names
    assert {"attention/layer.py", "newton/learner.py"} <= names
    assert {"sq/__init__.py", "lwe/__init__.py", "lower/__init__.py"} <= names


def _changed(target, **changes):
    return dataclasses.replace(target, **changes)


@given(head=st.integers(0, 1), row=st.integers(0, 3), column=st.integers(0, 3), bit=st.integers(0, 63))
@settings(max_examples=30, deadline=None)
@pytest.mark.parametrize("which", ["theta", "w"])
def test_every_bit_of_a_layer_counts(which, head, row, column, bit):
    target = nice_target(heads=2, tokens=2, dim=4, seed=1)
    parts = {"theta": np.array(target.layer.theta), "w": np.array(target.layer.w)}
    parts[which].view(np.uint64)[head, row, column] ^= np.uint64(1 << bit)
    assume(np.isfinite(parts[which]).all())
    assert target_identity(_changed(target, layer=AttentionLayer(**parts))) != target_identity(target)


def test_inputs_and_known_part_of_a_target_count():
    target = nice_target(heads=2, tokens=2, dim=10, seed=1)
    parity = parity_target(heads=2, dim=10, seed=1)
    known = _changed(target, instance=dataclasses.replace(parity.instance, layer=target.layer))
    others = [
        target,
        _changed(target, inputs=nice_target(heads=2, tokens=3, dim=10).inputs),
        _changed(target, inputs=nice_target(heads=2, tokens=2, dim=10, inputs="gaussian").inputs),
        known,
        parity,
        parity_target(heads=2, dim=10, seed=2),
    ]
    texts = {json.dumps(target_identity(one), sort_keys=True) for one in others}
    assert len(texts) == len(others)


def test_what_a_target_is_called_does_not_count(target):
    record = dataclasses.replace(target.record, name="other", title="Other", how="Otherwise.")
    assert target_identity(_changed(target, record=record)) == target_identity(target)
    assert target_stream(_changed(target, record=record)) == target_stream(target)


@pytest.mark.parametrize("name", [one.name for one in dataclasses.fields(Newton) if one.name != "m"])
def test_every_hyper_parameter_counts(key_of, name):
    base = Newton(m=2)
    value = getattr(base, name)
    words = {"start": "spectral", "engine": "torch", "device": "cpu"}
    other = words[name] if name in words else 7 if value is None else value * 2 + 1
    try:
        changed = dataclasses.replace(base, **{name: other})
    except ValueError:
        changed = dataclasses.replace(base, **{name: value / 2})
    assert key_of(changed) != key_of(base) != key_of(Newton(m=3))


def test_the_name_and_the_effort_of_a_student_count(target):
    identities = [
        learner_identity(STUDENTS["newton"], target, QUICK),
        learner_identity(dataclasses.replace(STUDENTS["newton"], name="other"), target, QUICK),
        learner_identity(STUDENTS["newton"], target, PRESETS["full"]),
        learner_identity(STUDENTS["adam"], target, QUICK),
    ]
    assert len({json.dumps(one, sort_keys=True) for one in identities}) == len(identities)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.sampled_from(Colour),
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.frozensets(st.integers() | st.text(max_size=3), max_size=3)
    ),
    max_leaves=6,
)


def _spelled(value):
    """Every value in a spelling of its own; all NaNs are one."""
    if isinstance(value, dict | frozenset):
        items = value.items() if isinstance(value, dict) else value
        return type(value).__name__, sorted(map(_spelled, items), key=repr)
    if isinstance(value, list | tuple):
        return "list", [_spelled(one) for one in value]
    return type(value).__name__, repr(value)


@pytest.mark.slow
@given(one=values, other=values)
@settings(max_examples=60, deadline=None)
def test_different_fields_give_different_keys(key_of, one, other):
    same = _spelled(one) == _spelled(other)
    assert (key_of(Holder(held=one)) == key_of(Holder(held=other))) is same


LOOKALIKES = [
    *(None, False, 0, 0.0, -0.0, "", "None", "0", b"", b"0", [], {}, set()),
    *(float("nan"), "nan", float("inf"), float("-inf"), "inf", 10**30, 10**6000, 1e30),
    *(
        PurePosixPath("x"),
        ["path", "x"],
        {"path": "x"},
        "x",
        Colour.RED,
        Colour.BLUE,
        ["set", []],
        {"set": []},
    ),
    *(
        np.float64(0.5).astype("float32"),
        np.array(1.0),
        np.array([1.0]),
        np.array([[1.0]]),
        np.array([1.0], "f4"),
    ),
    *(
        np.array([1], "i8"),
        np.array(["a"]),
        np.array([b"a"]),
        np.zeros(3),
        np.zeros((3, 1)),
        np.array([0.0, 0, -0.0]),
    ),
    *(
        np.random.default_rng(1),
        np.random.default_rng(2),
        int,
        float,
        len,
        max,
        np.tanh,
        np.sin,
        1j,
        slice(1),
        slice(2),
    ),
    *(np.random.default_rng(1).normal, np.random.default_rng(2).normal, [1].append, [2].append),
    *(Newton(m=2), Newton(m=3), dataclasses.asdict(Newton(m=2)), [lambda: 1], [lambda: 2]),
]


def test_what_looks_alike_is_told_apart(key_of):
    keys = {key_of(Holder(held=value)): value for value in LOOKALIKES}
    assert len(keys) == len(LOOKALIKES)


@needs_torch
def test_tensors_count_by_their_numbers(key_of):
    import torch

    tensors = [
        torch.zeros(3),
        torch.zeros(3, dtype=torch.float64),
        torch.ones(3),
        np.zeros(3, "f4"),
        torch.zeros(3, 1),
    ]
    assert len({key_of(Holder(held=tensor)) for tensor in tensors}) == len(tensors)
    assert key_of(Holder(held=torch.zeros(3, requires_grad=True))) == key_of(Holder(held=torch.zeros(3)))


def test_arrays_of_objects_count_by_what_they_hold(key_of):
    arrays = [np.array([{"a": 1}, None], dtype=object), np.array([{"a": 2}, None], dtype=object)]
    first, second = (key_of(Holder(held=array)) for array in arrays)
    assert first != second
    assert key_of(Holder(held=np.array([{"a": 1}, None], dtype=object))) == first


def test_sparse_matrices_count_by_their_numbers(key_of):
    from scipy import sparse

    keys = {key_of(Holder(held=sparse.eye_array(3, format="csr") * scale)) for scale in (1.0, 2.0)}
    assert len(keys) == 2
    assert key_of(Holder(held=sparse.eye_array(3, format="csr") * 2.0)) in keys


class Unpicklable:
    def __init__(self):
        self.lock = threading.Lock()


def test_what_cannot_be_described_is_like_nothing_else(key_of):
    for make in (threading.Lock, Unpicklable):
        held = make()
        assert key_of(Holder(held=held)) != key_of(Holder(held=held))


def _circle(*items):
    circle = [*items]
    circle.append({"inner": (circle,)})
    return circle


def test_containers_in_circles_have_a_key(key_of):
    keys = [key_of(Holder(held=_circle(*items))) for items in ((), (), (1,), (2,))]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


def test_chains_of_any_length_have_a_key(key_of):
    def chain(length, end):
        link = Holder(held=end)
        for _ in range(length):
            link = Holder(held=link)
        return link

    assert key_of(chain(3000, 1)) == key_of(chain(3000, 1)) != key_of(chain(3000, 2))


def test_a_learner_that_cannot_be_set_up_has_a_key(target):
    def refusing(message):
        def refuse(target, effort):
            raise LookupError(message)

        return Student("picky", "Picky", "None.", refuse)

    one, again, other = (learner_identity(refusing(said), target, QUICK) for said in ("one", "one", "other"))
    assert one == again != other
    assert one != learner_identity(refusing("one"), target, PRESETS["full"])
    assert json.dumps(one, allow_nan=False)
