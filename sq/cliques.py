"""Exact maximum cliques of correlation graphs: sets of secrets with pairwise correlations up to a threshold."""

from array import array
from math import comb

import numpy as np
from jaxtyping import Bool

from attention._arrays import to_numpy
from attention.validation import NonNegativeInt, PositiveInt, checked
from sq.johnson import Gram, OverlapGram
from sq.secret_set import SecretSet

__all__ = ["correlation_clique", "maximum_clique", "overlap_graph", "packing_bound"]

# A correlation above the threshold by at most this counts as equal: the excess is rounding.
_ROUNDING = 1e-12


@checked
def overlap_graph(secrets: SecretSet, overlap: NonNegativeInt) -> Bool[np.ndarray, "N N"]:
    """Which secrets, by number, share at most `overlap` coordinates: an adjacency matrix.

    Its maximum cliques are constant-weight codes of length n and weight l at distance 2 (l - overlap).
    The graph is symmetric in its vertices: pass `transitive=True` to `maximum_clique`.
    """
    return OverlapGram(secrets, [int(one > overlap) for one in range(secrets.bits + 1)]).joined(0.0)


@checked
def packing_bound(points: PositiveInt, bits: PositiveInt, overlap: NonNegativeInt) -> int:
    """A bound on the number of l-subsets of n points that pairwise share at most `overlap` points.

    floor(n/l floor((n-1)/(l-1) ... floor((n-o)/(l-o)))): each point lies in at most as many subsets as the bound for
    the other n - 1 points allows (Johnson 1962).
    """
    if bits > points:
        raise ValueError(f"bits is {bits}: at most {points}, the number of points, can be in a set.")
    if overlap >= bits:
        return comb(points, bits)
    bound = 1
    for step in range(overlap, -1, -1):
        bound = (points - step) * bound // (bits - step)
    return bound


@checked
def maximum_clique(
    joined: Bool[np.ndarray, "N N"], *, transitive: bool = False, at_most: PositiveInt | None = None
) -> tuple[int, ...]:
    """A maximum clique, by branch and bound with greedy colourings: its vertices in increasing order.

    Parameters
    ----------
    joined : array of bool (N, N)
        The adjacency matrix of a graph, symmetric.
    transitive : bool
        Whether symmetries of the graph take every vertex to every other. This is not checked. Then some maximum clique
        holds the first vertex, and only its neighbours are searched.
    at_most : int, optional
        A known bound on the size, also not checked: the search stops when a clique reaches it.

    Notes
    -----
    Exact; exponential in the worst case. A colour class holds at most one vertex of a clique, so a branch with too few
    colours ends. Sets of vertices are bits of whole numbers. `networkx.max_weight_clique` finds the same sizes. It uses
    no bound and no symmetry, and does not finish 120 vertices, (10, 3, 1), within a minute.

    References
    ----------
    Tomita and Seki 2003, "An efficient branch-and-bound algorithm for finding a maximum clique".

    Examples
    --------
    >>> maximum_clique(overlap_graph(SecretSet(dim=8, bits=3), overlap=1), transitive=True)
    (0, 11, 12, 20, 23, 25, 30)
    """
    joined = np.array(to_numpy(joined), dtype=bool)
    np.fill_diagonal(joined, False)
    # vertices with few neighbours come first: they get the early colours, and the search branches on them last
    order = np.arange(len(joined)) if transitive else np.argsort(joined.sum(axis=1), kind="stable")
    packed = np.packbits(joined[np.ix_(order, order)], axis=1, bitorder="little")
    neighbours = [int.from_bytes(row.tobytes(), "little") for row in packed]
    first, candidates = ([0], neighbours[0]) if transitive else ([], (1 << len(order)) - 1)
    found = _search(neighbours, first, candidates, len(order) if at_most is None else at_most)
    return tuple(sorted(int(order[vertex]) for vertex in found))


def correlation_clique(gram: Gram, correlation: float) -> tuple[int, ...]:
    """A maximum clique of the correlation graph, which joins targets with |correlation| at most gamma + 1e-12.

    For an `OverlapGram` all secrets are equivalent: one secret is fixed, and `packing_bound` may end the search early.
    """
    joined = gram.joined(correlation + _ROUNDING)
    if not isinstance(gram, OverlapGram):
        return maximum_clique(joined)
    joins = [abs(float(value)) <= correlation + _ROUNDING for value in gram.values[:-1]]
    overlap = sum(joins) - 1
    at_most = 1 if overlap < 0 else gram.size
    if overlap >= 0 and all(joins[: overlap + 1]):  # exactly secrets of small overlap are joined
        at_most = packing_bound(gram.points, gram.secrets.bits, overlap)
    return maximum_clique(joined, transitive=True, at_most=at_most)


def _search(neighbours: list[int], first: list[int], candidates: int, at_most: int) -> list[int]:
    # The largest clique of `first` and candidates, all joined to it. A frame holds the candidates of a branch and, by
    # colour, the candidates still to be added. `chosen` has one vertex for each frame above the first. Frames replace
    # recursive calls because cliques may have thousands of vertices.
    best: list[int] = []
    chosen, entered = list(first), candidates
    frames: list[tuple[int, array, array]] = []
    while True:
        vertices, colours = _coloured(neighbours, entered)
        if not colours or colours[-1] == len(colours):
            # every candidate has its own colour: all are joined to one another, and no branching is needed
            if len(chosen) + len(vertices) > len(best):
                best = [*chosen, *vertices]
            vertices = array("i")
        frames.append((entered, vertices, colours))
        while frames:
            left, vertices, colours = frames[-1]
            if vertices and len(chosen) + colours[-1] > len(best) and len(best) < at_most:
                break
            frames.pop()
            if frames:
                chosen.pop()
        if not frames:
            return best
        vertex = vertices.pop()
        colours.pop()
        frames[-1] = (left & ~(1 << vertex), vertices, colours)
        chosen.append(vertex)
        entered = left & neighbours[vertex]


def _coloured(neighbours: list[int], candidates: int) -> tuple[array, array]:
    # the vertices and their colour numbers, from 1, in increasing order; no two vertices of one colour are joined
    vertices, colours = array("i"), array("i")
    colour = 0
    while candidates:
        colour += 1
        free = candidates
        while free:
            low = free & -free
            vertex = low.bit_length() - 1
            vertices.append(vertex)
            colours.append(colour)
            candidates ^= low
            free &= ~(low | neighbours[vertex])
    return vertices, colours
