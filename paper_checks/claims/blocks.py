"""What value queries of a block show: its network, the signs of the neurons, and the attention behind it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator

from attention import AttentionLayer, Block, FeedForward, Norm, make_nice_block, make_nice_network
from attention.feed_forward import Activation, activation
from paper_checks.claim import Basis, claim
from paper_checks.claims._layer_by_fractions import answer, random_heads, rank, wholes
from paper_checks.comparison import Comparison, at_most, equal
from runs import Scale

_ACTIVATIONS: tuple[Activation, ...] = ("relu", "gelu", "tanh")
_PROOF = "derived here: docs/explanations/blocks.rst"


def _slopes(x: Any, u: Any, a: Any, v: Any) -> Any:
    """The derivative of sum_j max(u_j . x + a_j, 0) v_j at x, in whole numbers."""
    on = (u @ x + a > 0).astype(int).astype(object)
    return u.T @ (on[:, None] * v)


@claim("blocks/turned-neurons", source=f"{_PROOF}, before Theorem 1", basis=Basis.PROVED, fault={"gain": 0.9})
def turned_neurons(scale: Scale, rng: Generator, *, gain: float = 1.0) -> Iterator[Comparison]:
    """ReLU and GELU have act(t) = t + act(-t). So x A + c + sum act(u_j.x + a_j) v_j does not change where any neurons
    are turned, (u_j, a_j) to (-u_j, -a_j), A gains u_j^T v_j and c gains a_j v_j: one token leaves 2^h networks. The
    same fails for tanh.

    Random networks at random tokens, with a random half of the neurons turned; errors are relative to the answers.
    """
    dim, width, tokens = (6, 12, 50) if scale is Scale.QUICK else (24, 96, 500)
    for kind in _ACTIVATIONS:
        net = make_nice_network(dim=dim, width=width, activation=kind, rng=rng)
        x, turned = rng.standard_normal((tokens, dim)), rng.random(width) < 0.5
        turned[0] = True
        sign = np.where(turned, -1.0, 1.0)
        linear = np.eye(dim) + gain * net.w1[:, turned] @ net.w2[turned]
        constant = net.b2 + gain * net.b1[turned] @ net.w2[turned]
        after = x @ linear + constant + activation(kind, (x @ net.w1 + net.b1) * sign) @ net.w2
        off = float(np.abs(after - net(x)).max() / np.abs(net(x)).max())
        if kind == "tanh":
            yield at_most("1 where turning a neuron of tanh changes the answers", float(off < 1e-3), 0)
        else:
            yield at_most(f"change of the answers, {kind}", off, 1e-13)


@claim("blocks/jumps", source=f"{_PROOF}, Theorem 1", basis=Basis.PROVED, fault={"passed": 1})
def jumps(scale: Scale, rng: Generator, *, passed: int = 0) -> Iterator[Comparison]:
    """Between two points the derivative of a ReLU network changes by the sum of u_j^T v_j over the neurons that switch
    on, less the sum over those that switch off. Of at most d neurons with independent v_j, the change gives all u_j.

    Whole numbers, so all is exact. With one neuron left out of the sum the check fails.
    """
    dim, pairs = (4, 30) if scale is Scale.QUICK else (8, 200)
    right, solved, several = 0, 0, 0
    for _ in range(pairs):
        u, a, v = wholes(rng, dim, dim, most=5), wholes(rng, dim, most=5), wholes(rng, dim, dim, most=5)
        x, y = wholes(rng, 2, dim, most=9)
        switched = np.sign((u @ y + a > 0).astype(int) - (u @ x + a > 0).astype(int)).astype(object)
        change = _slopes(y, u, a, v) - _slopes(x, u, a, v)
        switched[np.flatnonzero(switched)[:passed]] = 0
        right += int(np.all(change == (u * switched[:, None]).T @ v))
        if rank(v) == dim:
            several += 1
            found = np.linalg.solve(v.astype(float).T, change.astype(float).T)
            solved += int(np.allclose(found, (u * switched[:, None]).astype(float), atol=1e-8))
    yield equal("pairs of points with the change of the derivative", right, pairs)
    yield equal("pairs whose change gives the weights", solved, several)


@claim("blocks/pairs", source=f"{_PROOF}, Theorem 3", basis=Basis.PROVED, fault={"swapped": False})
def pairs(scale: Scale, rng: Generator, *, swapped: bool = True) -> Iterator[Comparison]:
    """In any attention layer with biases, the rows of x beside n_2 copies of x + delta and beside n_1 copies of
    x - delta differ by delta sum W_i: sigmoid(t) + sigmoid(-t) = 1. So a block shows A = I + sum W_i, whatever its
    heads are.

    Parameters and tokens are whole numbers and logits multiples of ln 2, so answers are fractions.
    """
    dim, draws = (3, 20) if scale is Scale.QUICK else (5, 100)
    for first, second in ((1, 1), (2, 1), (2, 3)):
        right = 0
        for _ in range(draws):
            heads, bias = random_heads(3, dim, rng), wholes(rng, dim)
            x, delta = wholes(rng, 2, dim)
            one = answer(heads, bias, np.array([x] * first + [x + delta] * second, dtype=object))[0]
            copies = (second, first) if swapped else (first, second)
            other = answer(heads, bias, np.array([x] * copies[0] + [x - delta] * copies[1], dtype=object))[0]
            right += int(np.all(one - other == delta @ sum(head.w for head in heads)))
        yield equal(f"draws with the difference, {first} and {second} copies", right, draws)


@claim("blocks/signs", source=f"{_PROOF}, Theorem 2", basis=Basis.PROVED, fault={"more": 1})
def signs(scale: Scale, rng: Generator, *, more: int = 0) -> Iterator[Comparison]:
    """The matrices u_j^T v_j of random neurons are independent for h up to d^2, so that A determines the signs of all
    of them; the Gram matrix of these is (U U^T) o (V V^T). The signs s solve (U U^T) o (V V^T) s = diag(U D V^T), with
    D = sum_j s_j u_j^T v_j what A lacks. More than d^2 neurons are dependent.

    Ranks in exact arithmetic, the Gram matrix entry by entry, and the system with random signs.
    """
    dims = (2, 3) if scale is Scale.QUICK else (2, 3, 4)
    for dim in dims:
        width = dim**2 + more
        u, v = wholes(rng, width, dim, most=50), wholes(rng, width, dim, most=50)
        products = np.array([np.outer(*pair).ravel() for pair in zip(u, v, strict=True)], dtype=object)
        yield equal(f"products that depend on the others, d = {dim}", width - rank(products), 0)
        gram = (u @ u.T) * (v @ v.T)
        yield equal(
            f"wrong entries of the Gram matrix, d = {dim}", int(np.sum(gram != products @ products.T)), 0
        )
        turned = wholes(rng, width, most=1) ** 2
        lacking = (u * turned[:, None]).T @ v
        wrong = int(np.sum(gram @ turned != np.sum((u @ lacking) * v, axis=1)))
        yield equal(f"equations of the signs that fail, d = {dim}", wrong, 0)


@claim("blocks/shift", source=f"{_PROOF}, Theorem 4", basis=Basis.PROVED, fault={"taken": 0.9})
def shift(scale: Scale, rng: Generator, *, taken: float = 1.0) -> Iterator[Comparison]:
    """A block with both residuals does not change where its layer's bias gains e, b1 loses e W1 and b2 loses e.

    Random blocks with each activation, at random token matrices; errors are relative to the answers.
    """
    dim, draws = (5, 3) if scale is Scale.QUICK else (16, 20)
    for kind in _ACTIVATIONS:
        worst = 0.0
        for _ in range(draws):
            block = make_nice_block(heads=2, dim=dim, width=2 * dim, activation=kind, rng=rng)
            layer, net, e = block.layer, block.network, rng.standard_normal(dim)
            bias = np.zeros(dim) if layer.bias is None else layer.bias
            moved = Block(
                AttentionLayer(layer.theta, layer.w, layer.key_bias, bias + e),
                FeedForward(net.w1, net.b1 - taken * e @ net.w1, net.w2, net.b2 - taken * e, kind),
            )
            x = rng.standard_normal((20, 3, dim))
            worst = max(worst, float(np.abs(moved(x) - block(x)).max() / np.abs(block(x)).max()))
        yield at_most(f"change of the answers, {kind}", worst, 1e-13)


_NORMS = "derived here: docs/explanations/norms.rst"


@claim("blocks/far-away", source=f"{_NORMS}, Theorems 1 and 3", basis=Basis.PROVED, fault={"bias": 0.0})
def far_away(scale: Scale, rng: Generator, *, bias: float = 1.0) -> Iterator[Comparison]:
    """Far from the origin a pre-norm block answers x by x + S(n) + O(1/|x|), S(n) = n W + b + N(n), with n of length
    sqrt(d). S does not change where neurons are turned and W takes u_j^T v_j; the next term, of order 1/|x|, does.

    A random block with LayerNorms and GELU at tokens r n: r times what is left is the same at r = 1e4 and 2e4.
    """
    dim, width = (8, 20) if scale is Scale.QUICK else (32, 128)
    norm = Norm.plain(dim)
    block = replace(make_nice_block(heads=2, dim=dim, width=width, rng=rng), norms=(norm, norm))
    layer, net = block.layer, block.network
    n = norm(1e9 * rng.standard_normal((40, dim)))
    turned = rng.random(width) < 0.5
    turned[0] = True
    sign = np.where(turned, -1.0, 1.0)
    onto = np.eye(dim) - 1 / dim
    other = replace(
        block,
        layer=AttentionLayer(
            np.concatenate([layer.theta, np.zeros((1, dim, dim))]),
            np.concatenate([layer.w, (onto @ net.w1[:, turned] @ net.w2[turned])[None]]),
            bias=layer.bias,
        ),
        network=replace(net, w1=net.w1 * sign, b1=net.b1 * sign, b2=net.b2 + net.b1[turned] @ net.w2[turned]),
    )
    sphere = n @ layer.w.sum(axis=0) + bias * np.asarray(layer.bias) + net(n) - n
    terms = []
    for one in (block, other):
        near, far = (r * (one((r * n)[:, None])[:, 0] - r * n - sphere) for r in (1e4, 2e4))
        yield at_most("change of r (B(rn) - rn - S(n)) as r doubles", float(np.abs(far - near).max()), 1e-2)
        terms.append(far)
    apart = float(np.abs(terms[0] - terms[1]).max())
    yield at_most("1 where the next terms of two choices of signs agree", float(apart < 1e-2), 0)


@claim("blocks/circle", source=f"{_NORMS}, how the learner does it", basis=Basis.PROVED, fault={"tilt": 0.3})
def circle(scale: Scale, rng: Generator, *, tilt: float = 0.0) -> Iterator[Comparison]:
    """At the points of a great circle, the second derivatives of S along a frame E that is orthogonal to it are
    sum_j act''(t_j) v_j (E u_j)(E u_j)^T less a multiple of the identity. All of them span h + 1 dimensions.

    Differences of a random S; the singular value after h + 1 is that of rounding and truncation, relative to the last
    before. A frame that leans towards the circle breaks the rank.
    """
    dim, width = (10, 14) if scale is Scale.QUICK else (16, 40)
    net = replace(make_nice_network(dim=dim, width=width, rng=rng), residual=False)
    basis = np.linalg.qr(rng.standard_normal((dim, dim)))[0].T
    frame = np.sqrt(1 - tilt**2) * basis[2:] + tilt * basis[0]
    step, vectors = 1e-2, []
    first, second = np.triu_indices(len(frame))
    for angle in 2 * np.pi * np.arange(16) / 16:
        centre = np.cos(angle) * basis[0] + np.sin(angle) * basis[1]

        def value(moved: Any, centre: Any = centre) -> Any:
            x = centre + moved
            return net(np.sqrt(dim) * x / np.linalg.norm(x, axis=-1, keepdims=True))

        corners = [
            value(step * (a * frame[first] + b * frame[second]))
            for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1))
        ]
        mixed = (corners[0] - corners[1] - corners[2] + corners[3]) / (4 * step**2)
        vectors.append((mixed * np.where(first == second, 1, np.sqrt(2))[:, None]).T)
    singular = np.linalg.svd(np.concatenate(vectors), compute_uv=False)
    yield at_most(
        "singular value after h + 1, over the one before", float(singular[width + 1] / singular[width]), 0.05
    )


@claim("blocks/ball", source=f"{_NORMS}, Theorem 4", basis=Basis.PROVED, fault={"power": 1.0})
def ball(scale: Scale, rng: Generator, *, power: float = 0.5) -> Iterator[Comparison]:
    """Every u with |u|^2 < d, for a LayerNorm of mean 0, is the norm of u sqrt(eps) / sqrt(1 - |u|^2 / d)."""
    for dim in (3, 12) if scale is Scale.QUICK else (3, 12, 48, 192):
        for centred in (False, True):
            u = rng.standard_normal((30, dim))
            u -= centred * u.mean(axis=1, keepdims=True)
            u *= np.sqrt(dim) * rng.random((30, 1)) / np.linalg.norm(u, axis=1, keepdims=True)
            eps = float(10 ** rng.uniform(-8, -2))
            x = u * np.sqrt(eps) / (1 - np.sum(u**2, axis=1, keepdims=True) / dim) ** power
            yield at_most(
                "n(x) less u", float(np.abs(Norm.plain(dim, eps, centred=centred)(x) - u).max()), 1e-12
            )


def _post_norm(dim: int, width: int, rng: Generator) -> Block:
    """A block with norms behind its sums, eps = 0, and no gain of the first one."""
    gain, offset = rng.uniform(0.5, 1.5, (2, dim))
    norms = Norm.plain(dim, 0.0), Norm(gain, offset, 0.0)
    return replace(make_nice_block(heads=3, dim=dim, width=width, rng=rng), norms=norms, norm_first=False)


@claim("blocks/own-and-other", source=f"{_NORMS}, Theorem 5", basis=Basis.PROVED, fault={"less": 0.9})
def own_and_other(scale: Scale, rng: Generator, *, less: float = 1.0) -> Iterator[Comparison]:
    """Let row a of a block be f(y) with y the row a of X + F(X). At k equal tokens, the derivative of a row by its own
    token less that by another one is f'; its derivative by all tokens together is A f' with A = I + sum W_i.

    Central differences of a random post-norm block, beside those of its network and norms alone.
    """
    dim, step = (5, 1e-4) if scale is Scale.QUICK else (12, 1e-4)
    for tokens in (2, 3):
        block = _post_norm(dim, 2 * dim, rng)
        first, second = block.norms or ()
        x = rng.standard_normal(dim)
        equal = x + np.zeros((tokens, dim))
        y = (equal + block.layer(equal))[0]
        linear = np.eye(dim) + block.layer.w.sum(axis=0)

        def behind(y: Any, first: Norm = first, second: Norm = second, block: Block = block) -> Any:
            return second(block.network(first(y)))

        moved = step * np.eye(dim)
        own, other = (
            (block(equal + at[:, None] * moved[:, None]) - block(equal - at[:, None] * moved[:, None]))[:, 0]
            / (2 * step)
            for at in np.eye(tokens)[:2]
        )
        slope = (behind(y + moved) - behind(y - moved)) / (2 * step)
        size = float(np.abs(slope).max())
        yield at_most(
            f"own less other, {tokens} tokens", float(np.abs(own - less * other - slope).max()) / size, 1e-6
        )
        together = own + (tokens - 1) * other - linear @ (own - less * other)
        yield at_most(f"all tokens less A f', {tokens} tokens", float(np.abs(together).max()) / size, 1e-6)


@claim("blocks/directions", source=f"{_NORMS}, Theorem 7", basis=Basis.PROVED, fault={"kept": 1})
def directions(scale: Scale, rng: Generator, *, kept: int = 0) -> Iterator[Comparison]:
    """Let f = r w with a scalar r. Off the span of f and its first derivatives f_a, second derivatives of f are r times
    those of w. And lengths 1 / r of f at n points are a null vector of (1 - P) o (F F^T), where P projects onto
    functions that span the coordinates of w.

    Central differences along two directions of a random network, divided by its length; a random sample of it. With a
    first derivative left in the check fails.
    """
    dim, width, step = (8, 6, 1e-3) if scale is Scale.QUICK else (16, 20, 1e-3)
    net = make_nice_network(dim=dim, width=width, rng=rng)
    x, along = rng.standard_normal(dim), rng.standard_normal((2, dim))

    def second(function: Any) -> Any:
        corners = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
        return np.array([1, -1, -1, 1]) @ function(x + step * corners @ along) / (4 * step**2)

    def direction(x: Any) -> Any:
        w = net(x)
        return w / np.linalg.norm(w, axis=-1, keepdims=True)

    slopes = (direction(x + step * along) - direction(x - step * along)) / (2 * step)
    basis = np.linalg.qr(np.column_stack([direction(x), slopes[kept:].T]))[0]
    off = np.eye(dim) - basis @ basis.T
    expected = off @ second(net) / np.linalg.norm(net(x))
    left = off @ second(direction) - expected
    yield at_most("second derivatives off the span", float(np.abs(left).max() / np.abs(expected).max()), 1e-4)
    points = rng.standard_normal((2 * (width + dim), dim))
    design = np.column_stack([activation("gelu", points @ net.w1 + net.b1), points, np.ones(len(points))])
    onto = np.linalg.qr(design)[0]
    matrix = (np.eye(len(points)) - onto @ onto.T) * (direction(points) @ direction(points).T)
    values, vectors = np.linalg.eigh(matrix)
    lengths, true = vectors[:, 0], np.linalg.norm(net(points), axis=1)
    yield at_most("the least eigenvalue over the next", float(abs(values[0]) / values[1]), 1e-8)
    yield at_most(
        "1 less the cosine of lengths", 1 - float(abs(lengths @ true) / np.linalg.norm(true)), 1e-10
    )


@claim("blocks/mirrored", source=f"{_NORMS}, Theorem 8", basis=Basis.PROVED, fault={"moved": 0.5})
def mirrored(scale: Scale, rng: Generator, *, moved: float = 1.0) -> Iterator[Comparison]:
    """The sums y = x + F(X) of x beside x + delta and beside x - delta differ by delta sum W_i. Their directions and
    this difference give both lengths.

    Random layers of three heads at random tokens.
    """
    dim, draws = (5, 10) if scale is Scale.QUICK else (16, 100)
    worst = 0.0
    for _ in range(draws):
        layer = make_nice_block(heads=3, dim=dim, width=1, rng=rng).layer
        x, delta = rng.standard_normal((2, dim))
        sums = [(pair + layer(pair))[0] for pair in (np.stack([x, x + delta]), np.stack([x, x - delta]))]
        units = np.stack([y / np.linalg.norm(y) for y in sums])
        lengths = np.linalg.lstsq(units.T * [1, -1], moved * delta @ layer.w.sum(axis=0), rcond=None)[0]
        worst = max(worst, *(abs(a / np.linalg.norm(y) - 1) for a, y in zip(lengths, sums, strict=True)))
    yield at_most("relative error of a length", float(worst), 1e-9)
