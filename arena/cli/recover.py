"""``attention-bounds recover``: every attention layer of a trained model, learned back."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from arena.cli.console import (
    BiasesOption,
    CoordinatesOption,
    HeadsOption,
    InputsName,
    JsonOption,
    PrefixOption,
    RunOptions,
    SeedOption,
    TimeoutOption,
    gather,
    print_json,
    require_counts,
    say,
    takes_run_options,
)
from arena.cli.errors import WorkFailedError, WorkInterruptedError
from arena.formats import plural
from arena.recovery import Recovery, Way, recover_layers, recovery_cells
from attention.checkpoints import checkpoint_layers
from attention.validation import PositiveFloat, check

__all__ = ["recover_command"]


@takes_run_options
def recover_command(
    checkpoint: Annotated[
        Path, typer.Argument(help="A safetensors or PyTorch file, its index, or its folder.")
    ],
    layers: Annotated[str, typer.Option(help="all, or numbers from 0 and ranges, such as 0,2-4.")] = "all",
    by: Annotated[
        Way, typer.Option(help="What the learner sees: random examples, or answers to its queries.")
    ] = "examples",
    tokens: Annotated[int, typer.Option(help="Number k of tokens.")] = 4,
    inputs: Annotated[InputsName, typer.Option(help="Distribution of the tokens.")] = "boolean",
    examples: Annotated[
        int | None, typer.Option(help="Budget in examples or queries for each layer; by default enough.")
    ] = None,
    heads: HeadsOption = None,
    prefix: PrefixOption = None,
    biases: BiasesOption = "kept",
    coordinates: CoordinatesOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for a page with a map of heads, and for the results."),
    ] = None,
    *,
    run: RunOptions,
    timeout: TimeoutOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Learn the attention layers of a trained model back, and compare each with the truth.

    From examples, Newton learns, with the dimension of a head as the rank. From queries, all heads follow without a
    search. With --out every finished layer is kept: after an interruption the same command continues.

    Example: attention-bounds recover model.safetensors --layers 0,2-4 --by queries --out recovered
    """
    require_counts(tokens=tokens, examples=examples, heads=heads)
    if timeout is not None:
        check("--timeout", timeout, PositiveFloat)
    chosen = _chosen(layers, checkpoint_layers(checkpoint, prefix=prefix))
    settings: dict[str, Any] = {"tokens": tokens, "inputs": inputs, "examples": examples, "seed": seed}
    reading: dict[str, Any] = {"heads": heads, "prefix": prefix, "biases": biases, "coordinates": coordinates}
    cells = recovery_cells(checkpoint, chosen, by=by, **settings, **reading)
    options = run.begin(out, "recover")
    done, whole = gather(lambda keep: recover_layers(cells, on_layer=keep, timeout=timeout, **options))
    ordered = tuple(sorted(done, key=lambda one: one.layer))
    told = Recovery(checkpoint.resolve().name, by, settings | reading, ordered)
    if as_json:
        print_json(told.to_json())
    elif done:
        say(str(told))
    if out is not None and done:
        say(f"\nThe page with the map of heads: {told.save(out)}", quiet=as_json)
    if not whole:
        kept = "" if options["store"] is None else " and kept: the same command continues"
        raise WorkInterruptedError(
            f"Interrupted: {len(done)} of {plural(len(cells), 'layer')} are done{kept}."
        )
    if failed := [one for one in done if one.status != "done"]:
        first = f"layer {failed[0].layer} {failed[0].status}: {failed[0].message}"
        raise WorkFailedError(f"{len(failed)} of {plural(len(cells), 'layer')} failed; the first, {first}")


def _chosen(text: str, there: Sequence[int]) -> list[int]:
    """The numbers of layers in an option, each once, in order."""
    if text.strip().lower() == "all":
        return list(there)
    wanted: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,9})(?:-([0-9]{1,9}))?\s*", part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise ValueError(
                f"--layers is {text!r}: all, or numbers and ranges with commas between them, as in 0,2-4, are needed."
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if missing := [one for one in (first, last) if one not in there]:
            known = ", ".join(map(str, there))
            raise ValueError(f"--layers is {text!r}: there is no layer {missing[0]}, only {known}.")
        wanted |= {one for one in there if first <= one <= last}
    return sorted(wanted)
