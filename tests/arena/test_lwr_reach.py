"""``curves lwr``: sizes in turn until two are not broken, kept as they are done, told and drawn."""

import re
from collections import defaultdict
from xml.etree import ElementTree

import pytest

import arena.lwr_reach
from arena import lwr_curve
from arena.lwr_reach import draw_lwr_curve, lwr_table
from lwe import AttackOutcome, AttackResult
from runs import Store

REACH = {"linearisation": 16, "exhaustive": 0, "bkw": 8, "newton": 64}


class Calls(list):
    """A list whose content changes no key of a cell, although a function of the cell appends to it."""

    def __reduce__(self):
        return Calls, ()


@pytest.fixture
def pretended(monkeypatch):
    """Attacks that break up to a size of their own, without running them; the calls made."""
    calls = Calls()

    def attacked(attack, secret_dim, levels, **others):
        calls.append((attack, secret_dim, levels))
        broken = secret_dim <= REACH[attack] // (2 if levels > 2 else 1)
        outcome = AttackOutcome.BROKEN if broken else AttackOutcome.NOTHING
        share = 1.0 if broken else 0.5
        return AttackResult(attack, outcome, "Pretended.", accuracy=share, seconds=0.25).to_json()

    monkeypatch.setattr(arena.lwr_reach, "_attacked", attacked)
    return calls


def curve(**options):
    return lwr_curve(list(REACH), [4, 8, 16, 32, 64], 16, [2, 4], samples=50, isolated=False, **options)


def test_sizes_are_tried_in_turn_until_two_are_not_broken(pretended):
    found = curve()
    assert sorted(pretended) == sorted((row["attack"], row["secret_dim"], row["levels"]) for row in found)
    tried, largest = defaultdict(list), {}
    for row in found:
        tried[row["attack"], row["levels"]].append(row["secret_dim"])
        if row["broken"]:
            largest[row["attack"], row["levels"]] = row["secret_dim"]
    assert tried["linearisation", 2] == [4, 8, 16, 32, 64]
    assert tried["linearisation", 4] == [4, 8, 16, 32]
    assert tried["exhaustive", 2] == [4, 8]
    assert tried["bkw", 2] == [4, 8, 16, 32]
    assert largest == {
        **{("linearisation", 2): 16, ("linearisation", 4): 8, ("bkw", 2): 8, ("bkw", 4): 4},
        **{("newton", 2): 64, ("newton", 4): 32},
    }


def test_an_interrupted_run_goes_on_with_what_is_kept(pretended, tmp_path):
    seen = []

    def interrupt(row):
        seen.append(row)
        if len(seen) == 7:
            raise KeyboardInterrupt

    store = Store(tmp_path / "lwr.sqlite")
    with pytest.raises(KeyboardInterrupt):
        curve(store=store, on_point=interrupt)
    pretended.clear()
    found = curve(store=store)
    assert len(pretended) == len(found) - 7
    assert curve(store=store) == found
    assert curve(store=store, fresh=True) == found
    assert len(pretended) == 2 * len(found) - 7


def test_most_labels_count_as_broken_and_a_frequent_label_does_not(monkeypatch):
    ends = {4: ("PREDICTS", 0.96), 5: ("PREDICTS", 0.94), 6: ("BROKEN", 1.0), 7: ("NOTHING", 0.97)}

    def attacked(attack, secret_dim, **others):
        outcome, accuracy = ends[secret_dim]
        return AttackResult(attack, AttackOutcome[outcome], "Pretended.", accuracy).to_json()

    monkeypatch.setattr(arena.lwr_reach, "_attacked", attacked)
    found = lwr_curve(["adam"], list(ends), 16, [2], isolated=False)
    assert [row["broken"] for row in found] == [True, False, True, False]


def test_the_table_and_the_figure_say_how_far_each_reaches(pretended):
    found = curve()
    said = lwr_table(found)
    assert re.search(r"Linearisation +16 +8", said)
    assert re.search(r"Exhaustive +- +-", said)
    assert re.search(r"Newton +64\+ +32", said)
    assert "no claim of security" in said
    figure = draw_lwr_curve(found)
    ElementTree.fromstring(figure.svg)
    labels = set(re.findall(r"<text[^>]*>([^<]*)</text>", figure.svg))
    assert {"Linearisation", "BKW", "Newton", "q / p", "No size broken by Exhaustive."} <= labels
    assert "Exhaustive" not in labels
    newton = [row for row in found if row["attack"] == "newton"]
    interrupted = [row for row in newton if row["levels"] == 2 or row["secret_dim"] < 16]
    assert re.search(r"Newton +64\+ +8\?", lwr_table(interrupted))


@pytest.mark.slow
def test_attacks_break_what_they_should(tmp_path, cli):
    given = ["--q", 4, "--p", 2, "--n", "6,10", "--samples", 800]
    given += ["--attacks", "linearisation,elimination"]
    said = cli("curves", "lwr", *given, "--jobs", 1, "-o", tmp_path).out
    assert re.search(r"Linearisation +10\+", said)
    assert re.search(r"Elimination +-", said)
    outcomes = [row.split(",") for row in (tmp_path / "lwr.csv").read_text(encoding="utf-8").splitlines()[1:]]
    assert ["BROKEN" in row for row in outcomes] == [True, True, False, False]
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".json", ".pdf", ".sqlite", ".svg"}
