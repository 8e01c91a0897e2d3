import math

import numpy as np
import pytest

from attention import BooleanInputs
from lower import all_sign_matrices, query_lower_bound
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
