"""The engine of the robustness tests: hostile calls, each answered rightly or refused in a sentence.

A `Subject` is a public function or constructor with, for each argument, what is sane and what is hostile. A case
draws all arguments sane, one hostile, or two, makes the call in a fence (a limit of CPU time and of memory, warnings
as errors), and says what it was:

* an **answer**: it came back, what `right` asserts of it holds, arguments were left as they were, and arrays dressed
  differently (by columns, strided, read-only, of other byte order) gave what plain copies of them give;
* a **refusal**: a ValueError whose message is a sentence that names what was given and says what is allowed;
* a **violation**: anything else, a refusal of sane arguments among them.

Violations are collected, one of each kind, and fail the test at its end with the call written out.
"""

import dataclasses
import gc
import math
import re
import resource
import signal
import sys
import threading
import traceback
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from attention.errors import FileFormatError
from attention.memory import memory_limited_to

__all__ = [
    "Argument",
    "Given",
    "Sizes",
    "Subject",
    "anything",
    "array",
    "assert_finite",
    "choice",
    "fixed",
    "made",
    "missing_subjects",
    "real",
    "run",
    "same",
    "seed",
    "whole",
]

_ROOT = Path(__file__).parents[2]
MEMORY = 256 << 20  # what the toolkit is told that there is, bytes
HEADROOM = 1 << 30  # what a case may take before NumPy itself gives up
SECONDS = 3.0  # of CPU a case may take
PATIENCE = 60.0  # of wall-clock time: a hang that computes nothing


# --------------------------------------------------------------------------------------------- arguments


@dataclass(frozen=True)
class Given:
    """A value for one argument, made afresh for every call.

    Parameters
    ----------
    label : str
        How the report writes it.
    make : callable
        Makes the value.
    plain : callable, optional
        Makes a value that means the same in the plainest form: the call with it must give the same result.
    """

    label: str
    make: Callable[[], Any]
    plain: Callable[[], Any] | None = None


@dataclass(frozen=True)
class Argument:
    """What an argument may sanely be, and what else it is tried with."""

    sane: st.SearchStrategy
    hostile: st.SearchStrategy


@dataclass(frozen=True)
class Sizes:
    """Small sizes that the arguments of one case share: heads, tokens, coordinates, examples."""

    m: int
    k: int
    d: int
    n: int


SIZES = st.builds(Sizes, m=st.integers(1, 3), k=st.integers(1, 4), d=st.integers(1, 5), n=st.integers(1, 6))


def fixed(value: Any, label: str | None = None) -> Given:
    """A value that calls may share."""
    return Given(_shown(value) if label is None else label, lambda: value)


def _shown(value: Any) -> str:
    if isinstance(value, int) and abs(value) > 10**20:
        return f"{'-' * (value < 0)}10**{len(str(abs(value))) - 1}" if value != 2**64 else "2**64"
    return repr(value)[:80]


def _pool(*values: Any) -> st.SearchStrategy:
    return st.sampled_from([fixed(value) for value in values])


_WRONG_WHOLES = (0, -1, -(10**12), 10**12, 10**15, 2**63, 2**64, 10**400)
_WRONG_REALS = (0.0, -0.0, -1.5, 5e-324, 1e-300, 1e300, -1e300, math.inf, -math.inf, math.nan, 10**400)
_NO_NUMBERS = (
    None,
    True,
    False,
    np.bool_(True),
    "3",
    "",
    "nan",
    b"x",
    1 + 2j,
    [],
    [1, 2],
    (1,),
    {},
    {"a": 1},
    range(3),
    object(),
    Fraction(1, 3),
    Decimal("0.5"),
    Decimal("NaN"),
)
_SCALARS = (np.int64(3), np.uint8(2), np.float16(0.5), np.float32(1.5), np.float64("nan"), 2.5, 3.0, 1)
_ARRAYS: tuple[Any, ...] = (
    np.array([]),
    np.array(3.0),
    np.array(2),
    np.zeros((0, 3)),
    np.zeros((2, 0, 3)),
    np.array(["a", "b"]),
    np.array([None, 1.0], dtype=object),
    np.array([1 + 1j]),
    np.ones((1, 1, 1, 1, 1)),
    np.array([np.nan, 1.0]),
    np.array(["2020-01-01"], dtype="datetime64[D]"),
)
_EVERYTHING = _pool(*_NO_NUMBERS, *_SCALARS, *_WRONG_WHOLES, *_WRONG_REALS) | st.sampled_from(
    [Given(_shown_array, lambda a=a: a.copy()) for a in _ARRAYS for _shown_array in [f"{a!r}"]]
)


