"""``attention-bounds inspect``: what a file holds, and which conditions it meets."""

from pathlib import Path
from typing import Annotated

import typer

from arena.cli.console import JsonOption, print_json, say
from arena.targets import Target, load_target
from attention.conditions import check_conditions
from lwe import verify_lwr_instance
from sq import verify_parity_instance

__all__ = ["inspect_command"]


def inspect_command(
    file: Annotated[Path, typer.Argument(help="A layer or an instance.")],
    tokens: Annotated[
        int | None, typer.Option(help="Number k of tokens, where the file does not say.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check a hard instance against its definition, input by input.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a layer's shape and conditions; for a hard instance, its certificate and its known part.

    Example: attention-bounds inspect parity.safetensors --verify
    """
    target = load_target(file, tokens=tokens)
    record, instance = target.record, target.instance
    report = check_conditions(target.layer, tokens=record.tokens)
    verification = _verification(target) if verify else None
    if as_json:
        print_json(
            {
                "file": str(file),
                "kind": record.kind,
                "title": record.title,
                "heads": record.heads,
                "tokens": record.tokens,
                "dim": record.dim,
                "inputs": record.inputs,
                "made": target.made,
                "conditions": report.to_json(),
                "certificate": None if instance is None else instance.certificate.to_json(),
                "known": record.known,
                "realisation_error": None if instance is None else instance.realisation_error,
                "verification": None if verification is None else str(verification),
            }
        )
        return
    say(f"{record.title}\n  {record.how}")
    say(
        f"  m = {record.heads} heads, k = {record.tokens} tokens, d = {record.dim}, {record.inputs['name']} inputs"
    )
    if instance is not None:
        say(f"\n{instance.certificate}\n\n{record.known}")
        say(
            f"Proved distance of the layer from its ideal target: at most {instance.realisation_error:.3g} a row."
        )
    if verification is not None:
        say(f"\n{verification}")
    say(f"\n{report}")


def _verification(target: Target) -> object:
    if target.instance is None:
        raise ValueError("Only a hard instance can be verified: a nice layer is what its numbers say.")
    verifier = verify_parity_instance if target.record.kind == "parity" else verify_lwr_instance
    return verifier(target.instance, rng=0)
