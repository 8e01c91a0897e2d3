"""The Newton learner: exact recovery of nice layers from a few times the counting floor of examples."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from attention import AttentionLayer, ExampleOracle, Fit, GroundTruth, Outcome, Recorder, check_budget
from attention._arrays import shown
from attention.inputs import Rng
from attention.learning import Progress, require_oracle
from attention.memory import require_memory
from attention.validation import count, non_negative, random_generator
from upper._squared_error import apart
from upper._starts import Start, a_start, require_start, start_at
from upper.descents import Descents, SplitExamples, draw_split
from upper.engine import Engine, EngineName, choose_engine
from upper.floor import counting_floor
from upper.head_count import HeadCount, count_heads
from upper.newton.factors import FactoredHeads
from upper.newton.gauss_newton import Iterate, gauss_newton
from upper.verdict import LOW_RANK_PATIENCE, PATIENCE, fitted_share, judge, noise_level, unknowns
from upper.weak_heads import redraw_weakest

__all__ = ["Newton"]

# From so many multiplications a pass on, torch's bfloat16 is faster than NumPy, once it is imported.
_WORTH_TORCH = 1 << 23
# Singular values of the cross-moments to look at.
_DIRECTIONS = 16
# What starts need, in counting floors: all unknowns of the matrices at once, and factors of low rank.
_FLOORS, _LOW_RANK_FLOORS = 4, 8


@dataclass(frozen=True)
class Newton:
    """Damped Gauss-Newton on all parameters: W eliminated by least squares, Theta from one start after another.

    Parameters
    ----------
    m : int or "auto"
        Heads of the student. "auto" finds how many: from a guess by the spectrum of the cross-moments it grows and
        prunes students, as `upper.head_count.count_heads` says; each number of heads tried is a step of the trace.
    examples : int, optional
        Budget in examples; by default four times the counting floor, with "auto" that of the most heads tried, drawn as
        they are needed, and eight times that of a given rank; of examples that are given, all. A twentieth of them is
        held out to tell an exact layer from an overfitted one, and fitted too in the end if the labels are noisy; all
        starts share the same
        examples.
    work : int
        Budget in passes over the examples, shared by all starts; a trial once begun is finished.
    starts : int
        At most so many starts; one that stalls in a local minimum is followed by the next. With "auto" at
        most two for each number of heads.
    tolerance : float
        Relative residual on the fitted examples at which to stop.
    start : "random", "spectral" or AttentionLayer
        Where to begin: at random heads; in the span of the heads that cross-moments of the examples show (see
        `upper.spectral`); or at the attention matrices of a layer, for example another learner's. Should that fail, the
        second start is the spectral one, unless it was the first, a rank is given or heads are counted; all others are
        random.
    rank : int, optional
        The rank of every Theta_i and W_i, where it is known to be low, as in transformers: heads are then sought as
        Theta_i = A_i B_i^T, W_i = V_i O_i, with fewer unknowns and so a lower counting floor (see
        `upper.newton.low_rank_heads`).
    engine : "auto", "numpy" or "torch"
        Whose arrays to compute with. "auto" is torch for larger problems, where it is installed and the processor
        multiplies bfloat16, and else NumPy.
    device : str, optional
        A device of torch to compute on, for example "cuda".

    Raises
    ------
    ValueError
        If a parameter is out of range, or a rank is given with an unknown number of heads; on `fit` if the examples
        are fewer than the counting floor, the layer to start from is of another shape, or the rank is above d.
    ImportError
        On `fit`, if torch is asked for and not installed.

    Notes
    -----
    Measured, not proved: on nice random layers a start at four times the floor ends at rounding error 17 to 20 times
    of 20, in about 12 iterates and 600 passes; each pass costs O(n k m d (d + 2 k)). With many heads on many tokens
    random starts fail there, and the spectral one does not: at (12, 16, 64) and (16, 32, 64) random ones were .55 to
    .6 from the labels when they were given up, and the spectral one was exact, in about 400 passes. Its cross-moments
    take 16 to 60 products with m + 8 directions, which are not counted as passes. On hard instances it ends in a
    local minimum, as it must. A start is Theta ~ N(0, (1/d)^2), half the scale of the nice layers, with W by least
    squares, on tokens in units of their root mean square. A twentieth of the examples is held out, copies of inputs
    together.

    With noise of standard deviation s on the labels a descent ends when the steps to come would take off less than
    a hundredth of what fitting takes off the noise, and three that end at the same residual are evidence of noise
    (`Outcome.RESIDUAL_FLOOR`). The last step of the trace then has ``noise_level``, the estimate of s, and
    ``expected_excess``, s^2 p / (N k d) with p unknowns, 2 m d^2 without a rank: the squared error of the layer
    itself on an entry of a clean label, to first order in p / (N k d). The estimator is that of least squares. Its
    error is 1.6 to 2.9 times that at four times the counting floor, as the covariance of least squares at the
    target says too, and within 1.2 times it from about twenty floors on, averaged over
    targets (measured). Noise of half the size of the labels adds to it at four floors, where the model is not linear
    over the spread of the estimate: up to 3.5 times.

    References
    ----------
    Derived here; see `upper.newton.gauss_newton`.

    Examples
    --------
    >>> from attention import BooleanInputs, ExampleOracle, make_nice_layer
    >>> layer = make_nice_layer(heads=2, dim=8, rng=0)
    >>> fit = Newton(m=2).fit(ExampleOracle(layer, BooleanInputs(k=3, d=8), rng=1), rng=2)
    >>> fit.outcome.name, fit.examples_used
    ('EXACT', 44)
    """

    m: int | Literal["auto"]
    examples: int | None = None
    work: int = 20_000
    starts: int = 10
    tolerance: float = 1e-14
    start: Start = "random"
    rank: int | None = None
    engine: EngineName = "auto"
    device: str | None = None

    def __post_init__(self) -> None:
        counts = ["work", "starts"]
        if isinstance(self.m, str) and self.m != "auto":
            raise ValueError(f"m is {self.m!r}: a number of heads, or 'auto', is needed.")
        for name in counts if isinstance(self.m, str) else ["m", *counts]:
            object.__setattr__(self, name, count(name, getattr(self, name)))
        if self.examples is not None:
            object.__setattr__(self, "examples", count("examples", self.examples, least=0))
        if self.rank is not None:
            object.__setattr__(self, "rank", count("rank", self.rank))
            if isinstance(self.m, str):
                raise ValueError(
                    f"m is 'auto' and rank {self.rank}: "
                    "heads of a given rank are not counted; give their number, or no rank."
                )
        object.__setattr__(self, "tolerance", non_negative("tolerance", self.tolerance))
        for name, words in (("start", ("random", "spectral")), ("engine", ("auto", "numpy", "torch"))):
            value = getattr(self, name)
            if name == "start" and isinstance(value, AttentionLayer):
                continue
            if not isinstance(value, str) or value not in words:
                layer = " or a layer" if name == "start" else ""
                raise ValueError(f"{name} is {value!r}: one of {', '.join(words)}{layer} is needed.")

        if self.device is not None and not isinstance(self.device, str):
            raise ValueError(
                f"device is {self.device!r}: the name of one is needed, such as 'cpu' or 'cuda'."
            )

    def minimum_examples(self, k: int, d: int) -> int:
        """The counting floor, of one head where their number is not known, and one example to hold out."""
        return self._floor(1 if self.m == "auto" else self.m, k, d) + 1

    def default_examples(self, heads: int, k: int, d: int) -> int:
        """The examples that `fit` takes for so many heads where it is given no budget of them."""
        floors = _FLOORS if self.rank is None else _LOW_RANK_FLOORS
        return floors * self._floor(heads, k, d)

    def engine_for(self, heads: int, k: int, d: int) -> Engine:
        """What `fit` computes with for so many heads, on examples of k tokens in d dimensions.

        Raises
        ------
        ValueError, ImportError
            If what is asked for is not there.
        """
        n = max(self._wanted(heads, k, d), self._floor(heads, k, d) + 1)
        return self._engine(heads, (n - n // 20, k, d))

    def fit(
        self,
        oracle: ExampleOracle,
        *,
        rng: Rng = None,
        truth: GroundTruth | None = None,
        progress: Progress | None = None,
    ) -> Fit:
        """Learn a layer of m heads from the oracle.

        Raises
        ------
        ValueError
            If the budget is below `minimum_examples`, or the oracle's examples are malformed.
        """
        require_oracle(oracle)
        require_start(self.start, self.m, oracle.d)
        # what is not there is said before any example is drawn, and importing torch, where it can be told that it will
        # be needed, is none of the learner's seconds
        self.engine_for(1 if self.m == "auto" else self.m, oracle.k, oracle.d)
        recorder = Recorder(oracle, truth=truth, progress=progress)
        budget = check_budget(self, oracle)
        random = apart(random_generator(rng))
        counting = self.m == "auto"
        descents = Descents(
            iterates=lambda x, y, theta, tolerance: self._iterates(x, y, theta, tolerance, random),
            start=lambda examples, heads, number: a_start(
                self.start, examples, heads, number, rank=self.rank, then_spectral=not counting, rng=random
            ),
            tolerance=self.tolerance,
            patience=PATIENCE if self.rank is None else LOW_RANK_PATIENCE,
            # students of too few heads end alike, too, and are told by that they do
            resume=None
            if counting
            else lambda end: start_at(AttentionLayer(theta=end.theta, w=end.w), self.rank),
        )

        def draw(heads: int, before: SplitExamples | None) -> SplitExamples:
            floor, default = (
                number(heads, oracle.k, oracle.d) for number in (self._floor, self.default_examples)
            )
            n = max(default if budget is None else budget, floor + 1)
            require_memory(
                f"{type(self).__name__} with {shown(heads)} heads on {shown(n)} examples of {oracle.k} tokens in "
                f"{oracle.d} dimensions",
                # x and y twice, and of every head the pattern, what it reads and the derivatives with both
                8 * n * oracle.k * (6 * oracle.d + 2 * heads * (oracle.k + oracle.d))
                + 64 * heads * oracle.d**2,
                advice="allow fewer examples, or take fewer heads",
            )
            return draw_split(oracle, n, least=floor, before=before)

        def tell(
            name: str, examples: SplitExamples, iterate: Iterate | None, measures: dict[str, Any]
        ) -> None:
            layer = examples.layer(iterate) if iterate is not None and recorder.measuring else None
            own: dict[str, Any] = {} if iterate is None else _measures(iterate)
            recorder.step(name, layer=layer, **own | measures)

        if self.m == "auto":
            found = count_heads(
                descents,
                draw,
                guess=lambda examples: self._guess(examples, random),
                most=_most_heads(oracle.k, oracle.d, budget),
                starts=self.starts,
                work=self.work,
                tell=tell,
            )
        else:
            found = self._fixed(self.m, descents, draw(self.m, None), tell)
        return self._ended(found, descents, recorder)

    def _fixed(self, m: int, descents: Descents, examples: SplitExamples, tell: Any) -> HeadCount:
        _, k, d = examples.x.shape
        count = unknowns(heads=m, tokens=k, dim=d, rank=self.rank)
        ends = descents.several(
            examples,
            m,
            unknowns=count,
            starts=self.starts,
            work=self.work,
            tell=lambda start, number, iterate: tell(
                f"Start {start}, iterate {number}", examples, iterate, {}
            ),
        )
        starts = len(ends.iterates)
        if self.rank is None:
            ends = redraw_weakest(
                descents,
                examples,
                ends,
                unknowns=count,
                work=self.work,
                tell=lambda number, iterate: tell(
                    f"Weakest head anew, iterate {number}", examples, iterate, {}
                ),
            )
        return HeadCount(m, ends.best, examples, ends.passes, starts, ends.at_floor)

    def _ended(self, found: HeadCount, descents: Descents, recorder: Recorder) -> Fit:
        """The fit, after what held-out examples say; at the level of the noise they are fitted too, in the end."""
        best, examples = found.best, found.examples
        outcome, held_error = judge(
            best,
            examples.held_out,
            tolerance=self.tolerance,
            spent_all=found.passes >= self.work,
            at_floor=found.at_floor,
        )
        measures: dict[str, Any] = {"starts": found.starts, "heads": found.heads}
        recorder.step(
            "Held-out examples",
            layer=examples.layer(best),
            residual=best.residual,
            held_out_error=held_error,
            total_passes=found.passes,
            **measures,
        )
        if outcome is not Outcome.RESIDUAL_FLOOR:
            return recorder.fit(outcome, layer=examples.layer(best))
        _, k, d = examples.x.shape
        count = unknowns(heads=found.heads, tokens=k, dim=d, rank=self.rank) if found.heads else 0
        examples = examples.together()
        if found.heads:
            best = descents.one(
                examples,
                start_at(AttentionLayer(theta=best.theta, w=best.w), self.rank),
                unknowns=count,
                work=max(1, self.work - found.passes),
                tell=lambda number, iterate: None,
            )
        share = fitted_share(count, examples.x)
        noise = examples.unit * noise_level(best.residual, examples.y, share)
        recorder.step(
            "Refit with the held-out examples",
            layer=examples.layer(best),
            residual=best.residual,
            noise_level=noise,
            expected_excess=noise * noise * count / examples.x.size,
            total_passes=found.passes + (best.passes if found.heads else 0),
            **measures,
        )
        return recorder.fit(outcome, layer=examples.layer(best))

    def _iterates(
        self,
        x: np.ndarray,
        y: np.ndarray,
        start: np.ndarray | FactoredHeads,
        tolerance: float,
        rng: np.random.Generator,
    ) -> Iterator[Iterate]:
        """The iterates from a start: matrices Theta, or factors where there is a rank."""
        heads = start.heads if isinstance(start, FactoredHeads) else len(start)
        engine = self._engine(heads, x.shape)
        there = start.map(engine.put) if isinstance(start, FactoredHeads) else engine.put(start)
        return gauss_newton(engine.put(x), engine.put(y), there, tolerance=tolerance, rng=rng)

    def _floor(self, heads: int, k: int, d: int) -> int:
        return counting_floor(heads=heads, tokens=k, dim=d, rank=self.rank)

    def _wanted(self, heads: int, k: int, d: int) -> int:
        return self.default_examples(heads, k, d) if self.examples is None else self.examples

    def _guess(self, examples: SplitExamples, rng: np.random.Generator) -> tuple[int, dict[str, float]]:
        if isinstance(self.start, AttentionLayer):
            return self.start.heads, {}
        if 1 in examples.x.shape[1:] or not np.any(examples.y):
            return 1, {}  # no two tokens, or directions, to compare, or nothing to explain
        from upper.spectral import cross_moment

        moment = cross_moment(
            examples.x, examples.y, directions=min(_DIRECTIONS, examples.x.shape[2] ** 2), rng=rng
        )
        values = {f"value_{number}": float(value) for number, value in enumerate(moment.values, 1)}
        return moment.head_count(), values

    def _engine(self, heads: int, shape: tuple[int, ...]) -> Engine:
        if self.engine != "auto" or self.device is not None:
            return choose_engine(self.engine, self.device)
        if math.prod(shape) * heads * shape[-1] < _WORTH_TORCH:
            return choose_engine("numpy")
        engine = choose_engine()
        # in float32 alone torch gains nothing on a CPU
        return choose_engine("numpy") if engine.low == engine.single else engine


def _most_heads(k: int, d: int, budget: int | None) -> int:
    """The most heads for which the budget has the counting floor, and two equations an unknown."""
    most = 2 * d
    while budget is not None and most > 1:
        enough = 2 * unknowns(heads=most, tokens=k, dim=d) <= budget * k * d
        if enough and counting_floor(heads=most, tokens=k, dim=d) < budget:
            break
        most -= 1
    return most


def _measures(iterate: Iterate) -> dict[str, float]:
    return {"residual": iterate.residual, "damping": iterate.damping, "passes": iterate.passes}
