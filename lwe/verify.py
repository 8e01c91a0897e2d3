"""Whether a layer outputs the labels of its secret: checked on every value of the inner product, by integers."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from attention import AttentionLayer
from attention._arrays import count, one_of, random_generator, require_instance
from attention.inputs import Rng
from lower import HardInstance, all_sign_matrices
from lwe.description import PublicDescription, describe_instance
from lwe.parameters import covariate_form, require_form
from lwe.residues import LARGEST_MODULUS, whole_array

_MOST_SAMPLES = 10**9  # beyond, it would not end in a day

__all__ = ["LWRVerification", "attaining_covariates", "gadget_residues", "verify_lwr_instance"]

_EXHAUSTIVE_BITS = 16
_BLOCK = 1024
_MOST_VALUES = 1 << 22
_MOST_REACH = 1 << 24
_HALF_A_LABEL = 0.5


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
        Whether <v, a> = <s, G a> mod q held on all random covariates; None outside the gadget family and where the
        heads share no form.
    allowed_error : float
        What `max_error` may be: the realisation error, with an allowance for float64 rounding.
    secret_matches : bool or None
        Whether the form that the heads share is the secret's, mod q: small moduli can have secrets whose labels
        are the same. None where they share none.
    held_inputs : int
        On how many of the inputs compared the inner product is beyond the range of a truncated layer. There the
        layer is compared with the label at the nearest value within the range, which need not be the input's own.
    """

    max_error: float
    reachable_values: int
    inputs_checked: int
    covers_all_inputs: bool
    gadget_identity: bool | None
    allowed_error: float
    secret_matches: bool | None
    held_inputs: int = 0

    @property
    def holds(self) -> bool:
        """Whether nothing checked contradicts the instance, with an allowed error that tells labels apart.

        Labels are those without noise; beyond the range of a truncated layer, those that are held there.

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
        held = f", {self.held_inputs} beyond the range of the heads" if self.held_inputs else ""
        return (
            f"{verdict}: largest row error {self.max_error:.3g} ({self.allowed_error:.3g} is allowed{blur}) on "
            f"{self.inputs_checked} inputs{held}, {self.reachable_values} values of the inner product ({scope})"
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
    Why every value of T = <v, a> once on and once off the gate is enough: if off the gate coordinate all Theta_i are
    beta times one integer vector v, on the diagonal (binary) or in the gate's row (ternary), hold nothing else but
    the gate's own entry, and W_i reads the gate coordinate only, then a row's logit difference is 2 beta (T - t_i)
    on the gate, up to the row's sign, and off it 2 beta T, up to the gate's; so the output depends on X through the
    gate's two signs and T alone. If moreover the entries of 2 Theta_i are whole numbers whose sum stays below 2^52,
    every logit is exact in float64 in whatever order it is summed, so this holds for the computed output too, up to
    the rounding of the sum over heads, of which there is none when the softmax is saturated. Changing the sign of X
    changes the output's sign and nothing else. The structure is read off the layer; the expected label is computed
    from the secret by integer arithmetic, with none of the constructor's.

    For d <= 8 all 2^(2d) inputs are compared as well. The layer is called on about 2 sum|v| inputs.

    Examples
    --------
    >>> from lwe import make_lwr_instance
    >>> checked = verify_lwr_instance(make_lwr_instance(secret_dim=6, modulus=8, levels=2, rng=0), rng=1)
    >>> checked.holds, checked.max_error, checked.covers_all_inputs
    (True, 0.0, True)
    """
    require_instance("instance", instance, HardInstance, needed="a HardInstance, as lwr_instance gives it,")
    samples, rng = count("samples", samples, least=0, most=_MOST_SAMPLES), random_generator(rng)
    described = describe_instance(instance)
    parameters = described.parameters
    ternary = parameters.matrix == "ternary"
    layer, q = instance.layer, parameters.modulus
    form, shared, exact = _form_of(layer, described)
    # a layer whose form is not even centred is none of ours, and its values could be too many to list
    listed = shared and bool(np.abs(form).max() <= q) and int(np.abs(form).sum()) < _MOST_VALUES
    worst, checked, held = 0.0, 0, 0
    attaining = np.zeros((0, layer.dim - 1), dtype=np.int64)
    if listed:
        attaining = attaining_covariates(form, ternary=ternary)
    for x in _inputs(attaining, described, samples, instance, rng):
        expected, beyond = _expected(x, instance.secret, described)
        error = np.linalg.norm(layer(x) - expected, axis=-1)
        # Python's max would drop a NaN
        worst, checked = float(np.maximum(worst, error.max())), checked + len(x)
        held += beyond
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
        held_inputs=held,
    )


