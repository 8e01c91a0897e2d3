"""The parameters of a learning-with-rounding instance, and the arithmetic that names fix."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from attention._arrays import shown
from attention.validation import count, require_instance, require_mapping
from lwe.integer_law import MOST_VALUES
from lwe.laws import NO_NOISE, UNIFORM, GaussianLaw, IntegerLaw, SparseLaw, law_from_json
from lwe.residues import LARGEST_MODULUS, centred, rounded, whole_array

__all__ = [
    "LARGEST_MODULUS",
    "LWRParameters",
    "Matrix",
    "centred",
    "covariate_form",
    "require_form",
    "require_matrix",
    "require_parameters",
    "rounded",
]

Matrix = Literal["binary", "ternary", "gadget", "uniform"]

_FEW_ERRORS = 3
_MOST_NODES = 1 << 17


@dataclass(frozen=True)
class LWRParameters:
    """Learning with rounding or with errors: labels floor(p ((<v, a> + e) mod q) / q) of random a and a secret v.

    Parameters
    ----------
    secret_dim : int
        The number of entries of the secret, at least 1.
    modulus : int
        q, from 2 to 2^31. In the gadget family a power of two.
    levels : int
        p, the number of values a label takes, from 2 to q.
    matrix : {"binary", "ternary", "gadget", "uniform"}
        What the rows of the public matrix are. Binary: uniform bits, learning with rounding with a binary public
        matrix, a variant. Ternary: -1, 0 and 1 with probabilities 1/4, 1/2 and 1/4, another one. Gadget: the
        covariates are the bits of uniform vectors mod q; v_{j,i} = 2^i s_j and <v, a> = <s, G a> mod q with G a
        uniform in Z_q^n': standard learning with rounding with a power-of-two modulus. Uniform: uniform mod q, any q,
        standard; no heads realise it, it is for samples of others.
    secret : IntegerLaw
        From which distribution the secret is drawn: its `secret_dim` entries, for the gadget those of s.
    noise : IntegerLaw
        Of the errors e, added to <v, a> before it is rounded: with p = q learning with errors, with p = q = 2 and
        flips learning parity with noise.

    Raises
    ------
    ValueError
        If a number is out of its range, the modulus of the gadget family is no power of two, or a law does not fit.

    Notes
    -----
    Which problem a learner would solve is in `assumption`. Parameters describe a problem; that one is hard is
    assumed of some of them and wrong for others, and nothing here is a claim of security.

    References
    ----------
    Banerjee, Peikert and Rosen 2012 (learning with rounding); Regev 2005 (learning with errors); Blum, Furst, Kearns
    and Lipton 1993 (learning parity with noise); Applebaum, Cash, Peikert and Sahai 2009 (secrets from the law of the
    errors). The realisation by heads is derived here. In the style of the parameter sets of the lattice-estimator.

    Examples
    --------
    >>> parameters = LWRParameters(secret_dim=16, modulus=256, levels=2, matrix="gadget")
    >>> print(parameters)
    LWR n'=16 q=256 p=2 gadget (d=129)
    >>> parameters.covariates, parameters.dim
    (128, 129)
    >>> print(parameters.updated(matrix="binary", secret_dim=24, modulus=64))
    LWR n=24 q=64 p=2 (d=25)
    """

    secret_dim: int
    modulus: int
    levels: int
    matrix: Matrix = "binary"
    secret: IntegerLaw = UNIFORM
    noise: IntegerLaw = NO_NOISE

    def __post_init__(self) -> None:
        for name, least in (("secret_dim", 1), ("modulus", 2), ("levels", 2)):
            object.__setattr__(self, name, count(name, getattr(self, name), least=least))
        require_matrix(self.matrix)
        for name in ("secret", "noise"):
            if not isinstance(getattr(self, name), IntegerLaw):
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}: a law such as UniformLaw() or TernaryLaw() is needed."
                )
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
        if isinstance(self.secret, SparseLaw) and self.secret.weight > self.secret_dim:
            raise ValueError(
                f"The secret has weight {self.secret.weight}: at most secret_dim = {self.secret_dim} is allowed."
            )
        if isinstance(self.noise, SparseLaw):
            raise ValueError(
                "noise is sparse: errors are independent of one another; take FlipLaw, BinomialLaw or another law."
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
        """The fields as plain JSON values, laws in words; `from_json` gives them back."""
        return {
            "secret_dim": self.secret_dim,
            "modulus": self.modulus,
            "levels": self.levels,
            "matrix": self.matrix,
            "secret": self.secret.words,
            "noise": self.noise.words,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "LWRParameters":
        """The parameters that `to_json` wrote; other entries of `data` are passed over.

        Files of earlier versions say "gadget" in place of "matrix", and nothing of laws.

        Raises
        ------
        ValueError
            If an entry is missing or wrong.
        """
        require_mapping("The parameters", data)
        missing = [name for name in ("secret_dim", "modulus", "levels") if name not in data]
        if missing or not {"matrix", "gadget"} & set(data):
            raise ValueError(
                f"The parameters {dict(data)} do not say what {', '.join(missing or ['matrix'])} is: it is needed."
            )
        return cls(
            secret_dim=count("secret_dim", data["secret_dim"]),
            modulus=count("modulus", data["modulus"]),
            levels=count("levels", data["levels"]),
            matrix=data.get("matrix", "gadget" if data.get("gadget") else "binary"),
            secret=law_from_json(data.get("secret", UNIFORM.words)),
            noise=law_from_json(data.get("noise", NO_NOISE.words)),
        )

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
        """The share of labels that the secret itself predicts: 1 without noise; with uniform <v, a> otherwise.

        A label is the same after an error e where T and T + e lie in one of the p runs of residues with one label,
        of which q mod p have ceil(q/p) residues and the others floor(q/p). O(the values an error can have), whatever
        q. Of rounded Gaussians with more than 2^24 values only those below q/p count, which the trapezoidal rule sums
        with 2^18 nodes at most; another law with so many that is not uniform is refused with a ValueError.
        """
        if not self.noisy:
            return 1.0
        q, p = self.modulus, self.levels
        runs = ((q // p, p - q % p), (q // p + 1, q % p))
        if self.noise.is_uniform(q):
            return sum(number * (length / q) ** 2 for length, number in runs)
        errors, chances = self._errors()
        # of a run, the residues that e = r or r - q leaves in it, for r = e mod q
        shifts = np.stack([np.mod(errors, q), q - np.mod(errors, q)])
        same = sum(number * np.maximum(length - shifts, 0).sum(axis=0) for length, number in runs)
        return float(chances @ same) / q

    def _errors(self) -> tuple[Int[np.ndarray, " s"], Float[np.ndarray, " s"]]:
        """The errors that may leave a label as it is, or nodes in their place, and their probabilities or weights."""
        q, noise = self.modulus, self.noise
        if isinstance(noise, GaussianLaw) and min(24 * noise.sigma, q) > MOST_VALUES:
            longest = -(-q // self.levels)
            step = -(-longest // _MOST_NODES)
            half = np.arange(step, longest, step)
            errors = np.concatenate([-half[::-1], [0], half])
            return errors, step * noise.chances(errors, q)
        return noise.support(q)

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
        """The problem that a learner would have to solve, as a sentence; no claim that it is hard.

        A secret from the law of the errors is as hard as a uniform one where the first samples can be solved for it,
        so for uniform public vectors (Applebaum, Cash, Peikert and Sahai 2009, "Fast cryptographic primitives and
        circular-secure encryption based on hard learning problems"). For bits and trits mod q > 2 no such reduction
        is known to us.
        """
        q, p, n = self.modulus, self.levels, self.secret_dim
        if not isinstance(self.secret, SparseLaw) and self.secret.error_rate(q) == 0:
            return (
                "The only secret is 0: labels do not depend on the covariates, and there is nothing to solve."
            )
        if self.noise.is_uniform(q):
            return (
                f"Labels do not depend on the secret: errors {self.noise} are uniform mod {q}, and there is nothing to "
                "learn."
            )
        if p == q and not self.noisy:
            if q == 2:
                return "Noise-free parity, easy by Gaussian elimination; with label flips, learning parity with noise."
            return "Linear equations mod q without errors, easy by elimination; with errors, learning with errors."
        name = "learning with errors" if p == q else "learning with rounding"
        name = "learning parity with noise" if q == 2 else name
        form = self._form_only()
        problem = f"A problem of the form of {name}" if form else name[0].upper() + name[1:]
        problem += f", dimension {n}"
        if q == 2 or p == q:
            problem += f", errors {self.noise}" if q == 2 else f", modulus {q}, errors {self.noise}"
        else:
            noise = f"errors {self.noise} before rounding" if self.noisy else "no noise"
            problem += f", modulus {q}, {p} levels, {noise}"
        # bits are the uniform public vectors of parity, so they are no variant of it
        uniform = self.matrix in ("uniform", "gadget") or (self.matrix == "binary" and q == 2)
        changed = []
        if not uniform:
            trits = " (-1, 0, 1 with probabilities 1/4, 1/2, 1/4)" if self.matrix == "ternary" else ""
            changed.append(f"a {self.matrix} public matrix{trits}")
        if uniform and p == q and self.secret == self.noise:
            problem += ", secret from the law of the errors (normal form)"
        elif not self.secret.is_uniform(q):
            known = "" if uniform else ", for which no reduction from uniform secrets is known to us"
            changed.append(f"a secret from the law {self.secret}{known}")
        if uniform:
            problem += ", uniform public bits" if q == 2 else ", uniform public vectors"
        standard = "the standard problem" + (" with a power-of-two modulus" if self.gadget and q > 2 else "")
        told = f"a variant of {standard}, with {' and '.join(changed)}" if changed else standard
        return f"{problem}: {told}{form}."

    def _form_only(self) -> str:
        """What makes the errors too few for the problem they look like; nothing if they are not."""
        if not self.noisy or self.levels < self.modulus:
            return ""
        rate = self.noise.error_rate(self.modulus)
        if rate * self.secret_dim <= 1:
            return (
                f", in form only: one in {1 / rate:.3g} labels has an error, so {self.secret_dim} without any are "
                "found by trying"
            )
        values = round(2 ** self.noise.secrets(1, self.modulus))
        # modulo a prime factor of q that is above the number of values, which q has if anything is left of it
        left = self.modulus
        for factor in range(2, min(values, _FEW_ERRORS) + 1):
            while left % factor == 0:
                left //= factor
        if left > 1 and values <= _FEW_ERRORS:
            return (
                f", in form only: with {values} values of errors it is a system of equations of degree {values} "
                "(Arora and Ge 2011)"
            )
        return ""


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
    >>> covariate_form([3, 1], LWRParameters(secret_dim=2, modulus=8, levels=2, matrix="gadget"))
    array([ 3, -2,  4,  1,  2,  4])
    """
    require_parameters(parameters)
    s = np.asarray(secret)
    if s.shape != (parameters.secret_dim,) or s.dtype.kind not in "iu":
        raise ValueError(
            f"secret has shape {s.shape} of {s.dtype}: {parameters.secret_dim} whole numbers are needed."
        )
    if not parameters.gadget:
        return centred(s, parameters.modulus)
    powers = 2 ** np.arange(parameters.digits)
    # in 64 bits, whatever the secret came in: int8 does not hold the modulus
    residues = np.mod(whole_array("secret", s), parameters.modulus)
    return centred(np.multiply.outer(residues, powers).ravel(), parameters.modulus)


def require_form(
    form: ArrayLike, covariates: int | None = None, matrix: str = "binary"
) -> Int[np.ndarray, " n"]:
    """The form of a secret as an array of 64-bit integers, with the arguments that go with it held to their kinds.

    Raises
    ------
    ValueError
        If the form is no list of whole numbers below 2^62 in size, has another length than `covariates`, or there is
        no matrix of that name.
    """
    if matrix not in get_args(Matrix):
        raise ValueError(f"matrix is {matrix!r}: one of {', '.join(get_args(Matrix))} is needed.")
    try:
        found = np.asarray(form)
    except ValueError:  # ragged
        found = np.zeros(0)
    if found.ndim != 1 or not len(found) or found.dtype.kind not in "iu":
        raise ValueError(
            f"The form has shape {found.shape} of {found.dtype}: one whole number for each covariate is needed."
        )
    if covariates is not None and len(found) != covariates:
        raise ValueError(
            f"The form has {len(found)} entries: one for each of {covariates} covariates is needed."
        )
    if max(-int(found.min()), int(found.max())) >> 62:
        raise ValueError(
            "The form has an entry of 2^62 or beyond: take representatives mod q, as centred gives."
        )
    return found.astype(np.int64)


def require_parameters(parameters: object) -> None:
    """Raise where something else than parameters is given.

    Raises
    ------
    ValueError
        If it is no `LWRParameters`.
    """
    require_instance(
        "parameters",
        parameters,
        LWRParameters,
        needed="an LWRParameters, such as lwe.PRESETS['kyber512'],",
    )


def require_matrix(matrix: object) -> None:
    """Raise where something else than the name of a kind of matrix is given.

    Raises
    ------
    ValueError
        If there is none of that name.
    """
    if not isinstance(matrix, str) or matrix not in get_args(Matrix):
        raise ValueError(f"matrix is {shown(matrix)}: one of {', '.join(get_args(Matrix))} is needed.")
