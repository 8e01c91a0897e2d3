"""Every public name of `attention` is tried in one of the files beside this one, or there is a reason not to."""

import test_attention_files
import test_attention_inputs
import test_attention_layers
import test_attention_learning
from fuzzing import missing_subjects

import attention

SUBJECTS = [
    *test_attention_files.SUBJECTS,
    *test_attention_inputs.SUBJECTS,
    *test_attention_layers.SUBJECTS,
    *test_attention_learning.SUBJECTS,
]
EXCEPTIONS = {
    "attention.ExamplesExhaustedError": "an error",
    "attention.FileFormatError": "an error",
    "attention.Fit": "a record of what was learned",
    "attention.Inputs": "a protocol",
    "attention.Learner": "a protocol",
    "attention.MixedArraysError": "an error",
    "attention.NotEnoughMemoryError": "an error",
    "attention.Outcome": "an enumeration",
    "attention.Step": "a record of what was measured",
    "attention.read_checkpoint_layer": "its files are tried in tests/attention/test_checkpoints.py",
}


def test_every_public_name_is_tried_or_excepted():
    assert missing_subjects({"attention": attention}, SUBJECTS, EXCEPTIONS) == ([], [])
