"""Timed comparisons, never part of the tests: ``python -m benchmarks learners``."""
