"""The learning problem: attention layers, oracles for examples and values, and the protocol of learners."""

from typing import TYPE_CHECKING

from attention.lazy import lazily

if TYPE_CHECKING:
    from attention.activations import attention_layer_examples
    from attention.block import (
        Block,
        block_errors,
        make_nice_block,
        make_nice_network,
        network_errors,
    )
    from attention.checkpoints import read_checkpoint_layer
    from attention.conditions import check_conditions
    from attention.conversion import convert_torch_module
    from attention.errors import parameter_errors, relative_error, unknown_part_error
    from attention.examples import ExampleOracle
    from attention.feed_forward import FeedForward
    from attention.files import load_layer, save_layer
    from attention.fits import Fit, GroundTruth, Step
    from attention.foreign import FileFormatError
    from attention.generators import (
        make_affinely_dependent_layer,
        make_block_diagonal_layer,
        make_close_heads_layer,
        make_low_rank_layer,
        make_nice_layer,
        make_transformer_shaped_layer,
    )
    from attention.inputs import (
        BooleanInputs,
        GaussianInputs,
        Inputs,
        MarkedInputs,
        PositionedInputs,
        SphereInputs,
        sinusoidal_positions,
    )
    from attention.layer import AttentionLayer, attention_pattern
    from attention.learning import Learner, Recorder, check_budget, draw_examples
    from attention.memory import NotEnoughMemoryError
    from attention.norm import Norm
    from attention.outcome import Outcome
    from attention.rotary import (
        RotaryLayer,
        make_nice_rotary_layer,
        rotary_errors,
        rotary_frequencies,
    )
    from attention.value_oracle import AnswerPrecision, QueriesExhaustedError, ValueOracle

__getattr__ = lazily(__name__, __file__)

__all__ = [
    "AnswerPrecision",
    "AttentionLayer",
    "Block",
    "BooleanInputs",
    "ExampleOracle",
    "FeedForward",
    "FileFormatError",
    "Fit",
    "GaussianInputs",
    "GroundTruth",
    "Inputs",
    "Learner",
    "MarkedInputs",
    "Norm",
    "NotEnoughMemoryError",
    "Outcome",
    "PositionedInputs",
    "QueriesExhaustedError",
    "Recorder",
    "RotaryLayer",
    "SphereInputs",
    "Step",
    "ValueOracle",
    "attention_layer_examples",
    "attention_pattern",
    "block_errors",
    "check_budget",
    "check_conditions",
    "convert_torch_module",
    "draw_examples",
    "load_layer",
    "make_affinely_dependent_layer",
    "make_block_diagonal_layer",
    "make_close_heads_layer",
    "make_low_rank_layer",
    "make_nice_block",
    "make_nice_layer",
    "make_nice_network",
    "make_nice_rotary_layer",
    "make_transformer_shaped_layer",
    "network_errors",
    "parameter_errors",
    "read_checkpoint_layer",
    "relative_error",
    "rotary_errors",
    "rotary_frequencies",
    "save_layer",
    "sinusoidal_positions",
    "unknown_part_error",
]
