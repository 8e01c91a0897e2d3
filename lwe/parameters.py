"""The parameters of learning with rounding or with errors, and the integer form of a secret that they fix."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike

from attention.validation import PositiveInt, Whole, checked
from lwe.laws import NO_NOISE, UNIFORM, IntegerLaw, law_words, parse_law
from lwe.residues import LARGEST_MODULUS, Modulus, centred, rounded, whole_array

__all__ = [
    "LARGEST_MODULUS",
    "LWRParameters",
    "Matrix",
    "centred",
    "covariate_form",
    "require_form",
    "rounded",
]

Matrix = Literal["binary", "ternary", "gadget", "uniform"]


@dataclass(frozen=True)
@checked
class LWRParameters:
    """Learning with rounding or with errors: labels floor(p ((<v, a> + e) mod q) / q) of random a and a secret v.

    ValueError if a number is out of its range, the modulus of the gadget family is not a power of two, or a law does
    not fit.

    `assumption` names the problem that a learner would solve: it is assumed to be hard for some parameters and easy for
    others.

    References
    ----------
    Banerjee, Peikert and Rosen 2012 (learning with rounding); Regev 2005 (learning with errors); Blum, Furst, Kearns
    and Lipton 1993 (learning parity with noise); Applebaum, Cash, Peikert and Sahai 2009 (secrets from the law of the
    errors).

    Examples
    --------
    >>> parameters = LWRParameters(secret_dim=16, modulus=256, levels=2, matrix="gadget")
    >>> print(parameters)
    LWR n'=16 q=256 p=2 gadget (d=129)
    >>> print(parameters.updated(matrix="binary", secret_dim=24, modulus=64))
    LWR n=24 q=64 p=2 (d=25)
    """

    secret_dim: PositiveInt  #: the number of entries of the secret
    modulus: Modulus  #: q, at most 2^52. In the gadget family a power of two.
    levels: Annotated[int, Whole(2)]  #: p, the number of values a label takes, from 2 to q
    #: What the rows of the public matrix are. Binary: uniform bits, a variant of learning with rounding. Ternary:
    #: -1, 0 and 1 with probabilities 1/4, 1/2 and 1/4, another one. Gadget: the covariates are the bits of uniform
    #: vectors mod q; v_{j,i} = 2^i s_j and <v, a> = <s, G a> mod q with G a uniform in Z_q^n': standard learning
    #: with rounding with a power-of-two modulus. Uniform: uniform mod q, standard; no heads realise it.
    matrix: Matrix = "binary"
    #: from which distribution the secret is drawn: its `secret_dim` entries, for the gadget those of s
    secret: IntegerLaw = UNIFORM
    #: of the errors e, added to <v, a> before it is rounded: with p = q learning with errors, with p = q = 2 and
    #: flips learning parity with noise
    noise: IntegerLaw = NO_NOISE

    def __post_init__(self) -> None:
        if self.levels > self.modulus:
            raise ValueError(f"levels is {self.levels}: at most modulus = {self.modulus} is needed.")
        if self.gadget and self.modulus & (self.modulus - 1):
            raise ValueError(
                f"modulus is {self.modulus}: the gadget writes residues in bits, a power of two is needed."
            )
        if self.secret.kind == "sparse" and self.secret.number > self.secret_dim:
            raise ValueError(
                f"secret has weight {self.secret.number}: at most secret_dim = {self.secret_dim} is needed."
            )
        if self.noise.kind == "sparse":
            raise ValueError(
                "noise is sparse: errors are independent, FlipLaw, BinomialLaw or another law is needed."
            )

    def __str__(self) -> str:
        size = f"n'={self.secret_dim}" if self.gadget else f"n={self.secret_dim}"
        name = "LWR" if self.levels < self.modulus else "LWE"
        if self.modulus == 2:
            name = "LPN" if self.noisy else "parity"
        kind = "" if self.matrix == "binary" else f" {self.matrix}"
        secret = "" if self.secret == UNIFORM else f" secret={self.secret}"
        noise = "" if self.noise == NO_NOISE else f" noise={self.noise}"
        dim = "" if self.matrix == "uniform" else f" (d={self.dim})"
        return f"{name} {size} q={self.modulus} p={self.levels}{kind}{secret}{noise}{dim}"

    def updated(self, **changes: Any) -> "LWRParameters":
        """The same parameters with some of them changed."""
        return replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON values, laws in words; `from_json` gives them back.

        ValueError for a law of one's own.
        """
        return asdict(self) | {"secret": law_words(self.secret), "noise": law_words(self.noise)}

    @classmethod
    @checked
    def from_json(cls, data: Mapping[str, Any]) -> "LWRParameters":
        """The parameters that `to_json` wrote; other entries of `data` are ignored.

        ValueError if an entry is missing or wrong.
        """
        names = cls.__dataclass_fields__
        if missing := [name for name in names if name not in data]:
            raise ValueError(
                f"The parameters {dict(data)} do not say what {', '.join(missing)} is: it is needed."
            )
        own = {name: data[name] for name in names}
        return cls(**own | {"secret": parse_law(own["secret"]), "noise": parse_law(own["noise"])})

    @property
    def gadget(self) -> bool:
        """Whether the matrix is the gadget's."""
        return self.matrix == "gadget"

    @property
    def noisy(self) -> bool:
        """Whether labels have errors: whether the law of the errors gives anything but 0 mod q."""
        return self.noise.error_rate(self.modulus) > 0

    @property
    def best_accuracy(self) -> float:
        """The share of labels that the secret itself predicts: 1 without noise, otherwise computed for uniform <v, a>.

        An error e does not change a label if T and T + e lie in the same one of the p runs of residues with equal
        labels. q mod p of these runs have ceil(q/p) residues, the others floor(q/p).
        """
        if not self.noisy:
            return 1.0
        q, p = self.modulus, self.levels
        runs = ((q // p, p - q % p), (q // p + 1, q % p))
        if self.noise.is_uniform(q):
            return sum(number * (length / q) ** 2 for length, number in runs)
        errors, chances = self.noise.support(q)
        # of a run, the residues that e = r or r - q leaves in it, for r = e mod q
        shifts = np.stack([np.mod(errors, q), q - np.mod(errors, q)])
        same = sum(number * np.maximum(length - shifts, 0).sum(axis=0) for length, number in runs)
        return float(chances @ same) / q

    @property
    def digits(self) -> int:
        """How many covariates one entry of the secret needs: log2 q bits in the gadget family, else 1."""
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
        """(p - 1)/2: subtracted from a label so that its mean is near 0."""
        return (self.levels - 1) / 2

    @property
    def uniform_rows(self) -> bool:
        """Whether the rows of the public matrix are uniform; bits are the uniform public vectors of parity."""
        return self.matrix in ("uniform", "gadget") or (self.matrix == "binary" and self.modulus == 2)

    @property
    def normal_form(self) -> bool:
        """Whether the secret is from the law of the errors, which loses nothing if rows are uniform and p = q."""
        return self.uniform_rows and self.levels == self.modulus and self.secret == self.noise

    @property
    def standard(self) -> bool:
        """Whether it is the standard problem, and no variant in its rows or its secret."""
        return self.uniform_rows and (self.normal_form or self.secret.is_uniform(self.modulus))

    @property
    def assumption(self) -> str:
        """The problem that a learner would have to solve, as a sentence; `judge_secret` says what makes it easy.

        A secret from the law of the errors is as hard as a uniform one where the public vectors are uniform (Applebaum,
        Cash, Peikert and Sahai 2009). For bits and trits mod q > 2 no such reduction is known to us.
        """
        q, p = self.modulus, self.levels
        if self.secret.secrets(self.secret_dim, q) == 0:
            return "There is one secret only, and nothing to solve."
        if self.noise.is_uniform(q):
            return f"Errors {self.noise} are uniform mod {q}: labels do not depend on the secret; nothing to learn."
        if p == q and not self.noisy:
            if q == 2:
                return "Noise-free parity, easy by Gaussian elimination; with label flips, learning parity with noise."
            return "Linear equations mod q without errors, easy by elimination; with errors, learning with errors."
        name = "parity with noise" if q == 2 else "with errors" if p == q else "with rounding"
        noise = f"errors {self.noise}{' before rounding' * (p < q)}" if self.noisy else "no noise"
        size = f"dimension {self.secret_dim}, modulus {q}, " + (f"{p} levels, " if p < q else "")
        standard = "the standard problem" + (" with a power-of-two modulus" if self.gadget and q > 2 else "")
        changed = [] if self.uniform_rows else [f"a {self.matrix} public matrix"]
        if self.normal_form:
            standard += ", with a secret from the law of the errors (normal form)"
        elif not self.secret.is_uniform(q):
            changed.append(f"a secret from the law {self.secret}")
        variant = f"a variant of {standard}, with {' and '.join(changed)}" if changed else standard
        return f"Learning {name}, {size}{noise}: {variant}."


@checked
def covariate_form(secret: ArrayLike, parameters: LWRParameters) -> Int[np.ndarray, " n"]:
    """The centred integer vector v with label f(<v, a>) on covariates a: the secret itself, or its gadget multiples.

    The secret is any representatives mod q; ValueError if it is not `secret_dim` whole numbers.

    Examples
    --------
    >>> covariate_form([3, 1], LWRParameters(secret_dim=2, modulus=8, levels=2, matrix="gadget"))
    array([ 3, -2,  4,  1,  2,  4])
    """
    entries = whole_array("secret", secret)
    if entries.shape != (parameters.secret_dim,):
        raise ValueError(f"secret has shape {entries.shape}: ({parameters.secret_dim},) is needed.")
    if parameters.gadget:
        powers = 1 << np.arange(parameters.digits)  # products wrap at 2^64, a multiple of q
        entries = np.multiply.outer(np.mod(entries, parameters.modulus), powers).ravel()
    return centred(entries, parameters.modulus)


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
