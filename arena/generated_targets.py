"""Generated targets: hard instances of every family, the targets of a preset."""

from arena.origin import made_of_family
from arena.targets import Target, instance_target, nice_target
from attention.validation import NonNegativeInt, checked
from lower import FAMILIES, Family
from lwe import Distribution, LWRFamily, parse_distribution
from lwe.parameters import Matrix
from sq import ParityFamily
from sq.parities import Construction

__all__ = ["family_target", "lwr_target", "parity_target", "preset_targets"]


def parity_target(
    *,
    dim: int,
    heads: int | None = None,
    bits: int | None = None,
    construction: Construction | None = None,
    beta: float | None = None,
    seed: int = 0,
    name: str = "",
) -> Target:
    """A hidden parity realised by heads: a target of `sq.ParityFamily`."""
    family = ParityFamily(dim=dim, heads_count=heads, bits=bits, construction=construction, beta=beta)
    return family_target(family, seed=seed, name=name)


@checked
def family_target(
    family: Family, number: int | None = None, *, seed: NonNegativeInt = 0, name: str = ""
) -> Target:
    """A target of a hard family, made by the family's `instance`.

    Parameters
    ----------
    family : lower.Family
        The family, such as `sq.ProfileFamily.bump(dim=32, bits=8)`.
    number : int, optional
        Which of its secrets; by default drawn with the seed.
    seed : int
        The seed for drawing the number.
    name : str
        The unique name; made of family, heads and dimension if empty.

    Raises
    ------
    ValueError
        If the family has no such number.

    Examples
    --------
    >>> from sq import ProfileFamily
    >>> target = family_target(ProfileFamily.bump(dim=20, bits=8), seed=1)
    >>> target.name, target.record.title
    ('sq-bump-2-20', 'Bump at 4 of 8 bits, 2 heads')
    """
    instance = family.instance(number, rng=seed)
    made = made_of_family(family, number, seed)
    return instance_target(name or family.label(instance.layer.heads), instance, made)


def lwr_target(
    *,
    n: int,
    q: int,
    p: int,
    matrix: Matrix = "binary",
    Xs: Distribution | str = "uniform",
    Xe: Distribution | str = "zero",
    deviations: float | None = None,
    seed: int = 0,
    name: str = "",
) -> Target:
    """Learning with rounding realised by heads, made by `lwe.LWRFamily`.

    Parameters
    ----------
    n, q, p, matrix, Xs, Xe
        See `lwe.LWEParameters`; distributions may also be strings such as "ternary" or "gaussian:3".
    deviations : float, optional
        Leave out the heads of sums beyond this number of standard deviations.
    seed : int
        Draws the secret.
    name : str
        The name in tables.

    Raises
    ------
    ValueError
        If the parameters contradict one another, or no heads realise them.
    """
    given = {
        name: parse_distribution(value) if isinstance(value, str) else value
        for name, value in (("Xs", Xs), ("Xe", Xe))
    }
    family = LWRFamily(n=n, q=q, p=p, matrix=matrix, deviations=deviations, **given)  # type: ignore[arg-type]
    return family_target(family, seed=seed, name=name)


@checked
def preset_targets(seed: NonNegativeInt = 0) -> list[Target]:
    """The targets of a comparison without files: three nice ones, and each family's own choice (`Family.compared`)."""
    nice = (
        {"heads": 2, "tokens": 2},
        {"heads": 4, "tokens": 4},
        {"heads": 2, "tokens": 2, "inputs": "gaussian"},
    )
    known = [FAMILIES[name] for name in sorted(FAMILIES, reverse=True)]  # statistical queries first
    hard = [family.preset(**own) for family in known for own in family.compared]
    return [
        *(nice_target(**shape, dim=32, seed=seed) for shape in nice),
        *(family_target(family, seed=seed) for family in hard),
    ]
