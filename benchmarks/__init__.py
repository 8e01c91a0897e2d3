"""Timed comparisons, never part of the tests: ``python -m benchmarks learners``."""

__all__: list[str] = []
