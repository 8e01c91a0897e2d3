import mpmath
import pytest

from lower import query_lower_bound
from sq import make_parity_instance, parity_heads
from sq.parities import parity_error


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
