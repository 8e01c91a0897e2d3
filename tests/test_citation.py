"""CITATION.cff is of the format 1.2.0, and agrees with pyproject.toml."""

import tomllib
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="needs PyYAML, which comes with the extra dev")

ROOT = Path(__file__).parent.parent
# the keys we use, of those that the format knows; a misspelt one is not among them
SOFTWARE = {
    "cff-version",
    "message",
    "type",
    "title",
    "abstract",
    "version",
    "license",
    "authors",
    "keywords",
    "references",
}
REFERENCE = {"type", "title", "authors", "year", "notes", "url", "identifiers"}


@pytest.fixture(scope="module")
def cited():
    return yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def test_what_the_format_asks_for_is_there(cited):
    assert {"cff-version", "message", "title", "authors"} <= set(cited) <= SOFTWARE
    assert cited["cff-version"] == "1.2.0"
    assert cited["type"] == "software"
    assert cited["authors"] == [{"name": "The attention-bounds authors"}]
    assert all(isinstance(word, str) for word in cited["keywords"])


def test_references_are_the_papers_by_their_arxiv_numbers(cited):
    for paper in cited["references"]:
        assert {"type", "title", "authors"} <= set(paper) <= REFERENCE
        assert all(
            set(author) <= {"family-names", "given-names", "name"} and author for author in paper["authors"]
        )
        [identifier] = paper["identifiers"]
        assert set(identifier) <= {"type", "value", "description"}
        number = identifier["value"].removeprefix("arXiv:")
        assert identifier["type"] == "other"  # no DOI is made up
        assert paper["url"] == f"https://arxiv.org/abs/{number}"
        assert paper["year"] == 2000 + int(number[:2])
    named = [paper["identifiers"][0]["value"] for paper in cited["references"]]
    assert named == ["arXiv:2402.04084", "arXiv:2410.10101", "arXiv:2601.16873"]


def test_it_agrees_with_the_package(cited):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert cited["title"] == project["name"]
    assert str(cited["version"]) == project["version"]
    assert cited["license"] == project["license"]
    assert cited["keywords"] == project["keywords"]
    assert cited["abstract"].startswith(project["description"])
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")
