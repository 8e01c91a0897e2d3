"""Low-degree tests, and noise on labels."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product
from math import comb

import numpy as np
from numpy.random import Generator

from lower import all_sign_matrices
from lower.low_degree import advantage_within_dimension, dimension_within_advantage
from lower.walsh import walsh_hadamard
from paper_checks import Basis, Comparison, Fault, Scale, at_most, claim, close, equal, returned
from sq import ParityFamily


@claim(
    "low-degree/advantage",
    source="""Hopkins 2018, Brennan, Bresler, Hopkins, Li, Schramm 2021, as later papers restate them; for these labels
    derived here""",
    basis=Basis.PROVED,
    fault=Fault(
        "lower.low_degree:_series",
        lambda right: lambda steps, samples, degree, most: right(steps, samples + 1, degree, most + 1),
        "one sample more",
    ),
)
def advantage(scale: Scale, rng: Generator, *, rounding: float = 1e-10) -> Iterator[Comparison]:
    """Let b be a label of -1 or 1 with mean (1 - 2 eta) m_S(X). The squared norm of the likelihood ratio of n samples
    up to degree D, without the 1, is the sum over t >= 1 of C(n, t) times the mean over pairs S, T of the part up to
    degree D of (sum_r rho_r z^(r + 1))^t. For parities of l bits that is sum_t C(n, t) / (2^t N) over t <= D/(2l + 2).

    The likelihood ratio is written out over all inputs and labels of n samples, averaged over all secrets, and
    transformed. Takes d = 3, l = 1 and 2, n = 1, 2 (full: 3), eta = 0 and .125, every D. Row 1 is shown; row 2 is its
    negative. The sum for parities is compared in fractions at d = 40, l = 3. The tests do it for the other families.
    """
    x = all_sign_matrices(2, 3)
    gate = (x[:, 0, 0] - x[:, 1, 0]) / 2
    for bits, rate in product((1, 2), (0.0, 0.125)):
        pairs = ParityFamily(dim=3, bits=bits, construction="B").secret_pairs.flipped(rate)
        secrets = combinations(range(1, 3), bits)
        means = [(1 - 2 * rate) * gate * x[:, :, list(secret)].prod(axis=(1, 2)) for secret in secrets]
        for samples in (1, 2) if scale is Scale.QUICK else (1, 2, 3):
            ratio = np.mean([_likelihood_ratio(mean, samples) for mean in means], axis=0)
            norms = np.bincount(np.bitwise_count(np.arange(len(ratio))), weights=walsh_hadamard(ratio) ** 2)
            found = [
                float(pairs.squared_advantage(samples=samples, degree=degree))
                for degree in range(1, len(norms))
            ]
            gap = np.abs(np.array(found) - (np.cumsum(norms)[1:] - 1)).max()
            yield at_most(f"l = {bits}, n = {samples}, eta = {rate}: off by", float(gap), rounding)
    pairs, targets = ParityFamily(dim=40, bits=3).secret_pairs, comb(39, 3)
    for samples, degree in product((100, 10_000), (7, 8, 16, 40)):
        wanted = sum(Fraction(comb(samples, t), 2**t * targets) for t in range(1, degree // 8 + 1))
        found_sum = pairs.squared_advantage(samples=samples, degree=degree)
        yield equal(f"d = 40, l = 3, n = {samples}, D = {degree}", found_sum, wanted)


@claim(
    "low-degree/dimension",
    source="""Brennan, Bresler, Hopkins, Li, Schramm 2021 for the first, without a limit on the degree in a sample, the
    original not compared; the second is derived here""",
    basis=Basis.PROVED,
    fault=Fault(
        "lower.low_degree:SecretPairs.dimension",
        returned(lambda dimension: dimension / 3),
        "a third of the dimension",
    ),
)
def dimension(scale: Scale, rng: Generator, *, slack: float = 1e-12) -> Iterator[Comparison]:
    """Let SDA(m) be the largest q with average |rho| <= 1/m on every event of pairs of probability 1/q^2. Monomials
    that touch up to k samples, k even, give SDA(m) >= sqrt(C(n, k) / advantage^2) / m^(k/2). Conversely SDA(m) >= q
    bounds advantage^2 by sum_{t <= k} C(n, t) (m^-t + max|rho|^(t-1) / (m q^2)).

    The docstrings have the proofs. For N parities SDA(m) is sqrt(2N/m): an event of probability 1/q^2 averages at most
    q^2/(2N). Both bounds are computed for N = 165, m = 4 to 40, n = 8 to 120, k = 2 and 4. The tests do it for the
    other families.
    """
    pairs = ParityFamily(dim=12, bits=3).secret_pairs
    for at in (4, 10, 40):
        found = pairs.dimension(samples=at)
        yield close(f"m = {at}: SDA", found, (2 * 165 / at) ** 0.5, relative=1e-9)
        for samples, touched in product((8, 30, 120), (2, 4)):
            seen = pairs.squared_advantage(samples=samples, touched=touched)
            low = dimension_within_advantage(seen, samples=samples, touched=touched, at=at)
            name = f"m = {at}, n = {samples}, k = {touched}"
            yield at_most(f"{name}: SDA from below, over it", low / found, 1 + slack)
            high = advantage_within_dimension(
                found, at=at, samples=samples, touched=touched, largest=max(pairs.totals)
            )
            yield at_most(f"{name}: advantage^2 over its bound", float(seen) / high, 1 + slack)


def _likelihood_ratio(mean: np.ndarray, samples: int) -> np.ndarray:
    """At all inputs and labels of n samples; the label is the last bit of a sample."""
    own = np.concatenate([1 + mean, 1 - mean])
    whole = own
    for _ in range(samples - 1):
        whole = np.multiply.outer(own, whole).ravel()
    return whole
