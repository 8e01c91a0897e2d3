"""Losses by hand, monotone, against enumeration and layers; and the reductions that run, on samples."""

import itertools
import json
import math

import numpy as np
import pytest

from lwe import (
    PRESETS,
    TERNARY,
    BKWAttack,
    LWEParameters,
    LWRFamily,
    LWRSamples,
    known_reductions,
    make_samples,
    parse_distribution,
    rounded_samples,
    small_row_samples,
)
from lwe.attacks.tokens import token_examples
from lwe.heads import covariates_of
from lwe.parameters import covariate_form, rounded


def by_source(name):
    return {one.source.split(",")[0].split(" ")[0]: one for one in known_reductions(PRESETS[name]).steps}


def test_the_losses_of_gadget_16_by_hand():
    known, found = known_reductions(PRESETS["gadget-16"]), by_source("gadget-16")
    assert known.samples == 16 * 8  # each label has one bit
    bpr, bgmrr = found["Banerjee"], found["Bogdanov"]
    assert (bpr.modulus, bpr.samples) == (2.0, 32.0)  # 128 samples times 4/256 is 2, four times 1/2
    assert (bgmrr.modulus, bgmrr.samples) == (1.0, 64.0)
    assert "2^2.86" in bgmrr.condition  # 128 log2(65/64)
    assert known.steps[-1].heads == 2 * 128 / 4 + 2
    assert known.rests_on == "LWR"
    assert not any(one.covers for one in (bpr, bgmrr))


def test_the_losses_of_lwe_30_by_hand():
    known, found = known_reductions(PRESETS["lwe-30"]), by_source("lwe-30")
    width = math.sqrt(2 * math.pi)
    assert found["Regev"].modulus == pytest.approx(math.log2(2 * math.sqrt(30) / width))
    assert known.rests_on == "LWE"
    wide = known_reductions(PRESETS["lwe-30"].updated(Xe=parse_distribution("gaussian:8")))
    assert wide.rests_on == "lattices in the worst case, by quantum algorithms"


def test_the_losses_of_plain_24_by_hand():
    known = known_reductions(PRESETS["plain-24"])
    rows, rounding, layer = known.steps
    assert rows.covers
    assert "the dimension falls to 4" in rows.condition
    assert (rounding.modulus, rounding.samples) == (pytest.approx(math.log2(18)), 8.0)  # 2 * 144 / 16 = 18
    assert layer.heads == 2 * 24 / 4 + 2
    assert known.rests_on == "LWR, binary rows"


@pytest.mark.parametrize("source", ["Banerjee", "Bogdanov"])
def test_losses_grow_with_levels_and_dimension_and_fall_with_the_modulus(source):
    def short(n, q, p):
        found = known_reductions(LWEParameters(n, q, p, "uniform")).steps
        return next(one.modulus for one in found if one.source.startswith(source))

    for n, q, p in itertools.product((16, 40), (2**12, 3329, 2**20), (4, 32)):
        assert short(n, 4 * q, p) < short(n, q, p) < short(2 * n, q, p)
        assert short(n, q, p) < short(n, q, 4 * p)


def test_heads_grow_with_levels_and_covariates():
    def heads(**changes):
        return known_reductions(PRESETS["plain-24"].updated(**changes)).steps[-1].heads

    assert heads() < heads(p=4) < heads(p=4, n=30)
    assert heads(matrix="ternary") == 2 * heads() - 2


@pytest.mark.parametrize("name", ["plain-24", "covariates-24", "gadget-4", "no-wrap", "sparse-64", "toy-lwe"])
def test_the_heads_are_the_mean_of_those_of_layers(name):
    family = LWRFamily.of(PRESETS[name])
    rng = np.random.default_rng(0)
    counts = [len(family.heads_of(family.draw(rng), np.ones(1))) for _ in range(100)]
    margin = 4 * np.std(counts) / 10 + 1  # a jump is lost or won at the ends
    assert known_reductions(PRESETS[name]).steps[-1].heads == pytest.approx(np.mean(counts), abs=margin)


@pytest.mark.parametrize(("q", "p", "size"), [(16, 2, 1), (17, 3, 1), (64, 8, 2), (30, 7, 2), (97, 96, 1)])
def test_errors_of_size_b_change_at_most_2_b_p_of_q_labels(q, p, size):
    residues = np.arange(q)
    changed = np.zeros(q, dtype=bool)
    for error in range(-size, size + 1):
        changed |= rounded(residues + error, q, p) != rounded(residues, q, p)
    assert changed.sum() <= 2 * size * p
    if q // p >= 2 * size:
        assert changed.sum() == 2 * size * p


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


