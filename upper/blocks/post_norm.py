"""Post-norm blocks, n2(Z + N(Z)) with Z = n1(X + F(X)): the norms, the network between them, and the attention."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from attention import Block, FeedForward, Norm, QueriesExhaustedError, Recorder, ValueOracle
from attention.evaluation import Verdict
from attention.outcome import Outcome
from upper.blocks.ellipsoid import Ellipsoid
from upper.blocks.kinks import Ask
from upper.blocks.mirrored import Mirrored
from upper.blocks.network import best_block
from upper.blocks.one_token import NoNetwork, one_token
from upper.blocks.own_and_other import attended
from upper.blocks.peel import read_attention
from upper.blocks.projective_fit import fit_directions
from upper.blocks.sphere import Directions, on_both_sides
from upper.blocks.sphere_kinks import is_noisy, is_piecewise, read_piecewise
from upper.blocks.sphere_network import read_smooth
from upper.blocks.summed_map import SummedMap, fit_short
from upper.blocks.token_map import SIGNS, TokenMap


@dataclass(frozen=True)
class PostNormPart:
    """What is found of a post-norm block that is not read whole, and why the rest is not.

    All gains of the last norm may have the other sign.
    """

    reason: NoNetwork
    last: Norm
    first: Norm | None = None
    network: FeedForward | None = None

    @property
    def explanation(self) -> str:
        """The reason, and what is found."""
        parts = [_described("last", self.last)]
        if self.first is not None:
            parts.append(_described("first", self.first))
        if self.network is not None:
            parts.append(f"the network, {self.network}")
        return f"{self.reason.value} Found, gains up to one sign: {'; '.join(parts)}."

    def to_json(self) -> dict[str, Any]:
        """What is found as lists of numbers."""
        parts = {"last": self.last, "first": self.first, "network": self.network}
        return {"reason": self.reason.name} | {
            name: None
            if part is None
            else {field.name: np.asarray(getattr(part, field.name)).tolist() for field in fields(part)}
            for name, part in parts.items()
        }


def _described(place: str, norm: Norm) -> str:
    ranges = (
        f"{name} {row.min():.3g} to {row.max():.3g}"
        for name, row in (("gain", norm.gain), ("offset", norm.offset))
    )
    return f"the {place} norm ({', '.join(ranges)})"


@dataclass(frozen=True)
class _Rules:
    """What counts in the steps; all were measured on nice blocks."""

    length: float = 1e7  #: of tokens on the sphere: eps counts nothing there, nor does an error of b of 1e-5
    queries: float = 1.5  #: of points of the sphere, for every unknown over d
    more: int = 20
    #: shares of the outputs that the frame of a great circle takes off, until the fit is right: the last has room for
    #: 4 d neurons from d = 24 on. ReLU is read as often, on other circles: 2 of 30 blocks took all three
    frames: tuple[float, ...] = (0.62, 0.62, 0.87)
    turns: int = 4  #: of a fit of the network and one of gain, offset and eps: two are enough
    enough: float = 0.5  #: a turn that leaves more than this share of the error is the last
    exact: float = 1e-11
    wrong: float = 1e-6  #: the error of a fit that has a wrong neuron
    #: sums y are right to so many times the error of short tokens, which was up to 10, and no better than the other
    amplified: tuple[float, ...] = (30.0, 1e3)
    least: float = 1e-11


_RULES = _Rules()


def between_norms(
    oracle: ValueOracle, last: Ellipsoid, rng: np.random.Generator, recorder: Recorder
) -> tuple[Block | PostNormPart, Verdict]:
    """The block before a norm, or what is found of it and why no more; and the verdict by fresh queries."""
    part = PostNormPart(NoNetwork.SPENT, _norm(last, 0.0))
    try:
        part, peeled, error = _peeled(oracle, last, rng, recorder)
        if peeled is None:
            return part, Verdict(Outcome.NO_BLOCK)
        if (oracle.tokens or 2) % 2:
            return replace(part, reason=NoNetwork.ODD_TOKENS), Verdict(Outcome.NOT_SEPARATED)
        block, ended = best_block(oracle, _blocks(part, peeled, error, rng, recorder), rng, recorder)
    except QueriesExhaustedError:
        return part, Verdict(Outcome.EXAMPLES_SPENT)
    return replace(part, reason=block) if isinstance(block, NoNetwork) else block, ended


def _blocks(
    part: PostNormPart, peeled: Mirrored, error: float, rng: np.random.Generator, recorder: Recorder
) -> Iterator[tuple[Block | None, float]]:
    for factor in _RULES.amplified:
        layer = read_attention(peeled, max(_RULES.least, factor * error), rng, recorder)
        if layer is not None and part.first is not None and part.network is not None:
            norms = (part.first, part.last)
            yield Block(layer, part.network, norms=norms, norm_first=False).centred(), 0.0


def _peeled(
    oracle: ValueOracle, last: Ellipsoid, rng: np.random.Generator, recorder: Recorder
) -> tuple[PostNormPart, Mirrored | None, float]:
    """All but the attention, and the attention as an oracle, with the error of directions; or why there is none."""
    linear, bias = attended(oracle, last.basis, rng)
    back = np.linalg.pinv(linear)
    ask = one_token(oracle)

    def far(n: np.ndarray) -> np.ndarray:
        return ask((_RULES.length * n - bias) @ back)

    d = oracle.dim
    sphere = Directions(lambda n: last.plain(far(n)), Norm.plain(d - 1, 0.0, centred=False))
    # in 3 coordinates any four directions are those of a piece
    if d > 4 and is_noisy(sphere, rng):
        return PostNormPart(NoNetwork.NOISY, _norm(last, 0.0)), None, np.inf
    piecewise = d > 4 and is_piecewise(sphere, rng)
    for share in _RULES.frames:
        start = (
            read_piecewise(sphere, rng, recorder)
            if piecewise
            else read_smooth(sphere, rng, recorder, share=share)
        )
        if start is None:
            continue
        network, fitted, eps, error = _fitted(start, last, far, rng, recorder)
        if error < _RULES.wrong:
            last = fitted
            break
    else:
        return PostNormPart(NoNetwork.NO_NEURONS_BETWEEN_NORMS, _norm(last, 0.0)), None, np.inf
    unit = np.sqrt((d - 1) / d)  # n has the length sqrt(d)
    network, gain, off = _signs(
        replace(network, u=unit * network.u, linear=unit * network.linear), last.basis
    )
    recorder.step("Signs and first gain", off=off)
    if off > SIGNS:
        return PostNormPart(NoNetwork.NO_SIGNS_BETWEEN_NORMS, _norm(last, eps)), None, np.inf
    g, bias, error = fit_short(SummedMap(0.0, network), lambda x: last.plain(ask(x)), linear, bias, rng)
    recorder.step("First eps", eps=g.eps, error=error)
    whole = FeedForward(
        (network.u @ last.basis).T / gain[:, None],
        network.a,
        network.v @ last.basis,
        network.constant @ last.basis,
        activation=network.activation,
    )
    part = PostNormPart(NoNetwork.SPENT, _norm(last, eps), Norm(gain, np.zeros(d), g.eps), whole)
    return part, Mirrored(oracle, last, g, linear, bias), error


def _fitted(
    network: TokenMap, last: Ellipsoid, far: Ask, rng: np.random.Generator, recorder: Recorder
) -> tuple[TokenMap, Ellipsoid, float, float]:
    """The network and the last norm by turns, as each is right up to the other's error times eps; and the error."""
    h, d = network.u.shape
    n = rng.standard_normal((int(_RULES.queries * (2 * h + d)) + _RULES.more, d))
    n *= np.sqrt(d) / np.linalg.norm(n, axis=1, keepdims=True)
    n = on_both_sides(n, network, np.eye(d), rng)
    answers = far(n)
    error = np.inf
    for _ in range(_RULES.turns):
        network, lengths, new = fit_directions(network, n, last.plain(answers))
        if not np.all(lengths > 0):  # a wrong start
            return network, last, 0.0, np.inf
        last, eps = last.refitted(answers, lengths)
        recorder.step("All parameters between the norms", error=new)
        better, error = new < _RULES.enough * error, new
        if error < _RULES.exact or not better:
            break
    return network, last, eps, error


