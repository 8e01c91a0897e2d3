"""A hash of a value changes with the code behind it, and with nothing else."""

import os
import subprocess
import sys
import threading
from dataclasses import dataclass

import cloudpickle
import pytest

from runs import Cell, fingerprint

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def made(code):
    scope = {}
    exec(code, scope)
    return scope["it"]


CLASS = """
from dataclasses import dataclass
@dataclass(frozen=True)
class it:
    number: int = {number}
    def fit(self): return self.number + helper()
    @property
    def twice(self): return lambda: __class__
def helper(): return {helper}
"""


@pytest.mark.parametrize(
    ("code", "this", "that"),
    [
        ("it = lambda x: x + {}", 1, 2),
        ("it = lambda x: x + {}", 1, 1.0),
        ("it = lambda x={}: x", 1, 2),
        ("it = lambda *, x={}: x", 1, 2),
        ("it = lambda x: lambda: x + {}", 1, 2),
        ("it = (lambda y: lambda x: x + y)({})", 1, 2),
        ("n = {}\ndef it(x): return x + n", 1, 2),
        ("def it(x: {}): return x", "int", "float"),
        ("def f(): return {}\ndef it(): return f()", 1, 2),
        ("def it(): return {}", "it()", "[it()]"),
        (CLASS.format(number="{}", helper=2), 1, 2),
        (CLASS.format(number=1, helper="{}"), 2, 3),
        ("import numpy\nit = numpy.append(numpy.zeros(1999), {})", 0, 1),
    ],
)
def test_equal_code_has_an_equal_hash_and_other_code_another(code, this, that):
    code, other = code.format(this), code.format(that)
    assert fingerprint(made(code)) == fingerprint(made(f"\n\n{code}"))
    assert fingerprint(made(code)) != fingerprint(made(other))
    assert fingerprint([made(code)]) != fingerprint([made(other)])
    if callable(made(code)):
        assert Cell(made(code)).key == Cell(made(code)).key != Cell(made(other)).key


def test_what_cannot_be_pickled_is_never_the_same():
    assert fingerprint(threading.Lock()) != fingerprint(threading.Lock())


@dataclass(slots=True)
class Slotted:
    value: int | None = None


def test_pickling_changes_no_hash():
    assert fingerprint(Slotted(1)) == fingerprint(Slotted(1)) != fingerprint(Slotted(2))


SCRIPT = """
import sys
from dataclasses import dataclass
from runs import fingerprint
import own

@dataclass(frozen=True)
class Mine(own.Base):
    def fit(self, x):
        import lazy
        return x in {"a", "b", "c", "d"}

print(fingerprint(own.Base), fingerprint(Mine()), fingerprint(lambda: own))
"""


def test_a_module_of_the_callers_counts_with_all_that_it_imports(tmp_path):
    files = {
        "script.py": SCRIPT,
        "own/__init__.py": "from .base import Base\n",
        "own/base.py": "class Base:\n    def fit(self):\n        from shared import tool\n",
        "shared.py": "tool = 1\n",
        "lazy.py": "",
        "other.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))

    def hashes(seed="0"):
        environment = os.environ | {"PYTHONPATH": root, "PYTHONHASHSEED": seed}
        command = [sys.executable, tmp_path / "script.py"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.split()

    before = hashes()
    assert len(set(before)) == 3
    assert hashes("1") == before
    changed = {}
    for name in ("own/base.py", "shared.py", "lazy.py", "other.py"):
        (tmp_path / name).write_text(files[name] + "# edited\n")
        changed[name] = [one != other for one, other in zip(before, hashes(), strict=True)]
        (tmp_path / name).write_text(files[name])
    assert changed == {
        "own/base.py": [True] * 3,
        "shared.py": [True] * 3,
        "lazy.py": [False, True, False],
        "other.py": [False] * 3,
    }