def test_small_rows_have_the_law_of_the_family():
    every = LWRSamples(np.arange(8)[:, None], np.zeros(8, dtype=int))
    rows, _ = small_row_samples(every, LWEParameters(3, 8, 8), rng=0)
    assert sorted(map(tuple, rows.public)) == list(itertools.product((0, 1), repeat=3))
    many = LWRSamples(np.tile(every.public, (4000, 1)), np.zeros(32000, dtype=int))
    trits, _ = small_row_samples(many, LWEParameters(4, 8, 8, "ternary"), rng=0)
    values, counts = np.unique(trits.public, axis=0, return_counts=True)
    chances = 0.25 ** np.count_nonzero(values, axis=1) * 0.5 ** np.sum(values == 0, axis=1)
    assert len(values) == 81
    assert np.all(np.abs(counts - 32000 * chances) <= 5 * np.sqrt(32000 * chances))


def test_an_attack_on_small_rows_finds_the_standard_secret():
    standard = LWEParameters(3, 16, 16, "uniform", Xe=parse_distribution("flip:0.05"))
    samples, secret = make_samples(standard, 20_000, rng=0)
    plain = LWEParameters(12, 16, 16, Xe=standard.Xe)
    found, shift = small_row_samples(samples, plain, rng=1)
    result = BKWAttack()(found, plain, rng=0)
    assert result.outcome.name == "BROKEN", result
    assert np.array_equal(np.mod(result.secret - shift, 16)[::4], np.mod(secret, 16))


def test_tokens_of_standard_rounding_have_its_labels_by_the_gadget_form():
    standard = LWEParameters(4, 256, 8, "uniform")
    samples, secret = make_samples(standard, 1000, rng=0)
    gadget = standard.updated(matrix="gadget")
    gate = np.ones(1000, dtype=bool)
    x, _ = token_examples(gate, samples.public, samples.labels, gadget, rng=np.random.default_rng(1))
    products = covariates_of(x, gadget) @ covariate_form(secret, gadget)
    assert np.array_equal(np.mod(products, 256), samples.public @ secret % 256)
    assert np.array_equal(rounded(products, 256, 8), samples.labels)


@pytest.mark.parametrize("name", list(PRESETS)[::5])
def test_the_reductions_of_every_preset_are_json(name):
    known = known_reductions(PRESETS[name])
    data = json.loads(json.dumps(known.to_json()))
    assert len(data["reductions"]) == len(known.steps)
    for one in known.steps:
        assert one.covers == (one.modulus <= 0)
        assert one.evidence in str(one)
    assert (known.steps[-1].to == "layer") if known.steps else known.rests_on == "nothing"


@pytest.mark.parametrize(
    ("parameters", "rests_on"),
    [
        (PRESETS["parity-64"], "nothing"),
        (PRESETS["lpn-32"], "LPN"),
        (PRESETS["toy-lwe"], "LWE"),
        (PRESETS["toy-lwe"].updated(q=17, p=17), "LWE, binary rows"),
        (PRESETS["toy-lwe"].updated(Xs=TERNARY), "LWE, binary rows, ternary secret"),
        (PRESETS["kyber512"], "LWE"),
        (PRESETS["saber"], "LWR, binomial(4) secret"),
        (LWEParameters(16, 2**20, 2, "gadget"), "LWE"),  # the modulus is large enough
        (LWEParameters(40, 2**20, 2), "LWE"),
        (LWEParameters(40, 1048583, 2), "LWE, binary rows"),
    ],
    ids=str,
)
def test_what_a_problem_rests_on(parameters, rests_on):
    assert known_reductions(parameters).rests_on == rests_on


def test_rounding_is_learning_with_errors_uniform_on_neighbours_where_p_divides_q():
    """The reductions lack this one, so they may not say that none covers rounding."""
    rounding = [one for one in PRESETS.values() if one.p < one.q and not one.noisy]
    divided = {(one.q, one.p) for one in rounding if one.q % one.p == 0}
    assert len(rounding) == 22
    assert sum(one.q % one.p == 0 for one in rounding) == 17
    for q, p in divided:
        products, errors = np.arange(q)[:, None], np.arange(1 - q // p, 1)
        labels = (products + errors) % q
        kept = labels % (q // p) == 0
        assert np.all(kept.sum(axis=1) == 1)  # so the rows stay what they are
        assert np.array_equal(labels[kept] // (q // p), rounded(np.arange(q), q, p))
