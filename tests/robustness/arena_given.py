"""Targets, seeds and names with which the functions of `arena` are tried, and what is shared in trying them."""

import numpy as np
from fuzzing import (
    Argument,
    Given,
    Subject,
    anything,
    choice,
    fixed,
    made,
    whole,
)
from hypothesis import strategies as st

import arena
import arena.studies

SEED = whole(0, 3)
NAME = Argument(
    st.sampled_from([fixed(""), fixed("mine")]),
    st.sampled_from([fixed(one) for one in ("a\nb", "\x1b[31m", "x" * 10_000, "../up", "/", "\udcff")])
    | anything(None).hostile,
)
INPUTS = choice("boolean", "gaussian", "sphere")
OPTIONAL = Argument(st.just(fixed(None)), whole().hostile)
FILES = {}


def nice():
    return arena.nice_target(heads=1, tokens=2, dim=3)


def lwr():
    return arena.lwr_target(secret_dim=3, modulus=4, levels=2)


def prepare(folder):
    arena.save_target(folder / "nice.safetensors", nice())
    np.save(folder / "x.npy", np.ones(3))
    (folder / "empty.safetensors").write_bytes(b"")
    (folder / "random.safetensors").write_bytes(np.random.default_rng(0).bytes(300))
    FILES.update(
        {
            name: folder / name
            for name in ("nice.safetensors", "x.npy", "empty.safetensors", "random.safetensors")
        }
    )
    FILES["folder"] = folder


def file(name):
    return Argument(
        st.just(Given(name, lambda: FILES[name])),
        st.sampled_from(
            [
                Given(one, lambda one=one: FILES[one])
                for one in ("x.npy", "empty.safetensors", "random.safetensors", "folder")
            ]
        )
        | st.sampled_from([fixed(one) for one in ("missing.safetensors", "", "x" * 300, "a\nb", "\x00")])
        | anything(None).hostile,
    )


TARGET = made(nice, "<nice target>")


def told(result, given):
    str(result)


def subject(
    name,
    call,
    right,
    /,
    share=1.0,
    words=(),
    refuses=False,
    repeatable=True,
    also=(),
    seconds=3.0,
    **arguments,
):
    return Subject(
        name,
        call,
        arguments,
        right=right,
        share=share,
        words=words,
        refuses=refuses,
        repeatable=repeatable,
        also=also,
        seconds=seconds,
    )
