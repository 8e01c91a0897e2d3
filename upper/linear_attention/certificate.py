"""A certificate: do examples determine linear attention on a domain, and by how much may errors grow there?"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import scipy
from jaxtyping import Float, Shaped

from attention.inputs import Rng
from attention.validation import Real, checked, random_generator
from upper.linear_attention.features import feature_count
from upper.linear_attention.least_squares import FeatureMoments
from upper.linear_attention.regression import CubicRegression


@dataclass(frozen=True)
class _Judging:
    """What is rounding in moments of features, in double precision."""

    #: ranks are borderline if a tolerance larger or smaller by this factor changes them
    borderline: float = 100.0
    negative: float = 1e-8  #: share of the trace: larger asymmetry or negative eigenvalues are not rounding
    underflow: float = 1e-290  #: mean squares that have lost digits
    range: float = 1e-3  #: of weights in one class: amplifies rounding by at most its inverse


_JUDGING = _Judging()


@dataclass(frozen=True, eq=False)
class Certificate:
    """How far the examples determine a function that is linear in the features.

    Attributes
    ----------
    rank, domain_rank, joint_rank : int
        Ranks of the moments on the data, Lambda_D, and on the domain, Lambda_X, and of Lambda_D + Lambda_X.
    factor : float
        tau: E_X |f - f*|^2 <= tau E_D |f - f*|^2 for any two functions, and the bound is attained; infinite where the
        deficit is not 0.
    smallest_eigenvalue : float
        lambda_min(Lambda_D). It depends on the features' units, and no rank here does; use `rank` to judge full rank.
    gap : float
        In the features' own units, the smallest eigenvalue of Lambda_D that counts over the largest that is treated as
        zero; infinite if there is none or it is exactly 0.
    margin : float
        The factor by which the tolerance may be multiplied or divided before the rank or the deficit changes.
    null_basis : array (D, D - rank)
        Orthonormal directions of the null space of Lambda_D, which the data do not see.
    domain_directions : array (D, deficit)
        Orthonormal directions of that null space: a smallest set that contains all that the domain sees of it.
    worst_direction : array (D,)
        A direction of norm 1 that attains `factor`; one of `domain_directions` if the deficit is not 0.
    tolerance : float
        Relative tolerance on eigenvalues.
    """

    rank: int
    domain_rank: int
    joint_rank: int
    factor: float
    smallest_eigenvalue: float
    gap: float
    margin: float
    null_basis: Float[np.ndarray, "D nullity"]
    domain_directions: Float[np.ndarray, "D deficit"]
    worst_direction: Float[np.ndarray, " D"]
    tolerance: float

    @property
    def features(self) -> int:
        """D."""
        return len(self.null_basis)

    @property
    def deficit(self) -> int:
        """The number of dimensions that the domain sees and the data do not."""
        return self.joint_rank - self.rank

    @property
    def identified(self) -> bool:
        """Whether every empirical risk minimiser agrees on the domain: the deficit is 0."""
        return self.deficit == 0

    @property
    def identified_everywhere(self) -> bool:
        """Whether every empirical risk minimiser agrees on all inputs of every length: the rank is D."""
        return self.rank == self.features

    @property
    def borderline(self) -> bool:
        """Whether a tolerance 100 times larger or smaller gives another rank or deficit."""
        return self.margin < _JUDGING.borderline

    def __str__(self) -> str:
        lines = [
            f"The data span {self.rank} of {self.features} directions, the domain {self.domain_rank}, "
            f"both together {self.joint_rank}: deficit {self.deficit}."
        ]
        if self.identified:
            where = (
                "all inputs of every length: the smallest eigenvalue of the data's moment is "
                f"{self.smallest_eigenvalue:.3g}"
            )
            lines += [
                f"Every empirical risk minimiser agrees on {where if self.identified_everywhere else 'the domain'}.",
                f"Two models' mean squared distance on the domain is at most {self.factor:.3g} times that on the "
                "data, and that is attained.",
            ]
        else:
            lines.append(
                "Two empirical risk minimisers differ on the domain. Rank is sufficient, and not necessary, when "
                "fewer than d^2 heads are assumed: fewer heads may still be determined by these data."
            )
        if self.borderline:
            lines.append(
                f"This is borderline: a tolerance of {self.tolerance:.0e} {self.margin:.1f} times larger or smaller "
                "gives other ranks."
            )
        return "\n".join(lines)


@checked
def feature_moment(x: Shaped[np.ndarray, "N n d"], *, average: bool = False) -> Float[np.ndarray, "D D"]:
    """The moment Lambda (D, D), the mean of phi phi^T of cubic features on examples.

    Tokens are (N, n, d), one per row, and the last one is the query. With `average`, G is the mean over them. For
    sequences of several lengths, use `FeatureMoments`. A ValueError if an entry is not finite, or the matrix does not
    fit 2 GiB.

    Examples
    --------
    >>> feature_moment(np.ones((5, 3, 1)))
    array([[9.]])
    """
    moments = FeatureMoments(feature_count(x.shape[-1]), 1)
    moments.add(x, np.zeros((len(x), 1)), average=average)
    moment = moments.gram()  # not shared, so it may be changed
    moment /= len(x)
    return moment


@checked
def certify(
    data: Float[np.ndarray, "D D"] | Shaped[np.ndarray, "N n d"],
    domain: Float[np.ndarray, "D D"] | Shaped[np.ndarray, "M l d"],
    *,
    tolerance: Annotated[float, Real(above=0, below=1)] = 1e-10,
) -> Certificate:
    """Certify how far examples determine a function on a domain, from tokens or from moments of features.

    Parameters
    ----------
    data : array (D, D) or (N, n, d)
        Lambda_D, the mean of phi phi^T on the examples; or their tokens.
    domain : array (D, D) or (M, l, d)
        Lambda_X, the same on the inputs of interest: exact, or from enough inputs to span the features of the domain.
    tolerance : float
        Eigenvalues of at most this share of the largest are treated as zero.

    Raises
    ------
    ValueError
        If the matrices do not have the same size, or are not finite, symmetric and positive semidefinite up to
        rounding; or if the tolerance is out of range. Before any work, if the matrices do not fit into memory.

    Notes
    -----
    The deficit rank(Lambda_D + Lambda_X) - rank(Lambda_D) is computed as the rank of Lambda_X on the null space of
    Lambda_D, whose directions are the differences of empirical risk minimisers. At deficit 0, tau is the largest
    generalised eigenvalue of (Lambda_X, Lambda_D) on the range of Lambda_D. It is not a sufficient test that Lambda_D
    is positive on the range of Lambda_X.

    Units of the tokens' coordinates do not matter: in each matrix, every feature is scaled by its own root mean square.
    So every entry must be accurate relative to itself, as means of products are. A matrix that was rotated to another
    basis has rounding errors that would count as features that the data see.

    Ranks are numerical; `gap` and `margin` measure how clear they are. Full rank is sufficient, but not necessary, if
    fewer than d^2 heads are assumed. O(D^3) in at most 12 D^2 numbers beside the two moments.

    Examples
    --------
    >>> from upper.linear_attention import population_moment
    >>> signs = population_moment("boolean", 4, 3)
    >>> print(certify(signs, population_moment("boolean", 4, 7)))
    The data span 28 of 40 directions, the domain 28, both together 28: deficit 0.
    Every empirical risk minimiser agrees on the domain.
    Two models' mean squared distance on the domain is at most 9.37 times that on the data, and that is attained.
    >>> certify(signs, population_moment("gaussian", 4, 3)).deficit
    12
    """
    data, domain = (feature_moment(one) if one.ndim == 3 else one for one in (data, domain))
    features = len(data)
    if len(domain) != features:
        raise ValueError(f"data has {features} features and domain {len(domain)}: the same number is needed.")
    smallest = scipy.linalg.eigh(data, eigvals_only=True, subset_by_index=(0, 0), check_finite=False)[0]
    domain_units, domain_values, _ = _in_own_units("domain", domain)
    units, values, vectors = _in_own_units("data", data)
    threshold, domain_threshold = (
        tolerance * float(spectrum.max(initial=0.0)) for spectrum in (values, domain_values)
    )
    nullity = int(np.sum(values <= threshold))
    kept, dropped = values[nullity:], float(values[:nullity].max(initial=0.0))
    rank, seen, unseen = len(kept), np.flatnonzero(units), np.flatnonzero(units == 0)

    hidden = np.zeros((features, features - rank))  # the null space of the data, in their units
    hidden[seen, :nullity] = vectors[:, :nullity]
    hidden[unseen, nullity + np.arange(len(unseen))] = 1.0
    noise = features * np.finfo(float).eps * (float(kept[-1] / kept[0]) if rank else 1.0)
    shown, null_basis, directions = _seen_by(
        hidden, np.where(units > 0, units, 1.0), noise, domain, domain_units, domain_threshold
    )
    if directions.shape[1]:
        factor, worst = np.inf, directions[:, 0]
    else:
        factor, worst = _largest_ratio(domain, units, vectors[:, nullity:], kept)
    spectra = ((values, threshold), (domain_values, domain_threshold), (shown, domain_threshold))
    return Certificate(
        rank=rank,
        domain_rank=int(np.sum(domain_values > domain_threshold)),
        joint_rank=rank + directions.shape[1],
        factor=factor,
        smallest_eigenvalue=max(0.0, float(smallest)),
        gap=float(kept[0]) / dropped if dropped > 0 and rank else np.inf,
        margin=min(_margin(spectrum, cut) for spectrum, cut in spectra),
        null_basis=null_basis,
        domain_directions=directions,
        worst_direction=worst,
        tolerance=tolerance,
    )


@checked
def another_minimiser(
    regression: CubicRegression, certificate: Certificate, *, on_domain: bool = True, rng: Rng = None
) -> CubicRegression:
    """Another empirical risk minimiser: the regression plus a random direction that its examples do not see.

    Directions are uniform on the sphere and independent for the outputs. The vector added to each column of
    coefficients has a fixed norm: the root mean square norm of all columns (1 if all are zero). O(D p (D - rank)).

    Parameters
    ----------
    regression, certificate : CubicRegression, Certificate
        A minimiser, and the certificate of the same data.
    on_domain : bool
        Whether to choose a direction that the domain sees, instead of any that the data do not see.
    rng : SPEC 7 generator or seed
        The source of randomness.

    Raises
    ------
    ValueError
        If there is no such direction, or the numbers of features differ.

    Examples
    --------
    >>> from upper.linear_attention.regression import regress
    >>> x = np.random.default_rng(0).standard_normal((30, 4, 2))
    >>> one = regress(x[:4], x[:4, -1], least_norm=True)
    >>> two = another_minimiser(one, certify(x[:4], x), rng=1)
    >>> bool(abs(two(x[:4]) - one(x[:4])).max() < 1e-12), bool(abs(two(x) - one(x)).max() > 0.1)
    (True, True)
    """
    coefficients = regression.coefficients
    if len(coefficients) != certificate.features:
        raise ValueError(
            f"The regression has {len(coefficients)} features and the certificate {certificate.features}: the same "
            "number is needed."
        )
    basis = certificate.domain_directions if on_domain else certificate.null_basis
    if basis.shape[1] == 0:
        if certificate.null_basis.shape[1] == 0:
            raise ValueError("The data leave no direction unseen: there is no other minimiser.")
        raise ValueError(
            "The deficit is 0, all minimisers agree on the domain: on_domain=False gives one that differs elsewhere."
        )
    # draw in all dimensions, so that the choice of the basis has no effect
    turns = basis.T @ random_generator(rng).standard_normal(coefficients.shape)
    size = float(np.linalg.norm(coefficients)) / np.sqrt(coefficients.shape[1]) or 1.0
    moved = coefficients + size * basis @ (turns / np.linalg.norm(turns, axis=0))
    return replace(regression, method="another", coefficients=moved)


def _in_own_units(name: str, moment: Float[np.ndarray, "D D"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Root mean squares of the features (0 if unseen); eigenvalues, ascending, and vectors in these units."""
    diagonal = np.diagonal(moment)
    trace = float(diagonal.sum())
    never = diagonal <= _JUDGING.underflow
    units = np.where(never, 0.0, np.sqrt(np.maximum(diagonal, 0.0)))
    rounding = _JUDGING.negative * max(trace, 0.0)
    wrong = (
        diagonal.min() < -rounding
        or np.abs(moment - moment.T).max() > rounding
        or np.abs(moment[never]).max(initial=0.0) > rounding
    )
    if not wrong:
        seen = np.flatnonzero(units)
        scaled = moment[np.ix_(seen, seen)] / units[seen, None] / units[seen]
        values, basis = scipy.linalg.eigh(scaled, driver="evr", check_finite=False)
        wrong = len(values) > 0 and values[0] < -_JUDGING.negative * len(values)
    if wrong:
        raise ValueError(
            f"{name} is not symmetric or has an eigenvalue below 0: a mean of phi phi^T is needed, which is positive "
            "semidefinite."
        )
    return units, values, basis


