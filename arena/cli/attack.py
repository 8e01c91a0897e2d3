"""``attention-bounds attack``: attacks on an instance of learning with rounding, or on samples from files."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from arena.attacking import Attacked, attack_samples, samples_of
from arena.attacks import ATTACKS, choose_attacks, learners_on_engine
from arena.cli.console import (
    DeviceOption,
    EngineOption,
    JsonOption,
    SeedOption,
    gather,
    print_json,
    require_counts,
    require_writable,
    say,
    write_json,
)
from arena.cli.errors import WorkFailedError, WorkInterruptedError
from arena.engines import require_engine
from arena.learning import learn
from arena.targets import Target, load_target
from attention.validation import PositiveFloat, check
from lwe import AttackOutcome, AttackResult, parse_distribution, read_samples
from lwe.sample_files import StoredSamples, kind_of_file
from sq import PeriodicFamily

__all__ = ["attack_command"]

_FOR_SAMPLES = ("labels", "q", "p", "matrix", "secret", "Xs", "Xe", "rounding")


def attack_command(
    file: Annotated[
        Path,
        typer.Argument(
            help="An instance of learning with rounding or of sq-periodic; samples as .npz or an LWE "
            "challenge; or the matrix A, as .npy or as [[1 2][3 4]]."
        ),
    ],
    attacks: Annotated[
        str | None,
        typer.Option(
            help=f"Comma-separated among {', '.join(ATTACKS)}; by default all before newton, which learn layers."
        ),
    ] = None,
    budget: Annotated[float, typer.Option(help="Seconds for each attack.")] = 30.0,
    samples: Annotated[
        int | None, typer.Option(help="How many samples each attack gets.  [default: 20000]")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="With a matrix: the labels b, as .npy or as [1 2].")
    ] = None,
    q: Annotated[
        int | None, typer.Option(help="With a matrix, or .npz of another program: the modulus, at most 2^52.")
    ] = None,
    p: Annotated[
        int | None,
        typer.Option(
            help="With a matrix: the levels, if labels are rounded down to so many values, floor(p x / q)."
        ),
    ] = None,
    matrix: Annotated[
        str | None, typer.Option(help="With a matrix: uniform (the default), binary or ternary entries.")
    ] = None,
    secret: Annotated[
        Path | None, typer.Option(help="With samples: the true secret, as .npy or as [1 2], for comparison.")
    ] = None,
    Xs: Annotated[
        str | None,
        typer.Option(
            "--Xs",
            help="With a matrix: the distribution of the secret: uniform (the default), binary, binomial:2, sparse:8, "
            "...",
        ),
    ] = None,
    Xe: Annotated[
        str | None,
        typer.Option(
            "--Xe",
            help="With a matrix: the distribution of the errors: zero (the default), gaussian:3, binomial:2, ...",
        ),
    ] = None,
    rounding: Annotated[
        str | None,
        typer.Option(
            help="With samples and --p: down, or nearest: floor(p x / q + 1/2).  [default: down, and nearest if "
            "that breaks nothing]"
        ),
    ] = None,
    engine: EngineOption = None,
    device: DeviceOption = None,
    jobs: Annotated[int, typer.Option(help="How many attacks run at once.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Where to write the results as JSON, after every attack."),
    ] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Attack learning with rounding, or with errors: a table of what each attack finds within its seconds.

    Broken: all labels are predicted; with errors, as many as the secret itself predicts. Predicts: more labels than by
    chance. False: a bound on the probability that random
    labels have a secret that fits so well, over all secrets; above 10^-4 nothing is called broken. Secret: whether it
    is the true one, or "found" if that is unknown. At the limit of its reach, the success of an attack depends on the
    secret and on --seed.

    A periodic wave (sq-periodic) is attacked by lattice reduction alone, which gives a layer; the budget is not used.

    Example: attention-bounds attack lwr.safetensors --budget 10

    Samples from files: attention-bounds attack LWE_40_005.txt --budget 300

    Matrices: attention-bounds attack A.npy --labels b.npy --q 3329 --Xe gaussian:3
    """
    chosen = learners_on_engine(choose_attacks(attacks), engine=engine, device=device)
    require_engine(engine, device)
    require_counts(jobs=jobs, samples=samples)
    budget = check("--budget", budget, PositiveFloat)
    given = {
        name: value
        for name, value in zip(
            _FOR_SAMPLES,
            (labels, q, p, matrix, secret, Xs, Xe, rounding),
            strict=True,
        )
        if value is not None
    }
    if (
        not given
        and kind_of_file(file) is None
        and (target := load_target(file)).instance is not None
        and isinstance(target.instance.family, PeriodicFamily)
    ):
        unused = {"samples": samples, "engine": engine, "device": device}
        _attack_wave(target, attacks, unused, out, seed=seed, as_json=as_json)
        return
    stored, title = _samples(file, samples, given, seed)
    drawn, parameters = stored.samples, stored.parameters
    truth = None if stored.secret is None else tuple(map(int, stored.secret))
    for hint in _hints(stored) if given or not stored.rounding_known else ():
        say(hint, quiet=as_json)
    if out is not None:
        require_writable(out, source=file)
    there: dict[str, AttackResult] = {}
    nearest: list[str] = []

    def attacked() -> Attacked:
        rounding = "nearest" if nearest else drawn.rounding
        results = tuple(there[attack.name] for attack in chosen if attack.name in there)
        rest = tuple(attack.name for attack in chosen if attack.name not in there)
        return Attacked(title, parameters, len(drawn), budget, results, truth, rest, rounding)

    def work(tell: Callable[[AttackResult], None]) -> tuple[AttackResult, ...]:
        def keep(result: AttackResult) -> None:
            there[result.attack] = result
            if out is not None:
                write_json(out, attacked().to_json())
            tell(result)

        def keep_broken(result: AttackResult) -> None:
            if result.outcome is AttackOutcome.BROKEN:
                nearest.append(result.attack)
                keep(result)

        options: dict[str, Any] = {"seconds": budget, "jobs": min(jobs, len(chosen)), "seed": seed}
        attack_samples(drawn, parameters, chosen, on_result=keep, progress=True, **options)
        if not stored.rounding_known and not attacked().broken_by:
            others = replace(drawn, rounding="nearest")
            attack_samples(others, parameters, chosen, on_result=keep_broken, progress=True, **options)
        return tuple(there.values())

    _, whole = gather(work)
    if as_json:
        print_json({"file": str(file), **attacked().to_json()})
    elif there:
        say(str(attacked()))
    if out is not None and there:
        say(f"\n{out}", quiet=as_json)
    if not whole:
        rest = ", ".join(attacked().not_run)
        raise WorkInterruptedError(
            f"Interrupted: {len(there)} of {len(chosen)} attacks were done. Not run to their end: {rest}."
        )
    if all(one.outcome is AttackOutcome.FAILED for one in there.values()):
        raise WorkFailedError(f"All attacks failed; the first: {next(iter(there.values())).explanation}")


