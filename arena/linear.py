"""Linear attention: learned by regression with its heads, and what examples determine of it on a domain."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from arena.formats import aligned, as_plain
from arena.learned import Learned
from arena.learner_table import LEARNERS
from arena.records import LearnerRecord
from attention import FileFormatError, Fit, GaussianInputs, Outcome, relative_error
from attention.files import read_array, read_arrays
from attention.memory import require_memory
from attention.validation import NonNegativeFloat, NonNegativeInt, PositiveInt, checked, count, require_array
from studies.rows import number_text
from upper.linear_attention import (
    FeatureMoments,
    LinearAttention,
    certify,
    exact_rank,
    feature_count,
    feature_moment,
    fit_heads,
    heads_of_tensor,
    load_linear_attention,
    make_linear_attention,
    population_moment,
    regress,
)
from upper.linear_attention.certificate import Certificate
from upper.linear_attention.heads import HeadsFound
from upper.linear_attention.least_squares import require_feature_memory
from upper.linear_attention.populations import POPULATIONS, token_dimension
from upper.linear_attention.regression import CubicRegression

_HELD_OUT_SHARE, _FRESH, _USUAL_TOKENS = 10, 1000, 5
_MOST_FEATURES = 800  # with more, heads take longer than the regression
_EXACT = 1e-9  # a relative residual this small is rounding
_TOLERANCE = 1e-7  # relative distance of heads from coefficients without noise
_OF_REGRESSION = ("examples", "dim", "rank", "condition", "residual", "method")
_OF_HEADS = ("tolerance", "tail", "lower_bound", "exact", "tried")
_CERTIFIED = (
    *("features", "rank", "domain_rank", "joint_rank", "deficit", "identified", "identified_everywhere"),
    *("factor", "smallest_eigenvalue", "tolerance", "gap", "margin", "borderline"),
)


@dataclass(frozen=True, eq=False)
class LinearFound:
    """What a regression found of linear attention: the `Fit.details` of `learn_linear`."""

    regression: CubicRegression  #: the tensor with its rank
    heads: HeadsFound | None  #: the tensor as heads; None above 800 features, or if the rank is not full
    heads_error: float | None  #: relative error of the model with these heads on the same unseen examples

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
        return "\n  ".join([verdict, *aligned(rows, left=2).splitlines()])

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        regression, heads = self.regression, self.heads
        features, outputs = regression.coefficients.shape
        values: dict[str, Any] = {name: getattr(regression, name) for name in _OF_REGRESSION}
        values |= {"features": features, "outputs": outputs, "determined": regression.unique, "heads": None}
        if heads is not None:
            values["heads"] = {"number": heads.heads, "error": self.heads_error}
            values["heads"] |= {name: getattr(heads, name) for name in _OF_HEADS}
        return values


@checked
def learn_linear(
    source: str | Path | tuple[str | Path, str | Path] | None = None,
    *,
    dim: PositiveInt | None = None,
    heads: PositiveInt | None = None,
    tokens: PositiveInt | None = None,
    examples: PositiveInt | None = None,
    noise: NonNegativeFloat | None = None,
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
        Heads H of the random model; by default 4.
    tokens : int, optional
        Gaussian tokens per sequence; by default 10.
    examples : int, optional
        Examples; by default 2 D, twice the number of features.
    noise : float, optional
        Standard deviation of Gaussian noise on the labels, relative to the labels' own size.
    seed : int
        Seed of every random choice.

    Returns
    -------
    Learned
        `Fit.details` is a `LinearFound`.

    Raises
    ------
    ValueError
        If a setting is out of range or of no use, or there are fewer examples than features.

    Examples
    --------
    >>> learned = learn_linear(dim=3, heads=1, tokens=4)
    >>> learned.fit.outcome.name, learned.fit.details.heads.heads
    ('EXACT', 1)
    """
    drawn = {"dim": dim, "heads": heads, "tokens": tokens, "examples": examples, "noise": noise}
    rng, model = np.random.default_rng([seed, 0]), None
    if isinstance(source, tuple):
        if unused := [name for name, value in drawn.items() if value is not None]:
            raise ValueError(f"{unused[0]} is for what is drawn at random: leave it out with given examples.")
        x, y, unseen = _given(*source, seed)
        name, measure = f"{len(x) + len(unseen[0])} examples from {source[0]}", "held_out_error"
    else:
        if source is None:
            require_feature_memory(feature_count(dim or 8))
            model = make_linear_attention(heads=heads or 4, dim=dim or 8, rng=rng)
        elif dim is None and heads is None:
            model = load_linear_attention(source)
        else:
            raise ValueError("dim and heads are for what is drawn at random: leave them out with a model.")
        x, y, unseen = _drawn(model, rng, tokens or 10, examples, noise or 0.0)
        name, measure = f"{model!r} on gaussian tokens" + (f", noise {noise:g}" if noise else ""), "error"
    features, average = feature_count(x.shape[-1]), model is not None and model.average
    if len(x) < features:
        held = f", and {len(unseen[0])} to be held out" if model is None else ""
        raise ValueError(
            f"There are {len(x)} examples and {features} features: give at least {features}{held}, or take the "
            "solution of least norm by upper.linear_attention.regress(x, y, least_norm=True)."
        )
    began = time.perf_counter()
    regression = regress(x, y, average=average)
    seconds, found, heads_error = time.perf_counter() - began, None, None
    if features <= _MOST_FEATURES and regression.unique:
        tolerance = _standard_error(regression, x, y)
        found = fit_heads(regression, tolerance=tolerance, rng=np.random.default_rng([seed, 1]))
        heads_error = _error(found.model, *unseen)
    error, outcome = _error(regression, *unseen), Outcome.NOISE_FLOOR if noise else Outcome.BEST_OF_CLASS
    if regression.residual < _EXACT:
        outcome = Outcome.EXACT if error < _EXACT else Outcome.OVERFITTED
    entry, details = LEARNERS["linear-attention"], LinearFound(regression, found, heads_error)
    return Learned(
        LearnerRecord(entry.name, entry.title, entry.guarantee, {"average": average}),
        seed,
        Fit(regression, None, outcome, len(x), seconds, held_out_error=error, details=details),
        name,
        measures={measure: error},
        data={"unseen_examples": len(unseen[0]), "noise": noise or 0.0},
    )


