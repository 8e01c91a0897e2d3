"""Learners and targets side by side: targets, students, comparisons, their record and their page."""

from arena.cells import run_cell
from arena.clusters import cluster
from arena.compare import compare, versions
from arena.curve_figures import PaperFigure, draw_curves, draw_learner_side
from arena.curve_store import CurveStore
from arena.curves import run_curves
from arena.drawing import Drawing
from arena.execution import WorkersLostError
from arena.export import export_cells
from arena.inspection import Inspection, inspect
from arena.learned import Learned, UnusedSettingError, learn
from arena.learner_side import LearnerSide, learner_side
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
from arena.targets import (
    Target,
    checkpoint_target,
    family_target,
    instance_target,
    layer_target,
    load_target,
    lwr_target,
    nice_target,
    parity_target,
    preset_targets,
    save_target,
)

__all__ = [
    "PRESETS",
    "STUDENTS",
    "Cell",
    "CurveStore",
    "DoesNotApplyError",
    "Drawing",
    "Effort",
    "Inspection",
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
    "checkpoint_target",
    "choose_students",
    "cluster",
    "compare",
    "draw_curves",
    "draw_learner_side",
    "export_cells",
    "family_target",
    "inspect",
    "instance_target",
    "layer_target",
    "learn",
    "learn_phases",
    "learner_side",
    "load_target",
    "lwr_target",
    "nice_target",
    "parity_target",
    "preset_targets",
    "queried_phases",
    "run_cell",
    "run_curves",
    "save_target",
    "versions",
]
