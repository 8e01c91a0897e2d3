"""Families of hard instances: what each family defines, and the code that all of them share."""

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import update_wrapper
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from attention import BooleanInputs, ExampleOracle, Inputs
from attention._arrays import shown
from attention.inputs import Rng
from attention.memory import require_memory
from attention.validation import checked, real_array
from lower.certificate import Certificate, Fact
from lower.heads import Heads
from lower.instance import HardInstance
from lower.known import KnownComponent

Kind = TypeVar("Kind", bound="type[Family]")

_LEFT_OUT: Any = ...

FAMILIES: dict[str, "FamilyConstructor"] = {}
"""All families by name: classes that `register` adds, and functions that `constructor` adds."""


@dataclass(frozen=True)
class Option:
    """What commands and files know of a parameter: a part of its annotation, ``Annotated[TYPE, Option(...)]``.

    Numbers, texts, sequences of them and families need no conversion in files.
    """

    help: str  #: the description, for readers
    #: the value at the command line and in tables when it is left out; else the default
    preset: Any = _LEFT_OUT
    flag: str = ""  #: the name at the command line; the parameter's name unless given
    read: Callable[[Any], Any] | None = None  #: converts from a plain JSON value
    write: Callable[[Any], Any] | None = None  #: converts to a plain JSON value
    omitted: bool = False  #: whether files leave the parameter out at its preset, as those older than it do
    kind: Any = None  #: the annotated type


def options_of(make: Callable[..., Any]) -> dict[str, Option]:
    """The parameters of a family's class or constructor that have an `Option`, by name."""
    hints = get_type_hints(vars(make)["__init__"] if isinstance(make, type) else make, include_extras=True)
    options = {}
    for name, parameter in inspect.signature(make).parameters.items():
        kind = hints.get(name)
        for part in get_args(kind)[1:] if get_origin(kind) is Annotated else ():
            if isinstance(part, Option):
                preset = parameter.default if part.preset is _LEFT_OUT else part.preset
                options[name] = replace(part, kind=kind, preset=preset)
    return options


class FamilyConstructor:
    """A way to make families, with a name in files, commands and tables: a class, or a function that returns one."""

    def __init__(
        self,
        make: Callable[..., Any],
        name: str,
        called: str = "",
        compared: Sequence[Mapping[str, Any]] = (),
        tabled: Sequence[Mapping[str, Any]] = ({},),
    ) -> None:
        update_wrapper(self, make, updated=())
        self.__doc__ = _with_parameters(make.__doc__ or "", options_of(make))
        self.name, self.called, self._make = name, called, make
        self.result: type[Family] = make if isinstance(make, type) else make.__annotations__["return"]
        #: the parameters of its targets in a comparison without explicit targets; the others have their presets
        self.compared = compared
        #: The parameters that two heads realise, each a row of the table of such families. The others have their
        #: presets; `bits`, if not given, is that of the table.
        self.tabled = tabled

    def __call__(self, **parameters: Any) -> Any:
        """The family of these parameters."""
        made = self._make(**parameters)
        return made if self._make is self.result else replace(made, name=self.name, called=self.called)

    def options(self) -> dict[str, Option]:
        """The parameters of `preset`, by name."""
        own = getattr(self._make, "preset_options", None)
        return options_of(self._make) if own is None else own()

    def preset(self, **parameters: Any) -> Any:
        """The family of ``generate NAME``: parameters that are left out have their presets."""
        if (own := getattr(self._make, "of_presets", None)) is not None:
            return own(**parameters)
        return self(**{name: one.preset for name, one in self.options().items()} | parameters)

    def from_json(self, data: Mapping[str, Any]) -> Any:
        """The family that `Family.to_json` wrote; other entries are ignored.

        KeyError if one is missing. ValueError if one is wrong.
        """
        given, values = self.result.renamed(data), {}
        for name, one in options_of(self._make).items():
            value = given.get(name, one.preset) if one.omitted else given[name]
            value = FAMILIES[value["family"]].from_json(value) if isinstance(value, Mapping) else value
            values[name] = value if one.read is None else one.read(value)
        return self(**values)


