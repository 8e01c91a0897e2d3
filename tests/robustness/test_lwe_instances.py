"""What `lwe` knows of its instances, and their samples, called with what a user may give by mistake."""

import dataclasses
import json
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
    real,
    seed,
    whole,
)
from hypothesis import strategies as st
from lwe_given import (
    ALL_MODULI,
    BINARY,
    INSTANCE,
    LAWS,
    MATRIX,
    MODULI,
    NOISES,
    PARAMETERS,
    SAMPLES,
    SMALL,
    form,
    labels,
    residues,
    samples,
    told,
    wide,
)
from lwe_right import (
    centre,
    distance_is_right,
    kept_range_is_right,
    label,
    products,
    ratio_is_right,
    residue_counts_are_right,
    value_range_is_right,
    whole_numbers,
)

import lower
import lwe
import lwe.attacks
import lwe.costs
from lwe import make_samples

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


def samples_are_right(result, given):
    """Every label is that of the inner product and of an error that the law can give."""
    drawn, secret = result
    parameters = given["parameters"]
    q = parameters.modulus
    assert len(drawn) == given["number"]
    if given["secret"] is not None:
        assert secret.tolist() == [centre(one, q) for one in whole_numbers(given["secret"])]
    assert parameters.secret.allows(secret, q) or given["secret"] is not None
    errors = parameters.noise.support(q)[0].tolist()
    inner = products(whole_numbers(drawn.public), secret.tolist(), q)
    for t, b in zip(inner, drawn.labels.tolist(), strict=True):
        assert b in {label(t + error, parameters) for error in errors}


def log_distance_is_right(result, given):
    distance_is_right(2.0**result, given)


def staircase_is_right(result, given):
    """Its steps up to each value of the inner product add up to the label, about the mean of all labels."""
    parameters = given["parameters"]
    entries = whole_numbers(given["form"])
    low, high = lwe.value_range(np.array(entries), parameters.matrix)
    if given["deviations"] is not None:
        low, high = lwe.kept_range(np.array(entries), parameters.matrix, given["deviations"])
    for t in {low, high, *range(low, min(high, low + 200))}:
        steps = sum(c if t > at else -c for at, c in zip(result.thresholds, result.coefficients, strict=True))
        assert steps == label(t, parameters) - parameters.centre


def correlation_is_right(result, given):
    assert abs(result) <= 1 + 1e-9
    if whole_numbers(given["form"]) == whole_numbers(given["other"]):
        assert result >= -1e-9


def instance_is_right(result, given):
    """The verifier takes the secret, and none whose labels are others."""
    assert lower.verify_instance(result, lwe.DEFINITIONS).holds
    parameters = lwe.describe_instance(result).parameters
    if np.count_nonzero(result.secret) > 0 and parameters.modulus > 2:
        other = dataclasses.replace(result, secret=lwe.centred(result.secret + 1, parameters.modulus))
        assert not lower.verify_instance(other, lwe.DEFINITIONS).holds


def verdict_is_right(result, given):
    parameters = given["parameters"]
    json.dumps(result.to_json(), allow_nan=False)
    form = lwe.covariate_form(lwe.centred(given["secret"], parameters.modulus), parameters)
    assert math.isclose(result.rho, lwe.wrap_ratio(form, parameters.modulus, parameters.matrix))


def covariates_are_right(result, given):
    """Bits are 1 where the tokens differ."""
    x, gate = np.asarray(given["x"]), given["gate"]
    wanted = [[int(x[i, 0, j] != x[i, 1, j]) for j in range(x.shape[2]) if j != gate] for i in range(len(x))]
    assert result.tolist() == wanted


def halves_are_right(name):
    def check(result, given):
        number, drawn = given["number"], samples()
        parts = [result] if name == "take" else list(result)
        assert [len(one) for one in parts] == ([number] if name == "take" else [len(drawn) - number, number])
        assert (
            np.concatenate([one.labels for one in parts]).tolist()
            == drawn.labels.tolist()[: sum(map(len, parts))]
        )

    return check


