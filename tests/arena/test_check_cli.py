"""``attention-bounds check``: claims checked, kept, and shown on a page."""

import json
from dataclasses import replace

import arena.cli.check as command
from paper_checks import find_claims


def test_it_prints_each_claim_with_its_figures_and_writes_the_page_where_it_is_told(cli, tmp_path):
    said = cli("check", "layer/row-form", "--inject", "--out", tmp_path / "claims").out
    for word in ("holds", "claim", "source", "measured", "expected", "1 of 1 fail on their injected errors"):
        assert word in said
    page = (tmp_path / "claims" / "index.rst").read_text()
    assert "Row a of F(X)" in page
    kept = json.loads((tmp_path / "claims" / "claims.json").read_text())
    assert [(one["id"], one["verdict"], one["injected"]) for one in kept["results"]] == [
        ("layer/row-form", "holds", "fails")
    ]


def test_it_writes_nothing_unless_told_where(cli, tmp_path, monkeypatch):
    """A quick run in the project's folder replaced its full results."""
    kept = tmp_path / "docs" / "claims" / "claims.json"
    kept.parent.mkdir(parents=True)
    kept.write_text("full results")
    monkeypatch.chdir(tmp_path)
    assert json.loads(cli("check", "layer/row-form", "--json").out)[0]["result"]["verdict"] == "holds"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [kept]
    assert kept.read_text() == "full results"


def test_a_claim_that_fails_is_status_one(cli, tmp_path, monkeypatch):
    (one,) = find_claims(["layer/row-form"])

    def wrong(scale, rng):
        """Row a of F(X) is its opposite."""
        return one.run(scale, rng, logit_sign=-1)

    monkeypatch.setattr(command, "find_claims", lambda names: (replace(one, run=wrong),))
    said = cli("check", "--out", tmp_path, status=1)
    assert "does not hold" in said.out
    assert "1 of 1 claims failed: layer/row-form" in said.err
