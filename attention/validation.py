"""Constraints declared once, in annotations, and held at the public entry: `checked` reads them."""

import collections.abc
import functools
import inspect
import operator
import os
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import array_api_compat
import jaxtyping
import numpy as np

from attention._arrays import namespace, shown, to_numpy

__all__ = [
    "NonNegativeFloat",
    "NonNegativeInt",
    "PositiveFloat",
    "PositiveInt",
    "Real",
    "Whole",
    "bad_values",
    "check",
    "checked",
    "constraints",
]

Checked = TypeVar("Checked", bound=Callable[..., Any])
Sizes = Any  # lengths by the names of dimensions
Lengths = Any  # a tuple: named in full, run-time checkers of types would try entries of it at random

_NO_REALS = (bool, np.bool_, str, bytes, complex, np.complexfloating)


class Unfit(ValueError):
    """A value breaks its constraint; the text says what was given."""


@dataclass(frozen=True)
class Whole:
    """A whole number within bounds, as in ``Annotated[int, Whole(1, 64)]``.

    Parameters
    ----------
    least, most : int, optional
        The smallest and the largest number allowed.
    """

    least: int | None = None
    most: int | None = None

    @property
    def needed(self) -> str:
        """What an error asks for."""
        return "a whole number" + _bounds(least=self.least, most=self.most)

    def convert(self, value: Any, sizes: Sizes) -> int:
        """`value` as an int, or `Unfit`."""
        try:
            if isinstance(value, bool | np.bool_):
                raise TypeError
            whole = operator.index(value)
        except TypeError:
            raise Unfit(shown(value)) from None
        if (self.least is not None and whole < self.least) or (self.most is not None and whole > self.most):
            raise Unfit(shown(whole))
        return whole

    def bad(self) -> list[Any]:
        """Values to try that break it."""
        return [
            *([] if self.least is None else [self.least - 1]),
            *([] if self.most is None else [self.most + 1]),
            1.5, float("nan"), True, "1", None, [1],
        ]  # fmt: skip


@dataclass(frozen=True)
class Real:
    """A finite number within bounds, as in ``Annotated[float, Real(above=0, most=1)]``.

    Parameters
    ----------
    least, above, most, below : float, optional
        The bounds; those of `above` and `below` are excluded.
    """

    least: int | float | None = None
    above: int | float | None = None
    most: int | float | None = None
    below: int | float | None = None

    @property
    def needed(self) -> str:
        """What an error asks for."""
        bounds = _bounds(least=self.least, above=self.above, most=self.most, below=self.below)
        return "a finite number" + bounds

    def convert(self, value: Any, sizes: Sizes) -> float:
        """`value` as a float, or `Unfit`."""
        try:
            if isinstance(value, _NO_REALS) or getattr(value, "ndim", False):
                raise TypeError
            # of arrays without axes: NumPy would make a number of a truth value
            if isinstance(value, np.ndarray) and value.dtype.kind not in "fiu":
                raise TypeError
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise Unfit(shown(value)) from None
        if (
            not np.isfinite(number)
            or (self.least is not None and number < self.least)
            or (self.above is not None and number <= self.above)
            or (self.most is not None and number > self.most)
            or (self.below is not None and number >= self.below)
        ):
            raise Unfit(str(number))
        return number

    def bad(self) -> list[Any]:
        """Values to try that break it."""
        return [
            *(bound for bound in (self.above, self.below) if bound is not None),
            *([] if self.least is None else [self.least - 1e-3]),
            *([] if self.most is None else [self.most + 1e-3]),
            float("nan"), float("inf"), True, "1", None, 1j, [1.0],
        ]  # fmt: skip


PositiveInt = Annotated[int, Whole(1)]
NonNegativeInt = Annotated[int, Whole(0)]
PositiveFloat = Annotated[float, Real(above=0)]
NonNegativeFloat = Annotated[float, Real(least=0)]


