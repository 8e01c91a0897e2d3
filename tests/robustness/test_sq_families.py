"""Every family of `sq` and its secrets, made and asked with what a user may give by mistake."""

import itertools
import math

import numpy as np
import pytest
from fuzzing import Argument, Subject, anything, array, assert_finite, choice, fixed, made, real, seed, whole
from hypothesis import strategies as st
from sq_makers import CONSTRUCTION, FAMILIES, SLOPES, method, on

import lower
import sq
from lower import all_sign_matrices
from sq import (
    BumpFamily,
    HiddenGateFamily,
    PairFamily,
    ParityFamily,
    SecretSet,
    TokenParityFamily,
    TwoSlopeFamily,
)


def family_is_right(result, given):
    number = result.secrets.size
    if number > 5000 or result.dim > 30:
        return
    instance = result.instance(number - 1)
    x = instance.inputs.sample(16, rng=0)
    wanted = instance.known(x) + result.scale * np.einsum(
        "nk,d->nkd", result.hidden(number - 1, x), np.asarray(instance.parameters["direction"])
    )
    slack = instance.realisation_error + 1e-9 * (1 + np.abs(instance.layer.w).sum())
    assert np.abs(instance.layer(x) - wanted).max() <= slack
    assert abs(result.correlations(0)[0] - 1) < 1e-9
    if result.tokens * result.dim <= 12:
        correlations_are_right(result)


