"""Every public function of `lwe`, `lwe.attacks` and `lwe.costs`, called with what a user may give it by mistake."""

import math

import numpy as np
import pytest
from fuzzing import (
    Argument,
    Given,
    Subject,
    anything,
    array,
    assert_finite,
    choice,
    fixed,
    made,
    missing_subjects,
    real,
    seed,
    whole,
)
from hypothesis import strategies as st

import lwe
import lwe.attacks
import lwe.costs
from lwe import LWRParameters, make_samples
from upper import LinearBaseline

# ------------------------------------------------------------------------------------------- what is given

SMALL = LWRParameters(secret_dim=4, modulus=8, levels=2)
PARAMETERS = anything(
    st.sampled_from(
        [
            fixed(SMALL, "<binary>"),
            fixed(LWRParameters(secret_dim=4, modulus=8, levels=2, matrix="ternary"), "<ternary>"),
            fixed(
                LWRParameters(secret_dim=4, modulus=7, levels=7, matrix="uniform", noise=lwe.BinomialLaw(1)),
                "<uniform>",
            ),
            fixed(LWRParameters(secret_dim=2, modulus=4, levels=2, matrix="gadget"), "<gadget>"),
        ]
    )
)
BINARY = anything(fixed(SMALL, "<binary>"))
LAWS = anything(st.sampled_from([fixed(one) for one in (lwe.UNIFORM, lwe.TernaryLaw(), lwe.SparseLaw(2))]))
NOISES = anything(
    st.sampled_from([fixed(one) for one in (lwe.NO_NOISE, lwe.FlipLaw(0.1), lwe.GaussianLaw(1.0))])
)
MATRIX = choice("binary", "ternary")
OPTIONAL = Argument(st.just(fixed(None)), whole().hostile)
MODULI = whole(2, 9)


def form(length=4):
    return array((length,), of=lambda rng, shape: rng.integers(-3, 4, shape), torch=False)


def residues(*shape, most=8):
    return array(shape, of=lambda rng, size: rng.integers(0, most, size), torch=False)


def samples(number=60):
    return make_samples(SMALL, number, rng=0)[0]


def labels():
    """What a layer gives on the first of the examples that are drawn, and so not on all that are tried."""
    x = np.random.default_rng(0).choice([-1.0, 1.0], (9, 2, 5))
    return lwe.lwr_instance(SMALL, rng=0).layer(x)


SAMPLES = made(samples, "<samples>")
INSTANCE = made(lambda: lwe.lwr_instance(SMALL, rng=0), "<instance>")
FILES = {}


def prepare(folder):
    np.save(folder / "a.npy", np.asarray(samples().public))
    np.save(folder / "b.npy", np.asarray(samples().labels))
    np.save(folder / "other.npy", np.full((3, 3), 0.5))
    FILES.update({name: folder / f"{name}.npy" for name in ("a", "b", "other")}, folder=folder)


@pytest.fixture(scope="module", autouse=True)
def files(tmp_path_factory):
    """Samples in files."""
    prepare(tmp_path_factory.mktemp("samples"))


def file(name):
    return Argument(
        st.just(Given(name, lambda: FILES[name])),
        st.sampled_from([Given(one, lambda one=one: FILES[one]) for one in ("a", "b", "other", "folder")])
        | st.sampled_from([fixed("missing.npy"), fixed("x" * 400 + ".npy"), fixed("")])
        | anything(None).hostile,
    )


# ------------------------------------------------------------------------------------------- what is right


def told(result, given):
    str(result)


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


def samples_are_right(result, given):
    drawn, secret = result
    parameters = given["parameters"]
    assert len(drawn) == given["number"]
    if not parameters.noisy and not parameters.gadget:
        wanted = lwe.rounded(
            lwe.inner_products(drawn.public, secret, parameters.modulus),
            parameters.modulus,
            parameters.levels,
        )
        assert np.array_equal(drawn.labels, wanted)


def chance(result, given):
    assert 0 <= float(result) <= 1 + 1e-9


def counts_are_right(result, given):
    assert int(np.asarray(result, dtype=object).sum()) == lwe_total(given)


def lwe_total(given):
    n = len(np.asarray(given["form"]))
    return {"binary": 2**n, "ternary": 4**n}[given["matrix"]]


