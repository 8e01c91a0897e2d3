"""Whether a layer outputs the labels of its secret: checked on every value of the inner product, by integers."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from attention import AttentionLayer
from attention._arrays import count, non_negative
from attention.inputs import Rng
from lower import HardInstance, all_sign_matrices
from lwe.parameters import LWRParameters, covariate_form

__all__ = ["LWRVerification", "attaining_covariates", "gadget_residues", "verify_lwr_instance"]

_EXHAUSTIVE_BITS = 16
_BLOCK = 1024
_MOST_VALUES = 1 << 22
_HALF_A_LABEL = 0.5
_PARAMETERS = ("secret_dim", "modulus", "levels", "gadget")


@dataclass(frozen=True)
class LWRVerification:
    """What comparing a layer with the labels of its secret gave.

    Attributes
    ----------
    max_error : float
        The largest Euclidean norm of a row of layer minus target, float64 rounding included.
    reachable_values : int
        How many values the inner product takes; each was attained by an input, on the gate and off it. 0 where
        the heads share no integer form to speak of, so that there is no inner product.
    inputs_checked : int
        How many token matrices were compared, the random and the enumerated ones included.
    covers_all_inputs : bool
        Whether these comparisons cover every input, because the layer's structure makes its output depend on the
        gate's signs and the inner product alone and its logits are exact in float64, or by full enumeration.
    gadget_identity : bool or None
        Whether <v, a> = <s, G a> mod q held on all random covariates; None in the plain family and where the
        heads share no form.
    allowed_error : float
        What `max_error` may be: the realisation error, with an allowance for float64 rounding.
    secret_matches : bool or None
        Whether the form that the heads share is the secret's, mod q: small moduli can have secrets whose labels
        are the same. None where they share none.
    """

    max_error: float
    reachable_values: int
    inputs_checked: int
    covers_all_inputs: bool
    gadget_identity: bool | None
    allowed_error: float
    secret_matches: bool | None

    @property
    def holds(self) -> bool:
        """Whether nothing checked contradicts the instance, with an allowed error that tells labels apart.

        Where `covers_all_inputs` is False this says what was seen on the inputs checked; it is no proof.
        """
        return (
            self.max_error <= self.allowed_error < _HALF_A_LABEL
            and self.gadget_identity is not False
            and self.secret_matches is not False
        )

    def __str__(self) -> str:
        verdict = "Verified" if self.holds else "NOT verified"
        scope = "covers all inputs" if self.covers_all_inputs else "a sample, does not cover all inputs"
        blur = "" if self.allowed_error < _HALF_A_LABEL else ", which does not tell labels apart"
        gadget = "" if self.gadget_identity is None else f", gadget identity {self.gadget_identity}"
        other = ", the layer's form is another secret's" if self.secret_matches is False else ""
        return (
            f"{verdict}: largest row error {self.max_error:.3g} ({self.allowed_error:.3g} is allowed{blur}) on "
            f"{self.inputs_checked} inputs, {self.reachable_values} values of the inner product ({scope})"
            f"{gadget}{other}."
        )

    def to_json(self) -> dict[str, Any]:
        """The verdict `holds` and the fields as plain JSON values; a number that is not finite is None."""
        fields = {"holds": self.holds, **asdict(self)}
        return {
            name: None if isinstance(one, float) and not math.isfinite(one) else one
            for name, one in fields.items()
        }


def verify_lwr_instance(instance: HardInstance, *, rng: Rng = None, samples: int = 2000) -> LWRVerification:
    """Compare the layer of a learning-with-rounding instance with the labels of its secret.

    Parameters
    ----------
    instance : HardInstance
        Of the family "lwr".
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7); draws the random inputs.
    samples : int
        How many random inputs to compare besides.

    Raises
    ------
    ValueError
        If the instance is of another family, or its parameters or secret do not fit it.

    Notes
    -----
    Why every value of T = <v, a> once on and once off the gate is enough: if every Theta_i is diagonal, all are
    beta_i times one integer vector v off the gate, and W_i reads the gate coordinate only, then a row's logit
    difference is 2 beta_i (T - t_i 1[gate]) up to the row's sign, and the output depends on X through the gate's
    two signs and T alone. If moreover the entries of 2 Theta_i are whole numbers whose sum stays below 2^52, every
    logit is exact in float64 in whatever order it is summed, so this holds for the computed output too, up to the
    rounding of the sum over heads, of which there is none when the softmax is saturated. Changing the sign of X
    changes the output's sign and nothing else. The structure is read off the layer; the expected
    label is computed from the secret by integer arithmetic.

    For d <= 8 all 2^(2d) inputs are compared as well. The layer is called on about 2 sum|v| inputs.

    Examples
    --------
    >>> from lwe import make_lwr_instance
    >>> checked = verify_lwr_instance(make_lwr_instance(secret_dim=6, modulus=8, levels=2, rng=0), rng=1)
    >>> checked.holds, checked.max_error, checked.covers_all_inputs
    (True, 0.0, True)
    """
    samples, rng = count("samples", samples, least=0), np.random.default_rng(rng)
    parameters, gate, beta = _public(instance)
    layer, q = instance.layer, parameters.modulus
    form, shared, exact = _form_of(layer, gate, beta)
    # a layer whose form is not even centred is none of ours, and its values could be too many to list
    listed = shared and bool(np.abs(form).max() <= q) and int(np.abs(form).sum()) < _MOST_VALUES
    worst, checked = 0.0, 0
    attaining = attaining_covariates(form) if listed else np.zeros((0, layer.dim - 1), dtype=np.int64)
    for x in _inputs(attaining, gate, layer.dim, samples, instance, rng):
        error = np.linalg.norm(layer(x) - _expected(x, instance.secret, parameters, gate), axis=-1)
        # Python's max would drop a NaN
        worst, checked = float(np.maximum(worst, error.max())), checked + len(x)
    identity = matches = None
    if shared:
        matches = bool(np.all(np.mod(form - covariate_form(instance.secret, parameters), q) == 0))
    if shared and parameters.gadget:
        bits = rng.integers(2, size=(max(samples, 1), layer.dim - 1))
        identity = bool(np.all(np.mod(bits @ form, q) == gadget_residues(bits, instance.secret, q)))
    return LWRVerification(
        max_error=worst,
        reachable_values=len(attaining),
        inputs_checked=checked,
        covers_all_inputs=(listed and exact) or 2 * layer.dim <= _EXHAUSTIVE_BITS,
        gadget_identity=identity,
        allowed_error=instance.allowed_error,
        secret_matches=matches,
    )


def attaining_covariates(form: Int[np.ndarray, " n"]) -> Int[np.ndarray, "values n"]:
    """For every value of <v, a> over a in {0, 1}^n, in increasing order, one a that attains it.

    Notes
    -----
    Subset sums by dynamic programming, keeping for each value the coordinate that reached it first: what is left
    of the value was then reached by earlier coordinates. O(n sum|v|).

    Examples
    --------
    >>> import numpy as np
    >>> attaining_covariates(np.array([2, -1]))
    array([[0, 1],
           [0, 0],
           [1, 1],
           [1, 0]])
    """
    least, most = int(form[form < 0].sum()), int(form[form > 0].sum())
    nobody = len(form)
    first = np.full(most - least + 1, -1)
    first[-least] = nobody  # the empty sum
    for index, step in enumerate(form):
        reached = np.flatnonzero(first >= 0) + step
        new = reached[(reached >= 0) & (reached < len(first))]
        first[new[first[new] < 0]] = index
    values = np.flatnonzero(first >= 0)
    covariates = np.zeros((len(values), len(form)), dtype=np.int64)
    left = values.copy()
    while True:
        step_index = first[left]
        going = np.flatnonzero(step_index < nobody)
        if not len(going):
            return covariates
        covariates[going, step_index[going]] = 1
        left[going] -= form[step_index[going]]


def gadget_residues(
    bits: Int[np.ndarray, "samples n"], secret: Int[np.ndarray, " entries"], modulus: int
) -> Int[np.ndarray, " samples"]:
    """<s, G a> mod q, where G a reads each log2 q bits of a, least significant first, as a residue mod q."""
    numbers = bits.reshape(len(bits), len(secret), -1)
    residues = sum(numbers[:, :, i] << i for i in range(numbers.shape[2]))
    return np.mod(np.asarray(residues) @ secret, modulus)


def _public(instance: HardInstance) -> tuple[LWRParameters, int, float]:
    """The parameters, the gate and the slope that an instance makes public, held to its layer."""
    if instance.family != "lwr":
        raise ValueError(f"The instance is of the family {instance.family!r}: one of lwr is needed.")
    public = instance.parameters
    missing = [name for name in (*_PARAMETERS, "gate", "beta") if name not in public]
    if missing:
        raise ValueError(f"The instance does not say what its {', '.join(missing)} is, as an lwr one must.")
    parameters = LWRParameters(**{name: public[name] for name in _PARAMETERS})
    gate = count("The instance's gate", public["gate"], least=0)
    beta = non_negative("The instance's beta", public["beta"], strictly=True)
    d = instance.layer.dim
    if instance.inputs.k != 2 or parameters.dim != d or gate >= d:
        raise ValueError(
            f"{parameters} with gate {gate} does not fit a layer on {instance.inputs.k} tokens, d = {d}."
        )
    if instance.secret.shape != (parameters.secret_dim,):
        raise ValueError(f"secret has shape {instance.secret.shape}: ({parameters.secret_dim},) is needed.")
    return parameters, gate, beta


def _form_of(layer: AttentionLayer, gate: int, beta: float) -> tuple[Int[np.ndarray, " n"], bool, bool]:
    """The integer form of a layer's logits, whether all heads share it, and whether T and the gate then suffice."""
    others = np.arange(layer.dim) != gate
    diagonal = np.diagonal(layer.theta, axis1=1, axis2=2)
    nearest = np.rint(diagonal[0, others] / beta)
    if np.abs(nearest).max() > 2.0**53:
        return np.zeros(len(nearest), dtype=np.int64), False, False
    form = nearest.astype(np.int64)
    shared = bool(np.all(diagonal[:, others] == beta * form))
    nothing_else = (
        np.count_nonzero(layer.theta) == np.count_nonzero(diagonal) and not layer.w[:, others].any()
    )
    doubled = 2 * diagonal
    exact = bool(np.all(doubled == np.rint(doubled)) and np.abs(doubled).sum(axis=1).max() < 2.0**52)
    return form, shared, bool(shared and nothing_else and exact)


