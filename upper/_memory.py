"""Parts and other shapes of memory from `Engine.empty`, which is None where a library cannot write into it."""

from typing import Any

__all__ = ["part_of", "shaped"]


def shaped(xp: Any, memory: Any, shape: tuple[int, ...]) -> Any:
    """The memory in another shape."""
    return None if memory is None else xp.reshape(memory, shape)


def part_of(memory: Any, i: int) -> Any:
    """The i-th part along the first axis."""
    return None if memory is None else memory[i, ...]