def _seen_by(
    hidden: Float[np.ndarray, "D k"],
    units: np.ndarray,
    noise: float,
    domain: Float[np.ndarray, "D D"],
    domain_units: np.ndarray,
    threshold: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For directions orthonormal in the data's units: eigenvalues on the domain, a basis, and the visible part."""
    basis, turn, lost = _orthonormalised(hidden, domain_units / units, noise)
    basis /= np.where(domain_units > 0, domain_units, np.inf)[:, None]
    values, vectors = scipy.linalg.eigh(
        basis.T @ domain @ basis, driver="evr", overwrite_a=True, check_finite=False
    )
    del basis
    vanishing = values <= threshold
    deficit = int(np.sum(~vanishing))
    rest = hidden @ np.hstack([lost, turn @ vectors[:, vanishing]])
    del turn, lost, vectors
    null_basis = _orthonormalised(hidden, 1 / units, noise)[0]
    if deficit in (0, hidden.shape[1]):
        return values, null_basis, null_basis[:, :deficit]
    rest = _orthonormalised(rest, np.ones(len(units)), noise)[0]
    rest = _orthonormalised(rest, 1 / units, noise)[0]
    whole = scipy.linalg.qr(null_basis.T @ rest, check_finite=False)[0]
    return values, null_basis, null_basis @ whole[:, rest.shape[1] :]


def _largest_ratio(
    domain: Float[np.ndarray, "D D"], units: np.ndarray, basis: np.ndarray, values: np.ndarray
) -> tuple[float, np.ndarray]:
    """The largest of t^T domain t over t^T data t in the range of the data, and a t of norm 1 that attains it.

    The basis and values are the data's eigenvectors and eigenvalues in their own units.
    """
    direction = np.zeros(len(units))
    if not len(values):
        return 0.0, direction
    seen = np.flatnonzero(units)
    whitened = basis / np.sqrt(values) / units[seen, None]
    last = len(values) - 1
    products = whitened.T @ domain[np.ix_(seen, seen)] @ whitened
    ratios, vectors = scipy.linalg.eigh(products, subset_by_index=(last, last), check_finite=False)
    direction[seen] = whitened @ vectors[:, 0]
    return max(0.0, float(ratios[0])), direction / np.linalg.norm(direction)


def _orthonormalised(
    basis: Float[np.ndarray, "D k"], weights: Float[np.ndarray, " D"], noise: float
) -> tuple[Float[np.ndarray, "D s"], Float[np.ndarray, "k s"], Float[np.ndarray, "k lost"]]:
    """An orthonormal basis of the span of diag(weights) basis, for weights of any range.

    It also returns the combinations of columns that give the basis, and those lost because their weights are 0. Entries
    of the orthonormal `basis` have errors of size `noise`, which large weights would amplify. So features are divided
    into classes of similar weight, the largest first. On each class, a pivoted QR factorisation separates the
    combinations that are visible from those that vanish; the latter are then set to 0 there. Householder's method on
    rows in order of weight gives errors relative to each row. O(D k^2).
    """
    order = np.argsort(-weights, kind="stable")
    order = order[weights[order] > 0]
    heights = weights[order]
    turn = np.eye(basis.shape[1])
    weighted = np.zeros((len(order), basis.shape[1]))
    first = column = 0
    while first < len(order) and column < len(turn):
        last = first + int(np.sum(heights[first:] >= _JUDGING.range * heights[first]))
        rest = turn[:, column:]
        q, r, _ = scipy.linalg.qr((basis[order[first:last]] @ rest).T, pivoting=True, check_finite=False)
        turn[:, column:] = rest @ q
        shown = column + int(np.sum(np.abs(np.diagonal(r)) > noise))
        # zero on the earlier classes, up to rounding
        weighted[first:, column:shown] = basis[order[first:]] @ turn[:, column:shown] * heights[first:, None]
        first, column = last, shown
    turn, lost = turn[:, :column], turn[:, column:]
    found = np.zeros((len(weights), column))
    if not column:
        return found, turn, lost
    weighted = weighted[:, :column]
    lengths = np.linalg.norm(weighted, axis=0)
    weighted /= lengths
    found[order], r = scipy.linalg.qr(weighted, mode="economic", overwrite_a=True, check_finite=False)
    return found, scipy.linalg.solve_triangular(r, (turn / lengths).T, trans="T", check_finite=False).T, lost


def _margin(spectrum: np.ndarray, threshold: float) -> float:
    """The factor by which the threshold may be multiplied or divided before it passes an eigenvalue."""
    positive = spectrum[spectrum > 0]
    if threshold <= 0 or not len(positive):
        return np.inf
    return float(np.exp(np.abs(np.log(positive / threshold)).min()))
