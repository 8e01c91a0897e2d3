"""Attention modules of torch in float32, with and without biases and a causal mask: learned in one call each."""

import numpy as np
import pytest

from arena import learn
from attention import convert_torch_module, parameter_errors
from upper import counting_floor

torch = pytest.importorskip("torch")


class Module:
    """A module as torch makes it, its shape by the seed, and its biases random if it has some."""

    def __init__(self, seed, dims, *, biased, causal):
        torch.manual_seed(seed)
        rng = np.random.default_rng(seed)
        self.heads, self.tokens = 2 ** (seed % 4), int(rng.integers(3, 6))
        self.dim, self.biased, self.causal = int(rng.choice(dims)), biased, causal
        self.module = torch.nn.MultiheadAttention(self.dim, self.heads, batch_first=True)
        if biased:
            torch.nn.init.normal_(self.module.in_proj_bias)
            torch.nn.init.normal_(self.module.out_proj.bias)
        mask = torch.nn.Transformer.generate_square_subsequent_mask(self.tokens)
        self.mask = mask if causal else None

    def __call__(self, x):
        with torch.no_grad():
            x = torch.as_tensor(np.asarray(x, np.float32))
            return self.module(x, x, x, attn_mask=self.mask, need_weights=False)[0].numpy()

    def is_found(self, layer, worst):
        if layer is None or (layer.heads, layer.causal) != (self.heads, self.causal):
            return False
        truth = convert_torch_module(self.module, causal=self.causal).layer
        return bool(parameter_errors(layer, truth).theta.max() < worst)


def learned(module, seed, folder):
    floor = counting_floor(
        heads=module.heads, tokens=module.tokens, dim=module.dim, biases=True, causal=module.causal
    )
    x = np.random.default_rng(seed).standard_normal((8 * floor, module.tokens, module.dim), np.float32)
    np.savez(folder / "examples.npz", x=x, y=module(x))
    return learn([folder / "examples.npz"], heads="auto", seed=seed).layer


def test_examples_and_queries_show_heads_biases_and_mask(tmp_path):
    module = Module(1, (8,), biased=True, causal=True)
    layer = learned(module, 0, tmp_path)
    assert module.is_found(layer, 1e-4)
    assert layer.biased
    found = learn(module, tokens=module.tokens, dim=module.dim)
    assert module.is_found(found.layer, 1e-4)
    assert found.fit.outcome.succeeded


@pytest.mark.slow
def test_19_of_20_modules_are_found_from_examples(tmp_path):
    right = 0
    for seed in range(20):
        module = Module(seed // 4 + seed % 3, (8, 12, 16), biased=bool(seed % 2), causal=seed % 4 >= 2)
        module = module if module.heads < 8 else Module(1, (8, 12), biased=seed % 2 > 0, causal=seed % 4 > 1)
        layer = learned(module, seed, tmp_path)
        right += module.is_found(layer, 1e-4) and layer.biased == module.biased
    assert right >= 19


@pytest.mark.slow
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_38_of_40_modules_are_found_by_queries(biased, causal):
    """Ten modules of each kind, and of each kind at most one may be missed; measured, none is."""
    right = 0
    for seed in range(10):
        module = Module(seed, (16, 24, 32, 48, 64), biased=biased, causal=causal)
        right += module.is_found(learn(module, tokens=module.tokens, dim=module.dim).layer, 1e-4)
    assert right >= 9
