"""Maximum cliques of correlation graphs, exactly: sets of secrets no two of which correlate beyond a threshold."""

from array import array
from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from attention._arrays import shown
from attention.validation import count, non_negative, require_instance
from sq.gram import MOST_DENSE, GramMatrix
from sq.johnson import OverlapGram, require_gram
from sq.secret_set import SecretSet

if TYPE_CHECKING:
    import networkx

__all__ = [
    "Clique",
    "correlation_clique",
    "correlation_graph",
    "maximum_clique",
    "overlap_graph",
    "packing_bound",
]

# Correlations above the threshold by this much are rounding.
_ROUNDING = 1e-12
# networkx takes about 400 bytes an edge: 200 MB. Searches go without a graph and have no such limit.
_MOST_EDGES = 500_000
# Rows of a matrix that are compared at a time.
_BLOCK = 512


@dataclass(frozen=True)
class Clique:
    """A set of pairwise joined vertices.

    Attributes
    ----------
    vertices : tuple of int
        The set, in increasing order.
    at_most : int
        No clique is larger than this.
    nodes : int
        How many branches the search looked at.
    """

    vertices: tuple[int, ...]
    at_most: int
    nodes: int

    def __len__(self) -> int:
        return len(self.vertices)

    @property
    def exact(self) -> bool:
        """Whether it is known to be of maximum size."""
        return len(self.vertices) == self.at_most

    def __str__(self) -> str:
        kind = "Maximum clique" if self.exact else f"Clique (none has above {self.at_most})"
        return f"{kind} of {len(self)} vertices, {self.nodes} branches searched."


def correlation_clique(
    gram: GramMatrix | OverlapGram, correlation: float | int, *, nodes: int | None = None
) -> Clique:
    """A maximum clique of the correlation graph, without the graph: a bit for each pair of targets.

    Parameters
    ----------
    gram, correlation : as in `correlation_graph`
        For an overlap kernel one secret is fixed, as all look alike, and `packing_bound` may end the search early.
    nodes : int, optional
        As in `maximum_clique`.

    Raises
    ------
    ValueError
        If the threshold is negative, an overlap kernel has more than 4096 targets, or `nodes` is below 1.

    Notes
    -----
    N^2 bytes, then N^2 bits; exponential time in the worst case. Where all targets are joined there is no search.

    Examples
    --------
    >>> len(correlation_clique(OverlapGram(SecretSet(dim=21, bits=3), (0, 0, 0, 1)), 0))
    1140
    """
    require_gram(gram)
    joined = _joined(gram, correlation)
    if isinstance(gram, OverlapGram):
        return _largest(_bit_rows(joined), _packing(gram, correlation), nodes, transitive=True)
    # vertices of few neighbours first: they end up in the early colours and are branched on last
    order = np.argsort(joined.sum(axis=1), kind="stable")
    found = _largest(_bit_rows(joined[np.ix_(order, order)]), len(gram), nodes, transitive=False)
    return Clique(tuple(sorted(int(order[place]) for place in found.vertices)), found.at_most, found.nodes)


def correlation_graph(gram: GramMatrix | OverlapGram, correlation: float | int) -> "networkx.Graph":
    """The graph on targets 0 to N - 1 that joins S and T where |<f_S, f_T>| <= `correlation`.

    Parameters
    ----------
    gram : GramMatrix or OverlapGram
        The correlations; of an estimate the estimates are taken, and what follows is an estimate too.
    correlation : float
        The threshold gamma, at least 0; 1e-12 above it counts as rounding.

    Raises
    ------
    ValueError
        If the threshold is negative, an overlap kernel has more than 4096 targets, or the graph more than 500000 edges.

    Notes
    -----
    For graphs as networkx keeps them, to look at or draw. `correlation_clique` finds cliques of larger ones, too.
    """
    require_gram(gram)
    return _graph(_joined(gram, correlation), "clique_dimension finds its cliques without")


def overlap_graph(secrets: SecretSet, overlap: int) -> "networkx.Graph":
    """The graph on secrets, by number, that joins two where they share at most `overlap` coordinates.

    Its maximum cliques are constant-weight codes of length n and weight l at distance 2 (l - overlap).
    Every secret looks like every other: `maximum_clique` may be told that it is transitive.

    Raises
    ------
    ValueError
        If there are more than 4096 secrets, or more than 500000 edges.
    """
    require_instance("secrets", secrets, SecretSet, needed="a SecretSet, such as a family's `secrets`,")
    overlap = count("overlap", overlap, least=0)
    joins = np.arange(secrets.bits + 1) <= overlap
    return _graph(
        _joined_secrets(secrets, joins),
        "clique_dimension finds its cliques without, from an OverlapGram that is 0 at such overlaps and 1 at others",
    )