def are_as_given(result, given):
    assert whole_numbers(result.public) == whole_numbers(given["public"])
    assert whole_numbers(result.labels) == whole_numbers(given["labels"])


def are_in_the_files(result, given):
    assert whole_numbers(result.public) == whole_numbers(np.load(given["public_path"]))
    assert whole_numbers(result.labels) == whole_numbers(np.load(given["labels_path"]))


def are_written(result, given):
    found, _ = lwe.read_samples(given["public_path"], given["labels_path"], SMALL)
    assert np.array_equal(found.public, given["samples"].public)
    assert np.array_equal(found.labels, given["samples"].labels)


def of_form(name, call, right=assert_finite, **more):
    return Subject(
        f"lwe.{name}", call, {"form": form(), **more}, right=right, words=("coefficients", "values")
    )


SUBJECTS = [
    # what is known of an instance
    of_form("value_range", lwe.value_range, value_range_is_right, matrix=MATRIX),
    of_form("kept_range", lwe.kept_range, kept_range_is_right, matrix=MATRIX, deviations=real(2.0, 4.0)),
    of_form("wrap_ratio", lwe.wrap_ratio, ratio_is_right, modulus=ALL_MODULI, matrix=MATRIX),
    *(
        Subject(
            f"lwe.{call.__name__} of large entries",
            call,
            {"form": wide(5), "matrix": MATRIX, **more},
            right=right,
            words=("coefficients", "values"),
            share=0.5,
        )
        for call, right, more in (
            (lwe.value_range, value_range_is_right, {}),
            (lwe.kept_range, kept_range_is_right, {"deviations": real(2.0, 4.0)}),
            (lwe.wrap_ratio, ratio_is_right, {"modulus": ALL_MODULI}),
            (lwe.residue_counts, residue_counts_are_right, {"modulus": MODULI}),
            (lwe.total_variation_from_uniform, distance_is_right, {"modulus": MODULI}),
            (lwe.distance_from_uniform, distance_is_right, {"modulus": MODULI}),
        )
    ),
    of_form("characters", lwe.characters, told, modulus=MODULI, matrix=MATRIX),
    of_form(
        "distance_from_uniform", lwe.distance_from_uniform, distance_is_right, modulus=MODULI, matrix=MATRIX
    ),
    of_form(
        "log2_distance_from_uniform",
        lwe.log2_distance_from_uniform,
        log_distance_is_right,
        modulus=MODULI,
        matrix=MATRIX,
    ),
    of_form(
        "total_variation_from_uniform",
        lwe.total_variation_from_uniform,
        distance_is_right,
        modulus=MODULI,
        matrix=MATRIX,
    ),
    of_form("residue_counts", lwe.residue_counts, residue_counts_are_right, modulus=MODULI, matrix=MATRIX),
    of_form("residue_deviations", lwe.residue_deviations, told, modulus=MODULI, matrix=MATRIX),
    of_form("low_degree_weights", lwe.low_degree_weights, told, parameters=BINARY),
    of_form(
        "label_correlation", lwe.label_correlation, correlation_is_right, other=form(), parameters=BINARY
    ),
    of_form(
        "lwr_staircase",
        lwe.lwr_staircase,
        staircase_is_right,
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
        right=verdict_is_right,
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
        "lwe.covariates_of",
        lwe.covariates_of,
        {
            "x": array((3, 2, 5), of=lambda rng, shape: rng.choice([-1.0, 1.0], shape), torch=False),
            "parameters": BINARY,
            "gate": choice(4, 0),
        },
        right=covariates_are_right,
    ),
    # samples
    Subject(
        "lwe.LWRSamples",
        lwe.LWRSamples,
        {"public": residues(6, 4), "labels": residues(6, most=2)},
        right=are_as_given,
    ),
    *(
        Subject(
            f"lwe.LWRSamples.{name}",
            lambda number, name=name: getattr(samples(), name)(number),
            {"number": whole()},
            right=halves_are_right(name),
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
        right=lambda result, given: are_in_the_files(result[0], given),
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
        right=are_written,
        also=(OSError,),
        words=("path", "file"),
    ),
]


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)
