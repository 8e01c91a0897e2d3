"""What an argument may sanely be, and what else it is tried with."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fuzzing.dresses import DRESSES

__all__ = [
    "SIZES",
    "Argument",
    "Given",
    "Sizes",
    "anything",
    "array",
    "choice",
    "fixed",
    "made",
    "real",
    "seed",
    "whole",
]


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
        change, same_value = DRESSES[dress]
        # entries that the dress cannot hold say so by leaving it out
        plain = (lambda: base(number)) if same_value else None
        return Given(f"<{dress}: {tuple(shape)}>", lambda: change(base(number)), plain)

    sane = st.integers(0, 3).map(lambda number: dressed(number, "plain"))
    dresses = [name for name in DRESSES if torch or "torch" not in name]
    hostile = st.builds(dressed, st.integers(0, 3), st.sampled_from(dresses))
    return Argument(sane, hostile | hostile | hostile | _EVERYTHING)
