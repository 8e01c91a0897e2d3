"""Losses by hand, monotone, against enumeration and layers; and the reductions that run, on samples."""

import itertools

import numpy as np
import pytest

from lwe import (
    PRESETS,
    TERNARY,
    LWEParameters,
    LWRSamples,
    known_reductions,
    make_samples,
    parse_distribution,
    rejected_samples,
    rounded_samples,
    small_row_samples,
)


def by_source(name):
    """The first of each source."""
    return {
        one.source.split(",")[0].split(" ")[0]: one for one in reversed(known_reductions(PRESETS[name]).steps)
    }


def test_the_losses_of_gadget_16_by_hand():
    known, found = known_reductions(PRESETS["gadget-16"]), by_source("gadget-16")
    assert known.samples == 16 * 8  # each label has one bit
    bpr, bgmrr = found["Banerjee"], found["Bogdanov"]
    assert (bpr.modulus, bpr.samples) == (2.0, 32.0)  # 128 samples times 4/256 is 2, four times 1/2
    assert (bgmrr.modulus, bgmrr.samples) == (1.0, 64.0)
    assert "2^2.86" in bgmrr.condition  # 128 log2(65/64)
    assert known.steps[-1].heads == 2 * 128 / 4 + 2
    assert known.rests_on == "LWE with errors uniform on 128 residues"
    assert not any(one.covers for one in (bpr, bgmrr))


def test_rounded_errors_are_rounding_with_errors_before_it():
    fine = LWEParameters(8, 4096, 4096, "uniform", Xe=parse_distribution("binomial:2"))
    samples, secret = make_samples(fine, 1000, rng=0)
    coarse, again = make_samples(fine.updated(p=16), 1000, rng=0)
    assert np.array_equal(secret, again)
    assert np.array_equal(rounded_samples(samples, 4096, 16).labels, coarse.labels)
    samples, coarse = (
        make_samples(fine.updated(p=p), 1000, rounding="nearest", rng=0)[0] for p in (4096, 16)
    )
    nearest = rounded_samples(samples, 4096, 16)
    assert np.array_equal(nearest.labels, coarse.labels)
    assert nearest.rounding == "nearest"
    assert known_reductions(fine.updated(p=16)).rests_on == "LWE"


@pytest.mark.parametrize("matrix", ["binary", "ternary"])
@pytest.mark.parametrize(("q", "n"), [(16, 8), (64, 15), (2**40, 81)])
def test_small_rows_have_the_secret_shifted_and_the_same_errors(q, n, matrix):
    digits = q.bit_length() - 1
    standard = LWEParameters(n // digits, q, q, "uniform", Xe=parse_distribution("binomial:2"))
    samples, secret = make_samples(standard, 1000, rng=0)
    found, shift = small_row_samples(samples, LWEParameters(n, q, q, matrix), rng=1)
    spread = [int(one) << place for one in secret for place in range(digits)]
    own = [(a + int(b)) % q for a, b in itertools.zip_longest(spread, shift, fillvalue=0)]
    for before, b, after, label in zip(
        samples.public, samples.labels, found.public, found.labels, strict=True
    ):
        error = int(b) - sum(int(a) * int(s) for a, s in zip(before, secret, strict=True))
        assert (int(label) - sum(int(a) * v for a, v in zip(after, own, strict=True)) - error) % q == 0


@pytest.mark.parametrize(
    ("parameters", "rests_on"),
    [
        (PRESETS["parity-64"], "nothing"),
        (PRESETS["lpn-32"], "LPN"),
        (PRESETS["toy-lwe"], "LWE"),
        (PRESETS["toy-lwe"].updated(q=17, p=17), "LWE, binary rows"),
        (PRESETS["toy-lwe"].updated(Xs=TERNARY), "LWE, binary rows, ternary secret"),
        (PRESETS["kyber512"], "LWE"),
        (PRESETS["saber"], "LWE, binomial(4) secret with errors uniform on 8 residues"),
        (PRESETS["no-wrap"], "LWR, binary rows, ternary secret"),  # p does not divide q
        (LWEParameters(16, 2**20, 2, "gadget"), "LWE"),  # the modulus is large enough
        (LWEParameters(40, 2**20, 2), "LWE"),
        (LWEParameters(40, 1048583, 2), "LWE, binary rows"),
    ],
    ids=str,
)
def test_what_a_problem_rests_on(parameters, rests_on):
    assert known_reductions(parameters).rests_on == rests_on


@pytest.mark.parametrize(("q", "p"), [(16, 4), (64, 2), (12, 3), (8192, 1024)])
def test_rejection_keeps_each_product_for_exactly_one_of_q_over_p_errors(q, p):
    share = q // p
    products, errors = (
        one.ravel() for one in np.meshgrid(np.arange(q), np.arange(1 - share, 1), indexing="ij")
    )
    kept = rejected_samples(LWRSamples(products[:, None], products + errors), q, p)
    assert np.array_equal(kept.public[:, 0], np.arange(q))
    assert np.array_equal(kept.labels, p * np.arange(q) // q)
