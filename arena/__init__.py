"""Learners and targets side by side: targets, learners, comparisons, their record and their page.

Each name is imported when it is first asked for, so that the command line starts at once.
"""

from typing import TYPE_CHECKING

from attention.lazy import lazily

if TYPE_CHECKING:
    from arena.attacking import Attacked, attack
    from arena.attacks import ATTACKS, choose_attacks
    from arena.comparison import compare
    from arena.curves import LearnerSide, draw_curves, learner_side, run_curves
    from arena.generated_targets import family_target, lwr_target, parity_target, preset_targets
    from arena.inspection import Inspection, inspect
    from arena.learned import Learned
    from arena.learners import (
        LEARNERS,
        PRESETS,
        Budgets,
        DoesNotApplyError,
        LearnerEntry,
        as_learners,
        choose_learners,
    )
    from arena.learning import UnusedSettingError, learn
    from arena.lwr_reach import lwr_curve
    from arena.results import Results
    from arena.targets import (
        Target,
        checkpoint_target,
        instance_target,
        layer_target,
        load_target,
        nice_target,
        save_target,
    )
    from arena.views.phase_figures import draw_phases
    from arena.views.phases import save_phases

__getattr__ = lazily(__name__, __file__)

__all__ = [
    "ATTACKS",
    "LEARNERS",
    "PRESETS",
    "Attacked",
    "Budgets",
    "DoesNotApplyError",
    "Inspection",
    "Learned",
    "LearnerEntry",
    "LearnerSide",
    "Results",
    "Target",
    "UnusedSettingError",
    "as_learners",
    "attack",
    "checkpoint_target",
    "choose_attacks",
    "choose_learners",
    "compare",
    "draw_curves",
    "draw_phases",
    "family_target",
    "inspect",
    "instance_target",
    "layer_target",
    "learn",
    "learner_side",
    "load_target",
    "lwr_curve",
    "lwr_target",
    "nice_target",
    "parity_target",
    "preset_targets",
    "run_curves",
    "save_phases",
    "save_target",
]
