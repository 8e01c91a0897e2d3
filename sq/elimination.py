"""The attack without statistical queries: Gaussian elimination over GF(2) on noise-free labels."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Bool, Float

from attention import ExampleOracle, Fit, Outcome, Recorder, draw_examples
from attention.evaluation import HeldOut, Predictor, verdict
from attention.learning import LearnerBase
from attention.validation import NonNegativeInt, PositiveInt, Real, checked
from lower import HardInstance, Heads, KnownComponent, solve_gf2
from sq.parities import ParityFamily
from sq.profile_family import gated_values

# A success needs so many held-out equations that are no copies: the bound on the error rate is then 14 % of the gate.
_HELD_OUT = 20


@dataclass(frozen=True, eq=False)
@checked
class ParityElimination(LearnerBase):
    """Learn a hidden parity from noise-free labels by solving linear equations over GF(2).

    On the gate, a label minus the known part is u_g [1; -1] w^T times (-1)^(number of j in S with x_1j != x_2j). This
    is one linear equation over GF(2) in the indicator of S. About d equations determine S, whatever its size.

    Notes
    -----
    With d - 1 + r random equations the rank is full with probability prod_{i=r+1}^{d-1+r} (1 - 2^-i); this is .999 at
    r = 10. The first equations up to the full rank are fitted, about d of them; all others are held out. A random
    system passes r of these with probability 2^-r, one that is wrong on a share q of the gate with probability
    (1 - q)^r. With label flips at rate eta, about (1 - eta)^(d-1+r) of the runs contain no flip. O(d^3 / 64) word
    operations.

    The outcome is EXACT if the parity reproduces all examples to 1e-10, and REACHED_TOLERANCE if to the tolerance. Both
    need twenty held-out equations. It is EXAMPLES_SPENT or EXAMPLES_RAN_OUT if the examples do not determine or check
    S, and UNCONFIRMED if that is because some are copies. It is NOT_APPLICABLE if the inputs are not two tokens of
    signs, a label does not have the pattern, or the equations contradict each other. Without success the fit predicts
    the known part.

    References
    ----------
    Kearns 1998: parities fall to elimination and resist statistical queries.

    Examples
    --------
    >>> from sq import make_parity_instance
    >>> instance = make_parity_instance(dim=24, heads=2, rng=0)
    >>> attack = ParityElimination.for_instance(instance)
    >>> fit = attack.fit(ExampleOracle(instance.layer, instance.inputs, rng=1))
    >>> fit.outcome.name, bool((fit.layer.theta == instance.layer.theta).all())
    ('EXACT', True)
    """

    gate: NonNegativeInt = 0  #: the gate coordinate g
    #: the output direction w, of norm 1; the gate's unit vector when left out
    direction: Float[np.ndarray, " d"] | None = None
    known: KnownComponent | None = None  #: the part of the target known in advance; zero when left out
    #: The heads that realise parities of this family, to give the answer as a layer. If they are left out, or S is
    #: larger than they support, the fit predicts by the definition of the target, and its layer is None.
    heads: Heads | None = None
    #: the budget in examples; when left out, at most 4(d + 20), of which 2(d + 20) are the rule
    examples: PositiveInt | None = None
    #: how far a label may be from plus or minus the pattern above; a label farther off means another kind of target
    tolerance: Annotated[float, Real(above=0, below=1)] = 1e-3

    def __post_init__(self) -> None:
        if self.direction is not None:
            with np.errstate(over="ignore"):  # an infinite norm is not 1 either
                norm = float(np.linalg.norm(self.direction))
            if abs(norm - 1) > 1e-9:
                raise ValueError(f"direction has norm {norm:.6g}: a vector of norm 1 is needed.")
            object.__setattr__(self, "direction", self.direction.copy())

    @classmethod
    @checked
    def for_instance(cls, instance: HardInstance, *, examples: int | None = None) -> "ParityElimination":
        """The attack with what is known in advance about a parity instance, never its secret."""
        family = instance.family
        if not isinstance(family, ParityFamily):
            raise ValueError(
                f"The instance is of the family {family.name}: one of {ParityFamily.name} is needed."
            )
        return cls(
            direction=instance.direction,
            known=instance.known,
            heads=family.heads,
            examples=examples,
            # a small slope leaves labels off their ideal by up to the realisation error
            tolerance=min(1e-3 + 1.1 * instance.realisation_error, 0.9),
        )

    def minimum_examples(self, tokens: int, dim: int) -> int:
        """d: fewer could not determine and check the d - 1 unknowns even if all were on the gate."""
        return max(2, dim)

    def _learn(
        self, oracle: ExampleOracle, recorder: Recorder, budget: int | None, rng: np.random.Generator
    ) -> Fit:
        k, d = oracle.tokens, oracle.dim
        wanted = 2 * (d + _HELD_OUT)
        limit = 2 * wanted if self.examples is None else self.examples
        limit = limit if budget is None else min(limit, budget)
        limit = max(limit, self.minimum_examples(k, d))

        x, y = draw_examples(oracle, min(wanted, limit))
        if k != 2:
            recorder.step("Draw examples", predict=np.zeros_like)
            return recorder.fit(Outcome.NOT_APPLICABLE, predict=np.zeros_like)
        known, w = self._fitting(d)
        while True:
            on_gate = x[:, 0, self.gate] != x[:, 1, self.gate]
            differ = np.delete(x[on_gate, 0] != x[on_gate, 1], self.gate, axis=1)
            fitted = _fitted(differ)
            # a copy is no further equation
            evidence = len(np.unique(differ, axis=0)) - len(np.unique(differ[:fitted], axis=0))
            more = min(2 * (_HELD_OUT - evidence), limit - len(x))
            if more <= 0 or not np.all(np.abs(x) == 1):
                break
            x, y = (np.concatenate(pair) for pair in zip((x, y), draw_examples(oracle, more), strict=True))
        recorder.step("Draw examples", predict=known, gate_examples=float(on_gate.sum()))

        bits = self._bits(x, y, known(x), w)
        if bits is None:
            return recorder.fit(Outcome.NOT_APPLICABLE, predict=known)
        found = solve_gf2(differ, bits)
        recorder.step("Eliminate", predict=known, rank=float(found.rank), equations=float(len(bits)))
        if not found.consistent:
            return recorder.fit(Outcome.NOT_APPLICABLE, predict=known)
        spent = Outcome.EXAMPLES_RAN_OUT if oracle.remaining == 0 else Outcome.EXAMPLES_SPENT
        if not found.unique:
            return recorder.fit(spent, predict=known)
        secret = np.flatnonzero(np.insert(found.solution, self.gate, False))
        layer = None
        if self.heads is not None and len(secret) <= self.heads.bits:
            layer = self.heads.placed(secret, dim=d, gate=self.gate, direction=w).layer()
        predict: Predictor = _Parity(secret, known, self.gate, w) if layer is None else layer
        worst = float(np.abs(np.asarray(predict(x)) - y).max())
        gate_x, gate_y = x[on_gate], y[on_gate]
        held_out = (
            HeldOut(gate_x[fitted:], gate_y[fitted:], gate_x[:fitted]).error(predict) if evidence else worst
        )
        recorder.step("Build the layer", predict=predict, layer=layer, largest_error=worst)
        if worst > self.tolerance:
            return recorder.fit(Outcome.NOT_APPLICABLE, predict=known)
        # a claim of success needs the requested number of extra equations
        judged = verdict(
            fitted=worst,
            held_out=held_out,
            evidence=evidence if evidence >= _HELD_OUT else 0,
            otherwise=spent,
            tolerance=self.tolerance,
        )
        unchecked = judged.outcome is Outcome.UNCONFIRMED and len(bits) - fitted < _HELD_OUT
        return recorder.fit(spent if unchecked else judged, predict=predict, layer=layer)

    def _fitting(self, d: int) -> tuple[KnownComponent, np.ndarray]:
        known = KnownComponent.zero(2, d) if self.known is None else self.known
        w = np.eye(d)[min(self.gate, d - 1)] if self.direction is None else self.direction
        if known.tokens != 2 or known.dim != d or len(w) != d or self.gate >= d:
            raise ValueError(
                f"The examples have {d} coordinates; the attack has gate {self.gate}, a direction of {len(w)} "
                f"and a known part on {known.tokens} tokens of {known.dim}: build it with for_instance."
            )
        return known, w

    def _bits(
        self, x: np.ndarray, y: np.ndarray, fixed: np.ndarray, w: np.ndarray
    ) -> Bool[np.ndarray, " n"] | None:
        """The right-hand sides of the equations; None if a label does not have the pattern."""
        if not np.all(np.abs(x) == 1):
            return None
        half = (x[:, 0, self.gate] - x[:, 1, self.gate]) / 2
        pattern = half[:, None, None] * np.array([[1.0], [-1.0]]) * w
        unknown = y - fixed
        along = np.sum(unknown * pattern, axis=(1, 2)) / 2
        nearest = np.where(along < 0, -1.0, 1.0)[:, None, None] * pattern
        if np.abs(unknown - nearest).max() > self.tolerance:
            return None
        return along[half != 0] < 0


def _fitted(differ: Bool[np.ndarray, "n u"]) -> int:
    """The number of the first equations that have full rank; that of all if they do not."""
    n, unknowns = differ.shape
    numbers = range(max(unknowns, 1), n)
    return next((i for i in numbers if solve_gf2(differ[:i], np.zeros(i, dtype=bool)).unique), n)


@dataclass(frozen=True, eq=False)
class _Parity:
    """The target by its definition, for parities that the given heads do not realise."""

    secret: np.ndarray
    known: KnownComponent
    gate: int
    direction: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        signs = (-1.0) ** np.arange(len(self.secret) + 1)
        return self.known(x) + gated_values(signs, self.secret, self.gate, x)[..., None] * self.direction
