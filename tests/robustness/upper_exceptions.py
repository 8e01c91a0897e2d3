"""Public names of `upper` that no subject tries, and why."""

__all__ = ["EXCEPTIONS"]

EXCEPTIONS = {
    "upper.CrossMoment": "a record that cross_moment makes",
    "upper.Engine": "what choose_engine makes",
    "upper.Iterate": "a record that gauss_newton makes",
    "upper.LinearPredictor": "a record that LinearBaseline makes; its call is tried",
    "upper.linear_attention.POPULATIONS": "a constant",
    "upper.linear_attention.SOFTMAX_KINDS": "a constant",
    "upper.linear_attention.Certificate": "a record that certify makes",
    "upper.linear_attention.CubicRegression": "a record that regress makes",
    "upper.linear_attention.FeatureRegression": "a record that regress_features makes",
    "upper.linear_attention.GradientFit": "a record of what was learned",
    "upper.linear_attention.HeadsFound": "a record of what was found",
    "upper.linear_attention.LinearAttentionPredictor": "a record that the learner makes",
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
    "upper.linear_attention.tasks.TuringMachine": "tried by what simulates it",
    "upper.six_phase.PhaseFailedError": "an error",
}