def checked(subject: Checked) -> Checked:
    """Hold the arguments of a function, or the fields of a dataclass, against their annotations.

    Parameters
    ----------
    subject : function or class
        A class is decorated below its ``@dataclass``; a ``__post_init__`` of its own runs after the checks.

    Returns
    -------
    function or class
        The same, called with converted values: whole numbers are int, numbers float, sequences tuples, and arrays of
        ``Float[np.ndarray, "n d"]`` are in double precision, where lists are read, too. Other arrays stay in
        their library.

    Raises
    ------
    ValueError
        On a call, if a value breaks its constraint: with its name, what was given and what is needed.

    Notes
    -----
    What an annotation says is what is checked: bounds (`Whole`, `Real`), ``Literal``, ``bool``, ``str``, classes,
    ``Callable``, sequences and mappings with their entries, shapes and finite entries of jaxtyping's arrays, where
    a name such as ``d`` is one length throughout a call. ``Any`` is not. A call takes some 10 us more.

    Examples
    --------
    >>> @checked
    ... def repeat(text: str, times: PositiveInt = 2, *, mark: Literal["-", "+"] = "-") -> str:
    ...     return mark.join([text] * times)
    >>> repeat("a", 3)
    'a-a-a'
    >>> repeat("a", 0)
    Traceback (most recent call last):
        ...
    ValueError: times is 0: a whole number of at least 1 is needed.
    """
    if isinstance(subject, type):
        own = subject.__dict__.get("__post_init__")

        def post_init(self: Any) -> None:
            names = [one.name for one in fields(self) if one.init]
            found = constraints(type(self))  # type: ignore[arg-type]
            sizes: Sizes = {}
            for name in names:
                if name in found:
                    object.__setattr__(self, name, check(name, getattr(self, name), found[name], sizes))
            if own is not None:
                own(self)

        subject.__post_init__ = post_init  # type: ignore[attr-defined]
        return subject

    signature = inspect.signature(subject)

    @functools.wraps(subject)
    def entry(*args: Any, **options: Any) -> Any:
        call = signature.bind(*args, **options)
        found = constraints(subject)
        sizes: Sizes = {}
        for name, value in call.arguments.items():
            if name in found:
                call.arguments[name] = check(name, value, found[name], sizes)
        return subject(*call.args, **call.kwargs)

    return entry  # type: ignore[return-value]


@functools.cache
def constraints(subject: Any) -> Any:
    """The constraint of each argument that has one, by name."""
    hints = get_type_hints(inspect.unwrap(subject), include_extras=True)
    found = {name: _constraint(hint) for name, hint in hints.items() if name != "return"}
    return {name: one for name, one in found.items() if one is not None}


def check(name: str, value: Any, constraint: Any, sizes: Sizes | None = None) -> Any:
    """`value` as the constraint makes it, or an error with its name, what was given and what is needed.

    Examples
    --------
    >>> check("m", 3, Whole(1))
    3
    """
    try:
        return constraint.convert(value, {} if sizes is None else sizes)
    except Unfit as unfit:
        raise ValueError(f"{name} is {unfit}: {constraint.needed} is needed.") from None


def bad_values(subject: Any) -> dict[str, list[Any]]:
    """Values that break the constraint of each argument, by name: what tests feed."""
    found = {}
    for name, constraint in constraints(subject).items():
        found[name] = [value for value in constraint.bad() if not _fits(constraint, value)]
    return found


def count(name: str, value: Any, *, least: int = 1, most: int | None = None) -> int:
    """`value` as an int within bounds, where they are known on the call only."""
    return check(name, value, Whole(least, most))


def finite_number(name: str, value: Any) -> float:
    """`value` as a finite float."""
    return check(name, value, Real())


def non_negative(name: str, value: Any, *, strictly: bool = False) -> float:
    """`value` as a finite float of at least (or, `strictly`, above) zero."""
    return check(name, value, Real(above=0) if strictly else Real(least=0))


def real_array(name: str, values: Any, shape: Sequence[Any] | None = None) -> np.ndarray:
    """`values` as a finite NumPy array in double precision, of the `shape` if one is given; lists are read, too."""
    return check(name, values, _Array(_dims(shape), numpy=True, whole=False))


def require_array(name: str, array: Any, shape: Sequence[Any]) -> None:
    """Raise when `array` has not the `shape`, or its entries are no finite real numbers."""
    check(name, array, _Array(_dims(shape), numpy=False, whole=False))


def require_finite(name: str, array: Any) -> None:
    """Raise when `array` holds a NaN or an infinity, or entries that are no real numbers at all."""
    require_array(name, array, ("...",))


def require_shape(name: str, array: Any, shape: Sequence[int | str]) -> None:
    """Raise when `array` has not the `shape`; a text in `shape` allows any length of at least one."""
    wanted = _Array(_dims(shape), numpy=False, whole=False)
    if not hasattr(array, "shape"):
        raise ValueError(f"{name} is {_given(array)}: {wanted.needed} is needed.")
    try:
        wanted.measure(tuple(array.shape), {})
    except Unfit as unfit:
        raise ValueError(f"{name} is {unfit}: {wanted.needed} is needed.") from None


def require_flag(name: str, value: Any) -> None:
    """Raise when `value` is neither true nor false."""
    check(name, value, _Kind(bool, "True or False"))


def one_of(name: str, value: Any, allowed: Sequence[Any]) -> None:
    """Raise when `value` is none of the texts (or other plain values) that are allowed."""
    check(name, value, _OneOf(tuple(allowed)))


