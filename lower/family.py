"""Families of hard instances: what each family defines, and the code that all of them share."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar, get_type_hints

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
from lower.known import KnownPart, LinearKnownPart

__all__ = ["FAMILIES", "Family", "family_of", "option", "register"]

Kind = TypeVar("Kind", bound="type[Family]")
Own = TypeVar("Own", bound="Family")

FAMILIES: dict[str, "type[Family]"] = {}
"""All families by name; `register` adds one."""


def register(family: Kind) -> Kind:
    """Make a family known to commands, files, the verifier and tables: a decorator above its ``@dataclass``.

    The decorator adds the parameters and their `option` help texts to the family's docstring.
    """
    said = [f"    {one.name}\n        {one.metadata['option']['help']}" for one in fields(family)]
    parts = re.split(r"\n\n(?= +\w+\n +---)", family.__doc__ or "", maxsplit=1)
    family.__doc__ = "\n\n".join([parts[0], "\n".join(["    Parameters\n    ----------", *said]), *parts[1:]])
    FAMILIES[family.name] = family
    return family


def option(
    help: str,
    *,
    default: Any = MISSING,
    preset: Any = MISSING,
    flag: str = "",
    read: Callable[[Any], Any] | None = None,
    write: Callable[[Any], Any] | None = None,
) -> Any:
    """A field of a family: its description in commands, and its form in files.

    Parameters
    ----------
    help : str
        The description of the field, for readers.
    default : optional
        The value when the field is left out. A field without a default is required.
    preset : optional
        The value at the command line and in tables when the field is left out; `default` unless given.
    flag : str
        The name at the command line; the field's name unless given.
    read, write : callable, optional
        Convert from and to a plain JSON value. Numbers, texts, sequences of them and families need no conversion.
    """
    said = {"help": help, "preset": default if preset is MISSING else preset, "flag": flag}
    return field(default=default, metadata={"option": said, "read": read, "write": write})


class Option(NamedTuple):
    """A parameter as commands see it: its annotated type, its preset, its description and its name."""

    kind: Any
    preset: Any
    help: str
    flag: str = ""
    read: Callable[[Any], Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Family(ABC):
    """Hard instances of one kind; the fields of a subclass, made by `option`, are its parameters.

    A subclass is a frozen dataclass, decorated with `register`. It defines the heads that hide a secret and what is
    known about them. Its instances, their verification, its command ``generate NAME`` and its titles follow from that.
    """

    if TYPE_CHECKING:

        @property
        def dim(self) -> int:
            """The number d of coordinates of a token."""

    name: ClassVar[str]  #: its name in files and commands
    called: ClassVar[str]  #: the template of its title, filled in with its fields
    #: the parameters in the table of the documentation; the others have their presets
    documented: ClassVar[Mapping[str, Any]] = {}
    #: the parameters of its targets in a comparison without explicit targets; the others have their presets
    compared: ClassVar[Sequence[Mapping[str, Any]]] = ()
    tokens = 2

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

    def known(self, direction: Float[np.ndarray, " d"]) -> KnownPart:
        """The part of a target that everybody knows in advance: zero."""
        return LinearKnownPart.zero(self.tokens, self.dim)

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
    def remark(self) -> str:
        """The message that is printed when an instance is made; empty if there is none."""
        return ""

    @classmethod
    def kind(cls) -> str:
        """The family's name in tables."""
        return cls.name.removeprefix("sq-")

    @classmethod
    def options(cls) -> "dict[str, Option]":
        """The parameters of `preset`, by name."""
        hints = get_type_hints(cls, include_extras=True)
        return {
            one.name: Option(hints[one.name], **one.metadata["option"], read=one.metadata["read"])
            for one in fields(cls)
        }

    @classmethod
    def preset(cls: type[Own], **parameters: Any) -> Own:
        """The family of ``generate NAME``: parameters that are left out have their presets."""
        presets = {name: one.preset for name, one in cls.options().items()}
        return cls(**{**presets, **parameters})

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
        heads = self.heads_of(secret, w)
        layer, error = heads.layer(), self.error_of(heads, secret)
        return HardInstance(
            family=self.name,
            layer=layer,
            inputs=self.inputs,
            secret=secret,
            known=self.known(w),
            certificate=Certificate(self.name, tuple(self.facts(heads, secret, error))),
            realisation_error=error,
            parameters={**self.to_json(), **self.public(w)},
        )

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON values; `from_json` gives them back."""
        return {one.name: _plain(getattr(self, one.name), one.metadata["write"]) for one in fields(self)}

    @classmethod
    def from_json(cls: type[Own], data: Mapping[str, Any]) -> Own:
        """The family that `to_json` wrote; other entries are ignored.

        KeyError if one is missing. ValueError if one is wrong.
        """
        return cls(**{one.name: _read(data[one.name], one.metadata["read"]) for one in fields(cls)})


@checked
def family_of(instance: HardInstance) -> Family:
    """The family that an instance names, rebuilt from its public parameters.

    ValueError if no such family is registered, or the parameters describe no family.

    Examples
    --------
    >>> from sq import BumpFamily
    >>> family_of(BumpFamily(dim=6, bits=4).instance(3))
    BumpFamily(dim=6, bits=4, noise=0.0, at=2, beta=40.0)
    """
    if instance.family not in FAMILIES:
        raise ValueError(f"no definition of the family {instance.family!r} is known")
    try:
        return FAMILIES[instance.family].from_json(instance.parameters)
    except KeyError as error:
        raise ValueError(f"parameter {error.args[0]}: missing") from None


def realised_again(instance: HardInstance, family: Family) -> HardInstance:
    """The instance that a family makes of the same secret and direction.

    ValueError if the size, the secret or the direction is none of the family's.
    """
    sizes = (family.dim, family.tokens)
    if sizes != (instance.layer.dim, instance.inputs.tokens):
        raise ValueError(f"they are for d, k = {sizes}")
    return family.realise(family.read_secret(instance.secret), instance.parameters.get("direction"))


def _plain(value: Any, write: Callable[[Any], Any] | None) -> Any:
    if isinstance(value, Family):
        return {"family": value.name, **value.to_json()}
    return value if write is None else write(value)


def _read(value: Any, read: Callable[[Any], Any] | None) -> Any:
    if isinstance(value, Mapping):
        return FAMILIES[value["family"]].from_json(value)
    return value if read is None else read(value)


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
