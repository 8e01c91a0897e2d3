"""The engine of the robustness tests: hostile calls, each answered rightly or refused in a sentence.

A `Subject` is a public function or constructor with, for each argument, what is sane and what is hostile. A case
draws all arguments sane, one hostile, or two, makes the call in a fence (a limit of CPU time and of memory, warnings
as errors), and says what it was:

* an **answer**: it came back, what `right` asserts of it holds, arguments were left as they were, and arrays dressed
  differently (by columns, strided, read-only, of other byte order) gave what plain copies of them give;
* a **refusal**: a ValueError whose message is a sentence that names what was given and says what is allowed;
* a **violation**: anything else, a refusal of sane arguments among them.

Violations are collected, one of each kind, and fail the test at its end with the call written out.
"""

from fuzzing.arguments import Argument, Given, Sizes, anything, array, choice, fixed, made, real, seed, whole
from fuzzing.comparing import assert_finite, same
from fuzzing.running import run
from fuzzing.subjects import Subject, missing_subjects

__all__ = [
    "Argument",
    "Given",
    "Sizes",
    "Subject",
    "anything",
    "array",
    "assert_finite",
    "choice",
    "fixed",
    "made",
    "missing_subjects",
    "real",
    "run",
    "same",
    "seed",
    "whole",
]
