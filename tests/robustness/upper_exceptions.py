"""Public names of `upper` that no subject tries, and why."""

__all__ = ["EXCEPTIONS"]

EXCEPTIONS = {
    **{
        f"upper.six_phase.{name}": "a record of what a phase found"
        for name in (
            "AffineHull",
            "AttentionSpan",
            "Contrasts",
            "HullMargin",
            "NetSearch",
            "Phases",
            "ProjectionSum",
        )
    },
    "upper.linear_attention.tasks.Configurations": "a record of runs",
    "upper.linear_attention.tasks.KEYS": "a constant",
    "upper.six_phase.PhaseFailedError": "an error",
}
