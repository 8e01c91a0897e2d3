"""Learners of transformer blocks by value queries: the network, and the attention behind it."""

from upper.blocks.learner import BlockByQueries
from upper.blocks.network import FeedForwardByQueries

__all__ = ["BlockByQueries", "FeedForwardByQueries"]
