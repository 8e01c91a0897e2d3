"""Two blocks in one box: the map of one token from kinks, and both attentions from pairs."""

import numpy as np
import pytest

from attention import ValueOracle, make_nice_block, relative_error
from upper.blocks.one_token import one_token
from upper.blocks.stack import StackMap, read_stack_map
from upper.blocks.stack_pairs import Stack, read_stack


def two_blocks(seed):
    rng = np.random.default_rng(seed)
    return tuple(make_nice_block(heads=2, dim=8, width=16, activation="relu", rng=rng) for _ in range(2))


@pytest.fixture(scope="module")
def blocks():
    return two_blocks(1)


@pytest.fixture(scope="module")
def fitted(blocks):
    first, second = blocks
    return read_stack(
        ValueOracle.from_callable(lambda x: second(first(x)), 2, 8), 2, np.random.default_rng(1001)
    )


def test_one_token_of_two_blocks_is_read_up_to_an_affine_map_between_them():
    first, second = two_blocks(3)
    oracle = ValueOracle.from_callable(lambda x: second(first(x)), 1, 8)
    fitted = read_stack_map(one_token(oracle), 8, np.random.default_rng(0))
    x = np.random.default_rng(1).standard_normal((300, 1, 8))
    assert relative_error(fitted(x), second(first(x))) < 1e-8
    between, behind = first(x)[:, 0], fitted.first(x)[:, 0]
    design = np.concatenate([behind, np.ones((len(x), 1))], axis=1)
    affine = np.linalg.lstsq(design, between, rcond=None)[0]
    assert relative_error(design @ affine, between) < 1e-8
    assert (len(fitted.first.a), len(fitted.second.a)) == (16, 16)


def test_one_block_is_no_stack_of_two():
    first, _ = two_blocks(3)
    ask = one_token(ValueOracle.from_callable(lambda x: first.network(x), 1, 8))
    assert read_stack_map(ask, 8, np.random.default_rng(0)) is None


def test_both_attentions_of_two_blocks_are_read_for_any_number_of_tokens(blocks, fitted):
    first, second = blocks
    assert isinstance(fitted, Stack)
    for tokens in (2, 5):
        x = np.random.default_rng(tokens).standard_normal((200, tokens, 8))
        assert relative_error(fitted(x), second(first(x))) < 1e-6
    theta = fitted.layers[0].theta
    # the first block's logits are those of the true heads, up to order
    off = np.linalg.norm(theta[:, None] - first.layer.theta[None], axis=(2, 3)).min(axis=1)
    assert off.max() < 1e-5


@pytest.mark.slow
def test_attentions_that_do_not_answer_fresh_pairs_are_not_returned(blocks):
    first, second = blocks
    oracle = ValueOracle.from_callable(lambda x: second(first(x)), 2, 8)
    assert isinstance(read_stack(oracle, 3, np.random.default_rng(1001)), StackMap)
