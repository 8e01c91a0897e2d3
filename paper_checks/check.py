"""For claims that are still in tables: names from before."""

from types import SimpleNamespace
from typing import Any

from paper_checks.claim import Scale

__all__ = ["Constants", "Scale"]


class Constants(SimpleNamespace):
    """The numbers a claim states, as attributes and by name."""

    def __getitem__(self, name: str) -> Any:
        """The number of that name."""
        return getattr(self, name)