def anything(sane: st.SearchStrategy | Given | Any) -> Argument:
    """An argument of no special kind: tried with everything."""
    if isinstance(sane, Given):
        sane = st.just(sane)
    elif not isinstance(sane, st.SearchStrategy):
        sane = st.just(fixed(sane))
    return Argument(sane, _EVERYTHING)


def made(make: Callable[[], Any], label: str) -> Argument:
    """An argument that is made afresh for every call, such as an oracle; tried with everything."""
    return anything(Given(label, make))


def choice(*values: Any) -> Argument:
    """One of some values; tried with everything, and with texts that are none of them."""
    return Argument(_pool(*values), _pool("no such thing", "", "True", 0, None) | _EVERYTHING)


def whole(least: int = 1, most: int = 5) -> Argument:
    """A whole number; tried with zero, negative and huge ones, bools, texts and floats."""
    return Argument(
        st.integers(least, most).map(fixed),
        _pool(
            *_WRONG_WHOLES,
            np.int64(least),
            np.int8(min(least, 100)),
            float(least),
            least + 0.5,
            True,
            least - 1,
        )
        | _EVERYTHING,
    )


def real(least: float = 0.5, most: float = 2.0) -> Argument:
    """A real number; tried with zero, negative, tiny, huge and undefined ones, bools and texts."""
    return Argument(
        st.sampled_from([fixed(one) for one in (least, most, (least + most) / 2)]),
        _pool(*_WRONG_REALS, np.float32(least), np.float16(least), np.float64(least), int(most), str(least))
        | _EVERYTHING,
    )


def seed() -> Argument:
    """A seed for `rng`; tried with what `numpy.random.default_rng` does not take."""
    return Argument(st.integers(0, 3).map(fixed), _pool(-1, 1.5, "a", object(), [1, -2]) | _EVERYTHING)


def array(
    shape: tuple[int, ...],
    *,
    of: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray] | None = None,
    torch: bool = True,
) -> Argument:
    """An array of the shape; tried in every dress, with other entries, in other shapes, and with everything.

    Parameters
    ----------
    shape : tuple of int
        Its shape.
    of : callable, optional
        ``of(rng, shape)`` draws its entries; standard normal ones when left out.
    torch : bool
        Whether it is tried as a torch tensor, too, where torch is there.
    """
    draw = of or (lambda rng, size: rng.standard_normal(size))

    def base(number: int) -> np.ndarray:
        return np.asarray(draw(np.random.default_rng(number), tuple(shape)))

    def dressed(number: int, dress: str) -> Given:
        change, same_value = _DRESSES[dress]
        # entries that the dress cannot hold say so by leaving it out
        plain = (lambda: base(number)) if same_value else None
        return Given(f"<{dress}: {tuple(shape)}>", lambda: change(base(number)), plain)

    sane = st.integers(0, 3).map(lambda number: dressed(number, "plain"))
    dresses = [name for name in _DRESSES if torch or "torch" not in name]
    hostile = st.builds(dressed, st.integers(0, 3), st.sampled_from(dresses))
    return Argument(sane, hostile | hostile | hostile | _EVERYTHING)


def _strided(a: np.ndarray) -> np.ndarray:
    if a.ndim == 0:
        return a
    wide = np.zeros((*a.shape[:-1], 2 * a.shape[-1] + 1), a.dtype)
    wide[..., 1::2] = a
    return wide[..., 1::2]


def _read_only(a: np.ndarray) -> np.ndarray:
    a = a.copy()
    a.flags.writeable = False
    return a


def _with(value: float) -> Callable[[np.ndarray], np.ndarray]:
    def put(a: np.ndarray) -> np.ndarray:
        a = np.array(a, dtype=float)
        if a.size:
            a.flat[-1] = value
        return a

    return put


