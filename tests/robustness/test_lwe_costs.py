"""The cost estimates of `lwe`, called with what a user may give by mistake."""

import math
from collections import Counter
from itertools import product

import pytest
from fuzzing import (
    Argument,
    Subject,
    choice,
    fixed,
    real,
    whole,
)
from hypothesis import strategies as st
from lwe_given import (
    OPTIONAL,
    PARAMETERS,
    exponents_are_counted,
    told,
)

import lwe
import lwe.attacks
import lwe.costs
from lwe import LWRParameters


def estimates_are_right(result, given):
    exponents_are_counted(result, given)
    assert [one.exponent for one in result] == sorted(one.exponent for one in result)


def cost_is_right(call):
    """Fewer samples, or a classical computer, never cost less."""

    def check(result, given):
        exponents_are_counted(result, given)
        if result is None:
            return
        for name, better in (("samples", None), ("quantum", True)):
            if name in given:
                assert call(**{**given, name: better}).exponent <= result.exponent + 1e-9

    return check


def monomials_are_right(result, given):
    n, most, largest = given["variables"], given["degree"], given["largest"]
    if n > 6 or most > 6:
        return
    degrees = Counter(
        map(sum, product(range((most if largest is None else min(largest, most)) + 1), repeat=n))
    )
    if isinstance(result, list):
        assert result == [degrees[degree] for degree in range(len(result))]
        assert len(result) == min(most, n * largest) + 1
    else:
        assert result == sum(degrees[degree] for degree in range(most + 1))


def shape_is_right(result, given):
    if result is None:
        return
    assert result.samples <= (given["samples"] or math.inf)
    if "least_gap" in given:
        assert result.gap >= given["least_gap"]
        assert result.dimension <= (given["most_rows"] or math.inf)
    for one in (result.log_volume, result.deviation, result.gap):
        assert math.isfinite(one)


def exponent_is_right(result, given):
    rate = lwe.costs.QUANTUM_EXPONENT if given["quantum"] else lwe.costs.CLASSICAL_EXPONENT
    assert math.isclose(result, rate * float(given["block_size"]), rel_tol=1e-6)


def block_finds_it(result, given):
    assert result is None or 2 <= result <= max(given["dim"], 2)


def cost(name, **more):
    call = getattr(lwe.costs, name)
    return Subject(
        f"lwe.costs.{name}",
        call,
        {
            "parameters": PARAMETERS,
            "samples": Argument(st.sampled_from([fixed(None), fixed(500)]), whole().hostile),
            **more,
        },
        right=cost_is_right(call),
        share=0.6,
    )


