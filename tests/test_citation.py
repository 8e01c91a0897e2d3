"""CITATION.cff agrees with pyproject.toml, and names the papers by their arXiv numbers."""

import tomllib
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="needs PyYAML, which comes with the extra dev")

ROOT = Path(__file__).parent.parent


def test_it_agrees_with_the_package_and_names_the_papers():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert cited["cff-version"] == "1.2.0"
    assert (cited["title"], str(cited["version"])) == (project["name"], project["version"])
    assert (cited["license"], cited["keywords"]) == (project["license"], project["keywords"])
    assert cited["abstract"].startswith(project["description"])
    numbers = []
    for paper in cited["references"]:
        [identifier] = paper["identifiers"]
        numbers.append(identifier["value"].removeprefix("arXiv:"))
        assert paper["url"] == f"https://arxiv.org/abs/{numbers[-1]}"
        assert paper["year"] == 2000 + int(numbers[-1][:2])
    assert numbers == ["2402.04084", "2410.10101", "2601.16873"]
