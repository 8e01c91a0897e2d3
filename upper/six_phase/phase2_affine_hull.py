"""Phases 2 and 4: sculpt the affine hull of the attention matrices out of the rows on which all heads agree."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from attention import AttentionLayer, ExampleOracle, Outcome
from attention.learning import require_oracle
from attention.validation import count, non_negative, one_of, real_array, require_instance
from upper.six_phase.common import PhaseFailedError, map_batches, remaining, require_jobs
from upper.six_phase.convex_body import ConvexBody
from upper.six_phase.ellipsoid import Ellipsoid
from upper.six_phase.equation_moments import EquationMoments
from upper.six_phase.phase2_agreement import Contrasts, certify_agreement, contrasts_of
from upper.six_phase.polytope import Polytope

__all__ = [
    "LARGEST_RESIDUAL",
    "AffineHull",
    "require_agreement",
    "require_consistency",
    "sculpt",
    "sculpt_affine_hull",
]

LARGEST_RESIDUAL = 0.5
"""A threshold above this certifies nothing: rows of unrelated patterns reach it."""

# Equations that hold up to so few logits are met, whatever their size: heads without attention have such.
_NEGLIGIBLE_MISFIT = 0.05
_LEAST_EXPLAINED = 0.5
# A weight of a pattern changes by at most a quarter of what its logit does; twice that for the size of what is read.
_LOGITS_A_RESIDUAL = 8.0
# A pattern with a smaller entry is not used: the error of the pattern is too large in its logarithm.
_SMALLEST_WEIGHT = 0.05
# Rows below the threshold that the pilot sees: they fix the threshold to about a tenth of itself.
_PILOT_ACCEPTED = 100
# One head agrees with itself in every row: half of the usable ones are taken, for the best of them are those whose
# tokens happen to hide the error of the sum, and equations so chosen have wide directions of their own. That all rows
# agree shows in their median residual.
_SHARE_OF_ONE_HEAD, _ALL_AGREE = 0.5, 0.1
_BINS = np.geomspace(1e-8, 1e2, 101)


@dataclass(frozen=True, eq=False)
class AffineHull:
    """The body K around the affine hull of the heads, and the agreement events it was sculpted with.

    Attributes
    ----------
    body : ConvexBody
        K.
    wide : int
        The number of its wide directions, m - 1: as given, or by the gap in the body's spectrum.
    contrasts : Contrasts
        The certified equations.
    threshold : float
        The relative residual up to which a row was accepted.
    accepted, rows : int
        Rows accepted, and rows looked at, usable or not.
    histogram : array (100,)
        How many rows had a residual in each bin of `bins`.
    bins : array (101,)
        The edges of the bins.
    examples : int
        Examples drawn.
    """

    body: ConvexBody
    wide: int
    contrasts: Contrasts
    threshold: float
    accepted: int
    rows: int
    histogram: Int[np.ndarray, " 100"]
    bins: Float[np.ndarray, " 101"]
    examples: int

    def error(self, layer: AttentionLayer) -> float:
        """Up to how many logits the heads of the layer satisfy the certified equations; see `Contrasts.error`."""
        return self.contrasts.error(layer)

    @property
    def acceptance(self) -> float:
        """The share of all rows looked at that was accepted: about `accept`, as far as enough rows are usable."""
        return self.accepted / self.rows

    @property
    def measures(self) -> dict[str, float | int]:
        """What the trace says of it."""
        return {
            "phase_examples": self.examples,
            "accepted": self.accepted,
            "acceptance": self.acceptance,
            "threshold": self.threshold,
            "equations": self.contrasts.equations,
            "explained": self.body.explained,
            "tolerance_in_logits": self.body.tolerance,
            "heads": self.wide + 1,
            **(self.body.gap.measures if self.body.gap else {}),
        }

    def require_usable(self, before: "AffineHull | None" = None) -> None:
        """Raise a `PhaseFailedError` if the equations contradict one another, or hold less well than those `before`."""
        misfit = self.body.misfit_at_centre
        require_consistency(misfit, self.body.explained, self.threshold)
        if before is not None and misfit > max(2 * before.body.misfit_at_centre, _NEGLIGIBLE_MISFIT):
            raise PhaseFailedError(
                Outcome.NOT_REFINED,
                f"the equations hold up to {misfit:.2g} logits after the refinement and up to "
                f"{before.body.misfit_at_centre:.2g} before.",
            )


def sculpt_affine_hull(
    oracle: ExampleOracle,
    projection_sum: Float[np.ndarray, "d d"],
    *,
    wide: int | None = None,
    accept: float = 0.01,
    equations: int | None = None,
    examples: int | None = None,
    body: Literal["ellipsoid", "polytope"] = "ellipsoid",
    jobs: int | None = None,
) -> AffineHull:
    """Phases 2 and 4: certify agreement events with the estimate of the sum, and sculpt the body K with them.

    Parameters
    ----------
    oracle : ExampleOracle
        Examples of k tokens in d coordinates, 2 <= k < d.
    projection_sum : array (d, d)
        The estimate of sum_i W_i: of phase 1 in phase 2, of phase 3 in phase 4.
    wide : int, optional
        m - 1, the dimension of the affine hull; by default from the gap in the body's spectrum.
    accept : float
        The share of all rows to accept. A row is usable if every entry of its pattern is above .05; accepted are the
        usable rows with the smallest residuals, as many as make this share of all rows, usable or not (all usable ones
        if they are fewer). Where there is one head it is at least half of the usable rows. It is raised where so few
        examples are allowed that it would not give 1.5 d^2 equations.
    equations : int, optional
        Equations wanted; by default 6 d^2, six an unknown.
    examples : int, optional
        At most so many examples; by default four times the equations / (accept k (k - 1)) that `accept` should need. Of
        given examples at most those that are left.
    body :
        See `sculpt`.
    jobs : int, optional
        Threads; by default as `joblib` is configured, which is one.

    Returns
    -------
    AffineHull
        The body, the equations, and how they were accepted.

    Raises
    ------
    PhaseFailedError
        If no example is left, too few rows are certified for d^2 equations, or the accepted rows' residuals are
        as large as those of unrelated patterns.
    ValueError
        If a parameter is out of range or the examples are malformed.

    Notes
    -----
    Guarantee: with an exact sum and exact agreement K contains every head of norm at most its radius; with the crude
    sum of phase 1 it may contain none, and lies near them. That the rows of smallest residual are accepted, that
    patterns with an entry below .05 are left out, and the weights of the rows are derived here. What is accepted
    agrees only up to some eps in logits, and rows agree up to eps with probability of order eps^((m-1)(k-1)): at a
    fixed share `accept` the eps grows quickly with (m-1)(k-1): the price of the exponent in examples, here; how the
    paper keeps k out of its own exponent we do not know. (That law rests on a local limit theorem for Boolean tokens;
    for Gaussian and sphere tokens the logits have densities, and it holds all the more simply.) The threshold is
    fixed by the first 100 / (accept k) examples, to about a tenth of itself, and so is the share. O(n k d^2) to draw
    and to certify; memory of a few batches and of the accepted rows.

    References
    ----------
    Chen and Li, arXiv 2402.04084, phases 2 and 4.
    """
    require_oracle(oracle)
    require_jobs(jobs)
    k, d = oracle.k, oracle.d
    if not isinstance(projection_sum, np.ndarray):
        raise ValueError(
            f"projection_sum is a {type(projection_sum).__name__}: a matrix is needed, the .w of an estimate."
        )
    projection_sum = real_array("projection_sum", projection_sum, (d, d))
    wide = None if wide is None else count("wide", wide, least=0, most=d * d)
    one_of("body", body, ("ellipsoid", "polytope"))
    accept = non_negative("accept", accept, strictly=True)
    if accept > 1:
        raise ValueError(f"accept is {accept}: a share of the rows, at most 1, is needed.")
    wanted = 6 * d * d if equations is None else count("equations", equations)
    most = int(4 * wanted / (accept * k * (k - 1))) + 1 if examples is None else count("examples", examples)
    most = remaining(oracle, most, "to look for agreement events in")
    # rows that agree less are better than too few of them
    accept = min(1.0, max(accept, 1.5 * d * d / (most * k * (k - 1))))
    certify = partial(_certified, oracle, projection_sum, jobs)
    # where there may be one head, few rows tell
    one_head, drawn = wide == 0, 0
    if not wide:
        drawn = min(most, _pilot(max(accept, _SHARE_OF_ONE_HEAD), k))
        rows = certify(drawn)
        one_head = one_head or 2 * rows.agreeing >= rows.rows  # the median of the residuals is that small
    n = min(most, _pilot(accept, k))
    if not one_head and n > drawn:
        kept = math.ceil(accept * n * k)
        more = certify(n - drawn, most=kept)
        rows, drawn = (_Rows.joined([rows, more]) if drawn else more).best(kept), n
    if rows.usable == 0:
        raise PhaseFailedError(
            Outcome.NO_AGREEMENT,
            f"no row of {rows.rows} has a pattern with all entries above {_SMALLEST_WEIGHT}.",
        )
    share = max(accept * rows.rows, _SHARE_OF_ONE_HEAD * rows.usable if one_head else 0.0)
    threshold = float(np.sort(rows.residuals)[min(math.ceil(share), len(rows.residuals)) - 1])
    rows, first = rows.chosen(rows.residuals <= threshold), drawn
    while rows.contrasts.equations < wanted and drawn < most:
        # by the rate so far, which few rows tell badly: not too far ahead of them, and at the end a little more
        missing, found = wanted - rows.contrasts.equations, max(rows.contrasts.equations, 1)
        n = min(most - drawn, max(first, min(int(1.02 * missing * drawn / found), 8 * drawn)))
        rows, drawn = _Rows.joined([rows, certify(n, threshold=threshold)]), drawn + n
    if rows.contrasts.equations < d * d:
        raise PhaseFailedError(
            Outcome.NO_AGREEMENT,
            f"{rows.contrasts.equations} equations were certified on {rows.rows} rows, fewer than the d^2 = {d * d} "
            f"unknowns of one attention matrix.",
        )
    require_agreement(threshold, accept)
    sculpted = sculpt(rows.contrasts, body=body, wide=wide)
    if wide is None:
        wide = sculpted.gap.wide if sculpted.gap else 0
    return AffineHull(
        body=sculpted,
        wide=wide,
        contrasts=rows.contrasts,
        threshold=threshold,
        accepted=len(rows.contrasts),
        rows=rows.rows,
        histogram=rows.histogram,
        bins=_BINS,
        examples=drawn,
    )


def sculpt(
    contrasts: Contrasts,
    *,
    body: Literal["ellipsoid", "polytope"] = "ellipsoid",
    tolerance: float | None = None,
    radius: float | None = None,
    wide: int | None = None,
) -> ConvexBody:
    """The set K of matrices that satisfy the certified equations up to a tolerance and have norm at most `radius`.

    Parameters
    ----------
    contrasts : Contrasts
        The equations, at least d^2 of them for a thin body.
    body : "ellipsoid" or "polytope"
        Whether the equations hold up to the tolerance in weighted root mean square, or every one of them.
    tolerance : float, optional
        In logits; by default large enough that K is not empty, see the bodies.
    radius : float, optional
        R, in the Frobenius norm (ellipsoid) or in the largest entry (polytope); by default a multiple of the
        norm of the least-squares solution.
    wide : int, optional
        The number of wide directions the ellipsoid's default tolerance leaves room for, m - 1 for m heads; by default
        found from the gap in the spectrum.

    Raises
    ------
    EmptyBodyError
        If K is empty at the given tolerance or radius.
    ValueError
        If there is no equation, or a parameter is out of range.

    Notes
    -----
    Guarantee: every head of norm at most `radius` that satisfies the equations up to `tolerance` is in K, whatever else
    is; the default radius is made for heads of comparable norm and nearly orthogonal. As equations on
    agreeing rows hold for all heads, they hold on the heads' affine hull, and with more than about d^2 of them K is
    thin in all other directions.

    References
    ----------
    Chen and Li, arXiv 2402.04084, phases 2 and 4; the two bodies are derived here.
    """
    require_instance("contrasts", contrasts, Contrasts, needed="what contrasts_of gives")
    one_of("body", body, ("ellipsoid", "polytope"))
    if len(contrasts) == 0:
        raise ValueError("There is no certified row to sculpt with: certify some first.")
    if tolerance is not None:
        tolerance = non_negative("tolerance", tolerance, strictly=True)
    if radius is not None:
        radius = non_negative("radius", radius, strictly=True)
    if wide is not None:
        wide = count("wide", wide, least=0)
    if body == "polytope":
        return Polytope.of(contrasts, tolerance=tolerance, radius=radius)
    return Ellipsoid.of(EquationMoments(contrasts), tolerance=tolerance, radius=radius, wide=wide)


def require_agreement(threshold: float, accept: float) -> None:
    """Raise a `PhaseFailedError` if rows were accepted up to a residual that rows of unrelated patterns reach."""
    if threshold > LARGEST_RESIDUAL:
        raise PhaseFailedError(
            Outcome.NO_AGREEMENT,
            f"the best {accept:.1%} of the rows are certified up to a relative residual of {threshold:.2f} only: no "
            "agreement events were found.",
        )


def require_consistency(misfit: float, explained: float, residual: float) -> None:
    """Raise a `PhaseFailedError` if equations contradict one another, although each was certified.

    The best matrix leaves `misfit` logits and explains a share `explained` of the equations' mean square; rows were
    certified up to a relative `residual`, and agree up to about eight times that in logits.

    Notes
    -----
    A rule of thumb, derived here. What is left may be the size of the equations themselves when that is small: the
    affine hull of the heads passes near zero then, as it does for heads of opposite sign or without attention.
    """
    if misfit > max(_NEGLIGIBLE_MISFIT, _LOGITS_A_RESIDUAL * residual) and explained < _LEAST_EXPLAINED:
        raise PhaseFailedError(
            Outcome.CONTRADICTION,
            f"of the certified equations the best matrix explains {max(explained, 0):.0%}.",
        )


@dataclass(frozen=True, eq=False)
class _Rows:
    """Usable rows, and counts of all rows looked at: `agreeing` of them have a small residual."""

    residuals: np.ndarray
    contrasts: Contrasts
    histogram: np.ndarray
    rows: int
    usable: int
    agreeing: int

    @classmethod
    def joined(cls, parts: "Sequence[_Rows]") -> "_Rows":
        return cls(
            residuals=np.concatenate([part.residuals for part in parts]),
            contrasts=Contrasts.joined([part.contrasts for part in parts]),
            histogram=np.sum([part.histogram for part in parts], axis=0),
            rows=sum(part.rows for part in parts),
            usable=sum(part.usable for part in parts),
            agreeing=sum(part.agreeing for part in parts),
        )

    def chosen(self, which: np.ndarray) -> "_Rows":
        return replace(self, residuals=self.residuals[which], contrasts=self.contrasts.chosen(which))

    def best(self, most: int | None) -> "_Rows":
        """The `most` rows with the smallest residuals, in their order."""
        if most is None or len(self.residuals) <= most:
            return self
        return self.chosen(np.sort(np.argsort(self.residuals, kind="stable")[:most]))


def _certified(
    oracle: ExampleOracle,
    projection_sum: np.ndarray,
    jobs: int | None,
    n: int,
    *,
    threshold: float = np.inf,
    most: int | None = None,
) -> _Rows:
    """The usable rows of `n` more examples, up to a threshold, and of each batch at most the best so many."""

    def certify(x: np.ndarray, y: np.ndarray) -> _Rows:
        certificates = certify_agreement(x, y, projection_sum)
        pattern, residual = certificates.pattern, certificates.residual
        finite = residual[np.isfinite(residual)]
        usable = np.isfinite(residual) & (pattern.min(axis=-1) > _SMALLEST_WEIGHT)
        accepted = usable & (residual <= threshold)
        rows = _Rows(
            residuals=residual[accepted],
            contrasts=contrasts_of(x, pattern, accepted),
            histogram=np.histogram(np.clip(finite, _BINS[0], _BINS[-1]), _BINS)[0],
            rows=residual.size,
            usable=int(usable.sum()),
            agreeing=int(np.sum(finite <= _ALL_AGREE)),
        )
        return rows.best(most)

    return _Rows.joined(list(map_batches(oracle, certify, n, jobs=jobs)))


def _pilot(share: float, k: int) -> int:
    return max(32, int(_PILOT_ACCEPTED / share / k))
