"""``attention-bounds inspect``: what a file holds, and which conditions it meets."""

from pathlib import Path
from typing import Annotated, Any

import typer

from arena.cli.console import JsonOption, WorkFailedError, print_json, say, target_json
from arena.targets import Target, load_target
from attention.conditions import ConditionReport, check_conditions
from attention.files import load_layer
from lower import HardInstance
from lwe import LWRVerification, verify_lwr_instance
from sq import ParityVerification, verify_parity_instance

__all__ = ["inspect_command"]


def inspect_command(
    file: Annotated[Path, typer.Argument(help="A layer or an instance.")],
    tokens: Annotated[
        int | None, typer.Option(help="Number k of tokens, where the file does not say.")
    ] = None,
    threshold: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE: another threshold for a condition; may be repeated.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check a hard instance against its definition, input by input.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a layer's shape and conditions; for a hard instance, its certificate and its known part.

    Example: attention-bounds inspect parity.safetensors --verify
    """
    thresholds = dict(_name_and_value(one) for one in threshold or [])
    if tokens is None and (stored := load_layer(file)).inputs is None:
        # a layer from elsewhere: its conditions need no number of tokens
        if verify:
            raise ValueError("Only a hard instance can be verified: a layer is what its numbers say.")
        report = check_conditions(stored.layer, thresholds=thresholds)
        if as_json:
            print_json(
                {"file": str(file), "heads": report.heads, "dim": report.dim, "conditions": report.to_json()}
            )
        else:
            say(str(report))
        return
    target = load_target(file, tokens=tokens)
    report = check_conditions(target.layer, tokens=target.record.tokens, thresholds=thresholds)
    verification = _verification(target.instance) if verify else None
    if as_json:
        print_json(_as_json(file, target, report, verification))
    else:
        _describe(target, report, verification)
    if verification is not None and not verification.holds:
        raise WorkFailedError(
            f"{file} is not what its certificate says: the layer does not compute its secret's labels."
        )


def _name_and_value(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name.strip(), float(value)
    except ValueError:
        raise ValueError(f"The threshold is {text!r}: NAME=VALUE is needed, as in theta_trace=0.5.") from None


def _verification(instance: HardInstance | None) -> ParityVerification | LWRVerification:
    if instance is None:
        raise ValueError("Only a hard instance can be verified: a nice layer is what its numbers say.")
    return (verify_lwr_instance if instance.family == "lwr" else verify_parity_instance)(instance, rng=0)


def _as_json(
    file: Path,
    target: Target,
    report: ConditionReport,
    verification: ParityVerification | LWRVerification | None,
) -> dict[str, Any]:
    instance = target.instance
    return target_json(file, target) | {
        "conditions": report.to_json(),
        "certificate": None if instance is None else instance.certificate.to_json(),
        "known": target.record.known,
        "realisation_error": None if instance is None else instance.realisation_error,
        "verification": None if verification is None else verification.to_json(),
    }


def _describe(
    target: Target, report: ConditionReport, verification: ParityVerification | LWRVerification | None
) -> None:
    record, instance = target.record, target.instance
    say(f"{record.title}\n  {record.how}")
    say(f"  m = {record.heads}, k = {record.tokens}, d = {record.dim}, {record.inputs['name']} inputs")
    if instance is not None:
        say(f"\n{instance.certificate}\n\n{record.known}")
    if verification is not None:
        say(f"\n{verification}")
    say(f"\n{report}")