def attaining_covariates(
    form: Int[np.ndarray, " n"], *, ternary: bool = False
) -> Int[np.ndarray, "values n"]:
    """For every value of <v, a> over a in {0, 1}^n, or {-1, 0, 1}^n, in increasing order, one a that attains it.

    Raises
    ------
    ValueError
        If the form holds no whole numbers, or their sizes sum to more than 2^24.

    Notes
    -----
    Subset sums by dynamic programming, keeping for each value the coordinate that reached it first: what is left
    of the value was then reached by earlier coordinates. A ternary coordinate is the difference of two bits.
    O(n sum|v|).

    Examples
    --------
    >>> import numpy as np
    >>> attaining_covariates(np.array([2, -1]))
    array([[0, 1],
           [0, 0],
           [1, 1],
           [1, 0]])
    """
    one_of("ternary", ternary, (True, False))
    form = require_form(form)
    reach = sum(map(abs, form.tolist()))  # 64-bit integers could run over
    if reach > _MOST_REACH:
        raise ValueError(
            f"The sizes of the form's entries sum to {reach}: at most 2^24 is allowed, so that the values of the inner "
            "product can be listed; take a smaller modulus."
        )
    if ternary:
        bits = attaining_covariates(np.concatenate([form, -form]))
        return bits[:, : len(form)] - bits[:, len(form) :]
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
    """<s, G a> mod q, where G a reads each log2 q bits of a, least significant first, as a residue mod q.

    Raises
    ------
    ValueError
        If the modulus is no power of two, there are not log2 q bits a row for each entry of the secret, or a bit is
        neither 0 nor 1.
    """
    modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
    secret, q = require_form(whole_array("secret", secret)), modulus
    digits = q.bit_length() - 1
    if q != 1 << digits or np.ndim(bits) != 2 or np.shape(bits)[1] != len(secret) * digits:
        raise ValueError(
            f"bits has shape {np.shape(bits)}, the secret {len(secret)} entries and the modulus is {q}: a power of two "
            "and its number of digits a row for each entry are needed."
        )
    found = np.asarray(bits)
    found = whole_array("bits", found.astype(np.int64) if found.dtype == bool else found)
    if np.any((found != 0) & (found != 1)):
        raise ValueError(f"bits has entries from {found.min()} to {found.max()}: only 0 and 1 are allowed.")
    residues = found.reshape(len(found), len(secret), digits) @ (1 << np.arange(digits))
    # products may run over 64 bits, which a modulus that is a power of two does not see
    return np.mod(residues @ secret, q)


def _form_of(layer: AttentionLayer, described: PublicDescription) -> tuple[Int[np.ndarray, " n"], bool, bool]:
    """The integer form of a layer's logits, whether all heads share it, and whether T and the gate then suffice."""
    gate, beta = described.gate, described.beta
    others = np.arange(layer.dim) != gate
    if described.parameters.matrix == "ternary":
        entries = layer.theta[:, gate, :]
    else:
        entries = np.diagonal(layer.theta, axis1=1, axis2=2)
    nearest = np.rint(entries[0, others] / beta)
    if np.abs(nearest).max() > 2.0**53:
        return np.zeros(len(nearest), dtype=np.int64), False, False
    form = nearest.astype(np.int64)
    shared = bool(np.all(entries[:, others] == beta * form))
    nothing_else = np.count_nonzero(layer.theta) == np.count_nonzero(entries) and not layer.w[:, others].any()
    doubled = 2 * entries
    exact = bool(np.all(doubled == np.rint(doubled)) and np.abs(doubled).sum(axis=1).max() < 2.0**52)
    return form, shared, bool(shared and nothing_else and exact)