def packing_bound(points: int, bits: int, overlap: int) -> int:
    """No more l-subsets of n points than this share at most `overlap` points pairwise.

    floor(n/l floor((n-1)/(l-1) ... floor((n-o)/(l-o)))), as each point lies in at most as many of them as the
    sets less that point allow.

    Parameters
    ----------
    points, bits, overlap : int
        n, l from 1 to n, and the largest overlap o, at least 0.

    Raises
    ------
    ValueError
        If they are not so.

    References
    ----------
    Johnson 1962, "A new upper bound for error-correcting codes" (by its usual name, unchecked; the proof is the
    line above).

    Examples
    --------
    >>> [packing_bound(*code) for code in ((6, 3, 1), (7, 3, 1), (8, 4, 2), (9, 3, 1), (7, 4, 1))]
    [4, 7, 14, 12, 3]
    """
    points, bits = count("points", points), count("bits", bits)
    overlap = count("overlap", overlap, least=0)
    if bits > points:
        raise ValueError(f"bits is {bits}: at most {points}, the number of points, can be in a set.")
    if overlap >= bits:
        return comb(points, bits)
    bound = 1
    for step in range(overlap, -1, -1):
        bound = (points - step) * bound // (bits - step)
    return bound


def maximum_clique(
    graph: "networkx.Graph",
    *,
    transitive: bool = False,
    at_most: int | None = None,
    nodes: int | None = None,
) -> Clique:
    """A maximum clique, by branch and bound with greedy colourings.

    Parameters
    ----------
    graph : networkx.Graph
        Without loops that matter; its nodes must be whole numbers.
    transitive : bool
        Whether every vertex can be taken to every other by a symmetry of the graph, the caller's word: then some
        maximum clique holds the first vertex, and only its neighbours are searched.
    at_most : int, optional
        A bound on the size known beforehand, the caller's word too: the search stops when it is met.
    nodes : int, optional
        How many branches may be looked at; no limit when left out. A search cut short says so by `Clique.exact`.

    Raises
    ------
    ValueError
        If the graph is empty, or `at_most` or `nodes` is below 1.

    Notes
    -----
    Exact unless cut short; exponential in the worst case. A colour class holds at most one vertex of a clique, so
    a branch with too few colours ends. Sets of vertices are bits of whole numbers.

    References
    ----------
    Tomita and Seki 2003, "An efficient branch-and-bound algorithm for finding a maximum clique", for the bound by
    colours. networkx.max_weight_clique gives the same sizes, more slowly.

    Examples
    --------
    >>> fano = overlap_graph(SecretSet(dim=8, bits=3), overlap=1)
    >>> print(maximum_clique(fano, transitive=True, at_most=packing_bound(7, 3, 1)))
    Maximum clique of 7 vertices, 10 branches searched.
    """
    import networkx

    require_instance("graph", graph, networkx.Graph, needed="a networkx.Graph")
    if not len(graph):
        raise ValueError("The graph has no vertices: at least one is needed.")
    if not isinstance(transitive, bool | np.bool_):
        raise ValueError(f"transitive is {shown(transitive)}: True or False is needed.")
    known = len(graph) if at_most is None else count("at_most", at_most)
    names = sorted(graph.nodes)
    # vertices of few neighbours first: they end up in the early colours and are branched on last
    order = names if transitive else sorted(names, key=graph.degree)
    place = {name: position for position, name in enumerate(order)}
    joined = [0] * len(order)
    for one, other in graph.edges:
        if one != other:
            joined[place[one]] |= 1 << place[other]
            joined[place[other]] |= 1 << place[one]
    found = _largest(joined, known, nodes, transitive=transitive)
    return Clique(tuple(sorted(order[vertex] for vertex in found.vertices)), found.at_most, found.nodes)


def _joined(gram: GramMatrix | OverlapGram, correlation: float | int) -> np.ndarray:
    # bool (N, N): which targets the correlation graph joins
    if isinstance(gram, OverlapGram):
        return _joined_secrets(gram.secrets, _joining(gram, correlation))
    threshold = non_negative("correlation", correlation) + _ROUNDING
    joined = np.empty(gram.matrix.shape, dtype=bool)
    for start in range(0, len(joined), _BLOCK):
        joined[start : start + _BLOCK] = np.abs(gram.matrix[start : start + _BLOCK]) <= threshold
    np.fill_diagonal(joined, False)
    # a matrix that rounding left a little lopsided still makes a graph
    return joined & joined.T


