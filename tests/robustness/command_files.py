"""Files as users of the command line have them, damaged ones, and pipes and links that cannot be read."""

import contextlib
import io
import json
import os
import random
import shutil
from pathlib import Path

import cloudpickle
import numpy as np
import safetensors.numpy
from command_values import DAMAGED

import arena.calls
from arena.cli.main import run
from attention.files import write_examples
from upper.linear_attention import make_linear_attention, save_linear_attention


def write_files(folder: Path) -> Path:
    """A folder of files as a user has them, and of damaged ones."""
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        for words in (
            "generate nice --heads 1 --dim 4 -o nice.safetensors",
            "generate sq-parity --dim 6 -o parity.safetensors",
            "generate lwr --secret-dim 4 --modulus 8 --levels 2 -o lwr.safetensors",
        ):
            assert run(words.split()) == 0
        _write_arrays(np.random.default_rng(0))
        with in_this_process():
            assert (
                run(
                    [
                        "compare",
                        "nice.safetensors",
                        "--learners",
                        "known-part",
                        "--seeds",
                        "1",
                        "--jobs",
                        "1",
                        "--out",
                        "made",
                    ]
                )
                == 0
            )
        shutil.move("made/runs.sqlite", "runs.sqlite")
        shutil.rmtree("made")
        _write_damaged()
        for name in ("folder", "folder.safetensors", "folder.npy"):
            Path(name).mkdir()
            Path(name, "kept.txt").write_text("kept")
    return folder


def _write_arrays(rng: np.random.Generator) -> None:
    a, s = rng.integers(0, 8, (40, 4)), rng.integers(0, 8, 4)
    x = rng.standard_normal((60, 3, 2))
    np.save("A.npy", a)
    np.save("b.npy", (a @ s % 8) * 2 // 8)
    np.save("s.npy", s)
    np.save("x.npy", x)
    np.save("y.npy", x[:, :, ::-1])
    np.save("v.npy", x.sum(axis=(1, 2))[:, None])
    np.savez("arrays.npz", x=x)
    write_examples("examples.safetensors", x, x[:, :, ::-1])
    save_linear_attention("linear.safetensors", make_linear_attention(heads=1, dim=2, rng=0))
    modules = [f"attention.self.{role}" for role in ("query", "key", "value")] + ["attention.output.dense"]
    bert = {f"bert.encoder.layer.{n}.{name}": (4, 4) for n in range(2) for name in modules}
    gpt = {f"transformer.h.{n}.{name}": shape for n in range(2) for name, shape in _GPT.items()}
    for kind, word, shapes, axis in (("bert", "num_attention_heads", bert, 0), ("gpt2", "n_head", gpt, 1)):
        Path(kind).mkdir()
        tensors = {f"{name}.weight": rng.standard_normal(shape) for name, shape in shapes.items()}
        tensors |= {f"{name}.bias": rng.standard_normal(shape[axis]) for name, shape in shapes.items()}
        safetensors.numpy.save_file(tensors, Path(kind, "model.safetensors"))
        Path(kind, "config.json").write_text(json.dumps({"model_type": kind, word: 2}))


_GPT = {"attn.c_attn": (4, 12), "attn.c_proj": (4, 4)}


def _write_damaged() -> None:
    like = {
        ".safetensors": "nice.safetensors",
        ".npy": "x.npy",
        ".npz": "arrays.npz",
        ".sqlite": "runs.sqlite",
        ".json": "bert/config.json",
    }
    chance = random.Random(0)
    for name in DAMAGED:
        path = Path(name)
        content = {
            "empty": b"",
            "random": chance.randbytes(500),
            "half": Path(like.get(path.suffix, "x.npy")).read_bytes(),
            "text": b"some words\n" * 20,
            "list": b"[1, 2, NaN]",
            "zeros": bytes(4096),
        }[path.stem]
        path.write_bytes(content[: len(content) // 2] if path.stem == "half" else content)


def put_files(files: Path, folder: Path) -> None:
    """A copy of the files in a folder that lies alone in another, with links and pipes that cannot be read."""
    shutil.rmtree(folder.parent, ignore_errors=True)
    shutil.copytree(files, folder)
    os.symlink("loop.safetensors", folder / "loop.safetensors")
    os.symlink("nowhere", folder / "nowhere.safetensors")
    for pipe in ("pipe.npy", "pipe.safetensors"):
        os.mkfifo(folder / pipe)


@contextlib.contextmanager
def in_this_process():
    """What runs in processes of its own runs here: they take seconds to start, and are tested elsewhere."""

    def here(job, *, timeout=None, group="", wanted=None):
        function, arguments = cloudpickle.loads(job)
        return function(*arguments)

    before = arena.calls.run_isolated
    arena.calls.run_isolated = here
    try:
        yield
    finally:
        arena.calls.run_isolated = before
