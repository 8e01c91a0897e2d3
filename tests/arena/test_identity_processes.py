"""Keys of learners of one's own that use what cannot be described: they have one, the same in every process."""

import dataclasses
import functools
import json
import os
import queue
import subprocess
import sys
import textwrap
import types

import pytest

from arena import nice_target
from arena.identity import learner_identity
from arena.students import PRESETS, as_students
from upper import KnownPart

FRAME = """
import functools, threading
import numpy as np
from dataclasses import dataclass
from upper import KnownPart

{behind}

@dataclass(frozen=True)
class Own(KnownPart):
    def fit(self, oracle, *, rng=None, truth=None, progress=None):
        return used
"""
EXOTIC = """
import collections, contextvars, io, logging, os, queue, random, re, sqlite3, threading, weakref
import rich.console
import enum, fractions, decimal, itertools, operator, pathlib, datetime, types, typing
from os import environ

class Node:
    def __init__(self, name):
        self.name = name

class Raises:
    def __getattr__(self, name):
        raise RuntimeError(name)

class Everything:
    def __getattr__(self, name):
        return Everything()

    def __call__(self, *a, **k):
        return Everything()

class Registry(type):
    made = []
    def __new__(meta, name, bases, space):
        meta.made.append(super().__new__(meta, name, bases, space))
        return meta.made[-1]

class Registered(metaclass=Registry):
    pass

class Kind(enum.Flag):
    A = 1
    B = 2

def first(x):
    return second(x) + len(FUNCTIONS)

def second(x):
    return first(x) + len(NODES)

@functools.singledispatch
def dispatched(x):
    return x

@dispatched.register
def _(x: int):
    return x + 1

FUNCTIONS = {first, second, dispatched, len, *(lambda x, n=n: x + n for n in range(9))}
NODES = {Node(name) for name in "abcdefghij"}
BY_TYPE = dict.fromkeys({int, str, float, Node, Kind, Raises, Everything}, "name")
NAMES = frozenset("abcdefghij")
KINDS = {Kind.A, Kind.B, Kind.A | Kind.B}
MIXED = {1, "1", 1.5, None, ("a", frozenset("xyz")), b"1", Kind.A}
A, B = Node("a"), Node("b")
A.other, B.other = B, A
CIRCLE = []
CIRCLE.append(CIRCLE)
LOCK, LOCAL, EVENT, QUEUE = threading.Lock(), threading.local(), threading.Event(), queue.Queue()
LOGGER, VARIABLE, FILE = logging.getLogger("own"), contextvars.ContextVar("own"), io.BytesIO(b"own")
WEAK, WEAKLY = weakref.ref(A), weakref.WeakKeyDictionary({A: 1})
PATTERN, FRACTION, DECIMAL = re.compile("a+"), fractions.Fraction(1, 3), decimal.Decimal("0.1")
GENERATOR, DATABASE, RANDOM = (x for x in "abc"), sqlite3.connect(":memory:"), random.Random(1)
RNG, PATH, DATE = np.random.default_rng(1), pathlib.Path("a"), datetime.date(2024, 1, 1)
SPACE, VIEW, VALUES = types.SimpleNamespace(a=1, f=first), {"a": 1}.keys(), {"a": 1}.values()
GETTER, ALIAS, VARIABLES = operator.attrgetter("a"), list[int], typing.TypeVar("T")
SLICE, RANGE, DOTS, COMPLEX, BYTES = slice(1), range(3), ..., 1j, bytearray(b"a")
PROXY, CHAIN, USER = types.MappingProxyType({"a": 1}), collections.ChainMap({"a": 1}), collections.UserDict(a=1)
ORDERED, COUNTER, DEQUE = collections.OrderedDict(a=1), collections.Counter("aab"), collections.deque([1, 2])
SHARED, ALSO, STILL, AGAIN = random.random, random.randint, np.random.normal, np.random.rand
CONSOLE = rich.console.Console()
MODULES, RAISES, EVERYTHING = {"np": np}, Raises(), Everything()
"""
KEY = """
import sys
import own
from arena import nice_target
from arena.identity import cell_key, learner_identity, target_identity
from arena.students import PRESETS, as_students
target = nice_target(heads=1, tokens=2, dim=4)
(student,) = as_students([own.Own()])
print(cell_key(target_identity(target), learner_identity(student, target, PRESETS["quick"]), 0, {}))
"""


