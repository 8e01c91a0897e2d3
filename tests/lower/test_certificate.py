import json

from lower import Certificate, Hardness, Statement


def make():
    return Certificate(
        "coins",
        (
            Statement("sides", 2**80, "A coin has as many.", "proved", "By counting"),
            Statement("weight", 0.1 + 0.2, "In grams.", "measured", "A balance"),
            Statement("metal", "copper", "Mostly.", "derived", "Derived here"),
        ),
    )


def test_json_round_trip_is_exact():
    certificate = make()
    again = Certificate.from_json(json.loads(json.dumps(certificate.to_json())))
    assert again == certificate
    assert again["sides"].value == 2**80
    assert again["weight"].value == 0.1 + 0.2


def test_a_certificate_without_a_verdict_is_neither_proved_nor_assumed_hard():
    assert make().hardness is Hardness.NEITHER
    for one in Hardness:
        said = Statement("verdict", one.value, "So.", "derived", "Derived here")
        assert Certificate("coins", (said,)).hardness is one
    odd = Statement("verdict", "no idea", "So.", "derived", "Derived here")
    assert Certificate("coins", (odd,)).hardness is Hardness.NEITHER
