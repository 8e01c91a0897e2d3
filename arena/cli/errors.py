"""How a command ends that was right, and whose work did not end well."""

__all__ = ["WorkFailedError", "WorkInterruptedError"]


class WorkFailedError(Exception):
    """The command was right and its work failed: one line, exit status 1."""


class WorkInterruptedError(WorkFailedError):
    """The work was interrupted: one line that says how far it came, exit status 130."""
