"""Learning with rounding, realised by heads."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.random import Generator

from lwe import LWEParameters
from lwe.heads import lwr_heads
from lwe.parameters import covariate_form
from lwe.residues import centred, rounded
from paper_checks.claim import Basis, claim
from paper_checks.comparison import Comparison, at_most, covers, equal, surely_above
from paper_checks.faults import Fault, returned
from runs import Scale
from studies.intervals import mean_interval, proportion_interval

_SIZES = ((6, 8, 2), (6, 16, 4), (8, 7, 3), (10, 64, 2), (5, 17, 17), (12, 4, 2))
_NO_PADS = Fault(
    "lwe.heads:lwr_heads",
    returned(
        lambda heads: replace(
            heads,
            thresholds=heads.thresholds[1:-1],
            coefficients=heads.coefficients[1:-1],
            slopes=np.asarray(heads.slopes)[1:-1],
        )
    ),
    "the heads without the pads",
)


@claim(
    "rounding/padded-layer",
    source="derived here",
    basis=Basis.PROVED,
    fault=Fault(
        "lwe.heads:lwr_heads",
        returned(
            lambda heads: replace(heads, coefficients=heads.coefficients[[-1, *range(1, len(heads) - 1), 0]])
        ),
        "the two pads exchanged",
    ),
)
def padded_layer(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Let a_j = 1[x_1j != x_2j], j = 2..d, which are uniform bits for uniform tokens, on the gate x_11 != x_21 and off
    it, and T = <v, a>, f(T) = floor(p (T mod q)/q). Heads at the jumps of f alone give f(T) - c0 on the gate and C off
    it, with c0 = (f(sum v^-) + f(sum v^+))/2 and C = (f(sum v^+) - f(sum v^-))/2, which depend on the secret. Exactly
    one pair of pads makes them (p-1)/2 and 0: alpha = (c0 - (p-1)/2 - C)/2 below and gamma = (-C - c0 + (p-1)/2)/2
    above. Row r of the layer is then x_r1 (f(T) - (p-1)/2) e_1 on the gate and 0 off it. In double precision the error
    is 0 at beta = 40.

    The docstrings of lwe.heads.lwr_heads and lower.Heads have the proof. The pads solve C + alpha + gamma = 0 and alpha
    - gamma = c0 - (p-1)/2, so there is one pair. Takes six (n, q, p), uniform secrets and random tokens, and the pads
    of all secrets of n = 3, q = 8, p = 4. That the error is 0 and not merely small is observed on these inputs.
    """
    worst = 0.0
    for n, q, p in _SIZES:
        v = centred(rng.integers(q, size=n), q)
        x = rng.choice([-1.0, 1.0], size=(200 if scale is Scale.QUICK else 4000, 2, n + 1))
        labels = rounded((x[:, 0, 1:] != x[:, 1, 1:]) @ v, q, p) - (p - 1) / 2
        wanted = np.zeros_like(x)
        wanted[..., 0] = x[..., 0] * ((x[:, 0, 0] != x[:, 1, 0]) * labels)[:, None]
        outputs = lwr_heads(v, LWEParameters(n, q, p), beta=40.0).layer()(x)
        worst = max(worst, float(np.abs(outputs - wanted).max()))
    yield at_most("largest error", worst, 0.0)
    constants, pads_right, sums = set(), True, set()
    for v in np.array(list(itertools.product(range(-3, 5), repeat=3))):
        low, high = rounded(np.array([v[v < 0].sum(), v[v > 0].sum()]), 8, 4).tolist()
        c0, c = (low + high) / 2, (high - low) / 2
        found = lwr_heads(v, LWEParameters(3, 8, 4)).coefficients
        pads_right &= [found[0], found[-1]] == [(c0 - 1.5 - c) / 2, (1.5 - c0 - c) / 2]
        constants.add(c)
        sums.add(float(found.sum()))
    yield equal("values of C over all secrets, without pads", len(constants), 7)
    yield equal("pads as stated", pads_right, True)
    yield equal("values off the gate over all secrets, with pads", sorted(sums), [0])


