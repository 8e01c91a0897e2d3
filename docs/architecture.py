"""Draw the import graph: ``python docs/architecture.py`` writes ARCHITECTURE.md and its picture, ``--check`` compares.

Packages, arrows and modules are read from the code, the contracts from pyproject.toml; the text around them is in
architecture.md.j2, that of the page of the documentation in architecture.rst.j2. Nothing here changes with the length
of a module, so that a commit within one changes nothing.
"""

import argparse
import ast
import difflib
import html
import sys
import textwrap
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import grimp
import jinja2

__all__ = ["PACKAGES", "ROOT", "Graph", "Node", "main", "read_graph", "render", "say_contract"]

ROOT = Path(__file__).parent.parent
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
_LINTER = _PROJECT["tool"]["importlinter"]
PACKAGES: tuple[str, ...] = tuple(_LINTER["root_packages"])
"""The packages of the project, those that know least first."""

# of the picture, in pixels: a box's width, what is left beside and below it, a line's height; and a line's letters
_BOX, _BESIDE, _BELOW, _LINE, _WRAP = 260, 20, 52, 15, 36


@dataclass(frozen=True)
class Node:
    """A package, a part of one, or a module.

    Attributes
    ----------
    name : str
        Its dotted name.
    said : str
        The first line of its docstring.
    imports : tuple of str
        The other packages, or parts of the same package, that it imports.
    size : int
        How many modules it has.
    """

    name: str
    said: str
    imports: tuple[str, ...] = ()
    size: int = 1


@dataclass(frozen=True)
class Graph:
    """The packages, the parts of those that have parts, and the arrows between them.

    Attributes
    ----------
    packages, parts : tuple of Node
        In the order of `PACKAGES`.
    """

    packages: tuple[Node, ...]
    parts: tuple[Node, ...]

    @property
    def arrows(self) -> list[tuple[str, str]]:
        """Importer and imported package."""
        return [(one.name, imported) for one in self.packages for imported in one.imports]

    @property
    def inner_arrows(self) -> list[tuple[str, str, bool]]:
        """Importer and imported part of one package, once for two that import each other, and whether they do."""
        arrows = {(one.name, imported) for one in self.parts for imported in one.imports}
        return [(a, b, (b, a) in arrows) for a, b in sorted(arrows) if (b, a) not in arrows or a < b]


def read_graph() -> Graph:
    """Read the graph from the code."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))  # this project's packages, not installed ones
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    holders = {name for name in graph.modules if graph.find_children(name)}
    members: dict[str, set[str]] = {}
    for module in graph.modules:
        members.setdefault(module if module in holders else module.rpartition(".")[0], set()).add(module)

    def part_imports(part: str) -> tuple[str, ...]:
        found = {one for module in members[part] for one in graph.find_modules_directly_imported_by(module)}
        others = (name for name in sorted(members) if name != part and _package(name) == _package(part))
        return tuple(name for name in others if members[name] & found)

    packages, parts = [], []
    for package in PACKAGES:
        modules = sorted(name for name in graph.modules if _package(name) == package)
        imports = tuple(
            other
            for other in PACKAGES
            if other != package
            and graph.direct_import_exists(importer=package, imported=other, as_packages=True)
        )
        packages.append(Node(package, _said(package), imports, len(modules)))
        within = sorted(name for name in members if _package(name) == package)
        if len(within) > 1:
            parts += [Node(name, _said(name), part_imports(name), size=len(members[name])) for name in within]
    return Graph(tuple(packages), tuple(parts))


def render(graph: Graph) -> dict[str, str]:
    """ARCHITECTURE.md, its page of the documentation and the picture, by their paths."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown
    )
    environment.filters["code"] = lambda names: ", ".join(f"`{name}`" for name in names) or "none"
    environment.filters["node"] = lambda name: name.replace(".", "_")
    packages = [one.name for one in graph.packages]
    drawn = _without_implied(graph.arrows)
    clusters = {
        package: [one.name for one in graph.parts if _package(one.name) == package] for package in packages
    }
    above = [package for package in packages if any(a == package for a, _ in drawn)]
    said = [f"{package} imports {_and([b for a, b in drawn if a == package])}" for package in above]
    facts = {
        "alt": f"Import arrows: {'; '.join(said)}",
        "packages": graph.packages,
        "parts": graph.parts,
        "arrows": graph.arrows,
        "clusters": [(package, names) for package, names in clusters.items() if names],
        "inner": graph.inner_arrows,
        "contracts": [{"name": one["name"], "said": say_contract(one)} for one in _LINTER["contracts"]],
    }
    texts = {
        "ARCHITECTURE.md": environment.get_template("architecture.md.j2").render(facts),
        "docs/architecture.rst": environment.get_template("architecture.rst.j2").render(facts),
        "docs/architecture.svg": _picture(graph.packages, drawn),
    }
    return {name: text.rstrip() + "\n" for name, text in texts.items()}


def say_contract(contract: Mapping[str, Any]) -> str:
    """A contract of import-linter as a sentence.

    Raises
    ------
    ValueError
        If it is of a type for which there are no words here yet.
    """
    if contract["type"] == "layers":
        layers = [[one.strip() for one in layer.split(":")] for layer in contract["layers"]]
        shown = [_and([f"`{one}`" for one in layer]) for layer in layers]
        return (
            f"From the top: {', then '.join(shown)}. A package may import those that come after it, never one "
            "before it; those named together may import one another as far as the other contracts allow."
        )
    if contract["type"] == "independence":
        return f"None of {_and([f'`{one}`' for one in contract['modules']])} imports another of them."
    if contract["type"] == "forbidden":
        source, forbidden = (
            [f"`{one}`" for one in contract[f"{side}_modules"]] for side in ("source", "forbidden")
        )
        verb = "imports" if len(source) == 1 else "import"
        return f"{_and(source)} never {verb} {_and(forbidden, 'or')}."
    raise ValueError(
        f"There are no words for contracts of type {contract['type']!r}: add some to say_contract."
    )


