"""The map of one token: the scale of its tokens, its activation, and all of it from queries far away and near."""

from dataclasses import dataclass
from enum import Enum
from functools import partial

import numpy as np
from jaxtyping import Float

from attention import Norm, Recorder, ValueOracle
from attention.feed_forward import Activation
from upper.blocks.far_field import TUBE, directions, tube_scales
from upper.blocks.kinks import Ask, Path, find_regions, half_circle
from upper.blocks.separable_fit import fit_offsets
from upper.blocks.sphere import Sphere
from upper.blocks.sphere_network import read_smooth
from upper.blocks.token_map import TokenMap


class NoNetwork(Enum):
    """Why no network of one hidden layer, or no block, was found; the value is a sentence."""

    COARSE = "Answers are rounded to float32: what far tokens show is lost; ask in float64 (model.double())."
    NOISY = (
        "Answers carry noise larger than what far tokens show; answers in float64 without noise are needed."
    )
    NO_NEURON = "One token is answered by a bias and a linear map: there is no neuron."
    KINKS_TOO_NEAR = (
        "Kinks are too near to one another at every radius, as those of equal or parallel neurons."
    )
    NO_CURVATURES = (
        "The activation is bounded, but no network is read from second derivatives: there may be too many neurons for "
        "so few coordinates."
    )
    TOO_WIDE = "There are more than d^2 neurons: the linear part does not determine their signs."
    NO_SIGNS = "No choice of signs makes the linear part the identity or zero."
    NO_PAIRS = "No choice of signs agrees with pairs of tokens: the attention is no layer, or one token is not its own."
    NO_PREIMAGE = "No answer to a pair of tokens has a preimage under the map of one token near them."
    NO_LAYER = "Behind the network no attention layer was found."
    NOT_ON_SPHERE = (
        "Far from the origin answers depend on directions alone, as behind norms, but no network is read: there may be "
        "another activation, too many neurons for so few coordinates, or a neuron of far smaller outputs than others."
    )
    NO_SIGNS_BEHIND_NORMS = (
        "There are norms first, but no choice of signs agrees with tokens of medium length, as where a neuron of ReLU "
        "is on for almost all tokens, or where eps is about 1."
    )
    NO_NEURONS_BETWEEN_NORMS = (
        "The block ends with a norm (post-norm). The network before it is not read: this takes a LayerNorm before it, "
        "eps of 1e-4 at most, and ReLU with biases, or GELU or tanh with 16 coordinates or more."
    )
    NO_SIGNS_BETWEEN_NORMS = (
        "No choice of signs makes the linear part between the norms diagonal, as where a neuron of ReLU is on for "
        "almost all tokens."
    )
    ODD_TOKENS = "Behind a norm, attention is read from queries of two tokens, or of an even number."
    SPENT = "The queries are spent."
    NOT_REPRODUCED = "Answers to short tokens are not those of ReLU, GELU or tanh."

    @property
    def explanation(self) -> str:
        """The sentence, for a `Fit` whose details this is."""
        return str(self.value)