@claim(
    "rounding/gadget",
    source="derived here, from the gadget matrix of Micciancio and Peikert 2012",
    basis=Basis.PROVED,
    fault=Fault("lwe.parameters:covariate_form", returned(lambda v: 2 * v), "powers of two from 2 on"),
)
def gadget(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Let q = 2^kappa and v_{j,i} = 2^i s_j mod q. Then <v, a> = <s, G a> mod q, where G a are the residues whose bits
    are a. G a is exactly uniform in Z_q^n'. So labelled covariates are exactly LWR_{n',q,p}, with q a power of two.

    Takes all secrets and all covariates at n' = 2, q = 8 and n' = 1, q = 16, in whole numbers. That LWR with these
    parameters is hard is an assumption, not checked.
    """
    for n, kappa in ((2, 3), (1, 4)):
        q = 2**kappa
        bits = np.array(list(itertools.product((0, 1), repeat=n * kappa)))
        residues = bits.reshape(-1, n, kappa) @ 2 ** np.arange(kappa)
        yield equal(f"n' = {n}, q = {q}: different G a", len(np.unique(residues, axis=0)), q**n)
        secrets = list(itertools.product(range(q), repeat=n))
        forms = [covariate_form(np.array(s), LWEParameters(n, q, 2, matrix="gadget")) for s in secrets]
        same = np.array_equal(bits @ np.array(forms).T % q, residues @ np.array(secrets).T % q)
        yield equal(f"n' = {n}, q = {q}: <v, a> = <s, G a> mod q", same, True)


@claim("rounding/head-count", source="derived here", basis=Basis.PROVED, fault=_NO_PADS, false_alarm=0.0002)
def head_count(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """A secret v needs m heads with |m - 2 - p |v|_1/q| < 1. The mean of |v_j| is exactly q/4 for even q. So uniform
    secrets of n entries need about p n/4 + 2 heads, for any q. With 8 jumps or more their number, m - 2, is within 25 %
    of p |v|_1/q. The gadget family at n' = 16, q = 256, p = 2 has d = 129, 66 heads on average and 60 to 71 for most.

    The least and the greatest T are |v|_1 apart, and between them f jumps once for each multiple of q/p, rounded up.
    Counts the heads that the library makes for drawn secrets, n = 64 and n' = 16. The last figures are measured.
    """
    quarters = all(4 * sum(min(r, q - r) for r in range(q)) == q * q for q in range(2, 257, 2))
    yield equal("the mean of |v_j| is q/4, even q up to 256", quarters, True)
    off, relative = 0.0, 0.0
    for q, p in ((16, 2), (64, 2), (256, 4), (1024, 2), (101, 7), (10, 4)):
        for _ in range(2 if scale is Scale.QUICK else 200):
            v = centred(rng.integers(q, size=64), q)
            jumps, size = len(lwr_heads(v, LWEParameters(64, q, p))) - 2, p * float(np.abs(v).sum()) / q
            off, relative = max(off, abs(jumps - size)), max(relative, abs(jumps - size) / size)
    yield at_most("jumps off p |v|_1/q", off, 1.0)
    yield at_most("jumps off p |v|_1/q, relative", relative, 0.25)
    parameters = LWEParameters(16, 256, 2, matrix="gadget")
    secrets = rng.integers(256, size=(200 if scale is Scale.QUICK else 4000, 16))
    heads = np.array([len(lwr_heads(covariate_form(s, parameters), parameters)) for s in secrets])
    many = int(((heads >= 60) & (heads <= 71)).sum())
    within = proportion_interval(many, len(heads), confidence=0.9999)
    yield equal("gadget: d", parameters.dim, 129)
    yield covers("gadget: heads", mean_interval(heads, confidence=0.9999), 66.0, margin=0.3)
    yield surely_above("gadget: share of secrets in the range", within, 0.75)


@claim(
    "rounding/truncation",
    source="derived here; Hoeffding 1963, Theorem 2, for the bound",
    basis=Basis.DERIVED,
    fault=_NO_PADS,
    false_alarm=0.0002,
)
def truncation(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Keep only the heads for the jumps within 6 standard deviations of the mean of T. They leave out a share of at
    most 2 e^(-6^2/2) of the covariates. For uniform secrets at n = 256, q = 64, p = 2 that takes some 57 heads instead
    of 130 on average.

    Counts the share exactly for one secret, by whole numbers and dynamic programming over T, and the heads that the
    library makes for drawn secrets. The bound is proved. The averages are pn/4 + 2 and 6p sqrt(n/12) + 2 up to 1,
    measured here.
    """
    parameters = LWEParameters(256, 64, 2)
    v = centred(rng.integers(64, size=256), 64)
    counts = np.zeros(int(np.abs(v).sum()) + 1, dtype=object)
    counts[0] = 1
    for step in np.abs(v):  # T less its least value; a whole turn of the array is never reached
        counts = counts + np.roll(counts, step)
    beyond = (2 * np.arange(len(counts)) - len(counts) + 1) ** 2 > 36 * int((v * v).sum())
    yield at_most("share of covariates beyond", counts[beyond].sum() / 2**256, 2 * math.exp(-18))
    secrets = [centred(rng.integers(64, size=256), 64) for _ in range(200 if scale is Scale.QUICK else 4000)]
    for name, deviations, figure in (("heads", None, 130.0), ("heads that are kept", 6.0, 57.4)):
        heads = [len(lwr_heads(secret, parameters, deviations=deviations)) for secret in secrets]
        yield covers(name, mean_interval(heads, confidence=0.9999), figure, margin=0.3)
