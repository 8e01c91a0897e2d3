"""Laws of whole numbers, parameters and arithmetic of `lwe`, called with what a user may give by mistake."""

import math

import numpy as np
import pytest
from fuzzing import Argument, Subject, anything, choice, fixed, made, real, seed, whole
from hypothesis import strategies as st
from lwe_given import ALL_MODULI, BINARY, LAWS, MODULI, NOISES, SMALL, samples, told, wide
from lwe_right import (
    centre,
    centred_is_right,
    covariate_form_is_right,
    draw_is_right,
    inner_products_are_right,
    label,
    products,
    rounded_is_right,
    support_is_right,
    whole_numbers,
)

import lwe
import lwe.attacks
import lwe.costs
from lwe import LWRParameters


def law_is_right(result, given):
    for modulus in (2, 7, 64):
        if result.kind == "sparse" and result.weight > 5:
            break
        drawn = result.draw(5 if result.kind != "sparse" else max(5, result.weight), modulus, rng=0)
        assert np.all(np.abs(2 * drawn) <= modulus)
        assert result.allows(drawn, modulus)
    assert lwe.law_from_json(result.to_json()) == result == lwe.law_from_json(result.words)


def parameters_are_right(result, given):
    str(result)
    assert result.assumption.endswith(".")
    assert LWRParameters.from_json(result.to_json()) == result
    assert 0 <= result.best_accuracy <= 1 + 1e-9


def truncation_is_right(result, given):
    bound = 2 * math.exp(-float(given["deviations"]) * float(given["deviations"]) / 2)
    assert bound <= result <= bound * (1 + 1e-12) + 5e-324


def sparse_is_right(result, given):
    draw_is_right(result, given, lwe.SparseLaw(2))
    assert np.count_nonzero(result) == 2


def predicted(result, given):
    secret, parameters = whole_numbers(given["secret"]), given["parameters"]
    rows = whole_numbers(samples().public)
    wanted = [label(one, parameters) for one in products(rows, secret, parameters.modulus)]
    assert np.asarray(result).tolist() == wanted


def enough(result, given):
    """The Hoeffding bound, to the rounding of one sample."""
    wanted = 32 * math.log(1 / float(given["error"])) / float(given["gain"]) ** 2
    assert abs(result - wanted) <= 1 + 1e-9 * wanted


def chances(law, modulus):
    """Of the values that one number can have."""
    values, weights = law.support(modulus)
    return dict(zip(values.tolist(), weights.tolist(), strict=True))


def answers_of(law):
    """What each question to a law is rightly answered with, from the values and chances that it lists."""

    def listed(right):
        def check(result, given):
            if given["modulus"] <= 1 << 12 or not law.is_uniform(given["modulus"]):
                right(result, given, chances(law, given["modulus"]))

        return check

    def probabilities(result, given, support):
        wanted = [support.get(one, support.get(one - len(result), 0.0)) for one in range(given["modulus"])]
        np.testing.assert_allclose(result, wanted, rtol=1e-12, atol=0)

    def error_rate(result, given, support):
        assert abs(result - math.fsum(one for value, one in support.items() if value)) < 1e-12

    def deviation(result, given, support):
        square = math.fsum(one * value**2 for value, one in support.items())
        assert math.isclose(result, math.sqrt(square), rel_tol=1e-9)

    def secrets(result, given, support):
        assert math.isclose(result, given["size"] * math.log2(len(support)), rel_tol=1e-12)

    def allows(result, given, support):
        q = given["modulus"]
        entries = {centre(int(one), q) for one in np.ravel(given["vector"])}
        assert result is (entries <= set(support))

    return {
        "draw": lambda result, given: draw_is_right(result, given, law),
        "support": support_is_right,
        "probabilities": listed(probabilities),
        "error_rate": listed(error_rate),
        "deviation": listed(deviation),
        "secrets": listed(secrets),
        "allows": listed(allows),
    }


def law(name, kind, **arguments):
    return Subject(f"lwe.{name}", kind, arguments, right=law_is_right)


GADGETS = [
    LWRParameters(secret_dim=4, modulus=256, levels=2, matrix="gadget"),
    LWRParameters(secret_dim=4, modulus=2**31, levels=2, matrix="gadget"),
]