def one_token(oracle: ValueOracle) -> Ask:
    """The answers to equal tokens: every head gives equal tokens equal weights, and all rows are alike."""

    def ask(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        if not len(x):
            return x
        return oracle.ask(np.repeat(x[:, None], oracle.tokens or 1, axis=1))[:, -1]

    return ask


@dataclass(frozen=True)
class _Search:
    """Radii, lengths and numbers of queries; each was measured on nice networks and on two trained ones."""

    precision: int = 2  #: tokens whose answers tell whether they are float32
    rays: int = 5  #: random rays, of which the median scale is taken
    doublings: int = 80  #: a scale lies between 2^-80 and 2^80
    #: the even part of g turns from quadratic to linear where it grows by 2^1.5 in a doubling
    turn: float = 2.0**1.5
    rounding: float = 1e-12  #: an even part below this share of the answers is rounding
    #: a bounded even part grows by less than this between 1e3 and 1e4 times the scale
    bounded: float = 3.0
    places: int = 5  #: places at which second differences tell ReLU from a smooth activation
    difference: float = 1e-4  #: their step, in units of the scale
    straight: float = 1e-12
    #: the first radius, in units of the scale: kinks of thousands of neurons are apart, with their tubes. Smaller and
    #: larger ones, 1e6 to 1e9, give the same digits
    radius: float = 1e8
    larger: float = 8.0  #: the radius grows by this where kinks are too near
    radii: int = 9  #: half circles at most
    tube: float = 20.0  #: kinks are too near below this many scales, as GELU has tubes
    #: the points of a bounded activation lie on spheres of these radii, in units of the scale: on a small one a neuron
    #: may hardly bend (1 of 20 nice networks), and on a large one more of them saturate
    spheres: tuple[float, ...] = (0.5, 1.0, 2.0)
    #: short tokens, for every neuron and coordinate; their lengths in units of the scale, or for ReLU
    #: of sqrt(d) times the largest distance of a plane from the origin
    tokens: float = 1.5
    reach: float = 8.0
    relu_reach: float = 4.0
    #: a plane is far out beyond so many standard deviations of the longest short tokens
    far: float = 2.0
    #: of the equations that offsets and scales leave, this share may fit directions, of so many unknowns at most
    spare: float = 0.7
    unknowns: int = 600
    #: directions are unsure that are so many times less certain than the median
    unsure: float = 10.0
    #: the radius is at least so many times the distance of the farthest plane
    around: float = 1e3
    #: a fit with a larger relative error has a wrong kink; with one between, another half circle may give more digits
    wrong: float = 1e-7
    good: float = 1e-9


_SEARCH = _Search()


def read_token_map(ask: Ask, dim: int, rng: np.random.Generator, recorder: Recorder) -> TokenMap | NoNetwork:
    """All of g, up to the signs of neurons: kinks on a half circle, weights from Jacobians, offsets near the origin.

    A wrong kink shows in the fit: then another half circle is taken, with a larger radius.
    """
    zero = ask(np.zeros((1, dim)))[0]
    some, again = np.split(ask(np.tile(rng.standard_normal((_SEARCH.precision, dim)), (2, 1))), 2)
    if not np.array_equal(some, again):
        return NoNetwork.NOISY
    if np.array_equal(some, some.astype(np.float32)) and np.any(some != np.round(some)):
        return NoNetwork.COARSE
    scale = _scale(ask, zero, dim, rng)
    if scale is None:
        return NoNetwork.NO_NEURON
    kind = _activation(ask, zero, scale, dim, rng)
    recorder.step("Scale of tokens", scale=scale)
    if kind == "tanh":
        return _from_curvatures(ask, scale, dim, rng, recorder)
    best, least = None, np.inf
    radius = first = _SEARCH.radius * scale
    for _ in range(_SEARCH.radii):
        read = _far_away(ask, kind, scale, half_circle(radius, dim, rng), rng)
        if read is None:
            radius *= _SEARCH.larger
            continue
        start, uncertain = read
        if not len(uncertain):  # at a larger radius, steps drown in rounding
            return NoNetwork.NO_NEURON if radius == first else NoNetwork.KINKS_TOO_NEAR
        recorder.step("Kinks and Jacobians", neurons=len(uncertain), radius=radius, worst=uncertain.max())
        farthest = float(np.max(np.abs(start.a) / np.linalg.norm(start.u, axis=1)))
        if radius < _SEARCH.around * farthest:  # a half circle around few planes meets some twice
            radius = _SEARCH.radius * farthest
            continue
        g, error = _near_the_origin(ask, start, uncertain, scale, rng)
        recorder.step("Offsets, scales and outputs", error=error)
        if error < least:
            best, least = g, error
        if least < _SEARCH.good:
            break
        if error > _SEARCH.wrong:
            radius *= _SEARCH.larger
    if best is None:
        return NoNetwork.KINKS_TOO_NEAR
    return best if least < _SEARCH.wrong else NoNetwork.NOT_REPRODUCED


def _far_away(
    ask: Ask, kind: Activation, scale: float, path: Path, rng: np.random.Generator
) -> tuple[TokenMap, np.ndarray] | None:
    """Neurons from a path, without outputs, and how uncertain each weight is; None where kinks are too near."""
    smooth = kind == "gelu"
    regions = find_regions(ask, path, rng, least=_SEARCH.tube * scale)
    if regions is None:
        return None
    h, d = regions.jumps.shape
    sizes = tube_scales(ask, regions, scale) if smooth else np.full(h, np.inf)
    regions = None if sizes is None else regions.read_again(ask, TUBE / sizes)
    if sizes is None or regions is None:
        return None
    read = directions(ask, regions, TUBE / sizes, rng) if h else (np.zeros((0, d)), np.zeros(0))
    if read is None:
        return None
    u, uncertain = read
    if not smooth:  # the scale of ReLU is free
        sizes = 1 / np.linalg.norm(u, axis=1)
    u = u * sizes[:, None]
    a = -np.sum(u * path.at(regions.segment[regions.left], regions.kinks), axis=1)
    return TokenMap.of_neurons(kind, u, a), uncertain


def _from_curvatures(
    ask: Ask, scale: float, dim: int, rng: np.random.Generator, recorder: Recorder
) -> TokenMap | NoNetwork:
    """All of g with a bounded activation: neurons to 1e-3 from second derivatives, and then to rounding.

    Tokens are n L for n on a sphere of d + 2 dimensions. So the frame of a great circle may have d directions.
    """
    far = _SEARCH.radius * scale * np.eye(dim)
    linear = (ask(far) - ask(-far)) / (2 * _SEARCH.radius * scale)
    # neurons of a block are A w for those w of its network: tokens n A^-1 see w
    into = np.linalg.inv(linear) if np.linalg.cond(linear) < _SEARCH.radius else np.eye(dim)
    scale = _scale(lambda n: ask(n @ into), ask(np.zeros((1, dim)))[0], dim, rng) or scale
    plane = np.linalg.qr(rng.standard_normal((dim, 2)))[0].T
    why = NoNetwork.NO_CURVATURES
    for radius in _SEARCH.spheres:
        spread = radius * scale / np.sqrt(dim) * np.concatenate([np.eye(dim), plane]) @ into
        answers = partial(_spread, ask, spread)
        start = read_smooth(Sphere(answers, Norm.plain(dim + 2, 0.0, centred=False)), rng, recorder)
        if start is None:
            continue
        h = len(start.u)
        n = rng.standard_normal((int(_SEARCH.tokens * (2 * h + dim)) + 8, dim))
        x = scale / np.sqrt(dim) * 4 ** (rng.random((len(n), 1)) - 0.5) * n @ into
        u = np.linalg.solve(spread[:dim], start.u[:, :dim].T).T
        g, error = fit_offsets(x, ask(x), TokenMap.of_neurons(start.activation, u, start.a), np.arange(h))
        recorder.step("Offsets, weights and outputs", error=error)
        if error < _SEARCH.wrong:
            return g
        why = NoNetwork.NOT_REPRODUCED
    return why


def _spread(
    ask: Ask, spread: Float[np.ndarray, "D d"], n: Float[np.ndarray, "n D"]
) -> Float[np.ndarray, "n D"]:
    return np.pad(ask(n @ spread), ((0, 0), (0, 2)))


def _near_the_origin(
    ask: Ask, start: TokenMap, uncertain: np.ndarray, scale: float, rng: np.random.Generator
) -> tuple[TokenMap, float]:
    """The map fitted to short tokens, with the directions of neurons that are much less certain than others."""
    by = _SEARCH
    h, d = start.u.shape
    n = int(np.ceil(by.tokens * (h + d)))
    x = rng.standard_normal((n, d))
    length = scale * by.reach ** rng.random((n, 1))
    farthest = np.max(np.abs(start.a) / np.linalg.norm(start.u, axis=1))
    # so long that every neuron is on for some and off for others; GELU needs them where a plane is far out
    long = np.full((n, 1), start.activation == "relu")
    if farthest > by.far * by.reach * scale / np.sqrt(d):
        long |= rng.random((n, 1)) < 0.5
    length = np.where(long, by.relu_reach * np.sqrt(d) * farthest * rng.random((n, 1)), length)
    x *= length / np.linalg.norm(x, axis=1, keepdims=True)
    most = int(min(by.spare * ((n - h - d - 1) * d - 2 * h), by.unknowns)) // d
    unsure = np.argsort(-uncertain)[: max(0, most)]
    return fit_offsets(x, ask(x), start, unsure[uncertain[unsure] > by.unsure * np.median(uncertain)])


def _scale(ask: Ask, zero: np.ndarray, dim: int, rng: np.random.Generator) -> float | None:
    """The length of tokens at which the even part of g turns from quadratic to linear; None if there is none."""
    by = _SEARCH
    rays = rng.standard_normal((by.rays, dim))
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    power, direction = np.zeros(by.rays, dtype=int), np.zeros(by.rays, dtype=int)
    turning = np.arange(by.rays)
    seen: dict[tuple[int, int], float] = {}
    for _ in range(by.doublings):
        wanted = [(int(ray), int(power[ray]) + more) for ray in turning for more in (0, 1)]
        new = [pair for pair in wanted if pair not in seen]
        if new:
            x = np.array([2.0**at * rays[ray] for ray, at in new])
            answers = ask(np.concatenate([x, -x])).reshape(2, len(new), dim)
            even = np.linalg.norm(answers[0] + answers[1] - 2 * zero, axis=1)
            even[even < by.rounding * np.abs(answers).max(axis=(0, 2))] = 0.0
            seen |= dict(zip(new, even.tolist(), strict=True))
        still = []
        for ray in turning.tolist():
            way = 1 if seen[ray, int(power[ray]) + 1] >= by.turn * seen[ray, int(power[ray])] else -1
            if direction[ray] != -way:
                direction[ray] = way
                power[ray] += way
                still.append(ray)
        turning = np.array(still, dtype=int)
        if not len(turning):
            break
    return None if len(turning) > by.rays // 2 else float(2.0 ** np.median(power))


def _activation(ask: Ask, zero: np.ndarray, scale: float, dim: int, rng: np.random.Generator) -> Activation:
    """Which activation: tanh is bounded; ReLU is linear in most small places."""
    by = _SEARCH
    ray = rng.standard_normal((1, dim))
    ray *= scale / np.linalg.norm(ray)
    answers = ask(np.concatenate([1e3 * ray, -1e3 * ray, 1e4 * ray, -1e4 * ray]))
    near, far = (np.linalg.norm(answers[i] + answers[i + 1] - 2 * zero) for i in (0, 2))
    if far < by.bounded * near:
        return "tanh"
    steps = rng.standard_normal((2, by.places, 1, dim))
    steps *= scale / np.linalg.norm(steps, axis=3, keepdims=True)
    x = steps[0] + by.difference * np.array([-1.0, 0.0, 1.0])[:, None] * steps[1]
    answers = ask(x.reshape(-1, dim)).reshape(x.shape)
    bend = np.abs(answers[:, 0] + answers[:, 2] - 2 * answers[:, 1]).max(axis=1)
    return "relu" if np.median(bend) < by.straight * np.abs(answers).max() else "gelu"
