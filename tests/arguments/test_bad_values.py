"""Every argument of every public function refuses what it cannot use, by name and with no other error."""

import enum
import inspect
import math
import re
import signal
from contextlib import contextmanager

import numpy as np
import pytest
from subjects import CALLS, ELSEWHERE, PACKAGES, RECORDS

from attention import validation
from attention.memory import NotEnoughMemoryError, memory_limited_to
from attention.validation import Unfit, constraints
from upper.six_phase import PhaseFailedError

pytestmark = pytest.mark.bad_input

# no argument takes these
NEVER = (math.nan, 1j, object())
# an argument may take these, and if it does not it says so
PERHAPS = (None, 0, -1, 0.5, math.inf, True, "no such", [], [1], {1: 2}, np.ones((1,) * 5), 10**12)
# some of these break what is declared of an argument: those are refused
WRONG = ("1", 2, 10**400, [1.0], [None], [-1], [0.5], ["no such"])
WRONG += tuple(
    kind
    for shape in ((2,), (2, 2), (2, 2, 2))
    for kind in (
        np.ones(shape),
        np.ones(shape) * math.nan,
        np.ones(shape) * 1j,
        np.ones(shape).astype(str),
        np.ones(shape)[..., :0],
    )
)
# what an argument of a name never takes, whatever is declared: sizes; shares, lengths and tolerances; seeds
SIZES = """
    m k d dim heads heads_count tokens bits block rank modulus levels secret_dim samples batch steps
    symbols states positions trials work starts rounds restarts queries targets fresh runs eta weight
    workers
"""
REALS = """
    tolerance sigma confidence gain error noise learning_rate rate beta seconds radius spacing accept
"""
FORBIDDEN = {
    **dict.fromkeys(SIZES.split(), (0, -1, 0.5, True)),
    **dict.fromkeys(REALS.split(), (-1, math.inf, True)),
    **dict.fromkeys(("seed", "rng"), (-1, 0.5)),
}
# what is taken all the same: choices of no consequence, and texts that only appear in messages
TAKEN = {("gauss_newton", "inner_dtype"), ("Family.instance", "rng"), ("run_by_queries", "failures")}
TAKEN |= {("GroupQuery", "name"), ("Check", "needs"), ("BKWAttack", "steps")}
# work that is done if it is asked for, for hours
WORK = {"restarts", "steps", "rows"}
# other words that a message may use
WORDS = {
    "heads": "bits", "heads_count": "bits", "secret": "bits", "text": "law", "n": "oracle", "names": "no such",
    **dict.fromkeys(("learning_rates", "schedules", "lengths"), "grid"), "predicted": "array",
    "target": "predicted",
    "dim": "features", "first": "coordinates", "values": "lie in", "low": "lie in", "high": "lie in",
    "regression": "tensor", "id": "check", "dims": "d", "path": "layer",
}  # fmt: skip


@contextmanager
def limits(seconds=10):
    """A limit of memory and of time: what is enormous is refused and not tried."""

    def bark(number, frame):
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, bark)
    signal.alarm(seconds)
    try:
        with memory_limited_to(256 << 20):
            yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def declared(function):
    """The constraint of each argument, if what is declared is held."""
    function = getattr(function, "__func__", function)
    if isinstance(function, type):
        own = inspect.unwrap(function.__init__)
        return constraints(function if own is function.__init__ else own)
    held = inspect.unwrap(function, stop=lambda one: one.__code__.co_filename == validation.__file__)
    return constraints(function) if held.__code__.co_name == "entry" else {}


def breaks(value, constraint):
    try:
        constraint.convert(value, {})
    except Unfit:
        return True
    return False


def complaint(call, name, value, forbidden):
    """What is wrong with how a value is met; empty if nothing is."""
    try:
        with limits():
            call(**{name: value})
    except (NotEnoughMemoryError, PhaseFailedError, FileNotFoundError):
        return ""  # a size, a failure and a file are no wrong arguments
    except ValueError as error:
        words = {name, name.rstrip("s"), WORDS.get(name, name), type(value).__name__, str(value)[:60]}
        named = any(re.search(rf"(?<![a-z]){re.escape(one)}(?![a-z])", str(error)) for one in words if one)
        return "" if named or "file" in str(error) else f"does not name it: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "is taken" if forbidden else ""


@pytest.mark.parametrize(
    "call", CALLS, ids=[f"{one.func.__module__}.{one.func.__qualname__}" for one in CALLS]
)
def test_every_argument_takes_what_it_can_use_and_refuses_the_rest_by_name(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wrong, held = [], declared(call.func)
    for name, parameter in inspect.signature(call.func).parameters.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        taken = (call.func.__qualname__, name) in TAKEN
        bad = [name in held and breaks(value, held[name]) for value in (*PERHAPS, *WRONG)]
        cases = [(value, not taken) for value in (*NEVER, *FORBIDDEN.get(name, ()))]
        cases += [
            (value, broken and not taken)
            for value, broken in zip(PERHAPS, bad, strict=False)
            if not (name in WORK and value == 10**12)
        ]
        cases += [
            (value, not taken) for value, broken in zip(WRONG, bad[len(PERHAPS) :], strict=True) if broken
        ]
        found = [(value, complaint(call, name, value, forbidden)) for value, forbidden in cases]
        wrong += [f"{name}={str(value)[:40]}: {why[:200]}" for value, why in found if why]
    assert not wrong, "\n".join(wrong)


def test_every_public_function_is_tried_or_there_is_a_reason_not_to():
    tried = {inspect.unwrap(getattr(one.func, "__func__", one.func)) for one in CALLS}
    for package in PACKAGES:
        for name in getattr(package, "__all__", ()):
            one = getattr(package, name)
            if not callable(one) or (isinstance(one, type) and issubclass(one, BaseException | enum.Enum)):
                continue
            needs = inspect.unwrap(one) in tried or name in (RECORDS + ELSEWHERE).split()
            assert needs or not inspect.signature(one).parameters, f"{package.__name__}.{name} is not tried"
