"""The claims, a module for each group; `paper_checks.registry` lists them."""
