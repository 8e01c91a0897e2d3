"""Linear attention learned from examples by regression: what the examples determine, heads, and Adam beside it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from arena.formats import as_plain, plural
from attention import relative_error
from attention.validation import count, non_negative
from studies.line_figure import Panel, number_text
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

_HELD_OUT_SHARE = 10
_CURVE_FEATURES = 700  # more, and the curve of errors takes longer than what is asked for
_HEADS_FEATURES = 800
_EXACT = 1e-9  # a relative residual that is rounding


@dataclass(frozen=True, eq=False)
class LinearLearned:
    """What was learned of linear attention from examples.

    Attributes
    ----------
    source : str
        What the examples are of.
    regression : CubicRegression
        The tensor, with its rank.
    seconds : float
        What the regression took.
    error : float
        Relative error on examples it never saw; where their labels are all zero, the error itself.
    fresh : int
        How many of them there were.
    against : str
        What their labels are: "model", exact ones, or "labels", given ones with whatever noise they have.
    noise : float
        Standard deviation of the noise that was added to the labels learned from, relative to their size.
    tolerance : float
        Relative distance of coefficients within which heads count as found.
    heads : HeadsFound or None
        The tensor as heads, where that was asked for and tried.
    heads_error : float or None
        Relative error of the model of those heads on the same unseen examples.
    heads_seconds : float
        What finding them took.
    by_gradient : tuple of (int, GradientFit, float)
        Heads, fit and relative error on the same unseen examples of what Adam trained.
    curve : tuple of (int, float)
        Examples and relative error of regressions on fewer examples.
    seed : int
        Seed of every random choice.
    """

    source: str
    regression: CubicRegression
    seconds: float
    error: float
    fresh: int
    against: str
    noise: float
    tolerance: float
    heads: HeadsFound | None
    heads_error: float | None
    heads_seconds: float
    by_gradient: tuple[tuple[int, GradientFit, float], ...]
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
        """The model of the heads found or, where none were sought, of the coefficients, with up to d^2 heads."""
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
        for number, fit, error in self.by_gradient:
            rows.append((f"Adam, {plural(number, 'head')}", f"{number_text(error)} in {fit.seconds:.1f} s"))
        width = max(len(name) for name, _ in rows)
        return "\n".join(
            [
                f"Linear attention, {self.source}",
                self.verdict,
                *(f"{name:<{width}}  {said}" for name, said in rows),
            ]
        )

    def panels(self) -> dict[str, Panel]:
        """What is drawn, by name of the file: the error by number of examples, the distance by number of heads."""
        panels = {}
        if self.curve:
            panels["learning"] = Panel(
                "examples",
                "relative error",
                {"least squares of least norm": tuple(zip(*self.curve, strict=True))},  # type: ignore[dict-item]
                verticals=(self.regression.rank,),
            )
        if self.heads is not None and len(self.heads.tried) > 1:
            tried = tuple(zip(*self.heads.tried, strict=True))
            panels["heads"] = Panel("heads", "relative distance", {"best found": tried})  # type: ignore[dict-item]
        return panels

    def to_json(self) -> dict[str, Any]:
        """As JSON values; what is not finite is None."""
        found, heads = self.regression, self.heads
        told = {
            "source": self.source,
            "examples": found.examples,
            "dim": found.dim,
            "outputs": int(found.tensor.shape[0]),
            "features": len(found.coefficients),
            "rank": found.rank,
            "determined": found.unique,
            "verdict": self.verdict,
            "condition": found.condition,
            "residual": found.residual,
            "method": found.method,
            "seconds": self.seconds,
            "unseen_examples": self.fresh,
            "unseen_error": self.error,
            "unseen_against": self.against,
            "noise": self.noise,
            "heads": None
            if heads is None
            else {
                "number": heads.heads,
                "tolerance": self.tolerance,
                "tail": heads.tail,
                "lower_bound": heads.lower_bound,
                "exact": heads.exact,
                "unseen_error": self.heads_error,
                "tried": [list(pair) for pair in heads.tried],
                "seconds": self.heads_seconds,
            },
            "by_gradient": [
                {"heads": number, "seconds": fit.seconds, "steps": fit.steps, "unseen_error": error}
                for number, fit, error in self.by_gradient
            ],
            "curve": [{"examples": n, "unseen_error": error} for n, error in self.curve],
            "seed": self.seed,
        }
        return as_plain(told)


def learn_linear(
    x: Float[np.ndarray, "N n d"],
    y: Float[np.ndarray, "N p"],
    *,
    unseen: tuple[np.ndarray, np.ndarray] | None = None,
    source: str = "given examples",
    average: bool = False,
    method: str = "auto",
    least_norm: bool = False,
    heads: bool = True,
    number_of_heads: int | None = None,
    tolerance: float | None = None,
    noise: float = 0.0,
    adam_steps: int = 0,
    adam_heads: tuple[int, ...] = (),
    seed: int = 0,
    on_step: Callable[[str], None] | None = None,
) -> LinearLearned:
    """Learn linear attention from examples, measure it on unseen ones, and find its heads.

    Parameters
    ----------
    x : array (N, n, d)
        Tokens, the last of each sequence the query.
    y : array (N, p)
        Labels.
    unseen : pair of arrays, optional
        Examples to measure on, their labels without noise; by default some of those given are held out: a tenth, or as
        many as there are more than features, one at least.
    source : str
        What the examples are of, for people.
    average : bool
        Whether G is the mean over the tokens.
    method, least_norm
        As for `upper.linear_attention.regress`.
    heads : bool
        Whether to turn the tensor into few heads; left out above 800 features, and where the rank is not full.
    number_of_heads : int, optional
        How many; by default as few as are found.
    tolerance : float, optional
        What may be left of the tensor by the heads; by default 1e-7 or, where the labels are noisy, a quarter more than
        the standard error of the coefficients.
    noise : float
        What noise the labels have, for the record.
    adam_steps : int
        Steps of Adam for the comparison in the same run; 0 for none.
    adam_heads : tuple of int
        The numbers of heads Adam trains.
    seed : int
        Seed of every random choice.
    on_step : callable, optional
        Told a few words after each piece of work.

    Returns
    -------
    LinearLearned
        What came of it.

    Raises
    ------
    ValueError
        As `regress`, before any work.
    ImportError
        If Adam is asked for and torch is not installed.

    Notes
    -----
    As `regress`, and for the heads as `fit_heads`.
    """
    adam_steps, seed = count("adam_steps", adam_steps, least=0), count("seed", seed, least=0)
    tell = (lambda words: None) if on_step is None else on_step
    rng = np.random.default_rng([seed, 1])
    against, features = "model", feature_count(x.shape[-1])
    if unseen is None:
        number = max(1, min(len(x) // _HELD_OUT_SHARE, len(x) - features))
        if len(x) - number < features and not least_norm:
            raise ValueError(
                f"{len(x)} examples are given, of which {number} is held out, and there are {features} features: give "
                f"at least {features + 1}, or ask for the solution of least norm (--least-norm)."
            )
        held = rng.permutation(len(x))[:number]
        kept = np.setdiff1d(np.arange(len(x)), held)
        unseen, x, y, against = (x[held], y[held]), x[kept], y[kept], "labels"
    elif len(x) < features and not least_norm:
        raise ValueError(
            f"There are {len(x)} examples and {features} features: give at least {features}, or ask for the solution "
            f"of least norm (--least-norm)."
        )
    began = time.perf_counter()
    found = regress(x, y, method=method, least_norm=least_norm, average=average)  # type: ignore[arg-type]
    seconds = time.perf_counter() - began
    tell("regression")
    error = _error(found, unseen)
    heads_found, heads_error, heads_seconds = None, None, 0.0
    allowed = (
        _tolerance(found, x, y)
        if tolerance is None
        else non_negative("--tolerance", tolerance, strictly=True)
    )
    if heads and features <= _HEADS_FEATURES and found.rank == features:
        began = time.perf_counter()
        heads_found = fit_heads(found, heads=number_of_heads, tolerance=allowed, rng=rng)
        heads_seconds = time.perf_counter() - began
        heads_error = _error(heads_found.model, unseen)
        tell("heads")
    by_gradient = []
    for number in adam_heads if adam_steps else ():
        fit = train_linear_attention(x, y, heads=number, steps=adam_steps, average=average, rng=rng)
        by_gradient.append((number, fit, _error(fit.model, unseen)))
        tell(f"Adam, {plural(number, 'head')}")
    curve = _curve(x, y, unseen, average) if features <= _CURVE_FEATURES else ()
    tell("curve")
    return LinearLearned(
        source=source,
        regression=found,
        seconds=seconds,
        error=error,
        fresh=len(unseen[0]),
        against=against,
        noise=noise,
        tolerance=allowed,
        heads=heads_found,
        heads_error=heads_error,
        heads_seconds=heads_seconds,
        by_gradient=tuple(by_gradient),
        curve=curve,
        seed=seed,
    )


def model_examples(
    model: LinearAttention, x: Float[np.ndarray, "N n d"], *, noise: float = 0.0, rng: Any = None
) -> Float[np.ndarray, "N p"]:
    """Labels of a model, with Gaussian noise of a standard deviation relative to the labels' own."""
    y = np.asarray(model(x))
    if noise:
        y = y + noise * np.sqrt(np.mean(y**2)) * np.random.default_rng(rng).standard_normal(y.shape)
    return y


