"""Sphinx configuration: API reference from the docstrings, everything else from the files of this folder."""

from importlib.metadata import version as installed_version

project = "attention-bounds"
author = "The attention-bounds authors"
version = release = installed_version("attention-bounds")

extensions = ["sphinx.ext.autodoc", "sphinx.ext.mathjax", "numpydoc"]
exclude_patterns = ["_build"]
html_theme = "pydata_sphinx_theme"
html_title = "attention-bounds"
html_show_sourcelink = False

autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
default_role = "code"


def _norms_are_not_substitutions(app, what, name, obj, options, lines):
    # docstrings write norms as |x|, which reStructuredText takes for a substitution
    for place, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[place] = line.replace("|", r"\|")


def setup(app):
    """Connect the mending of docstrings."""
    app.connect("autodoc-process-docstring", _norms_are_not_substitutions)
