"""The hard families that two heads realise, with the number of their targets and what breaks them."""

from attention.validation import PositiveInt, checked
from lower import FAMILIES
from sq import hidden_gate, pairs, parities, profiles, token_parity  # noqa: F401 - each registers its families
from sq.family import SQFamily

__all__ = ["two_head_families"]


@checked
def two_head_families(*, bits: PositiveInt = 8, dim: PositiveInt = 40) -> tuple[SQFamily, ...]:
    """The families that two heads realise, the hardest one first; l = `bits` (even, at least 4) where l is free.

    Notes
    -----
    These are the registered families whose `tabled` parameters two heads realise. The order is by the degree below
    which nothing of the secret is visible, the highest degree first; at equal degree orthogonal targets come first. The
    hardest is the parity of three bits: C(d - 1, 3) orthogonal targets of degree 7. Families with more targets are
    known (bump and others, of any l), but statistical queries of low degree find their secrets. It is not proved that
    no two-head family is harder.

    Examples
    --------
    >>> hardest = two_head_families()[0]
    >>> hardest.title, hardest.secrets.formula, hardest.secrets.size, hardest.lowest_degree
    ('Parity of 3 bits, 2 heads', 'C(d-1, 3)', 9139, 7)
    """
    if bits % 2 or bits < 4:
        raise ValueError(f"bits is {bits}: an even number of at least 4 is needed.")
    if dim <= bits:
        raise ValueError(f"dim is {dim}: more than the {bits} bits are needed.")
    made: list[SQFamily] = []
    for family in FAMILIES.values():
        if issubclass(family, SQFamily):
            free = {"bits": bits} if "bits" in family.options() else {}
            made += [family.preset(**{"dim": dim, **free, **own}) for own in family.tabled]
    two = [one for one in made if len(one.heads) == 2]
    return tuple(sorted(two, key=lambda one: (-one.lowest_degree, not one.orthonormal)))
