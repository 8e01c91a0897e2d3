"""Parities of l bits behind a gate: the heads that compute them, and all of them as a family."""

from collections.abc import Mapping, Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike

from attention._arrays import shown
from attention.inputs import Rng
from attention.validation import PositiveFloat, PositiveInt, checked, random_generator
from lower import Fact, HardInstance, Heads, Key, Option, Status, Word, register
from lower.heads import SATURATED_SLOPE
from sq.family import Dim, Noise, require_realisable
from sq.profile_family import ProfileFamily
from sq.secret_set import SecretSet

Construction = Literal["A", "B", "C", "D"]

_PRECISION_LIMIT = 1e-9
_MOST_BITS_OF_D = 19  # beyond this the equations of D have no solution in float64


@register
class ParityFamily(ProfileFamily):
    """Layers of two tokens that hide a parity of l bits behind a gate, with orthogonal targets.

    The hidden parts are f_S = u_0 chi_S(y) [1; -1] with y_j = x_1j x_2j. There are C(d - 1, l) of them.

    ValueError if heads and bits contradict each other, the dimension leaves too few coordinates, or `parity_heads`
    raises it.

    Notes
    -----
    Proved: the hidden parts are distinct products of characters of X, so they are orthonormal. Derived here: F_S is
    K + f_S w^T up to the realisation error; every Fourier coefficient of F - K of degree below 2l + 1 is zero.

    What breaks it: Gaussian elimination over GF(2) on noise-free labels, which is not a statistical query. The query
    bounds are for correlational queries. Queries of STAT(tau) have a similar bound (`lower.eliminated_per_query`) if
    labels are exactly two-valued given the gate. Nothing is proved for other oracles. At a finite slope the labels of
    construction B are not two-valued: for l = 3 the query 1[label in the values taken at N in {0, 3}] y_i y_j has mean
    1/8 for any two secret coordinates. A slope of 40 saturates in float64; labels of A, C and D are rounded to 1e-9.

    References
    ----------
    Derived here. Chen and Li, arXiv 2402.04084, state the lower bound d^Omega(m) already for two tokens; their
    instances are different.

    Examples
    --------
    >>> family = ParityFamily(dim=40, bits=3)
    >>> family.secrets.size, len(family.heads), family.lowest_degree
    (9139, 2, 7)
    >>> family.instance(0).secret
    array([1, 2, 3])
    """

    name = "sq-parity"  # type: ignore[misc]
    called = "Parity of {bits}, {heads}"  # type: ignore[misc]
    tabled: ClassVar = ({"bits": 3}, {"bits": 2, "construction": "B"}, {"bits": 1, "construction": "A"})
    compared: ClassVar = ({"heads_count": 2, "bits": 3},)

    @checked
    def __init__(
        self,
        *,
        dim: Dim,
        bits: Annotated[
            PositiveInt | None, Option("Hidden bits; by default as many as the heads hide.")
        ] = None,
        construction: Annotated[
            Construction | None,
            Option(
                "A: linear, two heads a bit. B: saturated, one head a bit. C: the same at any slope. D: minimal, 2m - "
                "1 bits in m heads; the default up to 19 bits, then B."
            ),
        ] = None,
        heads_count: Annotated[
            PositiveInt | None,
            Option("Number m of heads; by default what the bits need, or two.", flag="--heads"),
        ] = None,
        beta: Annotated[
            PositiveFloat | None, Option("Slope of A and B (by default 40) or C (1); D has its own.")
        ] = None,
        slopes: Annotated[Sequence[PositiveFloat] | None, Option("The slopes of D, one a head.")] = None,
        noise: Noise = 0.0,
    ) -> None:
        construction = construction or ("B" if (bits or 0) > _MOST_BITS_OF_D else "D")
        bits = _hidden_bits(construction, bits, heads_count)
        _ = SecretSet(dim=dim, bits=bits)
        heads = parity_heads(construction, bits=bits, beta=beta, slopes=slopes)
        # the parameters that the construction does not use are dropped, and those that it uses are filled in
        own, minimal = heads.slopes.tolist(), construction == "D"
        super().__init__(
            dim=dim,
            bits=bits,
            noise=noise,
            heads=heads,
            profile=(-1.0) ** np.arange(bits + 1),
            others={
                "construction": construction,
                "heads_count": len(heads),
                "beta": None if minimal else own[0],
                "slopes": tuple(own) if minimal else None,
            },
            degree=bits,
            name=self.name,
            called=self.called,
        )

    @property
    def values(self) -> Mapping[int, float]:
        """The parity at every value of the heads' form: N, or L where heads are linear."""
        return parity_values(self.heads)

    @property
    def c0(self) -> float:
        """The constant part on the gate, known in advance."""
        return self.heads.c0

    scale = 1.0  # parities have norm 1 as they are

    def draw(self, rng: Rng = None) -> Int[np.ndarray, " l"]:
        """A secret drawn at random."""
        return np.sort(1 + random_generator(rng).choice(self.dim - 1, size=self.bits, replace=False))

    def further_facts(self) -> Sequence[Fact]:
        """What the bounds do not cover: the low digits of the labels."""
        return [Fact(Key.NOT_COVERED, Word.LOW_DIGITS, Status.DERIVED, "the docstring of sq.ParityFamily")]


