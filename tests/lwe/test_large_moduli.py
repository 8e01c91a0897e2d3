"""Above 2^31 products of two residues overflow 64 bits: everything agrees with Python's integers, which cannot."""

import numpy as np
import pytest

from lower import verify_instance
from lwe import (
    LWEParameters,
    LWRFamily,
    make_samples,
    samples_from_examples,
)
from lwe.attacks.reduction import left_inverse, modular_hermite_form
from lwe.residues import LARGEST_MODULUS, product_quotient, product_residue

POWER, PRIME = 2**40, 8589934609  # the least prime above 2^33


@pytest.mark.parametrize("divisor", [3, 2**31, PRIME, POWER, 2**52 - 1, 2**52])
def test_products_are_divided_like_whole_numbers(divisor):
    rng = np.random.default_rng(divisor)
    ends = np.array([0, 1, divisor - 1, -1, -divisor])
    one = np.concatenate([rng.integers(-divisor, divisor, size=1000), ends])
    other = np.concatenate([rng.integers(divisor, size=1000), ends[::-1]])
    quotients = product_quotient(one, other, divisor, divisor**2)
    remainders = product_residue(one, other, divisor, divisor**2)
    expected = [divmod(a * b, divisor) for a, b in zip(one.tolist(), other.tolist(), strict=True)]
    assert list(zip(quotients.tolist(), remainders.tolist(), strict=True)) == expected


@pytest.mark.parametrize("matrix", ["uniform", "binary", "ternary", "gadget"])
@pytest.mark.parametrize("q", [17, 64, PRIME, POWER, LARGEST_MODULUS])
@pytest.mark.parametrize("levels", [2, 1000, 2**20, None])
def test_labels_are_those_of_whole_numbers(q, levels, matrix):
    if matrix == "gadget" and q in (17, PRIME):
        pytest.skip("the gadget has a power of two")
    p = min(levels or q, q)
    samples, secret = make_samples(LWEParameters(12, q, p, matrix), 1000, rng=1)
    rows, entries = samples.public.tolist(), secret.tolist()
    products = [sum(a * s for a, s in zip(row, entries, strict=True)) for row in rows]
    assert samples.labels.tolist() == [p * (one % q) // q for one in products]


@pytest.mark.parametrize("q", [PRIME, POWER])
def test_hermite_forms_span_the_rows_and_inverses_invert(q):
    public = np.random.default_rng(3).integers(q, size=(12, 5))
    form = modular_hermite_form(public.T, q)
    assert np.all((form >= 0) & (form <= q))
    product = np.prod([int(one) for one in np.diagonal(form)], dtype=object)
    assert product == q**7  # the index of a lattice of rank 5 mod q in 12 dimensions
    # every row of the matrix is a whole combination of the form's: eliminate it, from the first column on
    for row in public.T.astype(object):
        for place in range(12):
            row = row - row[place] // int(form[place, place]) * form[place].astype(object)
            assert row[place] == 0
    inverse = left_inverse(public, q)
    assert np.array_equal(inverse.astype(object) @ public.astype(object) % q, np.eye(5, dtype=object))


@pytest.mark.parametrize("matrix", ["binary", "ternary", "gadget"])
def test_layers_output_the_labels(matrix):
    made = LWRFamily(n=2 if matrix == "gadget" else 20, q=POWER, p=2, matrix=matrix).instance(rng=0)
    parameters = LWEParameters(len(made.secret), POWER, 2, matrix)
    samples = samples_from_examples(*made.family.examples(made, rng=1).draw(400), parameters)
    rows, entries = samples.public.tolist(), made.secret.tolist()
    products = [sum(a * s for a, s in zip(row, entries, strict=True)) for row in rows]
    assert samples.labels.tolist() == [2 * (one % POWER) // POWER for one in products]
    assert verify_instance(made).holds