def require_instance(name: str, value: Any, kinds: Any, *, needed: str) -> None:
    """Raise when `value` is of none of the `kinds`; `needed` says what would be right."""
    check(name, value, _Kind(kinds, needed))


def require_callable(name: str, value: Any, *, needed: str = "a function") -> None:
    """Raise when `value` cannot be called."""
    check(name, value, _Function(needed))


def require_mapping(name: str, value: Any) -> None:
    """Raise when `value` is no mapping whose names are texts."""
    check(name, value, _Named(None))


def as_path(value: Any, *, name: str = "The path") -> Path:
    """`value` as a path."""
    return Path(check(name, value, _Kind((str, os.PathLike), "the path of a file")))


def random_generator(rng: Any) -> np.random.Generator:
    """The generator that `rng` stands for: whatever `numpy.random.default_rng` takes."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise ValueError(
            f"rng is {shown(rng)}: a seed (whole numbers of at least 0), a numpy.random.Generator or None is needed."
        ) from None


def _dims(shape: Sequence[Any] | None) -> Lengths:
    return ("...",) if shape is None else tuple(str(size) for size in shape)


def _fits(constraint: Any, value: Any) -> bool:
    try:
        constraint.convert(value, {})
    except Unfit:
        return False
    return True


def _bounds(*, least: Any = None, above: Any = None, most: Any = None, below: Any = None) -> str:
    words = {"of at least": least, "above": above, "of at most": most, "below": below}
    bounds = [f"{word} {bound}" for word, bound in words.items() if bound is not None]
    return "".join(f" {bound}" for bound in [" and ".join(bounds)] if bound)


@dataclass(frozen=True)
class _Either:
    """One of several constraints."""

    options: tuple[Any, ...]

    @property
    def needed(self) -> str:
        return ", or ".join(option.needed for option in self.options)

    def convert(self, value: Any, sizes: Sizes) -> Any:
        refusals = []
        for option in self.options:
            try:
                return option.convert(value, sizes)
            except Unfit as unfit:
                refusals.append(unfit)
        # what an array lacks says more than the array itself
        raise min(refusals, key=lambda unfit: str(unfit) in (_given(value), shown(value)))

    def bad(self) -> list[Any]:
        return [value for option in self.options for value in option.bad()]


@dataclass(frozen=True)
class _OneOf:
    """One of the values of a ``Literal``."""

    allowed: tuple[Any, ...]

    @property
    def needed(self) -> str:
        return " or ".join(map(repr, self.allowed))

    def convert(self, value: Any, sizes: Sizes) -> Any:
        if not any(type(value) is type(one) and value == one for one in self.allowed):
            raise Unfit(shown(value))
        return value

    def bad(self) -> list[Any]:
        return ["no such", 0.5, [], None]


@dataclass(frozen=True)
class _Kind:
    """An object of a class."""

    kind: Any
    needed: str

    def convert(self, value: Any, sizes: Sizes) -> Any:
        if self.kind is bool and isinstance(value, np.bool_):
            return bool(value)
        if not isinstance(value, self.kind):
            raise Unfit(_given(value))
        return value

    def bad(self) -> list[Any]:
        return [None, object(), 2, [1]]


@dataclass(frozen=True)
class _Function:
    needed: str = "a function"

    def convert(self, value: Any, sizes: Sizes) -> Any:
        if not callable(value):
            raise Unfit(_given(value))
        return value

    def bad(self) -> list[Any]:
        return [None, 2, "no such"]


@dataclass(frozen=True)
class _Entries:
    """A sequence whose entries have a constraint; it becomes a tuple."""

    entry: Any

    @property
    def needed(self) -> str:
        return f"a sequence with every entry {self.entry.needed}"

    def convert(self, value: Any, sizes: Sizes) -> tuple[Any, ...]:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            raise Unfit(_given(value))
        try:
            return tuple(self.entry.convert(one, sizes) for one in value)
        except Unfit as unfit:
            raise Unfit(f"a sequence with {unfit}") from None
        except TypeError:  # an array without axes
            raise Unfit(_given(value)) from None

    def bad(self) -> list[Any]:
        return [None, 2, "no such", *([value] for value in self.entry.bad())]


@dataclass(frozen=True)
class _Named:
    """A mapping from texts; its entries have a constraint, or none."""

    entry: Any

    @property
    def needed(self) -> str:
        return "a mapping from texts" + ("" if self.entry is None else f" to {self.entry.needed}")

    def convert(self, value: Any, sizes: Sizes) -> Any:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise Unfit(shown(value))
        if self.entry is None:
            return value
        try:
            return {key: self.entry.convert(one, sizes) for key, one in value.items()}
        except Unfit as unfit:
            raise Unfit(f"a mapping to {unfit}") from None

    def bad(self) -> list[Any]:
        return [None, 2, "no such", {1: 2}]


@dataclass(frozen=True)
class _Array:
    """An array of finite numbers with a shape; of NumPy in double precision, or of the library it is of."""

    dims: Lengths
    numpy: bool
    whole: bool

    @property
    def needed(self) -> str:
        shape = f"({', '.join(self.dims)}{',' * (len(self.dims) == 1)})"
        return f"an array of finite {'whole' if self.whole else 'real'} numbers of shape {shape}"

    def convert(self, value: Any, sizes: Sizes) -> Any:
        array = self._numbers(value)
        self.measure(tuple(array.shape), sizes)
        xp = namespace(array)
        floating = xp.isdtype(array.dtype, "real floating")
        if floating and not bool(xp.all(xp.isfinite(array))):
            raise Unfit("an array with NaN or infinite entries")
        return array

    def _numbers(self, value: Any) -> Any:
        if self.numpy:
            try:
                array = np.asarray(to_numpy(value))
            except (TypeError, ValueError, RuntimeError):  # ragged, or a tensor of a kind that NumPy has not
                raise Unfit(_given(value)) from None
            kinds = "iu" if self.whole else "fiub"
            if array.dtype.kind not in kinds and array.size:
                raise Unfit(f"an array of {array.dtype}")
            if self.whole:
                return array
            with np.errstate(over="ignore"):  # of a wider type: infinite here, and refused
                return np.asarray(array, dtype=np.float64)
        if not array_api_compat.is_array_api_obj(value):
            raise Unfit(_given(value))
        allowed = "integral" if self.whole else ("real floating", "integral", "bool")
        if not namespace(value).isdtype(value.dtype, allowed):
            raise Unfit(f"an array of {value.dtype}")
        return value

    def measure(self, shape: Lengths, sizes: Sizes) -> None:
        given = f"an array of shape {shape}"
        if "..." in self.dims:
            return
        if len(shape) != len(self.dims):
            raise Unfit(given)
        for dim, size in zip(self.dims, shape, strict=True):
            if dim.isdigit():
                wanted = int(dim)
            elif dim.isidentifier() and dim != "_":
                wanted = sizes.setdefault(dim, size)
            else:
                continue
            if size != wanted or size < 1:
                raise Unfit(f"{given}, where {dim} is {wanted}" if dim in sizes and wanted else given)

    def bad(self) -> list[Any]:
        shape = [int(dim) if dim.isdigit() else 2 for dim in self.dims]
        ones = np.ones(shape)
        return [None, "no such", ones[None], ones * np.nan, ones * 1j, ones.astype(str), ones[..., :0]]


def _given(value: Any) -> str:
    plain = value is None or isinstance(value, str | bytes | int | float | complex)
    return shown(value) if plain else f"of the type {type(value).__name__}"


def _constraint(hint: Any) -> Any:
    """The constraint that an annotation stands for; None where it stands for none."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return next((one for one in args[1:] if hasattr(one, "convert")), None) or _constraint(args[0])
    if origin in (Union, types.UnionType):
        options = [_constraint(one) for one in args]
        return None if None in options else _Either(tuple(options))
    if origin is Literal:
        return _OneOf(args)
    if hint is int:
        return Whole()
    if hint is float:
        return Real()
    if hint is types.NoneType:
        return _Kind(types.NoneType, "None")
    if isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray):
        whole = isinstance(hint.dtypes, Sequence) and all("int" in str(one) for one in hint.dtypes)
        return _Array(tuple(hint.dim_str.split()), hint.array_type is np.ndarray, whole)
    if origin in (tuple, list, collections.abc.Sequence) and len(args) == 1 + (origin is tuple):
        entry = _constraint(args[0])
        return entry and (_Entries(entry) if origin is not tuple or args[1] is ... else None)
    if origin in (dict, collections.abc.Mapping) or hint in (dict, Mapping):
        return _Named(_constraint(args[1]) if args else None)
    if origin is collections.abc.Callable or hint is Callable:
        return _Function()
    if isinstance(hint, type) and (not getattr(hint, "_is_protocol", False) or _runtime(hint)):
        return None if hint in (Any, object, Sequence) else _Kind(hint, _a(hint))
    return None


def _runtime(protocol: type) -> bool:
    return bool(getattr(protocol, "_is_runtime_protocol", False))


def _a(kind: type) -> str:
    if kind is bool:
        return "True or False"
    if kind is str:
        return "a text"
    return f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"
