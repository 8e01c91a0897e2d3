"""Levenberg-Marquardt of another library, optimistix, on the same residual as Newton, from the same kind of start."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from attention import AttentionLayer, ExampleOracle, Fit, Outcome, Recorder, draw_examples
from attention.evaluation import hold_out
from attention.learning import LearnerBase
from upper import counting_floor

MISSING = (
    "optimistix is not installed, so its Levenberg-Marquardt does not run: pip install jax optimistix lineax."
)
# conjugate-gradient steps an iterate; 10 took longer to 1e-12 and 40 stalled at (2, 2, 32)
_INNER = 20
_MOST_ITERATES = 400
_ROUNDING = 1e-13


def has_referee() -> bool:
    """Whether the libraries are installed."""
    return all(find_spec(name) is not None for name in ("jax", "lineax", "optimistix"))


@dataclass(frozen=True)
class OptimistixLM(LearnerBase):
    """`optimistix.LevenbergMarquardt` with matrix-free conjugate gradients of lineax, on all of Theta and W jointly.

    Products are in float64, on one thread. With W eliminated, as Newton does, automatic differentiation goes through
    the regression, and an iterate takes several times as long (measured).
    """

    m: int
    examples: int | None = None

    def compile(self, k: int, d: int) -> None:
        """Compile for the default number of examples, which then counts in no fit."""
        n = self._default(k, d)
        _compiled(self.m, n - n // 20, k, d)

    def _default(self, k: int, d: int) -> int:
        return 4 * counting_floor(heads=self.m, tokens=k, dim=d)

    def _learn(
        self, oracle: ExampleOracle, recorder: Recorder, budget: int | None, rng: np.random.Generator
    ) -> Fit:
        k, d = oracle.tokens, oracle.dim
        (x, y), held = hold_out(*draw_examples(oracle, budget or self._default(k, d)))
        begin, step = _compiled(self.m, len(x), k, d)
        state = begin(rng.standard_normal((self.m, d, d)) / d, x, y)
        layer, residual = AttentionLayer(*np.zeros((2, self.m, d, d))), 1.0
        for iterate in range(1, _MOST_ITERATES + 1):
            layer, residual, state = step(state)
            recorder.step(
                f"Iterate {iterate}", layer=layer if recorder.measuring else None, residual=residual
            )
            if residual < _ROUNDING:
                break
        verdict = held.verdict(layer, fitted=residual, tolerance=_ROUNDING, otherwise=Outcome.LOCAL_MINIMUM)
        recorder.step("End", layer=layer, residual=residual, held_out_error=verdict.held_out_error)
        return recorder.fit(verdict, layer=layer)


@lru_cache
def _compiled(m: int, n: int, k: int, d: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The start of a run, and a step of it, compiled for this shape."""
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")  # one thread, like the others
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import lineax as lx
    import optimistix as optx

    jax.config.update("jax_enable_x64", True)
    inner = lx.Normal(lx.CG(rtol=0.0, atol=0.0, max_steps=_INNER))
    solver: Any = optx.LevenbergMarquardt(rtol=0.0, atol=0.0, linear_solver=inner)

    def read(theta: Any, x: Any) -> Any:
        stacked = jnp.transpose(theta, (1, 0, 2)).reshape(d, m * d)
        queries = (x.reshape(n * k, d) @ stacked).reshape(n, k * m, d)
        return (jax.nn.softmax(queries @ jnp.swapaxes(x, 1, 2), -1) @ x).reshape(n * k, m * d)

    def residual(at: Any, given: Any) -> Any:
        (theta, w), (x, y) = at, given
        return y - read(theta, x) @ w, None

    @eqx.filter_jit
    def advance(at: Any, given: Any, state: Any) -> Any:
        at, state, _ = solver.step(residual, at, given, {}, state, frozenset())
        return at, state, jnp.linalg.norm(state.f_info.residual)

    def begin(theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> Any:
        flat = y.reshape(n * k, d)
        given = (jnp.asarray(x), jnp.asarray(flat))
        w = np.linalg.lstsq(np.asarray(read(jnp.asarray(theta), given[0])), flat, rcond=None)[0]
        at = (jnp.asarray(theta), jnp.asarray(w))
        shapes = eqx.filter_eval_shape(residual, at, given)
        state = solver.init(residual, at, given, {}, *shapes, frozenset())
        return at, given, state, float(np.linalg.norm(flat)) or 1.0

    def step(run: Any) -> tuple[AttentionLayer, float, Any]:
        at, given, state, unit = run
        at, state, left = advance(at, given, state)
        theta, w = (np.asarray(part) for part in at)
        return AttentionLayer(theta, w.reshape(m, d, d)), float(left) / unit, (at, given, state, unit)

    rng = np.random.default_rng(0)
    step(begin(rng.standard_normal((m, d, d)), *rng.standard_normal((2, n, k, d))))
    return begin, step
