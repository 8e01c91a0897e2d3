"""``attention-bounds generate sq-...``: one command for each family that is hard for statistical queries."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import typer

from arena.cli.console import JsonOption, SeedOption
from arena.cli.written import OutOption, write_target
from arena.made_targets import family_target
from sq import (
    BumpFamily,
    CentreThresholdFamily,
    Construction,
    DesignedStepsFamily,
    HiddenGateFamily,
    PairFamily,
    ParityFamily,
    SymmetricFamily,
    TokenParityFamily,
    TwoSlopeFamily,
)

__all__ = ["FAMILY_COMMANDS"]

_DimOption = Annotated[int, typer.Option(help="Number d of coordinates of a token.")]
_BitsOption = Annotated[int, typer.Option(help="Number l of hidden coordinates.")]
_BetaOption = Annotated[float, typer.Option(help="Slope of all heads.")]
_SlopesOption = Annotated[
    tuple[float, float] | None, typer.Option(help="The two slopes; by default 0.1 and 1.")
]


def _pair(
    out: OutOption,
    dim: _DimOption = 48,
    beta: Annotated[float, typer.Option(help="Slope of the head.")] = 1.0,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Make a layer of one head that hides a pair of coordinates.

    Example: attention-bounds generate sq-pair --dim 48 --seed 1 -o pair.safetensors
    """
    write_target(family_target(PairFamily(dim=dim, beta=beta), seed=seed), out, as_json)


def _bump(
    out: OutOption,
    dim: _DimOption = 48,
    bits: _BitsOption = 8,
    at: Annotated[
        int | None, typer.Option(help="How many of the hidden coordinates are to differ; by default half.")
    ] = None,
    beta: _BetaOption = 40.0,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Make two heads that say whether the tokens differ in exactly so many hidden coordinates.

    Example: attention-bounds generate sq-bump --dim 48 --bits 8 --seed 1 -o bump.safetensors
    """
    family = BumpFamily(dim=dim, bits=bits, at=at, beta=beta)
    write_target(family_target(family, seed=seed), out, as_json)


def _two_slope(
    out: OutOption,
    dim: _DimOption = 48,
    bits: _BitsOption = 8,
    slopes: _SlopesOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Make two heads of two slopes that show nothing of their hidden coordinates below degree 7.

    Example: attention-bounds generate sq-two-slope --dim 48 --bits 8 --slopes 0.1 1 -o slopes.safetensors
    """
    write_target(family_target(_two_slopes(dim, bits, slopes), seed=seed), out, as_json)


def _designed_steps(
    out: OutOption,
    dim: _DimOption = 48,
    bits: _BitsOption = 8,
    heads: Annotated[
        int | None, typer.Option(help="Number m of heads; by default one a --threshold, or two.")
    ] = None,
    threshold: Annotated[
        list[float] | None,
        typer.Option(help="A half-integer between 0 and l; once a head. By default spread evenly."),
    ] = None,
    beta: _BetaOption = 40.0,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Make m heads whose steps show nothing of their hidden coordinates below degree 2m + 1.

    Example: attention-bounds generate sq-designed-steps --dim 48 --bits 6 --heads 4 -o steps.safetensors
    """
    family = DesignedStepsFamily(
        dim=dim,
        bits=bits,
        heads_count=heads,
        thresholds=tuple(threshold) if threshold else None,
        beta=beta,
    )
    write_target(family_target(family, seed=seed), out, as_json)


def _centre_threshold(
    out: OutOption,
    dim: _DimOption = 48,
    bits: _BitsOption = 8,
    heads: Annotated[int, typer.Option(help="Number m of heads, even or odd as --bits is.")] = 2,
    steps: Annotated[
        Literal["alternating", "best-fit"],
        typer.Option(help="Steps of one size in turn, or those that fit the parity best."),
    ] = "alternating",
    beta: _BetaOption = 40.0,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Make m heads that come near a parity of more bits than m heads are known to hide.

    Example: attention-bounds generate sq-centre-threshold --bits 16 --heads 4 -o centre.safetensors
    """
    family = CentreThresholdFamily(
        dim=dim,
        bits=bits,
        heads_count=heads,
        steps="alternating" if steps == "alternating" else "best fit",
        beta=beta,
    )
    write_target(family_target(family, seed=seed), out, as_json)


def _token_parity(
    out: OutOption,
    dim: _DimOption = 48,
    tokens: Annotated[int, typer.Option(help="Number k of tokens.")] = 3,
    bits: _BitsOption = 2,
    beta: _BetaOption = 40.0,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Make a layer on any number of tokens in which every row hides a parity of its own token.

    Example: attention-bounds generate sq-token-parity --tokens 5 --bits 3 --dim 48 -o token-parity.safetensors
    """
    family = TokenParityFamily(dim=dim, tokens=tokens, bits=bits, beta=beta)
    write_target(family_target(family, seed=seed), out, as_json)


def _hidden_gate(
    out: OutOption,
    base: Annotated[
        Literal["parity", "two-slope"], typer.Option(help="What is hidden beside the gate.")
    ] = "parity",
    dim: _DimOption = 48,
    bits: Annotated[
        int | None, typer.Option(help="Number l of hidden coordinates; by default 3, of two slopes 8.")
    ] = None,
    construction: Annotated[
        Construction | None,
        typer.Option(help="Of a parity: D, by default, or B and C for an odd number of bits."),
    ] = None,
    beta: Annotated[float | None, typer.Option(help="Slope of a parity's constructions B and C.")] = None,
    slopes: _SlopesOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Make a layer of two tokens that hides its gate as well, so that nothing is known in advance.

    Example: attention-bounds generate sq-hidden-gate --bits 3 --dim 48 --seed 1 -o gate.safetensors
    """
    own: SymmetricFamily
    if base == "parity":
        _refuse(base, {"--slopes": slopes})
        own = ParityFamily(
            dim=dim, bits=3 if bits is None else bits, construction=construction or "D", beta=beta
        )
    else:
        _refuse(base, {"--construction": construction, "--beta": beta})
        own = _two_slopes(dim, 8 if bits is None else bits, slopes)
    write_target(family_target(HiddenGateFamily(base=own), seed=seed), out, as_json)


FAMILY_COMMANDS: Mapping[str, Callable[..., None]] = {
    "sq-pair": _pair,
    "sq-bump": _bump,
    "sq-two-slope": _two_slope,
    "sq-designed-steps": _designed_steps,
    "sq-centre-threshold": _centre_threshold,
    "sq-token-parity": _token_parity,
    "sq-hidden-gate": _hidden_gate,
}
"""The commands by their names."""


def _two_slopes(dim: int, bits: int, slopes: tuple[float, float] | None) -> TwoSlopeFamily:
    return (
        TwoSlopeFamily(dim=dim, bits=bits)
        if slopes is None
        else TwoSlopeFamily(dim=dim, bits=bits, slopes=slopes)
    )


def _refuse(base: str, options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name} is given with --base {base}, which has no use for it: leave it out.")
