"""Named parameters, from toys that every learner breaks to sets that no attack here can break."""

from collections.abc import Mapping
from types import MappingProxyType

from lwe.laws import BinomialLaw, FlipLaw, GaussianLaw, SparseLaw, TernaryLaw
from lwe.parameters import LWRParameters

__all__ = ["PRESETS"]

_PRESETS = {
    "toy": LWRParameters(8, 16, 2),
    "toy-gadget": LWRParameters(3, 16, 2, "gadget"),
    "toy-ternary": LWRParameters(6, 8, 2, "ternary"),
    "toy-lwe": LWRParameters(8, 16, 16, noise=BinomialLaw(1)),
    "toy-lpn": LWRParameters(10, 2, 2, noise=FlipLaw(0.05)),
    # span below q: least squares finds the secret
    "no-wrap": LWRParameters(24, 251, 32, secret=TernaryLaw()),
    "weak-wrap": LWRParameters(40, 17, 2, secret=TernaryLaw()),
    "plain-24": LWRParameters(24, 64, 2),
    "plain-64": LWRParameters(64, 64, 2),
    "plain-256": LWRParameters(256, 64, 2),
    "linearised-32": LWRParameters(32, 4, 2),
    "linearised-64": LWRParameters(64, 4, 2),
    "ternary-14": LWRParameters(14, 5, 2, secret=TernaryLaw()),
    "ternary-20": LWRParameters(20, 5, 2, secret=TernaryLaw()),
    "sparse-64": LWRParameters(64, 3, 2, secret=SparseLaw(8)),
    "covariates-24": LWRParameters(24, 64, 2, "ternary"),
    "gadget-4": LWRParameters(4, 16, 2, "gadget"),
    "gadget-14": LWRParameters(14, 128, 4, "gadget"),
    "gadget-16": LWRParameters(16, 256, 2, "gadget"),
    "gadget-28": LWRParameters(28, 128, 8, "gadget"),
    "gadget-56": LWRParameters(56, 128, 32, "gadget"),
    "parity-64": LWRParameters(64, 2, 2),
    "lpn-32": LWRParameters(32, 2, 2, noise=FlipLaw(0.125)),
    "lpn-128": LWRParameters(128, 2, 2, noise=FlipLaw(0.125)),
    "lpn-512": LWRParameters(512, 2, 2, noise=FlipLaw(0.125)),
    "lwe-30": LWRParameters(30, 257, 257, "uniform", noise=GaussianLaw(1.0)),
    "sparse-lwe-80": LWRParameters(80, 113, 113, "uniform", SparseLaw(5), GaussianLaw(3.0)),
    # module structure is ignored: plain problems of the schemes' sizes, with uniform public matrices
    "kyber512": LWRParameters(512, 3329, 3329, "uniform", BinomialLaw(3), BinomialLaw(3)),
    "kyber768": LWRParameters(768, 3329, 3329, "uniform", BinomialLaw(2), BinomialLaw(2)),
    "kyber1024": LWRParameters(1024, 3329, 3329, "uniform", BinomialLaw(2), BinomialLaw(2)),
    "lightsaber": LWRParameters(512, 8192, 1024, "uniform", BinomialLaw(5)),
    "saber": LWRParameters(768, 8192, 1024, "uniform", BinomialLaw(4)),
    "firesaber": LWRParameters(1024, 8192, 1024, "uniform", BinomialLaw(3)),
}
PRESETS: Mapping[str, LWRParameters] = MappingProxyType(_PRESETS)
"""Parameters by name.

* toy-...: broken in seconds, for trying things out.
* no-wrap, weak-wrap, plain-N: binary covariates, from sums that hardly wrap around to n = 256; linearised-N: q = 4,
  quadratic over GF(2); ternary-N, sparse-N: small secrets with a tiny modulus; covariates-N: ternary covariates.
* gadget-N: standard learning with rounding with a power-of-two modulus, dimension N.
* parity-N: easy; lpn-N: learning parity with noise, one flip in eight; lwe-N: learning with errors.
* sparse-lwe-80: the toy of LWE-benchmarking (Wenger, Saxena, Malhou, Thieu and Lauter 2024, eprint 2024/1229), with a
  uniform matrix in place of a circulant one, and with signs: its secrets have five or six ones.
* kyber512, kyber768, kyber1024, lightsaber, saber, firesaber: the sizes, moduli and laws of these schemes' keys as
  plain learning with errors and with rounding. Their module structure is ignored, and so is the compression of
  Kyber's ciphertexts: results for these sets do not hold for the schemes. Kyber specification, round 3 (2021), Table 1;
  Saber specification, round 3 (2020). No heads realise them: they are for samples and for cost estimates.

A name indicates what is known to break the parameters, if anything. No name means that they are secure.
"""