_Examples = tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]
"""Tokens and labels to learn from, and unseen ones."""


def _error(model: LinearAttention | CubicRegression, x: np.ndarray, y: np.ndarray) -> float:
    """The relative error on unseen examples; the absolute error if all labels are zero."""
    predicted = np.asarray(model(x))
    return relative_error(predicted, y) if np.any(y) else float(np.sqrt(np.mean(predicted**2)))


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
    return x, y, (unseen, np.asarray(model(unseen)))


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
    return x[fitted], y[fitted], (x[held], y[held])


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


@dataclass(frozen=True, eq=False)
class TokenSource:
    """Tokens of linear attention: of a population, whose exact moment is known, or of a file."""

    name: Any  #: the population, or the file
    dim: int  #: of the tokens, including the constant coordinate
    tokens: int  #: per sequence
    examples: Float[np.ndarray, "N n d"] | None = None  #: the content of the file; None for a population
    proved_rank: int | None = None  #: of the moment of a population

    def moment(self) -> Float[np.ndarray, "D D"]:
        """The mean of phi phi^T, exact for a population."""
        require_feature_memory(feature_count(self.dim))
        if self.examples is not None:
            return feature_moment(self.examples)
        return population_moment(self.name, self.dim - token_dimension(self.name, 0), self.tokens)

    def __str__(self) -> str:
        if self.examples is not None:
            return f"the {len(self.examples)} sequences of {self.tokens} tokens in {self.name}"
        return f"{self.name} tokens, {self.tokens} a sequence, by the exact moment"


