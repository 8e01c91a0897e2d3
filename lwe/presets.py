"""Named parameters, from toys that every learner breaks to sets that are out of reach of everything here."""

from collections.abc import Mapping
from types import MappingProxyType

from attention._arrays import shown
from lwe.laws import BinomialLaw, FlipLaw, GaussianLaw, SparseLaw, TernaryLaw
from lwe.parameters import LWRParameters

__all__ = ["PRESETS", "preset"]

_TOYS = {
    "toy": LWRParameters(secret_dim=8, modulus=16, levels=2),
    "toy-gadget": LWRParameters(secret_dim=3, modulus=16, levels=2, matrix="gadget"),
    "toy-ternary": LWRParameters(secret_dim=6, modulus=8, levels=2, matrix="ternary"),
    "toy-lwe": LWRParameters(secret_dim=8, modulus=16, levels=16, noise=BinomialLaw(1)),
    "toy-lpn": LWRParameters(secret_dim=10, modulus=2, levels=2, noise=FlipLaw(0.05)),
}

_PLAIN = {
    # span below q: least squares reads the secret off
    "no-wrap": LWRParameters(secret_dim=24, modulus=251, levels=32, secret=TernaryLaw()),
    "weak-wrap": LWRParameters(secret_dim=40, modulus=17, levels=2, secret=TernaryLaw()),
    "plain-24": LWRParameters(secret_dim=24, modulus=64, levels=2),
    "plain-64": LWRParameters(secret_dim=64, modulus=64, levels=2),
    "plain-256": LWRParameters(secret_dim=256, modulus=64, levels=2),
    "linearised-32": LWRParameters(secret_dim=32, modulus=4, levels=2),
    "linearised-64": LWRParameters(secret_dim=64, modulus=4, levels=2),
    "ternary-14": LWRParameters(secret_dim=14, modulus=5, levels=2, secret=TernaryLaw()),
    "ternary-20": LWRParameters(secret_dim=20, modulus=5, levels=2, secret=TernaryLaw()),
    "sparse-64": LWRParameters(secret_dim=64, modulus=3, levels=2, secret=SparseLaw(8)),
    "covariates-24": LWRParameters(secret_dim=24, modulus=64, levels=2, matrix="ternary"),
}

_GADGET = {
    "gadget-4": LWRParameters(secret_dim=4, modulus=16, levels=2, matrix="gadget"),
    "gadget-14": LWRParameters(secret_dim=14, modulus=128, levels=4, matrix="gadget"),
    "gadget-16": LWRParameters(secret_dim=16, modulus=256, levels=2, matrix="gadget"),
    "gadget-28": LWRParameters(secret_dim=28, modulus=128, levels=8, matrix="gadget"),
    "gadget-56": LWRParameters(secret_dim=56, modulus=128, levels=32, matrix="gadget"),
}

_NOISY = {
    "parity-64": LWRParameters(secret_dim=64, modulus=2, levels=2),
    "lpn-32": LWRParameters(secret_dim=32, modulus=2, levels=2, noise=FlipLaw(0.125)),
    "lpn-128": LWRParameters(secret_dim=128, modulus=2, levels=2, noise=FlipLaw(0.125)),
    "lpn-512": LWRParameters(secret_dim=512, modulus=2, levels=2, noise=FlipLaw(0.125)),
    "lwe-30": LWRParameters(
        secret_dim=30, modulus=257, levels=257, matrix="uniform", noise=GaussianLaw(sigma=1.0)
    ),
}

# module structure is ignored: these are plain problems of the schemes' sizes, with uniform public matrices
_SCHEMES = {
    "kyber512": LWRParameters(
        secret_dim=512,
        modulus=3329,
        levels=3329,
        matrix="uniform",
        secret=BinomialLaw(3),
        noise=BinomialLaw(3),
    ),
    "kyber768": LWRParameters(
        secret_dim=768,
        modulus=3329,
        levels=3329,
        matrix="uniform",
        secret=BinomialLaw(2),
        noise=BinomialLaw(2),
    ),
    "kyber1024": LWRParameters(
        secret_dim=1024,
        modulus=3329,
        levels=3329,
        matrix="uniform",
        secret=BinomialLaw(2),
        noise=BinomialLaw(2),
    ),
    "lightsaber": LWRParameters(
        secret_dim=512, modulus=8192, levels=1024, matrix="uniform", secret=BinomialLaw(5)
    ),
    "saber": LWRParameters(
        secret_dim=768, modulus=8192, levels=1024, matrix="uniform", secret=BinomialLaw(4)
    ),
    "firesaber": LWRParameters(
        secret_dim=1024, modulus=8192, levels=1024, matrix="uniform", secret=BinomialLaw(3)
    ),
}

PRESETS: Mapping[str, LWRParameters] = MappingProxyType(_TOYS | _PLAIN | _GADGET | _NOISY | _SCHEMES)
"""Parameters by name.

* toy-...: broken in seconds, for trying things out.
* no-wrap, weak-wrap, plain-N: binary covariates, from sums that hardly wrap around to n = 256; linearised-N: q = 4,
  quadratic over GF(2); ternary-N, sparse-N: small secrets with a tiny modulus; covariates-N: ternary covariates.
* gadget-N: standard learning with rounding with a power-of-two modulus, dimension N.
* parity-N: easy; lpn-N: learning parity with noise, one flip in eight; lwe-N: learning with errors.
* kyber512, kyber768, kyber1024, lightsaber, saber, firesaber: the sizes, moduli and laws of these schemes' keys as
  plain learning with errors and with rounding. Their module structure is ignored, and so is the compression of
  Kyber's ciphertexts: what is said of these is not said of the schemes. Kyber specification, round 3 (2021), Table 1;
  Saber specification, round 3 (2020). No heads realise them: they are for samples and for cost estimates.

A name says what is known to break it, if anything, and never that something is secure.
"""


def preset(name: str) -> LWRParameters:
    """The parameters of that name in `PRESETS`.

    Raises
    ------
    ValueError
        If there are none.

    Examples
    --------
    >>> print(preset("plain-24"))
    LWR n=24 q=64 p=2 (d=25)
    >>> print(preset("kyber768"))
    LWE n=768 q=3329 p=3329 uniform secret=binomial(2) noise=binomial(2)
    """
    if not isinstance(name, str) or name not in PRESETS:
        raise ValueError(
            f"There is no preset {shown(name)}: there are {', '.join(PRESETS)}, and one of them is needed."
        )
    return PRESETS[name]
