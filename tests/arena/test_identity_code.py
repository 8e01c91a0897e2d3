"""Keys of learners of one's own: another for every change of code or of a constant that the learner reaches."""

import dataclasses
import sys
import textwrap
import types

import pytest

from arena import nice_target
from arena.identity import cell_key, learner_identity, target_identity
from arena.students import PRESETS, as_students
from upper import KnownPart


@pytest.fixture(scope="module")
def key_of():
    """The key of a cell of a learner, everything else being equal."""
    target = nice_target(heads=2, tokens=2, dim=4, seed=1)

    def key(learner):
        (student,) = as_students([learner])
        return cell_key(target_identity(target), learner_identity(student, target, PRESETS["quick"]), 0, {})

    return key


@dataclasses.dataclass(frozen=True)
class Holder(KnownPart):
    """A learner of one's own with one field."""

    held: object = None


LEARNER = """
    from dataclasses import dataclass
    from upper import KnownPart
    import functools

    STEPS = 10
    RATES = {"fast": [1.0, 0.5]}

    def helper(x):
        return inner(x) + STEPS

    def inner(x):
        return [one * 2 for one in x]

    class Base(KnownPart):
        momentum = 0.9

        def step(self, x):
            return x + 1

    @dataclass(frozen=True)
    class Own(Base):
        rate: float = 0.1

        def fit(self, oracle, *, rng=None, truth=None, progress=None):
            return helper(self.step(oracle)) + RATES["fast"][0]

        @staticmethod
        def plain(x):
            return x - 3

        @property
        def twice(self):
            return 2 * self.rate

        @functools.cached_property
        def thrice(self):
            return 3 * self.rate
    """


def _own(text=LEARNER):
    module = {"__name__": "own"}
    exec(compile(textwrap.dedent(text), "own.py", "exec"), module)
    return module["Own"]()


@pytest.fixture
def own_key(monkeypatch, key_of):
    monkeypatch.setitem(sys.modules, "own", types.ModuleType("own"))  # dataclass looks its module up
    return lambda *changes: key_of(_own(*changes))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("rate: float = 0.1", "rate: float = 0.2"),
        ("self.step(oracle)", "self.step(rng)"),
        ('["fast"][0]', '["fast"][1]'),
        ("x - 3", "x - 4"),
        ("2 * self", "4 * self"),
        ("3 * self", "4 * self"),
        ("momentum = 0.9", "momentum = 0.8"),
        ("x + 1", "x + 2"),
        ("inner(x) + STEPS", "inner(x) - STEPS"),
        ("STEPS = 10", "STEPS = 11"),
        ("[1.0, 0.5]", "[1.0, 0.25]"),
        ("one * 2", "one * 3"),
        ("class Own(Base)", "class Own(KnownPart)"),
        ("progress=None", "progress=1"),
    ],
)
def test_a_change_of_a_learner_of_ones_own_counts(own_key, before, after):
    assert LEARNER.count(before) == 1
    assert own_key(LEARNER.replace(before, after)) != own_key(LEARNER)


def test_what_changes_nothing_does_not_count(own_key):
    moved = "\n\n    # a word\n" + LEARNER.replace("x + 1", "x + 1  # one") + "\n    unused = 1\n"
    assert own_key(moved) == own_key(LEARNER) == own_key()


# a constant behind something, used by the learner as `used`; `RATE` is what changes

