import json
from dataclasses import replace

import pytest

from lower import Certificate, Fact, Key, Status, Word


def make():
    return Certificate(
        "coins",
        (
            Fact(Key.TARGETS, 2**80, Status.PROVED, "by counting"),
            Fact(Key.QUERIES, 0.1 + 0.2, Status.COMPUTED, "a balance", at=0.1),
            Fact(Key.JUMPS, (3, 2**70), Status.DERIVED, "derived here"),
            Fact(Key.BROKEN_BY, (Word.ZEROS, Word.BKW), Status.DERIVED, "derived here"),
        ),
    )


def test_json_round_trip_is_exact():
    certificate = make()
    again = Certificate.from_json(json.loads(json.dumps(certificate.to_json())))
    assert again == certificate
    assert again["targets"].value == 2**80
    assert again["queries at tolerance 0.1"].value == 0.1 + 0.2


@pytest.mark.parametrize("value", [(), (3,), (3, 0), (Word.BKW, 2), (3, 2, 1), 10**400, -(10**400), 1e308])
def test_every_fact_and_label_prints(value):
    for key in Key:
        certificate = Certificate("any", (Fact(key, value, Status.PROVED, "nowhere", at=0.1),))
        assert key.value in str(certificate)
        assert certificate.label


def label(*facts):
    return Certificate("any", tuple(Fact(*one) for one in facts)).label


def test_a_label_says_what_is_proved_assumed_or_estimated():
    targets = (Key.TARGETS, 16215, Status.PROVED, "by counting")
    queries = (Key.QUERIES, 164, Status.PROVED, "Bessel", 0.1)
    assert label(targets, queries) == "164 queries at tau 0.1 of 16215 targets"
    assert label(targets, (Key.QUERIES, 1, Status.PROVED, "Bessel", 0.1)).startswith("1 query at")
    assert label((Key.TARGETS, 10**400, Status.PROVED, "by counting"), queries).endswith(
        " of 1.0e+400 targets"
    )
    none = (Key.QUERIES, Word.INFINITE, Status.PROVED, "Bessel", 0.1)
    assert label(targets, none) == "no number is enough at tau 0.1 of 16215 targets"
    assert label(targets, (Key.QUERIES, 9, Status.PROVED, "Bessel", 0.3)).startswith("no bound")
    assumed = (Key.ASSUMPTION, Word.LWR, Status.ASSUMED, "Banerjee, Peikert and Rosen 2012")
    assert label(assumed) == "assumed: learning with rounding"
    assert label(assumed, (Key.RHO, 0.16, Status.DERIVED, "lwe")).endswith(", rho = 0.16")
    for exponent, words in ((34.1, "broken by BKW in 2^34 operations (estimate)"), (40.0, "assumed:")):
        assert label(assumed, (Key.OPERATIONS, exponent, Status.ESTIMATE, "BKW")).startswith(words)


def test_a_bound_with_room_for_other_machines_may_be_any_number():
    bound = Fact(Key.WEIGHT_BOUND, -40, Status.COMPUTED, "lwe.low_degree_weights", at=1)
    for value, same in ((-40, True), (-36, True), (-35, False), (10**400, False), (-40.0, False)):
        assert replace(bound, value=value).agrees(bound) == same