def _inputs(
    attaining: np.ndarray,
    described: PublicDescription,
    samples: int,
    instance: HardInstance,
    rng: np.random.Generator,
) -> Iterator[Float[np.ndarray, "n 2 d"]]:
    """Blocks of inputs: every value of T on and off the gate, then random inputs, then all of them if few."""
    gate, dim = described.gate, instance.layer.dim
    for start in range(0, len(attaining), _BLOCK):
        for gate_differs in (True, False):
            differ = np.insert(attaining[start : start + _BLOCK], gate, gate_differs, axis=1)
            first = 1.0 - 2.0 * rng.integers(2, size=differ.shape)
            if described.parameters.matrix == "ternary":
                # where a_j is not 0, it is the first token's entry times its gate
                signs = differ * first[:, [gate]]
                signs[:, gate] = first[:, gate]
                first = np.where(differ != 0, signs, first)
            yield np.stack([first, first * np.where(differ != 0, -1, 1)], axis=1)
    for start in range(0, samples, _BLOCK):
        yield instance.inputs.sample(min(_BLOCK, samples - start), rng=rng)
    if 2 * dim <= _EXHAUSTIVE_BITS:
        for start in range(0, 1 << (2 * dim), _BLOCK):
            yield all_sign_matrices(2, dim, start, start + _BLOCK)


def _expected(
    x: np.ndarray, secret: np.ndarray, described: PublicDescription
) -> tuple[Float[np.ndarray, "n 2 d"], int]:
    """The definition, x_rg (floor(p (T mod q) / q) - (p - 1)/2) in coordinate g on the gate, else 0; how many are held.

    T is <s, a> or <s, G a>, and held at the nearest value within the range of the heads.
    """
    parameters, gate = described.parameters, described.gate
    q, p = parameters.modulus, parameters.levels
    differ = x[:, 0] != x[:, 1]
    covariates = np.delete(differ, gate, axis=1).astype(np.int64)
    if parameters.matrix == "ternary":
        signs = np.delete(x[:, 0] * x[:, 0, [gate]], gate, axis=1).astype(np.int64)
        covariates = covariates * signs
    held = 0
    residues = gadget_residues(covariates, secret, q) if parameters.gadget else np.mod(covariates @ secret, q)
    if described.deviations is not None:
        # the range is one of whole numbers T, and not of residues
        form = covariate_form(secret, parameters)
        t = covariates @ form
        kept = _held(t, form, described)
        held = int(np.count_nonzero((kept != t) & differ[:, gate]))
        residues = np.where(kept == t, residues, np.mod(kept, q))
    label = p * residues // q - (p - 1) / 2
    expected = np.zeros_like(x)
    expected[:, :, gate] = x[:, :, gate] * (label * differ[:, gate])[:, None]
    return expected, held


def _held(t: np.ndarray, form: np.ndarray, described: PublicDescription) -> np.ndarray:
    """T, or the nearest whole number within so many standard deviations of the mean."""
    assert described.deviations is not None
    square = Fraction(described.deviations) ** 2 * sum(int(one) ** 2 for one in form)
    # (T - mean)^2 against deviations^2 variance: fair bits have variance 1/4, differences of two 1/2
    doubled_mean, share = (0, 2) if described.parameters.matrix == "ternary" else (int(form.sum()), 1)
    widest = math.isqrt(int(square * share))
    low, high = math.ceil(Fraction(doubled_mean - widest, 2)), math.floor(Fraction(doubled_mean + widest, 2))
    return np.clip(t, low, high)
