"""``attention-bounds linear``: learn linear attention exactly, certify it, and run the experiments on it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from arena.cli.console import (
    JsonOption,
    RunOptions,
    SeedOption,
    print_json,
    require_counts,
    require_writable,
    say,
    showing_steps,
    takes_run_options,
)
from arena.cli.generate import InputsName
from arena.cli.study import measure_studies
from arena.formats import plural
from arena.linear_certify import certify_linear, token_source
from arena.linear_learn import learn_linear
from attention import BooleanInputs, GaussianInputs, SphereInputs
from attention.files import read_array, write_whole
from attention.foreign import json_text
from attention.memory import require_memory
from attention.validation import NonNegativeFloat, check
from runs import Scale
from runs.figures import save_figure
from studies import STUDIES, find_studies
from studies.line_figure import Panel, line_figure
from upper.linear_attention import (
    feature_count,
    load_linear_attention,
    make_linear_attention,
    save_linear_attention,
)
from upper.linear_attention.least_squares import require_feature_memory
from upper.linear_attention.populations import POPULATIONS
from upper.linear_attention.regression import Method

__all__ = ["linear_app"]

_INPUTS: Mapping[str, Any] = {
    "gaussian": GaussianInputs,
    "boolean": BooleanInputs,
    "sphere": SphereInputs,
}
_UNSEEN = 1000
_EXPERIMENTS = [name.removeprefix("linear-") for name in STUDIES if name.startswith("linear-")]

AverageOption = Annotated[
    bool, typer.Option("--average", help="G is the mean over the tokens instead of their sum.")
]

linear_app = typer.Typer(
    help=(
        "Linear attention: learned exactly by regression, certified, and the experiments on it.\n\n"
        "Example: attention-bounds linear learn --dim 8 --heads 4 --adam 2000 --out learned"
    ),
    rich_markup_mode=None,
)


@linear_app.command("learn")
def linear_learn_command(
    file: Annotated[
        Path | None,
        typer.Argument(help="A model of linear attention to learn; by default a random model."),
    ] = None,
    examples_from: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="X Y",
            help="Instead of a model: examples, the tokens (N, n, d) and the labels (N, p), as .npy or safetensors "
            "files. A tenth is held out.",
        ),
    ] = None,
    dim: Annotated[int | None, typer.Option(help="Dimension d of the random model; by default 8.")] = None,
    heads: Annotated[int | None, typer.Option(help="Heads H of the random model; by default 4.")] = None,
    outputs: Annotated[int | None, typer.Option(help="Outputs p of the random model; by default d.")] = None,
    tokens: Annotated[int | None, typer.Option(help="Tokens per sequence; by default 10.")] = None,
    inputs: Annotated[
        InputsName | None, typer.Option(help="Distribution of the tokens drawn; by default gaussian.")
    ] = None,
    examples: Annotated[
        int | None, typer.Option(help="Examples; by default 2 D, twice the number of features.")
    ] = None,
    noise: Annotated[
        float | None,
        typer.Option(
            help="Standard deviation of Gaussian noise on the labels, relative to the labels' own size."
        ),
    ] = None,
    average: AverageOption = False,
    method: Annotated[Method, typer.Option(help="How to solve the least squares.")] = "auto",
    least_norm: Annotated[
        bool,
        typer.Option(
            "--least-norm", help="Allow fewer examples than features: take the solution of least norm."
        ),
    ] = False,
    find_heads: Annotated[
        bool,
        typer.Option("--find-heads/--no-heads", help="Write the coefficients as few heads."),
    ] = True,
    fit_heads: Annotated[
        int | None, typer.Option(help="How many heads to find, instead of as few as possible.")
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="Relative distance of coefficients within which heads count as found; by default 1e-7, or with noise "
            "a quarter more than the coefficients' standard error."
        ),
    ] = None,
    adam: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="STEPS",
            help="Steps of Adam, which also trains heads on the same examples: as many as the model has, and twice "
            "as many.",
        ),
    ] = 0,
    adam_heads: Annotated[
        int | None, typer.Option(help="Heads that Adam trains, instead; needed with --examples-from.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Folder for the figures, learned.json and the heads, model.safetensors."
        ),
    ] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Learn linear attention from examples by regression; report what they determine, and find its heads.

    Example: attention-bounds linear learn --dim 8 --heads 4 --adam 2000 --out learned

    From your own examples: attention-bounds linear learn --examples-from X.npy Y.npy
    """
    counts = {"dim": dim, "heads": heads, "outputs": outputs, "tokens": tokens, "examples": examples}
    require_counts(**counts, fit_heads=fit_heads, adam_heads=adam_heads)
    if tolerance is not None and not 0 < tolerance < 1:
        raise ValueError(f"--tolerance is {tolerance}: a number above 0 and below 1 is needed.")
    if not find_heads and (fit_heads is not None or tolerance is not None):
        raise ValueError("--no-heads leaves nothing for --fit-heads and --tolerance: leave them out.")
    if adam_heads is not None and not adam:
        raise ValueError("--adam-heads is for --adam: give it a number of steps, too.")
    if file is not None and examples_from is not None:
        raise ValueError(f"{file} and --examples-from are two things to learn from: leave one out.")
    made = {"--dim": dim, "--heads": heads, "--outputs": outputs}
    drawn = {"--tokens": tokens, "--inputs": inputs, "--examples": examples, "--noise": noise}
    if file is not None:
        made["--average"] = average or None
    if file is not None or examples_from is not None:
        _refuse(made, "is for a random model: leave it out, or leave out what is given.")
    if examples_from is not None:
        _refuse(drawn, "is for examples that are drawn: leave it out, given ones are as they are.")
    if out is not None:
        require_writable(out, directory=True)
    if examples_from is not None:
        x, y = _read_examples(*examples_from)
        if adam and adam_heads is None:
            raise ValueError(
                "Examples do not say how many heads Adam is to train: give --adam-heads a number."
            )
        settings: dict[str, Any] = {"source": f"{len(x)} examples from {examples_from[0]}"}
    else:
        relative_noise = 0.0 if noise is None else check("--noise", noise, NonNegativeFloat)
        rng = np.random.default_rng([seed, 0])
        if file is None:
            d = 8 if dim is None else dim
            require_feature_memory(feature_count(d))
            model = make_linear_attention(
                heads=4 if heads is None else heads, dim=d, outputs=outputs, average=average, rng=rng
            )
        else:
            model = load_linear_attention(file)
        average, features = model.average, feature_count(model.dim)
        number = 2 * features if examples is None else examples
        require_memory(f"The labels of {number} examples", 8 * number * model.outputs)
        tokens_of = _INPUTS[inputs or "gaussian"](tokens=10 if tokens is None else tokens, dim=model.dim)
        x = tokens_of.sample(number, rng=rng)
        y = np.asarray(model(x))
        if relative_noise:
            y = y + relative_noise * np.sqrt(np.mean(y**2)) * rng.standard_normal(y.shape)
        unseen = tokens_of.sample(_UNSEEN, rng=rng)
        source = f"{model!r} on {inputs or 'gaussian'} tokens"
        source += f", noise {relative_noise:g}" if relative_noise else ""
        settings = {"unseen": (unseen, model(unseen)), "noise": relative_noise, "source": source}
        settings["adam_heads"] = (model.heads, 2 * model.heads)
    if adam_heads is not None:
        settings["adam_heads"] = (adam_heads,)
    with showing_steps("Linear attention") as tick:
        learned = learn_linear(
            x,
            y,
            average=average,
            method=method,
            least_norm=least_norm,
            heads=find_heads,
            number_of_heads=fit_heads,
            tolerance=tolerance,
            adam_steps=adam,
            seed=seed,
            on_step=tick,
            **settings,
        )
    _show("learned", learned, out, as_json)
    if out is not None:
        file, model = out / "model.safetensors", learned.model
        save_linear_attention(file, model, made={"generator": "linear learn", "seed": seed})
        say(f"model: {file}, {plural(model.heads, 'head')}", quiet=as_json)


