"""``attention-bounds study``: one command makes figure, table and page, and says in a sentence what is wrong."""

import json

import pytest

from arena.studies import STUDIES, agreement, all_studies, find_study
from paper_checks import Scale

WRONG = [
    ((), "No study is named"),
    (("nothing",), "'nothing' is no study"),
    (("agreement", "--scale", "huge"), "quick or full"),
    (("agreement", "--jobs", "0"), "--jobs"),
    (("agreement", "--jobs", "2", "--dask", "tcp://127.0.0.1:1"), "--jobs is for this machine"),
    (("agreement", "--timeout", "-1"), "--timeout"),
    (("agreement", "--seed", "-1"), "seed"),
]


@pytest.fixture
def small(monkeypatch):
    cells = [cell for cell in agreement.STUDY.cells(Scale.QUICK) if cell["dim"] == 16][:3]
    study = agreement.Study(**{**_fields(agreement.STUDY), "cells": lambda scale: cells})
    monkeypatch.setattr(agreement, "STUDY", study)
    return cells


def _fields(study):
    return {name: getattr(study, name) for name in type(study).__dataclass_fields__}


def test_the_list_has_every_study_and_its_question(cli):
    said = cli("study", "--list").out
    assert [line.split()[0] for line in said.splitlines() if not line.startswith(" ")] == list(STUDIES)
    assert all(find_study(name).question in " ".join(said.split()) for name in STUDIES)
    assert max(map(len, said.splitlines())) <= 100


def test_the_command_writes_figure_table_and_page(cli, tmp_path, small):
    out = tmp_path / "studies"
    said = cli("study", "agreement", "-o", out, "--jobs", 1).out
    for ending in ("svg", "pdf", "csv", "json", "rst"):
        assert (out / f"agreement.{ending}").stat().st_size > 100
        assert f"agreement.{ending}" in said
    assert "study-agreement" in (out / "index.rst").read_text()
    assert "Expected:" in said
    again = json.loads(cli("study", "agreement", "-o", out, "--json").out)
    assert len(again[0]["rows"]) == len(small)
    assert again[0]["rows"] == json.loads((out / "agreement.json").read_text())["rows"]


@pytest.mark.parametrize(("given", "said"), WRONG, ids=[" ".join(given) or "none" for given, _ in WRONG])
def test_wrong_input_is_one_sentence_before_any_work(cli, tmp_path, given, said):
    answer = cli("study", *given, "-o", tmp_path / "s", status=2)
    assert said in answer.err
    assert answer.err.count("\n") == 1
    assert not list(tmp_path.glob("s/*.sqlite"))


def test_every_study_is_found_under_its_name_and_says_what_it_must():
    for name, study in zip(STUDIES, all_studies(), strict=True):
        assert study.name == name
        for words in (study.question, study.expected, study.limits, study.how):
            assert words.endswith((".", "?"))
            assert "  " not in words
        for scale in Scale:
            cells = [json.dumps(cell, sort_keys=True) for cell in study.cells(scale)]
            assert len(set(cells)) == len(cells) > 0


def test_redrawing_measures_nothing_and_refuses_rows_of_other_code(cli, tmp_path, small, monkeypatch):
    out = tmp_path / "s"
    cli("study", "agreement", "--redraw", "-o", out, status=2)
    cli("study", "agreement", "-o", out, "--jobs", 1)
    before = (out / "agreement.rst").read_bytes()
    (out / "agreement.rst").unlink()
    monkeypatch.setattr("arena.cli.study.run_study", None)
    cli("study", "agreement", "--redraw", "-o", out)
    assert (out / "agreement.rst").read_bytes() == before
    record = (out / "agreement.json").read_text()
    (out / "agreement.json").write_text(record.replace('"fingerprint": "', '"fingerprint": "0'))
    assert "other code" in cli("study", "agreement", "--redraw", "-o", out, status=2).err
