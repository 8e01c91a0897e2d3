"""Pre-norm blocks, Z + N(n(Z)) with Z = X + F(n(X)): the network on the sphere, then the attention in the ball."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from attention import Block, Recorder, ValueOracle
from attention.evaluation import Verdict
from attention.outcome import Outcome
from upper.blocks.ball import Ball, in_units_of_the_norm
from upper.blocks.network import best_block
from upper.blocks.normed_fit import fit_normed
from upper.blocks.normed_map import NormedMap
from upper.blocks.normed_signs import turn_signs
from upper.blocks.one_token import NoNetwork, one_token
from upper.blocks.peel import read_attention
from upper.blocks.sphere import Sphere
from upper.blocks.sphere_kinks import is_noisy, is_piecewise, read_piecewise
from upper.blocks.sphere_network import read_smooth


@dataclass(frozen=True)
class _Rules:
    """What counts in the steps; all were measured on nice blocks."""

    #: how near signs are to zeros and ones: right ones to .002, with a wrong neuron to .49, and to .07 where one is
    #: nearly orthogonal to the circle, so that nothing changes along it: then others are read
    signs: float = 0.02
    circles: int = 3
    #: the largest tokens, in shares of the ball: shorter ones repair what left it, or has no preimage near by
    reaches: tuple[float, ...] = (0.95, 0.7, 0.5)
    accuracy: float = 1e-14  #: of z, times how much an error of an answer grows on so many tokens
    sample: int = 512
    #: to the tokens of a query from their mean, where answers have several preimages: 8 missed 2 of 3,000, and 16 none
    steps: tuple[int, ...] = (16, 64, 256)


_RULES = _Rules()


def behind_norms(
    oracle: ValueOracle, sphere: Sphere, rng: np.random.Generator, recorder: Recorder
) -> tuple[Block | NoNetwork, Verdict]:
    """The block behind a map of the sphere, or why there is none, and the verdict by fresh queries."""
    ask = one_token(oracle)
    if is_noisy(sphere, rng):
        return NoNetwork.NOISY, Verdict(Outcome.NO_BLOCK)
    piecewise = is_piecewise(sphere, rng)
    for _ in range(_RULES.circles):
        if piecewise:
            read = read_piecewise(sphere, rng, recorder)
        else:
            read = read_smooth(sphere, rng, recorder)
            read = None if read is None else sphere.explained(read, rng)[0]
        if read is None:
            return NoNetwork.NOT_ON_SPHERE, Verdict(Outcome.NO_BLOCK)
        g, off = turn_signs(read, sphere.norm, ask, rng)
        recorder.step("Signs", off=off)
        if off < _RULES.signs:
            break
    else:
        return NoNetwork.NO_SIGNS_BEHIND_NORMS, Verdict(Outcome.NO_BLOCK)
    g, error = fit_normed(ask, g, sphere.basis(rng), rng)
    recorder.step("All parameters of one token", error=error, eps=g.norm.eps)
    return best_block(oracle, _blocks(oracle, g, rng, recorder), rng, recorder)


def _blocks(
    oracle: ValueOracle, g: NormedMap, rng: np.random.Generator, recorder: Recorder
) -> Iterator[tuple[Block | None, float]]:
    network = g.network.network(linear=np.eye(g.norm.dim), residual=True)
    for reach, steps in zip(_RULES.reaches, _RULES.steps, strict=True):
        amplified, injective = g.amplification(reach, rng, _RULES.sample)
        ball = Ball(oracle, g, reach, 1 if injective else steps)
        layer = read_attention(ball, _RULES.accuracy * amplified, rng, recorder)
        norms = (g.norm, g.norm)
        yield None if layer is None else Block(in_units_of_the_norm(layer), network, norms=norms), 0.0
