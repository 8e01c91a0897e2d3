"""Layers with rotary positions by value queries: a learner of six steps, one file each, and no search."""

from upper.rotary.learner import RotaryByQueries
from upper.rotary.refusal import Refusal

__all__ = ["Refusal", "RotaryByQueries"]
