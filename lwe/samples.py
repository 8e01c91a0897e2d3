"""Samples (A, b) of learning with rounding or with errors, the input of attacks."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike

from attention._arrays import shown
from attention.inputs import Rng
from attention.memory import require_memory
from attention.validation import PositiveInt, checked, count, random_generator
from lwe.parameters import LWEParameters, centred, rounded
from lwe.residues import inner_products, whole_array

__all__ = ["LWRSamples", "inner_products", "make_samples"]


@dataclass(frozen=True, eq=False)
class LWRSamples:
    """Rows a of a public matrix and the labels b = floor(p ((<a, s> + e) mod q) / q) of an unknown secret s."""

    #: A. Entries are 0 and 1, -1, 0 and 1, or residues mod q, as `LWEParameters.matrix` says.
    public: Int[np.ndarray, "N n"]
    #: b, from 0 to p - 1; p = q where labels are not rounded (learning with errors)
    labels: Int[np.ndarray, " N"]

    def __post_init__(self) -> None:
        for name in ("public", "labels"):
            array = whole_array(name, getattr(self, name))
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        if self.public.ndim != 2 or self.labels.shape != self.public.shape[:1] or 0 in self.public.shape:
            raise ValueError(
                f"public has shape {self.public.shape} and labels {self.labels.shape}: (N, n) and (N,), one label for "
                "each row and neither of them empty, are needed."
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def secret_dim(self) -> int:
        """The number n of columns."""
        return int(self.public.shape[1])

    def take(self, number: int) -> "LWRSamples":
        """The first `number` of them."""
        number = count("number", number, most=len(self))
        return LWRSamples(self.public[:number], self.labels[:number])

    def held_out(self, number: int) -> "tuple[LWRSamples, LWRSamples]":
        """All but the last `number` samples, and the last `number`; each part has at least one."""
        number = count("number", number, most=len(self) - 1)
        return self.take(len(self) - number), LWRSamples(self.public[-number:], self.labels[-number:])


@checked
def make_samples(
    parameters: LWEParameters, number: PositiveInt, *, secret: ArrayLike | None = None, rng: Rng = None
) -> tuple[LWRSamples, Int[np.ndarray, " n"]]:
    """Draw samples without attention heads; return them and the secret centred mod q, which is given or drawn.

    Parameters
    ----------
    parameters : LWEParameters
        The problem. The gadget's public matrix is returned as residues G a, not as the bits a.
    number : int
        The number of samples.
    secret : array of int (n,), optional
        The secret, any representatives mod q.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7); draws the secret, the matrix and the errors.

    Examples
    --------
    >>> parameters = LWEParameters(n=8, q=64, p=2)
    >>> samples, secret = make_samples(parameters, 100, rng=0)
    >>> samples.public.shape, len(secret), np.unique(samples.labels).tolist()
    ((100, 8), 8, [0, 1])
    """
    n, q, p = parameters.n, parameters.q, parameters.p
    require_memory(f"number is {shown(number)}: such samples", 8 * number * (3 * n + 4), advice="take fewer")
    generator = random_generator(rng)
    own = parameters.Xs.draw(n, q, rng=generator) if secret is None else centred(secret, q)
    if own.shape != (n,):
        raise ValueError(f"secret has shape {own.shape}: ({n},) is needed.")
    public = generator.integers(2 if parameters.matrix in ("binary", "ternary") else q, size=(number, n))
    if parameters.matrix == "ternary":
        public -= generator.integers(2, size=(number, n))
    errors = parameters.draw_errors(number, rng=generator)
    return LWRSamples(public, rounded(inner_products(public, own, q) + errors, q, p)), own