def _attack_wave(
    target: Target,
    attacks: str | None,
    unused: dict[str, Any],
    out: Path | None,
    *,
    seed: int,
    as_json: bool,
) -> None:
    """Lattice reduction on a periodic wave, which has real labels: the attack is a learner of layers."""
    given = [f"--{name.replace('_', '-')}" for name, value in unused.items() if value is not None]
    if given or attacks not in (None, "lattice"):
        raise ValueError(
            f"{', '.join(given) or f'--attacks {attacks}'}: a periodic wave is attacked by lattice alone, from as many "
            "examples as it takes; leave it out."
        )
    if out is not None:
        require_writable(out)
    found = learn(target, "lattice", seed=seed)
    print_json(found.to_json()) if as_json else say(str(found))
    if out is not None:
        write_json(out, found.to_json())


def _samples(file: Path, number: int | None, given: dict[str, Any], seed: int) -> tuple[StoredSamples, str]:
    """The samples that the command line names, and their title: those of an instance or those of files."""
    kind, options = kind_of_file(file), ", ".join(f"--{name.replace('_', '-')}" for name in given)
    if kind is None:
        if given:
            raise ValueError(
                f"{options}: such options are for samples, and {file} holds none. An instance says them itself; save a "
                "matrix with numpy.save."
            )
        target = load_target(file)
        own, parameters, truth = samples_of(target, 20_000 if number is None else number, seed=seed)
        return StoredSamples(own, parameters, np.array(truth)), target.record.title
    of_problem = {*given} - {"secret", "rounding"}
    for name in ("labels", "q") if kind == "matrix" else ():
        if name not in given:
            raise ValueError(f"{file} holds a matrix: --{name} is needed, too.")
    problem: dict[str, Any] = {name: given[name] for name in ("q", "p") if name in given}
    if of_problem:
        problem["matrix"] = given.get("matrix", "uniform")
    problem |= {name: parse_distribution(given[name]) for name in ("Xs", "Xe") if name in given}
    stored = read_samples(
        file,
        problem or None,
        labels_path=given.get("labels"),
        secret_path=given.get("secret"),
        rounding=given.get("rounding"),
    )
    if number is not None:
        if number > len(stored.samples):
            raise ValueError(f"--samples is {number}: {file} has {len(stored.samples)} rows.")
        stored = replace(stored, samples=stored.samples.take(number))
    return stored, f"{file} and {given['labels']}" if kind == "matrix" else str(file)


def _hints(stored: StoredSamples) -> Iterator[str]:
    """What was assumed, and options that the command may have to add."""
    samples, parameters = stored.samples, stored.parameters
    if not stored.rounding_known:
        yield (
            "Labels are taken as rounded down, and if that breaks nothing, to the nearest; --rounding says which."
        )
    if parameters.p == parameters.q and not parameters.noisy:
        yield "Labels are taken as exact: where they have errors or are rounded, give --Xe or --p."
    if len(samples) == samples.n:
        yield "A is square: its rows are taken as samples; where its columns are, save the transpose."
    if parameters.matrix == "uniform" and parameters.q > 2 and np.all(samples.public >> 1 == 0):
        yield "All entries of the matrix are 0 or 1: --matrix binary tells the attacks."
