"""Layers with rotary positions by value queries: a learner of six steps, one file each, and no search."""

from upper.rotary.learner import Refusal, RotaryByQueries

__all__ = ["Refusal", "RotaryByQueries"]
