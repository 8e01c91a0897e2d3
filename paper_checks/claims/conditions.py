"""Conditions on the heads."""

import math
from collections.abc import Iterator

import numpy as np
from numpy.random import Generator

from attention import AttentionLayer, check_conditions
from paper_checks.claim import Basis, claim
from paper_checks.comparison import Comparison, at_least, close, covers
from paper_checks.faults import Fault, given, returned
from runs import Scale
from studies.intervals import mean_interval

_SOURCE = "Chen and Li, arXiv 2402.04084, ask for such conditions; "


@claim(
    "conditions/random-overlap",
    source=_SOURCE + "how they are measured and all figures: derived here",
    basis=Basis.PROVED,
    fault=Fault(
        "attention.conditions:HeadMeasures.trace", returned(np.sqrt), "the trace's share without its square"
    ),
    false_alarm=0.002,
)
def random_overlap(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """For two independent Gaussian heads the normalised overlap <Theta_1, Theta_2>^2/(|Theta_1|^2 |Theta_2|^2) has
    mean exactly 1/d^2. For one Gaussian head Tr(Theta)^2/|Theta|^2 has mean exactly 1/d.

    Averages over random heads at two d, and compares the report's measures of the first. Proof: Theta/|Theta| is
    uniform on the sphere of d^2 dimensions, so its squared component along any unit vector has mean 1/d^2. The trace
    is sqrt(d) times the component along I/sqrt(d).
    """
    for dim, draws in ((8, 4000), (24, 2000)) if scale is Scale.QUICK else ((16, 20_000), (64, 5000)):
        overlaps, traces = np.empty(draws), np.empty(draws)
        heads = rng.standard_normal((2, dim, dim))
        for draw in range(draws):
            first, second = heads if draw == 0 else rng.standard_normal((2, dim, dim))
            square = np.vdot(first, first)
            overlaps[draw] = np.vdot(first, second) ** 2 / (square * np.vdot(second, second))
            traces[draw] = first.trace() ** 2 / square
        report = check_conditions(AttentionLayer(theta=heads, w=heads))
        trace, overlap = (report["theta_trace"].per_head or (0.0,))[0], report["theta_incoherence"].measured
        yield close(f"the report's trace, d = {dim}", trace, traces[0], relative=1e-9)
        yield close(f"the report's overlap, d = {dim}", (overlap or 0.0) ** 2, overlaps[0], relative=1e-9)
        for name, values, power in (("overlap", overlaps, 2), ("trace", traces, 1)):
            interval = mean_interval(dim**power * values, confidence=0.9995)
            yield covers(f"d^{power} times mean {name}, d = {dim}", interval, 1.0)


@claim(
    "conditions/random-stable-rank",
    source=_SOURCE
    + "d/4 is the edge of the Marchenko-Pastur law, the rest the mean of the Tracy-Widom law; this "
    "approximation at finite d: derived here",
    basis=Basis.DERIVED,
    fault=Fault("studies.intervals:mean_interval", given(np.sqrt), "the means of roots of stable ranks"),
    false_alarm=0.001,
)
def random_stable_rank(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """The stable rank |Theta|^2/|Theta|_op^2 of a Gaussian head is about d/4. Within 2 % it is d^2/(4 d - 2 - 1.2065 *
    2^(4/3) d^(1/3)).

    Averages over random heads, by their own singular values, at two d, and compares with the formula. Its error at
    finite d is measured, not bounded.
    """
    for dim, draws in ((24, 300), (64, 100)) if scale is Scale.QUICK else ((48, 1000), (192, 100)):
        heads = (rng.standard_normal((dim, dim)) for _ in range(draws))
        ranks = [float((head**2).sum() / np.linalg.eigvalsh(head.T @ head)[-1]) for head in heads]
        expected = dim**2 / (4 * dim - 2 - 1.2065 * 2 ** (4 / 3) * dim ** (1 / 3))
        interval = mean_interval(ranks, confidence=0.9995)
        yield covers(f"mean stable rank, d = {dim}", interval, expected, margin=0.02 * expected)


@claim(
    "conditions/dependence-implies-overlap",
    source="derived here, by Gershgorin's theorem on the normalised Gram matrix",
    basis=Basis.PROVED,
    fault=Fault(
        "attention.conditions:HeadMeasures.incoherence",
        returned(np.square),
        "the overlap of two heads squared",
    ),
)
def dependence_implies_overlap(
    scale: Scale, rng: Generator, *, rounding: float = 1e-12
) -> Iterator[Comparison]:
    """Among m linearly dependent heads two have |<Theta_i, Theta_j>| >= |Theta_i| |Theta_j|/(m - 1). The corners of
    a simplex attain this bound, so no larger constant holds.

    Draws random dependent heads for m = 3, 4, 6, and runs the report on a simplex, where the bound is attained.
    Proof: a Gram matrix with ones on the diagonal is regular if the other entries of every row sum to less than 1.
    """
    dim, draws = 6, 200 if scale is Scale.QUICK else 10_000
    for heads in (3, 4, 6):
        bound, least = 1 / (heads - 1), math.inf
        for _ in range(draws):
            theta = np.tensordot(
                rng.standard_normal((heads, heads - 1)), rng.standard_normal((heads - 1, dim, dim)), axes=1
            )
            units = theta.reshape(heads, -1) / np.linalg.norm(theta, axis=(1, 2))[:, None]
            least = min(least, float(np.abs(units @ units.T - np.eye(heads)).max()))
        corners = (np.eye(heads) - 1 / heads) @ np.linalg.qr(rng.standard_normal((dim**2, heads)))[0].T
        theta = corners.reshape(heads, dim, dim)
        measured = check_conditions(AttentionLayer(theta=theta, w=theta))["theta_incoherence"].measured or 0.0
        yield at_least(f"least incoherence of dependent heads, m = {heads}", least, bound)
        yield close(f"incoherence of a simplex, m = {heads}", measured, bound, relative=rounding)
