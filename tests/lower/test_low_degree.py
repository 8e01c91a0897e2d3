import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import hadamard

from lower import SecretPairs, all_sign_matrices
from lower.walsh import walsh_hadamard
from sq import (
    HiddenGateFamily,
    PairFamily,
    ParityFamily,
    ProfileFamily,
    TokenParityFamily,
    statistical_dimension,
)
from sq.dimension import reference_gram

FAMILIES = (
    ParityFamily(dim=5, bits=3),
    ParityFamily(dim=5, bits=2, construction="B"),
    ProfileFamily.bump(dim=6, bits=3, at=1),
    ProfileFamily.two_slope(dim=6, bits=4),
    ProfileFamily.designed_steps(dim=6, bits=4),
    ProfileFamily.centre_threshold(dim=6, bits=4),
    HiddenGateFamily(base=ProfileFamily.two_slope(dim=5, bits=3)),
    PairFamily(dim=5),
    TokenParityFamily(dim=4, tokens=3, bits=2),
    TokenParityFamily(dim=5, tokens=3, bits=1),
)


def enumerated_pairs(family):
    """The pairs of a family from its hidden parts alone: Walsh-Hadamard transforms over all inputs."""
    x, size = all_sign_matrices(family.tokens, family.dim), family.secrets.size
    values = np.array([family.hidden(number, x).T for number in range(size)])  # secrets, rows, inputs
    spectra = walsh_hadamard(values / np.abs(values).max())
    degrees = np.bitwise_count(np.arange(len(x)))
    rows = []
    for one, other in product(spectra, repeat=2):
        row = np.bincount(degrees, weights=(one * other).mean(axis=0))
        rows.append(np.where(np.abs(row) > 1e-14, row, 0.0).tolist())
    return SecretPairs([Fraction(1, size**2)] * size**2, rows)


def likelihood_ratio_by_degree(family, samples, rate):
    """The squared norm of each degree's part of the likelihood ratio, over all inputs and labels; row 0 is shown."""
    x = all_sign_matrices(family.tokens, family.dim)
    hidden = [family.hidden(number, x)[:, 0] for number in range(family.secrets.size)]
    largest = max(np.abs(one).max() for one in hidden)
    ratio = 0.0
    for one in hidden:
        mean = (1 - 2 * rate) * one / largest
        own = np.concatenate([1 + mean, 1 - mean])  # the label is the last bit
        whole = own
        for _ in range(samples - 1):
            whole = np.multiply.outer(own, whole).ravel()
        ratio = ratio + whole / len(hidden)
    degrees = np.bitwise_count(np.arange(len(ratio)))
    return np.bincount(degrees, weights=walsh_hadamard(ratio) ** 2)


@pytest.mark.parametrize("rate", [0.0, 0.125])
@pytest.mark.parametrize(
    "family",
    [
        ParityFamily(dim=3, bits=1),
        ParityFamily(dim=3, bits=2, construction="B"),
        ProfileFamily.bump(dim=3, bits=2, at=0),
        HiddenGateFamily(base=ParityFamily(dim=3, bits=1)),
    ],
    ids=lambda family: family.title,
)
def test_squared_advantage_is_the_norm_of_the_low_degrees_of_the_likelihood_ratio(family, rate):
    for samples in (1, 2, 3):
        by_degree = likelihood_ratio_by_degree(family, samples, rate)
        assert by_degree[0] == pytest.approx(1)
        pairs = family.secret_pairs.flipped(rate)
        for degree in range(1, len(by_degree) + 2):
            found = float(pairs.squared_advantage(samples=samples, degree=degree))
            assert found == pytest.approx(by_degree[1 : degree + 1].sum(), abs=1e-12)
        assert float(pairs.squared_advantage(samples=samples)) == pytest.approx(by_degree[1:].sum())


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.title)
def test_pairs_of_every_family_are_those_of_full_enumeration(family):
    stated, found = family.secret_pairs, enumerated_pairs(family)
    assert stated.lowest_degree == found.lowest_degree == family.lowest_degree + 1
    for samples, degree in product((1, 3, 50), range(1, 16)):
        wanted = float(stated.squared_advantage(samples=samples, degree=degree))
        assert float(found.squared_advantage(samples=samples, degree=degree)) == pytest.approx(
            wanted, rel=1e-9
        )
    for samples in (2, 20, 200):
        # kinds are split alike only where events are; these are continuous in the chances
        assert found.statistical_dimension(samples=samples) == pytest.approx(
            stated.statistical_dimension(samples=samples), rel=1e-6
        )


def test_dimension_is_the_root_of_the_one_over_sets_for_orthogonal_targets():
    family = ParityFamily(dim=12, bits=3)
    secrets, pairs = family.secrets, family.secret_pairs
    for samples in (3, 30, 300):
        over_sets = statistical_dimension(reference_gram(secrets), Fraction(1, samples)).value
        assert pairs.statistical_dimension(samples=samples) == pytest.approx(math.sqrt(over_sets))
    assert pairs.statistical_dimension(samples=2) == math.inf
    assert pairs.statistical_dimension(samples=331) == 0


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("chances", "correlations", "said"),
    [
        ((Fraction(1, 2),), ((0,),), "add up to 0.5"),
        ((1,), ((0,), (0,)), "1 entries and correlations 2"),
        ((1,), ((0.1,),), "degree 0"),
    ],
)
def test_pairs_that_are_no_law_of_label_means_are_refused(chances, correlations, said):
    with pytest.raises(ValueError, match=said):
        SecretPairs(chances, correlations)


@given(bits=st.integers(0, 9), batch=st.integers(1, 3), seed=st.integers(0, 2**32))
def test_the_transform_is_the_average_against_every_character(bits, batch, seed):
    values = np.random.default_rng(seed).normal(size=(batch, 1 << bits))
    found = walsh_hadamard(values)
    np.testing.assert_allclose(found, values @ hadamard(1 << bits) / (1 << bits), atol=1e-12)
    np.testing.assert_allclose(walsh_hadamard(found) * (1 << bits), values, atol=1e-12)


def test_all_sign_matrices_are_all_of_them_once():
    x = all_sign_matrices(2, 3)
    assert len(np.unique(x.reshape(64, 6), axis=0)) == 64
    assert set(np.unique(x)) == {-1.0, 1.0}
