import json
import math

import pytest

from lwe import LWRParameters
from lwe.attacks.linearisation import label_degree, label_monomials
from lwe.costs import COST_MODELS, estimate
from lwe.costs.algebra import arora_ge_cost, linearisation_cost
from lwe.costs.bkw import bkw_cost
from lwe.costs.deviations import error_character
from lwe.costs.dual import dual_cost
from lwe.costs.primal import best_primal_shape, fewest_samples, lengths_tell, primal_cost
from lwe.costs.reduction import reduction_floor
from lwe.costs.search import exhaustive_cost, meet_in_the_middle_cost
from lwe.laws import BinomialLaw, FlipLaw, GaussianLaw, SparseLaw, TernaryLaw, UniformLaw, ZeroLaw
from lwe.presets import PRESETS

CASES = [
    *(PRESETS[name] for name in ("toy", "toy-lwe", "covariates-24", "gadget-56", "sparse-64", "lpn-512")),
    *(PRESETS[name] for name in ("kyber512", "firesaber")),
    LWRParameters(40, 257, 257, matrix="uniform", secret=SparseLaw(5), noise=GaussianLaw(2.0)),
    LWRParameters(1, 2, 2),
]


@pytest.mark.parametrize("number", range(len(CASES)), ids=list(map(str, CASES)))
def test_estimates_are_sorted_finite_and_name_themselves(number):
    # each with one of the models, and every other one without a limit of samples
    parameters, model = CASES[number], list(COST_MODELS)[number % len(COST_MODELS)]
    costs = estimate(parameters, None if number % 2 else 2000, model=model)
    exponents = [cost.exponent for cost in costs]
    assert costs
    assert exponents == sorted(exponents)
    assert len({cost.attack for cost in costs}) == len(costs)
    for cost in costs:
        assert cost.parameters == parameters
        assert f"about 2^{cost.exponent:.1f}" in str(cost)
        assert len(str(cost)) < 300
        json.dumps(cost.to_json(), allow_nan=False)


@pytest.mark.parametrize("matrix", ["binary", "ternary", "gadget", "uniform"])
@pytest.mark.parametrize(("n", "q", "p"), [(30, 4, 2), (12, 8, 2), (5, 64, 16), (3, 16, 2), (7, 2, 2)])
def test_linearisation_is_estimated_with_the_monomials_that_the_attack_has(matrix, n, q, p):
    parameters = LWRParameters(n, q, p, matrix=matrix)
    size = label_monomials(parameters, label_degree(parameters)).size
    assert linearisation_cost(parameters).details["monomials"] == size
    assert linearisation_cost(parameters, size - 1) is None


def test_what_does_not_apply_is_left_out():
    assert linearisation_cost(LWRParameters(8, 12, 2)) is None
    assert linearisation_cost(LWRParameters(8, 8, 2, noise=GaussianLaw(1.0))) is None
    assert arora_ge_cost(LWRParameters(8, 64, 32)) is None
    parity = LWRParameters(16, 2, 2, noise=FlipLaw(0.1))
    assert primal_cost(parity) is None
    assert dual_cost(parity) is None
    assert primal_cost(LWRParameters(64, 128, 2, matrix="uniform"), 100) is None


def test_meeting_in_the_middle_has_half_the_exponent_in_time_and_memory():
    parameters = LWRParameters(60, 4096, 1024, secret=TernaryLaw())
    exhaustive, middle = exhaustive_cost(parameters), meet_in_the_middle_cost(parameters)
    half = 60 * math.log2(3) / 2
    assert middle.details["memory"] == f"2^{half:.1f}"
    assert half <= middle.exponent <= half + 10
    assert exhaustive.exponent - middle.exponent > half - 10


def test_costs_rise_with_the_dimension_and_fall_with_the_levels():
    for cost in (exhaustive_cost, meet_in_the_middle_cost, bkw_cost, primal_cost, dual_cost):
        sizes = [cost(LWRParameters(n, 256, 32, matrix="uniform")).exponent for n in (60, 90, 120)]
        assert sizes == sorted(sizes)
        assert sizes[0] < sizes[-1]
    for cost in (primal_cost, dual_cost, bkw_cost):
        levels = [cost(LWRParameters(80, 256, p, matrix="uniform")).exponent for p in (8, 32, 128)]
        assert levels == sorted(levels, reverse=True)


def test_bkw_without_noise_is_elimination_and_takes_no_more_samples_than_there_are():
    free = bkw_cost(LWRParameters(64, 2, 2))
    assert free.exponent < 3 * math.log2(64) + 2
    noisy = LWRParameters(64, 2, 2, noise=FlipLaw(0.1))
    assert bkw_cost(noisy, 10) is None
    assert bkw_cost(noisy, 2**12).exponent >= bkw_cost(noisy).exponent


@pytest.mark.parametrize("matrix", ["binary", "ternary", "uniform"])
def test_no_fewer_samples_than_the_secret_has_bits_are_said_to_give_it(matrix):
    for n, q, p, law, noise, bits in (
        (24, 64, 2, UniformLaw(), ZeroLaw(), 24 * 6 / 1),
        (16, 128, 4, UniformLaw(), ZeroLaw(), 16 * 7 / 2),
        (40, 64, 2, SparseLaw(5), ZeroLaw(), math.log2(math.comb(40, 5)) + 5),
        (40, 64, 8, BinomialLaw(1), ZeroLaw(), 40 * 1.5 / 3),
        # an error of three values, 1/4, 1/2 and 1/4, leaves 6 - 1.5 bits of a label
        (30, 64, 64, UniformLaw(), BinomialLaw(1), 30 * 6 / 4.5),
        (12, 2**31, 2**20, UniformLaw(), ZeroLaw(), 12 * 31 / 20),
    ):
        parameters = LWRParameters(n, q, p, matrix=matrix, secret=law, noise=noise)
        fewest = fewest_samples(parameters)
        assert fewest == math.ceil(bits - 1e-9)
        assert fewest_samples(parameters, determined=False) == (n + 1 if matrix != "uniform" else fewest)
        if parameters.levels < q:
            assert best_primal_shape(parameters, fewest - 1) is None
        cost = primal_cost(parameters)
        assert cost is None or cost.details["samples"] >= fewest


COINS = [
    LWRParameters(30, 2, 2, noise=FlipLaw(0.5)),
    LWRParameters(30, 2, 2, noise=BinomialLaw(2)),
    LWRParameters(30, 2, 2, noise=GaussianLaw(2.8)),
    LWRParameters(20, 3, 3, matrix="uniform", noise=TernaryLaw()),
    LWRParameters(20, 3, 2, matrix="uniform", noise=TernaryLaw()),
    LWRParameters(20, 257, 257, matrix="uniform", noise=UniformLaw()),
    LWRParameters(20, 257, 16, matrix="uniform", noise=GaussianLaw(400.0)),
]


@pytest.mark.parametrize("parameters", COINS, ids=str)
def test_nothing_is_estimated_where_labels_are_coins(parameters):
    assert estimate(parameters) == []
    assert error_character(parameters) == 0
    assert not lengths_tell(parameters)
    assert best_primal_shape(parameters) is None
    for determined in (True, False):
        with pytest.raises(ValueError, match="no number of samples is enough"):
            fewest_samples(parameters, determined=determined)


def test_no_lattice_attack_costs_less_than_a_pass_over_its_basis():
    easy = LWRParameters(8, 128, 32, matrix="uniform")
    for cost in (primal_cost(easy), dual_cost(easy)):
        assert cost.exponent >= 3 * math.log2(cost.details["dimension"])
    assert reduction_floor(1290) < 31.1
