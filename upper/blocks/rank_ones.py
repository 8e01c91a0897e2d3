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
    evened: int = (
        3  #: changes of coordinates: with none, vectors A^T w of a block are too near to one another
    )


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
    basis, change = _evened(right[: h + 1])
    x = rank_ones(basis, h, rng)
    if x is not None:
        x = np.linalg.solve(change, x.T).T
        x /= np.linalg.norm(x, axis=1, keepdims=True)
    else:
        recorder.step("Squares in the span are not as many as it has dimensions.", neurons=h)
    return x


def _evened(basis: Float[np.ndarray, "r s"]) -> tuple[Float[np.ndarray, "r s"], Float[np.ndarray, "q q"]]:
    """A basis of the same space in other coordinates T x, in which all directions weigh alike; and T.

    Squares of vectors of which most lie near few directions are too near to one another for the power method.
    """
    change = np.eye(_order(basis))
    for _ in range(_BY.evened):
        matrices = _matrices(basis)
        size, axes = np.linalg.eigh(np.tensordot(matrices, matrices, axes=([0, 2], [0, 2])))
        root = axes / np.sqrt(np.maximum(size, size[-1] * _BY.close**2)) @ axes.T
        basis = np.linalg.qr(vectors_of(root @ matrices @ root).T)[0].T
        change = root @ change
    return basis, change


def _order(vectors: np.ndarray) -> int:
    return int((np.sqrt(8 * vectors.shape[1] + 1) - 1) / 2)


def _matrices(vectors: Float[np.ndarray, "n s"]) -> Float[np.ndarray, "n q q"]:
    """The symmetric matrices of vectors."""
    q = _order(vectors)
    i, j = np.triu_indices(q, 1)
    matrices = np.zeros((len(vectors), q, q))
    matrices[:, i, j] = matrices[:, j, i] = vectors[:, q:] / np.sqrt(2)
    matrices[:, np.arange(q), np.arange(q)] = vectors[:, :q]
    return matrices


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
    q = _order(basis)
    found = np.zeros((0, q))
    for _ in range(_BY.rounds):
        x = rng.standard_normal((_BY.starts * count + 16, q))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        for _ in range(_BY.steps):
            matrices = _matrices((squares(x) @ basis.T) @ basis)
            new = (matrices @ x[:, :, None])[:, :, 0] + _BY.shift * x
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
