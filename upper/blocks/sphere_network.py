"""Smooth networks on the sphere: neurons from second differences beside a great circle."""

from dataclasses import dataclass
from typing import get_args

import numpy as np
from jaxtyping import Float

from attention import Recorder
from attention.feed_forward import Activation, activation
from upper.blocks.profiles import curvature, fit_waves
from upper.blocks.rank_ones import squares, squares_and_identity, squares_in_span, vectors_of
from upper.blocks.sphere import CircleJet, Sphere, read_circle
from upper.blocks.token_map import TokenMap


@dataclass(frozen=True)
class _Reading:
    """Numbers of queries, and what tells a network."""

    width: int = 4  #: the largest number of neurons over d that frame and centres have room for
    least: int = 2  #: directions of a frame
    spare: float = 1.5  #: outputs at all centres, for each of the dimensions that are spanned
    tried: int = 12  #: neurons whose profiles tell the activation
    rounds: int = 3  #: of profiles and lengths in turn
    misfit: float = (
        0.05  #: the largest of a profile, relative to the median of profiles: the fit repairs the rest
    )


_READING = _Reading()


def read_smooth(
    sphere: Sphere, rng: np.random.Generator, recorder: Recorder, *, share: float = 1.0
) -> TokenMap | None:
    """The u and a of the neurons of S, to 1e-3 and up to their signs; None if S is no network.

    1. Along a frame orthogonal to a great circle, second derivatives at all its points are sums of
       act''(t_j) v_j (E u_j)(E u_j)^T, less a multiple of the identity, and span h + 1 dimensions (`squares_in_span`).
       Of directions f of w, f_ab = r w_ab + (r_a / r) f_b + (r_b / r) f_a + (...) f. Outputs off the span of f and all
       f_a show w_ab alone.
    2. v_j is the direction whose parts off these spans are the coefficients of (E u_j)(E u_j)^T, at all centres.
    3. Second derivatives along the circle and the frame give u_j on the plane of the circle; of directions also the
       logarithmic derivative of r there, as what is left of f_ab gives r_a / r. So act'' is known (`fit_waves`).
    4. First derivatives are linear in the rest.

    Of directions, the frame takes off at most this share of the outputs: a larger frame has room for more neurons, and
    needs more centres.
    """
    by, d = _READING, sphere.norm.dim
    frame = min(int(np.ceil(2 * np.sqrt(by.width * d + 1))), int(share * d), d - 2)
    if frame < by.least:
        return None
    outputs = d - sphere.only_directions * (frame + 1)  # at every centre
    points = max(sphere.centres, 2 * int(np.ceil(by.spare * by.width * d / outputs / 2)))
    jet = read_circle(sphere, points, frame, rng)
    recorder.step("Second derivatives on a circle", points=points, frame=frame)
    vectors = vectors_of(jet.curvatures)
    off = np.broadcast_to(np.eye(d), (points, d, d))
    if sphere.only_directions:
        spans = np.concatenate([jet.values[:, None], jet.slopes[:, :frame]], axis=1)
        off = np.stack([np.eye(d) - basis @ basis.T for basis in np.linalg.qr(spans.swapaxes(1, 2))[0]])
    projected = off @ vectors
    x = squares_in_span(projected.reshape(points * d, -1), rng, recorder, points * outputs - 1)
    if x is None:
        return None
    v, weights = _outputs(off, projected, x)
    rate, in_plane = _along_circle(sphere, jet, vectors, x, v, weights)
    lengths = np.exp(_integral(rate))
    waves = in_plane @ np.array([np.cos(jet.angles), np.sin(jet.angles)])
    size = np.linalg.norm(weights, axis=0)
    strongest = np.argsort(-size)[: by.tried]
    smooth = [kind for kind in get_args(Activation) if kind != "relu"]
    tried = {
        kind: np.median(_profiles(sphere, kind, weights[:, strongest], waves[strongest], lengths)[3])
        for kind in smooth
    }
    kind = min(smooth, key=lambda name: float(tried[name]))
    sizes, a, lengths, misfit = _profiles(sphere, kind, weights, waves, lengths)
    recorder.step(f"Profiles of {kind}", worst=float(misfit.max()))
    if not np.max(misfit * size) <= by.misfit * np.median(size):
        return None
    arguments = np.column_stack([sizes[:, None] * in_plane, a])
    g = _assembled(kind, jet, _known(sphere, jet), v, weights / lengths[:, None], lengths, arguments)
    return g if np.isfinite(g.u).all() else None


def _known(sphere: Sphere, jet: CircleJet) -> Float[np.ndarray, "p d"]:
    """What answers do not show at each point: unit vectors along directions, or 0."""
    return sphere.only_directions * jet.values / np.linalg.norm(jet.values, axis=1, keepdims=True)


def _outputs(
    off: Float[np.ndarray, "p d d"], projected: Float[np.ndarray, "p d s"], x: Float[np.ndarray, "h q"]
) -> tuple[Float[np.ndarray, "h d"], Float[np.ndarray, "p h"]]:
    """Directions of the v_j and the factors of v_j x_j x_j^T in the second derivatives at all centres."""
    seen = off @ (projected @ np.linalg.pinv(squares_and_identity(x)))[:, :, : len(x)]
    sizes = np.sum(seen**2, axis=1)
    across = np.tensordot(sizes.T, off, axes=1) - np.einsum("pah,pbh->hab", seen, seen)
    v = np.linalg.eigh(across)[1][:, :, 0]
    parts = off @ v.T
    return v, np.sum(seen * parts, axis=1) / np.sum(parts**2, axis=1)


