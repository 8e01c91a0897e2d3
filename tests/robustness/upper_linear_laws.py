"""What is right of linear attention: features, tensors and moments as they are written."""

import numpy as np
from fuzzing import assert_finite
from upper_makers import agrees, numbers

import upper.linear_attention as linear

__all__ = [
    "a_file_that_is_read",
    "a_model_of_sizes",
    "a_rank",
    "all_of_the_tensor",
    "coefficients_are_right",
    "cubic",
    "feature_number",
    "features_are_right",
    "features_of_queries",
    "kernel_is_right",
    "model",
    "model_is_right",
    "moment_is_exact",
    "outputs_are_right",
    "prefixes_are_right",
    "rank_of_the_moment",
    "softmax_features_are_right",
    "tensor_is_right",
    "the_model_stored",
]


def model(heads=1, d=2):
    return linear.make_linear_attention(heads=heads, dim=d, rng=0)


# ------------------------------------------------------------------------------------------- as it is written


def gram(x, average=False):
    x = numbers(x)
    with np.errstate(all="ignore"):
        return np.einsum("...na,...nb->...ab", x, x) / (x.shape[-2] if average else 1)


def weighted_pairs(matrix):
    """The entries b <= c of symmetric matrices, sqrt 2 off the diagonal."""
    b, c = np.triu_indices(matrix.shape[-1])
    return matrix[..., b, c] * np.where(b == c, 1, np.sqrt(np.longdouble(2)))


def cubic(x, average=False):
    """The cubic features of the last token, pair by pair."""
    pairs = weighted_pairs(gram(x, average))
    return (pairs[..., :, None] * numbers(x)[..., -1, None, :]).reshape(*pairs.shape[:-1], -1)


def model_is_right(result, arguments):
    v, q = numbers(arguments["v"]), numbers(arguments["q"])
    assert (result.heads, result.outputs, result.dim) == (len(v), v.shape[1], v.shape[2])
    repr(result)
    x = np.ones((3, result.dim))
    x[0, 0] = -1
    if max(np.abs(v).max(), np.abs(q).max()) < 1e100 and type(result.v) is np.ndarray:
        found = result(x.astype(result.v.dtype))
        g, z = gram(x, result.average), numbers(x)[-1]
        wanted = np.einsum("hpd,de,hef,f->p", v, g, q, z)
        size = np.einsum("hpd,de,hef,f->p", np.abs(v), np.abs(g), np.abs(q), np.abs(z))
        agrees(found, wanted, size=size, what="y")


def outputs_are_right(result, arguments):
    own, x = arguments["own"], numbers(arguments["x"])
    v, q = numbers(own.v), numbers(own.q)
    g = gram(x)
    wanted = np.einsum("hpd,...de,hef,...f->...p", v, g, q, x[..., -1, :])
    size = np.einsum("hpd,...de,hef,...f->...p", np.abs(v), np.abs(g), np.abs(q), np.abs(x[..., -1, :]))
    agrees(result, wanted, size=size)


def a_model_of_sizes(result, arguments):
    m, d = int(arguments["heads"]), int(arguments["dim"])
    p = d if arguments["outputs"] is None else int(arguments["outputs"])
    assert result.v.shape == (m, p, d)
    assert result.q.shape == (m, d, d)
    assert result.average == bool(arguments["average"])
    assert_finite((result.v, result.q))


def feature_number(result, arguments):
    d = int(arguments["d"])
    assert result == d * d * (d + 1) // 2


def features_are_right(result, arguments):
    agrees(result, cubic(arguments["x"], bool(arguments["average"])))


def features_of_queries(result, arguments):
    if arguments["queries"] is None:
        return features_are_right(result, arguments | {"average": False})
    pairs = weighted_pairs(gram(arguments["x"]))[:, None, :, None]
    wanted = pairs * numbers(arguments["queries"])[:, :, None, :]
    return agrees(result, wanted.reshape(*wanted.shape[:2], -1))


def prefixes_are_right(result, arguments):
    x = numbers(arguments["x"])
    wanted = [cubic(x[..., : t + 1, :]) for t in range(x.shape[-2])]
    agrees(result, np.stack(wanted, axis=-2))


def kernel_is_right(result, arguments):
    one, other = cubic(arguments["x"]), cubic(arguments["other"])
    agrees(result, one @ other.T, size=np.abs(one) @ np.abs(other).T)


def tensor_is_right(result, arguments):
    """Symmetric in b and c, of the norm of the coefficients, and back to them."""
    d = int(arguments["d"])
    coefficients = numbers(arguments["coefficients"])
    assert result.shape == (coefficients.shape[1], d, d, d)
    assert np.array_equal(result, result.swapaxes(1, 2))
    agrees(np.square(numbers(result)).sum(), np.square(coefficients).sum(), rtol=1e-6, what="the square")
    agrees(linear.features_from_tensor(result), coefficients, what="the way back")


def coefficients_are_right(result, arguments):
    """They give, on features, what the symmetric part of the tensor gives on tokens."""
    tensor = numbers(arguments["tensor"])
    b, c = np.triu_indices(tensor.shape[1])
    symmetric = (tensor + tensor.swapaxes(1, 2)) / 2
    pairs = symmetric[:, b, c] * np.where(b == c, 1, np.sqrt(np.longdouble(2)))[:, None]
    # entries that nearly cancel leave their rounding
    size = np.abs(tensor)
    agrees(result, pairs.reshape(len(tensor), -1).T, size=size, rtol=1e-9)


