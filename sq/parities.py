"""Layers of two tokens that hide a parity of l bits behind a gate: one made by hand, or all of them as a family."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from attention import BooleanInputs
from attention.inputs import Rng
from attention.validation import count, one_of, random_generator
from lower import HardInstance
from sq.heads import Construction, ParityHeads, heads_needed, parity_heads
from sq.parity_certificate import PARITY, parity_certificate
from sq.realisation import require_layer_memory, require_realisable, unit_direction
from sq.symmetric import SymmetricFamily
from sq.target_family import require_tokens

__all__ = ["ParityFamily", "make_parity_instance"]


@dataclass(frozen=True, kw_only=True)
class ParityFamily(SymmetricFamily):
    """All C(d - 1, l) parities of l bits behind the gate, f_S = u_0 chi_S(y) [1; -1], with y_j = x_1j x_2j.

    Parameters
    ----------
    dim : int
        The number d of coordinates of a token, more than `bits`.
    bits : int
        The number l of hidden bits.
    construction : {"A", "B", "C", "D"}
        Which heads compute it: 2l, l, l or floor(l/2) + 1 of them (`parity_heads`). The hidden parts are the same.
    beta : float, optional
        The slope of A and B (40 when left out) and C (1 when left out).
    slopes : tuple of float, optional
        The distinct slopes of D, to choose them oneself.

    Raises
    ------
    ValueError
        If the dimension leaves too few coordinates, or as `parity_heads` raises.

    Notes
    -----
    Proved: the hidden parts are distinct products of characters of X, so they are orthonormal. Derived here: F_S is
    K + f_S w^T up to the realisation error, which is proved for each instance by enumeration to 50 digits; every
    Fourier coefficient of F - K of degree below 2l + 1 is zero.

    What breaks it: Gaussian elimination over GF(2) on noise-free labels, no statistical query. The query bounds
    are for correlational queries. Those of STAT(tau) have a like one, `full_query_cap`, where labels are exactly
    two-valued given the gate; of other oracles nothing is proved. At a finite slope B's labels are not two-valued: for
    l = 3 the query 1[label in the values taken at N in {0, 3}] y_i y_j has mean 1/8 for any two secret coordinates. A
    slope of 40 saturates in float64; labels of A, C and D are rounded to 1e-9.

    References
    ----------
    Derived here. Chen and Li, arXiv 2402.04084, state the lower bound d^Omega(m) already for two tokens; these are
    not their instances.

    Examples
    --------
    >>> family = ParityFamily(dim=40, bits=3)
    >>> family.secrets.size, len(family.heads.thresholds), family.lowest_degree
    (9139, 2, 7)
    >>> family.instance(0).secret
    array([1, 2, 3])
    """

    bits: int = 3
    construction: Construction = "D"
    beta: float | None = None
    slopes: Sequence[float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.slopes is not None:
            object.__setattr__(self, "slopes", tuple(np.atleast_1d(np.asarray(self.slopes)).tolist()))
        # bad constructions and slopes are named here, not at the first instance
        _ = self.heads

    @property
    def name(self) -> str:
        """The family's name."""
        return "parity"

    @cached_property
    def heads(self) -> ParityHeads:
        """The heads that compute (-1)^N + c0, the same for every secret."""
        return parity_heads(self.construction, bits=self.bits, beta=self.beta, slopes=self.slopes)

    @property
    def profile(self) -> Float[np.ndarray, " values"]:
        """(-1)^N + c0."""
        return self.normalised_profile + self.c0

    @property
    def normalised_profile(self) -> Float[np.ndarray, " values"]:
        """(-1)^N."""
        return (-1.0) ** np.arange(self.bits + 1)

    @property
    def orthonormal(self) -> bool:
        """True: distinct characters."""
        return True

    @property
    def c(self) -> float:
        """C, the sum of the heads' coefficients: what is seen off the gate."""
        return self.heads.c

    @property
    def c0(self) -> float:
        """The constant part, known in advance on the gate."""
        return self.heads.c0

    @property
    def scale(self) -> float:
        """One: parities have norm 1 as they are."""
        return 1.0

    @cached_property
    def weights(self) -> Float[np.ndarray, " degrees"]:
        """All of the variance is at degree l."""
        return np.eye(self.bits + 1)[self.bits]

    @cached_property
    def overlap_correlations(self) -> Float[np.ndarray, " overlaps"]:
        """Distinct parities are orthogonal."""
        return np.eye(self.bits + 1)[self.bits]

    @property
    def broken_by(self) -> str:
        """Who finds the secret, and why."""
        return (
            f"Gaussian elimination over GF(2), from about {2 * (self.dim + 9)} noise-free examples (with "
            "probability .999): it asks no statistical queries. Correlational queries of tolerance tau find it, too, "
            "about N tau^2 of them."
        )

    def hidden(self, number: int, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k"]:
        """f_S: u_0 times the product of y_j over the secret, with opposite signs in the two rows."""
        x = require_tokens(x, self.tokens, self.dim)
        chosen = self.secrets.unrank(number)
        parity = np.prod(x[:, 0, chosen] * x[:, 1, chosen], axis=1)
        signal = parity * (x[:, 0, 0] - x[:, 1, 0]) / 2
        return np.stack([signal, -signal], axis=-1)

    def correlations(self, number: int) -> Float[np.ndarray, " N"]:
        """1 for the target itself and 0 for all others; O(N)."""
        return self.secrets.indicator(number)

    def error(self) -> float:
        """The supremum of |layer - (K + f w^T)| along a direction of norm 1, rounded outward."""
        return self.heads.error()

    def instance(
        self, number: int | None = None, *, rng: Rng = None, direction: ArrayLike | None = None
    ) -> HardInstance:
        """The target of that number, or of one drawn with `rng`: what `make_parity_instance` makes of its secret."""
        return make_parity_instance(
            dim=self.dim,
            construction=self.construction,
            beta=self.beta,
            slopes=self.slopes,
            secret=self.secrets.unrank(self.draw(rng) if number is None else number),
            direction=direction,
        )


def make_parity_instance(
    *,
    dim: int,
    bits: int | None = None,
    construction: Construction = "D",
    heads: int | None = None,
    beta: float | None = None,
    slopes: Sequence[float] | None = None,
    rng: Rng = None,
    secret: ArrayLike | None = None,
    direction: ArrayLike | None = None,
) -> HardInstance:
    """Draw a layer on two tokens that hides the parity of a secret set of coordinates.

    With the gate coordinate 0, u = (x_1 - x_2)/2, a = (x_1 + x_2)/2, y_j = x_1j x_2j and a secret set S of l
    other coordinates, F(X) = K(X) + u_0 chi_S(y) [1; -1] w^T with chi_S = prod_{j in S} y_j and the known
    part K = C a_0 [1; 1] w^T + c0 u_0 [1; -1] w^T, which is the same for every S.

    Parameters
    ----------
    dim : int
        The number d of coordinates of a token, more than `bits`.
    bits : int, optional
        The number l of hidden bits; what the heads hide at most when left out.
    construction : {"A", "B", "C", "D"}
        A, linear in the token attended to: 2l heads. B, saturated: l heads. C, exact at any slope: l heads.
        D, minimal: floor(l/2) + 1 heads, so m heads hide up to 2m - 1 bits.
    heads : int, optional
        The number m of heads; what the bits need when left out. Two if neither is given.
    beta : float, optional
        The slope of constructions A and B (40 when left out) and C (1 when left out); D has its own slopes.
    slopes : sequence of float, optional
        The distinct slopes of D, to choose them oneself.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7); draws the secret.
    secret : array of int (l,), optional
        The coordinates in S, to choose them oneself.
    direction : array (d,), optional
        The output direction w, scaled to norm 1; the gate's unit vector when left out.

    Returns
    -------
    HardInstance
        Of the family "sq-parity"; its secret is S in increasing order.

    Raises
    ------
    ValueError
        If heads and bits contradict each other, the dimension is too small, or the secret is not a set of l
        coordinates other than the gate.

    Notes
    -----
    The C(d - 1, l) targets are pairwise orthogonal once K is taken off. O(m d^2).

    References
    ----------
    Derived here. Chen and Li, arXiv 2402.04084, state the lower bound d^Omega(m) already for two tokens;
    these are not their instances.

    Examples
    --------
    >>> instance = make_parity_instance(dim=16, heads=2, rng=0)
    >>> instance
    HardInstance(family='sq-parity', heads=2, tokens=2, dim=16)
    >>> len(instance.secret), instance.certificate["targets"].value
    (3, 455)
    """
    one_of("construction", construction, get_args(Construction))
    dim = count("dim", dim, least=2)
    if secret is not None and bits is None:
        bits = np.size(np.asarray(secret))
    bits = _hidden_bits(construction, bits, heads)
    if bits > dim - 1:
        raise ValueError(
            f"dim is {dim} and bits {bits}: at least {bits + 1} coordinates are needed, one of them the gate."
        )
    require_realisable(bits)
    require_layer_memory(heads_needed(construction, bits), dim)
    chosen = _secret(secret, bits, dim, rng)
    w = unit_direction(direction, dim)
    own = parity_heads(construction, bits=bits, beta=beta, slopes=slopes)
    error = own.layer_error(w)
    parameters: dict[str, Any] = {
        "construction": construction,
        "bits": bits,
        "gate": 0,
        "direction": w.tolist(),
        "thresholds": own.thresholds.tolist(),
        "coefficients": own.coefficients.tolist(),
        "slopes": own.slopes.tolist(),
    }
    return HardInstance(
        family=PARITY,
        layer=own.layer(chosen, dim=dim, gate=0, direction=w),
        inputs=BooleanInputs(k=2, d=dim),
        secret=chosen,
        known=own.known(gate=0, direction=w),
        certificate=parity_certificate(own, dim, error),
        realisation_error=error,
        parameters=parameters,
    )


def _hidden_bits(construction: Construction, bits: int | None, heads: int | None) -> int:
    heads = None if heads is None else count("heads", heads)
    if bits is None:
        m = 2 if heads is None else heads
        bits = {"A": m // 2, "B": m, "C": m, "D": 2 * m - 1}[construction]
        if heads_needed(construction, max(bits, 1)) != m:
            raise ValueError(
                f"heads is {m}: construction {construction} needs 2 heads a bit, an even number of 2 or more."
            )
        return bits
    bits = count("bits", bits)
    needed = heads_needed(construction, bits)
    if heads is not None and heads != needed:
        raise ValueError(
            f"heads is {heads} and bits {bits}: construction {construction} needs {needed} heads for {bits} "
            "bits; give one of the two and leave the other out."
        )
    return bits


def _secret(secret: ArrayLike | None, bits: int, dim: int, rng: Rng) -> np.ndarray:
    if secret is None:
        return np.sort(1 + random_generator(rng).choice(dim - 1, size=bits, replace=False))
    chosen = np.asarray(secret)
    if (
        chosen.shape != (bits,)
        or chosen.dtype.kind not in "iu"
        or len(np.unique(chosen)) != bits
        or np.any((chosen < 1) | (chosen >= dim))
    ):
        raise ValueError(
            f"secret is {secret}: {bits} distinct coordinates from 1 to {dim - 1} are needed (0 is the gate)."
        )
    return np.sort(chosen)
