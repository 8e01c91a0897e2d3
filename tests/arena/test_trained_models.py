"""Layers that were trained on a task: recovered from the command line, and from activations."""

import json

import numpy as np
import pytest

from arena import learn
from attention import attention_layer_examples, parameter_errors, read_checkpoint_layer
from attention.files import load_layer

torch = pytest.importorskip("torch", reason="The models are trained by PyTorch")
nn = torch.nn

HEADS, DIM, LENGTH, NUMBERS, LAYERS = 2, 16, 4, 6, 2


class Multihead(nn.MultiheadAttention):
    def __init__(self):
        super().__init__(DIM, HEADS, batch_first=True)

    def forward(self, x):
        return super().forward(x, x, x, need_weights=False)[0]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.first, self.second = Multihead(), nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.mixing = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        x = self.first(x + self.attention(x))
        return self.second(x + self.mixing(x))


class Sorter(nn.Module):
    """Sorts numbers: the j-th output is the j-th smallest of the tokens."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(NUMBERS, DIM)
        self.place = nn.Parameter(torch.randn(LENGTH, DIM))
        self.encoder = nn.ModuleDict({"blocks": nn.ModuleList(Block() for _ in range(LAYERS))})
        self.read = nn.Linear(DIM, NUMBERS)

    def forward(self, numbers):
        x = self.embed(numbers) + self.place
        for block in self.encoder["blocks"]:
            x = block(x)
        return self.read(x)


def trained(steps):
    """A model, and the share of numbers that it puts in their place."""
    torch.manual_seed(0)
    model = Sorter()
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        numbers = torch.randint(NUMBERS, (128, LENGTH))
        loss = nn.functional.cross_entropy(model(numbers).flatten(0, 1), numbers.sort()[0].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    numbers = torch.randint(NUMBERS, (1000, LENGTH))
    return model, float((model(numbers).argmax(-1) == numbers.sort()[0]).double().mean())


def saved(folder, model):
    folder.mkdir()
    torch.save({"model": model.state_dict(), "step": 1}, folder / "trained.pt")
    (folder / "config.json").write_text(json.dumps({"num_attention_heads": HEADS}))
    return folder


@pytest.mark.parametrize(
    ("steps", "ways"),
    [(30, ["queries"]), pytest.param(1500, ["queries", "examples"], marks=pytest.mark.slow)],
)
def test_every_trained_layer_comes_back(steps, ways, tmp_path, cli):
    model, accuracy = trained(steps)
    assert accuracy > (0.95 if steps > 1000 else 2 / NUMBERS)  # no longer random
    folder = saved(tmp_path / "model", model)
    for way in ways:
        told = json.loads(cli("recover", folder, "--by", way, "--json").out)
        assert [one["layer"] for one in told["layers"]] == list(range(LAYERS))
        for one in told["layers"]:
            assert one["biased"]
            assert one["recovered"] == ["F", "Theta", "W", "c", "b"]


@pytest.mark.slow
def test_a_layer_is_learned_from_the_activations_of_its_own_model(tmp_path, cli):
    model, _ = trained(200)
    folder = saved(tmp_path / "model", model)
    numbers = torch.cartesian_prod(*[torch.arange(NUMBERS)] * LENGTH)  # all inputs
    oracle = attention_layer_examples(model.double(), "encoder.blocks.1.attention", numbers)
    x, y = oracle.draw(oracle.remaining)
    for name, array in {"x.npy": x, "y.npy": y}.items():
        np.save(tmp_path / name, array)
    files, fitted = [tmp_path / "x.npy", tmp_path / "y.npy"], tmp_path / "fitted.safetensors"
    arguments = ["learn", "--examples-from", *files, "--heads", HEADS, "--rank", DIM // HEADS, "--biases"]
    told = json.loads(cli(*arguments, "-o", fitted, "--json").out)
    assert told["held_out_error"] < 1e-6
    truth, found = read_checkpoint_layer(folder, layer=1).layer, load_layer(fitted).layer
    learned = learn(files, heads=HEADS, rank=DIM // HEADS, biases=True)
    certificate = learned.certificate
    assert told["certificate"]["theta"] == certificate.theta
    assert (
        told["certificate"]["span"]
        == certificate.whitening.rank
        == np.linalg.matrix_rank(x.reshape(-1, DIM) - x.mean((0, 1)))
    )
    for line in str(certificate).splitlines():
        assert line in str(learned)
    errors = parameter_errors(certificate.project(found), certificate.project(truth))
    assert max(*errors.theta, *errors.w) < 1e-4
