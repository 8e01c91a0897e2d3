"""All hard families for statistical queries in one place, and the list of those that two heads realise."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal

from attention.validation import count
from sq.designed_steps import DesignedStepsFamily
from sq.general_k import TokenParityFamily
from sq.hidden_gate import HiddenGateFamily
from sq.pairs import PairFamily
from sq.parities import ParityFamily, make_parity_instance
from sq.profiles import BumpFamily, CentreThresholdFamily, TwoSlopeFamily
from sq.target_family import TargetFamily

__all__ = [
    "BumpFamily",
    "CentreThresholdFamily",
    "DesignedStepsFamily",
    "HiddenGateFamily",
    "PairFamily",
    "ParityFamily",
    "TokenParityFamily",
    "TwoHeadFamilies",
    "TwoHeadFamily",
    "TwoSlopeFamily",
    "make_parity_instance",
    "two_head_families",
]

_HERE = "Derived here"


@dataclass(frozen=True)
class TwoHeadFamily:
    """One family that two heads realise, in the words of a table.

    Attributes
    ----------
    name : str
        The family.
    formula : str
        The number of targets as a formula in d.
    lowest_degree : int
        The lowest degree in the entries of X of the hidden part.
    broken_by : str
        Who finds the secret.
    source : str
        Where that is stated or derived.
    make : callable
        Maps d to the family itself.
    """

    name: str
    formula: str
    lowest_degree: int
    broken_by: str
    source: str
    make: Callable[[int], TargetFamily] = field(repr=False, compare=False)

    def targets(self, dim: int) -> int:
        """The number of targets in `dim` coordinates; O(d).

        Raises
        ------
        ValueError
            If the family needs more coordinates.
        """
        return self.make(count("dim", dim)).secrets.size


@dataclass(frozen=True)
class TwoHeadFamilies:
    """The families that two heads realise; prints as a table."""

    rows: tuple[TwoHeadFamily, ...]
    dim: int = 40

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[TwoHeadFamily]:
        return iter(self.rows)

    def __getitem__(self, place: int) -> TwoHeadFamily:
        return self.rows[place]

    def __str__(self) -> str:
        header = ("family", "targets", f"d = {self.dim}", "lowest degree", "broken by", "source")
        body = [
            (
                one.name,
                one.formula,
                _short(one.targets(self.dim)),
                str(one.lowest_degree),
                one.broken_by,
                one.source,
            )
            for one in self.rows
        ]
        widths = [max(len(row[i]) for row in (header, *body)) for i in range(len(header))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in (header, tuple("-" * width for width in widths), *body)
        ]
        return "\n".join(lines)


def two_head_families(*, bits: int = 8, dim: int = 40) -> TwoHeadFamilies:
    """List the families that two heads realise, with how many targets they hide and what breaks them.

    Parameters
    ----------
    bits : int
        The number l of hidden coordinates where it is free: an even number of at least 4.
    dim : int
        The number d of coordinates for which the printed table counts targets; more than `bits`.

    Returns
    -------
    TwoHeadFamilies
        A sequence of `TwoHeadFamily`, the hardest one first.

    Raises
    ------
    ValueError
        If `bits` is odd or below 4, or `dim` not above it.

    Notes
    -----
    "Hardest" is by the degree below which nothing of the secret is seen, with orthogonal targets before others: two
    heads hide the parity of three bits, C(d - 1, 3) orthogonal targets of degree 7. Families of more targets are known
    (bump and others, of any l), but statistical queries of low degree find their secrets. That no two-head family is
    harder is not proved.

    References
    ----------
    Derived here, family by family: see their classes.

    Examples
    --------
    >>> families = two_head_families()
    >>> families[0].name, families[0].formula, families[0].targets(40), families[0].lowest_degree
    ('parity D, l = 3', 'C(d-1, 3)', 9139, 7)
    """
    bits, dim = count("bits", bits, least=4), count("dim", dim)
    if bits % 2:
        raise ValueError(f"bits is {bits}: an even number of at least 4 is needed.")
    if dim <= bits:
        raise ValueError(f"dim is {dim}: more than the {bits} bits are needed.")
    any_l = f"C(d-1, {bits}), any l"
    rows = (
        TwoHeadFamily(
            "parity D, l = 3",
            "C(d-1, 3)",
            7,
            "elimination over GF(2), which asks no queries",
            f"{_HERE} (ParityFamily)",
            lambda d: ParityFamily(dim=d, bits=3, construction="D"),
        ),
        TwoHeadFamily(
            f"two slopes, l = {bits}",
            any_l,
            7,
            "C(d-1, 3) products of 3 differences; squared labels at degree 2",
            f"{_HERE} (TwoSlopeFamily)",
            lambda d: TwoSlopeFamily(dim=d, bits=bits),
        ),
        TwoHeadFamily(
            "parity B or C, l = 2",
            "C(d-1, 2)",
            5,
            "elimination over GF(2), which asks no queries",
            f"{_HERE} (ParityFamily)",
            lambda d: ParityFamily(dim=d, bits=2, construction="B"),
        ),
        TwoHeadFamily(
            f"bump, l = {bits}, t = l/2",
            any_l,
            5,
            "C(d-1, 2) products of 2 differences",
            f"{_HERE} (BumpFamily)",
            lambda d: BumpFamily(dim=d, bits=bits),
        ),
        TwoHeadFamily(
            f"designed steps, l = {bits}, m = 2",
            any_l,
            5,
            "C(d-1, 2) products of 2 differences",
            f"{_HERE} (DesignedStepsFamily)",
            lambda d: DesignedStepsFamily(dim=d, bits=bits, heads_count=2),
        ),
        TwoHeadFamily(
            f"centre thresholds, l = {bits}, m = 2",
            any_l,
            5,
            "C(d-1, 2) products of 2 differences",
            f"{_HERE} (CentreThresholdFamily)",
            lambda d: CentreThresholdFamily(dim=d, bits=bits, heads_count=2),
        ),
        TwoHeadFamily(
            "parity of each token, l = 2, any k",
            "C(d-2, 2)",
            3,
            "elimination over GF(2), which asks no queries",
            f"{_HERE} (TokenParityFamily)",
            lambda d: TokenParityFamily(dim=d, tokens=3, bits=2),
        ),
        TwoHeadFamily(
            "hidden gate, l = 1",
            "d (d-1)",
            3,
            "whether a label is 0: d queries find the gate, d more the bit",
            f"{_HERE} (HiddenGateFamily)",
            lambda d: HiddenGateFamily(base=ParityFamily(dim=d, bits=1, construction="D")),
        ),
        TwoHeadFamily(
            "parity A, l = 1",
            "d-1",
            3,
            "d-1 queries, one a coordinate",
            f"{_HERE} (ParityFamily)",
            lambda d: ParityFamily(dim=d, bits=1, construction="A"),
        ),
    )
    return TwoHeadFamilies(rows, dim)


def _short(number: int) -> str:
    return str(number) if number < 10**12 else f"{Decimal(number):.2e}"
