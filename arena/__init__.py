"""Learners and targets side by side: targets, learners, comparisons, their record and their page.

Each name is imported when it is first asked for, so that the command line starts at once.
"""

from typing import TYPE_CHECKING

from attention.lazy import lazily

if TYPE_CHECKING:
    from arena.attacking import ATTACKS, attack
    from arena.comparison import compare
    from arena.inspection import inspect
    from arena.learned import Learned
    from arena.learner_table import LEARNERS, PRESETS, LearnerEntry
    from arena.learning import learn
    from arena.recovery import recover
    from arena.results import Results
    from arena.target import Target
    from arena.targets import (
        block_target,
        checkpoint_target,
        family_target,
        layer_target,
        load_target,
        lwr_target,
        nice_target,
        parity_target,
        preset_targets,
        save_target,
    )

__getattr__ = lazily(__name__, __file__)

__all__ = [
    "ATTACKS",
    "LEARNERS",
    "PRESETS",
    "Learned",
    "LearnerEntry",
    "Results",
    "Target",
    "attack",
    "block_target",
    "checkpoint_target",
    "compare",
    "family_target",
    "inspect",
    "layer_target",
    "learn",
    "load_target",
    "lwr_target",
    "nice_target",
    "parity_target",
    "preset_targets",
    "recover",
    "save_target",
]