SUBJECTS = [
    # costs
    Subject(
        "lwe.estimate",
        lwe.estimate,
        {"parameters": PARAMETERS, "samples": OPTIONAL, "quantum": choice(False, True)},
        right=estimates_are_right,
        share=0.3,
        seconds=6.0,
    ),
    cost("arora_ge_cost"),
    cost("bkw_cost"),
    cost("dual_cost", quantum=choice(False, True)),
    cost("linearisation_cost"),
    *(
        Subject(f"lwe.costs.{one.__name__}", one, {"parameters": PARAMETERS}, right=exponents_are_counted)
        for one in (lwe.costs.exhaustive_cost, lwe.costs.meet_in_the_middle_cost)
    ),
    Subject(
        "lwe.costs.fewest_samples",
        lwe.costs.fewest_samples,
        {"parameters": PARAMETERS, "determined": choice(True, False)},
        right=told,
    ),
    Subject("lwe.costs.lengths_tell", lwe.costs.lengths_tell, {"parameters": PARAMETERS}, right=told),
    Subject(
        "lwe.costs.gaussian_gap",
        lwe.costs.gaussian_gap,
        {"dim": whole(50, 90), "log_volume": real(20.0, 60.0), "deviation": real()},
    ),
    Subject(
        "lwe.costs.gram_schmidt_profile",
        lwe.costs.gram_schmidt_profile,
        {"dim": whole(50, 90), "log_volume": real(20.0, 60.0), "block_size": real(45.0, 50.0)},
    ),
    Subject(
        "lwe.costs.monomials",
        lwe.costs.monomials,
        {"variables": whole(1, 6), "degree": whole(0, 3), "largest": choice(1, 2, None)},
        right=monomials_are_right,
    ),
    Subject(
        "lwe.costs.monomials_by_degree",
        lwe.costs.monomials_by_degree,
        {"variables": whole(1, 6), "degree": whole(0, 3), "largest": whole(1, 3)},
        right=monomials_are_right,
    ),
    cost("primal_cost", quantum=choice(False, True)),
    Subject(
        "lwe.costs.best_primal_shape",
        lwe.costs.best_primal_shape,
        {
            "parameters": PARAMETERS,
            "samples": OPTIONAL,
            "least_gap": real(0.01, 0.1),
            "most_rows": OPTIONAL,
            "determined": choice(True, False),
        },
        right=shape_is_right,
        share=0.5,
    ),
    Subject(
        "lwe.costs.primal_shape",
        lwe.costs.primal_shape,
        {"parameters": PARAMETERS, "samples": whole(4, 9), "weighted": choice(None, True, False)},
        right=shape_is_right,
        refuses=True,
    ),
    Subject(
        "lwe.costs.block_size_for",
        lwe.costs.block_size_for,
        {"dim": whole(50, 90), "log_volume": real(20.0, 60.0), "deviation": real()},
        right=block_finds_it,
    ),
    Subject("lwe.costs.block_sizes", lwe.costs.block_sizes, {"most": whole(60, 90)}, right=told),
    Subject(
        "lwe.costs.core_svp_exponent",
        lwe.costs.core_svp_exponent,
        {"block_size": real(60.0, 90.0), "quantum": choice(False, True)},
        right=exponent_is_right,
    ),
    Subject("lwe.costs.root_hermite_factor", lwe.costs.root_hermite_factor, {"block_size": real(60.0, 90.0)}),
    Subject("lwe.costs.reduction_floor", lwe.costs.reduction_floor, {"dim": whole(50, 90)}),
    Subject("lwe.costs.deviations", lwe.costs.deviations, {"parameters": PARAMETERS}),
    Subject(
        "lwe.costs.dual_lattices",
        lwe.costs.dual_lattices,
        {"parameters": PARAMETERS, "samples": whole(9, 20)},
        right=told,
    ),
    Subject("lwe.costs.error_character", lwe.costs.error_character, {"parameters": PARAMETERS}),
    Subject("lwe.costs.size_in_words", lwe.costs.size_in_words, {"number": whole()}, right=told),
]


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)


PROBLEMS = {
    "rounding": LWRParameters(2, 1024, 16),
    "trits": LWRParameters(2, 256, 2, matrix="ternary"),
    "gadget": LWRParameters(2, 64, 2, matrix="gadget"),
    "residues": LWRParameters(2, 4, 2, matrix="uniform"),
    "errors": LWRParameters(2, 3329, 3329, "uniform", lwe.BinomialLaw(2), lwe.BinomialLaw(2)),
    "wide errors": LWRParameters(2, 2**31, 2**31, matrix="uniform", noise=lwe.GaussianLaw(1e4)),
    "parity": LWRParameters(2, 2, 2, noise=lwe.FlipLaw(0.1)),
}


@pytest.mark.parametrize(
    "name",
    [name if name == "parity" else pytest.param(name, marks=pytest.mark.slow) for name in PROBLEMS],
)
def test_longer_secrets_fewer_samples_and_no_quantum_computer_never_cost_less(name):
    shorter = {}
    for n in (2, 3, 5, 8, 16, 32, 48, 96, 200):
        parameters = PROBLEMS[name].updated(secret_dim=n)
        exponents = {one.attack: one.exponent for one in lwe.estimate(parameters)}
        for attack in set(shorter) & set(exponents):
            assert shorter[attack] <= exponents[attack] + 1e-9, (attack, n)
        for changes, sign in (({"samples": 2 * n + 5}, 1), ({"quantum": True}, -1)):
            for one in lwe.estimate(parameters, **changes):
                assert sign * (one.exponent - exponents[one.attack]) >= -1e-9, (one.attack, n, changes)
        shorter |= exponents
