"""The attack on periodic neurons without label noise: lattice reduction finds the periods, least squares the rest."""

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from attention import ExampleOracle, Fit, Outcome, Recorder, draw_examples, relative_error
from attention.evaluation import verdict
from attention.learning import LearnerBase
from attention.validation import PositiveInt, Whole, checked
from lower import HardInstance
from sq.periodic import PeriodicFamily

_HERMITE = math.log2(1.022)  # bits that LLL loses per dimension, measured by Nguyen and Stehle 2006
_MARGIN = 1.5  # bits between the vector looked for and the others
_STEEP = 0.9  # labels above this share of the amplitude say little about the phase
_FRESH = 32  # examples held out
_DRAWS = 64  # the most rows that are drawn for one that is used
_DIGITS = 2.0**45


@dataclass(frozen=True, eq=False)
@checked
class PeriodicLattice(LearnerBase):
    """Learn a hidden direction from noise-free labels of a periodic wave by lattice reduction.

    Notes
    -----
    A label y = phi(s) with s = <u, x> gives r = phi^-1(y) in [-h/2, h/2], and s is r or h - r up to a multiple of 2h:
    s/(2h) = K + 1/4 + eps tau with a whole number K, a sign eps and tau = 1/4 - r/(2h). For M rows x_i let Lambda be an
    orthonormal basis of the M - n relations sum_i lambda_i x_i = 0. All of them hold for s, too: whole numbers
    a_i = 4 K_i + 1 and signs eps_i satisfy Lambda (a + 4 eps tau) = 0. The vectors (a, 4 eps, 2^B Lambda (a/4 +
    eps tau)), with all a_i equal mod 4, form a lattice of dimension 2M. LLL finds the shortest vector, exact integers
    throughout, and least squares the direction.

    *How many rows.* By the Gaussian heuristic other vectors are as long as sqrt(2M/17) 4 2^(B (M - n)/(2M)), and the
    one looked for has length 4 sqrt(M (1 + gamma^2)). LLL tells them apart if the ratio is above 1.022^(2M). So one row
    more than n does not suffice with B = 44 bits, which is what float64 labels have; about 1.4 n rows do. More rows
    replace more bits up to half of B per row: at gamma = 2 this ends near n = 60. Without noise Song, Zadik and Bruna
    2021 use d + 1 rows with many more bits. This estimate is a heuristic, measured at d = 8, 16, 24.

    *Noise.* Noise of size s leaves about -log2(s) bits. With B below twice the bits that the ratio needs no number of
    rows suffices. The default B assumes exact labels and fails from noise of about 1e-10 on (measured at d = 8).

    The outcome is EXACT or REACHED_TOLERANCE if held-out examples are reproduced; NOTHING_LEARNED if no vector of the
    form is found, or no number of rows suffices; EXAMPLES_SPENT or EXAMPLES_RAN_OUT if there are too few usable labels;
    NOT_APPLICABLE if the tokens are not those of the family. Without success it predicts 0. ImportError without
    fpylll. LLL takes O(M^5) operations or more.

    References
    ----------
    Song, Zadik and Bruna 2021, "On the cryptographic hardness of learning single periodic neurons": LLL recovers the
    direction from d + 1 exact samples (from the abstract). The lattice for many rows of few bits is derived here.

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> instance = PeriodicFamily(dim=8).instance(rng=0)
    >>> oracle = ExampleOracle(instance.layer, instance.inputs, rng=1)
    >>> find_spec("fpylll") is None or PeriodicLattice.for_instance(instance).fit(oracle).outcome.succeeded
    True
    """

    family: PeriodicFamily  #: what is known in advance: all but the direction
    #: the output direction w, of norm 1; the first unit vector when left out
    direction: Float[np.ndarray, " d"] | None = None
    bits: Annotated[int, Whole(4, 50)] = 44  #: B, the bits of the phases that are used; fewer stand noise
    #: the budget in examples; when left out, as many as give enough usable rows
    examples: PositiveInt | None = None

    @classmethod
    @checked
    def for_instance(cls, instance: HardInstance, *, bits: int = 44) -> "PeriodicLattice":
        """The attack with what is known in advance about an instance. ValueError if it is of another family."""
        family = instance.family
        if not isinstance(family, PeriodicFamily):
            raise ValueError(f"The instance is of the family {family.name}: {PeriodicFamily.name} is needed.")
        return cls(family, instance.direction, bits)

    @property
    def rows(self) -> int | None:
        """M, the fewest rows that suffice; None if no number does."""
        n = self.family.dim - 1
        needed = math.log2(math.sqrt(17 / 2 * (1 + self.family.gamma**2))) + _MARGIN
        for rows in range(n + 1, 12 * n):
            if self.bits * (rows - n) / (2 * rows) >= needed + 2 * rows * _HERMITE:
                return rows
        return None

    def minimum_examples(self, tokens: int, dim: int) -> int:
        """Half a row more than coordinates, and the examples held out."""
        return dim // 2 + 1 + _FRESH

    def _prepare(self, oracle: ExampleOracle) -> None:
        import fpylll  # noqa: F401 - ImportError before the clock starts

    def _learn(
        self, oracle: ExampleOracle, recorder: Recorder, budget: int | None, rng: np.random.Generator
    ) -> Fit:
        def ended(outcome: Outcome) -> Fit:
            return recorder.fit(outcome, predict=np.zeros_like)

        family, rows = self.family, self.rows
        w = np.eye(family.dim)[0] if self.direction is None else self.direction
        fresh_x, fresh_y = draw_examples(oracle, _FRESH)
        recorder.step("Hold examples out", predict=np.zeros_like)
        if fresh_x.shape[1:] != (2, family.dim) or np.any(fresh_x[:, :, 0] != [1.0, -1.0]):
            return ended(Outcome.NOT_APPLICABLE)
        if rows is None:
            return ended(Outcome.NOTHING_LEARNED)
        x, shown = np.zeros((0, family.dim - 1)), np.zeros(0)
        left = min(_DRAWS * rows, math.inf if budget is None else budget - _FRESH)
        amplitude = float(family.link(np.array(family.half_period / 2)))
        while len(x) < rows and left > 0:
            more_x, more_y = draw_examples(oracle, min(rows, int(left)))
            left -= len(more_x)
            labels = (more_y @ w).ravel()
            usable = np.abs(labels) < _STEEP * amplitude
            x = np.concatenate([x, more_x[:, :, 1:].reshape(len(labels), -1)[usable]])
            shown = np.concatenate([shown, labels[usable]])
        recorder.step("Draw examples", predict=np.zeros_like, rows=len(x))
        if len(x) < rows:
            return ended(Outcome.EXAMPLES_RAN_OUT if oracle.remaining == 0 else Outcome.EXAMPLES_SPENT)
        phases = 0.25 - _inverse(family, shown) / (2 * family.half_period)
        cycles = _cycles(x[:rows], phases[:rows], self.bits)
        recorder.step("Reduce the lattice", predict=np.zeros_like, rows=rows)
        if cycles is None:
            return ended(Outcome.NOTHING_LEARNED)
        found = np.linalg.lstsq(x[:rows], cycles, rcond=None)[0]
        # all usable rows give a more accurate direction than the few that were reduced
        about = x @ found
        either = np.stack([0.25 + phases, 0.25 - phases])
        either += np.rint(about - either)
        nearest = np.where(np.abs(either[0] - about) < np.abs(either[1] - about), either[0], either[1])
        found = np.linalg.lstsq(x, nearest, rcond=None)[0]
        form = np.rint(_DIGITS * found / np.linalg.norm(found)).astype(np.int64)
        layer = family.heads_of(form, w).layer()
        worst = relative_error(layer(fresh_x), fresh_y)
        recorder.step("Solve for the direction", layer=layer, held_out_error=worst)
        judged = verdict(
            fitted=worst,
            held_out=worst,
            evidence=len(np.unique(fresh_x, axis=0)),
            otherwise=Outcome.NOTHING_LEARNED,
            tolerance=1e-3,
        )
        return recorder.fit(judged, layer=layer) if judged.outcome.succeeded else ended(judged.outcome)