def _times(factor: float) -> Callable[[np.ndarray], np.ndarray]:
    def scale(a: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(a, float) * factor

    return scale


def _of_type(dtype: Any) -> Callable[[np.ndarray], np.ndarray]:
    def cast(a: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return a.astype(dtype)

    return cast


def _tensor(dtype: str | None, **more: Any) -> Callable[[np.ndarray], Any]:
    def convert(a: np.ndarray) -> Any:
        import torch

        tensor = torch.from_numpy(np.ascontiguousarray(a).copy())
        if dtype is not None:
            tensor = tensor.to(getattr(torch, dtype))
        if more.get("grad") and tensor.is_floating_point():
            tensor.requires_grad_()
        return tensor

    return convert


# how an array is changed, and whether it means the same afterwards
_DRESSES: dict[str, tuple[Callable[[np.ndarray], Any], bool]] = {
    "plain": (lambda a: a.copy(), False),
    "by columns": (lambda a: np.asfortranarray(a), True),
    "strided": (_strided, True),
    "backwards in memory": (lambda a: np.ascontiguousarray(a[::-1])[::-1] if a.ndim else a, True),
    "read-only": (_read_only, True),
    "other byte order": (lambda a: a.astype(a.dtype.newbyteorder(">")), True),
    "long double": (_of_type(np.longdouble), False),
    "float32": (_of_type(np.float32), False),
    "float16": (_of_type(np.float16), False),
    "whole numbers": (_of_type(np.int64), False),
    "small unsigned": (lambda a: _of_type(np.uint8)(np.abs(a)), False),
    "bools": (lambda a: a > 0, False),
    "complex": (_of_type(complex), False),
    "objects": (_of_type(object), False),
    "texts": (_of_type(str), False),
    "a list": (lambda a: a.tolist(), False),
    "masked": (lambda a: np.ma.masked_array(a), False),
    "zeros": (lambda a: np.zeros_like(a), False),
    "equal along the first axis": (
        lambda a: np.repeat(a[:1], len(a), axis=0) if a.ndim and len(a) else a,
        False,
    ),
    "with NaN": (_with(math.nan), False),
    "with infinity": (_with(math.inf), False),
    "with one huge entry": (_with(1e300), False),
    "times 1e300": (_times(1e300), False),
    "times 1e-300": (_times(1e-300), False),
    "denormal": (_times(1e-310), False),
    "times 1e8": (_times(1e8), False),
    "one axis less": (lambda a: a[0] if a.ndim and len(a) else np.float64(1.0), False),
    "one axis more": (lambda a: a[None], False),
    "nothing along the first axis": (lambda a: a[:0] if a.ndim else a, False),
    "nothing along the last axis": (lambda a: a[..., :0] if a.ndim else a, False),
    "one more along the last axis": (
        lambda a: np.concatenate([a, a[..., :1]], axis=-1) if a.ndim else a,
        False,
    ),
    "one more along the first axis": (lambda a: np.concatenate([a, a[:1]]) if a.ndim else a, False),
    "transposed": (lambda a: a.T.copy(), False),
    "flat": (lambda a: a.ravel().copy(), False),
}
if "torch" in sys.modules or __import__("importlib.util").util.find_spec("torch"):
    _DRESSES |= {
        "torch float64": (_tensor(None), False),
        "torch float32": (_tensor("float32"), False),
        "torch bfloat16": (_tensor("bfloat16"), False),
        "torch with gradient": (_tensor(None, grad=True), False),
    }


# --------------------------------------------------------------------------------------------- subjects


def assert_finite(result: Any, arguments: Mapping[str, Any] | None = None) -> None:
    """Every number in a result is finite: in arrays, tuples, mappings and dataclasses."""
    for where, value in _numbers(result, "result"):
        if isinstance(value, float):
            assert math.isfinite(value), f"{where} is {value}"
        else:
            assert np.isfinite(value).all(), f"{where} holds NaN or infinite entries"


@dataclass(frozen=True)
class Subject:
    """A public function or constructor and how it is tried.

    Parameters
    ----------
    name : str
        The public name with its package: ``attention.make_nice_layer``; of a method, ``attention.AttentionLayer.map``.
    call : callable
        Called with the arguments by keyword.
    arguments : callable of Sizes, or mapping
        The arguments, by name; `Sizes` lets their shapes fit together.
    right : callable
        ``right(result, arguments)`` asserts what is to hold of an answer.
    words : tuple of str
        Further words by which a refusal may name what was given.
    refuses : bool
        Whether sane arguments may be refused, too.
    also : tuple of exception types
        What may be raised beside ValueError, in a sentence or by Python's own protocols (KeyError, OSError).
    share : float
        The share of the number of cases that this one takes: below 1 for what is expensive.
    seconds : float
        CPU seconds that a case may take.
    repeatable : bool
        Whether a second call gives the same result, so that dresses can be compared.
    """

    name: str
    call: Callable[..., Any]
    arguments: Callable[[Sizes], Mapping[str, Argument]] | Mapping[str, Argument]
    right: Callable[[Any, Mapping[str, Any]], None] = assert_finite
    words: tuple[str, ...] = ()
    refuses: bool = False
    also: tuple[type[Exception], ...] = ()
    share: float = 1.0
    seconds: float = SECONDS
    repeatable: bool = True

    def __repr__(self) -> str:
        return self.name


@st.composite
def cases(draw: Any, subject: Subject) -> tuple[dict[str, Given], tuple[str, ...]]:
    """The arguments of one call, and the names of those that are hostile."""
    sizes = draw(SIZES)
    arguments = subject.arguments(sizes) if callable(subject.arguments) else subject.arguments
    names = list(arguments)
    mode = draw(st.integers(0, 9))
    hostile: tuple[str, ...] = ()
    if names and mode >= 2:
        hostile = tuple(
            draw(st.lists(st.sampled_from(names), min_size=1, max_size=1 if mode < 9 else 2, unique=True))
        )
    drawn = {
        name: draw(argument.hostile if name in hostile else argument.sane)
        for name, argument in arguments.items()
    }
    return drawn, hostile


# --------------------------------------------------------------------------------------------- one case


class _TookTooLong(BaseException):
    """Raised in the middle of a case by the watchdog; no `except Exception` catches it."""


@contextmanager
def _fence(seconds: float) -> Iterator[None]:
    """Limits of time and memory around one call, warnings as errors."""
    main = threading.current_thread() is threading.main_thread()

    def bark(signum: int, frame: Any) -> None:
        raise _TookTooLong

    old = {}
    if main:
        # of CPU time, which a busy machine does not use up, and of wall-clock time, for what sleeps
        for kind, timer, most in (
            (signal.SIGPROF, signal.ITIMER_PROF, seconds),
            (signal.SIGALRM, signal.ITIMER_REAL, PATIENCE),
        ):
            old[kind] = signal.signal(kind, bark)
            # again and again: a C call that catches the first would go on
            signal.setitimer(timer, most, 1.0)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    statm = Path("/proc/self/statm")
    if statm.exists():
        used = int(statm.read_text().split()[0]) * resource.getpagesize()
        most = used + HEADROOM if soft == resource.RLIM_INFINITY else min(soft, used + HEADROOM)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        with warnings.catch_warnings(), memory_limited_to(MEMORY):
            warnings.simplefilter("error")
            yield
    finally:
        if main:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            for kind, handler in old.items():
                signal.signal(kind, handler)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class Verdict(Enum):
    """What a case came to."""

    ANSWER = "answer"
    REFUSAL = "refusal"
    VIOLATION = "violation"


def try_case(
    subject: Subject, drawn: Mapping[str, Given], hostile: tuple[str, ...] = ()
) -> tuple[Verdict, str]:
    """Make one call and say what it was, and, of a violation, why."""
    values = {name: one.make() for name, one in drawn.items()}
    before = {name: _bytes(value) for name, value in values.items()}
    try:
        with _fence(subject.seconds):
            result = subject.call(**values)
            # what is made while it is asked for is a result, too
            result = list(result) if isinstance(result, types.GeneratorType) else result
            subject.right(result, values)
            changed = [name for name in values if before[name] != _bytes(values[name])]
            if changed:
                return Verdict.VIOLATION, f"it changed its argument {changed[0]}"
            plain = {name: drawn[name].plain for name in hostile}
            if hostile and subject.repeatable and all(plain.values()):
                again = {
                    name: plain[name]() if name in plain else one.make()  # type: ignore[misc]
                    for name, one in drawn.items()
                }
                if difference := same(result, subject.call(**again)):
                    return Verdict.VIOLATION, f"plain copies of the arrays give another result: {difference}"
        return Verdict.ANSWER, ""
    except _TookTooLong:
        gc.collect()
        return Verdict.VIOLATION, f"it took more than {subject.seconds:g} seconds"
    except Exception as error:
        return _of_error(subject, drawn, values, hostile, error)


def _of_error(
    subject: Subject,
    drawn: Mapping[str, Given],
    values: Mapping[str, Any],
    hostile: tuple[str, ...],
    error: Exception,
) -> tuple[Verdict, str]:
    where = _place(error)
    if isinstance(error, AssertionError):
        return Verdict.VIOLATION, f"wrong: {' '.join(str(error).split())[:200]} [{where}]"
    own_protocol = isinstance(error, TypeError) and _depth(error) == 1
    if own_protocol or (
        subject.also and isinstance(error, subject.also) and not isinstance(error, ValueError)
    ):
        return Verdict.REFUSAL, ""
    if not isinstance(error, ValueError) or isinstance(error, UnicodeError):
        return Verdict.VIOLATION, f"{type(error).__name__}: {str(error)[:200]} [{where}]"
    of_file = isinstance(error, FileFormatError)
    if complaint := sentence_complaint(str(error), drawn, values, subject.words, of_file=of_file):
        return Verdict.VIOLATION, f"{type(error).__name__} {complaint}: {str(error)[:200]!r} [{where}]"
    if not hostile and not subject.refuses:
        return Verdict.VIOLATION, f"sane arguments are refused: {str(error)[:200]!r} [{where}]"
    return Verdict.REFUSAL, ""


_ALLOWED = re.compile(
    r"\b(needed|needs?|allowed|allows?|must|give|take|takes|use|only|at least|at most|choose|instead|known|lower"
    r"|have|raise|first|expected|can|cannot|has to|keep|compare|load|read|fewer|larger|smaller|more|less|for example"
    r"|scale|it ends|ends|draw|has no meaning|may be)\b",
    re.IGNORECASE,
)


def sentence_complaint(
    text: str,
    drawn: Mapping[str, Given],
    values: Mapping[str, Any],
    words: tuple[str, ...] = (),
    *,
    of_file: bool = False,
) -> str:
    """What is wrong with a refusal's text; empty where it is a sentence that helps."""
    if not text.endswith("."):
        return "ends without a full stop"
    if len(text) > 900:
        return f"is {len(text)} characters long"
    if len(text.split()) < 5:
        return "is too short to help"
    # what is wrong with a file is said of the file
    if not of_file and not _ALLOWED.search(text):
        return "does not say what is allowed"
    lowered = text.lower()
    names = [
        *drawn,
        *words,
        *(name.rstrip("s") for name in drawn),
        *(name.replace("_", " ") for name in drawn),
    ]
    if any(re.search(rf"(?<![a-z]){re.escape(name.lower())}(?![a-z])", lowered) for name in names):
        return ""
    for value in values.values():
        # libraries are named by the arrays that came from them
        shapes = [type(value).__module__.partition(".")[0]] if "arrays of" in lowered else []
        shapes += (
            [str(tuple(value.shape)), str(value.dtype)]
            if hasattr(value, "shape") and hasattr(value, "dtype")
            else []
        )
        for shown in (*shapes, type(value).__name__, _short(repr, value), _short(str, value)):
            if shown and shown.lower() in lowered:
                return ""
    return "names neither the argument nor the value"


def _short(show: Callable[[Any], str], value: Any) -> str:
    try:
        return show(value)[:60]
    except Exception:
        return ""


# --------------------------------------------------------------------------------------------- many cases


@dataclass
class Tally:
    """What came of the cases of one subject."""

    counts: Counter = field(default_factory=Counter)
    violations: dict[str, str] = field(default_factory=dict)


def run(subject: Subject, number: int) -> Tally:
    """Try a subject on a number of cases, and collect what came of them."""
    tally = Tally()

    @settings(
        max_examples=max(4, round(number * subject.share)),
        derandomize=True,
        database=None,
        deadline=None,
        phases=(
            Phase.generate,
        ),  # one hostile argument: there is nothing to shrink, and all violations are wanted
        suppress_health_check=list(HealthCheck),
    )
    @given(cases(subject))
    def check(case: tuple[dict[str, Given], tuple[str, ...]]) -> None:
        drawn, hostile = case
        verdict, why = try_case(subject, drawn, hostile)
        tally.counts[verdict.value] += 1
        if verdict is Verdict.VIOLATION:
            call = ", ".join(f"{name}={one.label}" for name, one in drawn.items())
            tally.violations.setdefault(_signature(why), f"{subject.name}({call}): {why}")

    check()
    return tally


def _signature(why: str) -> str:
    # the place tells violations apart, not the numbers in them
    return re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "#", why)[-160:]


def missing_subjects(
    packages: Mapping[str, types.ModuleType], subjects: list[Subject], exceptions: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Public names that are neither tried nor excepted, and exceptions that are no public names or are tried."""
    tried = {subject.call for subject in subjects if isinstance(subject.call, type | types.FunctionType)}
    named = {subject.name for subject in subjects}
    public = {
        f"{package}.{name}": getattr(module, name)
        for package, module in packages.items()
        for name in module.__all__
    }

    def covered(name: str, value: Any) -> bool:
        short = name.rpartition(".")[2]
        if name in named or any(one.startswith(name + ".") for one in named):
            return True
        # one object may be public in two packages
        return any(value is one for one in tried) or (
            any(one.rpartition(".")[2] == short and public.get(one) is value for one in named)
        )

    missing = [name for name, value in public.items() if not covered(name, value) and name not in exceptions]
    idle = [name for name in exceptions if name not in public or name in named]
    return missing, idle


# --------------------------------------------------------------------------------------------- comparing


def same(first: Any, second: Any, where: str = "result") -> str:
    """Where two results differ by more than rounding; empty where they do not."""
    if type(first) is not type(second):
        return f"{where} is of {type(first).__name__} and {type(second).__name__}"
    ones, others = dict(_numbers(first, where)), dict(_numbers(second, where))
    if set(ones) != set(others):
        return f"{where} has other parts: {sorted(set(ones) ^ set(others))[:3]}"
    for name, one in ones.items():
        a, b = np.asarray(one), np.asarray(others[name])
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{name} is {a.dtype}{a.shape} and {b.dtype}{b.shape}"
        tolerance = 1e-3 if a.dtype.itemsize <= 2 else 1e-4 if a.dtype.itemsize <= 4 else 1e-6
        if not np.allclose(a, b, rtol=tolerance, atol=tolerance * _largest(b), equal_nan=True):
            return f"{name} differs by up to {np.nanmax(np.abs(a - b)):.3g}"
    return ""


def _largest(a: np.ndarray) -> float:
    return float(np.abs(a[np.isfinite(a)]).max(initial=0.0))


def _numbers(value: Any, where: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    if depth > 6:
        return
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "fc":
            yield where, value
    elif isinstance(value, float | np.floating):
        yield where, float(value)
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _numbers(one, f"{where}[{key!r}]", depth + 1)
    elif isinstance(value, tuple | list):
        for i, one in enumerate(value[:50]):
            yield from _numbers(one, f"{where}[{i}]", depth + 1)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for one in dataclasses.fields(value):
            # clocks differ from call to call
            if one.name != "seconds":
                yield from _numbers(getattr(value, one.name), f"{where}.{one.name}", depth + 1)
    elif (
        "torch" in sys.modules
        and isinstance(value, sys.modules["torch"].Tensor)
        and value.is_floating_point()
    ):
        yield where, value.detach().cpu().double().numpy()


def _bytes(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes() if value.dtype.kind != "O" else value.tolist()
    if type(value) in (list, dict):
        return repr(value)
    return None


def _depth(error: BaseException) -> int:
    # frames below the one in which the case is tried
    depth, trace = 0, error.__traceback__
    while trace is not None:
        depth, trace = depth + 1, trace.tb_next
    return depth


def _place(error: BaseException) -> str:
    ours = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if str(_ROOT) in frame.filename and str(_ROOT / "tests") not in frame.filename
    ]
    return f"{'/'.join(Path(ours[-1].filename).parts[-2:])}:{ours[-1].lineno}" if ours else "in the test"
