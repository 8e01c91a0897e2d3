import itertools
import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sq.krawtchouk import krawtchouk, overlap_correlations, profile_moments
from sq.secret_set import GateAndSecretSet, SecretSet

sizes = st.integers(1, 9).flatmap(
    lambda dim: st.integers(0, dim - 1).flatmap(
        lambda first: st.integers(1, dim - first).map(lambda bits: (dim, bits, first))
    )
)


@settings(deadline=None)
@given(sizes)
def test_secrets_are_the_subsets_in_lexicographic_order(size):
    dim, bits, first = size
    secrets = SecretSet(dim, bits, first)
    expected = list(combinations(range(first, dim), bits))
    assert len(secrets) == len(expected) == math.comb(dim - first, bits)
    assert [tuple(row) for row in secrets.table] == expected
    assert [tuple(secrets.unrank(number)) for number in range(len(secrets))] == expected


@settings(deadline=None)
@given(sizes, st.data())
def test_rank_inverts_unrank_whatever_the_order_of_the_coordinates(size, data):
    secrets = SecretSet(*size)
    number = data.draw(st.integers(0, len(secrets) - 1))
    secret = secrets.unrank(number)
    assert secrets.rank(data.draw(st.permutations(list(secret)))) == number


@settings(deadline=None)
@given(sizes, st.data())
def test_overlaps_and_members_count_shared_coordinates(size, data):
    secrets = SecretSet(*size)
    secret = secrets.unrank(data.draw(st.integers(0, len(secrets) - 1)))
    shared = [len(set(row) & set(secret)) for row in secrets.table.tolist()]
    assert secrets.overlaps(secret).tolist() == shared
    assert (secrets.members[:, secret].sum(axis=1) == shared).all()
    assert (secrets.members.sum(axis=1) == secrets.bits).all()


def test_families_of_more_targets_than_a_machine_word_are_counted_drawn_and_ranked():
    secrets = SecretSet(dim=200, bits=30)
    assert secrets.size == math.comb(199, 30)
    with pytest.raises(ValueError, match=r"about 3\.48e\+35 secrets, more than `len` can give"):
        len(secrets)
    drawn = [secrets.draw(seed) for seed in range(20)]
    assert len(set(drawn)) == 20
    assert all(secrets.rank(secrets.unrank(number)) == number for number in drawn)
    # the highest coordinate of a set of 30 of 199 is far above the middle, whatever the draw
    assert min(secrets.unrank(number).max() for number in drawn) > 100
    for table in (lambda: secrets.table, lambda: secrets.members, lambda: secrets.indicator(0)):
        with pytest.raises(ValueError, match="tables hold at most 20000000"):
            table()


def test_gates_and_secrets_are_numbered_without_gaps():
    secrets = GateAndSecretSet(dim=6, bits=2)
    wanted = [
        [gate, *one] for gate in range(6) for one in combinations([j for j in range(6) if j != gate], 2)
    ]
    assert secrets.table.tolist() == wanted
    assert len(secrets) == len(wanted) == 60
    for number, one in enumerate(wanted):
        assert secrets.unrank(number).tolist() == one
        assert secrets.rank(one) == secrets.rank([one[0], one[2], one[1]]) == number
        assert secrets.members[number].nonzero()[0].tolist() == one[1:]
    np.testing.assert_array_equal(secrets.overlaps([0, 1, 2]), [len({1, 2} & set(one[1:])) for one in wanted])


@pytest.mark.parametrize("bits", [1, 2, 5, 8])
def test_krawtchouk_polynomials_are_sums_of_characters(bits):
    for number in range(bits + 1):
        y = np.where(np.arange(bits) < number, -1, 1)
        for degree in range(bits + 1):
            total = sum(int(np.prod(y[list(one)])) for one in itertools.combinations(range(bits), degree))
            assert krawtchouk(bits, degree, number) == total


profiles = st.lists(st.fractions(-5, 5, max_denominator=9), min_size=2, max_size=7).filter(
    lambda g: len(set(g)) > 1
)


@given(profiles, st.data())
def test_correlations_at_an_overlap_are_those_of_all_signs(profile, data):
    bits = len(profile) - 1
    overlap = data.draw(st.integers(0, bits))
    if 2 * bits - overlap > 9:
        return
    mean, variance = profile_moments(profile)
    total, size = Fraction(0), 2 * bits - overlap
    for y in itertools.product((False, True), repeat=size):
        first, second = sum(y[:bits]), sum(y[bits - overlap : 2 * bits - overlap])
        total += (profile[first] - mean) * (profile[second] - mean)
    assert overlap_correlations(profile)[overlap] == total / 2**size / variance
