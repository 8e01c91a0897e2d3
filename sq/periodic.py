"""The family of periodic neurons: heads that make a periodic wave along a hidden direction of Gaussian tokens."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from attention import GaussianInputs, Inputs, MarkedInputs
from attention.inputs import Rng
from attention.validation import PositiveInt, Real, Whole, checked, random_generator, real_array
from lower import Fact, Heads, Key, Option, Status, Word, query_lower_bound, register
from sq.family import TargetFamily
from sq.johnson import OverlapGram
from sq.secret_set import SecretSet

_MARGIN = 19.0  # heads beyond the range make the cut at most 4 e^-38
_DIGITS = 42.0  # harmonics below e^-42 are left out
_VANISHING = 800.0  # e^-800 is 0 in float64
_PRECISION = 160  # bits of numbers that are rounded to float64 at the end
_MARKS = np.array([[1.0], [-1.0]])
_ENTRY = 2.0**20  # entries of a drawn direction are whole numbers of about this size
_LARGEST_ENTRY = 1 << 46  # whole numbers up to here leave 7 bits for products with slopes
_ABSENT = 1e-12
_MOST_BITS = 24  # exact eigenvalues take O(l^3) operations on long fractions
_TOLERANCES = (0.3, 0.1, 0.05)
_ROUNDED = 1e-9  # more than the relative rounding error of sums over 4e5 degrees
_HERE = "the docstring of sq.single_index.SingleIndexFamily"  # files have the name that the class had


@register
@dataclass(frozen=True, kw_only=True)
@checked
class PeriodicFamily(TargetFamily):
    """A hidden direction u whose heads make a periodic wave on Gaussian tokens: y = phi(<u, x>) with frequency gamma.

    Coordinate 0 of the tokens is a mark: 1 in the first and -1 in the second. The others are n = d - 1 independent
    normals. Heads Theta_i = beta (u - t_i e_0) e_0^T and W_i = c_i e_0 w^T give row r the output
    sum_i c_i tanh(beta (<u, x_r> - t_i x_r0)) w. As thresholds are symmetric about 0 with equal coefficients, the sum
    is odd and both rows show it. Nothing is known in advance.

    The secret is a vector v of whole numbers with u = v/|v|. With `bits` it is the indicator of a set of l coordinates,
    and secrets have numbers.

    Notes
    -----
    Let h = 1/(2 gamma), sigma the sharpness and beta = sigma/h. The heads have thresholds j h for |j| <= J and
    coefficients (-1)^j. With all j their sum is

    phi(s) = sum_j (-1)^j tanh(beta (s - j h)) = sum_{n>=0} b_n sin(omega_n s),
    b_n = (2 pi/sigma) / sinh((2n + 1) pi^2/(2 sigma)), omega_n = (2n + 1) pi/h.

    Proof: the derivative is a sum of shifted sech^2 of alternating sign, whose Fourier series follows from the
    transform (pi omega/beta) / sinh(pi omega/(2 beta)) of beta sech^2(beta s). So phi is odd, has period 2h = 1/gamma,
    and is Jacobi's elliptic sine up to scales. For large sigma it is a square wave.

    *Error.* Proved: for |s| <= R <= J h the heads left out contribute two alternating series of decreasing terms, as
    the constants 1 and -1 cancel in pairs. The first terms are at most 2 e^(-2 beta ((J + 1) h - R)), so the sum of the
    heads is within 4 e^(-2 sigma (J + 1 - R/h)) of phi. Beyond the range R the target is defined as the sum of these
    heads. A token is beyond it with probability P = erfc(R/sqrt 2). Both functions stay within [-1, 1], as alternating
    sums of decreasing terms do. So they differ by a mean square of at most 4 P, and norms by a share of at most
    P/E phi^2, which is below 4e-11.

    *Correlations.* E sin(a s) sin(b t) = (e^(-(a^2 + b^2)/2 + a b rho) - e^(-(a^2 + b^2)/2 - a b rho))/2 for normals s,
    t of correlation rho, so correlations have a closed form. sin(omega s) has the Hermite coefficient
    (-1)^((k-1)/2) omega^k e^(-omega^2/2) / sqrt(k!) at odd k: the shares follow a Poisson law of mean omega^2, and low
    degrees see e^(-omega^2), omega = 2 pi gamma.

    *Size.* About 4 gamma R heads.

    *Queries.* With normalised Hermite polynomials h_k let c_k = E phi(s) h_k(s) for a standard normal s, and let w_k
    be the share c_k^2 / E phi^2. By Mehler's formula (1866) two directions with <u, v> = rho have
    E sum_a f_u(X)_a f_v(X)_a = sum_k w_k rho^k. Derived here, for u uniform on the sphere of R^n: any h of norm 1 has
    E_u <h, f_u>^2 <= lambda, the largest eigenvalue of this kernel. Its eigenvalue on the harmonics of degree j is
    sum_k w_k E[rho^k P_j(rho)] (Funk and Hecke), and it falls from j to j + 2, as all terms do:
    E[rho^k P_{j+2}] / E[rho^k P_j] = (k - j)/(k + j + n) for even k - j. So lambda = sum_k w_k E rho^(2 ceil(k/2)).
    A target may differ from phi on rare tokens (`beyond`). A difference that is odd and of norm epsilon adds at most
    epsilon/sqrt(n) to sqrt(lambda), because E rho^2 = 1/n.

    A reply 0 to h is invalid for a share lambda/tau^2 of the directions at most. A learner that sees only zeros returns
    an answer that does not depend on u, and an answer H with |H - f_u|^2 < 1/2 has <H/|H|, f_u>^2 > 1/2: this holds for
    a share 2 lambda of the directions. So a learner that succeeds with probability 1/2 asks at least
    (1/2 - 2 lambda) tau^2 / lambda correlational queries.

    References
    ----------
    Song, Zadik and Bruna 2021, "On the cryptographic hardness of learning single periodic neurons": with label noise
    of inverse polynomial size and gamma >= 2 sqrt(n) a polynomial-time learner implies a quantum one for worst-case
    lattice problems; without noise lattice reduction learns such functions. Bruna, Regev, Song and Tang 2021,
    "Continuous LWE" (arXiv 2005.09595). Later work needs gamma of about sqrt(log n), under a stronger assumption. So
    nothing is claimed for a fixed gamma as d grows. Only the abstracts were at hand.

    Examples
    --------
    >>> family = PeriodicFamily(dim=8, gamma=1.0)
    >>> instance = family.instance(rng=0)
    >>> instance.layer, instance.realisation_error < 1e-12
    (AttentionLayer(heads=51, dim=8, dtype=float64), True)
    """

    name = "sq-periodic"
    called = "Periodic wave of frequency {gamma:g}"
    dim: Annotated[int, Whole(4), Option("Number d of coordinates of a token.", preset=16)]
    bits: Annotated[
        PositiveInt | None,
        Option("Number l of coordinates in the direction, all alike; left out, it is any direction."),
    ] = None
    gamma: Annotated[float, Real(least=0.01, most=100), Option("Frequency of the wave.")] = 2.0
    sharpness: Annotated[
        float,
        Real(least=0.5, most=40),
        Option("Slope times half a period: near 3 a sine, 40 a square wave."),
    ] = 3.0
    reach: Annotated[
        float,
        Real(least=9, most=40),
        Option(
            "Half the range on which the wave is periodic, in standard deviations; more raises small bounds."
        ),
    ] = 9.0

    orthonormal = False  # all correlations are above 0 but small

    def __post_init__(self) -> None:
        if self.bits is not None:
            _ = self.secrets

    @classmethod
    def with_growing_frequency(cls, dim: int, **parameters: Any) -> "PeriodicFamily":
        """The family with gamma = 2 sqrt(n), n = dim - 1: the least frequency that the reduction from lattices covers.

        Examples
        --------
        >>> PeriodicFamily.with_growing_frequency(dim=17).gamma
        8.0
        """
        return cls(dim=dim, gamma=2 * math.sqrt(dim - 1), **parameters)

    @property
    def beta(self) -> float:
        """sigma/h."""
        return 2 * self.gamma * self.sharpness

    @property
    def half_period(self) -> float:
        """h, the distance of thresholds."""
        return self.sharpness / self.beta

    @cached_property
    def _places(self) -> np.ndarray:
        last = math.ceil(self.reach / self.half_period) + math.ceil(_MARGIN / self.sharpness)
        return np.arange(-last, last + 1)

    @cached_property
    def thresholds(self) -> Float[np.ndarray, " m"]:
        """J h for |j| <= J."""
        return self._places * self.half_period

    @property
    def logits(self) -> Sequence[Fraction]:
        """J sigma."""
        return [Fraction(self.sharpness) * j for j in self._places.tolist()]

    @property
    def coefficients(self) -> Float[np.ndarray, " m"]:
        """(-1)^j."""
        return (-1.0) ** self._places

    @property
    def cut(self) -> float:
        """4 e^(-2 sigma (J + 1 - R/h)), rounded up."""
        import mpmath

        left = int(self._places[-1]) + 1 - self.reach / self.half_period
        with mpmath.workprec(_PRECISION):
            return float(4 * mpmath.exp(-2 * mpmath.mpf(self.sharpness) * left)) * (1 + 1e-9)

    @property
    def outside(self) -> float:
        """The probability P that a token is beyond the range."""
        import mpmath

        with mpmath.workprec(_PRECISION):
            return float(mpmath.erfc(self.reach / mpmath.sqrt(2)))

    @property
    def beyond(self) -> float:
        """4 P/E phi^2."""
        return 4 * self.outside / self.variance

    def link(self, s: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """Phi, by its heads within one period and their neighbours."""
        near = np.arange(-2 - math.ceil(_MARGIN / self.sharpness), 3 + math.ceil(_MARGIN / self.sharpness))
        h = self.half_period
        s = np.asarray(s, dtype=np.float64)
        s = s - 2 * h * np.rint(s / (2 * h))
        return np.asarray(np.tanh(self.beta * (s[..., None] - near * h)) @ (-1.0) ** near)

    @cached_property
    def harmonics(self) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """b_n and omega_n."""
        import mpmath

        n = 2 * np.arange(math.ceil(_DIGITS * self.sharpness / math.pi**2) + 1) + 1
        with mpmath.workprec(_PRECISION):
            sigma = mpmath.mpf(self.sharpness)
            sizes = [
                2 * mpmath.pi / sigma / mpmath.sinh(one * mpmath.pi**2 / (2 * sigma)) for one in n.tolist()
            ]
            return np.array([float(one) for one in sizes]), n * math.pi / self.half_period

    def _mean(self, rho: float) -> float:
        """E phi(s) phi(t) for normals of correlation rho, by arithmetic that is the same on every machine."""
        import mpmath

        b, omega = ([mpmath.mpf(one) for one in part.tolist()] for part in self.harmonics)
        with mpmath.workprec(_PRECISION):
            total, rho = mpmath.mpf(0), mpmath.mpf(rho)
            for i, j in combinations_with_replacement(range(len(b)), 2):
                square, crossed = -(omega[i] ** 2 + omega[j] ** 2) / 2, rho * omega[i] * omega[j]
                for sign in (1, -1):
                    if (exponent := square + sign * crossed) > -_VANISHING:
                        total += sign * (1 if i == j else 2) * b[i] * b[j] * mpmath.exp(exponent) / 2
            return float(total)

    @cached_property
    def variance(self) -> float:
        """E phi^2."""
        return self._mean(1.0)

    def correlation(self, rho: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """The correlation of two targets, in closed form."""
        b, omega = self.harmonics
        squares = -np.add.outer(omega**2, omega**2) / 2
        crossed = np.multiply.outer(np.asarray(rho, dtype=np.float64), np.multiply.outer(omega, omega))
        terms = (np.exp(squares + crossed) - np.exp(squares - crossed)) / 2
        return np.asarray(np.einsum("...ij,i,j", terms, b, b) / self.variance)

    @cached_property
    def overlap_correlations(self) -> Float[np.ndarray, " overlaps"]:
        """The correlation of two numbered targets whose sets share 0, ..., l coordinates: rho = overlap/l."""
        bits = self.secrets.bits
        return np.array([self._mean(overlap / bits) / self.variance for overlap in range(bits + 1)])

    @cached_property
    def hermite(self) -> Float[np.ndarray, " degrees"]:
        """The coefficients up to degree (omega_0 + 9)^2, where the first harmonic ends."""
        b, omega = self.harmonics
        k = np.arange(math.ceil((omega[0] + 9) ** 2))
        total = np.zeros(len(k))
        for size, one in zip(b.tolist(), omega.tolist(), strict=True):
            total += size * _poisson_roots(one, len(k))
        return np.where(k % 2, (-1.0) ** (k // 2), 0.0) * total

    @property
    def inputs(self) -> Inputs:
        """A mark, 1 or -1, before d - 1 independent normals."""
        return MarkedInputs(GaussianInputs(tokens=2, dim=self.dim - 1), _MARKS)

    @cached_property
    def secrets(self) -> SecretSet:
        """The sets of l coordinates. ValueError if the direction is not limited to sets."""
        if self.bits is None:
            raise ValueError(f"bits is None: secrets of {self.name} have numbers only for a number of bits.")
        return SecretSet(dim=self.dim, bits=self.bits)

    @cached_property
    def scale(self) -> float:
        """The norm of the hidden part: sqrt(2 Var g), as two rows show it."""
        return math.sqrt(2 * self.variance)

    @cached_property
    def weights(self) -> Float[np.ndarray, " degrees"]:
        """w_k, the share of the variance at degree k."""
        return np.asarray(2 * self.hermite**2 / self.scale**2)

    @property
    def lowest_degree(self) -> int:
        """The lowest degree with a share of more than 1e-12."""
        return int(np.flatnonzero(self.weights > _ABSENT)[0])

    @property
    def share_below(self) -> float:
        """The share of the variance below the lowest degree."""
        return math.fsum(self.weights[: self.lowest_degree].tolist())

    def correlations(self, number: int) -> Float[np.ndarray, " N"]:
        """E sum_a f_S f_T for every T; O(N l)."""
        return self.overlap_correlations[self.secrets.overlaps(self.secrets.unrank(number))]

    @cached_property
    def largest_eigenvalue(self) -> Fraction | None:
        """A bound on the largest eigenvalue of the numbered targets' Gram matrix; None for more than 24 bits."""
        if self.secrets.bits > _MOST_BITS:
            return None
        found = OverlapGram(self.secrets, self.overlap_correlations.tolist()).largest_eigenvalue()
        # the mean of rho over two sets is l/n
        rest = self.secrets.size * self.beyond * self.secrets.bits / (self.dim - 1)
        root = math.sqrt(found) + math.sqrt(rest)
        return Fraction(root * root)

    @cached_property
    def mean_square(self) -> float:
        """Lambda: a bound on the mean of <h, f_u>^2 over uniform directions u, for queries h of norm 1."""
        degrees = np.arange(len(self.weights))
        # E rho^(2j) for a coordinate rho of a uniform point of the sphere of R^(d-1)
        j = np.arange(len(degrees) // 2 + 1)
        moments = np.cumprod(np.append(1.0, (2 * j + 1) / (self.dim - 1 + 2 * j)))
        rest = max(0.0, 1 - math.fsum(self.weights.tolist())) * moments[(degrees[-1] + 2) // 2]
        within = math.sqrt(math.fsum((self.weights * moments[(degrees + 1) // 2]).tolist()) + rest)
        root = within + math.sqrt(self.beyond / (self.dim - 1))
        return float(root * root) * (1 + _ROUNDED)

    def least_queries(self, tolerance: float) -> int | float:
        """The proved lower bound on correlational queries of that tolerance."""
        if self.bits is None:
            return max(0.0, (0.5 - 2 * self.mean_square) * tolerance * tolerance / self.mean_square)
        targets = self.secrets.size
        return query_lower_bound(targets, tolerance, eigenvalue=self.largest_eigenvalue or targets)

    def hidden(self, number: int, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k"]:
        """f_S on marked tokens. ValueError if their marks are others."""
        form = np.zeros(self.dim - 1)
        form[self.secrets.unrank(number) - 1] = 1.0
        return self.hidden_along(form, x)

    def hidden_along(self, v: ArrayLike, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k"]:
        """f_u for u = v/|v|: phi(<u, x_r>) / scale."""
        x = real_array("x", x, ("n", 2, self.dim))
        if np.any(x[:, :, 0] != _MARKS[:, 0]):
            raise ValueError(
                f"x has other marks: 1 in the first token of {self.name} and -1 in the second are needed."
            )
        u = np.asarray(v, dtype=np.float64)
        return self.link(x[:, :, 1:] @ (u / np.linalg.norm(u))) / self.scale

    def draw(self, rng: Rng = None) -> Int[np.ndarray, " n"]:
        """A uniform direction in whole numbers, or a set drawn at random."""
        generator = random_generator(rng)
        if self.bits is not None:
            return self.numbered(self.secrets.draw(generator))
        return np.rint(_ENTRY * generator.standard_normal(self.dim - 1)).astype(np.int64)

    def numbered(self, number: int) -> Int[np.ndarray, " n"]:
        """The indicator of the set of that number."""
        form = np.zeros(self.dim - 1, dtype=np.int64)
        form[self.secrets.unrank(number) - 1] = 1
        return form

    def read_secret(self, given: ArrayLike) -> Int[np.ndarray, " n"]:
        """The direction v in whole numbers. ValueError unless there are d - 1, of up to 2^46, not all 0."""
        form = np.asarray(given)
        if (
            form.shape != (self.dim - 1,)
            or form.dtype.kind not in "iu"
            or not form.any()
            or np.any((form > _LARGEST_ENTRY) | (form < -_LARGEST_ENTRY))
        ):
            raise ValueError(
                f"The secret is {given!r}: {self.dim - 1} whole numbers of up to 2^46, not all 0, are needed."
            )
        if self.bits is not None and (set(form.tolist()) - {0, 1} or form.sum() != self.bits):
            raise ValueError(f"The secret is {given!r}: {self.bits} ones and zeros elsewhere are needed.")
        return form.astype(np.int64)

    def heads_of(self, secret: Int[np.ndarray, " n"], direction: Float[np.ndarray, " d"]) -> Heads:
        """Theta_i = beta (u - t_i e_0) e_0^T with u = v/|v|."""
        norm = math.sqrt(math.fsum(float(entry) * float(entry) for entry in secret))
        return Heads(
            form=np.concatenate([[0], secret]),
            thresholds=self.thresholds * norm,
            coefficients=self.coefficients,
            slopes=np.full(len(self.thresholds), self.beta / norm),
            direction=direction,
            columns=0,
        )

    def error_of(self, heads: Heads, secret: Int[np.ndarray, " n"]) -> float:
        """`cut`, and what rounding moves the thresholds: sum_i |c_i| |stored - beta t_i|, as tanh is 1-Lipschitz.

        The direction u of the target is the stored column divided by beta; its norm is 1 up to a few units of 2^-53.
        """
        stored = [
            Fraction(a * b) for a, b in zip(heads.slopes.tolist(), heads.thresholds.tolist(), strict=True)
        ]
        moved = sum(
            abs(Fraction(c)) * abs(one - wanted)
            for c, one, wanted in zip(heads.coefficients.tolist(), stored, self.logits, strict=True)
        )
        return heads.along(math.nextafter((self.cut + float(moved)) * (1 + 1e-15), math.inf))

    @property
    def title(self) -> str:
        """A title for people."""
        size = "" if self.bits is None else f", {self.bits} coordinates"
        return self.called.format(**vars(self)) + f"{size}, {len(self.thresholds)} heads, Gaussian tokens"

    def facts(self, heads: Heads, secret: Int[np.ndarray, " n"], error: float) -> Sequence[Fact]:
        """The facts about every instance, whatever its secret."""
        anywhere = self.bits is None
        below = math.sqrt(self.share_below) + math.sqrt(self.beyond)
        seen = Key.MEAN_SQUARE if anywhere else Key.EIGENVALUE
        share = self.mean_square if anywhere else float(self.largest_eigenvalue or self.secrets.size)
        return [
            Fact(
                Key.TARGETS,
                Word.EVERY_DIRECTION if anywhere else self.secrets.size,
                Status.PROVED,
                "by counting",
            ),
            Fact(Key.LOWEST_DEGREE, self.lowest_degree, Status.DERIVED, _HERE),
            Fact(Key.SHARE_BELOW, below * below, Status.COMPUTED, _HERE),
            Fact(seen, share, Status.COMPUTED, _HERE),
            *(
                Fact(Key.QUERIES, self.least_queries(tau), Status.PROVED, _HERE, at=tau)
                for tau in _TOLERANCES
            ),
            Fact(Key.REALISATION_ERROR, error, Status.PROVED, "the docstring of the family"),
            Fact(Key.BEYOND_RANGE, self.outside, Status.DERIVED, "the docstring of sq.PeriodicFamily"),
            Fact(Key.BROKEN_BY, (Word.LATTICE,), Status.DERIVED, "the docstring of the family"),
        ]


def _poisson_roots(omega: float, size: int) -> Float[np.ndarray, " size"]:
    """omega^k e^(-omega^2/2) / sqrt(k!) for k = 0, 1, ...: from the largest on, by products in a fixed order."""
    import mpmath

    peak = min(size - 1, int(omega * omega))
    with mpmath.workprec(_PRECISION):
        w = mpmath.mpf(omega)
        largest = float(mpmath.exp(peak * mpmath.log(w) - w * w / 2 - mpmath.loggamma(peak + 1) / 2))
    after, before = np.arange(peak + 1, size), np.arange(peak, 0, -1)
    up = np.cumprod(np.append(largest, omega / np.sqrt(after)))
    down = np.cumprod(np.append(largest, np.sqrt(before) / omega))
    return np.concatenate([down[:0:-1], up])
