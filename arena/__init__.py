"""Learners and targets side by side: targets, students, comparisons, their record and their page."""

from arena.cells import run_cell
from arena.compare import compare
from arena.results import Cell, LearnerRecord, Results, TargetRecord, TracePoint
from arena.students import PRESETS, STUDENTS, Student, choose_students
from arena.targets import (
    Target,
    instance_target,
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
    "LearnerRecord",
    "Results",
    "Student",
    "Target",
    "TargetRecord",
    "TracePoint",
    "choose_students",
    "compare",
    "instance_target",
    "load_target",
    "lwr_target",
    "nice_target",
    "parity_target",
    "preset_targets",
    "run_cell",
    "save_target",
]
