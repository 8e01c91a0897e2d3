"""The staircase gadget: heads that compute a step function of an integer form of two Boolean tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, getcontext, localcontext

import numpy as np
from jaxtyping import Float, Int, Shaped

from attention import AttentionLayer
from attention._arrays import to_numpy
from attention.memory import require_memory
from attention.validation import count, real_array
from lower.rounding import outward_context, rounded_up

__all__ = ["SATURATED_SLOPE", "ErrorBound", "Staircase"]

SATURATED_SLOPE = 40.0
"""A slope at which the float64 softmax is exactly 0 or 1 half a unit off a threshold (38 already is)."""

_UNIT = 2.0**-53  # the most that rounding changes a float64 number, relatively
_MOST_FORM = 1 << 52  # half-integers up to here are exact in float64
_MOST_STEPS = 1e306
_TINY = float(np.finfo(np.float64).smallest_subnormal)


@dataclass(frozen=True)
class ErrorBound:
    """An upper bound on a realisation error, and the sentence that says why it holds.

    Attributes
    ----------
    value : float
        The bound, in exact arithmetic on the layer's stored numbers, itself rounded outward.
    reason : str
        Which argument gave it.
    """

    value: float
    reason: str

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"at most {self.value:.4g}: {self.reason}"


@dataclass(frozen=True, eq=False)
class Staircase:
    """A function of an integer linear form of two Boolean tokens, built from attention heads.

    With the gate coordinate g, tokens x_1, x_2 in {-1, 1}^d and the form T = <v, 1[x_1j != x_2j]>, it gives

    * on the gate (x_1g != x_2g): x_1g s(T) w in row 1 and x_2g s(T) w in row 2,
      where s(T) = sum_i c_i tanh(beta_i (T - t_i)),
    * off the gate: x_1g (sum_i c_i) w in both rows.

    Parameters
    ----------
    form : array of int (d,)
        The integer coefficients v; v_g = 0.
    thresholds : array (m,)
        The thresholds t_i, half-integers, so that no value of T ever meets one.
    coefficients : array (m,)
        The step sizes c_i: the limit jumps by 2 c_i at t_i.
    slopes : float or array (m,)
        The slopes beta_i > 0; one number serves all heads.
    gate : int
        The gate coordinate g.
    direction : array (d,), optional
        The output direction w; the gate's unit vector when left out.

    Raises
    ------
    ValueError
        If the shapes do not fit, an entry is not finite, a slope is not positive, a threshold is not a
        half-integer, or the form does not leave the gate out.

    Notes
    -----
    Head i has Theta_i = beta_i (diag(v) - t_i e_g e_g^T) and W_i = c_i e_g w^T. With u = (x_1 - x_2)/2 and
    a = (x_1 + x_2)/2, a_j u_j = 0 and u_j^2 = 1[x_1j != x_2j], so the logit difference
    x_1 Theta_i (x_1 - x_2)^T is 2 beta_i (T - t_i) on the gate, row 2's is its negative, and a softmax over
    two logits that differ by z has p_1 - p_2 = tanh(z/2).

    References
    ----------
    Derived here.

    Examples
    --------
    A bump: 1 where T is 1 or 2, else 0.

    >>> import numpy as np
    >>> stairs = Staircase(form=np.array([0, 1, 1, 1]), thresholds=np.array([0.5, 2.5]),
    ...                    coefficients=np.array([0.5, -0.5]), slopes=40.0)
    >>> stairs.reachable()
    array([0, 1, 2, 3])
    >>> stairs.limit(stairs.reachable())
    array([0., 1., 1., 0.])
    >>> stairs.layer()
    AttentionLayer(heads=2, dim=4, dtype=float64)
    """

    form: Int[np.ndarray, " d"]
    thresholds: Float[np.ndarray, " m"]
    coefficients: Float[np.ndarray, " m"]
    slopes: Float[np.ndarray, " m"] | float = SATURATED_SLOPE
    gate: int = 0
    direction: Float[np.ndarray, " d"] | None = None

    def __post_init__(self) -> None:
        form = to_numpy(self.form)
        if form.ndim != 1 or len(form) < 1 or form.dtype.kind not in "iu":
            raise ValueError(f"form has shape {form.shape} of {form.dtype}: (d,) whole numbers are needed.")
        d = len(form)
        if (total := sum(abs(int(one)) for one in form)) > _MOST_FORM:
            raise ValueError(f"form has absolute values that sum to {total}: at most 2^52 is needed.")
        gate = count("gate", self.gate, least=0)
        if gate >= d:
            raise ValueError(f"gate is {gate}: a coordinate from 0 to {d - 1} is needed.")
        if form[gate] != 0:
            raise ValueError(f"form is {form[gate]} at the gate coordinate {gate}: it must be 0 there.")
        thresholds, coefficients = (
            _vector(name, getattr(self, name)) for name in ("thresholds", "coefficients")
        )
        if len(thresholds) != len(coefficients):
            raise ValueError(
                f"There are {len(thresholds)} thresholds and {len(coefficients)} coefficients: "
                "one each a head is needed."
            )
        slopes = _vector(
            "slopes", np.full(len(thresholds), self.slopes) if np.ndim(self.slopes) == 0 else self.slopes
        )
        if len(slopes) != len(thresholds):
            raise ValueError(
                f"There are {len(slopes)} slopes for {len(thresholds)} heads: one, or one each, is needed."
            )
        with np.errstate(over="ignore"):
            total_size = float(np.abs(coefficients).sum())
        if not total_size <= _MOST_STEPS:
            raise ValueError(
                f"coefficients have absolute values that sum to {total_size:.3g}: at most {_MOST_STEPS:.0e} is needed, "
                "or the staircase overflows."
            )
        if np.any(slopes <= 0):
            raise ValueError(f"The least slope is {slopes.min()}: slopes above 0 are needed.")
        if np.any(np.mod(thresholds, 1.0) != 0.5):
            raise ValueError(
                "The thresholds are not all half-integers: take t = n + 1/2, which no value of T meets."
            )
        direction = np.eye(d)[gate] if self.direction is None else _vector("direction", self.direction)
        if len(direction) != d:
            raise ValueError(f"direction has {len(direction)} entries: {d}, as many as the form, are needed.")
        fixed = {
            "form": np.array(form, dtype=np.int64),
            "thresholds": thresholds,
            "coefficients": coefficients,
            "slopes": slopes,
            "direction": direction,
        }
        for name, array in fixed.items():
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        object.__setattr__(self, "gate", gate)

    @property
    def heads(self) -> int:
        """The number m of heads."""
        return len(self.thresholds)

    @property
    def dim(self) -> int:
        """The number d of coordinates of a token."""
        return len(self.form)

    def layer(self) -> AttentionLayer:
        """The attention layer that computes this staircase on two Boolean tokens; O(m d^2) numbers."""
        theta = np.zeros((self.heads, self.dim, self.dim))
        own = np.arange(self.dim)
        w = np.zeros_like(theta)
        with np.errstate(over="ignore"):  # what overflows is refused by the layer
            theta[:, own, own] = np.outer(self.slopes, self.form)
            theta[:, self.gate, self.gate] = -np.asarray(self.slopes) * self.thresholds
            w[:, self.gate, :] = np.outer(self.coefficients, np.asarray(self.direction))
        return AttentionLayer(theta=theta, w=w)

    def values(self, t: Shaped[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """s(T) = sum_i c_i tanh(beta_i (T - t_i)) at the finite slopes, in float64."""
        with np.errstate(over="ignore"):  # tanh of infinity is 1, as it should be
            return np.tanh(self.slopes * self._distances(t)) @ self.coefficients

    def limit(self, t: Shaped[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """The step function sum_i c_i sign(T - t_i), which `values` tends to as all slopes grow."""
        return np.sign(self._distances(t)) @ self.coefficients

    def decimal_values(self, t: Sequence[int] | Int[np.ndarray, " n"], *, digits: int = 50) -> list[Decimal]:
        """`values` in decimal arithmetic of `digits` digits: what the stored numbers mean, unrounded."""
        heads = [
            tuple(Decimal(float(one)) for one in head)
            for head in zip(self.coefficients, np.asarray(self.slopes), self.thresholds, strict=True)
        ]
        t = real_array("t", t, ("n",))
        if np.any(np.mod(t, 1.0) != 0):
            raise ValueError("t holds fractions: whole numbers are needed.")
        with localcontext(Context(prec=count("digits", digits, most=10_000))):
            return [
                sum(
                    (c * _decimal_tanh(beta * (Decimal(int(one)) - own)) for c, beta, own in heads),
                    Decimal(0),
                )
                for one in t
            ]

    def reachable(self) -> Int[np.ndarray, " values"]:
        """Every value the form T takes, in increasing order: the subset sums of v; O(d sum|v|)."""
        form = self.form
        least, most = int(form[form < 0].sum()), int(form[form > 0].sum())
        require_memory(
            f"Enumerating the values of a form of {self.dim} coordinates from {least} to {most}",
            (10 + 48 * self.heads) * (most - least + 1),
            advice="take smaller coefficients",
        )
        reached = np.zeros(most - least + 1, dtype=bool)
        reached[-least] = True
        for step in form[form != 0]:
            before = reached.copy()
            if step > 0:
                reached[step:] |= before[:-step]
            else:
                reached[:step] |= before[-step:]
        return np.flatnonzero(reached) + least

    def error(self) -> float:
        """The supremum over every reachable T of |values - limit|, rounded outward; O(m d sum|v|).

        It is computed without cancellation, so it is right to many digits even far below 1e-16, where
        `values` and `limit` round to the same float64 numbers. Times |w| it bounds the Euclidean norm of a
        row's error, on every input: off the gate the layer has no error at all.

        Notes
        -----
        The enumeration runs in float64; what its own rounding and that of the layer's stored products
        beta_i v_j and beta_i t_i can amount to is added, so the number is never below the supremum and above
        it by about (m + max beta (|v|_1 + max|t|)) units of relative precision. 1 - tanh|z| changes by a
        factor of at most e^(2 delta) when z changes by delta, and never exceeds 2 even if the sign turns.
        """
        sizes = np.abs(self.coefficients)
        if not sizes.any():
            return 0.0
        distances = self._distances(self.reachable())
        spread = float(np.abs(self.form).sum())
        with np.errstate(over="ignore", under="ignore"):  # an infinite argument has deficit 0, as it should
            z = self.slopes * np.abs(distances)
            deficits = _tanh_deficit(z)
            exponent = 2 * _UNIT * (2 * z + self.slopes * (spread + np.abs(self.thresholds)) * 1.01)
            relative = np.expm1(np.minimum(exponent, 700.0)) + (8 + self.heads) * 4 * _UNIT
            allowance = np.where(exponent > 700.0, 2.0, np.minimum(deficits * relative, 2.0)) @ sizes
            found = np.abs((-np.sign(distances) * deficits) @ self.coefficients) + allowance
        subnormal = (4 * float(sizes.sum()) + self.heads) * _TINY
        return float(np.nextafter(found.max() * (1 + 8 * _UNIT) + subnormal, np.inf))

    def error_bound(self) -> ErrorBound:
        """A proved bound on `error`: in closed form for one slope beta and distinct thresholds.

        Notes
        -----
        The closed form is 4 max|c| e^-beta / (1 - e^(-2 beta)). Proof: 1 - tanh(z) = 2/(e^(2z) + 1) is at
        most 2 e^(-2z) for z >= 0, so head i is off its limit by at most 2 |c_i| e^(-2 beta |T - t_i|). The
        distances |T - t_i| of an integer from distinct half-integers lie in {1/2, 3/2, ...} and each occurs
        at most twice, once on either side, so the sum is at most 4 max|c| sum_{j>=0} e^(-beta (2j+1)), a
        geometric series.

        The layer stores the products beta v_j and beta t_i in float64. Where they are not exact, a logit is
        off by some 2 delta with delta at most 2^-53 beta (|v|_1 + max|t|), and the bound is taken e^(2 delta)
        times as large. It is computed to 50 digits and rounded outward, so it is positive even where
        e^-beta is not in float64.

        Where slopes differ or thresholds repeat, the bound is the exact enumeration of `error` and says so.

        References
        ----------
        Derived here.
        """
        slopes = np.asarray(self.slopes)
        if np.all(slopes == slopes[0]) and len(np.unique(self.thresholds)) == self.heads:
            beta = float(slopes[0])
            return ErrorBound(
                self._closed_bound(beta),
                "one slope and distinct half-integer thresholds, so 4 max|c| e^-b / (1 - e^-2b) applies",
            )
        return ErrorBound(
            self.error(),
            "slopes differ or thresholds repeat, so every reachable value of the form was enumerated",
        )

    def _closed_bound(self, beta: float) -> float:
        largest = Decimal(float(np.abs(self.coefficients).max()))
        furthest = max(int(np.abs(self.form).max()), float(np.abs(self.thresholds).max()))
        with localcontext(outward_context()):
            b = Decimal(beta)
            # 4 e^-b / (1 - e^-2b) = 2 / sinh b, and sinh b >= b; near 0 the difference would lose its digits
            closed = 2 / b if beta < 1e-5 else 4 * (-b).exp() / (1 - (-2 * b).exp())
            delta = Decimal(0)
            # twice a threshold is whole: these products have at most 53 bits, so they are stored exactly
            if not 2 * Decimal(beta.as_integer_ratio()[0]) * Decimal(furthest) < 2**53:
                reach = int(np.abs(self.form).sum()) + Decimal(float(np.abs(self.thresholds).max()))
                delta = b * reach * Decimal(_UNIT)
            if delta > 1:  # no digit of the logits is sure any more: a tanh is off its sign by 2 at most
                bound = 2 * sum((Decimal(float(one)) for one in np.abs(self.coefficients)), Decimal(0))
            else:
                bound = largest * closed * (2 * delta).exp()
        return rounded_up(bound, positive=bool(largest))

    def _distances(self, t: np.ndarray) -> np.ndarray:
        return real_array("t", t)[..., None] - self.thresholds


def _vector(name: str, values: object) -> np.ndarray:
    array = np.array(real_array(name, values))
    if array.ndim != 1 or len(array) < 1:
        raise ValueError(f"{name} has shape {array.shape}: a vector of at least one entry is needed.")
    return array


def _tanh_deficit(z: np.ndarray) -> np.ndarray:
    # 1 - tanh|z|, without the cancellation of subtracting
    from scipy.special import expit  # slow to import, and not needed by every process

    return 2.0 * expit(-2.0 * np.abs(z))


def _decimal_tanh(z: Decimal) -> Decimal:
    if abs(z) > 2 * getcontext().prec + 10:  # 1 to all digits, and the exponential may be beyond any exponent
        return Decimal(1).copy_sign(z)
    grown = (2 * z).exp()
    return (grown - 1) / (grown + 1)