SUBJECTS = [
    # laws and parameters
    law("UniformLaw", lwe.UniformLaw),
    law("BinaryLaw", lwe.BinaryLaw),
    law("TernaryLaw", lwe.TernaryLaw),
    law("ZeroLaw", lwe.ZeroLaw),
    law("BinomialLaw", lwe.BinomialLaw, eta=whole(1, 4)),
    law("GaussianLaw", lwe.GaussianLaw, sigma=real(0.5, 3.0)),
    law("FlipLaw", lwe.FlipLaw, rate=real(0.1, 0.4)),
    law("SparseLaw", lwe.SparseLaw, weight=whole(1, 4)),
    *(
        Subject(
            f"lwe.IntegerLaw.{name} of {kind}",
            lambda kind=kind, name=name, **given: getattr(kind, name)(**given),
            arguments,
            right=answers_of(kind)[name],
            share=0.4,
        )
        for kind in (lwe.UNIFORM, lwe.GaussianLaw(2.0), lwe.BinomialLaw(2), lwe.TernaryLaw())
        for name, arguments in {
            "draw": {"size": whole(1, 9), "modulus": MODULI, "rng": seed()},
            "support": {"modulus": MODULI},
            "probabilities": {"modulus": MODULI},
            "error_rate": {"modulus": MODULI},
            "deviation": {"modulus": MODULI},
            "secrets": {"size": whole(1, 9), "modulus": MODULI},
            "allows": {"vector": wide(4), "modulus": MODULI},
        }.items()
    ),
    Subject(
        "lwe.SparseLaw.draw",
        lambda size, modulus, rng: lwe.SparseLaw(2).draw(size, modulus, rng=rng),
        {"size": whole(2, 9), "modulus": MODULI, "rng": seed()},
        right=sparse_is_right,
    ),
    Subject(
        "lwe.law_from_json",
        lwe.law_from_json,
        {
            "value": Argument(
                st.sampled_from([fixed("uniform"), fixed({"kind": "binomial", "eta": 2}), fixed("sparse:2")]),
                st.sampled_from(
                    [
                        fixed(one)
                        for one in (
                            "",
                            ":",
                            "binomial",
                            "binomial:1e9",
                            "sparse:" + "9" * 5000,
                            "gaussian:nan",
                            "x" * 10_000,
                            {"kind": "sparse"},
                            {"kind": ["a"]},
                            {"kind": "flip", "rate": "0.5"},
                        )
                    ]
                )
                | anything(None).hostile,
            )
        },
        right=law_is_right,
        words=("law", "rate", "sigma", "eta", "weight"),
    ),
    Subject(
        "lwe.LWRParameters",
        LWRParameters,
        {
            "secret_dim": whole(2, 5),
            "modulus": choice(4, 8),
            "levels": choice(2, 4),
            "matrix": choice("binary", "ternary", "gadget", "uniform"),
            "secret": LAWS,
            "noise": NOISES,
        },
        right=parameters_are_right,
    ),
    Subject(
        "lwe.LWRParameters.updated",
        lambda secret_dim, modulus: SMALL.updated(secret_dim=secret_dim, modulus=modulus),
        {"secret_dim": whole(), "modulus": choice(8, 16)},
        right=parameters_are_right,
    ),
    Subject(
        "lwe.LWRParameters.from_json",
        LWRParameters.from_json,
        {"data": made(SMALL.to_json, "<json>")},
        right=parameters_are_right,
        words=("parameters",),
    ),
    Subject("lwe.preset", lwe.preset, {"name": choice("toy")}, right=parameters_are_right, words=("preset",)),
    Subject("lwe.Budget", lwe.Budget, {"seconds": real(0.5, 3.0), "memory": whole(1000, 2000)}, right=told),
    # arithmetic
    Subject("lwe.centred", lwe.centred, {"values": wide(5), "modulus": ALL_MODULI}, right=centred_is_right),
    Subject(
        "lwe.rounded",
        lwe.rounded,
        {"t": wide(5), "modulus": choice(8, 9, 2**31 - 1, 2**31), "levels": choice(2, 3, 8)},
        right=rounded_is_right,
    ),
    Subject(
        "lwe.covariate_form",
        lwe.covariate_form,
        {"secret": wide(4), "parameters": anything(st.sampled_from([fixed(SMALL), *map(fixed, GADGETS)]))},
        right=covariate_form_is_right,
    ),
    Subject(
        "lwe.inner_products",
        lwe.inner_products,
        {"public": wide(6, 4), "secret": wide(4), "modulus": ALL_MODULI},
        right=inner_products_are_right,
    ),
    Subject(
        "lwe.secret_predictor",
        lambda secret, parameters: lwe.secret_predictor(secret, parameters)(samples().public),
        {"secret": wide(4), "parameters": BINARY},
        right=predicted,
    ),
    Subject(
        "lwe.sufficient_examples",
        lwe.sufficient_examples,
        {"gain": real(0.1, 0.5), "error": real(0.01, 0.1)},
        right=enough,
    ),
    Subject(
        "lwe.truncation_failure",
        lwe.truncation_failure,
        {"deviations": real(2.0, 4.0)},
        right=truncation_is_right,
    ),
]


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)