def _said(learner):
    """What counts of a learner, everything else being equal."""
    target = nice_target(heads=1, tokens=2, dim=4)
    (student,) = as_students([learner])
    return json.dumps(learner_identity(student, target, PRESETS["quick"]), allow_nan=False)


@pytest.fixture
def said_of(monkeypatch):
    """The same of the learner in a module's text."""
    monkeypatch.setitem(sys.modules, "own", types.ModuleType("own"))  # dataclass looks its module up

    def said(text):
        module = {"__name__": "own"}
        exec(compile(text, "own.py", "exec"), module)
        return _said(module["Own"]())

    return said


def _exotic_text(names):
    return FRAME.format(behind=EXOTIC).replace("return used", f"return {', '.join(names)}")


EXOTIC_NAMES = [
    name
    for line in textwrap.dedent(EXOTIC).splitlines()
    if line[:1].isupper() and " = " in line
    for name in line.split(" = ")[0].split(", ")
    if name.isidentifier()
] + ["Registered", "environ"]


def _key_in_a_process(folder, text, seed):
    (folder / "own.py").write_text(text)
    (folder / "script.py").write_text(KEY)
    return subprocess.run(
        [sys.executable, "-B", "script.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONHASHSEED": seed, "OWN": seed},
    ).stdout.strip()


@pytest.mark.slow
def test_every_process_gives_the_same_key_whatever_the_learner_uses(tmp_path):
    text = _exotic_text(EXOTIC_NAMES)
    first, second = (_key_in_a_process(tmp_path, text, seed) for seed in ("1", "2"))
    assert first == second
    assert len(first) == 64
    assert _key_in_a_process(tmp_path, text.replace("x + 1", "x + 2"), "1") != first


@pytest.mark.parametrize("name", EXOTIC_NAMES)
def test_nothing_that_a_learner_uses_is_like_nothing_else(said_of, name):
    said, again, other = (said_of(_exotic_text(names)) for names in ([name], [name], ["KnownPart"]))
    assert said == again != other


class Growing:
    def __reduce__(self):
        return Growing, (Growing(),)


def test_what_never_ends_is_like_nothing_else(monkeypatch):
    @dataclasses.dataclass(frozen=True)
    class Own(KnownPart):
        def fit(self, oracle, *, rng=None, truth=None, progress=None):
            return held

    held = Growing()
    monkeypatch.setattr("arena._description._MOST", 100)
    assert _said(Own()) != _said(Own())


def test_what_fills_meanwhile_does_not_count():
    waiting = queue.Queue()  # of a library, and with a lock: its kind counts

    @functools.cache
    def cached(x):
        return x

    @functools.singledispatch
    def dispatched(x):
        return x

    @dataclasses.dataclass(frozen=True)
    class Own(KnownPart):
        def fit(self, oracle, *, rng=None, truth=None, progress=None):
            return cached(oracle), dispatched(oracle), waiting

    before = _said(Own())
    waiting.put(cached(1) + dispatched(1))
    assert _said(Own()) == before


def test_what_is_installed_is_not_followed(said_of):
    """What a learner uses of a library is described, and what that uses is not: its version is in the key."""
    said = said_of(FRAME.format(behind="from scipy.optimize import minimize as used"))
    assert "scipy.optimize._minimize.minimize" in said
    assert said.count('["scipy.') == 1


def test_no_address_is_in_what_counts():
    class Shown:
        pass

    @dataclasses.dataclass(frozen=True)
    class Own(KnownPart):
        held: object = None

    held = [Shown(), lambda: 1, functools.partial(len, [Shown()]), {Shown(): Shown().__eq__}]
    said = _said(Own(held=held))
    assert not any(f"{id(one):x}" in said or str(id(one)) in said for one in (held, *held))
