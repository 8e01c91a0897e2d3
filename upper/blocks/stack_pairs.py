"""Both attentions of two blocks in one box: short differences at long tokens see one attention with all heads."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.optimize import least_squares

from attention import AttentionLayer, ValueOracle
from upper.blocks.one_token import one_token
from upper.blocks.stack import StackMap, read_stack_map
from upper.blocks.token_map import TokenMap

# Tokens of this length and differences of its inverse: attentions are then added up to 1e-8, and answers in float64
# show them to 1e-8. With 1e3 and 1e5 that is 1e-6.
_LENGTH = 1e4
# The Jacobians of two places differ by so much: where they are equal, heads of the first block are not told apart.
_DIFFERENT = 0.2
# Differences of the fits, in units of 1/length: logits of nice heads are then of size 3.
_LOGITS = 6.0
# Equations for every unknown: of the fit in one place, of the logits in another, and of the last fit.
_EQUATIONS, _LOGIT_PAIRS, _LAST = 2.5, 2, 2.0
# Random starts in one place, evaluations of each, and places tried. A fit ends at 2e-8 where it is right, and at 3e-3
# or more where it is not.
_STARTS, _EVALUATIONS, _PLACES, _FITTED = 16, 50, 24, 1e-5
# Places that are candidates, of which those far from all planes are taken, and places beyond d + 1 for the logits.
_CANDIDATES, _MORE = 400, 6
# Fresh pairs of short tokens, and the error below which a fit is right: right ones end at 1e-9, wrong ones at 1e-3.
_TESTS, _RIGHT = 64, 1e-6
# Evaluations of the last fit
_STEPS = 15


@dataclass(frozen=True)
class Stack:
    """Two blocks as one function of tokens, g2(a2(g1(a1(X)))), where a1 and a2 leave equal tokens as they are.

    a(X) = X + F(X) - X sum_i W_i for an attention layer F: with A = I + sum_i V_i this is (X + F'(X)) A^-1 of a layer
    F' with a residual, whose outputs V_i are W_i A. The maps of one token take A.
    """

    layers: tuple[AttentionLayer, AttentionLayer]
    map: StackMap

    def __call__(self, x: Float[np.ndarray, "*n k d"]) -> Float[np.ndarray, "*n k d"]:
        """The outputs on tokens."""
        return self.map.second(self.behind(x))

    def behind(self, x: Float[np.ndarray, "*n k d"]) -> Float[np.ndarray, "*n k d"]:
        """The same before g2."""
        return _mixed(self.layers[1], self.map.first(_mixed(self.layers[0], x)))


def _mixed(layer: AttentionLayer, x: Float[np.ndarray, "*n k d"]) -> Float[np.ndarray, "*n k d"]:
    return x + layer(x) - x @ layer.w.sum(axis=0)


def read_stack(oracle: ValueOracle, heads: int, rng: np.random.Generator) -> Stack | StackMap | None:
    """Read two blocks of `heads` heads each from outputs on two tokens; the map of one token if pairs do not help.

    A `Stack` reproduces 64 fresh pairs of Gaussian tokens to 1e-6; a part that such tokens hardly meet may be missing.

    Derived here. With g = g2(g1(x)) read (`read_stack_map`), let y = g1(x), J its Jacobian at x, and P = A^-1 that of
    the first attention. Far from all planes, x beside x + delta is answered by g2(y + r) with

        r = sum_i sigma(x Theta_i delta) delta W_i J + sum_k sigma(y Theta'_k eta) eta W'_k + O(|delta|^3),

    eta = delta P J, as one attention layer with the heads of both. In one place x these are 2 m logits linear in delta:
    a fit of 2 m d unknowns, the outputs eliminated. In another place J is another. Heads whose output times J^-1 is the
    same are of the first block: P is known, and with it all outputs. Then d differences in a place show all logits
    there, and d + 1 places all Theta_i and key biases. Last, Gauss-Newton on short tokens.
    """
    map_ = read_stack_map(one_token(oracle), oracle.dim, rng)
    if map_ is None:
        return None
    places = _places(map_, rng)
    fits: list[tuple[np.ndarray, np.ndarray]] = []
    for x in places[:_PLACES]:
        slope = map_.first.jacobian(x[None])[0]
        if fits and np.linalg.norm(slope - fits[0][0]) < _DIFFERENT * np.linalg.norm(slope):
            continue
        outputs = _outputs_at(oracle, map_, x, 2 * heads, rng)
        if outputs is not None:
            fits.append((slope, outputs))
        if len(fits) == 2:
            break
    else:
        return map_
    first, second = _divided(fits, heads)
    layers = _layers(oracle, map_, places[_PLACES:], first, second, rng)
    stack = _last_fit(oracle, Stack(layers, map_), rng)
    fresh = rng.standard_normal((_TESTS, 2, oracle.dim))
    answers = oracle.ask(fresh)
    right = np.linalg.norm(stack(fresh) - answers) < _RIGHT * np.linalg.norm(answers)
    return stack if right else map_


def _places(map_: StackMap, rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
    """Long tokens, those far from the planes of both networks and with well-conditioned Jacobians first."""
    d = map_.first.u.shape[1]
    x = rng.standard_normal((_CANDIDATES, d))
    x *= _LENGTH / np.linalg.norm(x, axis=1, keepdims=True)

    def margin(g: TokenMap, z: np.ndarray) -> np.ndarray:
        distance = np.abs(z @ g.u.T + g.a) / np.linalg.norm(g.u, axis=1)
        return distance.min(axis=1) / np.linalg.norm(z, axis=1)

    far = np.minimum(margin(map_.first, x), margin(map_.second, map_.first(x)))
    far /= np.linalg.cond(map_.first.jacobian(x)) * np.linalg.cond(map_.second.jacobian(map_.first(x)))
    return x[np.argsort(-far)[: _PLACES + d + 1 + _MORE]]


def _moved(
    oracle: ValueOracle, map_: StackMap, x: Float[np.ndarray, " d"], delta: Float[np.ndarray, "n d"]
) -> Float[np.ndarray, "n d"]:
    """The length times r, for pairs x and x + delta / length: answers less that to equal tokens, back through g2."""
    pairs = np.stack([np.broadcast_to(x, delta.shape), x + delta / _LENGTH], axis=1)
    answers = oracle.ask(np.concatenate([np.stack([x, x])[None], pairs]))[:, 0]
    slope = map_.second.jacobian(map_.first(x[None]))[0]
    return np.linalg.solve(slope.T, (answers[1:] - answers[0]).T).T * _LENGTH


def _outputs_at(
    oracle: ValueOracle, map_: StackMap, x: Float[np.ndarray, " d"], heads: int, rng: np.random.Generator
) -> Float[np.ndarray, "m d d"] | None:
    """The outputs of all heads in one place; None if no start ends at a fit.

    sigma(t) = (1 + tanh(t/2)) / 2: the even part of r is sum_i tanh(t_i . delta / 2) delta W_i, in which a head may
    have both signs. The odd part is delta sum_i W_i, and tells the signs.
    """
    d = len(x)
    delta = _LOGITS / np.sqrt(d) * rng.standard_normal((int(_EQUATIONS * heads * d), d))
    moved = _moved(oracle, map_, x, np.concatenate([delta, -delta]))
    even, odd = moved[: len(delta)] + moved[len(delta) :], moved[: len(delta)] - moved[len(delta) :]
    size = np.linalg.norm(even)

    def eliminated(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        steps = np.tanh(delta @ flat.reshape(heads, d).T / 2)
        basis, triangle = np.linalg.qr((steps[:, :, None] * delta[:, None, :]).reshape(len(delta), -1))
        solved = np.linalg.lstsq(triangle, basis.T @ even, rcond=1e-12)[0]
        return steps, basis, solved.reshape(heads, d, d), even - basis @ (basis.T @ even)

    def rest(flat: np.ndarray) -> np.ndarray:
        return eliminated(flat)[3].ravel()

    def slopes(flat: np.ndarray) -> np.ndarray:  # Kaufman's
        steps, basis, outputs, _ = eliminated(flat)
        along = ((1 - steps**2) / 2)[:, :, None] * (delta @ outputs).swapaxes(0, 1)
        full = -(along[:, :, None, :] * delta[:, None, :, None]).reshape(len(delta), -1)
        full -= basis @ (basis.T @ full)
        return full.reshape(len(delta), heads * d, d).swapaxes(1, 2).reshape(-1, heads * d)

    for _ in range(_STARTS):
        start = rng.uniform(0.3, 1.5) * rng.standard_normal(heads * d)
        fit = least_squares(rest, start, slopes, method="lm", max_nfev=_EVALUATIONS)
        if np.sqrt(2 * fit.cost) < _FITTED * size:
            outputs = eliminated(fit.x)[2]
            whole = np.linalg.lstsq(delta, odd, rcond=None)[0]
            signs = np.linalg.lstsq(outputs.reshape(heads, -1).T, whole.ravel(), rcond=None)[0]
            return np.sign(signs)[:, None, None] * outputs
    return None


def _divided(
    fits: list[tuple[np.ndarray, np.ndarray]], heads: int
) -> tuple[Float[np.ndarray, "m d d"], Float[np.ndarray, "m d d"]]:
    """The outputs of the first block's heads, and of the second's, from two places with their Jacobians J.

    Heads of the first have W_i J: times J^-1 they are the same in both places. Heads of the second have P J W'_k.
    """
    (slope, outputs), (other_slope, others) = fits
    own, other = outputs @ np.linalg.inv(slope), others @ np.linalg.inv(other_slope)
    apart = np.linalg.norm(own[:, None] - other[None], axis=(2, 3)).min(axis=1)
    order = np.argsort(apart / np.linalg.norm(own, axis=(1, 2)))
    first = own[order[:heads]]
    into = (np.eye(len(slope)) - first.sum(axis=0)) @ slope
    return first, np.linalg.solve(into, outputs[order[heads:]])


def _layers(
    oracle: ValueOracle,
    map_: StackMap,
    places: Float[np.ndarray, "n d"],
    first: Float[np.ndarray, "m d d"],
    second: Float[np.ndarray, "m d d"],
    rng: np.random.Generator,
) -> tuple[AttentionLayer, AttentionLayer]:
    """Both layers, from their outputs: in every place d differences show all logits, and those are linear."""
    m, d = first.shape[:2]
    inverse = np.eye(d) - first.sum(axis=0)
    logits = np.zeros((2, len(places), m, d))
    behind = map_.first(places)
    for n, x in enumerate(places):
        slope = map_.first.jacobian(x[None])[0]
        into = inverse @ slope
        outputs = np.concatenate([first @ slope, into @ second])
        delta = _LOGITS / 2 / np.sqrt(d) * rng.standard_normal((_LOGIT_PAIRS * d, d))
        moved = _moved(oracle, map_, x, delta)
        along = (delta @ outputs).transpose(1, 2, 0)
        shares = np.clip((np.linalg.pinv(along) @ moved[:, :, None])[..., 0], 1e-6, 1 - 1e-6)
        weight = shares * (1 - shares)  # a logit is uncertain where the share is near 0 or 1
        values = np.log(shares / (1 - shares))
        of_heads = np.array(
            [
                np.linalg.lstsq(delta * weight[:, [i]], values[:, i] * weight[:, i], rcond=None)[0]
                for i in range(2 * m)
            ]
        )
        logits[0, n] = _LENGTH * of_heads[:m]
        logits[1, n] = _LENGTH * np.linalg.solve(into, of_heads[m:].T).T
    layers = []
    for tokens, rows, w in zip((places, behind), logits, (first, second), strict=True):
        design = np.concatenate([tokens / _LENGTH, np.ones((len(tokens), 1))], axis=1)
        solved = np.linalg.lstsq(design, rows.reshape(len(rows), -1), rcond=None)[0].reshape(d + 1, m, d)
        layers.append(AttentionLayer(solved[:d].swapaxes(0, 1) / _LENGTH, w, solved[d]))
    return layers[0], layers[1]


def _last_fit(oracle: ValueOracle, stack: Stack, rng: np.random.Generator) -> Stack:
    """Both layers fitted by least squares, on pairs of short tokens, whose answers go back through g2.

    O(p^3 + n p^2) a step, p = 2 m d (2 d + 1).
    """
    m, d = stack.layers[0].w.shape[:2]
    unknowns = 2 * m * d * (2 * d + 1)
    x = rng.standard_normal((int(_LAST * unknowns / (2 * d)), 2, d))
    answers = oracle.ask(x).reshape(-1, d)
    start = stack.behind(x).reshape(-1, d)
    wanted = stack.map.second.inverse(answers, start, np.zeros_like(start)).reshape(x.shape)
    seen = np.isfinite(wanted).all(axis=(1, 2))
    x, wanted = x[seen], wanted[seen]

    def rest(step: np.ndarray) -> np.ndarray:
        return (_stepped(stack, step).behind(x) - wanted).ravel()

    with np.errstate(all="ignore"):  # steps so long that numbers overflow are shortened
        fit = least_squares(rest, np.zeros(unknowns), x_scale="jac", max_nfev=_STEPS)
    return _stepped(stack, fit.x)


def _stepped(stack: Stack, step: Float[np.ndarray, " p"]) -> Stack:
    m, d = stack.layers[0].w.shape[:2]
    layers = []
    for layer, part in zip(stack.layers, np.split(step, 2), strict=True):
        theta, bias, w = np.split(part, [m * d * d, m * d * (d + 1)])
        layers.append(
            AttentionLayer(
                layer.theta + theta.reshape(m, d, d),
                layer.w + w.reshape(m, d, d),
                layer.key_bias + bias.reshape(m, d),
            )
        )
    return Stack((layers[0], layers[1]), stack.map)
