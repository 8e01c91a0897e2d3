"""Recovery from answers with noise: how far to stretch differences, how often to ask, and what to count tokens from."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer, Recorder
from upper.value_queries.logits import read_noisy_logits
from upper.value_queries.polish import KeptAnswers, Parameters, polish
from upper.value_queries.separation import FirstHeads, first_heads, follow_heads, numbered, read_heads
from upper.value_queries.two_tokens import TwoTokens, find_scale, linear_part, orthonormal, rank_of_values

# The noise that is wanted on g, relative to its entries, and the most that the separation bears.
_QUIET, _BORNE = 1e-6, 2e-3
# Differences are at least so many times as long, if they may be: the prediction is then better than an answer.
_LEAST_STRETCH = 32.0
# Equal tokens are so many times as long as others may be.
_LONGER = 16.0
# A query is asked so often at most.
_REPEATS = 4096
# Biases may move the weights of a zero token so far from one half, relative to what heads put out.
_MOVED, _DIRECTIONS = 0.6, 4
# Errors of the centre count this share of a logit after the next stretch, which is so many times as long at most.
_OFF, _GROWTH = 0.1, 8.0
# Logits of biases are noise where they are below so many times the noise on g.
_LOUD = 30.0


def recover_from_noise(
    kept: KeptAnswers,
    noise: float,
    *,
    m: int | None,
    most: float,
    rng: np.random.Generator,
    recorder: Recorder,
) -> AttentionLayer | None:
    """All heads from answers with noise of this standard deviation, or None where they are not separated.

    Heads are separated and followed as without noise, with longer differences. They are then read once more at the
    differences themselves, and the logits from one row of each answer. Then all parameters are fitted to all answers.
    Where biases limited the stretch, these two steps are repeated further out.

    Parameters
    ----------
    m : int or None
        Heads; None counts them.
    most : float
        The longest stretch.
    """
    length = _LONGER * most
    linear = linear_part(kept, noise=noise, length=length)
    recorder.step("Equal tokens")
    remaining = kept.remaining
    budget = None if remaining is None else remaining // (8 * kept.d)
    loud = choose_stretch(TwoTokens(kept, linear, noise), most, budget, rng)
    del kept.kept[1:]  # polish takes answers of one stretch
    if loud is not None and loud.pairs.repeats > 1:  # the linear part counts in every value
        linear = linear_part(kept, noise=noise, length=length, repeats=loud.pairs.repeats)
        loud = replace(loud, pairs=replace(loud.pairs, linear=linear))
    if loud is None:
        return linear.layer
    rank = rank_of_values(loud.pairs, loud.scale, rng)
    heads = rank if m is None else m
    recorder.step(
        "Heads counted",
        heads=heads,
        rank=rank,
        scale=loud.scale,
        stretch=loud.pairs.stretch,
        answers=loud.pairs.repeats,
    )
    if heads > rank:
        recorder.step("Fewer heads are seen than asked for", heads=heads, rank=rank)
    first = first_heads(loud.pairs, heads, loud.scale, rng) if 0 < heads <= rank else None
    if first is None:
        recorder.step("No pencil separates the heads", heads=heads)
        return None
    recorder.step("Heads separated", residual=first.residual, **numbered(first.condition))
    followed = follow_heads(loud.pairs, first, loud.scale, rng)
    if followed is None:
        recorder.step("Heads fall together", heads=heads)
        return None
    w, directions = followed
    recorder.step("Projections")
    found = _with_logits(loud, w, directions)
    while True:
        found = _read_again(loud, first, directions, found)
        for name in ("Read again", "Polished"):
            if name == "Polished":
                found = polish(found, kept.kept)
            layer = _without_noise(found, loud).layer
            recorder.step(name, layer=layer, stretch=loud.pairs.stretch)
        further = stretched_further(loud, Centre(found.theta, found.key_bias))
        if further is None:
            return layer
        loud = further


def _without_noise(found: Parameters, loud: "Loudness") -> Parameters:
    """The same without biases that are no larger than noise makes them."""
    far = loud.scale * loud.pairs.stretch
    if (
        np.abs(found.bias).max() > loud.pairs.noise
        or np.abs(found.key_bias).max() * far > _LOUD * loud.relative
    ):
        return found
    return replace(found, key_bias=np.zeros_like(found.key_bias), bias=np.zeros_like(found.bias))


def _read_again(loud: "Loudness", first: FirstHeads, directions: np.ndarray, found: Parameters) -> Parameters:
    w = read_heads(loud.pairs, first.plane, directions, loud.scale, found)
    return _with_logits(loud, w, directions)


def _with_logits(loud: "Loudness", w: np.ndarray, directions: np.ndarray) -> Parameters:
    # the sum is known best, from the longest tokens
    w = w + (loud.pairs.linear.projection_sum - w.sum(axis=0)) / len(w)
    logits = read_noisy_logits(loud.pairs, w, directions, loud.scale)
    return Parameters(logits.theta, w, logits.key_bias, loud.pairs.linear.bias)


@dataclass(frozen=True)
class Loudness:
    """Two tokens with their scale, and the noise on their values."""

    pairs: TwoTokens
    scale: float
    relative: float  #: the noise on an entry of g over the root mean square of the entries
    wanted: float  #: the stretch that makes it small enough


def choose_stretch(
    pairs: TwoTokens, most: float, budget: int | None, rng: np.random.Generator
) -> Loudness | None:
    """The scale, and as long a stretch as noise asks for and biases allow; the rest is left to averages.

    A difference that is L times as long makes logits of L c_i . delta even at a zero token, so L is limited until c_i
    is known. None where the weights do not depend on the tokens.
    """
    length = _longest(pairs, most, rng)
    loud = replace(pairs, stretch=max(1.0, min(length, most)))
    scale = find_scale(loud, rng)
    if scale is None:
        return None
    size = _size(loud, scale, rng)
    # values of a stretch are as large as those of any other
    wanted = float(np.clip(pairs.noise / (size * _QUIET), min(_LEAST_STRETCH, most), most))
    stretch = max(1.0, min(wanted, length / scale))
    relative = pairs.noise / (size * stretch)
    repeats = int(np.clip(np.ceil((relative / _BORNE) ** 2), 1, _REPEATS))
    if budget is not None:
        repeats = max(1, min(repeats, budget))
    return Loudness(
        replace(pairs, stretch=stretch, repeats=repeats), scale, relative / float(np.sqrt(repeats)), wanted
    )


def _longest(pairs: TwoTokens, most: float, rng: np.random.Generator) -> float:
    """The longest difference at which a zero token's weights are near one half in every head."""
    d = pairs.oracle.d
    directions = orthonormal(rng, min(_DIRECTIONS, d), d)
    length = float(most) * np.sqrt(d)
    while length > 1:
        stretched = replace(pairs, stretch=length)
        values = np.stack([stretched(np.zeros((1, d)), delta)[0][0] for delta in directions])
        half = directions @ pairs.linear.projection_sum / 2
        if pairs.oracle.k is not None:  # unequal numbers of the two tokens
            half = half * 2 * ((pairs.oracle.k + 1) // 2) / pairs.oracle.k
        if np.linalg.norm(values - half) < _MOVED * np.linalg.norm(half) + 3 * pairs.noise / length * np.sqrt(
            values.size
        ):
            break
        length /= 2
    return length


def _size(pairs: TwoTokens, scale: float, rng: np.random.Generator) -> float:
    """The root mean square of the entries of g at the scale."""
    d = pairs.oracle.d
    x = 2 * scale / np.sqrt(d) * rng.standard_normal((8, d))
    values = np.concatenate(pairs(x, scale * orthonormal(rng, 1, d)[0]))
    return float(np.sqrt(np.mean(values**2)))


@dataclass(frozen=True)
class Centre:
    """The shortest token whose logits on all others far from it are zero, in every head: where the weights are even."""

    theta: Float[np.ndarray, "m d d"]
    key_bias: Float[np.ndarray, "m d"]

    def __call__(self, far: Float[np.ndarray, "*batch s d"]) -> Float[np.ndarray, "*batch d"]:
        """The x with (x Theta_i + c_i) . t = 0 for every head and every t of `far`, in the sense of least squares."""
        *batch, _, d = far.shape
        far = far / np.linalg.norm(far, axis=-1, keepdims=True)
        slopes = np.einsum("mde,...se->...msd", self.theta, far).reshape(*batch, -1, d)
        offsets = np.einsum("me,...se->...ms", self.key_bias, far).reshape(*batch, -1, 1)
        return -(np.linalg.pinv(slopes) @ offsets)[..., 0]


def stretched_further(loud: Loudness, centre: Centre) -> Loudness | None:
    """The next stretch, with tokens counted from where the weights are even; None where it is as long as wanted.

    The centre is known as well as the parameters are, to some ten times the noise relative to g.
    """
    pairs = loud.pairs
    if pairs.stretch >= loud.wanted:
        return None
    growth = min(_GROWTH, _OFF / (10 * loud.relative))
    stretch = min(loud.wanted, pairs.stretch * growth)
    if growth < 2:
        return None
    relative = loud.relative * np.sqrt(pairs.repeats) * pairs.stretch / stretch
    return replace(
        loud, pairs=replace(pairs, stretch=stretch, repeats=1, centre=centre), relative=float(relative)
    )
