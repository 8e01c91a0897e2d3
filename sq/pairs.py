"""The family of one head: the product of two secret coordinates, one of each kind."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Annotated

import numpy as np
from jaxtyping import Float, Int

from attention.validation import Real
from lower import Fact, Heads, Key, Option, SecretPairs, Status, Word, register
from sq.family import Dim, Noise, SQFamily
from sq.profile_family import tanh
from sq.secret_set import SecretSet


@register
@dataclass(frozen=True, kw_only=True)
class PairFamily(SQFamily):
    """One head that hides a pair a < b of coordinates: f = sqrt(2) u_0 u_b x_ra in row r, with u = (x_1 - x_2)/2.

    Theta = beta e_a e_b^T and W = e_0 w^T / tanh beta give F = K + f w^T / sqrt(2) with the known part
    K = C (x_1 + x_2)_0 [1; 1] w^T / 2, C = 1 / tanh beta: row r attends to the two tokens with logits that differ by
    2 beta x_ra u_b, and tanh(beta x_ra u_b) = x_ra u_b tanh beta since u_b is -1, 0 or 1.

    ValueError if there is no pair to hide, or the slope is below 1e-6: there C is too large against the hidden part.

    Notes
    -----
    Proved: the realisation is exact at every slope, and the C(d - 1, 2) hidden parts are orthonormal. For two pairs,
    E u_b u_b' x_ra x_ra' is 0 unless the pairs are equal, because a character of an index that occurs once has mean 0.
    The pairs (a, b) and (b, a) would have correlation 1/2, but a < b excludes one of them. The hidden part has energy
    1/2 in the layer's units, so `scale` is 1/sqrt(2).

    What breaks it: with full statistical queries, two scans of d coordinates. On the gate the label shows whether
    u_b = 0, so q = 1[label of row 1 is not 0, gate] x_1j x_2j has mean -1/4 at j = b and 0 elsewhere. A second scan
    finds a among d coordinates. For correlational queries the bound for orthogonal targets holds.

    Examples
    --------
    >>> family = PairFamily(dim=20)
    >>> family.secrets.size, round(family.c, 4)
    (171, 1.313)
    """

    name = "sq-pair"
    called = "Pair of coordinates, {heads}"
    dim: Dim
    noise: Noise = 0.0
    beta: Annotated[float, Real(least=1e-6), Option("Slope of the head.")] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()  # type: ignore[misc]
        _ = self.secrets

    @cached_property
    def secrets(self) -> SecretSet:
        """The pairs a < b of coordinates other than the gate."""
        return SecretSet(dim=self.dim, bits=2)

    @cached_property
    def heads(self) -> Heads:
        """One head, whose coefficient is C = 1 / tanh beta."""
        return Heads.counting(1, [0.0], [1.0 / tanh(self.beta)], [self.beta])

    scale = math.sqrt(0.5)  # the divisor of the hidden part

    @property
    def values(self) -> Mapping[int, float]:
        """The hidden part, without the gate, where x_ra u_b is -1, 0 or 1."""
        return {n: n / self.scale for n in (-1, 0, 1)}

    lowest_degree = 3  # of the hidden part, in the entries of X

    def heads_of(self, secret: Int[np.ndarray, " 2"], direction: Float[np.ndarray, " d"]) -> Heads:
        """The head, with Theta = beta e_a e_b^T."""
        return self.heads.placed(secret[1:], dim=self.dim, direction=direction, rows=int(secret[0]))

    def hidden(self, number: int, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k"]:
        """f: sqrt(2) u_0 u_b x_ra in row r."""
        x = self.tokens_of(x)
        a, b = self.secrets.unrank(number)
        u = (x[:, 0, :] - x[:, 1, :]) / 2
        return (u[:, 0] * u[:, b])[:, None] * x[:, :, a] / self.scale

    @property
    def secret_pairs(self) -> SecretPairs:
        """Orthogonal targets of degree 3: the mean u_0 u_b x_ra of a label is 0 off a quarter of the inputs."""
        return SecretPairs.orthogonal(self.secrets.size, (0, 0, 0, Fraction(1, 4))).flipped(self.noise)

    broken_by = (Word.ZEROS,)

    def further_facts(self) -> Sequence[Fact]:
        """On the gate the label of row 1 is 0 where u_b = 0: full statistical queries find b, then a."""
        return [
            Fact(Key.BREAKING_QUERIES, 2 * (self.dim - 1), Status.DERIVED, "the docstring of sq.PairFamily")
        ]