def instance_is_right(result, given):
    assert lwe.verify_lwr_instance(result, rng=0, samples=20).max_error <= result.allowed_error


def attacked(result, given):
    assert result.outcome in lwe.AttackOutcome
    assert result.explanation.endswith(".")
    result.to_json()
    if result.outcome is lwe.AttackOutcome.FAILED:
        raise ValueError(result.explanation)


def cost_is_right(result, given):
    for one in result if isinstance(result, list) else [result]:
        if one is not None:
            assert not math.isnan(one.exponent)
            one.to_json()
            str(one)


def law(name, kind, **arguments):
    return Subject(f"lwe.{name}", kind, arguments, right=law_is_right)


def of_form(name, call, right=assert_finite, **more):
    return Subject(
        f"lwe.{name}", call, {"form": form(), **more}, right=right, words=("coefficients", "values")
    )


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
        right=cost_is_right,
        share=0.6,
    )


def attack(kind, **arguments):
    return Subject(f"lwe.{kind.__name__}", kind, arguments, right=told)


def run_of(made_attack, share=0.3):
    name = type(made_attack).__name__
    return Subject(
        f"lwe.{name}.run",
        lambda samples, parameters, budget, rng: lwe.run_attacks(
            [made_attack], samples, parameters, budget=budget, rng=rng
        )[0],
        {
            "samples": SAMPLES,
            "parameters": BINARY,
            "budget": choice(lwe.Budget(seconds=0.5), None),
            "rng": seed(),
        },
        right=attacked,
        refuses=True,
        share=share,
        repeatable=False,
    )


