"""A decoder in Llama's layout, trained to continue repeated sequences: its attention comes back from queries."""

import json

import numpy as np
import pytest
import safetensors.numpy

from attention import RotaryLayer, read_checkpoint_layer

torch = pytest.importorskip("torch", reason="The model is trained by PyTorch")
nn = torch.nn

DIM, HEADS, GROUPS, HEAD_DIM, NUMBERS, PERIOD, LAYERS, BASE = 32, 4, 2, 8, 16, 12, 2, 10000.0


class Attention(nn.Module):
    """Of Llama: queries and keys turned by their positions as complex numbers, keys and values shared."""

    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(DIM, HEADS * HEAD_DIM, bias=False)
        self.k_proj = nn.Linear(DIM, GROUPS * HEAD_DIM, bias=False)
        self.v_proj = nn.Linear(DIM, GROUPS * HEAD_DIM, bias=False)
        self.o_proj = nn.Linear(HEADS * HEAD_DIM, DIM, bias=False)

    def forward(self, x):
        positions = torch.arange(x.shape[1], dtype=x.dtype)
        angles = positions[:, None] * BASE ** (-torch.arange(0, HEAD_DIM, 2, dtype=x.dtype) / HEAD_DIM)
        turns = torch.polar(torch.ones_like(angles), angles)

        def turned(rows):
            first, second = rows.chunk(2, dim=-1)
            product = torch.complex(first, second) * turns
            return torch.cat([product.real, product.imag], dim=-1)

        def by_head(rows, heads):
            rows = rows.unflatten(-1, (heads, HEAD_DIM)).transpose(1, 2)
            return rows.repeat_interleave(HEADS // heads, dim=1)

        q, k, v = (
            by_head(self.q_proj(x), HEADS),
            by_head(self.k_proj(x), GROUPS),
            by_head(self.v_proj(x), GROUPS),
        )
        mixed = nn.functional.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn = Attention()
        self.input_layernorm, self.post_attention_layernorm = nn.RMSNorm(DIM), nn.RMSNorm(DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.SiLU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens, self.norm = nn.Embedding(NUMBERS, DIM), nn.RMSNorm(DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.lm_head = nn.Linear(DIM, NUMBERS)

    def forward(self, numbers):
        x = self.embed_tokens(numbers)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))


def trained(steps):
    """A model, and the share of numbers that it continues rightly in the second of two equal random sequences."""
    torch.manual_seed(0)
    model = Decoder()
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)

    def repeated(n):
        return torch.randint(NUMBERS, (n, PERIOD)).repeat(1, 2)

    for _ in range(steps):
        numbers = repeated(64)
        logits = model(numbers[:, :-1])[:, PERIOD - 1 :]
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), numbers[:, PERIOD:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    numbers = repeated(500)
    logits = model(numbers[:, :-1])[:, PERIOD:]
    return model, float((logits.argmax(-1) == numbers[:, PERIOD + 1 :]).double().mean())


def saved(folder, model):
    folder.mkdir()
    tensors = {f"model.{name}": array.detach().numpy() for name, array in model.state_dict().items()}
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    config = {"model_type": "llama", "num_attention_heads": HEADS, "num_key_value_heads": GROUPS}
    (folder / "config.json").write_text(json.dumps(config | {"rope_theta": BASE, "hidden_size": DIM}))
    return folder


@pytest.mark.parametrize(("steps", "accuracy"), [(20, 0.0), pytest.param(1000, 0.95, marks=pytest.mark.slow)])
def test_every_trained_layer_comes_back(steps, accuracy, tmp_path, cli):
    model, share = trained(steps)
    assert share >= accuracy
    folder = saved(tmp_path / "model", model)
    x = torch.randn(2, 9, DIM, dtype=torch.float64)
    for number, layer in enumerate(model.double().layers):
        read = read_checkpoint_layer(folder, layer=number).layer
        assert isinstance(read, RotaryLayer)
        np.testing.assert_allclose(read(x.numpy()), layer.self_attn(x).detach().numpy(), atol=1e-10)
    told = json.loads(cli("recover", folder, "--by", "queries", "--json").out)
    assert [one["layer"] for one in told["layers"]] == list(range(LAYERS))
    for one in told["layers"]:
        assert (one["heads_found"], one["recovered"]) == (HEADS, ["F", "M", "W"])