def _norm(last: Ellipsoid, eps: float) -> Norm:
    return Norm(last.gain, last.offset, eps)


def _signs(g: TokenMap, basis: Float[np.ndarray, "D d"]) -> tuple[TokenMap, Float[np.ndarray, " d"], float]:
    """The neurons turned so that the linear part is a diagonal matrix, the first gain, on vectors of mean 0."""
    free = len(g.u) if g.activation != "tanh" else 0
    u, v = g.u[:free], g.v[:free]
    # sum_j s_j u_j^T v_j - E diag(gain) E^T = -A
    beside = -(u @ basis) * (v @ basis)
    normal = np.block([[(u @ u.T) * (v @ v.T), beside], [beside.T, (basis.T @ basis) ** 2]])
    right = np.concatenate([-np.sum((u @ g.linear) * v, axis=1), np.sum(basis * (g.linear @ basis), axis=0)])
    size = np.sqrt(np.diag(normal))
    solved = np.linalg.solve(normal / np.outer(size, size), right / size) / size
    turned = np.zeros(len(g.u), dtype=bool)
    turned[:free] = solved[:free] > 0.5
    off = float(np.max(np.abs(solved[:free] - turned[:free]), initial=0.0))
    g = g.flipped(turned)
    gain = np.linalg.solve((basis.T @ basis) ** 2, np.sum(basis * (g.linear @ basis), axis=0))
    whole = (basis * gain) @ basis.T
    return (
        replace(g, linear=whole),
        gain,
        max(off, float(np.linalg.norm(g.linear - whole) / np.linalg.norm(whole))),
    )
