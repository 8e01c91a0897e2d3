"""Studies: questions that the sources leave open, answered with numbers; one module per study.

`find_studies` finds studies by name, `run_study` measures the cells of one, and `write_study` writes its record
and figure. A user's own question is also a `Study`.
"""

from runs import Scale
from studies.folder import load_result, write_study
from studies.study import STUDIES, Parameters, Row, Study, StudyResult, find_studies, run_study

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