def main(arguments: list[str] | None = None) -> int:
    """Write or compare; the exit status is 1 when a file is not what the code says."""
    parser = argparse.ArgumentParser(description="Write ARCHITECTURE.md and its picture from the code.")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("--out", type=Path, default=ROOT, help="the folder of ARCHITECTURE.md and docs")
    given = parser.parse_args(arguments)
    status = 0
    for name, text in render(read_graph()).items():
        path = given.out / name
        before = path.read_text(encoding="utf-8") if path.is_file() else ""
        if not given.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif before != text:
            status = 1
            changed = [
                line
                for line in difflib.unified_diff(before.splitlines(), text.splitlines(), lineterm="", n=0)
                if line[:1] in "+-" and line[:3] not in ("+++", "---")
            ]
            print(
                f"{name} is not what the code says; python docs/architecture.py writes it:", file=sys.stderr
            )
            print("\n".join(changed[:10]), file=sys.stderr)
    return status


def _package(name: str) -> str:
    return name.partition(".")[0]


@cache
def _said(name: str) -> str:
    """The first line of a module's docstring."""
    base = ROOT.joinpath(*name.split("."))
    path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "(no docstring)"
    return said.partition("\n")[0].strip().replace("``", "`")


def _without_implied(arrows: Collection[tuple[str, str]]) -> list[tuple[str, str]]:
    """The arrows that no path of others implies; there are no circles, as the contracts see to."""

    def reaches(start: str, end: str, *, directly: bool) -> bool:
        steps = [b for a, b in arrows if a == start]
        return (directly and end in steps) or any(
            reaches(step, end, directly=True) for step in steps if step != end
        )

    return [(a, b) for a, b in arrows if not reaches(a, b, directly=False)]


def _picture(packages: Sequence[Node], arrows: Sequence[tuple[str, str]]) -> str:
    """The packages in rows, each below all that import it."""
    depth: dict[str, int] = {}
    for one in reversed(packages):  # those that know most first
        depth[one.name] = max((depth[a] + 1 for a, b in arrows if b == one.name), default=0)
    rows = [[one for one in packages if depth[one.name] == row] for row in range(max(depth.values()) + 1)]
    texts = {one.name: textwrap.wrap(one.said.replace("`", ""), _WRAP) for one in packages}
    width = max(len(row) for row in rows) * (_BOX + _BESIDE) + _BESIDE
    boxes: dict[str, tuple[float, float, float]] = {}
    top = float(_BESIDE)
    for row in rows:
        height = 38 + _LINE * max(len(texts[one.name]) for one in row)
        for place, one in enumerate(row):
            boxes[one.name] = (width * (place + 0.5) / len(row) - _BOX / 2, top, height)
        top += height + _BELOW
    height = top - _BELOW + _BESIDE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:g}" width="{width}" '
        f'height="{height:g}" role="img" aria-labelledby="title">',
        '<title id="title">The packages and what they import</title>',
        "<style>",
        "text { font-family: system-ui, 'DejaVu Sans', Arial, sans-serif; fill: #1f2430 }",
        ".name { font-weight: 600; font-size: 15px } .said { font-size: 12px; fill: #4a5060 }",
        "rect { fill: #f5f6f9; stroke: #7b8494 } .arrow { stroke: #7b8494; fill: none; stroke-width: 1.5 }",
        "marker path { fill: #7b8494 }",
        "@media (prefers-color-scheme: dark) { text { fill: #e8eaf0 } .said { fill: #b6bccb }",
        "rect { fill: #252a35; stroke: #8b94a7 } .arrow { stroke: #8b94a7 } marker path { fill: #8b94a7 } }",
        "</style>",
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
        'orient="auto"><path d="M0 0 L10 5 L0 10 z"/></marker></defs>',
    ]
    for importer, imported in arrows:
        (x, y, tall), (to_x, to_y, _) = boxes[importer], boxes[imported]
        # leave and arrive a little towards each other, so that arrows from one box part; past other rows straight down
        far = depth[imported] - depth[importer] > 1
        lean = max(-0.3, min(0.3, (to_x - x) / width)) * _BOX
        start, end = x + _BOX / 2 + (0 if far else lean), to_x + _BOX / 2 - lean
        down = f" V{to_y - _BELOW:.0f}" if far else ""
        lines.append(
            f'<path class="arrow" marker-end="url(#head)" d="M{start:.0f} {y + tall:.0f}{down} L{end:.0f} {to_y:.0f}"/>'
        )
    for one in packages:
        x, y, tall = boxes[one.name]
        lines.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="{_BOX}" height="{tall:.0f}" rx="7"/>')
        lines.append(f'<text class="name" x="{x + 12:.0f}" y="{y + 22:.0f}">{html.escape(one.name)}</text>')
        lines += [
            f'<text class="said" x="{x + 12:.0f}" y="{y + 24 + _LINE * (row + 1):.0f}">{html.escape(line)}</text>'
            for row, line in enumerate(texts[one.name])
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _and(names: Sequence[str], word: str = "and") -> str:
    return f" {word} ".join([part for part in (", ".join(names[:-1]), names[-1]) if part])


if __name__ == "__main__":
    sys.exit(main())
