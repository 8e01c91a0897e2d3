"""Errors for commands that are correct but whose work failed or was interrupted."""


class WorkFailedError(Exception):
    """The command is correct but its work failed: one line, exit status 1."""


class WorkInterruptedError(WorkFailedError):
    """The work was interrupted: one line that says how far it got, exit status 130."""
