"""Families on Gaussian tokens: each row shows a function of its token along one hidden direction, made by heads."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from attention import GaussianInputs, Inputs, MarkedInputs
from attention.inputs import Rng
from attention.validation import PositiveInt, Whole, checked, random_generator, real_array
from lower import (
    Fact,
    Family,
    Heads,
    Key,
    KnownPart,
    LinearKnownPart,
    Status,
    Word,
    option,
    query_lower_bound,
)
from sq.secret_set import SecretSet

__all__ = ["SingleIndexFamily"]

_MARKS = np.array([[1.0], [-1.0]])
_ENTRY = 2.0**20  # entries of a drawn direction are whole numbers of about this size
_LARGEST_ENTRY = 1 << 46  # whole numbers up to here leave 7 bits for products with slopes
_ABSENT = 1e-12
_MOST_BITS = 24  # exact eigenvalues take O(l^3) operations on long fractions
_TOLERANCES = (0.3, 0.1, 0.05)
_ROUNDED = 1e-9  # more than the relative rounding error of sums over 4e5 degrees
_HERE = "the docstring of sq.single_index.SingleIndexFamily"


@dataclass(frozen=True, kw_only=True)
@checked
class SingleIndexFamily(Family):
    """Targets F_u = K + scale f_u w^T on Gaussian tokens, one for each direction u: row r shows g at <u, x_r>.

    Coordinate 0 of the tokens is a mark: 1 in the first and -1 in the second. The others are n = d - 1 independent
    normals. Heads Theta_i = beta (u - t_i e_0) e_0^T and W_i = c_i e_0 w^T give row r the output
    sum_i c_i tanh(beta (<u, x_r> - t_i x_r0)) w. The thresholds are symmetric about 0. If coefficients of t and -t are
    equal, the sum g is odd and both rows show g; if they are opposite, g is even and the second row shows -g.

    The secret is a vector v of whole numbers with u = v/|v|. With `bits` it is the indicator of a set of l coordinates,
    and secrets have numbers.

    Notes
    -----
    With normalised Hermite polynomials h_k let c_k = E g(s) h_k(s) for a standard normal s, and let w_k be the share
    c_k^2 / Var g for k >= 1. By Mehler's formula (1866) two directions with <u, v> = rho have
    E sum_a f_u(X)_a f_v(X)_a = sum_k w_k rho^k. Derived here, for u uniform on the sphere of R^n: any h of norm 1 has
    E_u <h, f_u>^2 <= lambda, the largest eigenvalue of this kernel. Its eigenvalue on the harmonics of degree j is
    sum_k w_k E[rho^k P_j(rho)] (Funk and Hecke), and it falls from j to j + 2, as all terms do:
    E[rho^k P_{j+2}] / E[rho^k P_j] = (k - j)/(k + j + n) for even k - j. So lambda = sum_k w_k E rho^(2 ceil(k/2)).
    A target may differ from g on rare tokens (`beyond`). If the difference is odd and of norm epsilon, it adds at most
    epsilon/sqrt(n) to sqrt(lambda), because E rho^2 = 1/n.

    A reply 0 to h is invalid for a share lambda/tau^2 of the directions at most. A learner that sees only zeros returns
    an answer that does not depend on u, and an answer H with |H - f_u|^2 < 1/2 has <H/|H|, f_u>^2 > 1/2: this holds for
    a share 2 lambda of the directions. So a learner that succeeds with probability 1/2 asks at least
    (1/2 - 2 lambda) tau^2 / lambda correlational queries.
    """

    dim: Annotated[int, Whole(4)] = option("Number d of coordinates of a token.", preset=16)
    bits: PositiveInt | None = option(
        "Number l of coordinates in the direction, all alike; left out, it is any direction.", default=None
    )

    def __post_init__(self) -> None:
        if self.bits is not None:
            _ = self.secrets

    @property
    @abstractmethod
    def beta(self) -> float:
        """The slope of all heads."""

    @property
    @abstractmethod
    def thresholds(self) -> Float[np.ndarray, " m"]:
        """t_i, in increasing order and symmetric about 0."""

    @property
    @abstractmethod
    def logits(self) -> Sequence[Fraction]:
        """Half the logits beta t_i that the heads should have, exactly."""

    @property
    @abstractmethod
    def coefficients(self) -> Float[np.ndarray, " m"]:
        """c_i, equal or opposite at t and -t."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance of g(s) for a standard normal s."""

    @property
    @abstractmethod
    def hermite(self) -> Float[np.ndarray, " degrees"]:
        """c_k = E g(s) h_k(s) for k = 0, 1, ..., with normalised Hermite polynomials."""

    @abstractmethod
    def link(self, s: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """g, in closed form."""

    @property
    def odd(self) -> bool:
        """Whether g is odd; even otherwise."""
        return bool(self.coefficients[0] == self.coefficients[-1])

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

    @property
    def orthonormal(self) -> bool:
        """No: all correlations are above 0 but small."""
        return False

    @property
    def c0(self) -> float:
        """The mean of g, known in advance; 0 for an odd g."""
        return 0.0 if self.odd else float(self.hermite[0])

    @cached_property
    def scale(self) -> float:
        """The norm of the hidden part: sqrt(2 Var g), as two rows show it."""
        return math.sqrt(2 * self.variance)

    @cached_property
    def weights(self) -> Float[np.ndarray, " degrees"]:
        """w_k, the share of the variance at degree k; 0 at degree 0."""
        found = 2 * self.hermite**2 / self.scale**2
        found[0] = 0.0
        return found

    @property
    def lowest_degree(self) -> int:
        """The lowest degree with a share of more than 1e-12."""
        return int(np.flatnonzero(self.weights > _ABSENT)[0])

    @property
    def share_below(self) -> float:
        """The share of the variance below the lowest degree."""
        return math.fsum(self.weights[: self.lowest_degree].tolist())

    @property
    def beyond(self) -> float:
        """A bound on the mean square of the part of f_u that `correlation` leaves out, on tokens out of range.

        This part is an odd function of <u, x>.
        """
        return 0.0

    def correlation(self, rho: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """E sum_a f_u(X)_a f_v(X)_a = sum_k w_k rho^k for rho = <u, v>; 1 at rho = 1."""
        found = np.polynomial.polynomial.polyval(rho, self.weights)
        return np.where(np.asarray(rho) == 1, 1.0, found)

    @cached_property
    def overlap_correlations(self) -> Float[np.ndarray, " overlaps"]:
        """The correlation of two numbered targets whose sets share 0, ..., l coordinates: rho = overlap/l."""
        bits = self.secrets.bits
        return self.correlation(np.arange(bits + 1) / bits)

    def correlations(self, number: int) -> Float[np.ndarray, " N"]:
        """E sum_a f_S f_T for every T; O(N l)."""
        return self.overlap_correlations[self.secrets.overlaps(self.secrets.unrank(number))]

    @cached_property
    def largest_eigenvalue(self) -> Fraction | None:
        """A bound on the largest eigenvalue of the numbered targets' Gram matrix; None for more than 24 bits.

        Without `beyond` it is that eigenvalue.
        """
        from sq.johnson import OverlapGram  # imported here: it imports families

        if self.secrets.bits > _MOST_BITS:
            return None
        found = OverlapGram(self.secrets, self.overlap_correlations.tolist()).largest_eigenvalue()
        if not self.beyond:
            return found
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
        """f_u for u = v/|v|: (g(<u, x_r>) - c0) / scale, with the mark's sign if g is even."""
        x = real_array("x", x, ("n", 2, self.dim))
        if np.any(x[:, :, 0] != _MARKS[:, 0]):
            raise ValueError(
                f"x has other marks: 1 in the first token of {self.name} and -1 in the second are needed."
            )
        u = np.asarray(v, dtype=np.float64)
        shown = self.link(x[:, :, 1:] @ (u / np.linalg.norm(u))) - self.c0
        return shown * (1.0 if self.odd else x[:, :, 0]) / self.scale

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

    def known(self, direction: Float[np.ndarray, " d"]) -> KnownPart:
        """K: row r is c0 x_r0 w."""
        if self.odd:
            return LinearKnownPart.zero(2, self.dim)
        projection = np.zeros((self.dim, self.dim))
        projection[0] = self.c0 * direction
        return LinearKnownPart(mixing=np.eye(2), projection=projection)

    def public(self, direction: Float[np.ndarray, " d"]) -> dict[str, Any]:
        """The direction w and the scale."""
        return {"direction": direction.tolist(), "scale": self.scale}

    @property
    def cut(self) -> float:
        """A bound on the difference of g from the sum of the heads, where the target is g; 0 if it is that sum."""
        return 0.0

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

    @property
    @abstractmethod
    def broken_by(self) -> tuple[Word, ...]:
        """Which methods find the direction."""

    @abstractmethod
    def further_facts(self) -> Sequence[Fact]:
        """Further facts of a family."""

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
            *self.further_facts(),
            Fact(Key.BROKEN_BY, self.broken_by, Status.DERIVED, "the docstring of the family"),
        ]