def _inputs(
    attaining: np.ndarray, gate: int, dim: int, samples: int, instance: HardInstance, rng: np.random.Generator
) -> Iterator[Float[np.ndarray, "n 2 d"]]:
    """Blocks of inputs: every value of T on and off the gate, then random inputs, then all of them if few."""
    for start in range(0, len(attaining), _BLOCK):
        for gate_differs in (True, False):
            differ = np.insert(attaining[start : start + _BLOCK], gate, gate_differs, axis=1)
            first = 1.0 - 2.0 * rng.integers(2, size=differ.shape)
            yield np.stack([first, first * (1 - 2 * differ)], axis=1)
    for start in range(0, samples, _BLOCK):
        yield instance.inputs.sample(min(_BLOCK, samples - start), rng=rng)
    if 2 * dim <= _EXHAUSTIVE_BITS:
        for start in range(0, 1 << (2 * dim), _BLOCK):
            yield all_sign_matrices(2, dim, start, start + _BLOCK)


def _expected(
    x: np.ndarray, secret: np.ndarray, parameters: LWRParameters, gate: int
) -> Float[np.ndarray, "n 2 d"]:
    """The definition: x_rg (floor(p (T mod q) / q) - (p - 1)/2) in coordinate g of row r on the gate, else 0."""
    q, p = parameters.modulus, parameters.levels
    differ = x[:, 0] != x[:, 1]
    covariates = np.delete(differ, gate, axis=1).astype(np.int64)
    residues = gadget_residues(covariates, secret, q) if parameters.gadget else np.mod(covariates @ secret, q)
    label = p * residues // q - (p - 1) / 2
    expected = np.zeros_like(x)
    expected[:, :, gate] = x[:, :, gate] * (label * differ[:, gate])[:, None]
    return expected
