"""Learners and targets side by side: targets, students, comparisons, their record and their page."""

from arena.attacking import Attacked, attack, attack_samples, samples_of
from arena.attacks import ATTACKS, AttackKind, choose_attacks
from arena.calls import WorkersLostError
from arena.cells import run_cell
from arena.clusters import cluster
from arena.compare import compare
from arena.curve_figures import draw_curves, draw_learner_side
from arena.curve_store import CurveStore
from arena.curves import run_curves
from arena.drawing import Drawing
from arena.export import export_cells
from arena.inspection import Inspection, inspect
from arena.learned import Learned, UnusedSettingError, learn
from arena.learner_side import LearnerSide, learner_side
from arena.lwr_figure import draw_lwr_curve, lwr_curve_text
from arena.lwr_reach import LWRCell, LWRPoint, largest_broken, lwr_curve
from arena.made_targets import family_target, lwr_target, nice_target, parity_target, preset_targets
from arena.made_with import versions
from arena.paper_figure import PaperFigure
from arena.phases import LearnedPhases, learn_phases
from arena.queried_phases import PoolOracle, QueriedPhases, queried_phases
from arena.results import Cell, LearnerRecord, Results, TargetRecord, TracePoint
from arena.store import RunStore, StoredCell, StoreError
from arena.students import (
    PRESETS,
    STUDENTS,
    DoesNotApplyError,
    Effort,
    Student,
    as_students,
    choose_students,
)
from arena.targets import Target, checkpoint_target, instance_target, layer_target, load_target, save_target

__all__ = [
    "ATTACKS",
    "PRESETS",
    "STUDENTS",
    "AttackKind",
    "Attacked",
    "Cell",
    "CurveStore",
    "DoesNotApplyError",
    "Drawing",
    "Effort",
    "Inspection",
    "LWRCell",
    "LWRPoint",
    "Learned",
    "LearnedPhases",
    "LearnerRecord",
    "LearnerSide",
    "PaperFigure",
    "PoolOracle",
    "QueriedPhases",
    "Results",
    "RunStore",
    "StoreError",
    "StoredCell",
    "Student",
    "Target",
    "TargetRecord",
    "TracePoint",
    "UnusedSettingError",
    "WorkersLostError",
    "as_students",
    "attack",
    "attack_samples",
    "checkpoint_target",
    "choose_attacks",
    "choose_students",
    "cluster",
    "compare",
    "draw_curves",
    "draw_learner_side",
    "draw_lwr_curve",
    "export_cells",
    "family_target",
    "inspect",
    "instance_target",
    "largest_broken",
    "layer_target",
    "learn",
    "learn_phases",
    "learner_side",
    "load_target",
    "lwr_curve",
    "lwr_curve_text",
    "lwr_target",
    "nice_target",
    "parity_target",
    "preset_targets",
    "queried_phases",
    "run_cell",
    "run_curves",
    "samples_of",
    "save_target",
    "versions",
]
