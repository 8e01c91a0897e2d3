"""Attacks on learning with rounding and with errors, one per file; a failed attack is no claim of security."""
