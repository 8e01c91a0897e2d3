import mpmath
import numpy as np
import pytest

from lower import all_sign_matrices, query_lower_bound
from sq import ParityFamily, make_parity_instance, parity_heads
from sq.parities import heads_needed, parity_error

DIM = 6


def largest_error(instance, x=None):
    """The largest norm of a row of the layer minus its known part and the parity of its definition."""
    d, x = instance.layer.dim, all_sign_matrices(2, instance.layer.dim) if x is None else x
    # the hidden part is the same for every construction, and B is made at any size
    family = ParityFamily(dim=d, bits=len(instance.secret), construction="B")
    hidden = family.hidden(family.secrets.rank(instance.secret), x)
    target = instance.known(x) + hidden[..., None] * instance.direction
    return np.linalg.norm(instance.layer(x) - target, axis=-1).max()


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("construction", "limit"), [("A", 1e-14), ("B", 1e-14), ("C", 1e-13), ("D", 1e-12)])
def test_layer_is_known_part_plus_parity_on_all_inputs_and_both_rows(construction, limit, bits):
    direction = np.random.default_rng(bits).standard_normal(DIM)
    for w in (None, direction):
        instance = make_parity_instance(dim=DIM, bits=bits, construction=construction, rng=bits, direction=w)
        assert largest_error(instance) <= limit
    assert instance.layer.heads == {"A": 2 * bits, "B": bits, "C": bits, "D": bits // 2 + 1}[construction]
    assert instance.layer.heads == heads_needed(construction, bits)


@pytest.mark.parametrize(("construction", "bits"), [("D", 19), ("C", 10)])
def test_coefficients_are_the_nearest_floats_to_the_exact_solution_on_every_machine(construction, bits):
    """The last digits of a float64 solver decided whether ten minimal heads met a parity to 1e-9."""
    heads = parity_heads(construction, bits=bits)
    with mpmath.workdps(60):
        n = range(len(heads) if construction == "D" else bits + 1)
        slopes = [mpmath.mpf(float(slope)) for slope in heads.slopes]
        system = [
            [mpmath.tanh(beta * (a - t)) for beta, t in zip(slopes, heads.thresholds, strict=True)] for a in n
        ]
        if construction == "C":
            system = [[*row, 1] for row in system]
        solution = mpmath.lu_solve(mpmath.matrix(system), mpmath.matrix([(-1) ** a for a in n]))
        exact = [float(one) for one in solution]
    assert heads.coefficients.tolist() == exact[: len(heads)]
    assert [-heads.c0] == exact[len(heads) :] or construction == "D"
    assert parity_error(heads) < 3e-10


def test_certificate_counts_targets_and_queries():
    certificate = make_parity_instance(dim=40, heads=2, rng=0).certificate
    assert certificate["targets"].value == 9139
    for tau in ("0.3", "0.1", "0.05"):
        assert certificate[f"queries at tolerance {tau}"].value == query_lower_bound(9139, tau)
    assert certificate["queries at tolerance 0.1"].value == 93
    assert certificate["lowest degree of the unknown part"].value == 7
    assert certificate["Gram diagonal"].value == pytest.approx(47.0101, abs=5e-5)
    assert certificate["Gram off the diagonal"].value == pytest.approx(46.0101, abs=5e-5)
    assert "Gaussian elimination" in str(certificate)


def test_slopes_that_both_saturate_are_refused():
    with pytest.raises(ValueError, match="singular in float64; take slopes further apart"):
        parity_heads("D", bits=11, slopes=[0.5 * 3.0**i for i in range(6)])