def _tolerance(found: CubicRegression, x: np.ndarray, y: np.ndarray) -> float:
    """The least that is to be asked of heads: the standard error of the coefficients, and a quarter more."""
    rows, features = found.examples, len(found.coefficients)
    if found.residual < _EXACT or rows <= features or features > _HEADS_FEATURES or not found.unique:
        return 1e-7
    moments = FeatureMoments(features, 1)
    moments.add(x, np.zeros((len(x), 1)), average=found.average)
    inverse = float(np.sum(1 / np.linalg.eigvalsh(moments.gram())))
    variance = found.residual**2 * float(np.vdot(y, y)) / (rows - features)  # of all outputs together
    own = float(np.sqrt(variance * inverse) / np.linalg.norm(found.coefficients))
    return min(0.5, max(1e-7, 1.25 * own))


def _error(predict: Callable[[np.ndarray], Any], unseen: tuple[np.ndarray, np.ndarray]) -> float:
    """The relative error; of labels that are all zero, the error itself."""
    x, y = unseen
    predicted = np.asarray(predict(x))
    return relative_error(predicted, y) if np.any(y) else float(np.sqrt(np.mean(predicted**2)))


def _curve(
    x: np.ndarray, y: np.ndarray, unseen: tuple[np.ndarray, np.ndarray], average: bool
) -> tuple[tuple[int, float], ...]:
    features = feature_count(x.shape[-1])
    shares = (0.125, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)
    sizes = {max(1, round(share * features)) for share in shares} | {features - 1, len(x)}
    points = []
    for n in sorted(size for size in sizes if 1 <= size <= len(x)):
        found = regress(x[:n], y[:n], least_norm=True, average=average)
        points.append((n, _error(found, unseen)))
    return tuple(points)
