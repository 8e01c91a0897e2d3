"""Runs from one start after another on the same examples, until one is exact or several end in one minimum."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Any

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer, ExampleOracle, draw_examples
from attention._arrays import to_numpy
from attention.evaluation import EXACT_ERROR, HeldOut, which_held_out
from upper.newton.loop import Iterate
from upper.newton.stopping import (
    PATIENCE,
    Patience,
    at_noise_level,
    fitted_share,
    last_iterate,
    same_residual,
)
from upper.products import read_tokens

__all__ = ["Ends", "Runner", "SplitExamples", "cost_of_each_head", "draw_split"]

# So many starts at one residual are taken for a floor. Two may share a local minimum: 1 of 16 did at six coordinates.
_AGREEING = 3
# At a floor a few more iterates of the best run take less than this off. Runs with many heads are all slow at first,
# and alike; then they go on with more patience.
_FEW, _NO_LOWER = 5, 0.98
_MORE_PATIENCE = Patience(20, 0.98)
# The share of the residual below which a redrawn head counts: another minimum at the level of the noise has less.
_BETTER = 0.9


@dataclass(frozen=True, eq=False)
class SplitExamples:
    """Examples to fit and examples held out, tokens and labels in units of their own.

    Attributes
    ----------
    x, y : array (n, k, d)
        To fit.
    x_held, y_held : array (h, k, d)
        Held out.
    unit : float
        What the labels were divided by, the largest of them, so that their squares stay within the floats.
    scale : float
        What the tokens were divided by, their root mean square, so that starts are random of one size.
    """

    x: Float[np.ndarray, "n k d"]
    y: Float[np.ndarray, "n k d"]
    x_held: Float[np.ndarray, "h k d"]
    y_held: Float[np.ndarray, "h k d"]
    unit: float
    scale: float = 1.0

    @property
    def drawn(self) -> int:
        """All examples, fitted or held out."""
        return len(self.x) + len(self.x_held)

    @property
    def held_out(self) -> HeldOut:
        """Those held out, and which inputs they are held out from."""
        return HeldOut(self.x_held, self.y_held, self.x)

    def together(self) -> "SplitExamples":
        """All examples to fit, and the same ones held out as before."""
        x, y = np.concatenate([self.x, self.x_held]), np.concatenate([self.y, self.y_held])
        return replace(self, x=x, y=y)

    def layer(self, iterate: Iterate) -> AttentionLayer:
        """The layer of an iterate, in NumPy and in the units of tokens and labels as they were drawn."""
        theta, w = to_numpy(iterate.theta), to_numpy(iterate.w)
        return AttentionLayer(theta=theta / self.scale / self.scale, w=w * (self.unit / self.scale))

    def scaled(self, layer: AttentionLayer) -> AttentionLayer:
        """The layer that on tokens and labels in units is what this one is on them as they were drawn."""
        theta, w = (to_numpy(part).astype(np.float64) for part in (layer.theta, layer.w))
        return AttentionLayer(theta=theta * self.scale * self.scale, w=w * (self.scale / (self.unit or 1.0)))


def draw_split(
    oracle: ExampleOracle, n: int, *, least: int, before: SplitExamples | None = None
) -> SplitExamples:
    """Examples drawn until there are `n`, a twentieth of those new held out, and no fewer than `least` to fit.

    Examples drawn `before` keep their place and their units; nothing is drawn where they are enough.

    Raises
    ------
    ValueError
        If the oracle's examples are malformed.
    """
    new = n - (0 if before is None else before.drawn)
    if new <= 0 and before is not None:
        return before
    x, y = draw_examples(oracle, new)
    unit = (before.unit if before is not None else 0.0) or float(np.abs(y).max())
    scale = before.scale if before is not None else _root_mean_square(x)
    x, y = x / scale, y / (unit or 1.0)
    held = which_held_out(x, least=least, before=None if before is None else (before.x, before.x_held))
    fresh = SplitExamples(x[~held], y[~held], x[held], y[held], unit, scale)
    if before is None:
        return fresh
    joined = {
        name: np.concatenate([getattr(before, name), getattr(fresh, name)])
        for name in ("x", "y", "x_held", "y_held")
    }
    return SplitExamples(**joined, unit=unit, scale=scale)


def _root_mean_square(x: np.ndarray) -> float:
    largest = float(np.abs(x).max())
    return largest * float(np.sqrt(np.mean((x / largest) ** 2))) if largest > 0 else 1.0


@dataclass(frozen=True, eq=False)
class Ends:
    """Where the runs from several starts ended.

    Attributes
    ----------
    iterates : tuple of Iterate
        One a start, the smallest residual first; their arrays are NumPy's.
    passes : int
        Passes over the examples, of all starts together.
    at_floor : bool
        Whether the three best (of two starts both) ended at the same residual, and held-out examples have it too: the
        labels are noisy at that level, or the student is too small.
    """

    iterates: tuple[Iterate, ...]
    passes: int
    at_floor: bool

    @property
    def best(self) -> Iterate:
        """The end with the smallest residual."""
        return self.iterates[0]


@dataclass(frozen=True, eq=False)
class Runner:
    """How to run from starts.

    Parameters
    ----------
    iterates : callable
        Maps x, y, a start and the tolerance to the iterates of a run from it, of any array library.
    start : callable
        Maps examples, a number of heads and the number of the start, from 1, to a start for `iterates`; number 0 is for
        heads that are added to others.
    tolerance : float
        Relative residual at which to stop.
    patience : Patience
        When a run counts as stalled.
    held_out_too : bool
        Whether a run at the tolerance goes on until held-out examples are there too.
    resume : callable, optional
        Maps an iterate to a start there. With it, starts that agree are a floor only if the best of them has come to
        rest; otherwise it goes on, and the starts after it are given more patience, too.
    """

    iterates: Callable[[Any, Any, Any, float], Iterator[Iterate]]
    start: Callable[[SplitExamples, int, int], Any]
    tolerance: float
    patience: Patience = PATIENCE
    held_out_too: bool = True
    resume: Callable[[Iterate], Any] | None = None

    def one(
        self,
        examples: SplitExamples,
        start: Any,
        *,
        unknowns: int,
        work: int,
        tell: Callable[[int, Iterate], None] = lambda number, iterate: None,
    ) -> Iterate:
        """The end of the run from one start, with NumPy's arrays (see `upper.newton.stopping.last_iterate`).

        Parameters
        ----------
        examples : SplitExamples
            Those to fit are fitted; those held out only say whether a tolerance is reached.
        start : object
            Where to begin, as `iterates` takes it.
        unknowns : int
            How many numbers a fit determines.
        work : int
            Budget in passes; a trial once begun is finished.
        tell : callable
            Called with the number of the iterate, from 0, and the iterate.
        """
        end = last_iterate(
            self.iterates(examples.x, examples.y, start, self.tolerance),
            tolerance=self.tolerance,
            work=work,
            tell=tell,
            share=fitted_share(unknowns, examples.x),
            patience=self.patience,
            reached=lambda iterate: self._reached(iterate, examples),
        )
        return replace(end, theta=to_numpy(end.theta), w=to_numpy(end.w))

    def several(
        self,
        examples: SplitExamples,
        heads: int,
        *,
        unknowns: int,
        starts: int,
        work: int,
        tell: Callable[[int, int, Iterate], None],
    ) -> Ends:
        """The ends of runs from at most `starts` starts: fewer once one is exact, three agree, or work is spent.

        `tell` is called with the number of the start, that of the iterate, and the iterate; the others are as in `one`.
        """
        share = fitted_share(unknowns, examples.x)
        ends: list[Iterate] = []
        spent, at_floor, runner = 0, False, self
        several = max(2, min(starts, _AGREEING))
        while len(ends) < starts and spent < work and not at_floor:
            number = len(ends) + 1
            told = partial(tell, number)
            start = self.start(examples, heads, number)
            ends.append(runner.one(examples, start, unknowns=unknowns, work=work - spent, tell=told))
            spent += ends[-1].passes
            ends.sort(key=attrgetter("residual"))
            if self._exact(ends[0], examples):
                break
            at_floor = same_residual(ends, share=share, several=several) and at_noise_level(
                ends[0], examples.held_out, share=share
            )
            if at_floor and self.resume is not None and runner is self and spent < work:
                resumed = self.resume(ends[0])
                passes, rests = self._rests(examples, resumed, ends[0].residual)
                spent += passes
                if not rests and spent < work:
                    runner, at_floor = replace(self, patience=_MORE_PATIENCE), False
                    ends[0] = runner.one(examples, resumed, unknowns=unknowns, work=work - spent, tell=told)
                    spent += ends[0].passes
                    if self._exact(ends[0], examples):
                        break
        return Ends(tuple(ends), spent, at_floor)

    def redraw_weakest(
        self,
        examples: SplitExamples,
        ends: Ends,
        *,
        unknowns: int,
        work: int,
        tell: Callable[[int, Iterate], None],
    ) -> Ends:
        """The ends, after the weakest head began anew on what the others leave, while it helps; starts are matrices.

        Random starts all fit the strong heads first, so that at a head a thousand times weaker their residuals agree as
        at the level of noise. `work` includes the passes of `ends`. At most m runs.
        """
        share = fitted_share(unknowns, examples.x)
        for _ in range(len(ends.best.theta) if len(ends.best.theta) > 1 else 0):
            if not ends.at_floor or ends.passes >= work:
                break
            theta, w = ends.best.theta, ends.best.w
            others = np.arange(len(theta)) != np.argmin(cost_of_each_head(examples.x, theta, w))
            left = examples.y - AttentionLayer(theta=theta[others], w=w[others])(examples.x)
            start = np.concatenate([theta[others], self.start(replace(examples, y=left), 1, 0)])
            again = self.one(examples, start, unknowns=unknowns, work=work - ends.passes, tell=tell)
            passes = ends.passes + again.passes
            if again.residual > _BETTER * ends.best.residual:
                return replace(ends, passes=passes)
            still = at_noise_level(again, examples.held_out, share=share)
            ends = Ends((again, *ends.iterates), passes, still)
        return ends

    def _rests(self, examples: SplitExamples, start: Any, residual: float) -> tuple[int, bool]:
        """The passes of a few iterates from there, and whether they leave the residual about where it was."""
        passes = 0
        for iterate in islice(self.iterates(examples.x, examples.y, start, self.tolerance), 1 + _FEW):
            passes = iterate.passes
            if iterate.residual < _NO_LOWER * residual:
                return passes, False
        return passes, True

    def _exact(self, end: Iterate, examples: SplitExamples) -> bool:
        if end.residual < EXACT_ERROR:
            return True
        return end.residual <= self.tolerance and self._reached(end, examples)

    def _reached(self, iterate: Iterate, examples: SplitExamples) -> bool:
        if not self.held_out_too:
            return True
        layer = AttentionLayer(theta=to_numpy(iterate.theta), w=to_numpy(iterate.w))
        return examples.held_out.error(layer) <= max(self.tolerance, EXACT_ERROR)


def cost_of_each_head(
    x: Float[np.ndarray, "n k d"], theta: Float[np.ndarray, "m d d"], w: Float[np.ndarray, "m d d"]
) -> Float[np.ndarray, " m"]:
    """By how much the squared residual grows when a head is dropped and the other projections are refitted.

    `x` are the examples fitted, and the projections `w` a least-squares fit. With Z = [P_1 X ... P_m X] and
    H = (Z^T Z)^-1 it is tr(W_i^T (H_ii)^-1 W_i), the Wald statistic of linear regression: zero for W_i = 0 and for
    Theta_i = Theta_j. O(n k (m d)^2 + (m d)^3).
    """
    m, d, _ = theta.shape
    _, read = read_tokens(x, theta)
    gram = read.T @ read
    # equal heads make it singular; with this ridge the cost of either is then zero up to rounding
    ridge = 1e-12 * np.trace(gram) / len(gram) or 1.0
    blocks = np.linalg.inv(gram + ridge * np.eye(len(gram))).reshape(m, d, m, d)
    each = np.stack([blocks[i, :, i, :] for i in range(m)])
    return np.einsum("iab,iab->i", w, np.linalg.solve(each, w))
