"""Studies: questions the sources leave open, answered with numbers, a module each.

Parts
-----
`Study` says what one is, `run_study` measures its cells, `write_study` and `write_index` make its pages.
"""

from arena.studies.folder import load_result, write_index, write_study
from arena.studies.registry import STUDIES, all_studies, find_study
from arena.studies.running import StudyResult, run_study
from arena.studies.study import Parameters, Row, Study, Table
from arena.studies.words import study_text

__all__ = [
    "STUDIES",
    "Parameters",
    "Row",
    "Study",
    "StudyResult",
    "Table",
    "all_studies",
    "find_study",
    "load_result",
    "run_study",
    "study_text",
    "write_index",
    "write_study",
]
