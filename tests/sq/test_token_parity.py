import math

import numpy as np
import pytest

from attention import BooleanInputs
from lower import (
    GatedKnownPart,
    all_sign_matrices,
    query_lower_bound,
    solve_gf2,
)
from lower.walsh import walsh_hadamard
from sq import TokenParityFamily


@pytest.mark.parametrize(("tokens", "dim"), [(2, 6), (3, 5), (5, 3)])
@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_rows_are_parities_of_their_own_tokens_on_all_inputs(tokens, dim, bits, enumerated):
    if bits > dim - 2:
        return
    checked = enumerated(TokenParityFamily(dim=dim, tokens=tokens, bits=bits))
    assert checked.max_error <= 1e-12
    assert checked.correlation_error <= 1e-12
    assert checked.targets == math.comb(dim - 2, bits)


@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_the_target_is_its_definition_one_input_at_a_time(bits):
    family = TokenParityFamily(dim=7, tokens=4, bits=bits)
    instance = family.instance(1)
    x = BooleanInputs(4, 7).sample(200, rng=0)
    for one, found in zip(x, instance.layer(x)[:, :, 0], strict=True):
        for row in range(4):
            if len(set(one[:, 0])) == 1:
                wanted = (bits % 2) * one[0, 0]
            else:
                wanted = (bits + 1) % 2 * one[row, 1]
                wanted += (-1) ** (bits + 1) * one[row, 1] ** (bits + 1) * np.prod(one[row, instance.secret])
            assert found[row] == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize(("tokens", "dim", "bits"), [(2, 6, 2), (2, 6, 3), (3, 5, 2), (3, 5, 3)])
def test_lowest_fourier_degree_is_l_or_the_odd_number_above(tokens, dim, bits):
    family = TokenParityFamily(dim=dim, tokens=tokens, bits=bits)
    x = all_sign_matrices(tokens, dim)
    present = np.flatnonzero(np.abs(walsh_hadamard(family.hidden(0, x)[:, 0])) > 1e-9)
    assert min(int(index).bit_count() for index in present) == family.lowest_degree
    assert family.lowest_degree == (bits if bits % 2 else bits + 1)


def test_known_part_is_linear_on_the_gate_and_off_it_but_not_both():
    x = all_sign_matrices(3, 4)
    differ = np.ptp(x[:, :, 0], axis=1) > 0
    for bits in (1, 2):
        known = TokenParityFamily(dim=4, tokens=3, bits=bits).instance(0).known
        assert isinstance(known, GatedKnownPart)
        wanted = np.where(differ[:, None], (bits + 1) % 2 * x[:, :, 1], bits % 2 * x[:, :, 0])
        np.testing.assert_array_equal(known(x)[..., 0], wanted)
        flat = x.reshape(len(x), -1)
        residual = wanted - flat @ np.linalg.lstsq(flat, wanted, rcond=None)[0]
        assert np.abs(residual).max() > 0.1


def test_energy_shares_and_counts_of_the_certificate():
    for bits in (2, 3):
        family = TokenParityFamily(dim=5, tokens=3, bits=bits)
        instance, x = family.instance(0), all_sign_matrices(3, 5)
        total = (instance.layer(x) ** 2).sum() / len(x)
        unknown = ((instance.layer(x) - instance.known(x)) ** 2).sum() / len(x)
        share = instance.certificate["share of the energy that is unknown"].value
        assert share == pytest.approx(unknown / total, rel=1e-12)
        assert unknown == pytest.approx(family.scale**2, rel=1e-12)
    certificate = TokenParityFamily(dim=20, tokens=5, bits=3).instance(0).certificate
    assert certificate["targets"].value == 816
    assert certificate["queries at tolerance 0.1"].value == query_lower_bound(816, "0.1")


def test_elimination_over_gf2_finds_the_secret_from_the_rows():
    family = TokenParityFamily(dim=20, tokens=5, bits=3)
    instance = family.instance(rng=3)
    x = BooleanInputs(5, 20).sample(20, rng=4)
    gate = np.ptp(x[:, :, 0], axis=1) > 0
    y = (instance.layer(x) - instance.known(x))[gate][..., 0]
    rows = x[gate][:, :, 2:].reshape(-1, 18) < 0
    solution = solve_gf2(rows, y.reshape(-1) < 0)
    np.testing.assert_array_equal(np.flatnonzero(solution.solution) + 2, instance.secret)
