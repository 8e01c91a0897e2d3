"""Sphinx configuration: API reference from the docstrings, tutorials run as they stand, the rest from this folder."""

import sys
from importlib.metadata import version as installed_version
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for drawings.py

from studies import STUDIES, find_studies, load_result
from studies.folder import render_page

project = "attention-bounds"
author = "The attention-bounds authors"
version = release = installed_version("attention-bounds")

extensions = ["sphinx.ext.autodoc", "sphinx.ext.mathjax", "numpydoc", "sphinx_gallery.gen_gallery"]
exclude_patterns = ["_build", "tutorials"]
# formulas are typeset without a network where the extra copy of MathJax is installed
if find_spec("sphinx-mathjax-offline") is not None:
    extensions.append("sphinx-mathjax-offline")
html_theme = "pydata_sphinx_theme"
html_title = "attention-bounds"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["wide.css", "pages.css"]

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


def _norms_are_not_substitutions(app, what, name, obj, options, lines):
    # docstrings write norms as |x|, which reStructuredText takes for a substitution
    for place, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[place] = line.replace("|", r"\|")


def _fill_in_numbers(app, name, source):
    # pages of studies quote the numbers of the record beside them
    folder, _, study = name.partition("/")
    if folder == "studies" and study in STUDIES:
        record = Path(app.srcdir) / f"{name}.json"
        source[0] = render_page(source[0], *find_studies([study]), load_result(record))


def setup(app):
    """Connect the mending of docstrings, and the pages of studies with their records."""
    app.connect("autodoc-process-docstring", _norms_are_not_substitutions)
    app.connect("source-read", _fill_in_numbers)
