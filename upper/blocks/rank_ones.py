"""All matrices of rank one in a space of symmetric matrices, by the subspace power method."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from attention import Recorder


@dataclass(frozen=True)
class _PowerMethod:
    """How the power method runs; with 2 starts a matrix, nice blocks need 2 to 4 rounds."""

    shift: float = 0.1  #: added to each step, as the reference advises
    steps: int = 400
    still: float = 1e-14  #: a point that moves by less ends the steps
    close: float = 1e-4  #: a matrix of rank one that is in the space to this is found
    same: float = 0.999  #: two points are one above this cosine
    gap: float = 30.0  #: the singular value after the last of a span is so many times smaller
    starts: int = 2  #: for each matrix that is looked for
    rounds: int = 30


_BY = _PowerMethod()


def vectors_of(matrices: Float[np.ndarray, "*n q q"]) -> Float[np.ndarray, "*n s"]:
    """Symmetric matrices as vectors of s = q (q + 1) / 2 entries with the same inner products."""
    q = matrices.shape[-1]
    i, j = np.triu_indices(q, 1)
    return np.concatenate(
        [np.diagonal(matrices, axis1=-2, axis2=-1), np.sqrt(2) * matrices[..., i, j]], axis=-1
    )


def squares(x: Float[np.ndarray, "n q"]) -> Float[np.ndarray, "n s"]:
    """The vectors of x x^T."""
    i, j = np.triu_indices(x.shape[1], 1)
    return np.concatenate([x * x, np.sqrt(2) * x[:, i] * x[:, j]], axis=1)


def squares_and_identity(x: Float[np.ndarray, "n q"]) -> Float[np.ndarray, "m s"]:
    """The vectors of x x^T, and that of the identity after them."""
    return np.concatenate([squares(x), squares(np.eye(x.shape[1])).sum(axis=0, keepdims=True)])


def squares_in_span(
    vectors: Float[np.ndarray, "n s"], rng: np.random.Generator, recorder: Recorder, most: int | None = None
) -> Float[np.ndarray, "h q"] | None:
    """The unit x whose x x^T, with the identity, span what these vectors do; None if there are none up to `most`."""
    singular, right = np.linalg.svd(vectors, full_matrices=False)[1:]
    ratios = (singular[:-1] / np.maximum(singular[1:], np.finfo(float).tiny))[:most]
    if not len(ratios):  # one direction beside the circle
        return None
    h = int(np.argmax(ratios))
    recorder.step("Width", neurons=h, gap=float(ratios[h]))
    if h == 0 or ratios[h] < _BY.gap:
        return None
    x = rank_ones(right[: h + 1], h, rng)
    if x is None:
        recorder.step("Squares in the span are not as many as it has dimensions.", neurons=h)
    return x


def _applied(vectors: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The symmetric matrices of vectors, each times its x."""
    n, q = x.shape
    i, j = np.triu_indices(q, 1)
    matrices = np.zeros((n, q, q))
    matrices[:, i, j] = vectors[:, q:] / np.sqrt(2)
    matrices += np.swapaxes(matrices, 1, 2)
    matrices[:, np.arange(q), np.arange(q)] = vectors[:, :q]
    return (matrices @ x[:, :, None])[:, :, 0]


def rank_ones(
    basis: Float[np.ndarray, "r s"], count: int, rng: np.random.Generator
) -> Float[np.ndarray, "n q"] | None:
    """Unit vectors x, up to sign, whose x x^T lie in the space of an orthonormal basis; None if fewer than `count`.

    The power method maximises the share of x x^T in the space; points at which it is 1 are kept. Where the space is
    that of `count` generic squares and of the identity, with 2 (count + 1) <= s, there are no others.

    References
    ----------
    Kileel and Pereira, Subspace power method for symmetric tensor decomposition, arXiv 1912.04007.
    """
    q = int((np.sqrt(8 * basis.shape[1] + 1) - 1) / 2)
    found = np.zeros((0, q))
    for _ in range(_BY.rounds):
        x = rng.standard_normal((_BY.starts * count + 16, q))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        for _ in range(_BY.steps):
            new = _applied((squares(x) @ basis.T) @ basis, x) + _BY.shift * x
            new /= np.linalg.norm(new, axis=1, keepdims=True)
            moved = np.max(1 - np.abs(np.sum(x * new, axis=1)))
            x = new
            if moved < _BY.still:
                break
        inside = x[np.linalg.norm(squares(x) @ basis.T, axis=1) > 1 - _BY.close]
        for point in inside:
            if not len(found) or np.abs(found @ point).max() < _BY.same:
                found = np.concatenate([found, point[None]])
        if len(found) >= count:
            return found if len(found) == count else None
    return None
