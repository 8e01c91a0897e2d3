"""The parameters of learning with rounding or with errors, and the integer form of a secret that they fix."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from attention.inputs import Rng
from attention.validation import PositiveInt, Whole, checked
from lower import Word
from lwe.distributions import (
    NO_NOISE,
    UNIFORM,
    Distribution,
    FixedWeight,
    distribution_words,
    parse_distribution,
)
from lwe.residues import LARGEST_MODULUS, centred, whole_array

Matrix = Literal["binary", "ternary", "gadget", "uniform"]

OLD_NAMES: Mapping[str, str] = MappingProxyType(
    {"secret_dim": "n", "modulus": "q", "levels": "p", "secret": "Xs", "noise": "Xe"}
)
"""Names of the fields in older files."""


@dataclass(frozen=True)
@checked
class LWEParameters:
    """Learning with rounding or with errors: labels floor(p ((<v, a> + e) mod q) / q) of random a and a secret v.

    ValueError if a number is out of its range, the modulus of the gadget family is not a power of two, or a
    distribution does not fit.

    `assumption` names the problem that a learner would solve: it is assumed to be hard for some parameters and easy for
    others.

    References
    ----------
    Banerjee, Peikert and Rosen 2012 (learning with rounding); Regev 2005 (learning with errors); Blum, Furst, Kearns
    and Lipton 1993 (learning parity with noise); Applebaum, Cash, Peikert and Sahai 2009 (secrets from the
    distribution of the errors).

    Examples
    --------
    >>> parameters = LWEParameters(n=16, q=256, p=2, matrix="gadget")
    >>> print(parameters)
    LWR n'=16 q=256 p=2 gadget (d=129)
    >>> print(parameters.updated(matrix="binary", n=24, q=64))
    LWR n=24 q=64 p=2 (d=25)
    """

    n: PositiveInt  #: the number of entries of the secret
    #: q; in the gadget family a power of two. Samples need at most 2^52, estimates of costs do not.
    q: Annotated[int, Whole(2)]
    #: the number of values a label takes, from 2 to q; 0 stands for q: no rounding
    p: Annotated[int, Whole(0)] = 0
    #: What the rows of the public matrix are. Binary: uniform bits, a variant of learning with rounding. Ternary:
    #: -1, 0 and 1 with probabilities 1/4, 1/2 and 1/4, another one. Gadget: the covariates are the bits of uniform
    #: vectors mod q; v_{j,i} = 2^i s_j and <v, a> = <s, G a> mod q with G a uniform in Z_q^n': standard learning
    #: with rounding with a power-of-two modulus. Uniform: uniform mod q, standard; no heads realise it.
    matrix: Matrix = "binary"
    Xs: Distribution = UNIFORM  #: of the secret: its n entries, for the gadget those of s
    #: of the errors e, added to <v, a> before it is rounded: with p = q learning with errors, with p = q = 2 and
    #: flips learning parity with noise
    Xe: Distribution = NO_NOISE
    m: PositiveInt | None = None  #: the number of samples that there are; None for any number
    tag: str = ""  #: a name for people

    def __post_init__(self) -> None:
        if self.p == 0:
            object.__setattr__(self, "p", self.q)
        if not 2 <= self.p <= self.q:
            raise ValueError(f"p is {self.p}: 2 to q = {self.q} levels are needed.")
        if self.gadget and self.q & (self.q - 1):
            raise ValueError(f"q is {self.q}: the gadget writes residues in bits, a power of two is needed.")
        if isinstance(self.Xs, FixedWeight):
            self.Xs.require_room(self.n)
        if isinstance(self.Xe, FixedWeight):
            if self.m is None:
                raise ValueError(
                    f"Xe is {self.Xe}, a weight of all errors together, and m is not given: give m, or a distribution "
                    "of single errors such as Flips or CentredBinomial."
                )
            self.Xe.require_room(self.m)

    def __str__(self) -> str:
        size = f"n'={self.n}" if self.gadget else f"n={self.n}"
        name = "LWR" if self.p < self.q else "LWE"
        if self.q == 2:
            name = "LPN" if self.noisy else "parity"
        kind = "" if self.matrix == "binary" else f" {self.matrix}"
        secret = "" if self.Xs == UNIFORM else f" secret={self.Xs}"
        noise = "" if self.Xe == NO_NOISE else f" noise={self.Xe}"
        dim = "" if self.matrix == "uniform" else f" (d={self.dim})"
        return f"{name} {size} q={_shown(self.q)} p={_shown(self.p)}{kind}{secret}{noise}{dim}"

    def updated(self, **changes: Any) -> "LWEParameters":
        """The same parameters with some of them changed."""
        return replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON values, distributions in words; `from_json` gives them back.

        ValueError for a distribution of one's own.
        """
        return asdict(self) | {"Xs": distribution_words(self.Xs), "Xe": distribution_words(self.Xe)}

    @classmethod
    @checked
    def from_json(cls, data: Mapping[str, Any]) -> "LWEParameters":
        """The parameters that `to_json` wrote, now or with its older names; other entries of `data` are ignored.

        ValueError if an entry is missing or wrong.
        """
        named = {OLD_NAMES.get(name, name): value for name, value in data.items()}
        own = {name: named[name] for name in cls.__dataclass_fields__ if name in named}
        if missing := [name for name in ("n", "q", "p", "matrix", "Xs", "Xe") if name not in own]:
            raise ValueError(
                f"The parameters {dict(data)} do not say what {', '.join(missing)} is: it is needed."
            )
        return cls(**own | {name: parse_distribution(own[name]) for name in ("Xs", "Xe")})

    def draw_errors(self, number: PositiveInt, *, rng: Rng = None) -> Int[np.ndarray, " number"]:
        """So many errors; ValueError if the weight of all m errors is fixed and these are more than m."""
        if not isinstance(self.Xe, FixedWeight):
            return self.Xe.draw(number, self.q, rng=rng)
        assert self.m is not None
        if number > self.m:
            raise ValueError(
                f"number is {number}: {self} has {self.m} errors of fixed weight; take at most these."
            )
        return self.Xe.draw(self.m, self.q, rng=rng)[:number]

    def error_support(self) -> tuple[Int[np.ndarray, " s"], Float[np.ndarray, " s"]]:
        """The values of one error, centred mod q, and their probabilities; ValueError above 2^22 values."""
        return self.Xe.entries(self.m or 0, self.q)

    @property
    def gadget(self) -> bool:
        """Whether the matrix is the gadget's."""
        return self.matrix == "gadget"

    @property
    def noisy(self) -> bool:
        """Whether errors may differ from 0 mod q."""
        wide = isinstance(self.Xe, FixedWeight) or not self.Xe.listed or self.Xe.is_uniform(self.q)
        return wide or bool(np.any(self.error_support()[0]))

    @property
    def best_accuracy(self) -> float:
        """The share of labels that the secret itself predicts: 1 without noise, otherwise computed for uniform <v, a>.

        An error e does not change a label if T and T + e lie in the same one of the p runs of residues with equal
        labels. q mod p of these runs have ceil(q/p) residues, the others floor(q/p).
        """
        if not self.noisy:
            return 1.0
        q, p = self.q, self.p
        runs = ((q // p, p - q % p), (q // p + 1, q % p))
        if self.Xe.is_uniform(q):
            return sum(number * (length / q) ** 2 for length, number in runs)
        errors, chances = self.error_support()
        # of a run, the residues that e = r or r - q leaves in it, for r = e mod q
        shifts = np.stack([np.mod(errors, q), q - np.mod(errors, q)])
        same = sum(number * np.maximum(length - shifts, 0).sum(axis=0) for length, number in runs)
        return float(chances @ same) / q

    @property
    def digits(self) -> int:
        """How many covariates one entry of the secret needs: log2 q bits in the gadget family, else 1."""
        return self.q.bit_length() - 1 if self.gadget else 1

    @property
    def covariates(self) -> int:
        """The number n of binary covariates."""
        return self.n * self.digits

    @property
    def dim(self) -> int:
        """The number d = n + 1 of coordinates of a token: one for the gate."""
        return self.covariates + 1

    @property
    def centre(self) -> float:
        """(p - 1)/2: subtracted from a label so that its mean is near 0."""
        return (self.p - 1) / 2

    @property
    def assumption(self) -> Word:
        """The problem that a learner would have to solve, or that it is a variant of one in its rows or its secret.

        Bits are the uniform public vectors of parity. A secret from the distribution of the errors is as hard as a
        uniform one where the public vectors are uniform (Applebaum, Cash, Peikert and Sahai 2009). For bits and trits
        mod q > 2 no such reduction is known to us.
        """
        uniform_rows = self.matrix in ("uniform", "gadget") or (self.matrix == "binary" and self.q == 2)
        normal_form = self.p == self.q and self.Xs == self.Xe
        problem = "LPN" if self.q == 2 else "LWE" if self.p == self.q else "LWR"
        standard = uniform_rows and (normal_form or self.Xs.is_uniform(self.q))
        return Word[problem if standard else f"VARIANT_OF_{problem}"]


@checked
def covariate_form(secret: ArrayLike, parameters: LWEParameters) -> Int[np.ndarray, " n"]:
    """The centred integer vector v with label f(<v, a>) on covariates a: the secret itself, or its gadget multiples.

    The secret is any representatives mod q; ValueError if it is not `n` whole numbers.

    Examples
    --------
    >>> covariate_form([3, 1], LWEParameters(n=2, q=8, p=2, matrix="gadget"))
    array([ 3, -2,  4,  1,  2,  4])
    """
    entries = whole_array("secret", secret)
    if entries.shape != (parameters.n,):
        raise ValueError(f"secret has shape {entries.shape}: ({parameters.n},) is needed.")
    if parameters.gadget:
        powers = 1 << np.arange(parameters.digits)  # products wrap at 2^64, a multiple of q
        entries = np.multiply.outer(np.mod(entries, parameters.q), powers).ravel()
    return centred(entries, parameters.q)


def require_form(form: ArrayLike, covariates: int | None = None) -> Int[np.ndarray, " n"]:
    """The form of a secret as an array of 64-bit integers below 2^62 in size; a ValueError if it is none."""
    entries = whole_array("form", form)
    if entries.ndim != 1 or not len(entries) or covariates not in (None, len(entries)):
        needed = "n" if covariates is None else covariates
        raise ValueError(
            f"form has shape {entries.shape}: ({needed},) is needed, one whole number for each covariate."
        )
    if np.any(entries >> 62 != entries >> 63):
        raise ValueError(
            "form has an entry of 2^62 or beyond: representatives mod q are needed, as centred gives."
        )
    return entries


def _shown(number: int) -> str:
    """A number, or the power of two that a long one is or is near."""
    if number <= LARGEST_MODULUS:
        return str(number)
    return f"2^{number.bit_length() - 1}" if number & (number - 1) == 0 else f"2^{math.log2(number):.1f}"
