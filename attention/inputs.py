"""Where the token matrices X come from: Boolean, Gaussian, sphere, slice tokens, positions and constants."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from jaxtyping import Float

from attention._arrays import count, require_finite

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
        return count("n", n, least=0), self.k, self.d


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
        total = n * self.k * self.d
        bits = np.unpackbits(
            np.frombuffer(np.random.default_rng(rng).bytes(-(-total // 8)), np.uint8), count=total
        )
        return (2.0 * bits - 1.0).reshape(size)


@dataclass(frozen=True)
class GaussianInputs(_TokenShape):
    """Independent standard normal tokens."""

    def sample(self, n: int, *, rng: Rng = None) -> Float[np.ndarray, "n k d"]:
        """Draw `n` matrices of independent N(0, 1) entries; O(n k d)."""
        return np.random.default_rng(rng).standard_normal(self._size(n))


@dataclass(frozen=True)
class SphereInputs(_TokenShape):
    """Tokens uniform on the sphere of radius sqrt(d)."""

    def sample(self, n: int, *, rng: Rng = None) -> Float[np.ndarray, "n k d"]:
        """Draw `n` matrices whose rows are uniform of norm sqrt(d); O(n k d)."""
        x = np.random.default_rng(rng).standard_normal(self._size(n))
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
        blocks = tuple(count("A block", size) for size in self.blocks)
        weights = tuple(tuple(count("A weight", one, least=0) for one in row) for row in self.weights)
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
        rng = np.random.default_rng(rng)
        n = count("n", n, least=0)
        x = np.empty((n, self.k, self.d))
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
        positions = np.array(self.positions, dtype=np.float64)
        if positions.shape != (self.inputs.k, self.inputs.d):
            raise ValueError(
                f"positions has shape {positions.shape}: (k, d) = {(self.inputs.k, self.inputs.d)} is needed."
            )
        require_finite("positions", positions)
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
    k, d = count("k", k), count("d", d)
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
            positions = np.asarray(kwargs.pop("positions"), dtype=np.float64)
            return PositionedInputs(inputs_from_json(kwargs.pop("inputs")), positions, **kwargs)
        if name == "constant-coordinate":
            return ConstantCoordinateInputs(inputs_from_json(kwargs.pop("inputs")), **kwargs)
        if not isinstance(name, str) or name not in _BY_NAME:
            raise ValueError(
                f"The inputs are named {name!r}: {', '.join(_BY_NAME)}, {' or '.join(_WRAPPERS)} is needed."
            )
        return _BY_NAME[name](**{key: _tuples(value) for key, value in kwargs.items()})
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"The description of the {name} inputs does not fit them: {error}.") from None


def _tuples(value: Any) -> Any:
    # JSON knows lists only, and blocks and weights are tuples
    return tuple(_tuples(one) for one in value) if isinstance(value, list) else value
