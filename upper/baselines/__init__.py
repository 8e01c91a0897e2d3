"""Baselines: the learners that a user would choose otherwise, for comparison."""
