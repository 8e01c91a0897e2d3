"""The hard family from lattice assumptions: layers of two tokens whose outputs are learning-with-rounding labels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from attention import ExampleOracle
from attention.inputs import Rng
from attention.validation import PositiveFloat, PositiveInt, checked
from lower import Fact, HardInstance, Heads, family_of, option, register
from lower.family import Family
from lower.heads import SATURATED_SLOPE
from lwe.certificate import lwr_estimates, lwr_facts
from lwe.distributions import NO_NOISE, UNIFORM, Distribution, distribution_words, parse_distribution
from lwe.heads import Deviations, kept_range, lwr_heads, value_range
from lwe.parameters import LARGEST_MODULUS, LWEParameters, centred, covariate_form, rounded
from lwe.residues import product_quotient

__all__ = ["LWRFamily", "describe_instance", "make_lwr_instance"]

_MOST_NUMBERS = 1 << 28  # two gigabytes an array
_ROUNDING = {"gadget": "Gadget rounding", "ternary": "Ternary rounding"}


def _law(text: Any) -> Distribution:
    return parse_distribution(text) if isinstance(text, str) else text


@register
@dataclass(frozen=True, kw_only=True)
@checked
class LWRFamily(Family):
    """Layers of two tokens that compute learning with rounding.

    The gate is coordinate 0, v is the centred integer form of the secret, and T = <v, a>. Off the gate both rows are 0;
    on it row r is x_r0 (floor(p (T mod q)/q) - (p - 1)/2) e_0. The known part is zero. The covariates are
    a_j = 1[x_1j != x_2j] (binary and gadget) or a_j = x_10 (x_1j - x_2j)/2 (ternary), independent of one another.
    Instances have no noise; `lwe.noisy_examples` adds it to the labels. Secrets in files are centred mod q; in the
    gadget family they are in [0, q).

    ValueError as for `LWEParameters`, or if the matrix is uniform. `instance` raises it if the secret does not fit, the
    slope is too small to tell labels apart, or the layer or its certificate would be too large.

    Notes
    -----
    *Assumption.* `LWEParameters.assumption` names the problem and says whether it is standard, a variant or easy. With
    small secrets T hardly wraps around unless q is tiny. Nothing here is a claim of security.

    *Slope.* At slope 40 the float64 layer is exact. At smaller slopes the proved error bound, 2 max|c| / sinh beta for
    coefficients c, must be below 1/2, half the distance of two labels.

    *Truncation.* Beyond the range the target keeps the label of the last value, and the realisation error is against
    this target. By Hoeffding's inequality its label differs from the true one on at most a share
    2 e^(-deviations^2 / 2) of the covariates, 2 e^-18 for 6 deviations.

    *Size.* One head for each jump of the label, about p |v|_1 / q of them (ternary: twice as many), and two pads:
    O(m d^2) numbers. The certificate takes O(n^2 q).

    References
    ----------
    Chen and Li, arXiv 2402.04084, prove hardness under a variant of learning with errors. It is not claimed that their
    variant is one of these problems.

    Examples
    --------
    >>> size = {"secret_dim": 256, "modulus": 64, "levels": 2}
    >>> [LWRFamily(**size, deviations=one).instance(rng=0).layer.heads for one in (None, 6.0)]
    [126, 56]
    """

    name = "lwr"
    called = "{rounding}, n = {secret_dim}, q = {modulus}, p = {levels}{laws}"
    compared: ClassVar = (
        {"secret_dim": 24, "modulus": 64, "levels": 2},
        {"secret_dim": 6, "modulus": 16, "levels": 2, "matrix": "gadget"},
    )
    secret_dim: PositiveInt = option("Number n of entries of the secret.", preset=24)
    modulus: PositiveInt = option("Modulus q.", preset=64)
    levels: PositiveInt = option("Rounding levels p.", preset=2)
    matrix: Literal["binary", "ternary", "gadget"] = option(
        "Covariates: bits; -1, 0 and 1 (ternary); or bits that spell residues, q a power of 2 (gadget: standard).",
        default="binary",
    )
    secret: Distribution = option(
        "Law of the secret: uniform, binary, ternary, binomial:2, sparse:8.",
        default=UNIFORM,
        flag="--secret-law",
        read=_law,
        write=distribution_words,
    )
    noise: Distribution = option(
        "Law of errors that labels get on top: zero, gaussian:3, binomial:2, flip:0.1 (which adds 1; with q = 2 that "
        "is parity with noise).",
        default=NO_NOISE,
        read=_law,
        write=distribution_words,
    )
    beta: PositiveFloat = option("Slope of all heads.", default=SATURATED_SLOPE)
    deviations: Deviations | None = option(
        "Leave out heads of sums beyond so many standard deviations, at least 2: there the last label is held.",
        default=None,
    )
    gate = 0

    def __post_init__(self) -> None:
        if self.modulus > LARGEST_MODULUS:
            raise ValueError(f"modulus is {self.modulus}: at most 2^52 is needed.")
        _ = self.parameters  # they check the other fields

    @classmethod
    @checked
    def of(cls, parameters: LWEParameters, **others: Any) -> "LWRFamily":
        """The family of a problem; `others` are `beta` and `deviations`."""
        return cls(
            secret_dim=parameters.n,
            modulus=parameters.q,
            levels=parameters.p,
            matrix=parameters.matrix,  # type: ignore[arg-type]  # uniform is refused
            secret=parameters.Xs,
            noise=parameters.Xe,
            **others,
        )

    @cached_property
    def parameters(self) -> LWEParameters:
        """The problem."""
        return LWEParameters(self.secret_dim, self.modulus, self.levels, self.matrix, self.secret, self.noise)

    @property
    def dim(self) -> int:
        """The number d of coordinates of a token."""
        return self.parameters.dim

    @property
    def noisy(self) -> bool:
        """Whether the law of the errors gives anything but 0."""
        return self.parameters.noisy

    def examples(self, instance: HardInstance, *, rng: Rng = None) -> ExampleOracle:
        """As `lwe.noisy_examples`."""
        from lwe.examples import noisy_examples  # imported here: it imports families

        return noisy_examples(instance, rng=rng)

    @property
    def title(self) -> str:
        """A title for people."""
        laws = "" if self.secret == UNIFORM else f", {self.secret.words} secret"
        laws += "" if self.noise == NO_NOISE else f", {self.noise.words} errors"
        return self.called.format(**vars(self), rounding=_ROUNDING.get(self.matrix, "Rounding"), laws=laws)

    @property
    def remark(self) -> str:
        """A remark that nothing is hidden, if the law has only one secret."""
        hidden = self.secret.secrets(self.secret_dim, self.modulus) > 0
        return "" if hidden else f"Nothing is hidden: {self.secret} is the distribution of a single secret."

    def label(self, heads: int) -> str:
        """The name of an instance in a table."""
        rows = "" if self.matrix == "binary" else f"{self.matrix}-"
        return f"{self.name}-{rows}{self.secret_dim}-{self.modulus}-{self.levels}"

    def draw(self, rng: Rng = None) -> Int[np.ndarray, " entries"]:
        """A secret drawn from its distribution."""
        return self.secret.draw(self.secret_dim, self.modulus, rng=rng)

    def read_secret(self, given: ArrayLike) -> Int[np.ndarray, " entries"]:
        """Any representatives mod q of a secret, as files have it."""
        covariate_form(given, self.parameters)  # checks shape and type
        secret = centred(given, self.modulus)
        if not self.secret.allows(secret, self.modulus):
            raise ValueError(
                f"secret is {_shown(secret)}, which the law {self.secret} does not draw: take another, or leave the "
                "law uniform."
            )
        return np.mod(secret, self.modulus) if self.matrix == "gadget" else secret

    def heads_of(self, secret: Int[np.ndarray, " entries"], direction: Float[np.ndarray, " d"]) -> Heads:
        """One head per jump, and two pads."""
        form = covariate_form(secret, self.parameters)
        low, high = self._ranges(form)[1]
        heads = self.levels * (high - low) / self.modulus + 2
        if heads * self.dim**2 > _MOST_NUMBERS:
            raise ValueError(
                f"{self.parameters} needs about {heads:.0f} heads of {self.dim}^2 numbers, too many to store: "
                "take fewer levels, a smaller secret, or a range of 6 deviations."
            )
        return lwr_heads(form, self.parameters, beta=self.beta, deviations=self.deviations)

    def error_of(self, heads: Heads, secret: Int[np.ndarray, " entries"]) -> float:
        """The proved bound for heads of one slope, after a check that their steps give the label at every whole T.

        At each T between the extremes of <v, a> the steps' sum is compared with floor(p (T mod q) / q) - (p - 1)/2, in
        whole numbers and quarters, without rounding. Beyond the range of truncated heads it is compared with the label
        at the end of the range. Both are functions of numbers that grow with T, the thresholds passed and floor(p T/q);
        so where neither grows from one T to another, all T between need no comparison.
        """
        (least, most), kept = self._ranges(covariate_form(secret, self.parameters))
        q, p = self.modulus, self.levels
        order, total = np.argsort(heads.thresholds), math.fsum(heads.coefficients)
        levels = 2 * np.concatenate([[0.0], np.cumsum(heads.coefficients[order])]) - total
        below = np.floor(heads.thresholds).astype(np.int64)
        t = np.unique(np.clip(np.concatenate([below, below + 1, [least, most, *kept]]), least, most))
        passed, covered = np.searchsorted(heads.thresholds[order], t), np.clip(t, *kept)
        grows = (np.diff(passed) > 0) | (
            np.diff(product_quotient(covered, p, q, p * max(map(abs, kept)))) > 0
        )
        compared = not np.any(grows & (np.diff(t) > 1))
        if (
            total != 0
            or not compared
            or not np.array_equal(levels[passed], rounded(covered, q, p) - (p - 1) / 2)
        ):
            raise ValueError("The heads' sums at some <v, a>, or off the gate, are not labels.")
        bound = heads.one_slope_error()
        if not bound < 0.5:
            least_slope = math.asinh(4 * float(np.abs(heads.coefficients).max()))
            raise ValueError(
                f"beta is {self.beta}: at this slope a label is off by up to {bound:.3g}, and labels are 1 apart; take "
                f"a slope above {least_slope:.3g} and below 1e9 (40 makes the float64 layer exact)."
            )
        return bound

    def facts(self, heads: Heads, secret: Int[np.ndarray, " entries"], error: float) -> Sequence[Fact]:
        """The assumption, and the numbers of the secret and of its heads."""
        form = covariate_form(secret, self.parameters)
        return lwr_facts(form, heads, error, self.parameters, self.deviations)

    def estimates(self) -> Sequence[Fact]:
        """The cheapest attack that finds a secret, by `lwe.estimate`."""
        return lwr_estimates(self.parameters)

    def _ranges(self, form: np.ndarray) -> tuple[tuple[int, int], tuple[int, int]]:
        """The extremes of T, and the extremes of the range that the heads cover."""
        whole = value_range(form, self.matrix)
        return whole, whole if self.deviations is None else kept_range(form, self.matrix, self.deviations)


def make_lwr_instance(
    *,
    secret_law: Distribution = UNIFORM,
    rng: Rng = None,
    secret: ArrayLike | None = None,
    **parameters: Any,
) -> HardInstance:
    """Draw a layer on two tokens that outputs learning-with-rounding labels of a secret.

    `parameters` are the fields of `LWRFamily`, except that `secret_law` stands for its field `secret`. `rng` and
    `secret` are as for its `instance`. `LWEParameters.assumption` names the assumption of the layer; nothing here is a
    claim of security.

    Examples
    --------
    >>> instance = make_lwr_instance(secret_dim=8, modulus=16, levels=2, rng=0)
    >>> instance.layer.dim, instance.known.is_zero
    (9, True)
    """
    return LWRFamily(secret=secret_law, **parameters).instance(rng=rng, secret=secret)


@checked
def describe_instance(instance: HardInstance) -> LWRFamily:
    """The public description of an instance of learning with rounding: its family, without the secret.

    ValueError if the instance is of another family, or its parameters, layer and secret contradict one another.

    Examples
    --------
    >>> described = describe_instance(make_lwr_instance(secret_dim=6, modulus=8, levels=2, rng=0))
    >>> print(described.parameters)
    LWR n=6 q=8 p=2 (d=7)
    >>> described.beta, described.deviations
    (40.0, None)
    """
    if instance.family != LWRFamily.name:
        raise ValueError(f"The instance is of the family {instance.family!r}: one of lwr is needed.")
    family: Any = family_of(instance)
    if (instance.inputs.tokens, instance.layer.dim) != (2, family.dim):
        raise ValueError(f"{family.parameters} does not fit a layer on {instance.inputs}.")
    if instance.secret.shape != (family.secret_dim,):
        raise ValueError(f"secret has shape {instance.secret.shape}: ({family.secret_dim},) is needed.")
    return family


def _shown(secret: np.ndarray) -> str:
    entries = ", ".join(str(one) for one in secret[:8])
    return f"({entries}{', ...' if len(secret) > 8 else ''})"
