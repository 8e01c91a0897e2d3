"""Constraints on arguments, declared once in annotations; `checked` enforces them at public functions."""

import collections.abc
import functools
import inspect
import math
import operator
import os
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import jaxtyping
import numpy as np

from attention._arrays import Unfit, described, finite_array, shown

Checked = TypeVar("Checked", bound=Callable[..., Any])
Sizes = Any  # a dictionary of the lengths of dimensions


@dataclass(frozen=True, eq=False)
class Constraint:
    """What a value must be."""

    needed: str  #: what the value must be, as an error message says it
    #: takes a value and the lengths of the dimensions known so far; returns the converted value, or
    #: raises `Unfit`
    convert: Callable[[Any, Sizes], Any]


def checked(subject: Checked) -> Checked:
    """Check the arguments of a function, or the fields of a dataclass, against their annotations.

    Parameters
    ----------
    subject : function or class
        Decorate a class below its ``@dataclass``; its ``__post_init__``, or its parent's, runs after the checks.

    Returns
    -------
    function or class
        The same, called with converted values. Whole numbers become int, numbers float, and sequences tuples. A value
        of ``Float[np.ndarray, "n d"]`` becomes an array in double precision; it may be a list. Other arrays stay in
        their library.

    Raises
    ------
    ValueError
        On a call, if a value breaks its constraint. The message has its name, what was given and what is needed.

    Notes
    -----
    Bounds (`Whole`, `Real`), ``Literal``, ``bool``, ``str``, classes, ``Callable``, sequences and mappings with their
    entries, and arrays of jaxtyping are checked: their shapes, and that entries are finite. A name such as ``d`` is one
    length throughout a call. The checks add about 10 us to a call.

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
        own = getattr(
            subject, "__post_init__", lambda self: None
        )  # that of the parent, if the class has none

        def post_init(self: Any) -> None:
            given = {field.name: getattr(self, field.name) for field in fields(self) if field.init}
            for name, value in _converted(type(self), given).items():
                object.__setattr__(self, name, value)
            own(self)

        subject.__post_init__ = post_init  # type: ignore[attr-defined]
        return subject

    signature = inspect.signature(subject)

    @functools.wraps(subject)
    def entry(*args: Any, **options: Any) -> Any:
        call = signature.bind(*args, **options)
        call.arguments.update(_converted(subject, call.arguments))
        return subject(*call.args, **call.kwargs)

    return entry  # type: ignore[return-value]


def _converted(subject: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    wanted: Any = constraints(subject)
    sizes: Sizes = {}
    return {name: check(name, value, wanted[name], sizes) for name, value in given.items() if name in wanted}


@functools.cache
def constraints(subject: Any) -> Any:
    """The constraint of each argument that has one, by name."""
    subject, scope = inspect.unwrap(subject), None
    if not isinstance(subject, type):  # skip the return type: its library may not be imported yet
        scope = subject.__globals__
        arguments = {name: hint for name, hint in subject.__annotations__.items() if name != "return"}
        subject = types.SimpleNamespace(__annotations__=arguments)
    hints = get_type_hints(subject, scope, include_extras=True)
    wanted = {name: _constraint(hint) for name, hint in hints.items()}
    return {name: constraint for name, constraint in wanted.items() if constraint is not None}


def check(name: str, value: Any, wanted: Any, sizes: Sizes = None) -> Any:
    """`value` as a constraint or an annotation wants it, or an error with its name, what was given and what is needed.

    Examples
    --------
    >>> check("heads", 3, PositiveInt)
    3
    """
    constraint = wanted if isinstance(wanted, Constraint) else _constraint(wanted)
    try:
        return constraint.convert(value, {} if sizes is None else sizes)
    except Unfit as unfit:
        raise ValueError(f"{name} is {unfit}: {constraint.needed} is needed.") from None


@functools.cache
def Whole(least: int | None = None, most: int | None = None) -> Constraint:
    """A whole number within bounds, as in ``Annotated[int, Whole(1, 64)]``."""
    return _number("a whole number", _to_whole, least=least, most=most)


@functools.cache
def Real(
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> Constraint:
    """A finite number within bounds, as in ``Annotated[float, Real(above=0, most=1)]``."""
    return _number("a finite number", _to_real, least=least, above=above, most=most, below=below)


_WORDS = {
    "least": ("of at least", operator.ge),
    "above": ("above", operator.gt),
    "most": ("of at most", operator.le),
    "below": ("below", operator.lt),
}


def _number(noun: str, convert: Callable[[Any], Any], **limits: float | None) -> Constraint:
    bounds = [(*_WORDS[name], limit) for name, limit in limits.items() if limit is not None]

    def within(value: Any, sizes: Sizes) -> Any:
        number = convert(value)
        if not all(holds(number, limit) for _, holds, limit in bounds):
            raise Unfit(shown(number))
        return number

    needed = " and ".join(f"{words} {limit}" for words, _, limit in bounds)
    return Constraint(f"{noun} {needed}".rstrip(), within)


def _to_whole(value: Any) -> int:
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise Unfit(shown(value)) from None


def _to_real(value: Any) -> float:
    # NumPy would convert Booleans, texts and arrays with one entry to numbers
    kind = value.dtype.kind if isinstance(value, np.ndarray | np.generic) and not value.ndim else None
    try:
        if (
            isinstance(value, bool | str | bytes)
            or (kind or "f") not in "fiu"
            or getattr(value, "ndim", False)
        ):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise Unfit(shown(value)) from None
    if not math.isfinite(number):
        raise Unfit(str(number))
    return number


PositiveInt = Annotated[int, Whole(1)]
NonNegativeInt = Annotated[int, Whole(0)]
PositiveFloat = Annotated[float, Real(above=0)]
NonNegativeFloat = Annotated[float, Real(least=0)]


@functools.cache
def _constraint(hint: Any) -> Any:
    """The constraint of an annotation; None if it has none."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        declared = [note for note in args[1:] if isinstance(note, Constraint)]
        return declared[0] if declared else _constraint(args[0])
    if origin in (Union, types.UnionType):
        options = [_constraint(arg) for arg in args]
        return None if None in options else _either(options)
    if origin is Literal:
        return _that_is(
            lambda value: any(type(value) is type(choice) and value == choice for choice in args),
            " or ".join(map(repr, args)),
        )
    if hint in (int, float):
        return Whole() if hint is int else Real()
    if isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray):
        kinds = hint.dtypes if isinstance(hint.dtypes, Sequence) else ()  # empty if any dtype is allowed
        flags, whole = (bool(kinds) and all(word in str(kind) for kind in kinds) for word in ("bool", "int"))
        numpy = hint.array_type is np.ndarray and not flags
        return _array(hint.dim_str.split(), numpy=numpy, whole=whole)
    if origin is collections.abc.Sequence or (origin is tuple and args[1:] == (...,)):
        return None if (entry := _constraint(args[0])) is None else _entries(entry)
    if origin in (dict, collections.abc.Mapping) or hint in (dict, Mapping):
        return _mapping(_constraint(args[1]) if args else None)
    if origin is collections.abc.Callable or hint is Callable:
        return _that_is(callable, "a function")
    if hint is bool:
        return _that_is(lambda value: isinstance(value, bool | np.bool_), "True or False", bool)
    kind = os.PathLike if origin is os.PathLike else hint
    protocol = getattr(kind, "_is_protocol", False) and not getattr(kind, "_is_runtime_protocol", False)
    if not isinstance(kind, type) or protocol or kind in (Any, object, Sequence):
        return None
    article = "an" if kind.__name__[0] in "AEIOU" else "a"
    name = {types.NoneType: "None", str: "a text", os.PathLike: "a path"}.get(kind)
    return _that_is(lambda value: isinstance(value, kind), name or f"{article} {kind.__name__}")


