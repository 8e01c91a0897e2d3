"""From a learned tensor to as few heads as possible: rank minimisation over the part that does not act."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from attention._arrays import (
    count,
    random_generator,
    require_callable,
    require_flag,
    require_instance,
    shown,
    to_numpy,
)
from attention.inputs import Rng
from attention.memory import require_memory as require_bytes
from upper.linear_attention._head_problem import (
    NEWTON_STEPS,
    STEPS,
    TOLERANCE,
    Problem,
    Search,
    checked,
    share,
    unfolded,
)
from upper.linear_attention._head_search import LARGEST, alternating, levenberg_marquardt, within_reach
from upper.linear_attention.fitted import FeatureRegression
from upper.linear_attention.head_bound import fewest_heads_bound, symmetric_rank
from upper.linear_attention.model import LinearAttention

__all__ = [
    "HeadsFound",
    "alternate",
    "fewest_heads_bound",
    "fit_heads",
    "heads_of_tensor",
    "refine",
    "symmetric_rank",
]


@dataclass(frozen=True, eq=False)
class HeadsFound:
    """Heads that represent a tensor, and what is known about their number.

    Parameters
    ----------
    model : LinearAttention
        The heads, balanced: orthogonal as vectors (V_h) and (Q_h), |V_h| = |Q_h|, largest first. One zero head for
        a tensor that does not act.
    tail : float
        Relative distance |sym M - S| / |S| of the model's symmetrised tensor from the one given.
    tolerance : float
        The tail up to which heads count as a representation.
    lower_bound : int
        Number of heads below which no model has a tail within the tolerance: proved, see `fewest_heads_bound`.
    strategy : str
        What found them.
    exact : bool
        Whether the tail is within the tolerance.
    tried : tuple of (int, float)
        The numbers of heads that were tried, rising, with the least tail of each.
    """

    model: LinearAttention
    tail: float
    tolerance: float
    lower_bound: int
    strategy: str
    exact: bool
    tried: tuple[tuple[int, float], ...]

    @property
    def heads(self) -> int:
        """The number of heads needed by the model: 0 for the zero model."""
        return self.model.heads if bool(np.any(to_numpy(self.model.v))) else 0

    @property
    def minimal(self) -> bool:
        """Whether it is proved that no fewer heads are within the tolerance."""
        return self.exact and self.heads == self.lower_bound

    def __str__(self) -> str:
        number = "No head is needed" if self.heads == 0 else f"{self.heads} head{'s' * (self.heads != 1)}"
        if self.heads == 0:
            return f"{number}: the tensor does not act."
        usual = self.tolerance == TOLERANCE
        within, so_near = (
            ("", "") if usual else (f" within {self.tolerance:.1e} of the coefficients", " for that")
        )
        needed = (
            f"at least {self.lower_bound} {'is' if self.lower_bound == 1 else 'are'} needed{so_near} (proved)"
        )
        if not self.exact:
            return (
                f"{number} by {self.strategy}, relative error {self.tail:.1e}: above the tolerance of "
                f"{self.tolerance:.1e}; {needed}, and no representation was found."
            )
        found = f"{number}{within} by {self.strategy}, relative error {self.tail:.1e}"
        if self.minimal:
            return f"{found}: the fewest possible{so_near} (proved)."
        fewer = dict(self.tried).get(self.heads - 1)
        if fewer is None:
            return f"{found}: {needed}; fewer than {self.heads} were not tried."
        return f"{found}: {needed}; with {self.heads - 1} the search left {fewer:.1e}; fewest only as far as searched."


def heads_of_tensor(
    tensor: Float[np.ndarray, "p d d d"], *, heads: int | None = None, average: bool = False
) -> LinearAttention:
    """The best model of given heads for a tensor as it stands, antisymmetric part and all: a truncated SVD.

    Parameters
    ----------
    tensor : array (p, d, d, d)
        M_abce; not symmetrised here.
    heads : int, optional
        Number of heads; by default as many as singular values above rounding, min(p d, d^2) at most.
    average : bool
        Whether the model's G is the mean over the tokens.

    Returns
    -------
    LinearAttention
        V_h and Q_h orthogonal as vectors, |V_h| = |Q_h|, largest first; zero heads where there are more than the rank.

    Raises
    ------
    ValueError
        If the shape is no (p, d, d, d), an entry is not finite, or `heads` is below 1.

    Notes
    -----
    Eckart-Young: the least distance to the tensor given, not to its symmetric part. O(p^2 d^4).

    References
    ----------
    Derived here.

    Examples
    --------
    >>> from upper.linear_attention.model import make_linear_attention
    >>> model = make_linear_attention(heads=2, dim=3, rng=0)
    >>> again = heads_of_tensor(model.tensor())
    >>> again.heads, bool(np.allclose(again.tensor(), model.tensor()))
    (2, True)
    """
    require_flag("average", average)
    tensor = checked(tensor)
    scale = float(np.max(np.abs(tensor)))
    outputs, d = tensor.shape[:2]
    left, values, right = np.linalg.svd(unfolded(tensor / (scale or 1.0)), full_matrices=False)
    rank = max(1, int(np.sum(values > len(right) * np.finfo(float).eps * values[0])))
    number = rank if heads is None else count("heads", heads)
    require_bytes(
        f"A model of {shown(number)} heads in {d} dimensions",
        16 * number * d * (d + outputs),
        advice="take fewer heads",
    )
    root = np.sqrt(values[:number]) * np.sqrt(scale)
    v, q = np.zeros((number, outputs, d)), np.zeros((number, d, d))
    v[: len(root)] = (left[:, :number] * root).T.reshape(-1, outputs, d)
    q[: len(root)] = (root[:, None] * right[:number]).reshape(-1, d, d)
    return LinearAttention(v, q, average)


def alternate(
    tensor: Float[np.ndarray, "p d d d"],
    heads: int,
    *,
    steps: int = STEPS,
    tolerance: float = TOLERANCE,
    average: bool = False,
    rng: Rng = None,
) -> tuple[LinearAttention, float]:
    """Heads by alternating: truncate the unfolding to rank H, put the symmetric part back.

    Parameters
    ----------
    tensor : array (p, d, d, d)
        M_abce; only its symmetric part in b and c is used, and the antisymmetric one floats.
    heads : int
        H.
    steps : int
        The most steps; fewer where the tail has come down to the tolerance, or clearly will not.
    tolerance : float
        Tail to stop at, below 1.
    average : bool
        Whether the model's G is the mean over the tokens.
    rng : SPEC 7 generator or seed
        Of the antisymmetric part at the start.

    Returns
    -------
    LinearAttention
        The model after the last step, of min(p d, d^2) heads if that is less, which suffice; one zero head for a tensor
        that does not act.
    float
        Its tail |sym M - S| / |S|; 0 for a tensor that does not act.

    Raises
    ------
    ValueError
        If the shape is no (p, d, d, d), an entry is not finite, or a number is out of range: the tolerance is below 1.

    Notes
    -----
    Linear convergence where it converges; it may stall at a positive tail although H heads exist.
    O((p d)^3 + p d^3 H) a step.

    References
    ----------
    Derived here.
    """
    heads, steps = count("heads", heads), count("steps", steps)
    require_flag("average", average)
    tolerance = share(tolerance)
    problem = Problem.of(tensor)
    if not problem.norm:
        return problem.zero_model(average), 0.0
    heads = min(heads, problem.most)
    tried = alternating(problem.tensor, heads, steps=steps, tolerance=tolerance, rng=random_generator(rng))
    return problem.model(tried, average), tried.tail


def refine(
    tensor: Float[np.ndarray, "p d d d"],
    start: LinearAttention,
    *,
    steps: int = NEWTON_STEPS,
    tolerance: float = TOLERANCE,
) -> tuple[LinearAttention, float]:
    """Levenberg-Marquardt on (V, Q) from a given model, on the distance of the symmetrised tensors.

    Parameters
    ----------
    tensor : array (p, d, d, d)
        M_abce; only its symmetric part in b and c is used.
    start : LinearAttention
        Where to start, with the number of heads wanted.
    steps : int
        The most steps. It ends before at rounding, or where it stands still.
    tolerance : float
        Below 1: the tail below which it ends at the first step that gains less than a thousandth; above it six steps
        that gain less than a fifth end it.

    Returns
    -------
    LinearAttention
        Of the start's number of heads, or of min(p d, d^2) if that is less.
    float
        Its tail |sym M - S| / |S|; 0 for a tensor that does not act.

    Raises
    ------
    ValueError
        If the shapes do not fit, an entry is not finite, the tolerance is 1 or more, or there are so many heads that
        the system does not fit.

    Notes
    -----
    Quadratic convergence where a zero residual is reached: six to ten steps. With r = min(p, d) O((H r d)^3) a
    step, up to H r d = 4096.

    References
    ----------
    Derived here.
    """
    steps, tolerance = count("steps", steps), share(tolerance)
    require_instance("start", start, LinearAttention, needed="a LinearAttention")
    problem = Problem.of(tensor)
    given = np.shape(tensor)
    if (start.outputs, start.dim) != (given[0], given[1]):
        raise ValueError(
            f"The start has {start.outputs} outputs and dimension {start.dim}, the tensor {given[0]} and {given[1]}: "
            "give a model of the tensor's shape."
        )
    if not problem.norm:
        return problem.zero_model(start.average), 0.0
    if not within_reach(problem.tensor, start.heads):
        raise ValueError(
            f"{start.heads} heads of dimension {start.dim} are too many unknowns for a dense step: "
            f"heads * min(outputs, dim) * dim is at most {LARGEST}; use alternate."
        )
    v = np.asarray(to_numpy(start.q).transpose(0, 2, 1) if problem.swapped else to_numpy(start.v))
    v = v / (np.max(np.abs(v)) or 1.0)
    tried = levenberg_marquardt(problem.tensor, v[: problem.most], steps=steps, tolerance=tolerance)
    return problem.model(tried, start.average), tried.tail


def fit_heads(
    regression: Any,
    *,
    heads: int | None = None,
    most: int | None = None,
    tolerance: float = TOLERANCE,
    restarts: int = 20,
    average: bool | None = None,
    rng: Rng = 0,
    progress: Callable[[int, float], None] | None = None,
) -> HeadsFound:
    """As few heads as can be found for a learned tensor.

    Parameters
    ----------
    regression : CubicRegression, LinearAttention or array (p, d, d, d)
        Whose tensor M_abce is to be represented; only its symmetric part in b and c acts.
    heads : int, optional
        Fit exactly so many instead of the fewest (min(p d, d^2) if that is less).
    most : int, optional
        The most heads to try; by default min(p d, d^2), which always suffice.
    tolerance : float
        Relative tail |sym M - S| / |S| that counts as a representation, below 1. For a regression on noisy outputs give
        about its relative error, a few times it to be safe: below the error of the coefficients noise is fitted, and
        the number of heads becomes that of a generic tensor.
    restarts : int
        Starts of Levenberg-Marquardt before a number of heads is given up.
    average : bool, optional
        Whether the model's G is the mean over the tokens; by default as in `regression`.
    rng : SPEC 7 generator or seed
        Of the starts and of the directions of the lower bound.
    progress : callable, optional
        Called with the number of heads and its least tail after each number tried.

    Returns
    -------
    HeadsFound
        The model, its tail, the proved lower bound, and what was tried. If `most` heads did not suffice it is the
        best found, with ``exact`` false.

    Raises
    ------
    ValueError
        If the shape is no (p, d, d, d), an entry is not finite, or a number is out of range: the tolerance is below 1.

    Notes
    -----
    Two strategies at each number of heads: alternating from a random antisymmetric part, finished by
    Levenberg-Marquardt; then Levenberg-Marquardt from reweighted starts. From the proved lower bound the number
    rises by 1, 1, 2, 4, ... with three starts each, is bisected, and then falls by one as long as `restarts` starts
    find a representation. Below min(p d, d^2), where an SVD suffices, that a number was given up proves nothing:
    ``minimal`` says whether the lower bound proves it. Heads are identified up to GL_H at best.

    A start costs some twenty steps of O((H p d)^3) where p <= d; beyond H min(p, d) d = 4096 only alternating is tried.

    References
    ----------
    Derived here.

    Examples
    --------
    >>> from upper.linear_attention.model import make_linear_attention
    >>> found = fit_heads(make_linear_attention(heads=3, dim=4, rng=0))
    >>> found.heads, found.minimal, found.tail < 1e-13
    (3, True, True)
    """
    if progress is not None:
        require_callable("progress", progress)
    if average is not None:
        require_flag("average", average)
    if average is None:
        average = bool(getattr(regression, "average", False))
    tensor = getattr(regression, "tensor", regression)
    if isinstance(tensor, FeatureRegression):
        raise ValueError(
            "This regression is on features of unknown tokens and has no tensor: give tensor_from_features(its "
            "coefficients, d), or gather the moments of tokens by FeatureMoments.add."
        )
    problem = Problem.of(tensor() if callable(tensor) else tensor)
    tolerance = share(tolerance)
    restarts = count("restarts", restarts)
    top = problem.most if most is None else min(problem.most, count("most", most))
    wanted = None if heads is None else count("heads", heads)
    if not problem.norm:
        return HeadsFound(problem.zero_model(average), 0.0, tolerance, 0, "cancellation", True, ())
    draw = random_generator(rng)
    bound = fewest_heads_bound(problem.square, tolerance=tolerance, rng=draw)
    search = Search(problem.tensor, tolerance, draw, progress)
    if wanted is not None:
        number = min(wanted, problem.most)
        search.succeeds(number, restarts)
    else:
        number = search.fewest(min(bound, top), top, restarts)
    strategy, tried = search.best[number]
    model = problem.model(tried, average)
    tail = problem.tail(model)
    tails = tuple((n, found.tail) for n, (_, found) in sorted(search.best.items()))
    return HeadsFound(model, tail, tolerance, bound, strategy, tail <= tolerance, tails)
