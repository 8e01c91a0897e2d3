"""The family of one head: the product of two secret coordinates, one of each kind."""

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from attention import AttentionLayer, BooleanInputs
from attention.inputs import Rng
from attention.validation import non_negative
from lower import (
    Certificate,
    HardInstance,
    LinearKnownPart,
    Statement,
    outward_context,
    query_lower_bound,
    query_verdict,
    rounded_up,
)
from sq.realisation import error_along, require_layer_memory, unit_direction
from sq.secret_set import SecretSet
from sq.target_family import require_tokens

__all__ = ["PairFamily", "pair_error"]


@dataclass(frozen=True, kw_only=True)
class PairFamily:
    """One head that hides a pair a < b: f = sqrt(2) u_0 u_b x_ra in row r, with u = (x_1 - x_2)/2.

    Theta = beta e_a e_b^T and W = e_0 w^T / tanh beta give F = K + f w^T / sqrt(2) with the known part
    K = C (x_1 + x_2)_0 [1; 1] w^T / 2, C = 1 / tanh beta: row r attends to the two tokens with logits that differ by
    2 beta x_ra u_b, and tanh(beta x_ra u_b) = x_ra u_b tanh beta since u_b is -1, 0 or 1.

    Parameters
    ----------
    dim : int
        The number d of coordinates of a token, at least 3.
    beta : float
        The slope of the head.

    Raises
    ------
    ValueError
        If there is no pair to hide, or the slope is not above 0 or so small that C passes 1e6.

    Notes
    -----
    Proved: the realisation is exact at every slope, and the C(d - 1, 2) hidden parts are orthonormal. For two pairs,
    E u_b u_b' x_ra x_ra' is 0 unless the pairs are equal: a character of an index that occurs once has mean 0, and
    with a < b, a' < b' the pairs (a, b) and (b, a), whose correlation would be 1/2, are not both there. The hidden
    part has energy 1/2 of the layer's units, so `scale` is 1/sqrt(2).

    What breaks it: in full statistical queries two scans of d coordinates. The label says on the gate whether
    u_b = 0, so q = 1[label of row 1 is not 0, gate] x_1j x_2j has mean -1/4 at j = b and 0 elsewhere; then a is
    one of d. For correlational queries the bound for orthogonal targets holds.

    References
    ----------
    Derived here.

    Examples
    --------
    >>> family = PairFamily(dim=20)
    >>> family.secrets.size, round(family.c, 4)
    (171, 1.313)
    """

    dim: int
    beta: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", SecretSet(dim=self.dim, bits=2).dim)
        beta = non_negative("beta", self.beta, strictly=True)
        if beta < 1e-6:
            raise ValueError(
                f"beta is {beta}: at least 1e-6 is needed, or C = 1/tanh beta drowns what is hidden."
            )
        object.__setattr__(self, "beta", beta)

    @property
    def name(self) -> str:
        """The family's name."""
        return "pair"

    @property
    def tokens(self) -> int:
        """Two."""
        return 2

    @cached_property
    def secrets(self) -> SecretSet:
        """The pairs a < b of coordinates other than the gate."""
        return SecretSet(dim=self.dim, bits=2)

    @property
    def orthonormal(self) -> bool:
        """True: distinct characters."""
        return True

    @property
    def c(self) -> float:
        """C = 1 / tanh beta, known in advance."""
        return 1.0 / math.tanh(self.beta)

    @property
    def c0(self) -> float:
        """Zero: nothing but the hidden part shows on the gate."""
        return 0.0

    @property
    def scale(self) -> float:
        """1 / sqrt(2), by which the hidden part was divided."""
        return math.sqrt(0.5)

    @property
    def lowest_degree(self) -> int:
        """The lowest degree in the entries of X of the hidden part: three."""
        return 3

    def hidden(self, number: int, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k"]:
        """f: sqrt(2) u_0 u_b x_ra in row r."""
        x = require_tokens(x, self.tokens, self.dim)
        a, b = self.secrets.unrank(number)
        u = (x[:, 0, :] - x[:, 1, :]) / 2
        return (u[:, 0] * u[:, b])[:, None] * x[:, :, a] / self.scale

    def correlations(self, number: int) -> Float[np.ndarray, " N"]:
        """1 for the target itself and 0 for all others; O(N)."""
        return self.secrets.indicator(number)

    def instance(
        self, number: int | None = None, *, rng: Rng = None, direction: ArrayLike | None = None
    ) -> HardInstance:
        """The pair of that number, or one drawn with `rng`, as an attention head with a certificate.

        Parameters
        ----------
        number : int, optional
            Which pair; drawn when left out.
        rng : optional
            Anything `numpy.random.default_rng` accepts (SPEC 7).
        direction : array (d,), optional
            The output direction w, scaled to norm 1; the gate's unit vector when left out.
        """
        require_layer_memory(1, self.dim)
        if number is None:
            number = self.secrets.draw(rng)
        secret, w = self.secrets.unrank(number), unit_direction(direction, self.dim)
        a, b = secret
        theta, projection = np.zeros((1, self.dim, self.dim)), np.zeros((1, self.dim, self.dim))
        theta[0, a, b] = self.beta
        projection[0, 0] = self.c * w
        error = error_along(self.error(), np.array([self.c]), w)
        return HardInstance(
            family="sq-pair",
            layer=AttentionLayer(theta=theta, w=projection),
            inputs=BooleanInputs(k=2, d=self.dim),
            secret=secret,
            known=LinearKnownPart.from_gate(self.c, 0.0, gate=0, direction=w),
            certificate=self._certificate(error),
            realisation_error=error,
            parameters={"gate": 0, "direction": w.tolist(), "beta": self.beta, "scale": self.scale},
        )

    def error(self) -> float:
        """The supremum of |layer - (K + scale f w^T)| along a direction of norm 1, rounded outward."""
        return pair_error(self.beta, self.c)

    def _certificate(self, error: float) -> Certificate:
        targets, here = self.secrets.size, "Derived here; checked by enumeration at small d"
        statements = [
            Statement(
                "targets",
                targets,
                f"One head hides a pair a < b of {self.dim - 1} coordinates: C({self.dim - 1}, 2) targets.",
                "derived",
                here,
            ),
            Statement(
                "correlation of two targets, known part off",
                0.0,
                "Distinct pairs have a character that only one of them holds.",
                "proved",
                "Orthogonality of characters",
            ),
            Statement("Gram diagonal", self.c**2 + 0.5, "E|F|^2 over both rows, C^2 + 1/2.", "derived", here),
            Statement(
                "Gram off the diagonal", self.c**2, "C^2: all of it is the known part's.", "derived", here
            ),
            *(
                Statement(
                    f"queries at tolerance {tau}",
                    query_lower_bound(targets, tau),
                    "A deterministic learner that identifies the pair needs at least this many correlational queries "
                    f"of tolerance {tau}, asked of the hidden part scaled to norm 1. Other statistical queries are "
                    "not covered.",
                    "proved",
                    "lower.query_lower_bound",
                )
                for tau in ("0.3", "0.1", "0.05")
            ),
            Statement(
                "realisation error",
                error,
                "Upper bound on the row norm of the layer minus its ideal target, in exact arithmetic; float64 adds "
                "rounding of about eps C.",
                "derived",
                "To 50 digits, rounded outward",
            ),
            query_verdict(targets, self.dim, shortcut="Queries that are no correlational ones find it."),
            Statement(
                "who breaks it",
                "whether a label is 0",
                f"On the gate the label of row 1 is 0 where u_b = 0: {2 * (self.dim - 1)} statistical queries that are "
                "no correlational ones find b, then a.",
                "derived",
                here,
            ),
        ]
        return Certificate("sq-pair", tuple(statements))


def pair_error(beta: float, c: float) -> float:
    """|C tanh beta - 1| with the C that the layer stores, to 50 digits, and the rounding of scale / scale."""
    with localcontext(outward_context()):
        decay = (-2 * Decimal(beta)).exp()
        gap = abs(Decimal(c) * (1 - decay) / (1 + decay) - 1)
        return rounded_up(gap + Decimal(2) ** -52, positive=True)