BEHIND = {
    "plain number": "used = 0.1",
    "function": "def used(x=1):\n    return x * 0.1",
    "nested function": "def inner():\n    return lambda: 0.1\ndef used():\n    return inner()()",
    "default": "def used(x=0.1):\n    return x",
    "attribute of a function": "def used():\n    return used.rate\nused.rate = 0.1",
    "lru_cache": "@functools.lru_cache(maxsize=None)\ndef used(x=1):\n    return x * 0.1",
    "cache": "@functools.cache\ndef used(x=1):\n    return x * 0.1",
    "cached constant": "RATE = 0.1\n@functools.cache\ndef used():\n    return RATE",
    "wraps": (
        "def twice(f):\n    @functools.wraps(f)\n    def both(*a):\n        return f(*a) + f(*a)\n    return both\n"
        "@twice\ndef used():\n    return 0.1"
    ),
    "decorator of a library": ("import contextlib\n@contextlib.contextmanager\ndef used():\n    yield 0.1"),
    "decorator that is a class": (
        "class Counted:\n    def __init__(self, f):\n        functools.update_wrapper(self, f)\n"
        "    def __call__(self, *a):\n        return self.__wrapped__(*a)\n"
        "@Counted\ndef used():\n    return 0.1"
    ),
    "descriptor": (
        "class Bound:\n    def __init__(self, f):\n        self.f = f\n"
        "    def __get__(self, owner, kind=None):\n        return self.f\n"
        "@Bound\ndef used():\n    return 0.1"
    ),
    "singledispatch": (
        "@functools.singledispatch\ndef used(x):\n    return 0\n@used.register\ndef _(x: int):\n    return x * 0.1"
    ),
    "dataclass": "@dataclass\nclass Conf:\n    rate: float\nused = Conf(0.1)",
    "nested dataclass": "@dataclass\nclass Conf:\n    inner: object\nused = Conf([Conf((0.1,))])",
    "method of a dataclass": (
        "@dataclass\nclass Conf:\n    x: int = 1\n    def rate(self):\n        return 0.1\nused = Conf()"
    ),
    "object": "class Conf:\n    def __init__(self, rate):\n        self.rate = rate\nused = Conf(0.1)",
    "object with slots": (
        "class Conf:\n    __slots__ = ('rate',)\n    def __init__(self, rate):\n        self.rate = rate\n"
        "used = Conf(0.1)"
    ),
    "object that holds a lock": (
        "class Conf:\n    def __init__(self, rate):\n        self.lock, self.rate = threading.Lock(), rate\n"
        "used = Conf(0.1)"
    ),
    "object that cannot be pickled": (
        "class Conf:\n    def __init__(self, rate):\n        self.rate = rate\n"
        "    def __reduce_ex__(self, protocol):\n        raise RuntimeError('no')\nused = Conf(0.1)"
    ),
    "object that holds itself": (
        "class Conf:\n    pass\nused = Conf()\nused.me, used.all, used.rate = used, [used], 0.1"
    ),
    "float32": "used = np.float32(0.1)",
    "array of objects": "used = np.array([{'rate': 0.1}, None], dtype=object)",
    "dict of functions": "used = {'a': lambda x: x * 0.1, 'b': abs}",
    "list of functions": "def f(x):\n    return x * 0.1\nused = [f, [f, len]]",
    "set of functions": "def f(x):\n    return x * 0.1\ndef g(x):\n    return f(x)\nused = {f, g, len}",
    "partial": "def f(x, rate):\n    return x\nused = functools.partial(f, rate=0.1)",
    "partial's function": "def f(x):\n    return x * 0.1\nused = functools.partial(f, 1)",
    "partial of a partial": "used = functools.partial(functools.partial(max, 0), 0.1)",
    "bound method": (
        "class Conf:\n    def __init__(self, rate):\n        self.rate = rate\n"
        "    def get(self):\n        return self.rate\nused = Conf(0.1).get"
    ),
    "vectorize": "def f(x):\n    return x * 0.1\nused = np.vectorize(f)",
    "defaultdict": "from collections import defaultdict\nused = defaultdict(lambda: 0.1)",
    "dict that holds itself": "used = {'rate': 0.1}\nused['me'] = used",
    "named tuple's method": (
        "from typing import NamedTuple\nclass Conf(NamedTuple):\n    x: int = 1\n"
        "    def rate(self):\n        return 0.1\nused = Conf()"
    ),
    "dict of one's own": "class Conf(dict):\n    rate = 0.1\nused = Conf(a=1)",
    "float of one's own": "class Conf(float):\n    def more(self):\n        return self * 0.1\nused = Conf(1)",
    "enum's value": "import enum\nclass Conf(enum.Enum):\n    RATE = 0.1\nused = Conf.RATE",
    "enum": "import enum\nclass Conf(enum.Enum):\n    RATE = 0.1\nused = Conf",
    "class attribute": "class used:\n    rate = 0.1",
    "object as class attribute": "@dataclass\nclass Conf:\n    rate: float\nclass used:\n    conf = Conf(0.1)",
    "float32 as class attribute": "class used:\n    rate = np.float32(0.1)",
    "dict of functions as class attribute": "class used:\n    rates = {'a': lambda x: x * 0.1}",
    "partialmethod": (
        "class used:\n    def step(self, rate):\n        return rate\n    go = functools.partialmethod(step, 0.1)"
    ),
    "partialmethod's keyword": (
        "class used:\n    def step(self, rate):\n        return rate\n    go = functools.partialmethod(step, rate=0.1)"
    ),
    "cached method": "class used:\n    @functools.cache\n    def step(self):\n        return 0.1",
    "class method": "class used:\n    @classmethod\n    def step(cls):\n        return 0.1",
    "cached static method": (
        "class used:\n    @staticmethod\n    @functools.cache\n    def step():\n        return 0.1"
    ),
    "setter": (
        "class used:\n    @property\n    def x(self):\n        return 1\n    @x.setter\n"
        "    def x(self, value):\n        self.y = 0.1"
    ),
    "cached property": "class used:\n    @functools.cached_property\n    def step(self):\n        return 0.1",
    "cached call": "class used:\n    @functools.cache\n    def __call__(self):\n        return 0.1",
    "default factory": (
        "from dataclasses import field\n@dataclass\nclass used:\n    x: list = field(default_factory=lambda: [0.1])"
    ),
}
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


