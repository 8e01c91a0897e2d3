"""Learn linear attention by regression: what the examples determine, its heads, and Adam for comparison."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from arena.formats import aligned, plural
from arena.learned import Learned
from arena.learner_table import LEARNERS
from arena.records import LearnerRecord
from arena.targets import InputsName, inputs_named
from attention import Fit, Outcome, relative_error
from attention.files import read_array
from attention.memory import require_memory
from attention.validation import NonNegativeFloat, NonNegativeInt, PositiveInt, checked
from studies.line_figure import Panel
from studies.rows import number_text
from upper.linear_attention import (
    FeatureMoments,
    LinearAttention,
    feature_count,
    heads_of_tensor,
    load_linear_attention,
    make_linear_attention,
    regress,
    train_linear_attention,
)
from upper.linear_attention import fit_heads as _fit_heads
from upper.linear_attention.heads import HeadsFound, Tolerance
from upper.linear_attention.least_squares import require_feature_memory
from upper.linear_attention.regression import CubicRegression, Method

__all__ = ["LinearFound", "learn_linear"]

_HELD_OUT_SHARE, _FRESH = 10, 1000
_MOST_FEATURES = 800  # with more, heads and the curve of errors take longer than the regression
_EXACT = 1e-9  # a relative residual this small is rounding
_TOLERANCE = 1e-7  # relative distance of heads from coefficients without noise


@dataclass(frozen=True, eq=False)
class LinearFound:
    """What a regression found of linear attention: the `Fit.details` of `learn_linear`.

    Attributes
    ----------
    regression, seconds : CubicRegression, float
        The tensor with its rank, and the seconds of the regression.
    heads : HeadsFound or None
        The tensor as heads, if requested and tried.
    heads_error, heads_seconds : float or None, float
        Relative error of the model with these heads on the same unseen examples, and the seconds of finding them.
    by_gradient : tuple of (Fit, float)
        Each fit by Adam, and its relative error on the same unseen examples.
    curve : tuple of (int, float)
        Number of examples and relative error, for regressions on fewer examples.
    """

    regression: CubicRegression
    seconds: float
    heads: HeadsFound | None
    heads_error: float | None
    heads_seconds: float
    by_gradient: tuple[tuple[Fit, float], ...]
    curve: tuple[tuple[int, float], ...]

    @property
    def determined(self) -> bool:
        """Whether no other model fits the examples as well."""
        return self.regression.unique

    @property
    def model(self) -> LinearAttention:
        """The model with the heads found; if none were sought, the model of the coefficients, with up to d^2 heads."""
        if self.heads is not None:
            return self.heads.model
        return heads_of_tensor(self.regression.tensor, average=self.regression.average)

    @property
    def explanation(self) -> str:
        """What the examples determine, how it was found, and its heads, as lines of text."""
        found, features = self.regression, len(self.regression.coefficients)
        verdict = f"Determined in part: the examples have rank {found.rank} of {features}, as certify shows."
        if found.unique:
            verdict = f"Determined: the examples have the full rank {features}, and no other model fits them as well."
        rows = [(f"residual on {found.examples} examples", number_text(found.residual))]
        rows.append(("solved by", found.method))
        if self.heads is not None:
            rows += [
                ("heads", str(self.heads)),
                ("error of these heads", number_text(self.heads_error or 0.0)),
            ]
        for fit, error in self.by_gradient:
            took = f"{number_text(error)} in {fit.seconds:.1f} s"
            rows.append((f"Adam, {plural(fit.details.heads, 'head')}", took))
        return "\n  ".join([verdict, *aligned(rows, left=2).splitlines()])

    def panels(self) -> dict[str, Panel]:
        """The figures by file name: the error by number of examples, the distance by number of heads."""
        panels = {}
        if self.curve:
            curves = {"least squares of least norm": self.curve}
            rank = (self.regression.rank,)
            panels["learning"] = Panel("examples", "relative error", curves, verticals=rank)
        if self.heads is not None and len(self.heads.tried) > 1:
            panels["heads"] = Panel("heads", "relative distance", {"best found": self.heads.tried})
        return panels

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        found, heads = self.regression, self.heads
        names = ("examples", "dim", "rank", "condition", "residual", "method")
        result = {name: getattr(found, name) for name in names} | {"seconds": self.seconds}
        result |= {"features": len(found.coefficients), "outputs": found.coefficients.shape[1]}
        result |= {"determined": self.determined, "heads": None}
        if heads is not None:
            result["heads"] = {
                "number": heads.heads,
                "error": self.heads_error,
                "seconds": self.heads_seconds,
            }
            result["heads"] |= {
                name: getattr(heads, name) for name in ("tolerance", "tail", "lower_bound", "exact", "tried")
            }
        result["by_gradient"] = [
            {"heads": fit.details.heads, "seconds": fit.seconds, "error": error}
            | {"steps": fit.trace[-1].measures["steps"]}
            for fit, error in self.by_gradient
        ]
        return result | {"curve": [{"examples": n, "error": error} for n, error in self.curve]}


@dataclass(frozen=True, eq=False)
class _Examples:
    """Examples to learn from, others to measure on, and what is known of the model behind them."""

    source: str
    x: Float[np.ndarray, "N n d"]
    y: Float[np.ndarray, "N p"]
    unseen: tuple[Float[np.ndarray, "M l d"], Float[np.ndarray, "M p"]]
    model: LinearAttention | None  #: None of given examples, of which `unseen` is a part
    average: bool

    def error(self, predict: Callable[[np.ndarray], Any]) -> float:
        """The relative error on the unseen examples; the absolute error if all labels are zero."""
        x, y = self.unseen
        predicted = np.asarray(predict(x))
        return relative_error(predicted, y) if np.any(y) else float(np.sqrt(np.mean(predicted**2)))

    def curve(self) -> tuple[tuple[int, float], ...]:
        """The error of regressions on the first examples, by their number."""
        features, x, y = feature_count(self.x.shape[-1]), self.x, self.y
        shares = (0.125, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)
        sizes = {max(1, round(share * features)) for share in shares} | {features - 1, len(x)}
        return tuple(
            (n, self.error(regress(x[:n], y[:n], least_norm=True, average=self.average)))
            for n in sorted(sizes)
            if 1 <= n <= len(x)
        )


@checked
def learn_linear(
    source: str | Path | tuple[str | Path, str | Path] | None = None,
    *,
    dim: PositiveInt | None = None,
    heads: PositiveInt | None = None,
    outputs: PositiveInt | None = None,
    tokens: PositiveInt | None = None,
    inputs: InputsName | None = None,
    examples: PositiveInt | None = None,
    noise: NonNegativeFloat | None = None,
    average: bool = False,
    method: Method = "auto",
    least_norm: bool = False,
    find_heads: bool = True,
    fit_heads: PositiveInt | None = None,
    tolerance: Tolerance | None = None,
    adam: NonNegativeInt = 0,
    adam_heads: PositiveInt | None = None,
    seed: NonNegativeInt = 0,
    on_step: Callable[[str], None] = lambda step: None,
) -> Learned:
    """Learn linear attention from examples, measure the error on unseen ones, and find its heads.

    Parameters
    ----------
    source : path or two paths, optional
        A model of linear attention to learn; or examples, the tokens (N, n, d) and the labels (N, p), as .npy or
        safetensors, of which a tenth is held out, or as many as exceed the features. By default a random model.
    dim : int, optional
        Dimension d of the random model; by default 8.
    heads : int, optional
        Heads H of the random model; by default 4.
    outputs : int, optional
        Outputs p of the random model; by default d.
    tokens : int, optional
        Tokens per sequence; by default 10.
    inputs : {"boolean", "gaussian", "sphere"}, optional
        Distribution of the tokens drawn; by default gaussian.
    examples : int, optional
        Examples; by default 2 D, twice the number of features.
    noise : float, optional
        Standard deviation of Gaussian noise on the labels, relative to the labels' own size.
    average : bool
        G is the mean over the tokens instead of their sum.
    method : {"auto", "cholesky", "svd", "kernel"}
        How to solve the least squares.
    least_norm : bool
        Allow fewer examples than features: take the solution of least norm.
    find_heads : bool
        Write the coefficients as few heads; skipped above 800 features, or if the rank is not full.
    fit_heads : int, optional
        How many heads to find, instead of as few as possible.
    tolerance : float, optional
        Relative distance of coefficients within which heads count as found; by default 1e-7, or with noise a quarter
        more than the coefficients' standard error.
    adam : int
        Steps of Adam, which also trains heads on the same examples: as many as the model has, and twice as many.
    adam_heads : int, optional
        Heads that Adam trains, instead; needed with given examples.
    seed : int
        Seed of every random choice.
    on_step : callable, optional
        Called with a few words after each piece of work.

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
    if not find_heads and (fit_heads is not None or tolerance is not None):
        raise ValueError(
            "Without heads to find there is nothing for fit_heads and tolerance: leave them out."
        )
    if adam_heads is not None and not adam:
        raise ValueError("adam_heads is for adam: give it a number of steps, too.")
    made = {"dim": dim, "heads": heads, "outputs": outputs}
    drawn = {"tokens": tokens, "inputs": inputs, "examples": examples, "noise": noise}
    if isinstance(source, tuple):
        _refuse(made | drawn, "given examples are as they are")
        given = _given(*source, average=average, seed=seed)
        if adam and adam_heads is None:
            raise ValueError("Examples do not say how many heads Adam is to train: give adam_heads a number.")
    else:
        rng = np.random.default_rng([seed, 0])
        if source is None:
            require_feature_memory(feature_count(dim or 8))
            model = make_linear_attention(
                heads=heads or 4, dim=dim or 8, outputs=outputs, average=average, rng=rng
            )
        else:
            _refuse(made | {"average": average or None}, "the model is as it is")
            model = load_linear_attention(source)
        given = _drawn(model, rng, tokens or 10, inputs or "gaussian", examples, noise or 0.0)
    x, y, features = given.x, given.y, feature_count(given.x.shape[-1])
    if len(x) < features and not least_norm:
        held = f", and {len(given.unseen[0])} to be held out" if given.model is None else ""
        raise ValueError(
            f"There are {len(x)} examples and {features} features: give at least {features}{held}, or ask for the "
            "solution of least norm (least_norm)."
        )
    rng = np.random.default_rng([seed, 1])
    regression, seconds = _timed(
        lambda: regress(x, y, method=method, least_norm=least_norm, average=given.average)
    )
    on_step("regression")
    found, heads_seconds = None, 0.0
    if find_heads and features <= _MOST_FEATURES and regression.unique:
        allowed = _standard_error(regression, x, y) if tolerance is None else tolerance
        found, heads_seconds = _timed(
            lambda: _fit_heads(regression, heads=fit_heads, tolerance=allowed, rng=rng)
        )
        on_step("heads")
    trained, numbers = [], () if given.model is None else (given.model.heads, 2 * given.model.heads)
    for number in (numbers if adam_heads is None else (adam_heads,)) if adam else ():
        fit = train_linear_attention(x, y, heads=number, steps=adam, average=given.average, rng=rng)
        trained.append((fit, given.error(fit.predict)))
        on_step(f"Adam, {plural(number, 'head')}")
    curve = given.curve() if features <= _MOST_FEATURES else ()
    on_step("curve")
    error, exact = given.error(regression), regression.residual < _EXACT
    outcome = Outcome.NOISE_FLOOR if noise else Outcome.BEST_OF_CLASS
    if exact:
        outcome = Outcome.EXACT if error < _EXACT else Outcome.OVERFITTED
    heads_error = None if found is None else given.error(found.model)
    details = LinearFound(regression, seconds, found, heads_error, heads_seconds, tuple(trained), curve)
    entry = LEARNERS["linear-attention"]
    settings = {"method": method, "least_norm": least_norm, "average": given.average}
    data = {"unseen_examples": len(given.unseen[0]), "noise": noise or 0.0}
    return Learned(
        LearnerRecord(entry.name, entry.title, entry.guarantee, settings),
        seed,
        Fit(regression, None, outcome, len(x), seconds, held_out_error=error, details=details),
        given.source,
        measures={"held_out_error" if given.model is None else "error": error},
        data=data,
    )


