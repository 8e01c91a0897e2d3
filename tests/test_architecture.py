"""ARCHITECTURE.md says what the code does: its arrows, its modules, and the contracts they are held to."""

import ast
import importlib.util
import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("grimp", reason="needs the extra dev")

ROOT = Path(__file__).parent.parent
_spec = importlib.util.spec_from_file_location("architecture", ROOT / "docs" / "architecture.py")
architecture = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(architecture)
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
    "contracts"
]


@pytest.fixture(scope="module")
def text():
    return (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def arrows():
    """Read by the syntax of the files alone."""
    found = set()
    for package in architecture.PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                found |= {(package, name.partition(".")[0]) for name in names}
    return {(a, b) for a, b in found if b in architecture.PACKAGES and a != b}


def test_it_is_what_the_code_says(capsys):
    assert architecture.main(["--check"]) == 0, capsys.readouterr().err


def test_arrows_of_the_diagram_are_the_imports_of_the_files(text, arrows):
    first = text.partition("```mermaid")[2].partition("```")[0]
    assert set(re.findall(r"^    (\w+) --> (\w+)$", first, re.MULTILINE)) == arrows


def test_arrows_of_the_picture_imply_all_others_and_none_is_implied(arrows):
    drawn = architecture._without_implied(sorted(arrows))

    def reached(among, start):
        steps = {b for a, b in among if a == start}
        return steps.union(*(reached(among, step) for step in steps))

    for package in architecture.PACKAGES:
        assert reached(drawn, package) == reached(arrows, package)
    for a, b in drawn:
        assert b not in reached([one for one in drawn if one != (a, b)], a)


def test_the_picture_is_well_formed_and_names_every_package(text):
    picture = ElementTree.parse(ROOT / "docs" / "architecture.svg").getroot()
    names = {
        one.text for one in picture.iter("{http://www.w3.org/2000/svg}text") if one.get("class") == "name"
    }
    assert names == set(architecture.PACKAGES)
    assert "](docs/architecture.svg)" in text


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda one: one["type"])
def test_contracts_are_said_in_words(text, contract):
    assert f"**{contract['name']}.**" in text
    named = [
        one for key in ("modules", "source_modules", "forbidden_modules") for one in contract.get(key, [])
    ]
    named += [one.strip() for layer in contract.get("layers", []) for one in layer.split(":")]
    said = architecture.say_contract(contract)
    assert said in text
    assert named
    assert all(f"`{one}`" in said for one in named)


def test_a_contract_without_words_is_an_error():
    with pytest.raises(ValueError, match="no words for contracts of type 'acyclic_siblings'"):
        architecture.say_contract({"type": "acyclic_siblings"})


def test_a_file_that_differs_is_named_with_what_differs(tmp_path, capsys):
    assert architecture.main(["--out", str(tmp_path)]) == 0
    assert architecture.main(["--check", "--out", str(tmp_path)]) == 0
    page = tmp_path / "ARCHITECTURE.md"
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace("    sq --> lower\n", "    upper --> lower\n"), encoding="utf-8")
    assert architecture.main(["--check", "--out", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert "ARCHITECTURE.md is not what the code says" in told
    assert "-    upper --> lower" in told
    assert "+    sq --> lower" in told
    (tmp_path / "docs" / "architecture.svg").unlink()
    assert architecture.main(["--check", "--out", str(tmp_path)]) == 1
    assert "docs/architecture.svg is not" in capsys.readouterr().err
