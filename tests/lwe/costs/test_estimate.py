import importlib
import json
import math

import pytest

from lwe import LWEParameters
from lwe.costs import COST_MODELS, estimate
from lwe.costs.combinatorial import linearisation_cost
from lwe.costs.deviations import error_character, lengths_tell
from lwe.costs.dual import dual_cost, dual_hybrid_cost
from lwe.costs.primal import best_primal_shape, drop_and_solve_cost, fewest_samples, primal_cost
from lwe.distributions import (
    BINARY,
    NO_NOISE,
    TERNARY,
    UNIFORM,
    CentredBinomial,
    DiscreteGaussian,
    Flips,
    SparseSigned,
    SparseTernary,
)
from lwe.presets import PRESETS

CASES = [
    *(PRESETS[name] for name in ("toy", "toy-lwe", "covariates-24", "gadget-56", "sparse-64", "lpn-512")),
    PRESETS["kyber512"],
    LWEParameters(40, 257, 257, matrix="uniform", Xs=SparseSigned(5), Xe=DiscreteGaussian(2.0)),
    LWEParameters(1, 2, 2),
]


@pytest.mark.parametrize("number", range(len(CASES)), ids=list(map(str, CASES)))
def test_estimates_are_sorted_finite_and_name_themselves(number):
    # each with one of the models, and every other one without a limit of samples
    parameters, model = CASES[number], list(COST_MODELS)[number % len(COST_MODELS)]
    parameters = parameters.updated(m=None if number % 2 else 2000)
    costs = estimate(parameters, model=model)
    exponents = [cost.log2_rop for cost in costs]
    assert costs
    assert exponents == sorted(exponents)
    assert len({cost.attack for cost in costs}) == len(costs)
    for cost in costs:
        assert cost.parameters == parameters
        assert f"about 2^{cost.log2_rop:.1f}" in str(cost)
        assert len(str(cost)) < 300
        json.dumps(cost.to_json(), allow_nan=False)


def test_what_does_not_apply_is_left_out():
    assert linearisation_cost(LWEParameters(8, 12, 2)) is None
    assert linearisation_cost(LWEParameters(8, 8, 2, Xe=DiscreteGaussian(1.0))) is None
    parity = LWEParameters(16, 2, 2, Xe=Flips(0.1))
    assert primal_cost(parity) is None
    assert dual_cost(parity) is None
    assert primal_cost(LWEParameters(64, 128, 2, matrix="uniform", m=100)) is None


@pytest.mark.parametrize("matrix", ["binary", "ternary", "uniform"])
def test_no_fewer_samples_than_the_secret_has_bits_are_said_to_give_it(matrix):
    for n, q, p, distribution, noise, bits in (
        (24, 64, 2, UNIFORM, NO_NOISE, 24 * 6 / 1),
        (16, 128, 4, UNIFORM, NO_NOISE, 16 * 7 / 2),
        (40, 64, 2, SparseSigned(5), NO_NOISE, math.log2(math.comb(40, 5)) + 5),
        (40, 64, 8, CentredBinomial(1), NO_NOISE, 40 * 1.5 / 3),
        # an error of three values, 1/4, 1/2 and 1/4, leaves 6 - 1.5 bits of a label
        (30, 64, 64, UNIFORM, CentredBinomial(1), 30 * 6 / 4.5),
        (12, 2**31, 2**20, UNIFORM, NO_NOISE, 12 * 31 / 20),
    ):
        parameters = LWEParameters(n, q, p, matrix=matrix, Xs=distribution, Xe=noise)
        fewest = fewest_samples(parameters)
        assert fewest == math.ceil(bits - 1e-9)
        assert fewest_samples(parameters, determined=False) == (n + 1 if matrix != "uniform" else fewest)
        if parameters.p < q:
            assert best_primal_shape(parameters, fewest - 1) is None
        cost = primal_cost(parameters)
        assert cost is None or cost.log2_m >= math.log2(fewest) - 1e-9


