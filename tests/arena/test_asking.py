"""Value queries of one's own function: any form of it is asked, the layer is found, and what is wrong is said."""

import json

import numpy as np
import pytest

from arena import learn
from arena.sources import answering
from attention import AttentionLayer, Outcome, load_layer, make_nice_layer, parameter_errors

LAYER = make_nice_layer(heads=2, dim=8, rng=0)

FUNCTIONS = """
import numpy as np

theta, w = np.load({path!r})


def softmax(logits):
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def one_matrix(x):
    return sum(softmax(x @ t @ x.T) @ x @ v for t, v in zip(theta, w))


def several(x):
    return np.stack([one_matrix(matrix) for matrix in np.asarray(x, np.float32)]).astype(np.float32)


def wrong(x):
    return x + np.tanh(one_matrix(x))


def shape(x):
    return x[..., :3]


number = 3
"""


@pytest.fixture
def own(tmp_path):
    np.save(tmp_path / "layer.npy", np.stack([LAYER.theta, LAYER.w]))
    (tmp_path / "own.py").write_text(FUNCTIONS.format(path=str(tmp_path / "layer.npy")))
    return tmp_path / "own.py"


@pytest.mark.parametrize(
    ("name", "outcome", "worst"),
    [("one_matrix", Outcome.EXACT, 1e-12), ("several", Outcome.PRECISION_FLOOR, 1e-4)],
)
def test_a_function_of_a_file_is_asked_and_its_layer_found(cli, own, tmp_path, name, outcome, worst):
    out = tmp_path / "found.safetensors"
    said = cli("learn", "--ask", f"{own}:{name}", "--tokens", 3, "--dim", 8, "-o", out, "--json").out
    found = json.loads(said)
    assert (found["outcome"], found["heads_found"], found["causal"]) == (outcome.name, 2, False)
    assert parameter_errors(load_layer(out).layer, LAYER).theta.max() < worst
    # 2 m d^2 unknowns over k d equations
    assert (found["counting_floor"], found["examples_for_newton"]) == (11, 44)
    words = cli("learn", "--ask", f"{own}:{name}", "--tokens", 3, "--dim", 8).out
    assert "44 for Newton, 11 at least" in words
    assert "relative rounding" in words


def test_a_function_that_is_no_layer_ends_with_an_outcome(cli, own):
    found = json.loads(cli("learn", "--ask", f"{own}:wrong", "--tokens", 3, "--dim", 8, "--json").out)
    assert (found["outcome"], found["succeeded"]) == ("NO_LAYER", False)
    assert found["counting_floor"] is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--ask", "{own}:shape", "--tokens", 3, "--dim", 8], "(2, 3, 3)"),
        (["--ask", "{own}:missing", "--tokens", 3, "--dim", 8], "no function 'missing'"),
        (["--ask", "{own}:number", "--tokens", 3, "--dim", 8], "int number"),
        (["--ask", "{own}.py:f", "--tokens", 3, "--dim", 8], "no file"),
        (["--ask", "{own}", "--tokens", 3, "--dim", 8], "FILE.py:NAME"),
        (["--ask", "{own}:one_matrix", "--tokens", 3], "give tokens and dim"),
        (["--ask", "{own}:one_matrix", "--tokens", 3, "--dim", 8, "--learner", "newton"], "by-queries"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(cli, own, given, said):
    ended = cli("learn", *(str(part).format(own=own) for part in given), status=2)
    assert said in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(("dtype", "worst"), [("float64", 1e-12), ("float32", 1e-4)])
@pytest.mark.parametrize("batch_first", [True, False])
def test_a_module_of_torch_is_asked_in_its_own_precision(dtype, worst, batch_first):
    torch = pytest.importorskip("torch")
    from attention import convert_torch_module

    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(12, 2, dropout=0.5, batch_first=batch_first)
    torch.nn.init.normal_(module.in_proj_bias)
    truth = convert_torch_module(module).layer
    found = learn(module.to(getattr(torch, dtype)), tokens=3, dim=12)
    assert found.fit.outcome.succeeded
    assert parameter_errors(found.layer, truth).theta.max() < worst
    assert module.training


def test_a_function_of_one_matrix_that_takes_several_by_accident_is_asked_one_by_one():
    """The mean over the first axis is that of tokens of a matrix, and of matrices of a batch."""
    layer = AttentionLayer(np.zeros((1, 4, 4)), np.eye(4)[None])
    x = np.random.default_rng(0).standard_normal((5, 3, 4))
    ask = answering(lambda x: np.broadcast_to(x.mean(axis=0), x.shape), 3, 4)
    np.testing.assert_allclose(ask(x), layer(x), atol=1e-15)


def test_random_answers_are_asked_all_the_same():
    rng = np.random.default_rng(0)
    found = learn(lambda x: LAYER(x) + 1e-3 * rng.standard_normal(x.shape), tokens=3, dim=8)
    assert found.fit.outcome is Outcome.NOISE_FLOOR
    assert 5e-4 < found.fit.precision.noise < 2e-3
