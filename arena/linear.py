"""Learn linear attention by regression: what the examples determine, its heads, and Adam for comparison."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from arena.formats import aligned, plural
from arena.learned import Learned
from arena.learner_table import LEARNERS
from arena.records import LearnerRecord
from attention import Fit, GaussianInputs, Outcome, relative_error
from attention.files import read_array
from attention.memory import require_memory
from attention.validation import NonNegativeFloat, NonNegativeInt, PositiveInt, checked
from studies.line_figure import Panel
from studies.rows import number_text
from upper.linear_attention import (
    FeatureMoments,
    LinearAttention,
    feature_count,
    fit_heads,
    heads_of_tensor,
    load_linear_attention,
    make_linear_attention,
    regress,
    train_linear_attention,
)
from upper.linear_attention.heads import HeadsFound
from upper.linear_attention.least_squares import require_feature_memory
from upper.linear_attention.regression import CubicRegression

_HELD_OUT_SHARE, _FRESH = 10, 1000
_MOST_FEATURES = 800  # with more, heads and the curve of errors take longer than the regression
_EXACT = 1e-9  # a relative residual this small is rounding
_TOLERANCE = 1e-7  # relative distance of heads from coefficients without noise
_SHARES = (0.125, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)  # of the features, for the curve
_OF_REGRESSION = ("examples", "dim", "rank", "condition", "residual", "method")
_OF_HEADS = ("tolerance", "tail", "lower_bound", "exact", "tried")


@dataclass(frozen=True, eq=False)
class LinearFound:
    """What a regression found of linear attention: the `Fit.details` of `learn_linear`."""

    regression: CubicRegression  #: the tensor with its rank
    seconds: float  #: of the regression
    heads: HeadsFound | None  #: the tensor as heads; None above 800 features, or if the rank is not full
    heads_error: float | None  #: relative error of the model with these heads on the same unseen examples
    by_gradient: tuple[tuple[Fit, float], ...]  #: each fit by Adam, and its error on the same examples
    curve: tuple[tuple[int, float], ...]  #: number of examples and error, for regressions on fewer examples

    @property
    def model(self) -> LinearAttention:
        """The model with the heads found; if there are none, the model of the coefficients, with up to d^2 heads."""
        if self.heads is not None:
            return self.heads.model
        return heads_of_tensor(self.regression.tensor, average=self.regression.average)

    @property
    def explanation(self) -> str:
        """What the examples determine, how it was found, and its heads, as lines of text."""
        regression, features = self.regression, len(self.regression.coefficients)
        verdict = (
            f"Determined in part: the examples have rank {regression.rank} of {features}, as certify shows."
        )
        if regression.unique:
            verdict = f"Determined: the examples have the full rank {features}, and no other model fits them as well."
        rows = [
            (f"residual on {regression.examples} examples", number_text(regression.residual)),
            ("solved by", regression.method),
        ]
        if self.heads is not None:
            rows.append(("heads", str(self.heads)))
            rows.append(("error of these heads", number_text(self.heads_error or 0.0)))
        for fit, error in self.by_gradient:
            cost = f"{number_text(error)} in {fit.seconds:.1f} s"
            rows.append((f"Adam, {plural(fit.details.heads, 'head')}", cost))
        return "\n  ".join([verdict, *aligned(rows, left=2).splitlines()])

    def panels(self) -> dict[str, Panel]:
        """The figures by file name: the error by number of examples, the distance by number of heads."""
        panels = {}
        if self.curve:
            curves, rank = {"least squares of least norm": self.curve}, (self.regression.rank,)
            panels["learning"] = Panel("examples", "relative error", curves, verticals=rank)
        if self.heads is not None and len(self.heads.tried) > 1:
            panels["heads"] = Panel("heads", "relative distance", {"best found": self.heads.tried})
        return panels

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        regression, heads = self.regression, self.heads
        features, outputs = regression.coefficients.shape
        found: dict[str, Any] = {name: getattr(regression, name) for name in _OF_REGRESSION}
        found |= {"seconds": self.seconds, "features": features, "outputs": outputs}
        found |= {"determined": regression.unique, "heads": None}
        if heads is not None:
            found["heads"] = {"number": heads.heads, "error": self.heads_error}
            found["heads"] |= {name: getattr(heads, name) for name in _OF_HEADS}
        found["by_gradient"] = [
            {"heads": fit.details.heads, "seconds": fit.seconds, "error": error}
            | {"steps": fit.trace[-1].measures["steps"]}
            for fit, error in self.by_gradient
        ]
        return found | {"curve": [{"examples": n, "error": error} for n, error in self.curve]}


@dataclass(frozen=True, eq=False)
class _Examples:
    """Examples to learn from, others to measure on, and the model behind them."""

    source: str
    x: Float[np.ndarray, "N n d"]
    y: Float[np.ndarray, "N p"]
    unseen: tuple[Float[np.ndarray, "M l d"], Float[np.ndarray, "M p"]]
    model: LinearAttention | None = None  #: None of given examples, of which `unseen` is a part

    @property
    def average(self) -> bool:
        return self.model is not None and self.model.average

    def error(self, predict: Callable[[np.ndarray], Any]) -> float:
        """The relative error on the unseen examples; the absolute error if all labels are zero."""
        x, y = self.unseen
        predicted = np.asarray(predict(x))
        return relative_error(predicted, y) if np.any(y) else float(np.sqrt(np.mean(predicted**2)))


@checked
def learn_linear(
    source: str | Path | tuple[str | Path, str | Path] | None = None,
    *,
    dim: PositiveInt | None = None,
    heads: PositiveInt | None = None,
    tokens: PositiveInt | None = None,
    examples: PositiveInt | None = None,
    noise: NonNegativeFloat | None = None,
    adam: NonNegativeInt = 0,
    seed: NonNegativeInt = 0,
) -> Learned:
    """Learn linear attention from examples, measure the error on unseen ones, and find its heads.

    `upper.linear_attention` has each step as a function with more options.

    Parameters
    ----------
    source : path or two paths, optional
        A model of linear attention to learn; or examples, the tokens (N, n, d) and the labels (N, p), as .npy or
        safetensors, of which a tenth is held out, or as many as exceed the features. By default a random model.
    dim : int, optional
        Dimension d of the random model; by default 8.
    heads : int, optional
        Heads H of the random model; by default 4. With given examples: the heads that Adam trains.
    tokens : int, optional
        Gaussian tokens per sequence; by default 10.
    examples : int, optional
        Examples; by default 2 D, twice the number of features.
    noise : float, optional
        Standard deviation of Gaussian noise on the labels, relative to the labels' own size.
    adam : int
        Steps of Adam, which also trains heads on the same examples: as many as the model has, and twice as many.
    seed : int
        Seed of every random choice.

    Returns
    -------
    Learned
        `Fit.details` is a `LinearFound`.

    Raises
    ------
    ValueError, ImportError
        If a setting is out of range or of no use, there are fewer examples than features; if Adam is asked for and
        torch is not installed.

    Examples
    --------
    >>> learned = learn_linear(dim=3, heads=1, tokens=4)
    >>> learned.fit.outcome.name, learned.fit.details.heads.heads
    ('EXACT', 1)
    """
    drawn = {"dim": dim, "tokens": tokens, "examples": examples, "noise": noise}
    if isinstance(source, tuple):
        if unused := [name for name, value in drawn.items() if value is not None]:
            raise ValueError(f"{unused[0]} is for what is drawn at random: leave it out with given examples.")
        given = _given(*source, seed)
        if adam and heads is None:
            raise ValueError("Examples do not say how many heads Adam is to train: give heads a number.")
    else:
        rng = np.random.default_rng([seed, 0])
        if source is None:
            require_feature_memory(feature_count(dim or 8))
            model = make_linear_attention(heads=heads or 4, dim=dim or 8, rng=rng)
        elif dim is None and heads is None:
            model = load_linear_attention(source)
        else:
            raise ValueError("dim and heads are for what is drawn at random: leave them out with a model.")
        given = _drawn(model, rng, tokens or 10, examples, noise or 0.0)
    x, y, features, average = given.x, given.y, feature_count(given.x.shape[-1]), given.average
    if len(x) < features:
        held = f", and {len(given.unseen[0])} to be held out" if given.model is None else ""
        raise ValueError(
            f"There are {len(x)} examples and {features} features: give at least {features}{held}, or take the "
            "solution of least norm by upper.linear_attention.regress(x, y, least_norm=True)."
        )
    rng, began = np.random.default_rng([seed, 1]), time.perf_counter()
    regression = regress(x, y, average=average)
    seconds = time.perf_counter() - began
    found, few = None, features <= _MOST_FEATURES
    if few and regression.unique:
        found = fit_heads(regression, tolerance=_standard_error(regression, x, y), rng=rng)
    numbers = (given.model.heads, 2 * given.model.heads) if given.model is not None else (heads or 1,)
    trained = []
    for number in numbers if adam else ():
        fit = train_linear_attention(x, y, heads=number, steps=adam, average=average, rng=rng)
        trained.append((fit, given.error(fit.predict)))
    error, exact = given.error(regression), regression.residual < _EXACT
    outcome = Outcome.NOISE_FLOOR if noise else Outcome.BEST_OF_CLASS
    if exact:
        outcome = Outcome.EXACT if error < _EXACT else Outcome.OVERFITTED
    details = LinearFound(
        regression,
        seconds,
        found,
        None if found is None else given.error(found.model),
        tuple(trained),
        _curve(given, features) if few else (),
    )
    entry = LEARNERS["linear-attention"]
    return Learned(
        LearnerRecord(entry.name, entry.title, entry.guarantee, {"average": average}),
        seed,
        Fit(regression, None, outcome, len(x), seconds, held_out_error=error, details=details),
        given.source,
        measures={"held_out_error" if given.model is None else "error": error},
        data={"unseen_examples": len(given.unseen[0]), "noise": noise or 0.0},
    )


def _drawn(
    model: LinearAttention, rng: np.random.Generator, tokens: int, number: int | None, noise: float
) -> _Examples:
    number = number or 2 * feature_count(model.dim)
    require_memory(f"The labels of {number} examples", 8 * number * model.outputs)
    inputs = GaussianInputs(tokens, model.dim)
    x = inputs.sample(number, rng=rng)
    y = np.asarray(model(x))
    if noise:
        y = y + noise * np.sqrt(np.mean(y**2)) * rng.standard_normal(y.shape)
    unseen = inputs.sample(_FRESH, rng=rng)
    source = f"{model!r} on gaussian tokens" + (f", noise {noise:g}" if noise else "")
    return _Examples(source, x, y, (unseen, np.asarray(model(unseen))), model)


def _given(tokens: str | Path, labels: str | Path, seed: int) -> _Examples:
    x, y = (np.asarray(read_array(path), dtype=float) for path in (tokens, labels))
    y = y[:, None] if y.ndim == 1 else y  # one output
    if x.ndim != 3 or y.ndim != 2 or len(x) < 2 or len(x) != len(y):
        raise ValueError(
            f"{tokens} has shape {x.shape} and {labels} {y.shape}: (N, n, d) and (N, p) are needed, with the same N, "
            "at least two."
        )
    number = max(1, min(len(x) // _HELD_OUT_SHARE, len(x) - feature_count(x.shape[-1])))
    order = np.random.default_rng([seed, 1]).permutation(len(x))
    held, fitted = order[:number], np.sort(order[number:])
    return _Examples(f"{len(x)} examples from {tokens}", x[fitted], y[fitted], (x[held], y[held]))


def _curve(given: _Examples, features: int) -> tuple[tuple[int, float], ...]:
    """The error of regressions on the first examples, by their number."""
    x, y = given.x, given.y
    sizes = {max(1, round(share * features)) for share in _SHARES} | {features - 1, len(x)}
    return tuple(
        (n, given.error(regress(x[:n], y[:n], least_norm=True, average=given.average)))
        for n in sorted(sizes)
        if 1 <= n <= len(x)
    )


def _standard_error(regression: CubicRegression, x: np.ndarray, y: np.ndarray) -> float:
    """The tolerance of heads: a quarter more than the relative standard error of the coefficients."""
    rows, features = regression.examples, len(regression.coefficients)
    if regression.residual < _EXACT or rows <= features:
        return _TOLERANCE
    moments = FeatureMoments(features, 1)
    moments.add(x, np.zeros((len(x), 1)), average=regression.average)
    inverse = float(np.sum(1 / np.linalg.eigvalsh(moments.gram())))
    variance = regression.residual**2 * float(np.vdot(y, y)) / (rows - features)  # of all outputs together
    error = float(np.sqrt(variance * inverse) / np.linalg.norm(regression.coefficients))
    return min(0.5, max(_TOLERANCE, 1.25 * error))