def make_parity_instance(
    *,
    dim: int,
    rng: Rng = None,
    secret: ArrayLike | None = None,
    direction: ArrayLike | None = None,
    **parameters: Any,
) -> HardInstance:
    """Draw a layer on two tokens that hides the parity of a secret set of coordinates.

    Parameters
    ----------
    dim : int
        The number d of coordinates of a token, more than the hidden bits.
    rng, secret, direction : optional
        As for `ParityFamily.instance`.
    **parameters
        The other parameters of `ParityFamily`. `heads` stands for `heads_count`. If a secret is given, its size sets
        the bits.

    Examples
    --------
    >>> instance = make_parity_instance(dim=16, heads=2, rng=0)
    >>> instance
    HardInstance(family='sq-parity', heads=2, tokens=2, dim=16)
    >>> len(instance.secret), instance.certificate["targets"].value
    (3, 455)
    """
    if "heads" in parameters:
        parameters["heads_count"] = parameters.pop("heads")
    if secret is not None and parameters.get("bits") is None:
        parameters["bits"] = np.size(np.asarray(secret))
    return ParityFamily(dim=dim, **parameters).instance(rng=rng, secret=secret, direction=direction)


@checked
def heads_needed(construction: Construction, bits: PositiveInt) -> int:
    """The number m of heads that a construction needs for l bits: A 2l, B and C l, D floor(l/2) + 1."""
    return {"A": 2 * bits, "B": bits, "C": bits, "D": bits // 2 + 1}[construction]


@checked
def parity_heads(
    construction: Construction,
    *,
    bits: PositiveInt,
    beta: PositiveFloat | None = None,
    slopes: Sequence[PositiveFloat] | None = None,
) -> Heads:
    """The heads of construction A (linear), B (saturated), C (exact) or D (minimal) for a parity of `bits` bits.

    ValueError if the linear system of C or D is so near singular that the coefficients lose their digits: l is too
    large, beta is too small, or two slopes both saturate.

    Parameters
    ----------
    construction : {"A", "B", "C", "D"}
        A: 2l heads of one slope, linear in the attended token, thresholds -l + 1/2, ..., l - 1/2, coefficients
        (-1)^(i+l). B: l heads, one slope beta, thresholds i - 1/2, coefficients (-1)^i. C: the thresholds of B at any
        slope; a linear system gives the coefficients. D: m = floor(l/2) + 1 heads with one threshold m - 1/2 and
        distinct slopes; a linear system gives the coefficients.
    bits : int
        The number l of hidden bits.
    beta : float, optional
        The slope of constructions A, B (40 when left out) and C (1 when left out); D does not use it.
    slopes : sequence of float, optional
        The m distinct slopes of D, if you want to choose them.

    Notes
    -----
    The systems are solved to 30 digits and then rounded, so every machine makes the same heads.
    A: the limit at L is 2 sum_{i <= L + l} (-1)^(i+l) - C = (-1)^L - (-1)^l with C = 0, so c0 = (-1)^(l+1). B: the
    limit at N is 2 sum_{i <= N} (-1)^i - C = (-1)^N - 1 - C, so c0 = -1 - C with C = -1 for odd l and 0 for even l.
    With one slope the error is at most 4/(e^beta + 1). Proof: in the sum over heads the deficits
    2/(e^(2 beta |N - t|) + 1) alternate in sign on either side of N and decrease. So each side adds at most its first
    deficit, 2/(e^beta + 1).
    C: the l + 1 unknowns are the coefficients and a constant -c0; the l + 1 equations are
    sum_i c_i tanh(beta (N - t_i)) - c0 = (-1)^N. Thresholds and equations are symmetric about l/2, so C = 0 for even l
    and c0 = 0 for odd l. D: N - t runs through the half-integers from 1/2 - m. tanh is odd, and so is (-1)^N about
    t = m - 1/2. So the m equations sum_b c_b tanh(beta_b (a - 1/2)) = (-1)^(m-1+a), a = 1, ..., m, give (-1)^N for all
    N = 0, ..., 2m - 1, with c0 = 0. The slopes are (1/2, 1) for m = 2 and (1/2, 1, 2) for m = 3. For larger m they are
    a geometric sequence from 1/m to 2, rounded to 20 binary digits; slopes that double would make the system
    ill-conditioned. O(m^3).

    References
    ----------
    Derived here. That the equations of D have a solution is computed for the default slopes up to m = 10, and not
    proved for every m. That fewer heads do not suffice is a numerical observation, not a theorem; Hsu, arXiv
    2605.12171, proves a related bound.

    Examples
    --------
    >>> heads = parity_heads("D", bits=3)
    >>> [round(float(c), 4) for c in heads.coefficients], round(heads.c, 4)
    ([-19.0359, 12.2529], -6.7831)
    >>> heads = parity_heads("C", bits=2, beta=1.0)
    >>> round(float(abs(heads.coefficients).sum()), 3), heads.c, round(heads.c0, 3)
    (8.312, 0.0, -2.841)
    """
    require_realisable(bits)
    if slopes is not None and construction != "D":
        raise ValueError(
            f"slopes is {shown(slopes)} with construction {construction}: it has one slope, beta; only D takes more."
        )
    if construction == "D":
        return _minimal(bits, slopes)
    beta = (1.0 if construction == "C" else SATURATED_SLOPE) if beta is None else beta
    if construction == "A":
        order = np.arange(1, 2 * bits + 1)
        thresholds, c0 = order - bits - 0.5, (-1.0) ** (bits + 1)
        return Heads.counting(bits, thresholds, (-1.0) ** (order + bits), [beta] * len(order), rows=0, c0=c0)
    order = np.arange(1, bits + 1)
    if construction == "C":
        return _exact(bits, order - 0.5, beta)
    c0 = 0.0 if bits % 2 else -1.0
    return Heads.counting(bits, order - 0.5, (-1.0) ** order, [beta] * bits, c0=c0)


def parity_values(heads: Heads) -> dict[int, float]:
    """The parity at every N = 0, ..., l, or at every L = -l, ..., l if the heads are linear."""
    return {n: (-1.0) ** abs(n) for n in range(0 if heads.rows is None else -heads.bits, heads.bits + 1)}


def parity_error(heads: Heads) -> float:
    """The supremum of |layer - ideal target| along a direction of norm 1, rounded outward."""
    ideal = {n: Fraction(heads.c0) + int(one) for n, one in parity_values(heads).items()}
    return heads.error(ideal, c=heads.c)


def _hidden_bits(construction: Construction, bits: int | None, heads: int | None) -> int:
    if bits is None:
        m = 2 if heads is None else heads
        bits = {"A": m // 2, "B": m, "C": m, "D": 2 * m - 1}[construction]
        if heads_needed(construction, max(bits, 1)) != m:
            raise ValueError(
                f"heads_count is {m}: construction {construction} needs 2 heads a bit, an even number of 2 or more."
            )
    elif heads is not None and heads != (needed := heads_needed(construction, bits)):
        raise ValueError(
            f"heads_count is {heads} and bits {bits}: construction {construction} needs {needed} heads for {bits} "
            "bits; give one of the two and leave the other out."
        )
    return bits


def _exact(bits: int, thresholds: np.ndarray, beta: float) -> Heads:
    blame = f"beta is {beta} and bits {bits}"
    advice = "take a larger beta, fewer bits, or construction B."
    with localcontext(_DIGITS):
        # N - t is one of 2l half-integers
        step = {half: _tanh(Decimal(beta) * half / 2) for half in range(1 - 2 * bits, 2 * bits, 2)}
        system = [[Decimal(1), *(step[2 * n - 2 * i - 1] for i in range(bits))] for n in range(bits + 1)]
        solution = _solved(system, [(-1) ** n for n in range(bits + 1)], blame, advice)
    coefficients = np.array(solution[1:])
    c0 = 0.0 if bits % 2 else -solution[0]
    return _precise(Heads.counting(bits, thresholds, coefficients, [beta] * bits, c0=c0), blame, advice)


def _minimal(bits: int, slopes: Sequence[float] | None) -> Heads:
    m = bits // 2 + 1
    if slopes is not None:
        own = np.array(slopes)
        if own.shape != (m,) or len(np.unique(own)) != m:
            raise ValueError(
                f"slopes is {shown(slopes)}: {m} distinct numbers above 0 are needed for {bits} bits."
            )
    else:
        # with 20 binary digits the layer's products of slope and threshold are exact, and the parity keeps its digits
        own = (
            np.array(_MINIMAL_SLOPES[m])
            if m in _MINIMAL_SLOPES
            else np.rint(np.geomspace(1 / m, 2, m) * 2.0**20) / 2.0**20
        )
    blame, advice = f"bits is {bits}", "take at most 19 bits, or construction B."
    if slopes is not None:
        blame = f"slopes is {shown(slopes)}"
        advice = "take slopes further apart, at most one of them above 20, or fewer bits."
    with localcontext(_DIGITS):
        system = [
            [_tanh(Decimal(slope) * (2 * a - 1) / 2) for slope in own.tolist()] for a in range(1, m + 1)
        ]
        coefficients = np.array(
            _solved(system, [(-1) ** (m - 1 + a) for a in range(1, m + 1)], blame, advice)
        )
    return _precise(Heads.counting(bits, np.full(m, m - 0.5), coefficients, own), blame, advice)


def _precise(heads: Heads, blame: str, advice: str) -> Heads:
    if not (error := parity_error(heads)) <= _PRECISION_LIMIT:
        raise ValueError(f"{blame}: {len(heads)} heads miss the parity by {error:.1e} in float64; {advice}")
    return heads


def _solved(system: list[list[Decimal]], right: list[int], blame: str, advice: str) -> list[float]:
    """The float64 numbers nearest to the solution, independent of rounding errors in this machine's linear algebra.

    Each round corrects the solution by the residual of the right side, to the digits of the context; O(n^2) per round.
    """
    solution, left = [Decimal(0)] * len(right), [Decimal(one) for one in right]
    last = float(np.finfo(np.float64).max)
    try:
        inverse = np.linalg.inv(np.array(system, dtype=np.float64))
    except np.linalg.LinAlgError:
        inverse = np.full((len(right), len(right)), np.nan)
    while last > 1e-30 * float(max(map(abs, solution))):
        change = inverse @ np.array(left, dtype=np.float64)
        size = np.abs(change).max()
        if not size <= last / 2:
            raise ValueError(f"{blame}: the equations for the coefficients are singular in float64; {advice}")
        last = size
        solution = [one + Decimal(more) for one, more in zip(solution, change.tolist(), strict=True)]
        left = [
            wanted - sum((a * b for a, b in zip(row, solution, strict=True)), Decimal(0))
            for wanted, row in zip(right, system, strict=True)
        ]
    return [float(one) for one in solution]


def _tanh(z: Decimal) -> Decimal:
    decay = (-2 * abs(z)).exp()
    return ((1 - decay) / (1 + decay)).copy_sign(z)


_DIGITS = Context(prec=60)
_MINIMAL_SLOPES = {1: (1.0,), 2: (0.5, 1.0), 3: (0.5, 1.0, 2.0)}
