"""Engines: the same numbers from every library, and the choice by what is installed and asked for."""

import numpy as np
import pytest

from attention import BooleanInputs, ExampleOracle, make_nice_layer
from attention._arrays import to_numpy
from upper import Newton
from upper import engine as engines
from upper.engine import Engine, choose_engine


def _engine(library):
    xp = pytest.importorskip(library, reason=f"{library} is not installed")
    return Engine.of(xp.asarray(np.zeros(1)))


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", ["ones", "random"])
def test_a_gram_matrix_of_two_equal_columns_has_a_finite_inverse(library, dtype, columns):
    engine = _engine(library)
    a = np.ones((4, 2)) if columns == "ones" else np.random.default_rng(0).standard_normal((9, 4))
    a[:, -1] = a[:, -2]
    gram = (a.astype(dtype).T @ a.astype(dtype)).astype(dtype)
    inverse = to_numpy(engine.inverse_of_positive(engine.put(gram)))
    assert inverse.dtype == dtype
    assert np.all(np.isfinite(inverse))
    assert np.all(np.diagonal(inverse) > 0)


def test_auto_is_torch_where_it_is_installed(monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed")
    assert choose_engine().name == "torch"
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    assert choose_engine().name == "numpy"
    with pytest.raises(ImportError, match="pip install torch"):
        choose_engine("torch")
    with pytest.raises(ImportError, match="pip install torch"):
        choose_engine(device="cuda")


@pytest.mark.bad_input
def test_wrong_engines_and_devices():
    pytest.importorskip("torch", reason="torch is not installed")
    with pytest.raises(ValueError, match="'auto' or 'numpy' or 'torch'"):
        choose_engine("jax")
    with pytest.raises(ValueError, match="NumPy computes on the CPU"):
        choose_engine("numpy", "cuda")
    for name, device in (("torch", "no such device"), ("torch", "meta"), ("auto", "meta")):
        with pytest.raises(ValueError, match=f"device is '{device}', which torch cannot use here"):
            choose_engine(name, device)
    # before any example is drawn
    oracle = ExampleOracle(make_nice_layer(heads=2, dim=6, rng=0), BooleanInputs(3, 6), rng=1)
    with pytest.raises(ValueError, match="device is 'meta', which torch cannot use here"):
        Newton(2, engine="torch", device="meta").fit(oracle, rng=1)
    assert oracle.drawn == 0
