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
