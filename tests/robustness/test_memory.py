"""What does not fit into memory is refused with the numbers, before any work and before an example is drawn."""

import importlib.util

import numpy as np
import pytest

import upper
from attention import BooleanInputs, ExampleOracle, NotEnoughMemoryError, make_nice_layer
from attention.memory import available_memory, memory_limited_to, memory_text, require_memory

LITTLE = 1 << 20
MUCH = 10**7

LEARNERS = {
    "Newton": lambda: upper.Newton(m=2, examples=MUCH, engine="numpy"),
    "Newton of many heads": lambda: upper.Newton(m=10**6, engine="numpy"),
    "LBFGS": lambda: upper.LBFGS(m=2, examples=MUCH),
    "SGD": lambda: upper.SGD(m=2, batch=MUCH),
    "SGD of many heads": lambda: upper.SGD(m=10**6),
    "FrozenAttention": lambda: upper.FrozenAttention(heads=10**6),
    "LinearBaseline": lambda: upper.LinearBaseline(examples=MUCH),
    "OneGradientStep": lambda: upper.OneGradientStep(examples=MUCH),
    "LinearAttentionLearner": upper.LinearAttentionLearner,
    "SixPhase": lambda: upper.SixPhase(m=2),
    "SixPhase of the paper": lambda: upper.SixPhase(m=2, mode="paper"),
}
if importlib.util.find_spec("torch"):
    LEARNERS |= {
        "Adam": lambda: upper.Adam(m=2, batch=MUCH),
        "Adam of a fixed set": lambda: upper.Adam(m=2, reused=MUCH),
    }


@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_that_needs_too_much_draws_nothing(name):
    oracle = ExampleOracle(make_nice_layer(heads=2, dim=16, rng=0), BooleanInputs(3, 16), rng=0)
    learner = LEARNERS[name]()
    with (
        memory_limited_to(LITTLE),
        pytest.raises(ValueError, match=r"\d (B|K|M|G|T|P)iB.*1 MiB|GiB are allowed"),
    ):
        learner.fit(oracle, rng=0)
    assert oracle.drawn == 0


def test_an_oracle_draws_nothing_that_does_not_fit():
    oracle = ExampleOracle(make_nice_layer(heads=2, dim=16, rng=0), BooleanInputs(3, 16), rng=0)
    with (
        memory_limited_to(LITTLE),
        pytest.raises(NotEnoughMemoryError, match="Drawing n = 10000 matrices of 3 tokens"),
    ):
        oracle.draw(10_000)
    assert oracle.drawn == 0
    oracle.draw(100)


def test_a_layer_counts_the_patterns_of_all_heads():
    layer, x = make_nice_layer(heads=3, dim=2, rng=0), np.ones((4, 50, 2))
    # 4 x 3 x 50 x 50 logits, of 8 bytes and twice
    with memory_limited_to(1 << 30):
        layer(x)
    with (
        memory_limited_to(400_000),
        pytest.raises(NotEnoughMemoryError, match="3 heads on an array of shape"),
    ):
        layer(x)


def test_the_limit_holds_within_its_context_only():
    before = available_memory()
    with memory_limited_to(123):
        assert available_memory() == 123
        with memory_limited_to(7):
            assert available_memory() == 7
        assert available_memory() == 123
    assert available_memory() != 123
    assert available_memory() > 0
    assert before > 0


@pytest.mark.parametrize(
    ("needed", "free", "fits"), [(90, 100, True), (91, 100, False), (0, 0, True), (10**400, 2**62, False)]
)
def test_nine_tenths_of_what_is_free_may_be_taken(needed, free, fits):
    with memory_limited_to(free):
        if fits:
            require_memory("It", needed)
            return
        with pytest.raises(
            NotEnoughMemoryError, match=r"^It needs .* of memory, and .* are free: ask for less\.$"
        ):
            require_memory("It", needed)


def test_sizes_are_told_in_their_units():
    assert [memory_text(size) for size in (0, 1023, 1024, 3 * 2**29)] == [
        "0 bytes",
        "1023 bytes",
        "1 KiB",
        "1.5 GiB",
    ]