@linear_app.command("certify")
def linear_certify_command(
    data: Annotated[
        str,
        typer.Option(
            help=f"The training data: {', '.join(POPULATIONS)}, or a file of tokens (N, n, d), .npy or safetensors."
        ),
    ],
    domain: Annotated[str, typer.Option(help="The inputs on which errors count: the same choices.")],
    dim: Annotated[
        int | None,
        typer.Option(
            help="Dimension of populations, including a constant coordinate; by default that of the file of the other."
        ),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(help="Tokens per sequence of the data, if they are a population; by default 5."),
    ] = None,
    domain_tokens: Annotated[
        int | None,
        typer.Option(
            help="Tokens per sequence of the domain, if it is a population; by default as in the data."
        ),
    ] = None,
    average: AverageOption = False,
    tolerance: Annotated[
        float, typer.Option(help="Eigenvalues below this share of the largest count as zero.")
    ] = 1e-10,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the figure and certified.json.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Decide whether examples determine linear attention on a domain, and how much errors may grow there.

    Example: attention-bounds linear certify --data boolean --domain gaussian --dim 4

    With your own tokens: attention-bounds linear certify --data X.npy --domain gaussian --dim 4
    """
    if out is not None:
        require_writable(out, directory=True)
    require_counts(dim=dim, tokens=tokens, domain_tokens=domain_tokens)
    cared = None
    if data in POPULATIONS and domain not in POPULATIONS:
        # a file determines its dimension and length, and also those of a population on the other side
        cared = token_source(domain, dim=None, tokens=domain_tokens)
        dim, tokens = (cared.dim if dim is None else dim), (cared.tokens if tokens is None else tokens)
    learned = token_source(data, dim=dim, tokens=tokens)
    if cared is None:
        beside = learned.tokens if domain in POPULATIONS and domain_tokens is None else domain_tokens
        cared = token_source(domain, dim=learned.dim if dim is None else dim, tokens=beside)
    with showing_steps("Certificate"):
        certified = certify_linear(learned, cared, tolerance=tolerance, average=average)
    _show("certified", certified, out, as_json)


@linear_app.command("experiment")
@takes_run_options
def linear_experiment_command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help=f"One of {', '.join(_EXPERIMENTS)}, several with commas, or all."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of records and figures.")] = Path(
        "results/studies"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sizes and fewer repetitions.")] = False,
    *,
    run: RunOptions,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Run a study of linear attention: ``study linear-NAME`` at full scale.

    Example: attention-bounds linear experiment tasks --out results/studies
    """
    names = [part.strip() for part in name.split(",")]
    if unknown := [one for one in names if one not in (*_EXPERIMENTS, "all")]:
        raise ValueError(
            f"There is no experiment {unknown[0]!r}: choose among {', '.join(_EXPERIMENTS)}, or all."
        )
    chosen = find_studies([f"linear-{one}" for one in (_EXPERIMENTS if "all" in names else names)])
    scale = Scale.QUICK if quick else Scale.FULL
    measure_studies(chosen, scale=scale, out=out, run=run, seed=seed, as_json=as_json)


def _show(name: str, result: Any, out: Path | None, as_json: bool) -> None:
    """Write a result and its figures into a folder, and print it."""
    told = result.to_json()
    if as_json:
        print_json(told)
    else:
        say(str(result))
    if out is None:
        return
    panels: Mapping[str, Panel] = result.panels()
    for figure_name, panel in panels.items():
        for ending in ("svg", "pdf"):
            save_figure(line_figure([panel]), out / f"{figure_name}.{ending}")
    text = json_text(told) + "\n"
    write_whole(out / f"{name}.json", text.encode())
    say(f"written: {out / name}.json and the figures beside it", quiet=as_json)


def _read_examples(tokens: Path, labels: Path) -> tuple[np.ndarray, np.ndarray]:
    x, y = (np.asarray(read_array(path), dtype=float) for path in (tokens, labels))
    y = y[:, None] if y.ndim == 1 else y  # one output
    if x.ndim != 3 or y.ndim != 2 or len(x) < 2 or len(x) != len(y):
        raise ValueError(
            f"{tokens} has shape {x.shape} and {labels} {y.shape}: (N, n, d) and (N, p) are needed, with the same N, "
            "at least two."
        )
    return x, y


def _refuse(options: Mapping[str, Any], why: str) -> None:
    """Raise if the command has options that would not be used."""
    for option, value in options.items():
        if value is not None:
            raise ValueError(f"{option} {why}")
