"""Random multi-head linear attention: learned exactly from D examples, whatever the number of heads."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from attention._arrays import count, non_negative, random_generator
from attention.inputs import Rng
from attention.metrics import relative_error
from upper.linear_attention.features import feature_count
from upper.linear_attention.fitted import CubicRegression
from upper.linear_attention.model import make_linear_attention
from upper.linear_attention.moments import FeatureMoments
from upper.linear_attention.regression import Method, regress, regress_moments

__all__ = [
    "NoiseRow",
    "RandomNetworkRow",
    "Solver",
    "around_the_threshold",
    "noise_row",
    "random_network_rows",
]

Solver = Method | Literal["moments"]
"""As `regress` solves, or by `regress_moments`: normal equations without the examples to correct them with."""


@dataclass(frozen=True)
class RandomNetworkRow:
    """One network learned from one number of examples.

    Attributes
    ----------
    d, heads, features, examples : int
        Dimension of the tokens, heads of the network, D and N.
    method : str
        How the regression was solved.
    rank : int
        Of the features on the examples.
    error : float
        Root of the mean squared error over that of the network's outputs, on fresh inputs.
    """

    d: int
    heads: int
    features: int
    examples: int
    method: str
    rank: int
    error: float


@dataclass(frozen=True)
class NoiseRow:
    """One network learned from noisy labels.

    Attributes
    ----------
    d, heads, features, examples, outputs : int
        Dimension of the tokens, heads of the network, D, N and p.
    noise : float
        Standard deviation s of the labels' noise.
    excess : float
        Mean squared distance to the network on fresh inputs, an output.
    predicted : float
        s^2 D / N.
    """

    d: int
    heads: int
    features: int
    examples: int
    outputs: int
    noise: float
    excess: float
    predicted: float


def around_the_threshold(features: int) -> tuple[tuple[int, Solver], ...]:
    """The numbers of examples of the experiment and their solvers: D - 1, D twice, and 4 D.

    Parameters
    ----------
    features : int
        D.

    Returns
    -------
    tuple of (examples, method)
        In increasing order; at D by singular values, and by moments alone to show what those lose.

    Raises
    ------
    ValueError
        If D is below 2.

    Notes
    -----
    O(1).

    References
    ----------
    Derived here.
    """
    features = count("features", features, least=2)
    return (features - 1, "svd"), (features, "svd"), (features, "moments"), (4 * features, "auto")


def random_network_rows(
    dims: Iterable[int],
    heads: Iterable[int],
    *,
    examples: Callable[[int], Iterable[tuple[int, Solver]]] = around_the_threshold,
    tokens: int = 10,
    test_examples: int = 1000,
    rng: Rng = None,
    progress: Callable[[RandomNetworkRow], None] | None = None,
) -> tuple[RandomNetworkRow, ...]:
    """Learn random networks on Gaussian tokens from about as many examples as there are features.

    Parameters
    ----------
    dims, heads : iterable of int
        Dimensions d and numbers H of heads; a network for each pair.
    examples : callable
        The numbers of examples and the solvers to take, of D.
    tokens : int
        Length n of the sequences, at least 2.
    test_examples : int
        Fresh inputs to measure on.
    rng : SPEC 7 generator or seed
        Where randomness comes from.
    progress : callable, optional
        Called with each row as it is found.

    Returns
    -------
    tuple of RandomNetworkRow
        By dimension, heads, examples.

    Raises
    ------
    ValueError
        If a number is out of range or D x D numbers do not fit the memory.

    Notes
    -----
    Features of Gaussian tokens are independent almost surely, so that exactly D examples determine the function,
    however many heads it has: fewer heads do not make this learner need fewer examples. Below D the solution is that
    of least norm. Gradient descent with the number of heads known gets there as well, with more time; nothing here
    says that it fails. O(N D^2) a row.

    References
    ----------
    Yau et al., arXiv 2410.10101, Theorem 2.2, has (d^4 + log 1/delta) / eps; the threshold is derived here.

    Examples
    --------
    >>> rows = random_network_rows([2], [1], test_examples=100, rng=0)
    >>> [(row.examples, row.method, row.rank, row.error < 1e-6) for row in rows]
    [(5, 'svd', 5, False), (6, 'svd', 6, True), (6, 'moments', 6, True), (24, 'cholesky', 6, True)]
    """
    dims, heads = [count("d", d) for d in dims], [count("heads", h) for h in heads]
    tokens, test_examples = count("tokens", tokens, least=2), count("test_examples", test_examples)
    generator = random_generator(rng)
    rows = []
    for d in dims:
        for h in heads:
            for row in _learned(d, h, list(examples(feature_count(d))), tokens, test_examples, generator):
                rows.append(row)
                if progress is not None:
                    progress(row)
    return tuple(rows)


def noise_row(
    *,
    d: int = 4,
    heads: int = 4,
    outputs: int | None = None,
    examples: int = 4000,
    noise: float = 0.1,
    tokens: int = 10,
    test_examples: int = 4000,
    rng: Rng = None,
) -> NoiseRow:
    """Learn a random network from labels with independent Gaussian noise: the excess error is s^2 D / N.

    Parameters
    ----------
    d, heads : int
        Dimension of the tokens and heads of the network.
    outputs : int, optional
        p; by default d.
    examples : int
        N, at least D.
    noise : float
        Standard deviation s.
    tokens, test_examples : int
        Length of the sequences, and fresh inputs to measure on.
    rng : SPEC 7 generator or seed
        Where randomness comes from.

    Returns
    -------
    NoiseRow
        The excess beside its prediction.

    Raises
    ------
    ValueError
        If a number is out of range, or there are fewer examples than features.

    Notes
    -----
    Given the examples, the expected excess is s^2 tr(Lambda (Phi^T Phi)^-1), and Phi^T Phi / N tends to Lambda: D / N
    to first order, somewhat more at finite N. O(N D^2).

    References
    ----------
    Derived here.

    Examples
    --------
    >>> row = noise_row(d=2, heads=1, examples=600, test_examples=500, rng=0)
    >>> row.features, round(row.predicted, 9), bool(abs(row.excess / row.predicted - 1) < 1)
    (6, 0.0001, True)
    """
    noise = non_negative("noise", noise)
    generator = random_generator(rng)
    model = make_linear_attention(heads=heads, dim=d, outputs=outputs, rng=generator)
    shape = count("tokens", tokens), model.dim
    x = generator.standard_normal((count("examples", examples), *shape))
    clean = model(x)
    learned = regress(x, clean + noise * generator.standard_normal(clean.shape))
    fresh = generator.standard_normal((count("test_examples", test_examples), *shape))
    excess = float(np.mean((learned(fresh) - model(fresh)) ** 2))
    features = feature_count(model.dim)
    predicted = noise**2 * features / examples
    return NoiseRow(model.dim, model.heads, features, examples, model.outputs, noise, excess, predicted)


def _learned(
    d: int,
    heads: int,
    examples: Sequence[tuple[int, Solver]],
    tokens: int,
    test_examples: int,
    generator: np.random.Generator,
) -> Iterator[RandomNetworkRow]:
    """One network learned from the first N of the same examples, for every N."""
    model = make_linear_attention(heads=heads, dim=d, rng=generator)
    x = generator.standard_normal((max(number for number, _ in examples), tokens, d))
    fresh = generator.standard_normal((test_examples, tokens, d))
    y, wanted = model(x), model(fresh)
    for number, method in examples:
        if method == "moments":
            moments = FeatureMoments(feature_count(d), model.outputs)
            moments.add(x[:number], y[:number])
            learned = regress_moments(moments)
        else:
            learned = regress(x[:number], y[:number], method=method, least_norm=True)
        assert isinstance(learned, CubicRegression)  # as all rows are of tokens
        error = relative_error(learned(fresh), wanted)
        yield RandomNetworkRow(d, heads, feature_count(d), number, learned.method, learned.rank, error)
