"""The hard family from lattice assumptions: layers of two tokens whose outputs are learning-with-rounding labels."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from attention import ExampleOracle
from attention._arrays import shown
from attention.inputs import Rng
from attention.validation import PositiveFloat, PositiveInt, checked
from lower import Fact, HardInstance, Heads, Key, Option, Status, Word, register
from lower.certificate import BOUND_ROOM
from lower.family import Family
from lower.heads import SATURATED_SLOPE
from lwe.distributions import NO_NOISE, UNIFORM, Distribution, distribution_words, parse_distribution
from lwe.heads import Deviations, kept_range, lwr_heads, truncation_failure, value_range
from lwe.labels import low_degree_weights, root_mean_square_correlation, weights_computable
from lwe.parameters import OLD_NAMES, LWEParameters, covariate_form
from lwe.residues import LARGEST_MODULUS, centred, product_quotient, rounded
from lwe.tokens import covariates_of
from lwe.uniformity import followed, log2_distance_from_uniform, total_variation_from_uniform, wrap_ratio

_MOST_NUMBERS = 1 << 28  # two gigabytes an array
_MOST_EXACT = 1 << 22
_FEW_MONOMIALS = 1 << 16  # a linearisation of so many is done in minutes
_PROBLEM = (
    "Banerjee, Peikert and Rosen 2012; Regev 2005; Blum, Furst, Kearns and Lipton 1993; on small secrets Applebaum, "
    "Cash, Peikert and Sahai 2009"
)
_ROUNDING = {"gadget": "Gadget rounding", "ternary": "Ternary rounding"}


def _distribution(text: Any) -> Distribution:
    return parse_distribution(text) if isinstance(text, str) else text


@register
@dataclass(frozen=True, kw_only=True)
@checked
class LWRFamily(Family):
    """Layers of two tokens that compute learning with rounding.

    The gate is coordinate 0, v is the centred integer form of the secret, and T = <v, a>. Off the gate both rows are 0;
    on it row r is x_r0 (floor(p (T mod q)/q) - (p - 1)/2) e_0. The known part is zero. The covariates are
    a_j = 1[x_1j != x_2j] (binary and gadget) or a_j = x_10 (x_1j - x_2j)/2 (ternary), independent of one another.
    Layers have no errors; `examples` adds them to the labels. Secrets in files are centred mod q; in the
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
    >>> [LWRFamily(n=256, q=64, p=2, deviations=cut).instance(rng=0).layer.heads for cut in (None, 6.0)]
    [126, 56]
    """

    name = "lwr"
    old_names = OLD_NAMES
    compared: ClassVar = (
        {"n": 24, "q": 64, "p": 2},
        {"n": 6, "q": 16, "p": 2, "matrix": "gadget"},
    )
    n: Annotated[PositiveInt, Option("Number of entries of the secret.", preset=24)]
    q: Annotated[PositiveInt, Option("Modulus.", preset=64)]
    p: Annotated[PositiveInt, Option("Rounding levels.", preset=2)]
    matrix: Annotated[
        Literal["binary", "ternary", "gadget"],
        Option(
            "Covariates: bits; -1, 0 and 1 (ternary); or bits that spell residues, q a power of 2 (gadget: standard)."
        ),
    ] = "binary"
    Xs: Annotated[
        Distribution,
        Option(
            "Distribution of the secret: uniform, binary, ternary, binomial:2, sparse:8.",
            read=_distribution,
            write=distribution_words,
        ),
    ] = UNIFORM
    Xe: Annotated[
        Distribution,
        Option(
            "Distribution of the errors in the labels of examples: zero, gaussian:3, binomial:2, flip:0.1 (which adds "
            "1; with q = 2 that is parity with noise).",
            read=_distribution,
            write=distribution_words,
        ),
    ] = NO_NOISE
    beta: Annotated[PositiveFloat, Option("Slope of all heads.")] = SATURATED_SLOPE
    deviations: Annotated[
        Deviations | None,
        Option(
            "Leave out heads of sums beyond so many standard deviations, at least 2: there the last label is held."
        ),
    ] = None
    gate = 0

    def __post_init__(self) -> None:
        if self.q > LARGEST_MODULUS:
            raise ValueError(f"q is {self.q}: at most 2^52 is needed.")
        _ = self.parameters  # they check the other fields

    @classmethod
    @checked
    def of(cls, parameters: LWEParameters, **others: Any) -> "LWRFamily":
        """The family of a problem; `others` are `beta` and `deviations`."""
        own = {name: getattr(parameters, name) for name in ("n", "q", "p", "matrix", "Xs", "Xe")}
        return cls(**own, **others)

    @cached_property
    def parameters(self) -> LWEParameters:
        """The problem."""
        return LWEParameters(self.n, self.q, self.p, self.matrix, self.Xs, self.Xe)

    @property
    def dim(self) -> int:
        """The number d of coordinates of a token."""
        return self.parameters.dim

    @property
    def noisy(self) -> bool:
        """Whether errors may differ from 0."""
        return self.parameters.noisy

    def examples(self, instance: HardInstance, *, rng: Rng = None) -> ExampleOracle:
        """Random examples, with errors in the labels on the gate: f(T + e) where the layer gives f(T).

        Both rows of an example have the same error; off the gate there is none.

        Notes
        -----
        Errors are added to the inner product before rounding. This is learning with errors for p = q, and learning
        parity with noise for p = q = 2 with flips. Beyond the range of a truncated layer T is the last value within
        the range.

        Examples
        --------
        >>> from lwe import Flips
        >>> family = LWRFamily(n=8, q=2, p=2, Xe=Flips(0.125))
        >>> parity = family.instance(rng=0)
        >>> x, y = family.examples(parity, rng=1).draw(4000)
        >>> gate = x[:, 0, 0] != x[:, 1, 0]
        >>> round(float(np.mean((y != parity.layer(x)).any(axis=(1, 2))[gate])), 2)
        0.12
        """
        if not self.noisy:
            return super().examples(instance, rng=rng)
        noise = partial(self._with_errors, covariate_form(instance.secret, self.parameters))
        return ExampleOracle(instance.layer, instance.inputs, noise=noise, rng=rng)

    def _with_errors(
        self, form: np.ndarray, x: np.ndarray, y: np.ndarray, rng: np.random.Generator
    ) -> Float[np.ndarray, "N 2 d"]:
        t = np.clip(covariates_of(x, self.parameters) @ form, *kept_range(form, self.matrix, self.deviations))
        errors = self.Xe.draw(len(y), self.q, rng=rng)
        changes = rounded(t + errors, self.q, self.p) - rounded(t, self.q, self.p)
        noisy, on_gate = y.copy(), x[:, [0], 0] != x[:, [1], 0]
        noisy[:, :, 0] += np.where(on_gate, x[:, :, 0], 0) * changes[:, None]
        return noisy

    @property
    def title(self) -> str:
        """A title for people."""
        rounding = _ROUNDING.get(self.matrix, "Rounding")
        secret = "" if self.Xs == UNIFORM else f", {self.Xs.words} secret"
        errors = "" if self.Xe == NO_NOISE else f", {self.Xe.words} errors"
        return f"{rounding}, n = {self.n}, q = {self.q}, p = {self.p}{secret}{errors}"

    def label(self, heads: int) -> str:
        """The name of an instance in a table."""
        rows = "" if self.matrix == "binary" else f"{self.matrix}-"
        return f"{self.name}-{rows}{self.n}-{self.q}-{self.p}"

    def draw(self, rng: Rng = None) -> Int[np.ndarray, " entries"]:
        """A secret drawn from its distribution."""
        return self.Xs.draw(self.n, self.q, rng=rng)

    def read_secret(self, given: ArrayLike) -> Int[np.ndarray, " entries"]:
        """Any representatives mod q of a secret, as files have it."""
        covariate_form(given, self.parameters)  # checks shape and type
        secret = centred(given, self.q)
        if not self.Xs.allows(secret, self.q):
            raise ValueError(
                f"secret is {shown(secret)}, which the distribution {self.Xs} does not draw: take another, or leave Xs "
                "uniform."
            )
        return np.mod(secret, self.q) if self.matrix == "gadget" else secret

    def heads_of(self, secret: Int[np.ndarray, " entries"], direction: Float[np.ndarray, " d"]) -> Heads:
        """One head per jump, and two pads."""
        form = covariate_form(secret, self.parameters)
        low, high = kept_range(form, self.matrix, self.deviations)
        heads = self.p * (high - low) / self.q + 2
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
        form, q, p = covariate_form(secret, self.parameters), self.q, self.p
        extremes, covered = value_range(form, self.matrix), kept_range(form, self.matrix, self.deviations)
        order, total = np.argsort(heads.thresholds), math.fsum(heads.coefficients)
        sums = 2 * np.concatenate([[0.0], np.cumsum(heads.coefficients[order])]) - total
        below = np.floor(heads.thresholds).astype(np.int64)
        t = np.unique(np.clip(np.concatenate([below, below + 1, extremes, covered]), *extremes))
        passed, held = np.searchsorted(heads.thresholds[order], t), np.clip(t, *covered)
        jumps = np.diff(product_quotient(held, p, q, p * max(map(abs, covered)))) > 0
        compared = not np.any(((np.diff(passed) > 0) | jumps) & (np.diff(t) > 1))
        labels = rounded(held, q, p) - (p - 1) / 2
        if total != 0 or not compared or not np.array_equal(sums[passed], labels):
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
        parameters, form, matrix = self.parameters, covariate_form(secret, self.parameters), self.matrix
        here = "exact for this secret"
        spread = int(np.abs(form).astype(object).sum()) * self.p
        secrets = self.Xs.secrets(self.n, self.q)
        facts = [
            Fact(Key.ASSUMPTION, parameters.assumption, Status.ASSUMED, _PROBLEM),
            Fact(Key.SECRETS, secrets, Status.COMPUTED, "lwe.Distribution.secrets"),
            *self._easy(),
            Fact(Key.RHO, wrap_ratio(form, self.q, matrix), Status.DERIVED, "lwe.uniformity.wrap_ratio"),
            *self._distance(form),
            *self._weights(form),
            Fact(Key.HEADS, len(heads), Status.DERIVED, here),
            Fact(Key.JUMPS, (spread, self.q), Status.DERIVED, here),
            Fact(Key.REALISATION_ERROR, error, Status.PROVED, "lower.Heads.one_slope_error"),
        ]
        if self._uniform_bits:
            correlation, source = root_mean_square_correlation(parameters), "lwe.root_mean_square_correlation"
            facts.append(Fact(Key.SECRET_CORRELATION, correlation, Status.COMPUTED, source))
        if self.deviations is not None:
            ranges = (*kept_range(form, self.matrix, self.deviations), *value_range(form, matrix))
            source = "Hoeffding's inequality; lwe.heads.truncation_failure"
            facts += [
                Fact(Key.TRUNCATION, truncation_failure(self.deviations), Status.PROVED, source),
                Fact(Key.RANGE, tuple(map(int, ranges)), Status.DERIVED, here),
            ]
        if self.noisy:
            source = "lwe.LWEParameters.best_accuracy; for a uniform inner product"
            facts.append(Fact(Key.BEST_ACCURACY, parameters.best_accuracy, Status.COMPUTED, source))
        return facts

    def estimates(self) -> Sequence[Fact]:
        """The cheapest attack that finds a secret, by `lwe.estimate`; none if there is nothing to find."""
        if self.Xs.secrets(self.n, self.q) == 0:
            return []
        from lwe.costs import estimate

        finders = [one for one in estimate(self.parameters) if one.attack != "dual" and not one.failure]
        return [Fact(Key.OPERATIONS, float(one.log2_rop), Status.ESTIMATE, one.attack) for one in finders[:1]]

    def _easy(self) -> list[Fact]:
        """Why the problem is easy whatever its size, or that labels without errors make linear equations."""
        q, source = self.q, "the parameters"
        if self.Xe.is_uniform(q):
            return [Fact(Key.BROKEN_BY, Word.COINS, Status.PROVED, source)]
        if self.Xs.secrets(self.n, q) == 0:
            return [Fact(Key.BROKEN_BY, Word.ONE_SECRET, Status.PROVED, source)]
        if self.noisy:
            return []
        if self.p == q:
            word = Word.GF2_ELIMINATION if q == 2 else Word.ELIMINATION
            return [Fact(Key.BROKEN_BY, word, Status.PROVED, "labels are linear without errors")]
        from lwe.attacks.linearisation import label_degree, label_monomials

        degree, source = label_degree(self.parameters), "lwe.LinearisationAttack"
        if degree is None or (monomials := label_monomials(self.parameters, degree).size) > _FEW_MONOMIALS:
            return []
        return [
            Fact(Key.BROKEN_BY, Word.LINEARISATION, Status.DERIVED, source),
            Fact(Key.MONOMIALS, int(monomials), Status.DERIVED, source),
        ]

    def _distance(self, form: np.ndarray) -> list[Fact]:
        q, n, matrix = self.q, len(form), self.matrix
        source = "lwe.total_variation_from_uniform, exact dynamic programming"
        if followed(n, q) and n * q <= _MOST_EXACT:
            exact = total_variation_from_uniform(form, q, matrix)
            value = math.log2(exact.numerator) - math.log2(exact.denominator) if exact else Word.ZERO
            return [Fact(Key.DISTANCE, value, Status.COMPUTED, source)]
        if followed(n, q) or matrix == "gadget":  # of the gadget, <v, a> = <s, G a> with G a uniform
            log2 = log2_distance_from_uniform(form, q, matrix if followed(n, q) else "uniform")
            value = Word.ZERO if log2 == -math.inf else log2
            return [Fact(Key.DISTANCE, value, Status.COMPUTED, "lwe.log2_distance_from_uniform")]
        facts = [Fact(Key.DISTANCE, Word.NOT_COMPUTED, Status.COMPUTED, source)]
        if self._uniform_bits:
            bound = (math.log2(q - 1) - n) / 2 - 1
            facts.append(Fact(Key.MEAN_DISTANCE, bound, Status.PROVED, "Cauchy and Schwarz; derived here"))
        return facts

    def _weights(self, form: np.ndarray) -> Iterator[Fact]:
        source, computed = "lwe.low_degree_weights", weights_computable(len(form), self.q)
        weights = low_degree_weights(form, self.parameters) if computed else (None, None)
        for degree, weight in enumerate(weights, 1):
            value: float | Word = Word.NOT_COMPUTED
            key = Key.WEIGHT
            if weight is not None and weight.resolved:
                value = Word.ZERO if weight.log2 == -math.inf else weight.log2
            elif (
                weight is not None
            ):  # room for the bounds of other machines, so that each of them proves this one
                key, value = Key.WEIGHT_BOUND, min(0, int(weight.log2) + BOUND_ROOM)
            yield Fact(key, value, Status.COMPUTED, source, at=degree)

    @property
    def _uniform_bits(self) -> bool:
        return self.matrix == "binary" and self.Xs == UNIFORM
