"""The family for any number of tokens: every row hides a parity of its own token."""

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from attention import AttentionLayer, BooleanInputs
from attention.inputs import Rng
from attention.memory import require_memory
from attention.validation import count, non_negative
from lower import (
    SATURATED_SLOPE,
    Certificate,
    GatedKnownPart,
    HardInstance,
    LinearKnownPart,
    Statement,
    outward_context,
    query_lower_bound,
    query_verdict,
    rounded_up,
)
from sq.realisation import error_along, require_layer_memory, require_realisable, unit_direction
from sq.secret_set import SecretSet
from sq.target_family import require_tokens

__all__ = ["TokenParityFamily"]

_SMALLEST_MARGIN = 3.0


@dataclass(frozen=True, kw_only=True)
class TokenParityFamily:
    """On k tokens, row r shows the parity x_r2^(l+1) chi_S(x_r) of its own token wherever not all x_r1 are equal.

    With l heads Theta_i = beta v_i e_1^T, v_i = 1_S - t_i e_2, t = -(l - 1), -(l - 3), ..., l - 1, and
    W_i = c_i e_1 w^T, c = 1, -1, 1, ...: token b weighs exp(beta <v_i, x_r> x_b1) to row r, so row r of head i is
    c_i tanh(beta <v_i, x_r> + ln(n+/n-)/2) with n+, n- the numbers of tokens with x_b1 = 1, -1. (Coordinates 1 and 2
    of the formulas are 0 and 1 of the arrays.)

    Parameters
    ----------
    dim : int
        The number d of coordinates of a token, at least `bits` + 2.
    tokens : int
        The number k of tokens, at least 2.
    bits : int
        The number l of hidden bits, and of heads.
    beta : float
        The slope of all heads: at least ln(k - 1)/2 + 3, so that no count of tokens turns a sign.

    Raises
    ------
    ValueError
        If the numbers are out of range, or the slope too small for so many tokens.

    Notes
    -----
    Derived here: <v_i, x_r> = x_r2 (M - t_i) with M = x_r2 sum_{j in S} x_rj in {-l, ..., l} of the parity of l, so
    M - t_i is odd and the saturated tanh is x_r2 sign(M - t_i). The signs add up to
    c0 + kappa prod_{j in S} (x_r2 x_rj) with c0 = 1 for even l and 0 for odd l, and kappa = (-1)^(l + 1). So on the
    gate (x_r1 not all equal, probability 1 - 2^(1-k)) row r is c0 x_r2 + kappa x_r2^(l+1) chi_S(x_r), and off it
    C x_11, C = l mod 2. The known part is those without the parity: linear on the gate and linear off it, but not
    both at once. Proved: the C(d - 2, l) hidden parts are orthonormal, row by row products of the gate with distinct
    characters; `scale` is sqrt(k (1 - 2^(1-k))).

    What breaks it: Gaussian elimination over GF(2), k equations from each example on the gate. The bound on
    correlational queries holds; for other statistical queries, of all k labels at once, it is not claimed.
    Constructions C and D do not carry over to k > 2: the shift ln(n+/n-)/2 moves finite slopes off their values.

    References
    ----------
    Derived here.

    Examples
    --------
    >>> family = TokenParityFamily(dim=20, tokens=5, bits=3)
    >>> family.secrets.size, family.lowest_degree, family.instance(0).layer
    (816, 3, AttentionLayer(heads=3, dim=20, dtype=float64))
    """

    dim: int
    tokens: int = 3
    bits: int = 2
    beta: float = SATURATED_SLOPE

    def __post_init__(self) -> None:
        secrets = SecretSet(dim=self.dim, bits=self.bits, first=2)
        object.__setattr__(self, "dim", secrets.dim)
        object.__setattr__(self, "bits", secrets.bits)
        require_realisable(self.bits)
        object.__setattr__(self, "tokens", count("tokens", self.tokens, least=2))
        object.__setattr__(self, "beta", non_negative("beta", self.beta, strictly=True))
        least = math.log(self.tokens - 1) / 2 + _SMALLEST_MARGIN
        if self.beta < least:
            raise ValueError(f"beta is {self.beta}: at least {least:.4g} is needed for {self.tokens} tokens.")

    @property
    def name(self) -> str:
        """The family's name."""
        return "token-parity"

    @cached_property
    def secrets(self) -> SecretSet:
        """The sets S of l coordinates other than the first two."""
        return SecretSet(dim=self.dim, bits=self.bits, first=2)

    @property
    def orthonormal(self) -> bool:
        """True: distinct characters."""
        return True

    @property
    def c(self) -> float:
        """C, the sum of the coefficients: what is seen off the gate."""
        return float(self.bits % 2)

    @property
    def c0(self) -> float:
        """What multiplies x_r2 on the gate, known in advance."""
        return float(1 - self.bits % 2)

    @property
    def scale(self) -> float:
        """sqrt(k (1 - 2^(1-k))), by which the hidden part was divided."""
        return math.sqrt(self.tokens * (1 - 2.0 ** (1 - self.tokens)))

    @property
    def lowest_degree(self) -> int:
        """The lowest degree in the entries of X of the hidden part: l, or l + 1 for even l.

        The gate's indicator has a constant part 1 - 2^(1-k), so the character x_r2^(l+1) chi_S(x_r) itself is met.
        """
        return self.bits + (self.bits + 1) % 2

    def hidden(self, number: int, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k"]:
        """f_S: on the gate (-1)^(l+1) x_r2^(l+1) chi_S(x_r) / scale in row r, off it 0."""
        x = require_tokens(x, self.tokens, self.dim)
        chosen = self.secrets.unrank(number)
        parity = np.prod(x[:, :, chosen], axis=2) * (-1.0) ** (self.bits + 1)
        if self.bits % 2 == 0:
            parity = parity * x[:, :, 1]
        differ = np.any(x[:, :, 0] != x[:, :1, 0], axis=1)
        return differ[:, None] * parity / self.scale

    def correlations(self, number: int) -> Float[np.ndarray, " N"]:
        """1 for the target itself and 0 for all others; O(N)."""
        return self.secrets.indicator(number)

    def instance(
        self, number: int | None = None, *, rng: Rng = None, direction: ArrayLike | None = None
    ) -> HardInstance:
        """The target of that number, or of one drawn with `rng`, as attention heads with a certificate.

        Parameters
        ----------
        number : int, optional
            Which secret; drawn when left out.
        rng : optional
            Anything `numpy.random.default_rng` accepts (SPEC 7).
        direction : array (d,), optional
            The output direction w, scaled to norm 1; the first coordinate's unit vector when left out.
        """
        require_layer_memory(self.bits, self.dim)
        require_memory(
            f"The known part of {self.tokens} tokens", 8 * 4 * self.tokens**2, advice="take fewer tokens"
        )
        if number is None:
            number = self.secrets.draw(rng)
        secret, w = self.secrets.unrank(number), unit_direction(direction, self.dim)
        thresholds, coefficients = self.thresholds, self.coefficients
        theta, projection = (np.zeros((self.bits, self.dim, self.dim)) for _ in range(2))
        theta[:, secret, 0] = self.beta
        theta[:, 1, 0] = -self.beta * thresholds
        projection[:, 0, :] = np.outer(coefficients, w)
        error = error_along(self.error(), coefficients, w)
        return HardInstance(
            family="sq-token-parity",
            layer=AttentionLayer(theta=theta, w=projection),
            inputs=BooleanInputs(k=self.tokens, d=self.dim),
            secret=secret,
            known=self.known(w),
            certificate=self._certificate(error),
            realisation_error=error,
            parameters={
                "bits": self.bits,
                "gate": 0,
                "direction": w.tolist(),
                "thresholds": thresholds.tolist(),
                "coefficients": coefficients.tolist(),
                "beta": self.beta,
                "scale": self.scale,
            },
        )

    @property
    def thresholds(self) -> Float[np.ndarray, " m"]:
        """t_i = -(l - 1), -(l - 3), ..., l - 1."""
        return np.arange(1 - self.bits, self.bits, 2, dtype=np.float64)

    @property
    def coefficients(self) -> Float[np.ndarray, " m"]:
        """c_i = 1, -1, 1, ..."""
        return (-1.0) ** np.arange(self.bits)

    def known(self, direction: Float[np.ndarray, " d"]) -> GatedKnownPart:
        """K: c0 x_r2 w on the gate and C x_11 w off it."""
        units, same = np.eye(self.dim), np.eye(self.tokens)
        return GatedKnownPart(
            gate=0,
            on=LinearKnownPart(mixing=self.c0 * same, projection=np.outer(units[1], direction)),
            off=LinearKnownPart(mixing=self.c * same, projection=np.outer(units[0], direction)),
        )

    def error(self) -> float:
        """The supremum of |layer - (K + scale f w^T)| along a direction of norm 1, bounded outward.

        Notes
        -----
        At each M the signs of the heads add up to c0 + kappa (-1)^((l - M)/2), which is compared. Head i is off its
        sign by |tanh - sign| = 2/(e^(2|z|) + 1) with |z| >= beta |M - t_i| - ln(k - 1)/2, since n+/n- is at most
        k - 1. The sum over heads, largest over M, to 50 digits; what rounding beta t_i can move z by is taken off |z|.
        Signs that alternate are not used to make it smaller. 2^-51 covers the division by the scale. O(l^2).
        """
        with localcontext(outward_context()):
            shift = Decimal(self.tokens - 1).ln() / 2 if self.tokens > 1 else Decimal(0)
            beta, worst = Decimal(self.beta), Decimal(0)
            moved = beta * self.bits * Decimal(2) ** -53
            for reached in range(-self.bits, self.bits + 1, 2):
                signs = float(np.sign(reached - self.thresholds) @ self.coefficients)
                ideal = self.c0 + (-1) ** (self.bits + 1) * (-1) ** ((self.bits - reached) // 2)
                total = abs(Decimal(signs) - Decimal(ideal))
                for t in range(1 - self.bits, self.bits, 2):
                    z = max(beta * abs(reached - t) - shift - moved, Decimal(0))
                    decay = (-2 * z).exp()
                    total += 2 * decay / (1 + decay)
                worst = max(worst, total)
            return rounded_up(worst + Decimal(2) ** -51, positive=True)

    def _certificate(self, error: float) -> Certificate:
        targets, here = self.secrets.size, "Derived here; checked by enumeration for k = 2, 3, 5"
        energy = self.scale**2
        known = self.c0**2 * energy + self.c**2 * (self.tokens - energy)
        statements = [
            Statement(
                "targets",
                targets,
                f"{self.bits} heads hide a parity of {self.bits} of {self.dim - 2} coordinates of each token: "
                f"C({self.dim - 2}, {self.bits}) targets.",
                "derived",
                here,
            ),
            Statement(
                "correlation of two targets, known part off",
                0.0,
                "Row by row they are the gate times distinct characters.",
                "proved",
                "Orthogonality of characters",
            ),
            Statement(
                "share of the energy that is unknown",
                energy / (energy + known),
                "Report errors relative to this part: the rest is known in advance.",
                "derived",
                here,
            ),
            Statement(
                "lowest degree of the unknown part",
                self.lowest_degree,
                f"Every Fourier coefficient of F - K of degree below {self.lowest_degree} in the entries of X is zero.",
                "derived",
                here,
            ),
            *(
                Statement(
                    f"queries at tolerance {tau}",
                    query_lower_bound(targets, tau),
                    "A deterministic learner that identifies the secret needs at least this many correlational queries "
                    f"of tolerance {tau}, asked of the hidden part scaled to norm 1.",
                    "proved",
                    "lower.query_lower_bound",
                )
                for tau in ("0.3", "0.1", "0.05")
            ),
            Statement(
                "realisation error",
                error,
                "Upper bound on the row norm of the layer minus its ideal target, in exact arithmetic; float64 adds "
                "rounding of about eps times the number of heads.",
                "derived",
                "To 50 digits over every reachable value, rounded outward",
            ),
            query_verdict(targets, self.dim),
            Statement(
                "who breaks it",
                "Gaussian elimination over GF(2)",
                f"No statistical-query algorithm: every example on the gate gives {self.tokens} noise-free equations.",
                "proved",
                "lower.solve_gf2",
            ),
        ]
        return Certificate("sq-token-parity", tuple(statements))
