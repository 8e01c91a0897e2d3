"""The learning problem: attention layers, where examples come from, what a learner is and what it returns."""

from attention.errors import ExamplesExhaustedError, FileFormatError, MixedArraysError
from attention.examples import ExampleOracle
from attention.inputs import (
    BooleanInputs,
    GaussianInputs,
    Inputs,
    PositionedInputs,
    SliceInputs,
    SphereInputs,
    inputs_from_json,
    inputs_to_json,
    sinusoidal_positions,
)
from attention.layer import AttentionLayer, attention_pattern
from attention.learning import (
    Fit,
    GroundTruth,
    Learner,
    Outcome,
    Recorder,
    Step,
    check_budget,
    draw_examples,
)
from attention.metrics import ParameterErrors, parameter_errors, relative_error, unknown_part_error
from attention.nice import make_nice_layer

__all__ = [
    "AttentionLayer",
    "BooleanInputs",
    "ExampleOracle",
    "ExamplesExhaustedError",
    "FileFormatError",
    "Fit",
    "GaussianInputs",
    "GroundTruth",
    "Inputs",
    "Learner",
    "MixedArraysError",
    "Outcome",
    "ParameterErrors",
    "PositionedInputs",
    "Recorder",
    "SliceInputs",
    "SphereInputs",
    "Step",
    "attention_pattern",
    "check_budget",
    "draw_examples",
    "inputs_from_json",
    "inputs_to_json",
    "make_nice_layer",
    "parameter_errors",
    "relative_error",
    "sinusoidal_positions",
    "unknown_part_error",
]
