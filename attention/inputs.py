"""Where the token matrices X come from: Boolean, Gaussian, sphere, slice tokens, positions and constants."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from jaxtyping import Float

from attention._arrays import shown
from attention.memory import require_memory
from attention.validation import PositiveInt, checked, count, random_generator, real_array

_DRAWING = 40  # bytes per number while matrices are drawn, temporary arrays included
Rng = Any  # whatever numpy.random.default_rng accepts (SPEC 7)


@runtime_checkable
class Inputs(Protocol):
    """A distribution of k x d token matrices."""

    @property
    def tokens(self) -> int:
        """The number of tokens."""

    @property
    def dim(self) -> int:
        """The number of coordinates of a token."""

    def sample(self, n: int, *, rng: Rng = None) -> Float[np.ndarray, "n k d"]:
        """Draw `n` independent token matrices."""


@dataclass(frozen=True)
@checked
class _Drawn:
    """A distribution that draws its own matrices; it first checks that they fit into memory."""

    tokens: PositiveInt
    dim: PositiveInt

    def sample(self, n: int, *, rng: Rng = None) -> Float[np.ndarray, "n k d"]:
        """Draw `n` independent token matrices; O(n k d)."""
        n, k, d = count("n", n, least=0), self.tokens, self.dim
        require_memory(
            f"Drawing n = {shown(n)} matrices of {shown(k)} tokens in {shown(d)} dimensions",
            _DRAWING * max(n, 1) * k * d,
            advice="draw fewer at a time",
        )
        return self._draw((n, k, d), random_generator(rng))

    def _draw(self, shape: tuple[int, int, int], rng: np.random.Generator) -> np.ndarray:
        raise NotImplementedError


@dataclass(frozen=True)
class BooleanInputs(_Drawn):
    """Uniform tokens in {-1, 1}^d: the distribution of the paper's theorems.

    Examples
    --------
    >>> BooleanInputs(tokens=2, dim=3).sample(1, rng=0).shape
    (1, 2, 3)
    """

    def _draw(self, shape: tuple[int, int, int], rng: np.random.Generator) -> np.ndarray:
        size = math.prod(shape)
        bits = np.unpackbits(np.frombuffer(rng.bytes(-(-size // 8)), np.uint8), count=size)
        return (2.0 * bits - 1.0).reshape(shape)


@dataclass(frozen=True)
class GaussianInputs(_Drawn):
    """Independent standard normal tokens."""

    def _draw(self, shape: tuple[int, int, int], rng: np.random.Generator) -> np.ndarray:
        return rng.standard_normal(shape)


@dataclass(frozen=True)
class SphereInputs(_Drawn):
    """Tokens uniform on the sphere of radius sqrt(d)."""

    def _draw(self, shape: tuple[int, int, int], rng: np.random.Generator) -> np.ndarray:
        x = rng.standard_normal(shape)
        return x * (np.sqrt(self.dim) / np.linalg.norm(x, axis=-1, keepdims=True))


@dataclass(frozen=True, eq=False)
@checked
class PositionedInputs:
    """Tokens of another distribution with positional encodings added.

    Parameters
    ----------
    inputs : Inputs
        The distribution of the tokens themselves.
    positions : array (k, d)
        The encodings that are added to every sample.
    """

    inputs: Inputs
    positions: Float[np.ndarray, "k p"]

    def __post_init__(self) -> None:
        positions = self.positions.copy()
        self._require_shape(positions.shape)
        positions.flags.writeable = False
        object.__setattr__(self, "positions", positions)

    def _require_shape(self, shape: tuple[int, ...]) -> None:
        if shape != (self.tokens, self.dim):
            raise ValueError(f"positions has shape {shape}: (k, d) = {(self.tokens, self.dim)} is needed.")

    @property
    def tokens(self) -> int:
        """The number of tokens."""
        return self.inputs.tokens

    @property
    def dim(self) -> int:
        """The number of coordinates of a token."""
        return self.inputs.dim

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self.inputs == other.inputs and np.array_equal(self.positions, other.positions)

    def __hash__(self) -> int:
        return hash((self.inputs, self.positions.tobytes()))

    def sample(self, n: int, *, rng: Rng = None) -> Float[np.ndarray, "n k d"]:
        """Draw `n` matrices of the wrapped distribution and add the positions."""
        return self.inputs.sample(n, rng=rng) + self.positions


@dataclass(frozen=True, eq=False)
class MarkedInputs(PositionedInputs):
    """Tokens of another distribution behind fixed coordinates: positional encodings in coordinates of their own.

    Parameters
    ----------
    inputs : Inputs
        The distribution of the other coordinates.
    positions : array (k, p)
        The first p coordinates of every token, the same in all samples.

    Examples
    --------
    >>> MarkedInputs(GaussianInputs(tokens=2, dim=3), np.array([[1.0], [-1.0]])).sample(1, rng=0)[0, :, 0]
    array([ 1., -1.])
    """

    def _require_shape(self, shape: tuple[int, ...]) -> None:
        if shape[0] != self.tokens:
            raise ValueError(f"positions has {shape[0]} rows: one a token, {self.tokens}, is needed.")

    @property
    def dim(self) -> int:
        """The number of coordinates of a token."""
        return self.positions.shape[1] + self.inputs.dim

    def sample(self, n: int, *, rng: Rng = None) -> Float[np.ndarray, "n k d"]:
        """Draw `n` matrices of the wrapped distribution and put the fixed coordinates before them."""
        drawn = self.inputs.sample(n, rng=rng)
        return np.concatenate(
            [np.broadcast_to(self.positions, (len(drawn), *self.positions.shape)), drawn], axis=2
        )


@checked
def sinusoidal_positions(tokens: PositiveInt, dim: PositiveInt) -> Float[np.ndarray, "k d"]:
    """The sinusoidal positional encodings of Vaswani et al. (arXiv 1706.03762, Section 3.5)."""
    angle = np.arange(tokens)[:, None] / 10000.0 ** (2 * (np.arange(dim) // 2) / dim)
    return np.where(np.arange(dim) % 2 == 0, np.sin(angle), np.cos(angle))


_BY_NAME: dict[str, Any] = {
    "boolean": BooleanInputs,
    "gaussian": GaussianInputs,
    "sphere": SphereInputs,
    "positioned": PositionedInputs,
    "marked": MarkedInputs,
}

_IN_FILES = {
    "tokens": "k",
    "dim": "d",
}  # names that files keep, and the streams of comparisons that follow from them


def inputs_to_json(inputs: Inputs) -> dict[str, Any]:
    """`inputs` as plain JSON values; `inputs_from_json` restores it bit for bit."""
    names = {kind: name for name, kind in _BY_NAME.items()}
    if type(inputs) not in names:
        raise ValueError(
            f"inputs is of the type {type(inputs).__name__}: {', '.join(_BY_NAME)} inputs have a JSON form."
        )
    parts = {field.name: getattr(inputs, field.name) for field in fields(cast(Any, inputs))}
    if isinstance(inputs, PositionedInputs):
        parts = {"inputs": inputs_to_json(inputs.inputs), "positions": inputs.positions.tolist()}
    return {"name": names[type(inputs)]} | {_IN_FILES.get(name, name): part for name, part in parts.items()}


def inputs_from_json(data: Mapping[str, Any]) -> Inputs:
    """The distribution that `inputs_to_json` wrote."""
    name = data.get("name") if isinstance(data, Mapping) else None
    if not isinstance(name, str) or name not in _BY_NAME:
        raise ValueError(f"The inputs are named {shown(name)}: {' or '.join(_BY_NAME)} is needed.")
    parts = {part: value for part, value in data.items() if part != "name"}
    parts |= {field: parts.pop(part) for field, part in _IN_FILES.items() if part in parts}
    if "inputs" in parts:
        parts["inputs"] = inputs_from_json(parts["inputs"])
    if "positions" in parts:
        parts["positions"] = real_array("positions", parts["positions"])
    try:
        return _BY_NAME[name](**parts)
    except TypeError as error:
        raise ValueError(
            f"The description of the {name} inputs does not fit them ({error}): it needs what inputs_to_json writes."
        ) from None