def _inverse(family: PeriodicFamily, labels: np.ndarray) -> np.ndarray:
    """The r in [-h/2, h/2] with phi(r) = label, by bisection: phi increases there."""
    low = np.full(len(labels), -family.half_period / 2)
    high = -low
    for _ in range(60):
        middle = (low + high) / 2
        below = family.link(middle) < labels
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2


def _cycles(x: np.ndarray, phases: np.ndarray, bits: int) -> np.ndarray | None:
    """S/(2h) of each row, from the shortest vector of the lattice; None if it is of another form."""
    from fpylll import LLL, IntegerMatrix

    rows, n = x.shape
    relations = np.linalg.qr(x, mode="complete")[0][:, n:]
    scaled = np.rint(np.concatenate([relations / 4, relations * phases[:, None]]) * 2.0**bits).astype(
        np.int64
    )
    # a basis of the whole vectors a that are equal mod 4, and of the signs
    steps = np.diag(np.concatenate([np.full(rows, 4), np.ones(rows)])).astype(np.int64)
    steps[0, :rows] = 1
    weights = np.concatenate([np.ones(rows), np.full(rows, 4)]).astype(np.int64)
    basis = IntegerMatrix.from_matrix(np.concatenate([steps * weights, steps @ scaled], axis=1).tolist())
    LLL.reduction(basis)
    shortest = np.array([int(one) for one in basis[0]])
    whole, signs = shortest[:rows], shortest[rows : 2 * rows]
    if np.any(np.abs(signs) != 4) or whole[0] % 2 == 0:
        return None
    turn = 1 if whole[0] % 4 == 1 else -1
    return turn * (whole + signs * phases) / 4
