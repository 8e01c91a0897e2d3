"""What a fit works on: its examples, to fit and to hold out, scaled; how many heads need; the engine and the trace."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer, ExampleOracle, Outcome, Recorder, draw_examples
from attention._arrays import to_numpy
from attention.evaluation import HeldOut, Verdict, which_held_out
from attention.memory import require_memory
from upper.engine import Engine, EngineName, engine_at_size
from upper.floor import LayerClass
from upper.newton.full_heads import Heads
from upper.newton.loop import Iterate, Run
from upper.newton.noise import depends_on_tokens
from upper.newton.whitening import Whitening, needed_whitening


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

    def judge(self, best: Iterate, *, tolerance: float, otherwise: Outcome) -> Verdict:
        """The verdict by the held-out examples; a residual at the floor is noise if it is no function of the tokens."""
        verdict = self.held_out.verdict(
            best.layer,
            fitted=best.residual,
            tolerance=tolerance,
            otherwise=otherwise,
            converged=not best.improving,
        )
        whole = self.together()
        if verdict.outcome is not Outcome.RESIDUAL_FLOOR or depends_on_tokens(
            whole.x, whole.y - best.layer(whole.x)
        ):
            return verdict
        return Verdict(Outcome.NOISE_FLOOR, verdict.held_out_error)

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
        """The layer of an iterate, for tokens and labels in their original units."""
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
    centred: bool | None = None,
) -> SplitExamples:
    """Draw examples until there are `n`; hold out a twentieth of the new ones, but leave at least `least` to fit.

    Examples drawn `before` stay fitted or held out, and keep their units. If they are enough, nothing is drawn. The
    first tokens drawn decide whether all are whitened, about their mean if `centred`; None never whitens. If the oracle
    has held-out examples, these are taken and all drawn ones are fitted.
    """
    lent = getattr(oracle, "held_out", None)
    if before is None:
        none = np.empty((0, oracle.tokens, oracle.dim))
        before = SplitExamples(none, none, none, none, unit=0.0, scale=0.0)
    if before.drawn and n <= before.drawn:
        return before
    x, y = draw_examples(oracle, n - before.drawn)
    unit = before.unit or float(np.abs(y).max())
    whitening = before.whitening
    if not before.drawn and centred is not None:
        whitening = needed_whitening(x, centred=centred)
    x = x if whitening is None else whitening(x)
    scale = before.scale or (_root_mean_square(x) if whitening is None else 1.0)
    x, y = x / scale, y / (unit or 1.0)
    if lent is None:
        held = which_held_out(x, least=least, before=(before.x, before.x_held) if before.drawn else None)
        x_held, y_held = (
            np.concatenate(both) for both in ((before.x_held, x[held]), (before.y_held, y[held]))
        )
        x, y = x[~held], y[~held]
    else:
        x_held = (lent[0] if whitening is None else whitening(lent[0])) / scale
        y_held = lent[1] / (unit or 1.0)
    x, y = np.concatenate([before.x, x]), np.concatenate([before.y, y])
    return SplitExamples(x, y, x_held, y_held, unit, scale, whitening, lent is not None)


def _root_mean_square(x: np.ndarray) -> float:
    largest = float(np.abs(x).max())
    return largest * float(np.sqrt(np.mean((x / largest) ** 2))) if largest > 0 else 1.0


@dataclass(frozen=True, eq=False)
class Supply:
    """Where examples come from, and how many there are for a number of heads."""

    oracle: ExampleOracle
    known: LayerClass  #: what is known of the layer: it gives the counting floor
    floors: int  #: how many counting floors are drawn if there is no budget
    budget: int | None  #: how many examples are drawn in all

    def most_heads(self) -> int:
        """The most heads, up to 2 d, for which the budget is above the floor and gives two equations per unknown."""
        k, d = self.oracle.tokens, self.oracle.dim
        most = 2 * d
        while self.budget is not None and most > 1:
            enough = 2 * self.known.unknowns(most, k, d) <= self.budget * k * d
            if enough and self.known.floor(most, k, d) < self.budget:
                break
            most -= 1
        return most

    def draw(self, heads: int, before: SplitExamples | None = None) -> SplitExamples:
        """Examples for so many heads, those drawn before among them."""
        floor = self.known.floor(heads, self.oracle.tokens, self.oracle.dim)
        n = max(self.floors * floor if self.budget is None else self.budget, floor + 1)
        return self._drawn(heads, n, floor, before)

    def twice(self, heads: int, before: SplitExamples) -> SplitExamples:
        """The examples drawn before, and as many others."""
        return self._drawn(heads, 2 * before.drawn, len(before.x), before)

    def _drawn(self, heads: int, n: int, least: int, before: SplitExamples | None) -> SplitExamples:
        k, d = self.oracle.tokens, self.oracle.dim
        require_memory(
            f"Newton with {heads} heads on {n} examples of {k} tokens in {d} dimensions",
            # x and y twice; for every head, the pattern, its reads and the derivatives of both
            8 * n * k * (6 * d + 2 * heads * (k + d)) + 64 * heads * d**2,
            advice="allow fewer examples, or take fewer heads",
        )
        return draw_split(self.oracle, n, least=least, before=before, centred=self.known.biased)


@dataclass(frozen=True, eq=False)
class Problem:
    """What runs of Gauss-Newton work on."""

    examples: SplitExamples  #: examples to fit, and held-out ones
    known: LayerClass  #: what is known of the layer besides its number of heads
    tolerance: float  #: the relative residual at which a run ends
    rng: np.random.Generator  #: draws random starts, and the probes of runs
    engine_name: EngineName = "numpy"  #: where to compute: the library, and its device
    device: str | None = None
    recorder: Recorder | None = None  #: records every iterate
    phase: int | None = None  #: the phase of the recorded steps
    everywhere: bool = True  #: whether held-out examples must reach the tolerance, too
    ends_overfitted: bool = False  #: whether a run ends where it overfits: it can go on with more examples

    def engine(self, heads: int) -> Engine:
        """The engine for so many heads."""
        x = self.examples.x
        return engine_at_size(self.engine_name, self.device, x.size * heads * x.shape[2])

    def share(self, heads: int) -> float:
        """Unknowns over equations, p / (n k d): the share of squared white noise that fitting so many heads takes."""
        x = self.examples.x
        # with fewer than two equations per unknown, the residual carries no information on the noise
        return min(self.known.unknowns(heads, *x.shape[1:]) / x.size, 0.5)

    def iterates(self, start: Heads, *, priors: bool = False) -> Iterator[Iterate]:
        """The iterates of a run from a start."""
        engine, (x, y) = self.engine(start.heads), (self.examples.x, self.examples.y)
        run = Run(engine, engine.put(x), engine.put(y), start.map(engine.put), self.rng)
        return run.iterates(self.tolerance, priors=priors)

    def recorded(self, iterates: Iterable[Iterate], name: str) -> Iterator[Iterate]:
        """The same iterates, each recorded as a step of this name and its number."""
        for number, iterate in enumerate(iterates):
            self.record(f"{name}, iterate {number}", iterate)
            yield iterate

    def record(self, name: str, iterate: Iterate, **measures: Any) -> None:
        """Record an iterate as a step of the trace, with more measures."""
        if self.recorder is None:
            return
        layer = self.examples.layer(iterate) if self.recorder.measuring else None
        own = {"residual": iterate.residual, "damping": iterate.damping, "passes": iterate.passes} | measures
        self.recorder.step(name, layer=layer, phase=self.phase, engine=iterate.engine, **own)