def register(family: Kind) -> Kind:
    """Make a family known to commands, files, the verifier and tables: a decorator above its ``@dataclass``.

    The decorator adds the parameters and the help texts of their options to the family's docstring.
    """
    tables = {name: vars(family)[name] for name in ("compared", "tabled") if name in vars(family)}
    FAMILIES[family.name] = made = FamilyConstructor(family, family.name, **tables)
    family.__doc__ = made.__doc__
    return family


def constructor(name: str, called: str, **tables: Any) -> Callable[[Callable[..., Any]], FamilyConstructor]:
    """Register a function that makes families: a decorator. Its parameters are annotated with their `Option`.

    `called` is the template of titles; `tables` are `compared` and `tabled` of a `FamilyConstructor`, which a class has
    as attributes.
    """

    def registered(make: Callable[..., Any]) -> FamilyConstructor:
        FAMILIES[name] = made = FamilyConstructor(checked(make), name, called, **tables)
        return made

    return registered


@dataclass(frozen=True, kw_only=True)
class Family(ABC):
    """Hard instances of one kind; the fields of a subclass that have an `Option` are its parameters.

    A subclass is a frozen dataclass, decorated with `register`. It defines the heads that hide a secret and what is
    known about them. Its instances, their verification, its command ``generate NAME`` and its titles follow from that.
    """

    if TYPE_CHECKING:

        @property
        def dim(self) -> int:
            """The number d of coordinates of a token."""

    name: ClassVar[str]  #: its name in files and commands
    called: ClassVar[str]  #: the template of its title, filled in with its fields
    tokens = 2
    old_names: ClassVar[Mapping[str, str]] = {}  #: the present names of fields by their names in older files

    @abstractmethod
    def draw(self, rng: Rng = None) -> Int[np.ndarray, " entries"]:
        """A secret drawn at random."""

    @abstractmethod
    def read_secret(self, given: ArrayLike) -> Int[np.ndarray, " entries"]:
        """A secret in the form that files have. ValueError if it is not a secret of this family."""

    @abstractmethod
    def heads_of(self, secret: Int[np.ndarray, " entries"], direction: Float[np.ndarray, " d"]) -> Heads:
        """The heads that hide a secret."""

    @abstractmethod
    def error_of(self, heads: Heads, secret: Int[np.ndarray, " entries"]) -> float:
        """A proved bound, over all inputs, on the row norm of the heads' layer minus its ideal target."""

    @abstractmethod
    def facts(self, heads: Heads, secret: Int[np.ndarray, " entries"], error: float) -> Sequence[Fact]:
        """The facts about an instance, the same on every machine; one is the realisation error."""

    def estimates(self) -> Sequence[Fact]:
        """Heuristic estimates by this version, from public parameters alone: shown, but not stored in files."""
        return ()

    def known(self, direction: Float[np.ndarray, " d"]) -> KnownComponent:
        """The part of a target that everybody knows in advance: zero."""
        return KnownComponent.zero(self.tokens, self.dim)

    def public(self, direction: Float[np.ndarray, " d"]) -> dict[str, Any]:
        """Facts about an instance that files hold beside the family's fields."""
        return {}

    @property
    def noisy(self) -> bool:
        """Whether the labels of examples have errors."""
        return False

    def examples(self, instance: HardInstance, *, rng: Rng = None) -> ExampleOracle:
        """Random examples of an instance of this family, with errors in their labels if it is noisy."""
        return ExampleOracle(instance.layer, instance.inputs, rng=rng)

    @property
    @abstractmethod
    def title(self) -> str:
        """A title for people."""

    @property
    def inputs(self) -> Inputs:
        """The distribution of the tokens: uniform signs."""
        return BooleanInputs(tokens=self.tokens, dim=self.dim)

    def label(self, heads: int) -> str:
        """The name, in tables and files, of an instance with so many heads, unless the caller names it."""
        return f"{self.name}-{heads}-{self.dim}"

    @property
    def kind(self) -> str:
        """The family's name in tables."""
        return self.name.removeprefix("sq-")

    def instance(
        self,
        number: int | None = None,
        *,
        rng: Rng = None,
        secret: ArrayLike | None = None,
        direction: ArrayLike | None = None,
    ) -> HardInstance:
        """The target of a secret as attention heads, with a certificate.

        ValueError if there is no such secret, or the direction is not d finite entries, not all zero.

        Parameters
        ----------
        number : int, optional
            Which secret, where secrets are numbered.
        rng : optional
            Anything `numpy.random.default_rng` accepts (SPEC 7); draws the secret if none is given.
        secret : array of int, optional
            The secret, if you want to choose it.
        direction : array (d,), optional
            The output direction w, scaled to norm 1; the first coordinate's unit vector when left out.
        """
        require_memory(f"A layer in dim {shown(self.dim)}", 8 * 6 * self.dim**2, advice="lower dim")
        if secret is None:
            secret = self.draw(rng) if number is None else self.numbered(number)
        return self.realise(self.read_secret(secret), _unit_direction(direction, self.dim))

    def numbered(self, number: int) -> Int[np.ndarray, " entries"]:
        """The secret of that number."""
        raise ValueError(f"number is {number}: secrets of {self.name} have none, and None is needed.")

    def realise(self, secret: Int[np.ndarray, " entries"], direction: Any = None) -> HardInstance:
        """The instance of a secret and a direction of norm 1; files are compared with it number by number."""
        w = _unit_direction(None, self.dim) if direction is None else direction
        w = real_array("direction", w, (self.dim,))
        if not abs(np.linalg.norm(w) - 1) < 1e-9:
            raise ValueError(f"direction has norm {np.linalg.norm(w):.6g}: a vector of norm 1 is needed.")
        _ = self.to_json()  # refuses what no file could hold
        heads = self.heads_of(secret, w)
        layer, error = heads.layer(), self.error_of(heads, secret)
        return HardInstance(
            family=self,
            layer=layer,
            inputs=self.inputs,
            secret=secret,
            direction=w,
            known=self.known(w),
            certificate=Certificate(self.name, tuple(self.facts(heads, secret, error))),
            realisation_error=error,
        )

    def arguments(self) -> dict[str, Any]:
        """The values of the options that make the family, by name."""
        return {name: getattr(self, name) for name in options_of(type(self))}

    def to_json(self) -> dict[str, Any]:
        """The arguments as plain JSON values; `FamilyConstructor.from_json` gives the family back."""
        given, plain = self.arguments(), {}
        for name, one in FAMILIES[self.name].options().items():
            value = given.get(name)
            if name in given and not (one.omitted and value == one.preset):
                own = {"family": value.name, **value.to_json()} if isinstance(value, Family) else value
                plain[name] = own if one.write is None else one.write(own)
        return plain

    @classmethod
    def renamed(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters in a file, under their present names."""
        return {cls.old_names.get(name, name): value for name, value in data.items()}


def family_from_json(name: Any, parameters: Mapping[str, Any]) -> Family:
    """The family of a file. ValueError if no such family is registered, or the parameters describe none."""
    if name not in FAMILIES:
        raise ValueError(
            f"no definition of the family {name!r} is known; import the package that registers it"
        )
    try:
        return FAMILIES[name].from_json(parameters)
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"its parameters describe no {name}: {error}") from None


def _with_parameters(text: str, options: Mapping[str, Option]) -> str:
    described = [f"    {name}\n        {one.help}" for name, one in options.items()]
    parts = re.split(r"\n\n(?= +\w+\n +---)", text, maxsplit=1)
    return "\n\n".join([parts[0], "\n".join(["    Parameters\n    ----------", *described]), *parts[1:]])


def _unit_direction(direction: ArrayLike | None, dim: int) -> Float[np.ndarray, " d"]:
    if direction is None:
        w = np.zeros(dim)
        w[0] = 1.0
        return w
    w = real_array("direction", direction)
    if w.shape != (dim,) or not w.any():
        raise ValueError(f"direction has shape {w.shape}: {dim} entries, not all zero, are needed.")
    largest = np.abs(w).max()
    if not 1e-100 < largest < 1e100:  # the squares of the norm would overflow, or vanish
        w = w / largest
    return w / np.linalg.norm(w)