@dataclass(frozen=True, eq=False)
class LinearCertified:
    """What one source of tokens determines on another."""

    data: TokenSource  #: the source of the training data
    domain: TokenSource  #: the inputs on which errors count
    certificate: Certificate  #: the verdict

    def __str__(self) -> str:
        sources = f"Learned from: {self.data}\nCared about:  {self.domain}"
        return "\n".join([sources, str(self.certificate), *self.warnings()])

    def warnings(self) -> list[str]:
        """Caveats on the verdict, as sentences."""
        certificate, examples, warned = self.certificate, self.domain.examples, []
        if examples is not None and certificate.domain_rank >= len(examples):
            warned.append(
                f"The domain is these {len(examples)} sequences and nothing else: they are independent, so that more "
                "of them may show more directions."
            )
        for source, rank in ((self.data, certificate.rank), (self.domain, certificate.domain_rank)):
            if source.proved_rank not in (None, rank):
                warned.append(
                    f"The rank of {source.name} tokens is {source.proved_rank}, and {rank} of it was found: the "
                    "eigenvalues are too far apart for the verdict to be believed."
                )
        return warned

    def to_json(self) -> dict[str, Any]:
        """As JSON values; values that are not finite are None."""
        data, domain = self.data, self.domain
        values = {
            "data": data.name,
            "domain": domain.name,
            "dim": data.dim,
            "data_rank_proved": data.proved_rank,
        }
        values |= {"data_tokens": data.tokens, "domain_tokens": domain.tokens}
        values |= {"warnings": self.warnings(), "verdict": str(self.certificate)}
        return as_plain(values | {name: getattr(self.certificate, name) for name in _CERTIFIED})


@checked
def certify_linear(
    *, data: str, domain: str, dim: PositiveInt | None = None, tokens: PositiveInt | None = None
) -> LinearCertified:
    """Certify what learning linear attention from one source of tokens determines on another.

    Parameters
    ----------
    data : str
        The training data: gaussian, sphere, boolean, boolean-constant or one-hot tokens, or a file (N, n, d), .npy or
        safetensors. If the file holds several arrays, the array x is used.
    domain : str
        The inputs on which errors count: the same choices.
    dim : int, optional
        Dimension of populations, including a constant coordinate; by default that of the file of the other.
    tokens : int, optional
        Tokens per sequence of populations; by default as in the file of the other, or 5.

    Raises
    ------
    ValueError
        If a name is neither a population nor a file, or dimensions are missing or differ.
    FileFormatError
        If a file holds something else.

    Notes
    -----
    O((N + D) D^2), with D = d^2 (d + 1)/2.
    """
    files = {name: _file_of_tokens(name) for name in (data, domain) if name not in POPULATIONS}
    if tokens is not None and len(files) == len({data, domain}):
        raise ValueError("tokens is for populations: files say themselves how many a sequence has.")
    for shape in files.values():
        dim, tokens = dim or shape.dim, tokens or shape.tokens
    if dim is None:
        raise ValueError(f"{data} tokens have no dimension of their own: give dim a number.")
    learned, cared = (
        files.get(name) or _population(name, dim, tokens or _USUAL_TOKENS) for name in (data, domain)
    )
    if learned.dim != cared.dim:
        raise ValueError(
            f"The tokens of {learned.name} have {learned.dim} dimensions and those of {cared.name} {cared.dim}: the "
            "same number is needed."
        )
    return LinearCertified(learned, cared, certify(learned.moment(), cared.moment()))


def _population(name: Any, dim: int, tokens: int) -> TokenSource:
    dim = count("dim", dim, least=token_dimension(name, 1))
    rank = exact_rank(name, dim - token_dimension(name, 0), tokens)
    return TokenSource(name, dim, tokens, proved_rank=rank)


def _file_of_tokens(name: str) -> TokenSource:
    if Path(name).suffix not in (".npy", ".safetensors"):
        raise ValueError(
            f"{name!r} is no population and no file of tokens: one of {', '.join(POPULATIONS)}, or an .npy or "
            "safetensors file is needed."
        )
    arrays = read_arrays(Path(name))
    x: Any = arrays.get("x", next(iter(arrays.values()))) if arrays else np.zeros(0)
    try:
        require_array("The array", x, ("N", "n", "d"))
    except ValueError as error:
        raise FileFormatError(f"{name}: {error}") from None
    return TokenSource(name, x.shape[2], x.shape[1], np.asarray(x, dtype=float))
