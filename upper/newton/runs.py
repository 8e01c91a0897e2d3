"""Runs from several starts on the same examples: when each stops, and how the final residuals are judged.

A run is Gauss-Newton from one start. It stops at the tolerance, when it has stalled, or at the level of the noise.
Another start follows until one run is exact, or three end at a floor: the same residual, on held-out examples too.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, pairwise
from operator import attrgetter
from typing import Any

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer, ExampleOracle, Outcome, draw_examples
from attention._arrays import to_numpy
from attention.evaluation import EXACT_ERROR, HeldOut, Verdict, orbits, which_held_out
from attention.layer import read_tokens
from upper.floor import unknowns
from upper.newton.loop import FOUND, Iterate
from upper.newton.whitening import Whitening, needed_whitening

__all__ = [
    "Ends",
    "Patience",
    "Runner",
    "SplitExamples",
    "at_noise_level",
    "cost_of_each_head",
    "depends_on_tokens",
    "draw_split",
    "fitted_share",
    "judge",
    "last_iterate",
    "needs_biases",
    "noise_level",
    "same_residual",
    "with_key_bias",
]

# This many starts with the same residual are a floor. Two may share a local minimum: 1 of 16 did at six coordinates.
_AGREEING = 3
# Minima in which a run overfits have held-out errors of about 1, and may have nearly equal residuals.
_LEARNED = 0.5
# At a floor, _FEW more iterates of the best run leave more than _NO_LOWER of the residual. Runs with many heads are all
# slow and similar at first; these continue with more patience.
_FEW, _NO_LOWER = 5, 0.98
# A redrawn head counts if it brings the residual below this share; two minima at the noise level differ by less.
_BETTER = 0.9
# As shares of the reduction of squared noise by fitting: the most that a converged run may still gain, and the largest
# difference of two runs into the same minimum.
_UNDONE, _APART = 0.01, 0.1
# A step that reduces the squared residual by more than this share is not yet near a minimum.
_LONG_STEP = 0.5
# With fewer than two equations per unknown, the residual carries no information on the noise.
_MOST_SHARE = 0.5
# Squared residuals of runs into the same minimum never differ by more than this, however large the noise is.
_SAME_SQUARED = 0.02
# Allows for the random spread of the error on few held-out examples.
_HELD_OUT_RATIO = 1.2
# No local minimum of a nice layer was seen below the residual _LOW. A smaller residual is noise, such as inputs rounded
# to float32; this noise is larger on some examples than on others.
_LOW, _LOW_HELD_OUT_RATIO, _LOW_SAME_SQUARED = 1e-4, 3.0, 0.5
# A residual depends on the tokens above these standard errors of its constant, linear and cubic part, and of its rows.
# A fit to noise takes of the last three. On 36 such fits of at least three floors, linear and cubic were below -0.6;
# on 24, the rows were below 0.9.
_DEPENDS, _MOST_COMPARED, _MOST_NUMBERS = (4.0, 3.0, 3.0, 3.0), 1000, 1 << 25
_ROUNDING = 1e-13  # below this residual the last digits are rounding


@dataclass(frozen=True)
class Patience:
    """When to stop a run: it has stalled if `iterates` iterates leave more than `ratio` of the residual.

    A run has converged if `steps` consecutive steps each meet the criterion. Below a residual of `slow_below`, it has
    stalled only if forty iterates reduce the residual by less than a tenth. There, steps are slow if heads are nearly
    equal, or if almost all rows of a pattern are saturated.
    """

    iterates: int
    ratio: float
    steps: int = 1
    slow_below: float = 1e-2


# For full matrices: the worst ratio seen in a run that ended exact on nice targets is 1e-9.
_PATIENCE = Patience(10, 0.7)
# For factors: the worst ratio seen in a run that ended exact, over 40 targets, is .967.
_LOW_RANK_PATIENCE = Patience(20, 0.98, steps=8)
_MORE_PATIENCE = Patience(20, 0.98)
_SLOW_ITERATES, _SLOW_RATIO = 40, 0.9


@dataclass(frozen=True, eq=False)
class SplitExamples:
    """Examples to fit, `x` and `y`, and held-out examples; tokens and labels are scaled.

    The labels are divided by `unit`, the largest of them, so that their squares do not overflow. The tokens are divided
    by `scale`, their root mean square, so that one size of random starts fits all inputs. Tokens far from isotropic are
    replaced by their coordinates in a `whitening` instead.
    """

    x: Float[np.ndarray, "n k d"]
    y: Float[np.ndarray, "n k d"]
    x_held: Float[np.ndarray, "h k d"]
    y_held: Float[np.ndarray, "h k d"]
    unit: float
    scale: float = 1.0
    whitening: Whitening | None = None
    lent: bool = False  #: whether the held-out examples are the oracle's, which are never fitted

    @property
    def drawn(self) -> int:
        """The number of all examples drawn, fitted or held out."""
        return len(self.x) + (0 if self.lent else len(self.x_held))

    @property
    def held_out(self) -> HeldOut:
        """The held-out examples, with the fitted inputs."""
        return HeldOut(self.x_held, self.y_held, self.x)

    def together(self) -> "SplitExamples":
        """The same held-out examples, but with all examples to fit, the held-out ones included if they were drawn."""
        if self.lent:
            return self
        x, y = np.concatenate([self.x, self.x_held]), np.concatenate([self.y, self.y_held])
        return replace(self, x=x, y=y)

    def about_zero(self) -> "SplitExamples":
        """The same examples for a layer without biases, whose whitening keeps the mean of the tokens."""
        if self.whitening is None or not np.any(self.whitening.mean):
            return self
        x, x_held = (self.whitening.restore(tokens) for tokens in (self.x, self.x_held))
        whitening = needed_whitening(np.concatenate([x, x_held]), centred=False)
        scale = _root_mean_square(x) if whitening is None else 1.0
        x, x_held = (tokens / scale if whitening is None else whitening(tokens) for tokens in (x, x_held))
        return replace(self, x=x, x_held=x_held, scale=scale, whitening=whitening)

    def layer(self, iterate: Iterate) -> AttentionLayer:
        """The layer of an iterate, in NumPy, for tokens and labels in their original units."""
        layer = iterate.layer if self.whitening is None else self.whitening.back(iterate.layer)
        return _rescaled(layer, 1 / self.scale, self.unit)

    def scaled(self, layer: AttentionLayer) -> AttentionLayer:
        """The layer that does on scaled tokens and labels what `layer` does on the original ones."""
        layer = _rescaled(layer.map(to_numpy), self.scale, 1 / (self.unit or 1.0))
        return layer if self.whitening is None else self.whitening.into(layer)


def _rescaled(layer: AttentionLayer, scale: float, unit: float) -> AttentionLayer:
    """The layer with the outputs `unit` F(`scale` X)."""
    theta, w = (part.astype(np.float64) for part in (layer.theta, layer.w))
    key_bias = None if layer.key_bias is None else layer.key_bias * scale
    bias = None if layer.bias is None else layer.bias * unit
    return AttentionLayer(theta * scale * scale, w * (unit * scale), key_bias, bias, layer.causal)


def draw_split(
    oracle: ExampleOracle,
    n: int,
    *,
    least: int,
    before: SplitExamples | None = None,
    whiten: Callable[[np.ndarray], Whitening | None] = lambda x: None,
) -> SplitExamples:
    """Draw examples until there are `n`; hold out a twentieth of the new ones, but leave at least `least` to fit.

    Examples drawn `before` stay fitted or held out, and keep their units. If they are enough, nothing is drawn.
    `whiten` maps the first tokens drawn to their whitening; None leaves them as they are. If the oracle has held-out
    examples, these are taken and all drawn ones are fitted.
    """
    lent = getattr(oracle, "held_out", None)
    if before is None:
        none = np.empty((0, oracle.k, oracle.d))
        before = SplitExamples(none, none, none, none, unit=0.0, scale=0.0)
    if before.drawn and n <= before.drawn:
        return before
    x, y = draw_examples(oracle, n - before.drawn)
    unit = before.unit or float(np.abs(y).max())
    whitening = before.whitening if before.drawn else whiten(x)
    x = x if whitening is None else whitening(x)
    scale = before.scale or (_root_mean_square(x) if whitening is None else 1.0)
    x, y = x / scale, y / (unit or 1.0)
    if lent is not None:
        x_held, y_held = lent
        x_held = x_held if whitening is None else whitening(x_held)
        x, y = np.concatenate([before.x, x]), np.concatenate([before.y, y])
        return SplitExamples(x, y, x_held / scale, y_held / (unit or 1.0), unit, scale, whitening, lent=True)
    held = which_held_out(x, least=least, before=(before.x, before.x_held) if before.drawn else None)
    return SplitExamples(
        x=np.concatenate([before.x, x[~held]]),
        y=np.concatenate([before.y, y[~held]]),
        x_held=np.concatenate([before.x_held, x[held]]),
        y_held=np.concatenate([before.y_held, y[held]]),
        unit=unit,
        scale=scale,
        whitening=whitening,
    )


def _root_mean_square(x: np.ndarray) -> float:
    largest = float(np.abs(x).max())
    return largest * float(np.sqrt(np.mean((x / largest) ** 2))) if largest > 0 else 1.0


@dataclass(frozen=True, eq=False)
class Ends:
    """The final iterates of the runs from several starts, one per start, in NumPy, the smallest residual first.

    `passes` counts those of all starts. `at_floor` means that the three best runs (with two starts, both) ended at the
    same residual, and held-out examples have it too. Then the labels are noisy at that level, or the student is too
    small.
    """

    iterates: tuple[Iterate, ...]
    passes: int
    at_floor: bool

    @property
    def best(self) -> Iterate:
        """The final iterate with the smallest residual."""
        return self.iterates[0]


@dataclass(frozen=True, eq=False)
class Runner:
    """How to run from starts.

    Parameters
    ----------
    iterates : callable
        Maps x, y, a start, the tolerance and whether to begin on the path of priors to the iterates of a run from that
        start, of any array library.
    start : callable
        Maps examples, a number of heads and the number of the start, from 1, to a start for `iterates`. Number 0 is for
        heads that are added to fitted ones.
    tolerance : float
        Relative residual at which to stop.
    rank : int, optional
        The rank of the heads, if it is low.
    biased : bool
        Whether the heads have biases.
    held_out_too : bool
        Whether a run at the tolerance continues until the held-out examples reach it too.
    plain : int
        The number of starts without the path of priors; later ones begin on it.
    resume : callable, optional
        Maps an iterate to a start at that iterate. With it, starts that agree are a floor only if the best run has
        converged. Otherwise this run continues, and it and later runs get more patience.
    """

    iterates: Callable[[Any, Any, Any, float, bool], Iterator[Iterate]]
    start: Callable[[SplitExamples, int, int], Any]
    tolerance: float
    rank: int | None = None
    biased: bool = False
    held_out_too: bool = True
    plain: int | float = math.inf
    resume: Callable[[Iterate], Any] | None = None
    more_patience: bool = False

    def one(
        self,
        examples: SplitExamples,
        start: Any,
        heads: int,
        *,
        work: int,
        tell: Callable[[int, Iterate], None] = lambda number, iterate: None,
        priors: bool = False,
    ) -> Iterate:
        """The final iterate, in NumPy, of a run of `heads` heads from a start (see `last_iterate`)."""
        marks: deque[Iterate] = deque(maxlen=2)  # passes double from one to the next

        def record(number: int, iterate: Iterate) -> None:
            if not marks or iterate.passes >= 2 * marks[-1].passes:
                marks.append(iterate)
            tell(number, iterate)

        end = last_iterate(
            self.iterates(examples.x, examples.y, start, self.tolerance, priors),
            tolerance=self.tolerance,
            work=work,
            tell=record,
            share=self.share(examples, heads),
            patience=self._patience,
            reached=lambda iterate: self._reached(iterate, examples),
        )
        improving = end.passes >= work
        if improving and len(marks) > 1:
            now, before = (examples.held_out.error(iterate.layer) for iterate in (end, marks[0]))
            improving = now < _NO_LOWER * before
        return replace(end.map(to_numpy), improving=improving)

    def several(
        self,
        examples: SplitExamples,
        heads: int,
        *,
        starts: int,
        work: int,
        tell: Callable[[int, int, Iterate], None],
    ) -> Ends:
        """The final iterates from at most `starts` starts; it stops once one is exact, three agree or work is spent.

        Starts agree if they end at the same residual, and held-out examples have it too, or it is below .15 and the
        error of held-out examples below a half: with few examples, noise makes it several times the residual. While all
        starts so far end at one residual, on held-out examples too, the next start is plain.

        `tell` is called with the number of the start, that of the iterate, and the iterate.
        """
        share = self.share(examples, heads)
        ends: list[Iterate] = []
        spent, agree, at_floor, runner = 0, False, False, self
        several = max(2, min(starts, _AGREEING))
        while len(ends) < starts and spent < work and not agree:
            number = len(ends) + 1
            told = partial(tell, number)
            start = self.start(examples, heads, number)
            # plain starts confirm a floor at less cost; two local minima seldom agree
            confirms = at_floor and same_residual(ends, share=share, several=len(ends))
            priors = number > self.plain and not confirms
            ends.append(runner.one(examples, start, heads, work=work - spent, tell=told, priors=priors))
            spent += ends[-1].passes
            ends.sort(key=attrgetter("residual"))
            if self._exact(ends[0], examples):
                break
            at_floor = at_noise_level(ends[0], examples.held_out, share=share)
            agree = same_residual(ends, share=share, several=several) and (
                at_floor or self._learned(ends[0], examples)
            )
            if agree and self.resume is not None and runner is self and spent < work:
                resumed = self.resume(ends[0])
                passes, rests = self._rests(examples, resumed, ends[0].residual)
                spent += passes
                if not rests and spent < work:
                    runner, agree = replace(self, more_patience=True), False
                    ends[0] = runner.one(examples, resumed, heads, work=work - spent, tell=told)
                    spent += ends[0].passes
                    if self._exact(ends[0], examples):
                        break
        return Ends(tuple(ends), spent, agree and at_floor)

    def redraw_weakest(
        self, examples: SplitExamples, ends: Ends, *, work: int, tell: Callable[[int, Iterate], None]
    ) -> Ends:
        """Redraw the weakest head and fit it to the residual of the others, while this helps; for full matrices.

        Random starts all fit the strong heads first. If one head is a thousand times weaker, their residuals agree, as
        they do at the level of noise. `work` includes the passes of `ends`. There are at most m runs.
        """
        best, heads = ends.best, len(ends.best.theta)
        for _ in range(heads if heads > 1 else 0):
            if not ends.at_floor or ends.passes >= work:
                break
            costs = cost_of_each_head(examples.x, best)
            rest = best.only(np.arange(heads) != np.argmin(costs))
            start = self.with_a_head(examples, rest)
            again = self.one(examples, start, heads, work=work - ends.passes, tell=tell)
            passes = ends.passes + again.passes
            if again.residual > _BETTER * best.residual:
                return replace(ends, passes=passes)
            at_floor = at_noise_level(again, examples.held_out, share=self.share(examples, heads))
            ends, best = Ends((again, *ends.iterates), passes, at_floor), again
        return ends

    def with_a_head(self, examples: SplitExamples, fitted: Iterate) -> np.ndarray:
        """The start that adds a random head to fitted ones, of full matrices."""
        left = replace(examples, y=examples.y - fitted.layer(examples.x))
        added, start = self.start(left, 1, 0), with_key_bias(fitted.theta, fitted.key_bias)
        return np.concatenate([start, np.pad(added, ((0, 0), (0, start.shape[1] - added.shape[1]), (0, 0)))])

    def share(self, examples: SplitExamples, heads: int) -> float:
        """The `fitted_share` of so many heads."""
        return fitted_share(examples.x, heads, self.rank, biases=self.biased)

    @property
    def _patience(self) -> Patience:
        if self.more_patience:
            return _MORE_PATIENCE
        return _PATIENCE if self.rank is None else _LOW_RANK_PATIENCE

    def _rests(self, examples: SplitExamples, start: Any, residual: float) -> tuple[int, bool]:
        """The passes of a few more iterates from `start`, and whether these leave the residual nearly unchanged."""
        passes = 0
        for iterate in islice(self.iterates(examples.x, examples.y, start, self.tolerance, False), 1 + _FEW):
            passes = iterate.passes
            if iterate.residual < _NO_LOWER * residual:
                return passes, False
        return passes, True

    def _exact(self, end: Iterate, examples: SplitExamples) -> bool:
        if end.residual < EXACT_ERROR:
            return True
        return end.residual <= self.tolerance and self._reached(end, examples)

    def _learned(self, end: Iterate, examples: SplitExamples) -> bool:
        return end.residual < FOUND and examples.held_out.error(end.layer) < _LEARNED

    def _reached(self, iterate: Iterate, examples: SplitExamples) -> bool:
        if not self.held_out_too:
            return True
        return examples.held_out.error(iterate.layer) <= max(self.tolerance, EXACT_ERROR)


def last_iterate(
    iterates: Iterator[Iterate],
    *,
    tolerance: float,
    work: int | float,
    tell: Callable[[int, Iterate], None] = lambda number, iterate: None,
    share: float = 0.0,
    patience: Patience = _PATIENCE,
    reached: Callable[[Iterate], bool] = lambda iterate: True,
) -> Iterate:
    """The first iterate at the tolerance, at the end of the work, or at which the run has stalled or converged.

    `tell` is called with the number of each iterate and the iterate. `reached` decides whether an iterate at the
    tolerance ends the run. `share` is that of `fitted_share`; with 0 the run continues until it stalls.

    Notes
    -----
    At a minimum under noise, fitting has reduced the squared residual by the `share` p / N, which is also the excess
    error of a perfect fit relative to the noise. A run has converged when all further steps would reduce the squared
    residual by less than a hundredth of that. Near a minimum, these reductions shrink by a ratio q per step, so after
    the reduction f the further steps give f q / (1 - q). One short step after a step that gained more than half is not
    yet evidence of convergence.
    """
    history: list[float] = []
    falls: list[float] = []
    theta = None
    for number, iterate in enumerate(iterates):
        tell(number, iterate)
        if iterate.prior:  # the path ends by itself
            if iterate.passes >= work:
                return iterate
            continue
        if iterate.theta is theta:
            falls.clear()  # rejected: the damping shortens the next steps, so their falls are no evidence
        elif history and history[-1] > 0:
            falls.append(1 - (iterate.residual / history[-1]) ** 2)
        theta = iterate.theta
        history.append(iterate.residual)
        ended = iterate.passes >= work or (iterate.residual <= tolerance and reached(iterate))
        if ended or _stalled(history, patience) or _converged(falls, share, patience.steps):
            return iterate
    raise AssertionError("gauss_newton never ends by itself")


def _stalled(history: list[float], patience: Patience) -> bool:
    now = history[-1]
    # extra heads make a run slow until its last digits, where only rounding error remains
    rounding = 2 if now < _ROUNDING else 10
    if now < EXACT_ERROR and len(history) > 10 and now >= 0.9 * history[-1 - rounding]:
        return True
    slow = now < patience.slow_below
    iterates, ratio = (_SLOW_ITERATES, _SLOW_RATIO) if slow else (patience.iterates, patience.ratio)
    return len(history) > iterates and now > ratio * history[-1 - iterates]


def _converged(falls: list[float], share: float, steps: int) -> bool:
    if len(falls) <= steps:
        return False
    return all(
        now < share and now < before < _LONG_STEP and now * now / (before - now) < _UNDONE * share
        for before, now in pairwise(falls[-1 - steps :])
    )


def judge(
    best: Iterate, examples: SplitExamples, *, tolerance: float, spent_all: bool, at_floor: bool = False
) -> Verdict:
    """The verdict on the best iterate by the held-out examples; a residual at the floor is noise, or it is not."""
    ended = Outcome.WORK_SPENT if spent_all else Outcome.LOCAL_MINIMUM
    verdict = examples.held_out.verdict(
        best.layer,
        fitted=best.residual,
        tolerance=tolerance,
        otherwise=Outcome.RESIDUAL_FLOOR if at_floor else ended,
        converged=not best.improving,
    )
    if verdict.outcome is not Outcome.RESIDUAL_FLOOR:
        return verdict
    whole = examples.together()
    if depends_on_tokens(whole.x, whole.y - best.layer(whole.x)):
        return verdict
    return Verdict(Outcome.NOISE_FLOOR, verdict.held_out_error)


def same_residual(ends: Sequence[Iterate], *, share: float = 0.2, several: int = 2) -> bool:
    """Whether the `several` best final iterates have the same residual, as runs into the same minimum have.

    Their squared residuals may differ by a tenth of `share` (of `fitted_share`), but by two hundredths at most. Below a
    residual of 1e-4 there are no local minima, and they may differ by a half.
    """
    best = sorted(end.residual for end in ends)
    if len(best) < several:
        return False
    apart = _LOW_SAME_SQUARED if best[several - 1] < _LOW else min(_SAME_SQUARED, _APART * share)
    return best[several - 1] <= best[0] * math.sqrt(1 + apart)


def at_noise_level(end: Iterate, held_out: HeldOut, *, share: float) -> bool:
    """Whether held-out examples have the residual of the fitted ones, up to the reduction by fitting.

    For noise of variance 1, a fit has the squared residual 1 - `share` on fitted examples and 1 + excess on others.
    With many examples, the excess equals the share. At four counting floors, up to 3.3 times the share was measured.
    """
    ratio = _HELD_OUT_RATIO if end.residual > _LOW else _LOW_HELD_OUT_RATIO
    return held_out.error(end.layer) < ratio * math.sqrt((1 + 4 * share) / (1 - share)) * end.residual


def fitted_share(
    x: Float[np.ndarray, "n k d"], heads: int, rank: int | None = None, *, biases: bool = False
) -> float:
    """Unknowns over equations, p / (n k d): the share by which a fit reduces squared white noise; at most 1/2."""
    _, k, d = x.shape
    count = unknowns(heads=heads, tokens=k, dim=d, rank=rank, biases=biases) if heads else 0
    return min(count / x.size, _MOST_SHARE)


def noise_level(residual: float, y: Float[np.ndarray, "n k d"], share: float) -> float:
    """The standard deviation of the noise on an entry of a label, from the relative residual at the minimum.

    |Y - F(X)|^2 has expectation s^2 (n k d - p) there, to leading order in s.
    """
    return residual * float(np.linalg.norm(y)) / math.sqrt(y.size * (1 - share))


def depends_on_tokens(x: Float[np.ndarray, "n k d"], residual: Float[np.ndarray, "n k d"]) -> bool:
    """Whether the residual R = Y - F(X) is a function of the tokens, in part, and so not noise of the labels.

    Notes
    -----
    For features phi, the sum of <phi_i, phi_j> over pairs i != j of examples has the mean zero if the R_i are noise: a
    flip of the sign of each R_i leaves its law as it is, and gives the standard error (derived here). No fit is needed,
    so a few hundred examples tell, far fewer than fit one more head. The features are sum_a r_a for missing biases;
    X^T R; sum_a x_a ⊗ r_a ⊗ C with C the covariance of the tokens of an example, which is all that a head's output
    depends on to first order in its logits; and all x_a ⊗ r_a for a mask, whose rows see other tokens. O(n^2 d^2), from
    at most 1000 examples, one of each orbit.
    """
    d = x.shape[2]
    first = np.sort(np.unique(orbits(x), return_index=True)[1])[: min(_MOST_COMPARED, _MOST_NUMBERS // d**2)]
    x, residual = x[first], residual[first]
    centred = x - x.mean(axis=1, keepdims=True)
    covariance = np.matrix_transpose(centred) @ centred
    residual = residual / np.abs(residual).max(initial=1e-300)
    linear = _inner_products(np.matrix_transpose(x) @ residual)
    parts = (
        _inner_products(residual.sum(axis=1)),
        linear,
        linear * _inner_products(covariance - covariance.mean(axis=0)),
        sum(_inner_products(x[:, a]) * _inner_products(residual[:, a]) for a in range(x.shape[1])),
    )
    for part, most in zip(parts, _DEPENDS, strict=True):
        np.fill_diagonal(part, 0.0)
        if part.sum() > most * math.sqrt(2 * np.sum(part**2)):
            return True
    return False


def _inner_products(features: np.ndarray) -> Float[np.ndarray, "n n"]:
    rows = features.reshape(len(features), -1)
    return rows @ rows.T


def needs_biases(
    x: Float[np.ndarray, "n k d"],
    residual: float,
    without: float,
    *,
    heads: int,
    rank: int | None,
    tolerance: float,
) -> bool:
    """Whether examples need biases, from the relative residuals of the same heads fitted with them and without.

    Not if the heads alone reach the tolerance, and not if biases take less of the squared residual than Schwarz's
    criterion (BIC) asks for their number, log N units of white noise each for N labels. Below a residual of 1e-4, noise
    is rounding, such as to float32, which is not white: it gives biases up to a few hundredths, and they need a third.
    """
    if without <= tolerance:
        return False
    if without < _LOW:
        return without**2 > (1 + _LOW_SAME_SQUARED) * residual**2
    _, k, d = x.shape
    counts = [unknowns(heads=heads, tokens=k, dim=d, rank=rank, biases=biases) for biases in (True, False)]
    return x.size * 2 * math.log(without / max(residual, EXACT_ERROR)) > (counts[0] - counts[1]) * math.log(
        x.size
    )


def with_key_bias(theta: Any, key_bias: Any) -> Float[np.ndarray, "m e d"]:
    """The start at attention matrices Theta_i; with biases, each has c_i as a last row."""
    start = to_numpy(theta).astype(np.float64)
    return start if key_bias is None else np.concatenate([start, to_numpy(key_bias)[:, None]], axis=1)


def cost_of_each_head(
    x: Float[np.ndarray, "n k d"], heads: Iterate | AttentionLayer
) -> Float[np.ndarray, " m"]:
    """The growth of the squared residual if a head is dropped and the other projections are refitted, for each head.

    `x` are the fitted examples, and the projections W_i are a least-squares fit. With Z = [P_1 X ... P_m X] and
    H = (Z^T Z)^-1, the growth is tr(W_i^T (H_ii)^-1 W_i), the Wald statistic of linear regression. It is zero for
    W_i = 0 and for Theta_i = Theta_j. With biases, Z has a column of ones. O(n k (m d)^2 + (m d)^3).
    """
    m, d, _ = heads.w.shape
    _, read = read_tokens(x, heads.theta, heads.key_bias, causal=heads.causal)
    if heads.key_bias is not None:
        read = np.pad(read, ((0, 0), (0, 1)), constant_values=1.0)
    gram = read.T @ read
    # equal heads make it singular; with this ridge, the cost of each of them is zero up to rounding
    ridge = 1e-12 * np.trace(gram) / len(gram) or 1.0
    blocks = np.linalg.inv(gram + ridge * np.eye(len(gram)))[: m * d, : m * d].reshape(m, d, m, d)
    each = np.stack([blocks[i, :, i, :] for i in range(m)])
    return np.einsum("iab,iab->i", heads.w, np.linalg.solve(each, heads.w))
