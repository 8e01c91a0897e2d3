"""The attacks of `lwe`, called with what a user may give by mistake."""

import json

import numpy as np
import pytest
from fuzzing import Subject, array, assert_finite, choice, made, real, seed, whole
from lwe_given import (
    BINARY,
    OPTIONAL,
    PARAMETERS,
    SAMPLES,
    residues,
    told,
)
from lwe_right import label, products, whole_numbers

import lwe
import lwe.attacks
import lwe.costs
from upper import LinearBaseline


def attacked(result, given):
    assert result.outcome in lwe.AttackOutcome
    assert result.explanation.endswith(".")
    json.dumps(result.to_json(), allow_nan=False)
    if result.outcome is lwe.AttackOutcome.BROKEN:
        # of labels without errors a secret found predicts every one; of a few, several may
        assert result.accuracy == 1
        if result.secret is not None:
            drawn, parameters = given["samples"], given["parameters"]
            inner = products(whole_numbers(drawn.public), whole_numbers(result.secret), parameters.modulus)
            assert [label(one, parameters) for one in inner] == drawn.labels.tolist()
    if result.outcome is lwe.AttackOutcome.FAILED:
        # of what is refused, and of nothing that an attack ran into
        assert (
            "broke down with ValueError: " in result.explanation
            or "NotEnoughMemoryError" in result.explanation
        )
        raise ValueError(result.explanation)


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
]


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)