def correlations_are_right(family):
    """The closed form against the mean of products over all inputs, and what it means to be orthonormal."""
    x = all_sign_matrices(family.tokens, family.dim)
    numbers = sorted({step * (family.secrets.size - 1) // 7 for step in range(8)})
    values = np.stack([family.hidden(number, x).ravel() for number in numbers])
    wanted = values @ values.T / len(x)
    closed = np.stack([family.correlations(number)[numbers] for number in numbers])
    np.testing.assert_allclose(closed, wanted, atol=1e-6)
    if family.orthonormal:
        np.testing.assert_allclose(closed, np.eye(len(numbers)), atol=1e-6)


def secrets_are_right(result, given):
    if result.size <= 1000:
        table = result.table
        assert len(table) == result.size == len({tuple(row) for row in table.tolist()})
        assert all(len(set(row)) == len(row) for row in table[:, -result.bits :].tolist())
        for number in {0, result.size - 1, result.size // 2}:
            assert np.array_equal(result.unrank(number), table[number])
            assert result.rank(table[number]) == number


LISTED = [
    tuple(one) for one in itertools.combinations(range(1, 6), 2)
]  # the secrets of SecretSet(dim=6, bits=2)


def drawn_is_right(result, given):
    assert result in range(len(LISTED))


def indicator_is_right(result, given):
    assert result.tolist() == [float(number == given["number"]) for number in range(len(LISTED))]


def unranked_is_right(result, given):
    assert tuple(result.tolist()) == LISTED[given["number"]]


def rank_is_right(result, given):
    assert LISTED[result] == tuple(sorted(int(one) for one in given["secret"]))


def overlaps_are_right(result, given):
    chosen = {int(one) for one in given["secret"]}
    assert result.tolist() == [len(chosen & set(one)) for one in LISTED]


def instance_is_right(result, given):
    if result.layer.dim <= 30:
        assert_finite((result.layer.theta, result.layer.w))
        assert lower.verify_instance(result, sq.DEFINITIONS).holds
    if given["number"] is not None:
        secret = given["of"].secrets.unrank(given["number"])
        assert np.array_equal(np.asarray(result.secret)[: len(secret)], secret)


def hidden_is_right(result, given):
    """On tokens that are signs, what the layer shows beside its known part; on others there is no such thing."""
    x = np.asarray(given["x"], dtype=float)
    assert_finite(result)
    assert result.shape == x.shape[:2]
    if (np.abs(x) == 1).all():
        instance = given["of"].instance(given["number"])
        shown = (instance.layer(x) - instance.known(x)) @ np.asarray(instance.parameters["direction"])
        slack = instance.realisation_error + 1e-9 * (1 + np.abs(instance.layer.w).sum())
        assert np.abs(shown - given["of"].scale * result).max() <= slack


METHODS = {
    "draw": ({"rng": seed()}, drawn_is_right),
    "indicator": ({"number": whole(0, 9)}, indicator_is_right),
    "unrank": ({"number": whole(0, 9)}, unranked_is_right),
    "rank": (
        {"secret": array((2,), of=lambda rng, shape: np.array([2, 4]), torch=False)},
        rank_is_right,
    ),
    "overlaps": (
        {"secret": array((2,), of=lambda rng, shape: np.array([1, 4]), torch=False)},
        overlaps_are_right,
    ),
}

SUBJECTS = [
    Subject(
        "sq.ParityFamily",
        ParityFamily,
        {
            "dim": whole(5, 8),
            "bits": whole(1, 4),
            "construction": CONSTRUCTION,
            "beta": Argument(st.just(fixed(None)), real().hostile),
            "slopes": SLOPES,
        },
        right=family_is_right,
    ),
    Subject("sq.PairFamily", PairFamily, {"dim": whole(3, 8), "beta": real()}, right=family_is_right),
    Subject(
        "sq.BumpFamily",
        BumpFamily,
        {
            "dim": whole(5, 8),
            "bits": whole(2, 4),
            "at": Argument(st.just(fixed(None)), whole(0, 3).hostile),
            "beta": real(30.0, 40.0),
        },
        right=family_is_right,
    ),
    Subject(
        "sq.TwoSlopeFamily",
        TwoSlopeFamily,
        {
            "dim": whole(5, 8),
            "bits": whole(3, 4),
            "slopes": Argument(st.just(fixed((0.1, 1.0))), SLOPES.hostile),
        },
        right=family_is_right,
        words=("slope",),
    ),
    Subject(
        "sq.DesignedStepsFamily",
        sq.DesignedStepsFamily,
        {
            "dim": whole(7, 9),
            "bits": whole(4, 6),
            "heads_count": Argument(st.sampled_from([fixed(None), fixed(2)]), whole().hostile),
            "thresholds": Argument(
                st.just(fixed(None)),
                st.sampled_from(
                    [
                        fixed(one)
                        for one in ((0.5, 2.5), (1.0,), (), (0.5, 0.5), (-3.5,), (1e300,), (math.nan,))
                    ]
                )
                | anything(None).hostile,
            ),
            "beta": real(30.0, 40.0),
        },
        right=family_is_right,
        words=("heads", "threshold"),
    ),
    Subject(
        "sq.CentreThresholdFamily",
        sq.CentreThresholdFamily,
        {
            "dim": whole(6, 8),
            "bits": choice(4),
            "heads_count": choice(2, 4),
            "steps": choice("alternating", "best fit"),
            "beta": real(30.0, 40.0),
        },
        right=family_is_right,
        words=("heads",),
    ),
    Subject(
        "sq.TokenParityFamily",
        TokenParityFamily,
        {"dim": whole(5, 7), "tokens": whole(2, 4), "bits": whole(1, 3), "beta": real(30.0, 40.0)},
        right=family_is_right,
    ),
    Subject(
        "sq.HiddenGateFamily",
        HiddenGateFamily,
        {"base": made(lambda: ParityFamily(dim=5, bits=3), "<parity>")},
        right=family_is_right,
        words=("family",),
    ),
    Subject(
        "sq.SecretSet",
        SecretSet,
        {"dim": whole(4, 7), "bits": whole(1, 3), "first": whole(0, 1)},
        right=secrets_are_right,
    ),
    Subject(
        "sq.GateAndSecretSet",
        sq.GateAndSecretSet,
        {"dim": whole(4, 6), "bits": whole(1, 3)},
        right=secrets_are_right,
    ),
    *(
        Subject(
            f"sq.SecretSet.{name}",
            method(name),
            {"of": on(lambda: SecretSet(dim=6, bits=2), "<secrets>"), **arguments},
            right=right,
            words=("secret",),
        )
        for name, (arguments, right) in METHODS.items()
    ),
    *(
        Subject(
            f"sq.TargetFamily.instance of {name}",
            method("instance"),
            {
                "of": on(make, f"<{name}>"),
                "number": whole(0, 2),
                "rng": seed(),
                "direction": Argument(st.just(fixed(None)), array((make().dim,), torch=False).hostile),
            },
            right=instance_is_right,
            share=0.4,
        )
        for name, make in FAMILIES.items()
    ),
    *(
        Subject(
            f"sq.TargetFamily.hidden of {name}",
            method("hidden"),
            {
                "of": on(make, f"<{name}>"),
                "number": whole(0, 2),
                "x": array(
                    (3, make().tokens, make().dim),
                    of=lambda rng, shape: rng.choice([-1.0, 1.0], shape),
                    torch=False,
                ),
            },
            right=hidden_is_right,
            share=0.4,
        )
        for name, make in FAMILIES.items()
    ),
]


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)


def test_the_number_of_a_secret_of_many_coordinates_is_found_at_once():
    secrets = SecretSet(dim=10**9, bits=5)
    number = secrets.size // 3
    assert secrets.rank(secrets.unrank(number)) == number
    small = SecretSet(dim=8, bits=3, first=2)
    listed = list(itertools.combinations(range(2, 8), 3))
    assert [tuple(small.unrank(number).tolist()) for number in range(small.size)] == listed
    assert [small.rank(np.array(secret)) for secret in listed] == list(range(small.size))
