"""Phase 6 of practical mode: a fit within the span in place of the net, then Newton iterates on all parameters.

The span holds Theta_i = sum_j C_ij B_j: the coordinates C are fitted from a few simplices.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from attention import AttentionLayer, ExampleOracle, Outcome, Recorder
from attention._arrays import namespace
from attention.evaluation import Verdict
from attention.inputs import Rng
from attention.validation import PositiveInt, checked, random_generator
from upper.engine import Engine
from upper.floor import LayerClass, counting_floor
from upper.newton.full_heads import NO_PRIOR, FullHeads
from upper.newton.loop import Iterate, gauss_newton
from upper.newton.problem import Problem, draw_split
from upper.newton.starts import Patience, Start, StartRules, Stopping, last_iterate, run_starts
from upper.six_phase.common import PhaseFailedError
from upper.six_phase.phase5_span import AttentionSpan


@checked
def fit_in_span(
    x: Float[np.ndarray, "n k d"],
    y: Float[np.ndarray, "n k d"],
    basis: Float[np.ndarray, "m d d"],
    *,
    starts: PositiveInt = 4,
    work: PositiveInt | None = None,
    rng: Rng = None,
) -> tuple[Iterate, int]:
    """Minimise |Y - F(X)| over Theta_i = sum_j C_ij B_j, the W_i by least squares.

    Parameters
    ----------
    x, y : array (n, k, d)
        Examples, more than 2 m d / k.
    basis : array (m, d, d)
        The B_j, orthogonal and of equal norm; the last points to the expected centre of the heads.
    starts : int
        The largest number of starts. The search ends at the first one with a relative residual below 1/100.
    work : int, optional
        Budget in passes over the examples, shared by all starts; a started step is finished.

    Returns
    -------
    Iterate
        The best final iterate of all starts, with the passes of all starts.
    int
        The number of starts used.

    Raises
    ------
    ValueError
        If the shapes do not match, or logits overflow at the start.

    Notes
    -----
    A start is a randomly rotated regular simplex around the centre: orthogonal heads of equal norm form such a simplex.
    Heads of a start have at least the norm of a random start of `upper.Newton`, since the ridge would hide nearly equal
    heads. With more than two heads, local minima occur. A pass costs O(n k m d (d + 2 k) + m^2 d^2).
    """
    rng = random_generator(rng)
    # the norm of the heads of a start, on tokens of root mean square 1
    size = float(np.linalg.norm(basis)) * float(np.mean(x**2))
    if 0 < size < 1:
        basis = basis / size
    budget = math.inf if work is None else work
    # the residual of a poor span stays large, and falls slowly to the end
    patience = Patience(10, 0.98, slow_below=0.0)
    ends: list[Iterate] = []
    passes = 0
    while not ends or (len(ends) < starts and passes < budget):
        start = SpanHeads(basis, _simplex(len(basis), rng))
        stopping = Stopping(1e-14, budget - passes, patience)
        ends.append(last_iterate(gauss_newton(x, y, start, tolerance=stopping.tolerance, rng=rng), stopping))
        passes += ends[-1].passes
        if ends[-1].residual < 0.01:  # the span explains the labels
            break
    best = min(ends, key=attrgetter("residual"))
    return replace(best, passes=passes), len(ends)


class SpanHeads(FullHeads):
    """The heads Theta_i = sum_j C_ij B_j; parameters and directions are C^T, (p, m).

    There are m p unknowns in place of m d^2. A pass costs O(m p d^2) more than one of `FullHeads`.

    Parameters
    ----------
    basis : array (p, d, d)
        The B_j, orthogonal and of equal norm.
    coordinates : array (m, p)
        The C to start from.
    """

    def __init__(self, basis: Shaped[Any, "p d d"], coordinates: Shaped[Any, "m p"]) -> None:
        xp, (p, d, _) = namespace(basis), basis.shape
        super().__init__(xp.reshape(coordinates @ xp.reshape(basis, (p, d * d)), (-1, d, d)))
        self.basis, self.coordinates = basis, coordinates

    def map(self, convert: Callable[[Any], Any]) -> "SpanHeads":
        """The same heads with `convert` applied to every array."""
        return SpanHeads(convert(self.basis), convert(self.coordinates))

    def parameters(self, engine: Engine) -> Shaped[Any, "p m"]:
        """The parameters at the start."""
        return engine.xp.matrix_transpose(engine.cast(engine.detach(self.coordinates), engine.double))

    def reads(self, parameters: Shaped[Any, "p m"]) -> Shaped[Any, "rows reads"]:
        """The reads of the heads at the coordinates `parameters`."""
        return super().reads(self._stacked(parameters))

    def times(self, direction: Shaped[Any, "p m"]) -> Shaped[Any, "rows d"]:
        """The change of the outputs along a direction of the coordinates."""
        return super().times(self._stacked(self.engine.cast(direction, self.engine.double)))

    def transpose_times(self, residual: Shaped[Any, "rows d"]) -> Shaped[Any, "p m"]:
        """The derivative of <F, R> with respect to the coordinates."""
        engine, xp, d = self.engine, self.engine.xp, self.x.shape[2]
        gradient = engine.cast(super().transpose_times(residual), engine.double)
        apart = xp.permute_dims(xp.reshape(gradient, (d, self.heads, d)), (0, 2, 1))
        return self._basis @ xp.reshape(apart, (d * d, self.heads))

    def damping_term(self, damping: float, precisions: Sequence[float] = NO_PRIOR) -> Callable[[Any], Any]:
        """The damping term of `FullHeads`, in coordinates."""
        return super().damping_term(damping * self._square, precisions)

    def preconditioner(self, damping: float, precisions: Sequence[float] = NO_PRIOR) -> Callable[[Any], Any]:
        """The preconditioner of `FullHeads`, in coordinates."""
        inverse = self._inverse_coupling(damping, precisions[0] / self._square) * (1 / self._square)
        return lambda r: r @ inverse

    def matrices(self, parameters: Shaped[Any, "p m"], linear: Shaped[Any, "reads d"]) -> tuple[Any, ...]:
        """The Theta_i and W_i."""
        return super().matrices(self._stacked(parameters), linear)

    def _reset(self) -> None:
        super()._reset()
        engine, p = self.engine, self.basis.shape[0]
        self._basis = engine.xp.reshape(engine.cast(engine.detach(self.basis), engine.double), (p, -1))
        self._square = engine.norm(self._basis) ** 2 / p

    def _stacked(self, parameters: Any) -> Any:
        xp, d = self.engine.xp, self.x.shape[2]
        each = xp.matrix_transpose(parameters) @ self._basis
        return xp.reshape(xp.permute_dims(xp.reshape(each, (-1, d, d)), (1, 0, 2)), (d, -1))


def _simplex(m: int, rng: np.random.Generator) -> Float[np.ndarray, "m m"]:
    """The m corners of a randomly rotated regular simplex around the centre, in span coordinates."""
    if m == 1:
        return np.ones((1, 1))
    from scipy.stats import ortho_group

    centred = np.eye(m) - 1 / m
    # coordinates of the corners within their hyperplane
    flat = np.linalg.svd(centred)[0][:, : m - 1] * np.sqrt(m)
    turn = ortho_group.rvs(m - 1, random_state=rng) if m > 2 else np.ones((1, 1))
    scale = np.sqrt(m - 1) / np.linalg.norm(flat, axis=1).max()
    return np.concatenate([scale * flat @ turn, np.ones((m, 1))], axis=1)


@dataclass(frozen=True, eq=False)
class FittedHeads:
    """The best fit, the verdict on it, and whether Newton found it."""

    layer: AttentionLayer
    verdict: Verdict
    by_newton: bool


def fit_heads(
    oracle: ExampleOracle,
    span: AttentionSpan,
    *,
    examples: int,
    work: int,
    tolerance: float,
    rng: np.random.Generator,
    recorder: Recorder,
) -> FittedHeads:
    """Fit heads within the span, then run Newton from the fitted heads, and again from a perturbed start.

    A twentieth of the `examples` drawn is held out. `work` is a budget in passes over them, and `tolerance` the
    relative residual at which to stop. The steps go to the recorder.

    A PhaseFailedError if fewer than two examples are left.

    There is no guarantee. If two starts end at the same residual, on held-out examples too, it is noise and not a local
    minimum. The heads within the span stay in the comparison: for nearly equal heads, the loss by Newton's ridge can
    exceed the gain of its steps.
    """
    m, k, d = len(span.basis), oracle.tokens, oracle.dim
    if examples < 2:
        raise PhaseFailedError(Outcome.EXAMPLES_SPENT, "no example is left to fit the heads to.")
    floor = counting_floor(heads=m, tokens=k, dim=d)
    split = draw_split(oracle, examples, least=min(floor, examples - 1))
    within, tried = fit_in_span(split.x, split.y, split.scale**2 * span.scaled_basis, work=work, rng=rng)
    recorder.step(
        "fit within the span",
        phase=6,
        layer=split.layer(within),
        phase_examples=split.drawn,
        residual=within.residual,
        starts=tried,
        passes=within.passes,
    )

    def starts() -> Iterator[Start]:
        yield Start("Newton polish", FullHeads(within.layer.theta))
        size = np.linalg.norm(within.layer.theta, axis=(1, 2), keepdims=True)
        # half the norm of a head
        away = 0.5 * size / d * rng.standard_normal(within.layer.theta.shape)
        yield Start("Newton polish from a perturbed start", FullHeads(within.layer.theta + away))

    problem = Problem(split, LayerClass(), tolerance, rng, recorder=recorder, phase=6)
    ends = run_starts(problem, starts(), StartRules(2), work=max(1, work - within.passes))
    best = min([within, *ends.iterates], key=attrgetter("residual"))
    ended = Outcome.WORK_SPENT if within.passes + ends.passes >= work else Outcome.LOCAL_MINIMUM
    verdict = split.judge(
        best,
        tolerance=tolerance,
        otherwise=Outcome.RESIDUAL_FLOOR if ends.at_floor else ended,
    )
    layer = split.layer(best)
    recorder.step(
        "held-out examples",
        phase=6,
        layer=layer,
        residual=best.residual,
        held_out_error=verdict.held_out_error,
    )
    return FittedHeads(layer, verdict, by_newton=best is not within)
