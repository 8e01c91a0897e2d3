"""The family for any number of tokens: every row hides a parity of its own token."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np
from jaxtyping import Float, Int

from attention.memory import require_memory
from attention.validation import PositiveFloat, PositiveInt, Whole
from lower import Heads, KnownComponent, Option, SecretPairs, Word, register
from lower.heads import SATURATED_SLOPE
from sq.family import Dim, Noise, SQFamily, require_realisable
from sq.secret_set import SecretSet

_SMALLEST_MARGIN = 3.0


@register
@dataclass(frozen=True, kw_only=True)
class TokenParityFamily(SQFamily):
    """Layers on any number of tokens in which every row hides a parity of its own token.

    Row r shows x_r2^(l+1) chi_S(x_r) wherever not all x_r1 are equal. The l heads are Theta_i = beta v_i e_1^T with
    v_i = 1_S - t_i e_2, t = -(l - 1), -(l - 3), ..., l - 1, and W_i = c_i e_1 w^T with c = 1, -1, 1, ... In row r token
    b has weight exp(beta <v_i, x_r> x_b1). So row r of head i is c_i tanh(beta <v_i, x_r> + ln(n+/n-)/2), where n+ and
    n- are the numbers of tokens with x_b1 = 1 and -1. (Coordinates 1 and 2 of the formulas are 0 and 1 of the arrays.)

    ValueError if the numbers are out of range, or the slope is below ln(k - 1)/2 + 3: there token counts change signs.

    Notes
    -----
    Derived here: <v_i, x_r> = x_r2 (M - t_i) with M = x_r2 sum_{j in S} x_rj in {-l, ..., l}. M has the parity of l, so
    M - t_i is odd, and the saturated tanh is x_r2 sign(M - t_i). The signs add up to
    c0 + kappa prod_{j in S} (x_r2 x_rj) with c0 = 1 for even l and 0 for odd l, and kappa = (-1)^(l + 1). The gate is
    on if not all x_r1 are equal; its probability is 1 - 2^(1-k). On the gate row r is
    c0 x_r2 + kappa x_r2^(l+1) chi_S(x_r); off it row r is C x_11 with C = l mod 2. The known part is the same without
    the parity term. It is linear on the gate and linear off it, but not linear on both together. Proved: the
    C(d - 2, l) hidden parts are orthonormal, because their rows are products of the gate with distinct characters;
    `scale` is sqrt(k (1 - 2^(1-k))).

    What breaks it: Gaussian elimination over GF(2), with k equations from each example on the gate. The bound on
    correlational queries holds; for other statistical queries, which see all k labels at once, it is not claimed.
    Constructions C and D do not work for k > 2: the shift ln(n+/n-)/2 moves finite slopes off their values.

    Examples
    --------
    >>> family = TokenParityFamily(dim=20, tokens=5, bits=3)
    >>> family.secrets.size, family.lowest_degree, family.instance(0).layer
    (816, 3, AttentionLayer(heads=3, dim=20, dtype=float64))
    """

    name = "sq-token-parity"
    called = "Parity of each token, {bits}, {heads}, {tokens}"
    tabled: ClassVar = ({"bits": 2},)
    dim: Dim
    tokens: Annotated[int, Whole(2), Option("Number k of tokens.")] = 3
    bits: Annotated[PositiveInt, Option("Number l of hidden coordinates.")] = 2
    noise: Noise = 0.0
    beta: Annotated[PositiveFloat, Option("Slope of all heads.")] = SATURATED_SLOPE

    def __post_init__(self) -> None:
        super().__post_init__()  # type: ignore[misc]
        _ = self.secrets
        require_realisable(self.bits)
        least = math.log(self.tokens - 1) / 2 + _SMALLEST_MARGIN
        if self.beta < least:
            raise ValueError(f"beta is {self.beta}: at least {least:.4g} is needed for {self.tokens} tokens.")

    @cached_property
    def secrets(self) -> SecretSet:
        """The sets S of l coordinates other than the first two."""
        return SecretSet(dim=self.dim, bits=self.bits, first=2)

    @cached_property
    def heads(self) -> Heads:
        """Thresholds -(l - 1), -(l - 3), ..., l - 1 and coefficients 1, -1, 1, ..."""
        thresholds = np.arange(1 - self.bits, self.bits, 2, dtype=np.float64)
        coefficients = (-1.0) ** np.arange(self.bits)
        return Heads.counting(self.bits, thresholds, coefficients, np.full(self.bits, self.beta))

    @property
    def c0(self) -> float:
        """The factor of x_r2 on the gate, known in advance."""
        return float(1 - self.bits % 2)

    @property
    def scale(self) -> float:
        """sqrt(k (1 - 2^(1-k))), the divisor of the hidden part."""
        return math.sqrt(self.tokens * (1 - 2.0 ** (1 - self.tokens)))

    @property
    def known_energy(self) -> Fraction:
        """The mean of |K|^2 over all rows."""
        energy = Fraction(self.scale) ** 2
        return Fraction(self.c0) ** 2 * energy + Fraction(self.c) ** 2 * (self.tokens - energy)

    @property
    def values(self) -> Mapping[int, float]:
        """The hidden part, in units of x_r2, at M = x_r2 sum_{j in S} x_rj."""
        kappa = (-1.0) ** (self.bits + 1) / self.scale
        return {self.bits - 2 * n: kappa * (-1) ** n for n in range(self.bits + 1)}

    @property
    def shift(self) -> float:
        """The bound ln(k - 1)/2 on the shift, because n+/n- is at most k - 1."""
        import mpmath  # by its digits, so that every machine has the same number

        with mpmath.workprec(200):
            return math.nextafter(float(mpmath.log(self.tokens - 1) / 2), math.inf)

    @property
    def lowest_degree(self) -> int:
        """The lowest degree in the entries of X of the hidden part: l, or l + 1 for even l.

        The gate's indicator has the constant part 1 - 2^(1-k), so the character x_r2^(l+1) chi_S(x_r) itself occurs.
        """
        return self.bits + (self.bits + 1) % 2

    def heads_of(self, secret: Int[np.ndarray, " l"], direction: Float[np.ndarray, " d"]) -> Heads:
        """Theta_i = beta v_i e_1^T."""
        return self.heads.placed(secret, dim=self.dim, direction=direction, columns=0, offset=1)

    def known(self, direction: Float[np.ndarray, " d"]) -> KnownComponent:
        """K: c0 x_r2 w on the gate and C x_11 w off it."""
        require_memory(
            f"The known part of {self.tokens} tokens", 8 * 4 * self.tokens**2, advice="take fewer tokens"
        )
        same, units = np.eye(self.tokens), np.zeros((2, self.dim))
        units[[0, 1], [0, 1]] = 1.0
        off = KnownComponent(mixing=self.c * same, projection=np.outer(units[0], direction))
        return KnownComponent(self.c0 * same, np.outer(units[1], direction), gate=0, off=off)

    def hidden(self, number: int, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k"]:
        """f_S: on the gate (-1)^(l+1) x_r2^(l+1) chi_S(x_r) / scale in row r, off it 0."""
        x = self.tokens_of(x)
        chosen = self.secrets.unrank(number)
        parity = np.prod(x[:, :, chosen], axis=2) * (-1.0) ** (self.bits + 1)
        if self.bits % 2 == 0:
            parity = parity * x[:, :, 1]
        differ = np.any(x[:, :, 0] != x[:, :1, 0], axis=1)
        return differ[:, None] * parity / self.scale

    @property
    def secret_pairs(self) -> SecretPairs:
        """Orthogonal targets: the lowest degree times an even number of the k gate coordinates.

        The gate is 1 - 2^(1-k) sum_B chi_B over the even sets B of its coordinates.
        """
        k, lowest, off = self.tokens, self.lowest_degree, Fraction(2, 2**self.tokens)
        row = [Fraction(0)] * (lowest + k + 1)
        row[lowest] = (1 - off) ** 2
        for even in range(2, k + 1, 2):
            row[lowest + even] = math.comb(k, even) * off**2
        return SecretPairs.orthogonal(self.secrets.size, row).flipped(self.noise)

    @property
    def broken_by(self) -> tuple[Word, ...]:
        """Gaussian elimination, with k equations from an example on the gate; with noise, exhaustive search."""
        return (Word.SEARCH, Word.BKW) if self.noise else (Word.GF2_ELIMINATION,)
