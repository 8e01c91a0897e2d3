"""Learn linear attention by regression: what the examples determine, its heads, and Adam for comparison."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from arena.formats import aligned, as_plain, plural
from attention import relative_error
from studies.line_figure import Panel
from studies.rows import number_text
from upper.linear_attention import (
    FeatureMoments,
    LinearAttention,
    feature_count,
    fit_heads,
    heads_of_tensor,
    regress,
    train_linear_attention,
)
from upper.linear_attention.by_gradient import GradientFit
from upper.linear_attention.heads import HeadsFound
from upper.linear_attention.regression import CubicRegression

__all__ = ["LinearLearned", "learn_linear"]

Unseen = tuple[Float[np.ndarray, "M l d"], Float[np.ndarray, "M p"]]

_HELD_OUT_SHARE = 10
_MOST_FEATURES = 800  # with more, heads and the curve of errors take longer than the regression
_EXACT = 1e-9  # a relative residual this small is rounding
_TOLERANCE = 1e-7  # relative distance of heads from coefficients without noise


@dataclass(frozen=True, eq=False)
class LinearLearned:
    """The result of learning linear attention from examples.

    Attributes
    ----------
    source : str
        The origin of the examples.
    noise : float
        Standard deviation of the noise added to the training labels, relative to the size of the labels.
    against : str
        What the unseen labels are: "model" for exact labels, or "labels" for given labels, which may have noise.
    fresh : int
        The number of unseen examples.
    regression, seconds : CubicRegression, float
        The tensor with its rank, and the seconds of the regression.
    error : float
        Relative error on the unseen examples; the absolute error if their labels are all zero.
    heads : HeadsFound or None
        The tensor as heads, if requested and tried.
    heads_error, heads_seconds : float or None, float
        Relative error of the model with these heads on the same unseen examples, and the seconds of finding them.
    by_gradient : tuple of (GradientFit, float)
        Each fit by Adam, and its relative error on the same unseen examples.
    curve : tuple of (int, float)
        Number of examples and relative error, for regressions on fewer examples.
    seed : int
        Seed of every random choice.
    """

    source: str
    noise: float
    against: str
    fresh: int
    regression: CubicRegression
    seconds: float
    error: float
    heads: HeadsFound | None
    heads_error: float | None
    heads_seconds: float
    by_gradient: tuple[tuple[GradientFit, float], ...]
    curve: tuple[tuple[int, float], ...]
    seed: int

    @property
    def verdict(self) -> str:
        """What the examples determine, in a sentence."""
        features, rank = len(self.regression.coefficients), self.regression.rank
        if rank == features:
            return f"Determined: the examples have the full rank {features}, and no other model fits them as well."
        return (
            f"Determined in part: the examples have rank {rank} of {features}. `linear certify` tells where."
        )

    @property
    def model(self) -> LinearAttention:
        """The model with the heads found; if none were sought, the model of the coefficients, with up to d^2 heads."""
        if self.heads is not None:
            return self.heads.model
        return heads_of_tensor(self.regression.tensor, average=self.regression.average)

    def __str__(self) -> str:
        found = self.regression
        rows = [
            (f"error on {self.fresh} unseen {self.against}", number_text(self.error)),
            (f"residual on {found.examples} examples", number_text(found.residual)),
            ("solved by", f"{found.method}, in {self.seconds:.2f} s"),
        ]
        if self.heads is not None:
            rows += [("heads", str(self.heads)), ("error of these heads", number_text(self.heads_error))]
        for fit, error in self.by_gradient:
            took = f"{number_text(error)} in {fit.seconds:.1f} s"
            rows.append((f"Adam, {plural(fit.model.heads, 'head')}", took))
        return f"Linear attention, {self.source}\n{self.verdict}\n{aligned(rows, left=2)}"

    def panels(self) -> dict[str, Panel]:
        """The figures by file name: the error by number of examples, the distance by number of heads."""
        panels = {}
        if self.curve:
            sizes, errors = zip(*self.curve, strict=True)
            curves = {"least squares of least norm": (sizes, errors)}
            rank = (self.regression.rank,)
            panels["learning"] = Panel("examples", "relative error", curves, verticals=rank)
        if self.heads is not None and len(self.heads.tried) > 1:
            numbers, tails = zip(*self.heads.tried, strict=True)
            panels["heads"] = Panel("heads", "relative distance", {"best found": (numbers, tails)})
        return panels

    def to_json(self) -> dict[str, Any]:
        """As JSON values; what is not finite is None."""
        found, heads = self.regression, self.heads
        told: dict[str, Any] = {
            name: getattr(self, name) for name in ("source", "verdict", "seconds", "noise", "seed")
        }
        told |= {name: getattr(found, name) for name in ("examples", "dim", "rank", "condition", "residual")}
        told |= {
            "outputs": found.coefficients.shape[1],
            "features": len(found.coefficients),
            "determined": found.unique,
            "method": found.method,
            "unseen_examples": self.fresh,
            "unseen_error": self.error,
            "unseen_against": self.against,
            "heads": None,
            "by_gradient": [
                {"heads": fit.model.heads, "seconds": fit.seconds, "steps": fit.steps, "unseen_error": error}
                for fit, error in self.by_gradient
            ],
            "curve": [{"examples": n, "unseen_error": error} for n, error in self.curve],
        }
        if heads is not None:
            names = ("tolerance", "tail", "lower_bound", "exact", "tried")
            told["heads"] = {"number": heads.heads} | {name: getattr(heads, name) for name in names}
            told["heads"] |= {"unseen_error": self.heads_error, "seconds": self.heads_seconds}
        return as_plain(told)


def learn_linear(
    x: Float[np.ndarray, "N n d"],
    y: Float[np.ndarray, "N p"],
    *,
    unseen: Unseen | None = None,
    source: str = "given examples",
    noise: float = 0.0,
    average: bool = False,
    method: Any = "auto",
    least_norm: bool = False,
    heads: bool = True,
    number_of_heads: int | None = None,
    tolerance: float | None = None,
    adam_steps: int = 0,
    adam_heads: tuple[int, ...] = (),
    seed: int = 0,
    on_step: Callable[[str], None] = lambda words: None,
) -> LinearLearned:
    """Learn linear attention from examples, measure the error on unseen ones, and find its heads.

    Parameters
    ----------
    x, y, average, method, least_norm
        As for `upper.linear_attention.regress`.
    unseen : pair of arrays, optional
        Examples to measure on, their labels without noise. By default some of the given examples are held out: a
        tenth, or the number by which examples exceed features, and at least one.
    source, noise
        The origin of the examples and the noise of their labels, for the record.
    heads : bool
        Whether to write the tensor as few heads; skipped above 800 features, or if the rank is not full.
    number_of_heads : int, optional
        How many heads; by default as few as possible.
    tolerance : float, optional
        Relative distance allowed between heads and tensor; by default 1e-7. For noisy labels the default is a quarter
        more than the standard error of the coefficients.
    adam_steps, adam_heads : int, tuple of int
        Steps of Adam for a comparison in the same run, 0 for none, and the numbers of heads that it trains.
    seed : int
        Seed of every random choice.
    on_step : callable, optional
        Called with a few words after each piece of work.

    Raises
    ------
    ValueError, ImportError
        As `regress` and `fit_heads`; if Adam is asked for and torch is not installed.
    """
    rng = np.random.default_rng([seed, 1])
    against, features = "model", feature_count(x.shape[-1])
    if unseen is None:
        number = max(1, min(len(x) // _HELD_OUT_SHARE, len(x) - features))
        order, against = rng.permutation(len(x)), "labels"
        held, kept = order[:number], np.sort(order[number:])
        unseen, x, y = (x[held], y[held]), x[kept], y[kept]
    if len(x) < features and not least_norm:
        raise ValueError(
            f"There are {len(x)} examples and {features} features: give at least {features}"
            + (f", and {len(unseen[0])} to be held out" if against == "labels" else "")
            + ", or ask for the solution of least norm (--least-norm)."
        )
    began = time.perf_counter()
    found = regress(x, y, method=method, least_norm=least_norm, average=average)
    seconds = time.perf_counter() - began
    on_step("regression")
    heads_found, heads_error, heads_seconds = None, None, 0.0
    if heads and features <= _MOST_FEATURES and found.unique:
        allowed = _standard_error(found, x, y) if tolerance is None else tolerance
        began = time.perf_counter()
        heads_found = fit_heads(found, heads=number_of_heads, tolerance=allowed, rng=rng)
        heads_seconds = time.perf_counter() - began
        heads_error = _error(heads_found.model, unseen)
        on_step("heads")
    by_gradient = []
    for number in adam_heads if adam_steps else ():
        fit = train_linear_attention(x, y, heads=number, steps=adam_steps, average=average, rng=rng)
        by_gradient.append((fit, _error(fit.model, unseen)))
        on_step(f"Adam, {plural(number, 'head')}")
    curve = _curve(x, y, unseen, average) if features <= _MOST_FEATURES else ()
    on_step("curve")
    return LinearLearned(
        source=source,
        noise=noise,
        against=against,
        fresh=len(unseen[0]),
        regression=found,
        seconds=seconds,
        error=_error(found, unseen),
        heads=heads_found,
        heads_error=heads_error,
        heads_seconds=heads_seconds,
        by_gradient=tuple(by_gradient),
        curve=curve,
        seed=seed,
    )


def _standard_error(found: CubicRegression, x: np.ndarray, y: np.ndarray) -> float:
    """The default tolerance of heads: a quarter more than the relative standard error of the coefficients."""
    rows, features = found.examples, len(found.coefficients)
    if found.residual < _EXACT or rows <= features:
        return _TOLERANCE
    moments = FeatureMoments(features, 1)
    moments.add(x, np.zeros((len(x), 1)), average=found.average)
    inverse = float(np.sum(1 / np.linalg.eigvalsh(moments.gram())))
    variance = found.residual**2 * float(np.vdot(y, y)) / (rows - features)  # of all outputs together
    own = float(np.sqrt(variance * inverse) / np.linalg.norm(found.coefficients))
    return min(0.5, max(_TOLERANCE, 1.25 * own))


def _error(predict: Callable[[np.ndarray], Any], unseen: Unseen) -> float:
    """The relative error; the absolute error if all labels are zero."""
    x, y = unseen
    predicted = np.asarray(predict(x))
    return relative_error(predicted, y) if np.any(y) else float(np.sqrt(np.mean(predicted**2)))


def _curve(x: np.ndarray, y: np.ndarray, unseen: Unseen, average: bool) -> tuple[tuple[int, float], ...]:
    """The error of regressions on the first examples, by their number."""
    features = feature_count(x.shape[-1])
    shares = (0.125, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)
    sizes = {max(1, round(share * features)) for share in shares} | {features - 1, len(x)}
    return tuple(
        (n, _error(regress(x[:n], y[:n], least_norm=True, average=average), unseen))
        for n in sorted(sizes)
        if 1 <= n <= len(x)
    )