def _drawn(
    model: LinearAttention,
    rng: np.random.Generator,
    tokens: int,
    inputs: str,
    number: int | None,
    noise: float,
) -> _Examples:
    number = number or 2 * feature_count(model.dim)
    require_memory(f"The labels of {number} examples", 8 * number * model.outputs)
    distribution = inputs_named(inputs, tokens, model.dim)
    x = distribution.sample(number, rng=rng)
    y = np.asarray(model(x))
    if noise:
        y = y + noise * np.sqrt(np.mean(y**2)) * rng.standard_normal(y.shape)
    unseen = distribution.sample(_FRESH, rng=rng)
    source = f"{model!r} on {inputs} tokens" + (f", noise {noise:g}" if noise else "")
    return _Examples(source, x, y, (unseen, np.asarray(model(unseen))), model, model.average)


def _given(tokens: str | Path, labels: str | Path, *, average: bool, seed: int) -> _Examples:
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
    source = f"{len(x)} examples from {tokens}"
    return _Examples(source, x[fitted], y[fitted], (x[held], y[held]), None, average)


def _refuse(options: Mapping[str, Any], why: str) -> None:
    if unused := [name for name, value in options.items() if value is not None]:
        raise ValueError(f"{unused[0]} is for what is drawn at random: leave it out, {why}.")


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    return work(), time.perf_counter() - began


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
