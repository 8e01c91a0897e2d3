import numpy as np
import pytest

from lwe.laws import BinomialLaw, FlipLaw, GaussianLaw, SparseLaw, TernaryLaw
from lwe.parameters import LWRParameters, centred
from lwe.samples import LWRSamples, inner_products, make_samples

PROBLEMS = [
    LWRParameters(12, 64, 2),
    LWRParameters(12, 17, 3, matrix="ternary", secret=TernaryLaw()),
    LWRParameters(6, 16, 4, matrix="gadget"),
    LWRParameters(20, 101, 7, matrix="uniform", secret=SparseLaw(5)),
]


@pytest.mark.parametrize("parameters", PROBLEMS, ids=str)
def test_labels_are_the_rounded_inner_products(parameters):
    samples, secret = make_samples(parameters, 300, rng=0)
    q, p = parameters.modulus, parameters.levels
    expected = [
        p * (sum(int(a) * int(s) for a, s in zip(row, secret, strict=True)) % q) // q
        for row in samples.public
    ]
    assert samples.labels.tolist() == expected
    entries = {"binary": {0, 1}, "ternary": {-1, 0, 1}}.get(parameters.matrix, set(range(q)))
    assert set(np.unique(samples.public)) == entries
    assert parameters.secret.allows(secret, q)


@pytest.mark.parametrize(
    "parameters",
    [
        LWRParameters(8, 2, 2, noise=FlipLaw(0.2)),
        LWRParameters(8, 32, 32, matrix="uniform", noise=BinomialLaw(2)),
        LWRParameters(8, 64, 4, matrix="uniform", noise=GaussianLaw(3.0)),
    ],
    ids=str,
)
def test_the_secret_predicts_the_best_accuracy_of_noisy_labels(parameters):
    samples, secret = make_samples(parameters, 20_000, secret=np.arange(1, 9), rng=0)
    q, p = parameters.modulus, parameters.levels
    clean = p * inner_products(samples.public, secret, q) // q
    best = parameters.best_accuracy
    assert 0 < best < 1
    assert np.mean(clean == samples.labels) == pytest.approx(
        best, abs=4 * np.sqrt(best * (1 - best) / 20_000)
    )
    if p == q:
        errors = centred(samples.labels - clean, q)
        assert np.sqrt(np.mean(errors.astype(float) ** 2)) == pytest.approx(
            parameters.noise.deviation(q), rel=0.03
        )


def test_ternary_entries_have_probabilities_a_quarter_a_half_a_quarter():
    samples, _ = make_samples(LWRParameters(10, 8, 2, matrix="ternary"), 8000, rng=1)
    shares = [np.mean(samples.public == one) for one in (-1, 0, 1)]
    assert shares == pytest.approx([0.25, 0.5, 0.25], abs=0.01)


def test_inner_products_do_not_overflow():
    q = (1 << 31) - 1
    rng = np.random.default_rng(0)
    public, secret = rng.integers(q, size=(20, 50)), rng.integers(q, size=50)
    expected = [sum(int(a) * int(s) for a, s in zip(row, secret, strict=True)) % q for row in public]
    assert inner_products(public, secret, q).tolist() == expected


def test_samples_are_cut_and_held_out():
    samples, _ = make_samples(LWRParameters(4, 8, 2), 10, rng=0)
    kept, fresh = samples.held_out(3)
    np.testing.assert_array_equal(np.concatenate([kept.public, fresh.public]), samples.public)
    np.testing.assert_array_equal(np.concatenate([kept.labels, fresh.labels]), samples.labels)
    assert len(samples.take(4)) == 4
    for refused in (lambda: samples.take(11), lambda: samples.held_out(10)):
        with pytest.raises(ValueError, match="there are 10 samples"):
            refused()
    with pytest.raises(ValueError, match="read-only"):
        samples.public[0, 0] = 5


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("public", "labels", "word"),
    [
        ([[1, 2]], [1, 2], "one label for each row"),
        ([1, 2], [1, 2], "are needed"),
        (np.zeros((0, 2), dtype=int), np.zeros(0, dtype=int), "neither of them empty"),
        ([[0.5, 1]], [1], "whole numbers"),
        ([[1, 2]], ["a"], "whole numbers"),
        ([[1, 2]], [True], "whole numbers"),
        ([[1, np.nan]], [1], "whole numbers"),
        (np.full((1, 1), 2**64 - 1, dtype=np.uint64), [1], "64 bits"),
        (np.array([[None]]), [1], "whole numbers"),
    ],
)
def test_arrays_that_are_no_samples_are_explained(public, labels, word):
    with pytest.raises(ValueError, match=word):
        LWRSamples(public, labels)


@pytest.mark.bad_input
def test_whole_numbers_in_floating_point_are_accepted():
    samples = LWRSamples(np.array([[1.0, 2.0]]), np.array([1.0]))
    assert samples.public.dtype == samples.labels.dtype == np.int64
