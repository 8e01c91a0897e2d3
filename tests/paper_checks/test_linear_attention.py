"""Every figure the experiments on linear attention are held to: all checks hold, and can fail."""

import json
from dataclasses import replace

import pytest

from paper_checks.linear_attention import (
    EXPERIMENTS,
    Curve,
    HeldFigure,
    Table,
    experiment_from_json,
    run_experiment,
)


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("random", "ranks") else pytest.param(name, marks=pytest.mark.slow)
        for name in EXPERIMENTS
    ],
)
def test_every_check_of_the_experiment_holds(name):
    if name == "adam":
        pytest.importorskip("torch")
    told = []
    experiment = run_experiment(name, seed=3, quick=True, progress=told.append)
    assert [check for check in experiment.checks if not check.holds] == []
    assert experiment.checks
    assert experiment.tables
    assert told
    assert all(table.rows for table in experiment.tables)
    # JSON gives back the same, to the last bit
    text = json.dumps(experiment.to_json(), allow_nan=False)
    assert experiment_from_json(json.loads(text)).to_json() == experiment.to_json()
    assert not replace(experiment, checks=(HeldFigure("c", "1", "2", False),)).holds


def test_without_torch_adam_says_so(monkeypatch):
    from paper_checks.linear_attention import by_gradient as module

    monkeypatch.setattr(module, "find_spec", lambda name: None)
    experiment = run_experiment("adam", quick=True)
    assert "PyTorch is not installed" in experiment.findings[0]
    assert experiment.holds


@pytest.mark.bad_input
def test_wrong_records_are_sentences():
    with pytest.raises(ValueError, match="2 are needed"):
        Table("t", "T", ("a", "b"), ((1,),))
    with pytest.raises(ValueError, match="2 places and 1 values"):
        Curve("c", (1, 2), (1,))
    with pytest.raises(ValueError, match="There is no experiment"):
        run_experiment("nothing")
    with pytest.raises(ValueError, match="no experiment: one as it was written"):
        experiment_from_json({"name": "x"})
    with pytest.raises(ValueError, match="There is no table 'x'"):
        run_experiment("ranks", quick=True).table("x")
