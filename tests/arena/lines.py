"""Lines on standard error, for tests of commands in processes of their own."""

import re


def without_progress(text):
    """The text without how far a run is, which a command says only where it takes seconds, as on a slow machine."""
    return re.sub(r"^\d+ of \d+\b.*\n", "", text, flags=re.M)
