"""Sphinx configuration: API from docstrings, commands from the command line, tutorials run as they stand."""

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version as installed_version
from importlib.util import find_spec
from pathlib import Path

import typer
from sphinx.util import rst

sys.path.insert(0, str(Path(__file__).parent))  # for drawings.py

from arena.cli.main import app as command_line
from paper_checks import all_claims
from paper_checks.reports import write_pages

project = "attention-bounds"
author = "The attention-bounds authors"
version = release = installed_version("attention-bounds")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates", "tutorials"]
# formulas are typeset without a network where the extra copy of MathJax is installed
if find_spec("sphinx-mathjax-offline") is not None:
    extensions.append("sphinx-mathjax-offline")
html_theme = "pydata_sphinx_theme"
html_title = "attention-bounds"
html_theme_options = {"navbar_persistent": ["search-button"]}
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["wide.css", "pages.css"]
html_sidebars = {"api/*": [], "index": [], "commands": []}  # pages that are found by name


# names that have their page in the package that defines them
_ELSEWHERE = {
    "lwe": ("Cost", "estimate"),
    "paper_checks": ("Scale",),
    "studies": ("Scale",),
    "upper": ("SixPhase", "LinearAttentionLearner"),
}
_PACKAGES = re.findall(r"^   ([a-z_.]+)$", (Path(__file__).parent / "api.rst").read_text(), re.MULTILINE)


def _groups(package: str) -> list[tuple[str, list[str]]]:
    """The public names of a package by the file that defines them, under the idea of that file."""
    module = import_module(package)
    groups: dict[str, list[str]] = {}
    for name in set(module.__all__) - {*_ELSEWHERE.get(package, ())}:
        home = getattr(getattr(module, name), "__module__", None) or package
        home = home if home.partition(".")[0] == package.partition(".")[0] else package
        about = (import_module(home).__doc__ or "").partition("\n")[0].rstrip(".")
        groups.setdefault("Errors" if name.endswith("Error") else about, []).append(name)
    # what has most names first, and errors at the end
    order = sorted(groups, key=lambda about: (about == "Errors", -len(groups[about]), about))
    return [(about, sorted(groups[about])) for about in order]


templates_path = ["_templates"]
autosummary_context = {"groups": {package: _groups(package) for package in _PACKAGES}}
autosummary_imported_members = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
default_role = "code"

sphinx_gallery_conf = {
    "examples_dirs": "tutorials",
    "gallery_dirs": "gallery",
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("drawings.scrape_drawings",),
    "capture_repr": ("_repr_html_", "__repr__"),
    "ignore_repr_types": r"arena\.drawing\.Drawing",
    "reset_modules": (),
    "abort_on_example_error": True,
    "run_stale_examples": True,  # a page shows what the code of today prints
    "write_computation_times": False,
    "min_reported_time": 3600,
    "show_signature": False,
}


def _write_claims(app):
    # the pages of claims show the results beside them
    write_pages(Path(app.srcdir) / "claims", all_claims())


def _norms_are_not_substitutions(app, what, name, obj, options, lines):
    # docstrings write norms as |x|, which reStructuredText takes for a substitution
    for place, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[place] = line.replace("|", r"\|")


def _fill_in(app, name, source):
    # the page of commands is their help
    if name == "commands":
        source[0] += "\n".join(_describe("attention-bounds", typer.main.get_command(command_line)))


def _describe(name: str, command) -> Iterator[str]:
    """The help of a command, and of those below it, in reStructuredText."""
    if hasattr(command, "list_commands"):
        for one in command.list_commands(None):
            yield from _describe(f"{name} {one}", command.get_command(None, one))
        return
    context = command.make_context(name, [], resilient_parsing=True)
    yield from ["", name, "-" * len(name), ""]
    for paragraph in re.split(r"\n\s*\n", command.help or ""):
        said, example, call = paragraph.partition("attention-bounds ")
        yield from [rst.escape(" ".join(said.split())), ""]
        if example:
            yield from [".. code-block:: none", "", f"   {example}{' '.join(call.split())}", ""]
    for parameter in command.get_params(context):
        names, said = parameter.get_help_record(context) or ("", "")
        if names:
            yield from [f"``{names}``", f"   {rst.escape(' '.join(said.split())) or '.'}", ""]


def setup(app):
    """Connect the docstrings, the pages of claims, and the page of commands with their sources."""
    app.connect("builder-inited", _write_claims)
    app.connect("autodoc-process-docstring", _norms_are_not_substitutions)
    app.connect("source-read", _fill_in)
