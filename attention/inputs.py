"""Where the token matrices X come from: Boolean, Gaussian, sphere, slice tokens, positions and constants."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from jaxtyping import Float

from attention._arrays import shown
from attention.memory import require_memory
from attention.validation import count, finite_number, random_generator, real_array, require_instance

__all__ = [
    "BooleanInputs",
    "ConstantCoordinateInputs",
    "GaussianInputs",
    "Inputs",
    "PositionedInputs",
    "SliceInputs",
    "SphereInputs",
    "inputs_from_json",
    "inputs_to_json",
    "sinusoidal_positions",
]

# bytes a number while matrices are drawn: itself, and what it is made from
_DRAWING = 40
Rng = Any  # whatever numpy.random.default_rng accepts (SPEC 7)


@runtime_checkable
class Inputs(Protocol):
    """A distribution of k x d token matrices."""

    @property
    def k(self) -> int:
        """The number of tokens."""

    @property
    def d(self) -> int:
        """The number of coordinates of a token."""

    def sample(self, n: int, *, rng: Rng = None) -> Float[np.ndarray, "n k d"]:
        """Draw `n` independent token matrices."""


@dataclass(frozen=True)
class _TokenShape:
    k: int
    d: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", count("k", self.k))
        object.__setattr__(self, "d", count("d", self.d))

    def _size(self, n: int) -> tuple[int, int, int]:
        return _size_of(cast(Inputs, self), n)


@dataclass(frozen=True)
class BooleanInputs(_TokenShape):
    """Uniform tokens in {-1, 1}^d: the distribution of the paper's theorems.

    Examples
    --------
    >>> BooleanInputs(k=2, d=3).sample(1, rng=0).shape
    (1, 2, 3)
    """

    def sample(self, n: int, *, rng: Rng = None) -> Float[np.ndarray, "n k d"]:
        """Draw `n` matrices of independent signs; O(n k d)."""
        size = self._size(n)
        total = math.prod(size)
        bits = np.unpackbits(
            np.frombuffer(random_generator(rng).bytes(-(-total // 8)), np.uint8), count=total
        )
        return (2.0 * bits - 1.0).reshape(size)


@dataclass(frozen=True)
class GaussianInputs(_TokenShape):
    """Independent standard normal tokens."""

    def sample(self, n: int, *, rng: Rng = None) -> Float[np.ndarray, "n k d"]:
        """Draw `n` matrices of independent N(0, 1) entries; O(n k d)."""
        return random_generator(rng).standard_normal(self._size(n))


@dataclass(frozen=True)
class SphereInputs(_TokenShape):
    """Tokens uniform on the sphere of radius sqrt(d)."""

    def sample(self, n: int, *, rng: Rng = None) -> Float[np.ndarray, "n k d"]:
        """Draw `n` matrices whose rows are uniform of norm sqrt(d); O(n k d)."""
        x = random_generator(rng).standard_normal(self._size(n))
        return x * (np.sqrt(self.d) / np.linalg.norm(x, axis=-1, keepdims=True))


@dataclass(frozen=True)
class SliceInputs:
    """Boolean tokens conditioned on the Hamming weights of fixed substrings (the talk's local concentration).

    Parameters
    ----------
    blocks : sequence of int
        Lengths of the consecutive substrings a token is cut into; they add up to d.
    weights : sequence of k sequences of int
        For each token, the number of +1 entries in each of its substrings.
    """

    blocks: tuple[int, ...]
    weights: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        blocks = tuple(count("A block", size) for size in _listed("blocks", self.blocks))
        weights = tuple(
            tuple(count("A weight", one, least=0) for one in _listed("A row of weights", row))
            for row in _listed("weights", self.weights)
        )
        if not blocks or not weights:
            raise ValueError("blocks and weights are empty: at least one substring and one token are needed.")
        for row in weights:
            if len(row) != len(blocks) or any(one > size for one, size in zip(row, blocks, strict=False)):
                raise ValueError(
                    f"A token has weights {row} for blocks {blocks}: one weight a block, at most its length, is needed."
                )
        object.__setattr__(self, "blocks", blocks)
        object.__setattr__(self, "weights", weights)

    @property
    def k(self) -> int:
        """The number of tokens."""
        return len(self.weights)

    @property
    def d(self) -> int:
        """The number of coordinates of a token."""
        return sum(self.blocks)

    def sample(self, n: int, *, rng: Rng = None) -> Float[np.ndarray, "n k d"]:
        """Draw `n` matrices, every substring uniform given its weight; O(n k d log d)."""
        rng = random_generator(rng)
        n, _, _ = size = _size_of(self, n)
        x = np.empty(size)
        start = 0
        for size, *ones in zip(self.blocks, *self.weights, strict=True):
            order = rng.random((n, self.k, size)).argsort(axis=-1)
            x[:, :, start : start + size] = np.where(order < np.asarray(ones)[:, None], 1.0, -1.0)
            start += size
        return x


@dataclass(frozen=True, eq=False)
class PositionedInputs:
    """Tokens of another distribution with positional encodings added.

    Parameters
    ----------
    inputs : Inputs
        The distribution of the tokens themselves.
    positions : array (k, d)
        What is added to every sample.
    """

    inputs: Inputs
    positions: np.ndarray

    def __post_init__(self) -> None:
        require_inputs("inputs", self.inputs)
        positions = real_array("positions", self.positions).copy()
        if positions.shape != (self.inputs.k, self.inputs.d):
            raise ValueError(
                f"positions has shape {positions.shape}: (k, d) = {(self.inputs.k, self.inputs.d)} is needed."
            )
        positions.flags.writeable = False
        object.__setattr__(self, "positions", positions)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PositionedInputs):
            return NotImplemented
        return self.inputs == other.inputs and np.array_equal(self.positions, other.positions)

    def __hash__(self) -> int:
        return hash((self.inputs, self.positions.tobytes()))

    @property
    def k(self) -> int:
        """The number of tokens."""
        return self.inputs.k

    @property
    def d(self) -> int:
        """The number of coordinates of a token."""
        return self.inputs.d

    def sample(self, n: int, *, rng: Rng = None) -> Float[np.ndarray, "n k d"]:
        """Draw `n` matrices of the wrapped distribution and add the positions."""
        return self.inputs.sample(n, rng=rng) + self.positions


@dataclass(frozen=True)
class ConstantCoordinateInputs:
    """Tokens of another distribution with a last coordinate that is 1, for layers that absorbed their biases.

    Parameters
    ----------
    inputs : Inputs
        The distribution of all coordinates but the last.

    Examples
    --------
    >>> ConstantCoordinateInputs(BooleanInputs(k=2, d=3)).sample(1, rng=0)[..., -1]
    array([[1., 1.]])
    """

    inputs: Inputs

    def __post_init__(self) -> None:
        require_inputs("inputs", self.inputs)

    @property
    def k(self) -> int:
        """The number of tokens."""
        return self.inputs.k

    @property
    def d(self) -> int:
        """The number of coordinates of a token, the constant one among them."""
        return self.inputs.d + 1

    def sample(self, n: int, *, rng: Rng = None) -> Float[np.ndarray, "n k d"]:
        """Draw `n` matrices of the wrapped distribution and append the constant."""
        x = self.inputs.sample(n, rng=rng)
        return np.concatenate([x, np.ones((*x.shape[:-1], 1))], axis=-1)


def sinusoidal_positions(k: int, d: int, *, scale: float = 1.0) -> Float[np.ndarray, "k d"]:
    """The sinusoidal positional encodings of Vaswani et al. (arXiv 1706.03762, Section 3.5), times `scale`."""
    k, d, scale = count("k", k), count("d", d), finite_number("scale", scale)
    require_memory(f"Positions of {shown(k)} tokens in {shown(d)} dimensions", 40 * k * d + 32 * (k + d))
    angle = np.arange(k)[:, None] / 10000.0 ** (2 * (np.arange(d) // 2) / d)
    return scale * np.where(np.arange(d) % 2 == 0, np.sin(angle), np.cos(angle))


_BY_NAME: dict[str, Any] = {
    "boolean": BooleanInputs,
    "gaussian": GaussianInputs,
    "sphere": SphereInputs,
    "slice": SliceInputs,
}
_WRAPPERS = ("positioned", "constant-coordinate")


def inputs_to_json(inputs: Inputs) -> dict[str, Any]:
    """`inputs` as plain JSON values; `inputs_from_json` gives it back bit for bit."""
    if isinstance(inputs, PositionedInputs):
        return {
            "name": "positioned",
            "inputs": inputs_to_json(inputs.inputs),
            "positions": inputs.positions.tolist(),
        }
    if isinstance(inputs, ConstantCoordinateInputs):
        return {"name": "constant-coordinate", "inputs": inputs_to_json(inputs.inputs)}
    for name, kind in _BY_NAME.items():
        if type(inputs) is kind:
            return {"name": name} | {
                field.name: getattr(inputs, field.name) for field in fields(cast(Any, inputs))
            }
    raise ValueError(
        f"{type(inputs).__name__} has no JSON form: {', '.join(_BY_NAME)}, {' and '.join(_WRAPPERS)} ones have."
    )


def inputs_from_json(data: Mapping[str, Any]) -> Inputs:
    """The distribution that `inputs_to_json` wrote.

    Raises
    ------
    ValueError
        If the name is unknown or a field is missing, superfluous or out of range.
    """
    if not isinstance(data, Mapping):
        raise ValueError(
            f"The inputs are described by {type(data).__name__}: an object with a name is needed."
        )
    kwargs: dict[str, Any] = dict(data)
    name = kwargs.pop("name", None)
    try:
        if name == "positioned":
            positions = _positions(kwargs.pop("positions"))
            return PositionedInputs(inputs_from_json(kwargs.pop("inputs")), positions, **kwargs)
        if name == "constant-coordinate":
            return ConstantCoordinateInputs(inputs_from_json(kwargs.pop("inputs")), **kwargs)
        if not isinstance(name, str) or name not in _BY_NAME:
            raise ValueError(
                f"The inputs are named {name!r}: {', '.join(_BY_NAME)}, {' or '.join(_WRAPPERS)} is needed."
            )
        return _BY_NAME[name](**{key: _tuples(value) for key, value in kwargs.items()})
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError(
            f"The description of the {name} inputs does not fit them ({error}): it needs what inputs_to_json writes."
        ) from None


def require_inputs(name: str, value: Any) -> None:
    """Raise when `value` is no distribution of token matrices."""
    require_instance(
        name, value, Inputs, needed="a distribution of token matrices such as BooleanInputs(k, d)"
    )


def _size_of(inputs: Inputs, n: Any) -> tuple[int, int, int]:
    """The shape of `n` matrices, once there is the memory to draw them in."""
    n, k, d = count("n", n, least=0), inputs.k, inputs.d
    require_memory(
        f"Drawing n = {shown(n)} matrices of {shown(k)} tokens in {shown(d)} dimensions",
        _DRAWING * max(n, 1) * k * d,
        advice="draw fewer at a time",
    )
    return n, k, d


def _positions(values: Any) -> np.ndarray:
    try:
        return real_array("positions", values)
    except ValueError as error:
        raise ValueError(f"The positions of the inputs do not fit: {error}") from None


def _listed(name: str, values: Any) -> tuple[Any, ...]:
    try:
        return tuple(values)
    except TypeError:
        raise ValueError(
            f"{name} does not fit: it is {shown(values)}, and a sequence of whole numbers is needed."
        ) from None


def _tuples(value: Any) -> Any:
    # JSON knows lists only, and blocks and weights are tuples
    return tuple(_tuples(one) for one in value) if isinstance(value, list) else value
