"""The network of a pre-norm block from its map of the sphere: neurons from second differences, as in a network."""

from dataclasses import dataclass
from typing import get_args

import numpy as np
from jaxtyping import Float

from attention import Recorder
from attention.feed_forward import Activation, activation
from upper.blocks.profiles import curvature, fit_profiles
from upper.blocks.rank_ones import squares_and_identity, squares_in_span, vectors_of
from upper.blocks.sphere import CircleJet, Sphere, read_circle
from upper.blocks.token_map import TokenMap


@dataclass(frozen=True)
class _Reading:
    """Numbers of queries, and what tells a network."""

    points: int = 10  #: of the circle; each has d equations for every second derivative
    step: float = 0.01  #: an angle: rounding of 1e-7 and truncation of 1e-5 in second differences
    width: int = 4  #: the largest number of neurons over d that the frame has room for
    profile: float = 3e-3  #: the largest misfit of a profile, relative to the median of profiles
    tried: int = 12  #: neurons whose profiles tell the activation


_READING = _Reading()


def read_sphere(sphere: Sphere, rng: np.random.Generator, recorder: Recorder) -> TokenMap | None:
    """S as a network, to 1e-4 and up to the signs of neurons; None if S is no network.

    1. At every point of a great circle the second derivatives along a frame orthogonal to it are
       sum_j act''(t_j) v_j |E w_j|^2 x_j x_j^T less a multiple of the identity, with x_j along E w_j. All of them span
       h + 1 dimensions, and the x_j are the vectors whose squares lie in there (`squares_in_span`).
    2. The coefficients of x_j x_j^T give v_j up to a factor, and act'' along the circle, where t_j is a sinusoid
       (`fit_profiles`).
    3. First derivatives are linear in the A and the u_j, as act'(t_j) is known now. With second ones they give the
       factors.
    """
    by = _READING
    frame = int(np.ceil(2 * np.sqrt(by.width * sphere.norm.dim + 1)))
    jet = read_circle(sphere, by.points, frame, by.step, rng)
    recorder.step("Second derivatives on a circle", points=by.points, frame=jet.curvatures.shape[-1])
    p, d, *_ = jet.curvatures.shape
    vectors = vectors_of(jet.curvatures).reshape(p * d, -1)
    x = squares_in_span(vectors, rng, recorder)
    if x is None:
        return None
    weights = np.linalg.lstsq(squares_and_identity(x).T, vectors.T, rcond=None)[0][:-1].reshape(-1, p, d)
    left, size, outputs = np.linalg.svd(weights, full_matrices=False)
    profiles, outputs = left[:, :, 0] * size[:, :1], outputs[:, 0]
    some = profiles[np.argsort(-size[:, 0])[: by.tried]]
    smooth = [kind for kind in get_args(Activation) if kind != "relu"]
    misfits = {kind: fit_profiles(kind, some, jet.angles, rng, rounds=1)[1] for kind in smooth}
    kind = min(smooth, key=lambda kind: float(np.median(misfits[kind])))
    waves, misfit = fit_profiles(kind, profiles, jet.angles, rng)
    recorder.step(f"Profiles of {kind}", worst=float(misfit.max()))
    off = (
        misfit * size[:, 0]
    )  # a neuron whose act'' nearly vanishes is read with fewer digits, and fitted later
    return (
        None
        if off.max() > by.profile * np.median(size[:, 0])
        else _assembled(kind, waves, profiles, outputs, jet)
    )


def _assembled(
    kind: Activation,
    waves: Float[np.ndarray, "h 3"],
    profiles: Float[np.ndarray, "h p"],
    outputs: Float[np.ndarray, "h d"],
    jet: CircleJet,
) -> TokenMap:
    """All of S by linear least squares, from the arguments t_j along the circle and the directions of the v_j."""
    (h, d), p = outputs.shape, len(jet.angles)
    q = jet.curvatures.shape[-1]
    cosine, sine = np.cos(jet.angles), np.sin(jet.angles)
    t = waves @ np.array([cosine, sine, np.ones(p)])
    slope, bend = activation(kind, t, derivative=True), curvature(kind, t)
    design = np.zeros((p, d, h + d))
    design[:, :, :h] = slope.T[:, None] * outputs.T
    design[:, :, h:] = np.eye(d)
    solved = np.linalg.lstsq(
        design.reshape(p * d, -1), np.swapaxes(jet.slopes, 1, 2).reshape(p * d, -1), rcond=None
    )[0]
    across = solved[:h]  # |v_j| (u_j . e) for the directions e that are not in the plane
    # second derivatives in the angle are d |E u_j|^2 |v_j| act'', and these are known beside |E u_j|^2 |v_j|^2
    factor = np.sum(profiles * bend, axis=1) / np.sum(bend**2, axis=1) / d
    sizes = np.sum(across[:, :q] ** 2, axis=1) / factor
    v = sizes[:, None] * outputs
    u = np.column_stack([waves[:, :2] / np.sqrt(d), across / sizes[:, None]])
    turning = (waves[:, 1:2] * cosine - waves[:, :1] * sine) / np.sqrt(d)  # u_j along the circle
    rest = jet.tangents - (slope * turning).T @ v
    in_plane = np.linalg.lstsq(np.column_stack([-sine, cosine]), rest, rcond=None)[0]
    linear = jet.basis.T @ np.concatenate([in_plane, solved[h:].T])
    constant = np.mean(jet.values - jet.points @ linear - activation(kind, t).T @ v, axis=0)
    return TokenMap(kind, u @ jet.basis, waves[:, 2], v, linear, constant)
