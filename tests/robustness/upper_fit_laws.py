"""What is right of what is learned of linear attention: residuals, certificates, tails, recomputed."""

import numpy as np
from fuzzing import assert_finite
from upper_linear_laws import cubic, model
from upper_makers import agrees, numbers

import upper.linear_attention as linear

__all__ = [
    "LABELS",
    "TOKENS",
    "a_model_and_its_tail",
    "another_fits_as_well",
    "certificate_is_right",
    "certificate_of_examples_is_right",
    "fewest_heads_are_found",
    "moment_is_right",
    "moments_regression_is_right",
    "regression_is_right",
    "sums_are_empty",
    "the_model_is_found",
    "they_span_all",
    "training_is_honest",
]

TOKENS = np.random.default_rng(1).standard_normal((30, 3, 2))
LABELS = model()(TOKENS)


# ------------------------------------------------------------------------------------------- regressions


def fit_is_right(result, phi, y, rtol):
    """The residual is what the coefficients leave, and no slope is left of the squared error."""
    assert_finite(result.coefficients)
    assert result.coefficients.shape == (phi.shape[1], y.shape[1])
    assert 0 <= result.rank <= min(phi.shape)
    assert result.examples == len(phi)
    # in units of each feature: tokens of very unequal coordinates are none of a test of precision
    units = np.sqrt((phi**2).sum(axis=0))
    coefficients = numbers(result.coefficients)
    used = units > 0
    unit_phi, unit_coefficients = phi[:, used] / units[used], coefficients[used] * units[used, None]
    rest = y - unit_phi @ unit_coefficients
    size = np.sqrt((y**2).sum())
    if not size > 0:
        return
    wanted = float(np.sqrt((rest**2).sum()) / size)
    assert abs(result.residual - wanted) <= rtol * (1 + wanted), f"residual {result.residual} is {wanted}"
    if result.rank == used.sum():
        slope = float(np.abs(unit_phi.T @ rest).max(initial=0) / size)
        assert slope <= max(rtol, 1e-6), f"a slope of {slope:.3g}"


def regression_is_right(result, arguments):
    with np.errstate(all="ignore"):
        phi = cubic(arguments["x"], bool(arguments.get("average", False)))
        fit_is_right(result, phi, numbers(arguments["y"]), 1e-6)
    agrees(linear.features_from_tensor(result.tensor), result.coefficients, what="the tensor")


def moments_regression_is_right(result, arguments):
    with np.errstate(all="ignore"):
        fit_is_right(result, cubic(arguments["x"]), numbers(arguments["y"]), 1e-5)


def the_model_is_found(result, arguments):
    assert_finite(result.coefficients)
    np.testing.assert_allclose(result(TOKENS), LABELS, atol=1e-6)


def sums_are_empty(result, arguments):
    features, outputs = int(arguments["features"]), int(arguments["outputs"])
    assert result.count == 0
    assert result.cross.shape == (features, outputs)
    assert not np.any(result.cross)


def another_fits_as_well(result, arguments):
    """As well on the examples that the certificate is of, and as far away as it is long."""
    assert_finite(result.coefficients)
    own, seen = arguments["regression"], linear.cubic_features(TOKENS[:3])
    change = result.coefficients - own.coefficients
    size = np.linalg.norm(change, axis=0)
    np.testing.assert_allclose(seen @ change, 0, atol=1e-8 * max(1.0, size.max()) * np.abs(seen).max())
    unit = np.sqrt(np.mean(np.sum(own.coefficients**2, axis=0)))
    np.testing.assert_allclose(size, unit, rtol=1e-6, atol=1e-12 * np.abs(own.coefficients).max())


# ------------------------------------------------------------------------------------------- certificates


def moment_is_right(result, arguments):
    examples = numbers(arguments["examples"])
    phi = examples if examples.ndim == 2 else cubic(examples, bool(arguments["average"]))
    agrees(result, phi.T @ phi / len(phi), size=np.abs(phi).T @ np.abs(phi) / len(phi))
    assert np.array_equal(result, result.T)


