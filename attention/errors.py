"""The errors of the toolkit: each is a ``ValueError`` whose message is a sentence a user can act on."""

__all__ = ["ExamplesExhaustedError", "FileFormatError", "MixedArraysError", "NotEnoughMemoryError"]


class ExamplesExhaustedError(ValueError):
    """More examples were asked for than a finite set of examples holds."""


class FileFormatError(ValueError):
    """A file is not what it should be: truncated, of another kind, of wrong shapes, or not finite."""


class MixedArraysError(ValueError):
    """Arrays of two libraries (say NumPy and torch) met in one call."""


class NotEnoughMemoryError(ValueError):
    """What was asked for does not fit into the memory there is; nothing was begun."""