ATTACKS = (
    lwe.ExhaustiveAttack(),
    lwe.EliminationAttack(),
    lwe.LeastSquaresAttack(),
    lwe.LinearisationAttack(),
    lwe.AroraGeAttack(),
    lwe.BKWAttack(),
    lwe.MeetInTheMiddleAttack(),
)

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
            right=told,
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
            "allows": {"vector": form(), "modulus": MODULI},
        }.items()
    ),
    Subject(
        "lwe.SparseLaw.draw",
        lambda size, modulus, rng: lwe.SparseLaw(2).draw(size, modulus, rng=rng),
        {"size": whole(2, 9), "modulus": MODULI, "rng": seed()},
        right=told,
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
    Subject("lwe.centred", lwe.centred, {"values": residues(5), "modulus": MODULI}, right=told),
    Subject(
        "lwe.rounded",
        lwe.rounded,
        {"t": residues(5), "modulus": choice(8, 9), "levels": choice(2, 3)},
        right=told,
    ),
    Subject(
        "lwe.covariate_form", lwe.covariate_form, {"secret": residues(4), "parameters": BINARY}, right=told
    ),
    Subject(
        "lwe.inner_products",
        lwe.inner_products,
        {"public": residues(6, 4), "secret": residues(4), "modulus": MODULI},
        right=told,
    ),
    Subject(
        "lwe.gadget_residues",
        lwe.gadget_residues,
        {"bits": residues(6, 6, most=2), "secret": residues(2), "modulus": choice(8)},
        right=told,
    ),
    Subject(
        "lwe.secret_predictor",
        lambda secret, parameters: lwe.secret_predictor(secret, parameters)(samples().public),
        {"secret": residues(4), "parameters": BINARY},
        right=told,
    ),
    Subject(
        "lwe.sufficient_examples",
        lwe.sufficient_examples,
        {"gain": real(0.1, 0.5), "error": real(0.01, 0.1)},
        right=told,
    ),
    Subject("lwe.truncation_failure", lwe.truncation_failure, {"deviations": real(2.0, 4.0)}, right=chance),
    # what is known of an instance
    of_form("attaining_covariates", lwe.attaining_covariates, told, ternary=choice(False, True)),
    of_form("value_range", lwe.value_range, told, matrix=MATRIX),
    of_form("kept_range", lwe.kept_range, told, matrix=MATRIX, deviations=real(2.0, 4.0)),
    of_form("wrap_ratio", lwe.wrap_ratio, modulus=MODULI, matrix=MATRIX),
    of_form("characters", lwe.characters, told, modulus=MODULI, matrix=MATRIX),
    of_form("distance_from_uniform", lwe.distance_from_uniform, chance, modulus=MODULI, matrix=MATRIX),
    of_form(
        "log2_distance_from_uniform", lwe.log2_distance_from_uniform, told, modulus=MODULI, matrix=MATRIX
    ),
    of_form(
        "total_variation_from_uniform",
        lwe.total_variation_from_uniform,
        chance,
        modulus=MODULI,
        matrix=MATRIX,
    ),
    of_form("residue_counts", lwe.residue_counts, counts_are_right, modulus=MODULI, matrix=MATRIX),
    of_form("residue_deviations", lwe.residue_deviations, told, modulus=MODULI, matrix=MATRIX),
    of_form("low_degree_weights", lwe.low_degree_weights, told, parameters=BINARY),
    of_form("label_correlation", lwe.label_correlation, other=form(), parameters=BINARY),
    of_form(
        "lwr_staircase",
        lwe.lwr_staircase,
        told,
        parameters=BINARY,
        beta=real(20.0, 40.0),
        deviations=Argument(st.just(fixed(None)), real().hostile),
    ),
    Subject("lwe.label_coefficients", lwe.label_coefficients, {"parameters": PARAMETERS}),
    Subject("lwe.root_mean_square_correlation", lwe.root_mean_square_correlation, {"parameters": BINARY}),
    Subject(
        "lwe.sampled_correlations",
        lwe.sampled_correlations,
        {"parameters": BINARY, "pairs": whole(), "rng": seed()},
    ),
    Subject(
        "lwe.judge_secret",
        lwe.judge_secret,
        {"secret": residues(4), "parameters": BINARY},
        right=lambda result, given: result.to_json(),
    ),
    Subject(
        "lwe.lwr_instance",
        lwe.lwr_instance,
        {
            "parameters": BINARY,
            "rng": seed(),
            "secret": Argument(st.just(fixed(None)), residues(4).hostile),
            "beta": real(30.0, 40.0),
            "deviations": Argument(st.just(fixed(None)), real(2.0, 4.0).hostile),
        },
        right=instance_is_right,
        share=0.5,
    ),
    Subject(
        "lwe.make_lwr_instance",
        lwe.make_lwr_instance,
        {
            "secret_dim": whole(2, 4),
            "modulus": choice(8),
            "levels": choice(2, 4),
            "matrix": choice("binary", "ternary"),
            "secret_law": LAWS,
            "noise": NOISES,
            "rng": seed(),
        },
        right=instance_is_right,
        share=0.5,
    ),
    Subject(
        "lwe.lwr_layer",
        lwe.lwr_layer,
        {
            "stairs": made(lambda: lwe.lwr_staircase(np.array([1, 2, 3, -1]), SMALL), "<stairs>"),
            "matrix": choice("binary"),
        },
        right=lambda result, given: assert_finite(result.theta),
    ),
    Subject("lwe.describe_instance", lwe.describe_instance, {"instance": INSTANCE}, right=told),
    Subject(
        "lwe.verify_lwr_instance",
        lwe.verify_lwr_instance,
        {"instance": INSTANCE, "rng": seed(), "samples": whole(1, 50)},
        right=lambda result, given: result.to_json(),
    ),
    Subject(
        "lwe.covariates_of",
        lwe.covariates_of,
        {
            "x": array((3, 2, 5), of=lambda rng, shape: rng.choice([-1.0, 1.0], shape), torch=False),
            "parameters": BINARY,
            "gate": choice(4),
        },
        right=told,
    ),
    # samples
    Subject(
        "lwe.LWRSamples",
        lwe.LWRSamples,
        {"public": residues(6, 4), "labels": residues(6, most=2)},
        right=told,
    ),
    *(
        Subject(
            f"lwe.LWRSamples.{name}",
            lambda number, name=name: getattr(samples(), name)(number),
            {"number": whole()},
            right=told,
        )
        for name in ("take", "held_out")
    ),
    Subject(
        "lwe.make_samples",
        make_samples,
        {
            "parameters": PARAMETERS,
            "number": whole(1, 50),
            "secret": Argument(st.just(fixed(None)), residues(4).hostile),
            "rng": seed(),
        },
        right=samples_are_right,
    ),
    Subject(
        "lwe.require_samples", lwe.require_samples, {"samples": SAMPLES, "parameters": BINARY}, right=told
    ),
    Subject("lwe.noisy_examples", lwe.noisy_examples, {"instance": INSTANCE, "rng": seed()}, right=told),
    Subject(
        "lwe.samples_from_examples",
        lwe.samples_from_examples,
        {
            "x": array((9, 2, 5), of=lambda rng, shape: rng.choice([-1.0, 1.0], shape), torch=False),
            "y": array((9, 2, 5), of=lambda rng, shape: labels(), torch=False),
            "parameters": BINARY,
            "gate": choice(0),
            "allowed_error": real(1e-6, 1e-3),
        },
        right=told,
        refuses=True,
    ),
    Subject(
        "lwe.read_samples",
        lwe.read_samples,
        {"public_path": file("a"), "labels_path": file("b"), "parameters": BINARY},
        right=told,
        also=(OSError,),
        words=("file", "samples"),
    ),
    Subject(
        "lwe.write_samples",
        lwe.write_samples,
        {
            "public_path": anything(Given("new", lambda: FILES["folder"] / "new.npy")),
            "labels_path": anything(Given("new labels", lambda: FILES["folder"] / "labels.npy")),
            "samples": SAMPLES,
        },
        right=told,
        also=(OSError,),
        words=("path", "file"),
    ),
    # attacks
    attack(lwe.ExhaustiveAttack, work=OPTIONAL),
    attack(lwe.EliminationAttack, surplus=whole()),
    attack(lwe.LinearisationAttack, degree=OPTIONAL, surplus=real(), candidates=whole()),
    attack(lwe.AroraGeAttack, errors=choice(None, (-1, 0, 1)), surplus=real(), tries=whole()),
    attack(lwe.BKWAttack, pairing=choice(None, "LF1", "LF2"), steps=OPTIONAL, reliance=real()),
    attack(lwe.MeetInTheMiddleAttack, join=choice(None, "boxes", "words"), work=OPTIONAL),
    attack(lwe.DualAttack, largest_block=whole(40, 50), samples=OPTIONAL),
    attack(
        lwe.LatticeAttack,
        largest_block=whole(40, 50),
        samples=OPTIONAL,
        least_gap=real(0.1, 0.5),
        rounds=OPTIONAL,
    ),
    attack(lwe.LeastSquaresAttack),
    attack(lwe.LearnerAttack, learner=made(LinearBaseline, "<learner>"), on_gate_only=choice(True, False)),
    attack(
        lwe.AttackLearner,
        attack=made(lwe.ExhaustiveAttack, "<attack>"),
        parameters=BINARY,
        examples=OPTIONAL,
        budget=made(lwe.Budget, "<budget>"),
        tolerance=real(1e-4, 1e-3),
    ),
    *map(run_of, ATTACKS),
    Subject(
        "lwe.run_attacks",
        lambda **given: lwe.run_attacks(**given)[0],
        {
            "attacks": made(lambda: [lwe.EliminationAttack()], "<attacks>"),
            "samples": SAMPLES,
            "parameters": BINARY,
            "rng": seed(),
            "budget": choice(lwe.Budget(seconds=0.5)),
        },
        right=attacked,
        refuses=True,
        share=0.5,
        repeatable=False,
    ),
    Subject(
        "lwe.distinguish",
        lwe.distinguish,
        {
            "learner": made(lwe.EliminationAttack, "<attack>"),
            "parameters": BINARY,
            "runs": whole(1, 2),
            "examples": whole(80, 90),
            "fresh": whole(10, 20),
            "false_alarm": real(0.1, 0.3),
            "confidence": real(0.5, 0.9),
        },
        right=lambda result, given: result.to_json(),
        refuses=True,
        share=0.3,
        repeatable=False,
    ),
    Subject(
        "lwe.attacks.SampleOracle",
        lambda samples, parameters, rng, number: lwe.attacks.SampleOracle(samples, parameters, rng=rng).draw(
            number
        ),
        {
            "samples": SAMPLES,
            "parameters": BINARY,
            "rng": made(lambda: np.random.default_rng(0), "<rng>"),
            "number": whole(),
        },
    ),
    Subject("lwe.attacks.label_degree", lwe.attacks.label_degree, {"parameters": PARAMETERS}, right=told),
    Subject(
        "lwe.attacks.refined_secret",
        lwe.attacks.refined_secret,
        {
            "secret": residues(4),
            "samples": SAMPLES,
            "parameters": BINARY,
            "most": whole(10, 20),
            "seconds": real(),
        },
        right=told,
    ),
    Subject(
        "lwe.attacks.dual_statistic",
        lwe.attacks.dual_statistic,
        {
            "vectors": array((3, 5), of=lambda rng, shape: rng.integers(-2, 3, shape), torch=False),
            "weights": array((3,), of=lambda rng, shape: rng.random(shape), torch=False),
            "labels": residues(5, most=2),
            "parameters": BINARY,
        },
        right=lambda result, given: assert_finite(np.asarray(result)),
    ),
    # costs
    Subject(
        "lwe.estimate",
        lwe.estimate,
        {"parameters": PARAMETERS, "samples": OPTIONAL, "quantum": choice(False, True)},
        right=cost_is_right,
        share=0.3,
        seconds=6.0,
    ),
    cost("arora_ge_cost"),
    cost("bkw_cost"),
    cost("dual_cost", quantum=choice(False, True)),
    cost("linearisation_cost"),
    *(
        Subject(f"lwe.costs.{one.__name__}", one, {"parameters": PARAMETERS}, right=cost_is_right)
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
        right=told,
    ),
    Subject(
        "lwe.costs.monomials_by_degree",
        lwe.costs.monomials_by_degree,
        {"variables": whole(1, 6), "degree": whole(0, 3), "largest": whole(1, 3)},
        right=told,
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
        right=told,
        share=0.5,
    ),
    Subject(
        "lwe.costs.primal_shape",
        lwe.costs.primal_shape,
        {"parameters": PARAMETERS, "samples": whole(4, 9), "weighted": choice(None, True, False)},
        right=told,
        refuses=True,
    ),
    Subject(
        "lwe.costs.block_size_for",
        lwe.costs.block_size_for,
        {"dim": whole(50, 90), "log_volume": real(20.0, 60.0), "deviation": real()},
        right=told,
    ),
    Subject("lwe.costs.block_sizes", lwe.costs.block_sizes, {"most": whole(60, 90)}, right=told),
    Subject(
        "lwe.costs.core_svp_exponent",
        lwe.costs.core_svp_exponent,
        {"block_size": real(60.0, 90.0), "quantum": choice(False, True)},
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

RECORD = "a record of what was computed"
EXCEPTIONS = {
    **dict.fromkeys(
        [
            f"lwe.{one}"
            for one in ("FAMILY", "LARGEST_MODULUS", "LEAST_WRAP", "NO_NOISE", "PRESETS", "UNIFORM")
        ],
        "a constant",
    ),
    **dict.fromkeys(
        [f"lwe.costs.{one}" for one in ("CLASSICAL_EXPONENT", "QUANTUM_EXPONENT", "SIEVE_VECTORS")],
        "a constant",
    ),
    **dict.fromkeys(
        [
            *(
                f"lwe.{one}"
                for one in (
                    "AttackResult",
                    "Characters",
                    "Cost",
                    "Distinguishing",
                    "LWRVerification",
                    "LowDegreeWeights",
                    "PublicDescription",
                    "Verdict",
                )
            ),
            "lwe.costs.Cost",
            "lwe.costs.Deviations",
            "lwe.costs.PrimalShape",
        ],
        RECORD,
    ),
    **dict.fromkeys(
        [f"lwe.{one}" for one in ("Attack", "LabelPredictor", "Matrix")], "a protocol or the name of a type"
    ),
    **dict.fromkeys(
        [f"lwe.{one}" for one in ("Attempt", "BaseAttack", "BaseLaw")],
        "for those who write attacks and laws: the toolkit's own are built on it, and are tried",
    ),
    "lwe.AttackOutcome": "an enumeration",
    "lwe.BudgetSpentError": "an error",
    "lwe.lwr_certificate": "put together by lwr_instance of what it has made, which is tried",
}


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)


def test_every_public_name_is_tried_or_excepted():
    packages = {"lwe": lwe, "lwe.attacks": lwe.attacks, "lwe.costs": lwe.costs}
    missing, idle = missing_subjects(packages, SUBJECTS, EXCEPTIONS)
    assert not missing
    assert not idle