def certificate_of(result, data, domain):
    repr(result), str(result)
    features = len(data)
    assert 0 <= result.rank <= result.joint_rank <= features
    assert max(result.rank, result.domain_rank) <= result.joint_rank <= result.rank + result.domain_rank
    assert result.deficit == result.joint_rank - result.rank == result.domain_directions.shape[1]
    assert result.null_basis.shape == (features, features - result.rank)
    assert_finite((result.null_basis, result.domain_directions, result.worst_direction))
    for basis in (result.null_basis, result.domain_directions):
        np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-7)
    np.testing.assert_allclose(np.linalg.norm(result.worst_direction), 1, atol=1e-7)
    assert (result.factor == np.inf) == (result.deficit > 0)
    # features in equal units, as the ranks are told
    units = np.sqrt(np.diag(data).astype(float))
    if units.size and units.min() > 1e-100 and not result.borderline and units.max() / units.min() < 1e3:
        largest = float(np.abs(data).max())
        seen = result.null_basis.T @ np.asarray(data / largest, float) @ result.null_basis
        assert np.abs(seen).max(initial=0) <= 1e-6, "the data see the null basis"
        if 0 < result.factor < 1e6:
            # the bound is attained
            worst = numbers(result.worst_direction)
            attained = float((worst @ domain @ worst) / (worst @ data @ worst))
            np.testing.assert_allclose(attained, result.factor, rtol=1e-5)


def certificate_is_right(result, arguments):
    certificate_of(result, numbers(arguments["data"]), numbers(arguments["domain"]))


def certificate_of_examples_is_right(result, arguments):
    moments = []
    for name in ("data", "domain"):
        phi = cubic(arguments[name])
        moments.append(phi.T @ phi / len(phi))
    certificate_of(result, *moments)


def they_span_all(result, arguments):
    """Independent, and as many as the rank."""
    x, rank = numbers(arguments["x"]), arguments["rank"]
    assert (np.diff(result) > 0).all()
    scaled = np.asarray(x / (np.abs(x).max() or 1), float)
    # examples of very unequal sizes have no rank that singular values tell
    sizes = np.sqrt((scaled**2).sum((1, 2)))
    if sizes.min() > 1e-3 and sizes.max() < 1e3 * sizes.min():
        phi = linear.cubic_features(scaled)
        phi = phi[np.abs(phi).max(axis=1) > 1e-3]
        if len(phi) == len(x):
            whole_rank = np.linalg.matrix_rank(phi, tol=1e-7 * np.abs(phi).max())
            assert len(result) == (whole_rank if rank is None else min(whole_rank, int(rank)))
            assert np.linalg.matrix_rank(phi[result], tol=1e-9 * np.abs(phi).max()) == len(result)


# ------------------------------------------------------------------------------------------- heads


def tail_of(model, tensor):
    """|sym M - S| / |S|, as it is written."""
    tensor = numbers(tensor)
    largest = np.abs(tensor).max(initial=0) or np.longdouble(1)
    wanted = (tensor + tensor.swapaxes(1, 2)) / (2 * largest)
    found = np.einsum("hab,hce->abce", numbers(model.v), numbers(model.q)) / largest
    found = (found + found.swapaxes(1, 2)) / 2
    size = np.sqrt((wanted**2).sum())
    return float(np.sqrt(((found - wanted) ** 2).sum()) / size) if size > 1e-12 else 0.0


def a_model_and_its_tail(result, arguments):
    found, said = result
    assert_finite((found.v, found.q, said))
    wanted = tail_of(found, arguments["tensor"])
    assert abs(said - wanted) <= 1e-6 * (1 + wanted), f"a tail of {wanted} is said to be {said}"
    if "heads" in arguments:
        p, d = numbers(arguments["tensor"]).shape[:2]
        assert found.heads in (1, min(int(arguments["heads"]), p * d, d * d))


def fewest_heads_are_found(result, arguments):
    repr(result), str(result)
    assert result.lower_bound >= 0
    assert result.exact == (result.tail <= result.tolerance)
    if result.exact:
        assert result.lower_bound <= result.heads
    given = arguments["regression"]
    tensor = given if isinstance(given, np.ndarray) else getattr(given, "tensor", None)
    tensor = tensor() if callable(tensor) else tensor
    if tensor is not None:
        wanted = tail_of(result.model, tensor)
        assert abs(result.tail - wanted) <= 1e-6 * (1 + wanted), f"{wanted} is said to be {result.tail}"


def training_is_honest(result, arguments):
    repr(result)
    assert result.model.heads == int(arguments["heads"])
    assert result.model.average == bool(arguments["average"])
    assert_finite((result.model.v, result.model.q))
    assert 0 <= result.steps <= int(arguments["steps"])
    assert result.seconds >= 0
