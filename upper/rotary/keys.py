"""Frequencies and keys, by a matrix pencil in the distance.

Derived here. The scores of fillers y and differences x at the distance j are Theta_j = A D^j B: B has a row beta_f^* x
for each frequency and its conjugate, D their e^(i omega_f), A the fillers' side. All Theta_j lie in p dimensions on
either side. There Theta_(j+1) = (A D A^-1) Theta_j, so the eigenvalues are the e^(+-i omega_f): frequencies need not be
known. The vector u with u A = (row of f) has u Theta_j = e^(i j omega_f) beta_f^* x for all j. So u is the null vector
of u (Theta_j - e^(i j omega_f) mean_k e^(-i k omega_f) Theta_k). Coordinates that do not turn are the eigenvalue 1,
with as many null vectors as there are such coordinates.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex, Float, Int

from upper.rotary.movable import Movable

# Slower frequencies, in radians, are none: those of exact answers are right to 1e-13.
_STILL = 1e-8
# Frequencies that differ by so many radians over all rows are different.
_SAME = 0.1
# More fillers than the rank by so many show that it is the rank.
MORE = 4


@dataclass(frozen=True)
class Keys:
    """The key maps of all heads, without biases; the scale of a frequency is one of its symmetries."""

    frequencies: Float[np.ndarray, " f"]
    maps: Float[np.ndarray, "m d p"]
    group: Int[np.ndarray, " m"]  #: heads of one number have the same map


def read_keys(
    movable: Movable, scores: Float[np.ndarray, "m f k n"], given: Float[np.ndarray, " omega"] | None
) -> Keys | None:
    """Keys of all heads from scores of fillers and differences; None if frequencies are not the given ones."""
    tolerance = movable.equal.tolerance
    sides = [_Side.of(theta, np.sqrt(tolerance)) for theta in scores]
    rows = scores.shape[2]
    still = max(_STILL, tolerance)
    own = [side.frequencies(still) for side in sides]
    turning = _clusters(np.concatenate([omega[omega > 0] for omega in own]), _SAME / rows, still)
    if given is not None:
        known = np.sort(np.unique(given[given > 0]))[::-1]
        if len(known) < len(turning) or any(np.abs(known - omega).min() > _SAME / rows for omega in turning):
            return None
        turning = known
    standing = max(int(np.sum(omega == 0)) for omega in own)
    frequencies = np.concatenate([turning, np.zeros((standing + 1) // 2)])
    half, d = len(frequencies), movable.differences.shape[1]
    maps = np.zeros((len(sides), d, 2 * half))
    for side, omega, keys in zip(sides, own, maps, strict=True):
        for at in {int(np.argmin(np.abs(turning - each))) for each in omega[omega > 0]}:
            row = side.rows(turning[at], 1, movable)[0]
            row = row / np.linalg.norm(row)
            keys[:, at], keys[:, half + at] = row.real, -row.imag
        if zeros := int(np.sum(omega == 0)):
            basis = np.linalg.qr(side.rows(0.0, zeros, movable).real.T)[0]
            first = (zeros + 1) // 2
            keys[:, half - (standing + 1) // 2 :][:, :first] = basis[:, :first]
            keys[:, 2 * half - (standing + 1) // 2 :][:, : zeros - first] = basis[:, first:]
    return Keys(frequencies, *_shared(frequencies, maps, np.sqrt(tolerance)))


@dataclass(frozen=True)
class _Side:
    """Scores of one head in its p dimensions on either side."""

    core: Float[np.ndarray, "k p q"]
    right: Float[np.ndarray, "q n"]

    @classmethod
    def of(cls, theta: Float[np.ndarray, "f k n"], tolerance: float) -> "_Side":
        left, size, _ = np.linalg.svd(theta.reshape(len(theta), -1), full_matrices=False)
        p = int(np.sum(size > tolerance * size[0]))
        p = min(p + p % 2, len(left))
        inside = np.tensordot(left[:, :p], theta, (0, 0)).swapaxes(0, 1)
        right = np.linalg.svd(inside.reshape(-1, inside.shape[2]), full_matrices=False)[2][:p]
        return cls(inside @ right.T, right)

    def frequencies(self, still: float) -> Float[np.ndarray, " f"]:
        """Descending; 0 for each coordinate that does not turn."""
        one, other = (
            part.swapaxes(0, 1).reshape(len(self.right), -1) for part in (self.core[:-1], self.core[1:])
        )
        angles = np.angle(np.linalg.eigvals(np.linalg.lstsq(one.T, other.T, rcond=None)[0]))
        turning = np.sort(angles[angles > still])[::-1]
        turning = np.array([self._refined(self._refined(omega)) for omega in turning])
        turning = turning[(turning > still) & (turning < np.pi)]  # rounding has negative eigenvalues
        return np.concatenate([turning, np.zeros(max(len(angles) - 2 * len(turning), 0))])

    def _refined(self, omega: float) -> float:
        """The frequency from the phases of its component at distances twice as far each time."""
        turn = (self.null(omega, 1)[0] @ self.core).astype(complex)
        step = 1
        while step <= len(turn) // 2:
            phase = np.angle(np.sum(turn[:-step].conj() * turn[step:]))
            omega += (np.angle(np.exp(1j * (phase - step * omega)))) / step
            step *= 2
        return float(omega)

    def null(self, omega: float, number: int) -> Complex[np.ndarray, "u p"]:
        """The vectors u of a frequency, the last `number` of the singular vectors."""
        turns = np.exp(1j * omega * np.arange(len(self.core)))[:, None, None]
        off = self.core - turns * np.mean(turns.conj() * self.core, axis=0)
        # a triangle has the same singular vectors, and is small
        triangle = np.linalg.qr(off.swapaxes(0, 1).reshape(len(self.right), -1).T, mode="r")
        vectors: np.ndarray = np.linalg.svd(triangle)[2][len(triangle) - number :].conj()
        return vectors

    def rows(self, omega: float, number: int, movable: Movable) -> Complex[np.ndarray, "u d"]:
        """The rows beta^* of a frequency."""
        turns = np.exp(1j * omega * np.arange(len(self.core)))[:, None, None]
        mean = np.mean(turns.conj() * self.core, axis=0)
        components = self.null(omega, number) @ mean @ self.right
        components = components * np.exp(-1j * omega * movable.of_differences[0])
        rows: np.ndarray = np.linalg.lstsq(movable.differences, components.T, rcond=None)[0].T
        return rows


def _clusters(values: Float[np.ndarray, " n"], same: float, least: float) -> Float[np.ndarray, " c"]:
    """The medians of values that are equal up to a share of themselves, descending."""
    ordered = np.sort(values)[::-1]
    apart = np.flatnonzero(-np.diff(ordered) > same * ordered[:-1] + least) + 1
    return np.array([np.median(part) for part in np.split(ordered, apart) if len(part)])


def _shared(
    frequencies: Float[np.ndarray, " f"], maps: Float[np.ndarray, "m d p"], sine: float
) -> tuple[Float[np.ndarray, "m d p"], Int[np.ndarray, " m"]]:
    """The same maps where the sines of keys are below this, 1e-10 or .9, with the number of the group of each head."""
    half, turning = len(frequencies), frequencies > 0
    columns = maps[:, :, :half] + 1j * maps[:, :, half:]
    flat = np.concatenate([maps[:, :, :half][:, :, ~turning], maps[:, :, half:][:, :, ~turning]], axis=2)
    group: list[int] = []
    out = maps.copy()
    for i in range(len(maps)):
        for g in dict.fromkeys(group):
            first = group.index(g)
            cosines = np.abs(np.sum(columns[first].conj() * columns[i], axis=0))[turning]
            standing = flat[i] - flat[first] @ (flat[first].T @ flat[i])
            if (cosines > 1 - sine**2).all() and np.linalg.norm(standing) < sine:
                group.append(g)
                out[i] = maps[first]
                break
        else:
            group.append(max(group, default=-1) + 1)
    return out, np.array(group)