def _along_circle(
    sphere: Sphere, jet: CircleJet, vectors: np.ndarray, x: np.ndarray, v: np.ndarray, weights: np.ndarray
) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, "h 2"]]:
    """The derivative of log r in the angle, and u_j / |E u_j| on the plane of the circle."""
    (p, d, q, _), h = jet.curvatures.shape, len(v)
    radius = np.sqrt(d)
    gram, right = np.zeros((2 * h + p, 2 * h + p)), np.zeros(2 * h + p)
    parallel = x @ x.T
    i, j = np.triu_indices(q, 1)
    for at, f in enumerate(_known(sphere, jet)):
        off = np.eye(d) - np.outer(f, f)
        slopes = sphere.only_directions * radius * jet.slopes[at, :q] @ off
        seen = off @ v.T
        left = off @ vectors[at] - (seen * weights[at]) @ squares(x)
        rest = np.zeros((d, q, q))
        rest[:, np.arange(q), np.arange(q)] = left[:, :q] - left[:, :q].mean(axis=1, keepdims=True)
        rest[:, i, j] = rest[:, j, i] = left[:, q:] / np.sqrt(2)
        # rest = sum_a (r_a / r) (e_a f^T + f e_a^T) less the multiples of the identity
        products = slopes @ slopes.T
        normal = 2 * (np.trace(products) * np.eye(q) + products) - 4 * products / q
        across = np.linalg.pinv(normal) @ (2 * np.einsum("dab,bd->a", rest, slopes))
        turned = (jet.turned[at] - across[:, None] * radius * jet.tangents[at]) @ off
        direction = (-np.sin(jet.angles[at]), np.cos(jet.angles[at]))
        own = (seen.T @ v.T) * parallel * np.outer(weights[at], weights[at])
        by_turned, by_slopes = (weights[at] * np.sum((x @ y) * seen.T, axis=1) for y in (turned, slopes))
        border = np.concatenate([direction[0] * by_slopes, direction[1] * by_slopes])
        gram[: 2 * h, : 2 * h] += np.kron(np.outer(direction, direction), own)
        gram[: 2 * h, 2 * h + at] = gram[2 * h + at, : 2 * h] = border
        gram[2 * h + at, 2 * h + at] = np.sum(slopes**2)
        right[: 2 * h] += np.concatenate([direction[0] * by_turned, direction[1] * by_turned])
        right[2 * h + at] = np.sum(slopes * turned)
    size = np.sqrt(np.maximum(np.diag(gram), np.finfo(float).tiny))
    solved = np.linalg.lstsq(gram / np.outer(size, size), right / size, rcond=1e-13)[0] / size
    return solved[2 * h :], solved[: 2 * h].reshape(2, h).T


def _integral(rate: Float[np.ndarray, " p"]) -> Float[np.ndarray, " p"]:
    """The integral, with mean 0, of a function on a circle from its values at p points, p even."""
    p = len(rate)
    frequency = np.fft.fftfreq(p, 1 / p)
    inverse = np.zeros(p)
    kept = np.abs(frequency) < p // 2
    kept[0] = False
    inverse[kept] = 1 / frequency[kept]
    return np.imag(np.fft.ifft(np.fft.fft(rate) * inverse))


def _profiles(
    sphere: Sphere, kind: Activation, weights: np.ndarray, waves: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Sizes, offsets, lengths r and misfits: of directions, profiles give r again, as all neurons share it."""
    for _ in range(_READING.rounds):
        sizes, a, misfit = fit_waves(kind, (weights / lengths[:, None]).T, waves)
        if not sphere.only_directions:
            break
        right = misfit <= 2 * np.median(misfit)
        bend = curvature(kind, sizes[:, None] * waves + a[:, None])[right]
        for _ in range(_READING.rounds):
            profiles = (weights[:, right] / lengths[:, None]).T
            expected = bend * (np.sum(profiles * bend, axis=1) / np.sum(bend**2, axis=1))[:, None]
            with np.errstate(all="ignore"):  # wrong neurons may have no curvature
                lengths = lengths * np.sum(profiles * expected, axis=0) / np.sum(expected**2, axis=0)
    return sizes, a, lengths, misfit


def _assembled(
    kind: Activation,
    jet: CircleJet,
    f: Float[np.ndarray, "p d"],
    v: np.ndarray,
    profiles: Float[np.ndarray, "p h"],
    lengths: Float[np.ndarray, " p"],
    arguments: Float[np.ndarray, "h 3"],
) -> TokenMap:
    """The neurons; first derivatives off f are linear in u_j |v_j| and the linear part."""
    (p, d, q, _), h = jet.curvatures.shape, len(v)
    t = arguments @ np.array([np.cos(jet.angles), np.sin(jet.angles), np.ones(p)])
    slope, bend = activation(kind, t, derivative=True), curvature(kind, t)
    off = np.eye(d) - f[:, :, None] * f[:, None]
    design = np.concatenate([(off @ v.T) * slope.T[:, None], off], axis=2) * lengths[:, None, None]
    slopes = off @ np.swapaxes(jet.slopes, 1, 2)
    across = np.linalg.lstsq(design.reshape(p * d, -1), slopes.reshape(p * d, -1), rcond=None)[0][:h]
    factor = np.sum(profiles.T * bend, axis=1) / np.sum(bend**2, axis=1) / d  # |v_j| |E u_j|^2
    sizes = np.sum(across[:, :q] ** 2, axis=1) / factor  # |v_j|
    u = np.column_stack([arguments[:, :2] / np.sqrt(d), across / sizes[:, None]]) @ jet.basis
    return TokenMap.of_neurons(kind, u, arguments[:, 2])
