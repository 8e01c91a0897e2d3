"""The example oracle EX(F, D): labelled examples of an unknown layer, every one counted."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from attention.files import FilePath, read_array, read_arrays
from attention.foreign import guarded
from attention.inputs import Inputs, Rng
from attention.validation import NonNegativeFloat, checked, count, random_generator, require_array

Target = Callable[[np.ndarray], Any]
Noise = Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]


class ExampleOracle:
    """The PAC oracle EX(F, D): draws labelled examples (X, F(X)) with X from D, and counts them.

    Parameters
    ----------
    target : callable
        Maps token matrices (n, k, d) to labels (n, k, d): an `AttentionLayer` or another function.
    inputs : Inputs
        The distribution D of the token matrices.
    noise : float or callable, optional
        Standard deviation of independent Gaussian noise on every entry of a label, or a function
        ``noise(x, y, rng)`` that returns the corrupted labels.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7).

    Notes
    -----
    A learner gets labels from `draw` only, so `drawn` is the number that a sample-complexity statement counts.
    `split` gives independent streams, whose draws count here too.

    Examples
    --------
    >>> from attention import BooleanInputs, make_nice_layer
    >>> oracle = ExampleOracle(make_nice_layer(heads=2, dim=4, rng=0), BooleanInputs(tokens=3, dim=4), rng=1)
    >>> x, y = oracle.draw(10)
    >>> y.shape, oracle.drawn
    ((10, 3, 4), 10)
    """

    @checked
    def __init__(
        self, target: Target, inputs: Inputs, *, noise: NonNegativeFloat | Noise = 0.0, rng: Rng = None
    ) -> None:
        self._target, self._inputs, self._noise = target, inputs, noise
        self._rng = random_generator(rng)
        self._left: tuple[np.ndarray, np.ndarray] | None = None  # of given examples
        self.held_out: tuple[np.ndarray, ...] | None = None
        self.tokens, self.dim = inputs.tokens, inputs.dim
        self._drawn = 0
        self._streams: list[ExampleOracle] = []

    @classmethod
    @checked
    def from_arrays(
        cls,
        x: Float[np.ndarray, "n k d"],
        y: Float[np.ndarray, "n k d"],
        *,
        held_out: tuple[Float[np.ndarray, "h k d"], ...] | None = None,
    ) -> "ExampleOracle":
        """An oracle that serves copies of the given examples, each once and in order; then it raises an error.

        Parameters
        ----------
        x, y : array (n, k, d)
            Token matrices and their labels.
        held_out : tuple of two arrays, optional
            Other examples, to judge fits; a learner that would hold examples out takes these instead.
        """
        oracle = cls.__new__(cls)
        if held_out is not None and len(held_out) != 2:
            raise ValueError(f"held_out has {len(held_out)} arrays: two are needed, inputs and their labels.")
        oracle.held_out = held_out
        oracle._left = np.array(x), np.array(y)
        oracle.tokens, oracle.dim = x.shape[1:]
        oracle._drawn, oracle._streams = 0, []
        return oracle

    @classmethod
    def from_files(cls, x_path: FilePath, y_path: FilePath | None = None) -> "ExampleOracle":
        """An oracle over the examples in a pair of files, one array each, or in one file with the arrays x and y.

        Files are ``.npy``, ``.npz`` or safetensors. A FileFormatError if a file is missing or invalid, or its arrays
        are not examples. It names the file at fault.
        """
        if y_path is None:
            x, y = read_arrays(x_path, names=("x", "y")).values()
        else:
            x, y = read_array(x_path), read_array(y_path)
        for name, array, shape, path in (
            ("x", x, ("n", "k", "d"), x_path),
            ("y", y, x.shape, y_path or x_path),
        ):
            guarded(Path(path), "it holds no examples", partial(require_array, name, array, shape))
        return cls.from_arrays(x, y)

    @property
    def drawn(self) -> int:
        """How many examples this oracle and the streams split from it have drawn so far."""
        return self._drawn + sum(stream.drawn for stream in self._streams)

    @property
    def remaining(self) -> int | None:
        """How many examples are left; None if there is no limit."""
        return None if self._left is None else len(self._left[0])

    def draw(self, n: int) -> tuple[Float[np.ndarray, "n k d"], Float[np.ndarray, "n k d"]]:
        """Draw `n` examples: token matrices and their labels.

        A ValueError if the oracle serves given examples and fewer than `n` are left; it then draws none.
        """
        n = count("n", n, least=0)
        if self._left is not None:
            x, y = self._left
            if n > len(x):
                raise ValueError(
                    f"{n} examples were asked for and {len(x)} are left: give the learner a smaller budget, or more "
                    "examples."
                )
            self._left = x[n:], y[n:]
            self._drawn += n
            return x[:n], y[:n]
        x = self._inputs.sample(n, rng=self._rng)
        y = np.asarray(self._target(x))
        self._drawn += n
        if callable(self._noise):
            y = self._noise(x, y, self._rng)
        elif self._noise > 0:
            y = y + self._noise * self._rng.standard_normal(y.shape)
        return x, y

    def split(self, streams: int) -> list["ExampleOracle"]:
        """Oracles with independent random streams; given examples are served in turn, by this oracle itself."""
        if self._left is not None:
            return [self] * streams
        made = [
            ExampleOracle(self._target, self._inputs, noise=self._noise, rng=rng)
            for rng in self._rng.spawn(streams)
        ]
        self._streams.extend(made)
        return made