def unfolding(tensor, order=(0, 1, 2, 3)):
    tensor = numbers(tensor)
    tensor = tensor / (np.abs(tensor).max(initial=0) or 1)
    p, d = tensor.shape[:2]
    return tensor, np.asarray(tensor.transpose(order).reshape(p * d, d * d), float)


def a_rank(result, arguments):
    tensor, _ = unfolding(arguments["tensor"])
    p, d = tensor.shape[:2]
    symmetric = np.asarray((tensor + tensor.swapaxes(1, 2)) / 2, float)
    values = np.linalg.svd(symmetric.reshape(p * d, d * d), compute_uv=False)
    # a value within rounding of the cut may fall on either side
    most = 1e-7 * values[0] if values.size else 0.0
    low, high = np.sum(values > 1.01 * most + 1e-12), np.sum(values > 0.99 * most - 1e-12)
    assert low <= result <= high or not values[0]


def tail_of_zero(tensor):
    """Whether nothing of the tensor is symmetric, so that no head is needed."""
    scaled, _ = unfolding(tensor)
    return float(np.abs(scaled + scaled.swapaxes(1, 2)).max(initial=0)) < 1e-6


def all_of_the_tensor(result, arguments):
    """With all heads the tensor comes back, balanced and largest first."""
    tensor = numbers(arguments["tensor"])
    found = np.einsum("hab,hce->abce", numbers(result.v), numbers(result.q))
    agrees(found, tensor, rtol=1e-8)
    sizes = np.sqrt(np.square(numbers(result.v)).sum((1, 2)))
    agrees(np.sqrt(np.square(numbers(result.q)).sum((1, 2))), sizes, rtol=1e-7, what="|Q_h|")
    assert (np.diff(sizes) <= 1e-7 * sizes[0]).all()
    assert result.average == bool(arguments["average"])


# ------------------------------------------------------------------------------------------- populations


def dimension(arguments):
    return int(arguments["d"]) + (arguments.get("tokens") == "boolean-constant")


def moment_is_exact(result, arguments):
    """Symmetric, positive semidefinite, of the right size; signs by enumeration, Gaussian tokens by what is known."""
    tokens, d, n = arguments["tokens"], int(arguments["d"]), int(arguments["n"])
    assert result.shape == (linear.feature_count(dimension(arguments)),) * 2
    assert_finite(result)
    largest = np.abs(result).max()
    np.testing.assert_allclose(result, result.T, atol=1e-9 * largest)
    least = np.linalg.eigvalsh(result)[0]
    assert least >= -1e-9 * largest * len(result)
    if tokens.startswith("boolean") and d * n <= 9:
        signs = (np.arange(2 ** (d * n))[:, None] >> np.arange(d * n)) & 1
        x = (2.0 * signs - 1).reshape(-1, n, d)
        if tokens == "boolean-constant":
            x = np.concatenate([x, np.ones((*x.shape[:2], 1))], axis=-1)
        phi = cubic(x).astype(float)
        np.testing.assert_allclose(result, phi.T @ phi / len(x), atol=1e-9)
    if tokens == "gaussian":
        if d >= 3:
            np.testing.assert_allclose(least, 2 * (n - 1), atol=1e-9 * largest)
        # E |G|^2 |z|^2 with z one of n tokens: its own fourth moments, and those of the others
        e2, e4, e6 = d, d * (d + 2), d * (d + 2) * (d + 4)
        others = n - 1
        wanted = e6 + 2 * others * e4 + others * (e4 * e2 + (others - 1) * d * e2)
        np.testing.assert_allclose(np.trace(result), wanted, rtol=1e-9)


def rank_of_the_moment(result, arguments):
    d, n = int(arguments["d"]), int(arguments["n"])
    if d <= 3:
        moment = linear.population_moment(arguments["tokens"], d, n)
        values = np.linalg.eigvalsh(moment)
        assert result == np.sum(values > 1e-9 * values[-1])


def softmax_features_are_right(result, arguments):
    x, kind = numbers(arguments["x"]), arguments["kind"]
    mean = x.mean(axis=-2, keepdims=True)
    with np.errstate(all="ignore"):
        pairs = weighted_pairs(gram(x - mean if kind == "cent" else x))
        cubics = pairs[..., None, :, None] * x[..., None, :]
    cubics = cubics.reshape(*x.shape[:-1], -1)
    parts = {"plain": (0,), "aug": (0, 2), "cent": (0, 1, 2), "tokens": (1, 2)}[kind]
    blocks = [(cubics, x, np.broadcast_to(mean, x.shape))[part] for part in parts]
    wanted = np.concatenate(blocks, axis=-1)
    found, row = numbers(result), slice(None) if arguments["every_row"] else -1
    # centred pairs are differences of squares of tokens
    largest = np.abs(x).max()
    sizes = [
        np.full(block.shape, largest ** (3 if i == 0 else 1)) for i, block in zip(parts, blocks, strict=True)
    ]
    size = np.concatenate(sizes, axis=-1)
    wanted, size = (wanted[..., row, :], size[..., row, :]) if row == -1 else (wanted, size)
    assert found.shape == wanted.shape
    for one in np.unique(size) if size.size < 10**6 else ():
        at = size == one
        kept = numbers(result)[at].astype(np.float64 if result.dtype.itemsize == 8 else np.float32)
        agrees(kept, wanted[at], size=one * x.shape[-2] * np.ones(1), rtol=1e-9, what=kind)


def a_file_that_is_read(result, arguments):
    found = linear.load_linear_attention(arguments["path"])
    assert np.array_equal(found.v, arguments["model"].v)
    assert np.array_equal(found.q, arguments["model"].q)


def the_model_stored(result, arguments):
    assert np.array_equal(result.v, model().v)
    assert np.array_equal(result.q, model().q)
