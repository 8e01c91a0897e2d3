"""Samples (A, b) of learning with rounding or with errors, the input of attacks."""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike

from attention._arrays import shown
from attention.inputs import Rng
from attention.memory import require_memory
from attention.validation import PositiveInt, checked, count, random_generator
from lwe.parameters import LWEParameters
from lwe.residues import centred, inner_products, product_quotient, rounded, whole_array

Rounding = Literal["down", "nearest"]


@dataclass(frozen=True, eq=False)
class LWRSamples:
    """Rows a of a public matrix and the labels b = floor(p ((<a, s> + e) mod q) / q) of an unknown secret s."""

    #: A. Entries are 0 and 1, -1, 0 and 1, or residues mod q, as `LWEParameters.matrix` says.
    public: Int[np.ndarray, "N n"]
    #: b, from 0 to p - 1; p = q where labels are not rounded (learning with errors)
    labels: Int[np.ndarray, " N"]
    #: How labels are rounded: down to floor(p x / q), or to the nearest, floor(p x / q + 1/2) mod p, as in Saber
    rounding: Rounding = "down"

    def __post_init__(self) -> None:
        for name in ("public", "labels"):
            array = np.asarray(getattr(self, name))
            array = whole_array(name, array.astype(np.int64) if array.dtype == bool else array)
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        if not isinstance(self.rounding, str) or self.rounding not in get_args(Rounding):
            raise ValueError(
                f"rounding is {shown(self.rounding)}: {' or '.join(get_args(Rounding))} is needed."
            )
        if self.public.ndim != 2 or self.labels.shape != self.public.shape[:1] or 0 in self.public.shape:
            raise ValueError(
                f"public has shape {self.public.shape} and labels {self.labels.shape}: (N, n) and (N,), one label for "
                "each row and neither of them empty, are needed."
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def n(self) -> int:
        """The number n of columns."""
        return int(self.public.shape[1])

    def take(self, number: int) -> "LWRSamples":
        """The first `number` of them."""
        number = count("number", number, most=len(self))
        return self.at(slice(number))

    def at(self, rows: "slice | Int[np.ndarray, ' rows']") -> "LWRSamples":
        """The samples of these rows."""
        return replace(self, public=self.public[rows], labels=self.labels[rows])

    def held_out(self, number: int) -> "tuple[LWRSamples, LWRSamples]":
        """All but the last `number` samples, and the last `number`; each part has at least one."""
        number = count("number", number, most=len(self) - 1)
        return self.at(slice(-number)), self.at(slice(-number, None))


def rounded_labels(
    products: Int[np.ndarray, "..."], parameters: LWEParameters, rounding: Rounding = "down"
) -> Int[np.ndarray, "..."]:
    """The labels of inner products: floor(p x / q) of their residues x, or floor(p x / q + 1/2) mod p.

    Examples
    --------
    >>> saber = LWEParameters(n=4, q=16, p=4)
    >>> rounded_labels(np.arange(16), saber, "nearest").tolist()
    [0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 0, 0]
    """
    q, p = parameters.q, parameters.p
    down = rounded(products, q, p)
    if rounding == "down":
        return down
    # Hermite's identity: floor(y + 1/2) = floor(2 y) - floor(y)
    return np.mod(product_quotient(np.mod(products, q), 2 * p, q, 2 * p * q) - down, p)


def require_no_signs(name: str, array: Int[np.ndarray, "..."], modulus: int) -> None:
    """Raise ValueError if entries modulo 2 are all -1 or 1, which are equal mod 2: signs, which say not which is 0."""
    if modulus == 2 and np.any(array == -1) and not np.any(array == 0):
        raise ValueError(
            f"{name} has the entries -1 and 1, which are equal modulo 2: as signs, save (1 - {name}) // 2 if -1 stands "
            f"for 1, or (1 + {name}) // 2 if 1 does."
        )


@checked
def require_samples(samples: LWRSamples, parameters: LWEParameters) -> None:
    """Raise ValueError unless the columns, labels and entries of the samples fit the parameters."""
    if samples.n != parameters.n:
        raise ValueError(
            f"The samples have {samples.n} columns and the parameters {parameters.n} secret entries: "
            "they must agree."
        )
    require_no_signs("public", samples.public, parameters.q)
    lowest, highest = int(samples.labels.min()), int(samples.labels.max())
    if lowest < 0 or highest >= parameters.p:
        raise ValueError(
            f"The labels go from {lowest} to {highest}: from 0 to {parameters.p - 1} is allowed for {parameters}."
        )
    if parameters.matrix in ("binary", "ternary"):
        entries = centred(samples.public, parameters.q)
        lowest = 0 if parameters.matrix == "binary" or parameters.q == 2 else -1
        if entries.min() < lowest or entries.max() > 1:
            raise ValueError(
                f"The rows have entries from {entries.min()} to {entries.max()} mod {parameters.q}: from "
                f"{lowest} to 1 is allowed for {parameters}; for residues take matrix='uniform'."
            )


@checked
def make_samples(
    parameters: LWEParameters,
    number: PositiveInt,
    *,
    secret: ArrayLike | None = None,
    rounding: Rounding = "down",
    rng: Rng = None,
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
    rounding : {"down", "nearest"}
        How labels are rounded: floor(p x / q), or floor(p x / q + 1/2) mod p.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7); draws the secret, the matrix and the errors.

    Examples
    --------
    >>> parameters = LWEParameters(n=8, q=64, p=2)
    >>> samples, secret = make_samples(parameters, 100, rng=0)
    >>> samples.public.shape, len(secret), np.unique(samples.labels).tolist()
    ((100, 8), 8, [0, 1])
    """
    n, q = parameters.n, parameters.q
    require_memory(f"number is {shown(number)}: such samples", 8 * number * (3 * n + 4), advice="take fewer")
    generator = random_generator(rng)
    own = parameters.Xs.draw(n, q, rng=generator) if secret is None else centred(secret, q)
    if own.shape != (n,):
        raise ValueError(f"secret has shape {own.shape}: ({n},) is needed.")
    public = generator.integers(2 if parameters.matrix in ("binary", "ternary") else q, size=(number, n))
    if parameters.matrix == "ternary":
        public -= generator.integers(2, size=(number, n))
    errors = parameters.draw_errors(number, rng=generator)
    labels = rounded_labels(inner_products(public, own, q) + errors, parameters, rounding)
    return LWRSamples(public, labels, rounding), own