@pytest.mark.parametrize("behind", BEHIND.values(), ids=BEHIND.keys())
def test_a_constant_counts_behind_whatever_the_learner_uses(own_key, behind):
    text = FRAME.format(behind=behind)
    assert text.count("0.1") == 1
    assert own_key(text) == own_key(text)
    assert own_key(text.replace("0.1", "0.2")) != own_key(text)


@pytest.mark.parametrize(
    ("behind", "after"),
    [
        ("def used(a, b):\n    return a - b", "def used(b, a):\n    return b - a"),
        ("def used(a, b):\n    return a - b", "def used(a, *, b):\n    return a - b"),
        ("used = functools.partial(max, 1)", "used = functools.partial(min, 1)"),
        ("used = np.float32(0.5)", "used = np.float16(0.5)"),
        ("used = np.tanh", "used = np.sinh"),
        ("used = np.linalg.norm", "used = np.linalg.det"),
        ("from scipy.optimize import minimize as used", "from scipy.optimize import root as used"),
        ("used = [1]\nused.append(used)", "used = [2]\nused.append(used)"),
    ],
)
def test_other_code_has_another_key(own_key, behind, after):
    assert own_key(FRAME.format(behind=behind)) != own_key(FRAME.format(behind=after))


# what makes functions and classes the same


def test_functions_made_in_one_line_are_told_apart(key_of):
    makers = [lambda power: lambda x: x**power, lambda power: lambda x, power=power: x**power]
    keys = {key_of(Holder(held=make(power))) for make in makers for power in (1, 2, [3])}
    assert len(keys) == 6


def test_classes_made_by_a_function_are_told_apart(key_of):
    def make(power):
        @dataclasses.dataclass(frozen=True)
        class Made(KnownPart):
            def fit(self, oracle, *, rng=None, truth=None, progress=None):
                return super().fit(oracle) ** power

        return Made()

    assert key_of(make(1)) == key_of(make(1)) != key_of(make(2))


def test_methods_count_with_what_they_belong_to(key_of):
    one, other = Holder(held=1), Holder(held=2)
    assert (
        key_of(Holder(held=one.fit))
        == key_of(Holder(held=Holder(held=1).fit))
        != key_of(Holder(held=other.fit))
    )


def test_functions_that_call_themselves_have_a_key(key_of):
    def make(start):
        def down(n):
            return start if n == 0 else down(n - 1)

        return down

    assert key_of(Holder(held=make(1))) == key_of(Holder(held=make(1))) != key_of(Holder(held=make(2)))


def test_functions_that_all_call_one_another_are_described_once_each(key_of):
    names = [f"f{number}" for number in range(40)]
    body = "".join(
        f"def {name}(x):\n    return {' + '.join(f'{other}(x)' for other in names)}\n" for name in names
    )
    keys = set()
    for text in (body, body.replace("def f39(x):\n", "def f39(x):\n    x += 1\n")):
        module = {"__name__": "all_of_them"}
        exec(text, module)
        keys.add(key_of(Holder(held=module["f0"])))
    assert len(keys) == 2
