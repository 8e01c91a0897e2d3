"""Public names of `upper` that no subject tries, and why."""

__all__ = ["EXCEPTIONS"]

EXCEPTIONS = {
    **{
        f"upper.six_phase.{name}": "a record of what a phase found"
        for name in (
            "AffineHull",
            "AgreementLaw",
            "AttentionSpan",
            "Certificates",
            "Contrasts",
            "Ellipsoid",
            "HullMargin",
            "LargeMargin",
            "NetSearch",
            "Phases",
            "Polytope",
            "ProjectionSum",
            "QueriedSpan",
            "QueryCount",
            "SelfConsistent",
            "SpectralGap",
        )
    },
    "upper.linear_attention.tasks.Configurations": "a record of runs",
    "upper.linear_attention.tasks.KEYS": "a constant",
    "upper.six_phase.ConvexBody": "a protocol",
    "upper.six_phase.QueryOracle": "a protocol",
    "upper.six_phase.PhaseFailedError": "an error",
    "upper.six_phase.StatisticalQuery": "a record that a family makes",
}
