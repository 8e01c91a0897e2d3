"""The parameters of a learning-with-rounding instance, and the arithmetic that names fix."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped
from numpy.typing import ArrayLike

from attention._arrays import count

__all__ = ["LARGEST_MODULUS", "LWRParameters", "centred", "covariate_form", "rounded"]

LARGEST_MODULUS = 1 << 31
"""The largest modulus q: products p (T mod q) with p at most q then fit into 64-bit integers."""


@dataclass(frozen=True)
class LWRParameters:
    """Learning with rounding: labels floor(p (<v, a> mod q) / q) for uniform a in {0, 1}^n and a secret v.

    Parameters
    ----------
    secret_dim : int
        The number of entries of the secret, at least 1.
    modulus : int
        q, from 2 to 2^31. In the gadget family a power of two.
    levels : int
        p, the number of values a label takes, from 2 to q.
    gadget : bool
        Whether the covariates are the bits of uniform vectors mod q. If so, v_{j,i} = 2^i s_j and <v, a> =
        <s, G a> mod q with G a uniform in Z_q^n': standard learning with rounding with a power-of-two
        modulus. If not, v is the secret itself: learning with rounding with a binary public matrix, a
        variant.

    Raises
    ------
    ValueError
        If a number is out of its range, or the modulus of the gadget family is no power of two.

    References
    ----------
    Banerjee, Peikert and Rosen 2012 (learning with rounding); the realisation by heads is derived here.

    Examples
    --------
    >>> parameters = LWRParameters(secret_dim=16, modulus=256, levels=2, gadget=True)
    >>> print(parameters)
    LWR n'=16 q=256 p=2 gadget (d=129)
    >>> parameters.covariates, parameters.dim
    (128, 129)
    >>> print(parameters.updated(gadget=False, secret_dim=24, modulus=64))
    LWR n=24 q=64 p=2 (d=25)
    """

    secret_dim: int
    modulus: int
    levels: int
    gadget: bool = False

    def __post_init__(self) -> None:
        for name, least in (("secret_dim", 1), ("modulus", 2), ("levels", 2)):
            object.__setattr__(self, name, count(name, getattr(self, name), least=least))
        object.__setattr__(self, "gadget", bool(self.gadget))
        if self.modulus > LARGEST_MODULUS:
            raise ValueError(
                f"modulus is {self.modulus}: at most 2^31 = {LARGEST_MODULUS} is allowed, so that the arithmetic fits "
                "into 64-bit integers; take a smaller modulus."
            )
        if self.levels > self.modulus:
            raise ValueError(
                f"levels is {self.levels} and modulus {self.modulus}: at most as many levels as residues."
            )
        if self.gadget and self.modulus & (self.modulus - 1):
            raise ValueError(
                f"modulus is {self.modulus}: the gadget family writes residues in bits and needs a power of two."
            )

    def __str__(self) -> str:
        size = f"n'={self.secret_dim}" if self.gadget else f"n={self.secret_dim}"
        kind = " gadget" if self.gadget else ""
        return f"LWR {size} q={self.modulus} p={self.levels}{kind} (d={self.dim})"

    def updated(self, **changes: Any) -> "LWRParameters":
        """The same parameters with some of them changed."""
        return replace(self, **changes)

    @property
    def digits(self) -> int:
        """How many covariates one entry of the secret takes: log2 q bits in the gadget family, else 1."""
        return self.modulus.bit_length() - 1 if self.gadget else 1

    @property
    def covariates(self) -> int:
        """The number n of binary covariates."""
        return self.secret_dim * self.digits

    @property
    def dim(self) -> int:
        """The number d = n + 1 of coordinates of a token: one for the gate."""
        return self.covariates + 1

    @property
    def centre(self) -> float:
        """(p - 1)/2: what is taken off a label so that it has mean near 0."""
        return (self.levels - 1) / 2

    @property
    def assumption(self) -> str:
        """The problem that a learner would have to solve, as a sentence."""
        if self.modulus == self.levels == 2:
            return "Noise-free parity, easy by Gaussian elimination; with label flips, learning parity with noise."
        if self.gadget:
            return (
                f"Learning with rounding, dimension {self.secret_dim}, modulus {self.modulus}, {self.levels} levels, "
                "uniform public vectors, no noise: the standard problem with a power-of-two modulus."
            )
        return (
            f"Learning with rounding with a binary public matrix, dimension {self.secret_dim}, modulus {self.modulus}, "
            f"{self.levels} levels: a variant of the standard problem."
        )


def centred(values: ArrayLike, modulus: int) -> Int[np.ndarray, "..."]:
    """The representatives in (-q/2, q/2] of integers mod q; q/2 stands for itself, not for -q/2.

    Examples
    --------
    >>> centred([0, 3, 4, 5, 7], 8)
    array([ 0,  3,  4, -3, -1])
    """
    residues = np.mod(np.asarray(values, dtype=np.int64), modulus)
    return np.where(2 * residues > modulus, residues - modulus, residues)


def rounded(t: Shaped[np.ndarray, "*n"], modulus: int, levels: int) -> Int[np.ndarray, "*n"]:
    """f(T) = floor(p (T mod q) / q), the label of the inner product T."""
    return levels * np.mod(np.asarray(t, dtype=np.int64), modulus) // modulus


def covariate_form(secret: ArrayLike, parameters: LWRParameters) -> Int[np.ndarray, " n"]:
    """The centred integer vector v with label f(<v, a>) on covariates a: the secret itself, or its gadget multiples.

    Parameters
    ----------
    secret : array of int (secret_dim,)
        The secret, any representatives mod q.
    parameters : LWRParameters
        The parameters.

    Raises
    ------
    ValueError
        If the secret is not `secret_dim` whole numbers.

    Examples
    --------
    >>> covariate_form([3, 1], LWRParameters(secret_dim=2, modulus=8, levels=2, gadget=True))
    array([ 3, -2,  4,  1,  2,  4])
    """
    s = np.asarray(secret)
    if s.shape != (parameters.secret_dim,) or s.dtype.kind not in "iu":
        raise ValueError(
            f"secret has shape {s.shape} of {s.dtype}: {parameters.secret_dim} whole numbers are needed."
        )
    if not parameters.gadget:
        return centred(s, parameters.modulus)
    powers = 2 ** np.arange(parameters.digits)
    return centred(np.multiply.outer(np.mod(s, parameters.modulus), powers).ravel(), parameters.modulus)
