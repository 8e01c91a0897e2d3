"""Studies: questions the sources leave open, answered with numbers, a module each.

`find_studies` finds them by name, `run_study` measures the cells of one, and `write_study` writes its record, table and
figure. A question of one's own is a `Study`.
"""

from runs import Scale
from studies.folder import load_result, write_study
from studies.running import StudyResult, run_study
from studies.study import STUDIES, Parameters, Row, Study, find_studies

__all__ = [
    "STUDIES",
    "Parameters",
    "Row",
    "Scale",
    "Study",
    "StudyResult",
    "find_studies",
    "load_result",
    "run_study",
    "write_study",
]