def _either(options: Any) -> Constraint:
    def convert(value: Any, sizes: Sizes) -> Any:
        refusals = []
        for option in options:
            try:
                return option.convert(value, sizes)
            except Unfit as unfit:
                refusals.append(unfit.with_traceback(None))  # its frames would keep the value alive
        # a message on the content of an array helps more than one on its type
        raise min(refusals, key=lambda unfit: str(unfit) in (described(value), shown(value)))

    return Constraint(", or ".join(option.needed for option in options), convert)


def _that_is(
    fits: Callable[[Any], bool], needed: str, convert: Callable[[Any], Any] = lambda value: value
) -> Constraint:
    def fitting(value: Any, sizes: Sizes) -> Any:
        if not fits(value):
            raise Unfit(described(value))
        return convert(value)

    return Constraint(needed, fitting)


def _entries(entry: Constraint) -> Constraint:
    def convert(value: Any, sizes: Sizes) -> Any:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            raise Unfit(described(value))
        try:
            return tuple(entry.convert(item, sizes) for item in value)
        except Unfit as unfit:
            raise Unfit(f"a sequence with {unfit}") from None
        except TypeError:  # an array without axes
            raise Unfit(described(value)) from None

    return Constraint(f"a sequence with every entry {entry.needed}", convert)


def _mapping(entry: Constraint | None) -> Constraint:
    """A mapping with text keys; its values may have a constraint."""

    def convert(value: Any, sizes: Sizes) -> Any:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise Unfit(shown(value))
        try:
            return {key: entry.convert(item, sizes) for key, item in value.items()} if entry else value
        except Unfit as unfit:
            raise Unfit(f"a mapping to {unfit}") from None

    return Constraint("a mapping from texts" + (f" to {entry.needed}" if entry else ""), convert)


def _array(dims: Any, *, numpy: bool, whole: bool = False) -> Constraint:
    dims = [str(dim) for dim in dims]
    shape = f"({', '.join(dims)}{',' * (len(dims) == 1)})"
    return Constraint(
        f"an array of finite {'whole' if whole else 'real'} numbers of shape {shape}",
        lambda value, sizes: finite_array(value, dims, sizes, numpy=numpy, whole=whole),
    )


# Checks for bounds that are known only at the call.


def count(name: str, value: Any, *, least: int = 1, most: int | None = None) -> int:
    """`value` as an int within bounds."""
    return check(name, value, Whole(least, most))


def real_array(name: str, values: Any, shape: Sequence[Any] = ("...",)) -> np.ndarray:
    """`values`, an array or lists, as a finite NumPy array in double precision, of the `shape` if one is given."""
    return check(name, values, _array(shape, numpy=True))


def require_array(name: str, array: Any, shape: Sequence[int | str] = ("...",)) -> None:
    """Raise if `array` has another shape (a text in `shape` allows any length), or an entry is not finite."""
    check(name, array, _array(shape, numpy=False))


def random_generator(rng: Any) -> np.random.Generator:
    """The generator for `rng`, which is anything that `numpy.random.default_rng` accepts."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise ValueError(
            f"rng is {shown(rng)}: a seed (whole numbers of at least 0), a numpy.random.Generator or None is needed."
        ) from None