COINS = [
    LWEParameters(30, 2, 2, Xe=Flips(0.5)),
    LWEParameters(30, 2, 2, Xe=CentredBinomial(2)),
    LWEParameters(30, 2, 2, Xe=DiscreteGaussian(2.8)),
    LWEParameters(20, 3, 3, matrix="uniform", Xe=TERNARY),
    LWEParameters(20, 3, 2, matrix="uniform", Xe=TERNARY),
    LWEParameters(20, 257, 257, matrix="uniform", Xe=UNIFORM),
    LWEParameters(20, 257, 16, matrix="uniform", Xe=DiscreteGaussian(400.0)),
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


TERNARY_SECRETS = {"matrix": "uniform", "Xs": TERNARY, "Xe": DiscreteGaussian(3.2)}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("n", "q", "secret"),
    [
        (4096, 2**109, UNIFORM),
        (512, 2**512, UNIFORM),
        pytest.param(2180, 2**64, TERNARY, marks=pytest.mark.slow),
        pytest.param(65536, 2**1772, TERNARY, marks=pytest.mark.slow),
        pytest.param(1024, 2**2000 + 1, SparseTernary(64, 64), marks=pytest.mark.slow),
        pytest.param(2180, 3329, BINARY, marks=pytest.mark.slow),
        pytest.param(300, 2**512 - 1, CentredBinomial(3), marks=pytest.mark.slow),
    ],
)
def test_dimensions_and_moduli_of_any_size_have_every_row(n, q, secret):
    parameters = LWEParameters(n, q, **TERNARY_SECRETS | {"Xs": secret})
    for one in (parameters, parameters.updated(m=2 * n)):
        costs = estimate(one)
        assert {"usvp", "bdd", "dual", "dual_hybrid"} <= {cost.attack for cost in costs}
        assert all(not cost.failure and math.isfinite(cost.log2_rop) for cost in costs)


def test_a_row_that_fails_leaves_the_others(monkeypatch):
    def failing(*_args, **_options):
        raise OverflowError("a number was too large")

    module = importlib.import_module("lwe.costs.estimate")
    parameters = LWEParameters(64, 257, **TERNARY_SECRETS)
    whole = estimate(parameters)
    monkeypatch.setattr(module, "bkw_cost", failing)
    costs = estimate(parameters)
    assert [cost for cost in costs if cost.attack != "plain-bkw"] == [
        cost for cost in whole if cost.attack != "plain-bkw"
    ]
    assert str(costs[-1]) == "plain-bkw: not computed: a number was too large"
    assert costs[-1].to_json()["log2_rop"] is None


@pytest.mark.parametrize("model", COST_MODELS)
@pytest.mark.parametrize("secret", [UNIFORM, BINARY, DiscreteGaussian(1e6), SparseSigned(9)], ids=str)
@pytest.mark.parametrize("m", [None, 150])
def test_the_dual_hybrid_costs_no_more_than_the_dual_attack(secret, m, model):
    parameters = LWEParameters(256, 2**40, **TERNARY_SECRETS | {"Xs": secret}, m=m)
    dual, hybrid = dual_cost(parameters, model=model), dual_hybrid_cost(parameters, model=model)
    assert dual is None or hybrid.log2_rop <= dual.log2_rop


def test_leaving_out_columns_of_a_sparse_secret_costs_the_attack_on_the_others_times_the_trials():
    weight = 32
    sparse = PRESETS["kyber512"].updated(Xs=SparseSigned(weight))
    cost = drop_and_solve_cost(sparse)
    left = sparse.n - cost.details["zeta"]
    zero = math.prod(
        1 - weight / (sparse.n - one) for one in range(sparse.n - left)
    )  # zeta zeros, one by one
    trials = math.log(1 - 0.99) / math.log1p(-zero)
    whole, part = primal_cost(sparse), primal_cost(sparse.updated(n=left))
    assert cost.log2_rop == pytest.approx(part.log2_rop + math.log2(trials), abs=0.01)
    assert cost.log2_rop < whole.log2_rop
    assert cost in estimate(sparse)
    assert drop_and_solve_cost(PRESETS["kyber512"]) is None
