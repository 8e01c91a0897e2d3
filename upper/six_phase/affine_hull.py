"""Phases 2 and 4: sculpt the affine hull of the attention matrices out of the rows on which all heads agree."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from attention import AttentionLayer, ExampleOracle
from attention._arrays import count, non_negative, one_of, real_array
from attention.learning import require_oracle
from upper.six_phase.agreement import Contrasts, certify_agreement, contrasts_of
from upper.six_phase.body import ConvexBody, EmptyBodyError, sculpt
from upper.six_phase.failure import PhaseFailedError
from upper.six_phase.streaming import map_batches, remaining, require_jobs

__all__ = ["LARGEST_RESIDUAL", "AffineHull", "sculpt_affine_hull"]

LARGEST_RESIDUAL = 0.5
"""A threshold above this certifies nothing: rows of unrelated patterns reach it."""

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


def sculpt_affine_hull(
    oracle: ExampleOracle,
    projection_sum: Float[np.ndarray, "d d"],
    *,
    wide: int | None = None,
    accept: float = 0.01,
    equations: int | None = None,
    examples: int | None = None,
    body: Literal["ellipsoid", "polytope"] = "ellipsoid",
    radius: float | None = None,
    method: Literal["least-squares", "linear-program"] = "least-squares",
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
    body, radius :
        See `sculpt`.
    method :
        See `certify_agreement`.
    jobs : int, optional
        Threads; by default as `joblib` is configured, which is one.

    Returns
    -------
    AffineHull
        The body, the equations, and how they were accepted.

    Raises
    ------
    PhaseFailedError
        If no example is left, too few rows are certified for d^2 equations, the accepted rows' residuals are as
        large as those of unrelated patterns, or no matrix satisfies the equations.
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
    one_of("method", method, ("least-squares", "linear-program"))
    accept = non_negative("accept", accept, strictly=True)
    if accept > 1:
        raise ValueError(f"accept is {accept}: a share of the rows, at most 1, is needed.")
    wanted = 6 * d * d if equations is None else count("equations", equations)
    most = int(4 * wanted / (accept * k * (k - 1))) + 1 if examples is None else count("examples", examples)
    most = remaining(oracle, most)
    if most == 0:
        raise PhaseFailedError("budget", "no example is left to look for agreement events in.")
    # rows that agree less are better than too few of them
    accept = min(1.0, max(accept, 1.5 * d * d / (most * k * (k - 1))))
    collector = _Collector(projection_sum, method)
    pilot = collector.pilot(oracle, most, accept, wide, jobs)
    threshold = collector.threshold
    drawn = pilot
    while collector.equations < wanted and drawn < most:
        # by the rate so far, which few rows tell badly: not too far ahead of them, and at the end a little more
        need = 1.02 * (wanted - collector.equations) * drawn / max(collector.equations, 1)
        n = min(most - drawn, max(pilot, min(int(need), 8 * drawn)))
        collector.collect(oracle, n, jobs)
        drawn += n
    if collector.equations < d * d:
        raise PhaseFailedError(
            "agreement",
            f"{collector.equations} equations were certified on {collector.rows} rows, fewer than the d^2 = {d * d} "
            f"unknowns of one attention matrix.",
        )
    if threshold > LARGEST_RESIDUAL:
        raise PhaseFailedError(
            "agreement",
            f"the best {accept:.0%} of {collector.rows} rows are certified up to a relative residual of "
            f"{threshold:.2f} only: no agreement events were found.",
        )
    contrasts = collector.contrasts()
    try:
        made = sculpt(contrasts, body=body, radius=radius, wide=wide)
    except EmptyBodyError as empty:  # a radius that the caller chose may leave no matrix at all
        raise PhaseFailedError("contradiction", str(empty)) from None
    return AffineHull(
        body=made,
        contrasts=contrasts,
        threshold=threshold,
        accepted=len(contrasts),
        rows=collector.rows,
        histogram=collector.histogram,
        bins=_BINS,
        examples=drawn,
    )


@dataclass(frozen=True, eq=False)
class _Rows:
    """Usable rows of a batch, and a count of all its rows."""

    residuals: np.ndarray
    contrasts: Contrasts
    histogram: np.ndarray
    rows: int
    usable: int
    agreeing: int

    def best(self, most: int) -> tuple[np.ndarray, Contrasts]:
        """The `most` rows with the smallest residuals, in their order."""
        if len(self.residuals) <= most:
            return self.residuals, self.contrasts
        which = np.sort(np.argsort(self.residuals, kind="stable")[:most])
        return self.residuals[which], self.contrasts.chosen(which)


class _Collector:
    """Certified rows as they come in, batch after batch."""

    def __init__(
        self, projection_sum: np.ndarray, method: Literal["least-squares", "linear-program"]
    ) -> None:
        self._sum, self._method = projection_sum, method
        self.threshold = 0.0
        self._residuals = np.zeros(0)
        self._parts: list[Contrasts] = []
        self.histogram = np.zeros(len(_BINS) - 1, dtype=np.int64)
        self.rows = self.equations = self._usable = self._agreeing = 0

    def pilot(
        self, oracle: ExampleOracle, most: int, accept: float, wide: int | None, jobs: int | None
    ) -> int:
        """Fix the threshold by the first examples, and accept among them too; returns how many."""
        half = max(accept, _SHARE_OF_ONE_HEAD)
        drawn = 0
        if wide == 0 or wide is None:
            drawn = min(most, _pilot(half, oracle.k))
            self._keep_best(oracle, drawn, drawn * oracle.k, jobs)
        # the median of the residuals is that small
        one_head = wide == 0 or (wide is None and 2 * self._agreeing >= self.rows)
        n = min(most, _pilot(accept, oracle.k))
        if not one_head and n > drawn:
            self._keep_best(oracle, n - drawn, math.ceil(accept * n * oracle.k), jobs)
            drawn = n
        if self._usable == 0:
            raise PhaseFailedError(
                "agreement",
                f"no row of {self.rows} has a pattern with all entries above {_SMALLEST_WEIGHT}.",
            )
        wanted = math.ceil(accept * self.rows)
        if one_head:
            wanted = max(wanted, math.ceil(_SHARE_OF_ONE_HEAD * self._usable))
        self.threshold = float(np.sort(self._residuals)[min(wanted, len(self._residuals)) - 1])
        self._parts = [part.chosen(self._residuals <= self.threshold) for part in self._parts]
        self.equations = sum(part.equations for part in self._parts)
        return drawn

    def collect(self, oracle: ExampleOracle, n: int, jobs: int | None) -> None:
        """Certify `n` more examples."""
        for found in map_batches(oracle, lambda x, y: self._certify(x, y, self.threshold), n, jobs=jobs):
            self._count(found)
            self._parts.append(found.contrasts)
            self.equations += found.contrasts.equations

    def contrasts(self) -> Contrasts:
        """All equations so far."""
        return Contrasts.joined(self._parts)

    def _keep_best(self, oracle: ExampleOracle, n: int, most: int, jobs: int | None) -> None:
        """Certify `n` examples and keep the best `most` rows of all so far, whatever `n` is."""

        def certify(x: np.ndarray, y: np.ndarray) -> _Rows:
            found = self._certify(x, y, np.inf)
            residuals, contrasts = found.best(most)
            return replace(found, residuals=residuals, contrasts=contrasts)

        for found in map_batches(oracle, certify, n, jobs=jobs):
            self._count(found)
            joined = Contrasts.joined([*self._parts, found.contrasts])
            residuals = np.concatenate([self._residuals, found.residuals])
            self._residuals, kept = replace(found, residuals=residuals, contrasts=joined).best(most)
            self._parts = [kept]

    def _certify(self, x: np.ndarray, y: np.ndarray, threshold: float) -> _Rows:
        certificates = certify_agreement(x, y, self._sum, method=self._method)
        pattern, residual = certificates.pattern, certificates.residual
        finite = residual[np.isfinite(residual)]
        usable = np.isfinite(residual) & (pattern.min(axis=-1) > _SMALLEST_WEIGHT)
        accepted = usable & (residual <= threshold)
        return _Rows(
            residuals=residual[accepted],
            contrasts=contrasts_of(x, pattern, accepted),
            histogram=np.histogram(np.clip(finite, _BINS[0], _BINS[-1]), _BINS)[0],
            rows=residual.size,
            usable=int(usable.sum()),
            agreeing=int(np.sum(finite <= _ALL_AGREE)),
        )

    def _count(self, found: _Rows) -> None:
        self.histogram += found.histogram
        self.rows += found.rows
        self._usable += found.usable
        self._agreeing += found.agreeing


def _pilot(share: float, k: int) -> int:
    return max(32, int(_PILOT_ACCEPTED / share / k))