def _joining(gram: OverlapGram, correlation: float | int) -> np.ndarray:
    # bool (l + 1,): at which overlaps secrets are joined; in floats, so that the matrix written out says the same
    threshold = non_negative("correlation", correlation) + _ROUNDING
    return np.array([abs(float(value)) <= threshold for value in gram.values])


def _joined_secrets(secrets: SecretSet, joins: np.ndarray) -> np.ndarray:
    if secrets.size > MOST_DENSE:
        raise ValueError(
            f"There are {secrets.size} secrets: pairs are looked at one by one, for at most {MOST_DENSE} of them; take "
            "fewer bits or coordinates."
        )
    members = secrets.members.astype(np.float32)
    joined = np.empty((len(members), len(members)), dtype=bool)
    for start in range(0, len(members), _BLOCK):
        overlaps = np.rint(members[start : start + _BLOCK] @ members.T).astype(np.intp)
        joined[start : start + _BLOCK] = joins[overlaps]
    np.fill_diagonal(joined, False)
    return joined


def _packing(gram: OverlapGram, correlation: float | int) -> int:
    # where exactly secrets of small overlap are joined, packings bound the cliques
    joins = _joining(gram, correlation)[:-1]
    overlap = int(joins.sum()) - 1
    if overlap < 0:
        return 1
    return packing_bound(gram.points, gram.secrets.bits, overlap) if joins[: overlap + 1].all() else gram.size


def _graph(joined: np.ndarray, instead: str) -> "networkx.Graph":
    import networkx

    edges = int(np.count_nonzero(joined)) // 2
    if edges > _MOST_EDGES:
        raise ValueError(
            f"The graph on {len(joined)} vertices has {edges} edges: graphs are made of at most {_MOST_EDGES}; "
            f"{instead}."
        )
    graph = networkx.Graph()
    graph.add_nodes_from(range(len(joined)))
    graph.add_edges_from(zip(*(ends.tolist() for ends in np.nonzero(np.triu(joined))), strict=True))
    return graph


def _bit_rows(joined: np.ndarray) -> list[int]:
    packed = np.packbits(joined, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]


def _largest(joined: list[int], at_most: int, nodes: int | None, *, transitive: bool) -> Clique:
    # a maximum clique of the graph whose vertex i is joined to the vertices that are bits of joined[i]
    limit = None if nodes is None else count("nodes", nodes)
    first = [0] if transitive else []
    candidates = joined[0] if transitive else (1 << len(joined)) - 1
    best, looked_at, cut_short = _search(joined, first, candidates, at_most, limit)
    bound = len(best)
    if cut_short:
        colours = max(_coloured(joined, candidates)[1], default=0)
        bound = min(at_most, len(first) + colours)
    return Clique(tuple(sorted(best)), bound, looked_at)


def _search(
    joined: list[int], first: list[int], candidates: int, at_most: int, limit: int | None
) -> tuple[list[int], int, bool]:
    # The largest clique of `first` and candidates, all joined to it; how many branches that took; whether the limit
    # ended it. A frame holds a branch's candidates and, by colour, those still to be added; chosen has one vertex a
    # frame above the first. Frames in place of calls: cliques may have thousands of vertices.
    best: list[int] = []
    chosen, entered, nodes = list(first), candidates, 0
    frames: list[tuple[int, array[int], array[int]]] = []
    while True:
        nodes += 1
        vertices, colours = _coloured(joined, entered)
        if not colours or colours[-1] == len(colours):
            # a colour each: the candidates are joined to one another, and there is nothing to branch on
            if len(chosen) + len(vertices) > len(best):
                best = [*chosen, *vertices]
            vertices = array("i")
        elif len(chosen) > len(best):
            best = list(chosen)
        frames.append((entered, vertices, colours))
        while frames:
            left, vertices, colours = frames[-1]
            if vertices and len(chosen) + colours[-1] > len(best) and len(best) < at_most:
                break
            frames.pop()
            if frames:
                chosen.pop()
        if not frames:
            return best, nodes, False
        if limit is not None and nodes >= limit:
            return best, nodes, True
        vertex = vertices.pop()
        colours.pop()
        frames[-1] = (left & ~(1 << vertex), vertices, colours)
        chosen.append(vertex)
        entered = left & joined[vertex]


def _coloured(joined: list[int], candidates: int) -> tuple["array[int]", "array[int]"]:
    # the vertices and the number of their colour, from 1, in rising order; no two of a colour are joined
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
            free &= ~(low | joined[vertex])
    return vertices, colours
