"""``attention-bounds recover``: every attention layer of a trained model, learned back."""

from pathlib import Path
from typing import Annotated, Any

import typer

from arena.cli import WorkFailedError, WorkInterruptedError
from arena.cli.console import JsonOption, RunOptions, report, say
from arena.cli.options import takes
from arena.formats import plural
from arena.recovery import recover
from attention import read_checkpoint_layer


@takes(recover, read_checkpoint_layer, without=("layer",))
def recover_command(
    checkpoint: Annotated[
        Path, typer.Argument(help="A safetensors or PyTorch file, its index, or its folder.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for a page and the results."),
    ] = None,
    *,
    run: RunOptions,
    as_json: JsonOption = False,
    **settings: Any,
) -> None:
    """Learn the attention layers of a trained model back, and compare each with the truth.

    From examples, Newton learns, with the dimension of a head as the rank. From queries, all heads follow without a
    search. With --out every finished layer is kept: after an interruption the same command continues.

    Example: attention-bounds recover model.safetensors --layers 0,2-4 --by queries --out recovered
    """
    options = run.begin(out, "recover")
    recovery = recover(checkpoint, **settings, **options)
    done = recovery.layers
    if as_json or done:
        report(recovery, recovery.to_json(), as_json)
    if out is not None and done:
        say(f"\nThe page: {recovery.save(out)}", quiet=as_json)
    layers = plural(len(done) + recovery.missing, "layer")
    if recovery.missing:
        kept = "" if options["store"] is None else " and kept: the same command continues"
        raise WorkInterruptedError(f"Interrupted: {len(done)} of {layers} are done{kept}.")
    if failed := [layer for layer in done if layer.status != "done"]:
        first = f"layer {failed[0].layer} {failed[0].status}: {failed[0].message}"
        raise WorkFailedError(f"{len(failed)} of {layers} failed; the first, {first}")
