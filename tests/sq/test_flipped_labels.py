from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from arena.targets import family_target, load_target, save_target
from lower import FAMILIES, query_lower_bound, verify_instance
from sq import (
    CSQ,
    ExactOracle,
    GroupQuery,
    HiddenGateFamily,
    HonestOracle,
    PairFamily,
    ParityFamily,
    ProfileFamily,
    TokenParityFamily,
)
from studies.intervals import proportion_interval

RATE = 0.2
NOISY = (
    ParityFamily(dim=10, bits=3, noise=RATE),
    ProfileFamily.bump(dim=10, bits=4, noise=RATE),
    HiddenGateFamily(base=ParityFamily(dim=10, bits=3, noise=RATE)),
    PairFamily(dim=10, noise=RATE),
    TokenParityFamily(dim=10, tokens=4, bits=2, noise=RATE),
)


@pytest.mark.parametrize("family", NOISY, ids=lambda family: family.name)
def test_flips_change_the_sign_of_the_hidden_part_and_nothing_else(family):
    instance = family.instance(5)
    x, y = family.examples(instance, rng=1).draw(4000)
    clean, known = instance.layer(x), instance.known(x)
    kept = np.isclose(y, clean, atol=1e-9).all(axis=2)
    turned = np.isclose(y, 2 * known - clean, atol=1e-9).all(axis=2)
    assert np.all(kept | turned)
    shown = ~(kept & turned)  # rows in which the hidden part is not 0
    flips = turned & shown
    both = shown.all(axis=1)
    if family.rows_agree:
        assert np.all(flips[both].all(axis=1) == flips[both].any(axis=1))
        several = flips[both][:, 0]
    else:
        assert np.any(flips[both].all(axis=1) != flips[both].any(axis=1))
        several = flips[shown]
    interval = proportion_interval(int(several.sum()), len(several), confidence=0.9999)
    assert interval.low <= RATE <= interval.high


@pytest.mark.parametrize(("construction", "beta"), [("D", None), ("C", 0.7), ("B", None)])
def test_the_last_digits_of_a_label_do_not_show_the_secret(construction, beta):
    options = {} if beta is None else {"beta": beta}
    family = ParityFamily(dim=10, bits=3, construction=construction, noise=RATE, **options)
    instance = family.instance(5)
    x, y = family.examples(instance, rng=1).draw(4000)
    size = np.abs((y - instance.known(x))[:, 0] @ instance.direction)
    gate = x[:, 0, 0] != x[:, 1, 0]
    differ = (x[:, 0, instance.secret] != x[:, 1, instance.secret]).sum(axis=1)
    assert {one for number in range(4) for one in size[gate & (differ == number)]} == {1.0}


@pytest.mark.parametrize("family", NOISY, ids=lambda family: family.name)
def test_noise_is_stored_verified_and_certified(family, tmp_path):
    target = family_target(family, seed=3)
    save_target(tmp_path / "target.safetensors", target)
    again = load_target(tmp_path / "target.safetensors").instance
    assert verify_instance(again).holds
    assert again.certificate["noise on the labels"].value == RATE
    if isinstance(family, HiddenGateFamily):
        return
    clean, forged = (
        FAMILIES[family.name].from_json({**family.to_json(), "noise": rate}) for rate in (0.0, 0.1)
    )
    assert not verify_instance(replace(again, family=forged)).holds
    assert clean.noise == 0
    assert "noise" not in clean.to_json()
    totals = [one.secret_pairs.totals[-1 if family.name == "sq-bump" else 0] for one in (family, clean)]
    assert float(totals[0]) == pytest.approx((1 - 2 * RATE) ** 2 * float(totals[1]))


def test_query_bounds_count_the_answers_that_noise_leaves():
    family = ParityFamily(dim=48, bits=3, noise=RATE)
    certificate = family.instance(0).certificate
    for tau in ("0.3", "0.1"):
        # answers are 1 - 2 eta times as large: the bound is that of tolerance tau / (1 - 2 eta)
        wanted = query_lower_bound(family.secrets.size, Fraction(tau) / Fraction("0.6"))
        assert certificate[f"queries at tolerance {tau}"].value == wanted
    blind = ParityFamily(dim=48, bits=3, noise=0.45).instance(0).certificate
    assert blind["queries at tolerance 0.3"].value == "no number is enough"
    assert blind.label == "no number is enough at tau 0.1 of 16215 targets"
    only = ParityFamily(dim=4, bits=3, noise=0.45).instance(0).certificate  # one secret needs no query
    assert only["queries at tolerance 0.3"].value == 0
    assert only.label == "0 queries at tau 0.1 of 1 target"


def test_honest_replies_are_right_in_the_mean_and_oracles_that_know_no_noise_refuse():
    family = ParityFamily(dim=10, bits=3, noise=RATE)
    oracle = HonestOracle(CSQ(0.1), family.instance(7), batch=20_000, rng=0)
    assert oracle.query(GroupQuery.single(7)) == pytest.approx(1, abs=0.06)
    assert oracle.query(GroupQuery.single(8)) == pytest.approx(0, abs=0.06)
    with pytest.raises(ValueError, match="HonestOracle"):
        ExactOracle(CSQ(0.1), family, 7)
    # at 1/2 no secret shows, so no certificate could say who finds it
    for name in ("sq-parity", "sq-bump", "sq-token-parity", "sq-pair"):
        with pytest.raises(ValueError, match=r"noise is 0\.5.*below 0\.5"):
            FAMILIES[name].preset(dim=10, noise=0.5)
