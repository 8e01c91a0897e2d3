"""Named parameters, from toys that every learner breaks to sets that no attack here can break."""

import math
from collections.abc import Mapping
from types import MappingProxyType

from lwe.distributions import (
    BINARY,
    NO_NOISE,
    TERNARY,
    CentredBinomial,
    DiscreteGaussian,
    Distribution,
    Flips,
    Interval,
    SparseSigned,
    SparseTernary,
)
from lwe.parameters import LWEParameters

_PRESETS = {
    "toy": LWEParameters(8, 16, 2),
    "toy-gadget": LWEParameters(3, 16, 2, "gadget"),
    "toy-ternary": LWEParameters(6, 8, 2, "ternary"),
    "toy-lwe": LWEParameters(8, 16, 16, Xe=CentredBinomial(1)),
    "toy-lpn": LWEParameters(10, 2, 2, Xe=Flips(0.05)),
    # span below q: least squares finds the secret
    "no-wrap": LWEParameters(24, 251, 32, Xs=TERNARY),
    "weak-wrap": LWEParameters(40, 17, 2, Xs=TERNARY),
    "plain-24": LWEParameters(24, 64, 2),
    "plain-64": LWEParameters(64, 64, 2),
    "plain-256": LWEParameters(256, 64, 2),
    "linearised-32": LWEParameters(32, 4, 2),
    "linearised-64": LWEParameters(64, 4, 2),
    "ternary-14": LWEParameters(14, 5, 2, Xs=TERNARY),
    "ternary-20": LWEParameters(20, 5, 2, Xs=TERNARY),
    "sparse-64": LWEParameters(64, 3, 2, Xs=SparseSigned(8)),
    "covariates-24": LWEParameters(24, 64, 2, "ternary"),
    "gadget-4": LWEParameters(4, 16, 2, "gadget"),
    "gadget-14": LWEParameters(14, 128, 4, "gadget"),
    "gadget-16": LWEParameters(16, 256, 2, "gadget"),
    "gadget-28": LWEParameters(28, 128, 8, "gadget"),
    "gadget-56": LWEParameters(56, 128, 32, "gadget"),
    "parity-64": LWEParameters(64, 2, 2),
    "lpn-32": LWEParameters(32, 2, 2, Xe=Flips(0.125)),
    "lpn-128": LWEParameters(128, 2, 2, Xe=Flips(0.125)),
    "lpn-512": LWEParameters(512, 2, 2, Xe=Flips(0.125)),
    "lwe-30": LWEParameters(30, 257, 257, "uniform", Xe=DiscreteGaussian(1.0)),
    "sparse-lwe-80": LWEParameters(80, 113, 113, "uniform", SparseSigned(5), DiscreteGaussian(3.0)),
}


_GAUSSIAN = DiscreteGaussian(3.19)
_HES = {  # log2 q by dimension, for ternary secrets and 128, 192 and 256 bits of security against classical attacks
    1024: (27, 19, 14),
    2048: (54, 37, 29),
    4096: (109, 75, 58),
    8192: (218, 152, 118),
    16384: (438, 305, 237),
    32768: (881, 611, 476),
}
_HES2 = {8192: 214, 16384: 430, 32768: 868, 65536: 1747, 131072: 3523}
_SEAL = {
    2048: 2**60 - 2**14 + 1,
    4096: 2**116 - 2**18 + 1,
    8192: 2**226 - 2**26 + 1,
    16384: 2**435 - 2**33 + 1,
    32768: 2**889 - 2**54 - 2**53 - 2**52 + 1,
}

_SCHEMES: tuple[tuple[str, int, int, int, Distribution, Distribution, int | None], ...] = (
    # tag, n, q, p (0: no rounding), Xs, Xe, m
    *(
        (f"Kyber{n}", n, 3329, 0, CentredBinomial(eta), CentredBinomial(eta), n)
        for n, eta in ((512, 3), (768, 2), (1024, 2))
    ),
    ("LightSaber", 512, 8192, 1024, CentredBinomial(5), NO_NOISE, 512),
    ("Saber", 768, 8192, 1024, CentredBinomial(4), NO_NOISE, 768),
    ("FireSaber", 1024, 8192, 1024, CentredBinomial(3), NO_NOISE, 1024),
    *(
        (f"Frodo{n}", n, q, 0, DiscreteGaussian(sigma), DiscreteGaussian(sigma), n + 8)
        for n, q, sigma in ((640, 2**15, 2.8), (976, 2**16, 2.3), (1344, 2**16, 1.4))
    ),
    *(
        (f"Dilithium{level}", 256 * columns, 8380417, 0, Interval(-eta, eta), Interval(-eta, eta), 256 * rows)
        for level, rows, columns, eta in ((2, 4, 4, 2), (3, 6, 5, 4), (5, 8, 7, 2))
    ),
    ("NTRU-HPS2048509", 508, 2048, 0, TERNARY, SparseTernary(127, 127), 508),
    ("NTRU-HPS2048677", 676, 2048, 0, TERNARY, SparseTernary(127, 127), 676),
    ("NTRU-HPS4096821", 820, 4096, 0, TERNARY, SparseTernary(255, 255), 820),
    ("NTRU-HRSS701", 700, 8192, 0, TERNARY, TERNARY, 700),
    ("TFHE630", 630, 2**32, 0, BINARY, DiscreteGaussian(2.0**17), None),
    ("TFHE1024", 1024, 2**32, 0, BINARY, DiscreteGaussian(2.0**7), None),
    # errors are uniform with weights at the ends: here a Gaussian of their deviation
    ("TFHErs-LWE", 918, 2**64, 0, BINARY, DiscreteGaussian(math.sqrt((2**91 + 1) / 6)), None),
    ("TFHErs-RLWE", 2048, 2**64, 0, BINARY, DiscreteGaussian(math.sqrt((2**35 + 1) / 6)), None),
    *(
        (f"HES-{n}-{bits}", n, 2**size, 0, TERNARY, DiscreteGaussian(3.2), None)
        for n, sizes in _HES.items()
        for bits, size in zip((128, 192, 256), sizes, strict=True)
    ),
    *((f"HESv2-{n}-128", n, 2**size, 0, TERNARY, _GAUSSIAN, None) for n, size in _HES2.items()),
    *((f"SEAL22-{n}", n, q, 0, TERNARY, _GAUSSIAN, None) for n, q in _SEAL.items()),
)
PRESETS: Mapping[str, LWEParameters] = MappingProxyType(
    _PRESETS
    | {tag.lower(): LWEParameters(n, q, p, "uniform", Xs, Xe, m, tag) for tag, n, q, p, Xs, Xe, m in _SCHEMES}
)
"""Parameters by name.

* toy-...: broken in seconds, for trying things out.
* no-wrap, weak-wrap, plain-N: binary covariates, from sums that hardly wrap around to n = 256; linearised-N: q = 4,
  quadratic over GF(2); ternary-N, sparse-N: small secrets with a tiny modulus; covariates-N: ternary covariates.
* gadget-N: standard learning with rounding with a power-of-two modulus, dimension N.
* parity-N: easy; lpn-N: learning parity with noise, one flip in eight; lwe-N: learning with errors.
* sparse-lwe-80: the toy of LWE-benchmarking (Wenger, Saxena, Malhou, Thieu and Lauter 2024, eprint 2024/1229), with a
  uniform matrix in place of a circulant one, and with signs: its secrets have five or six ones.
* kyberN, lightsaber, saber, firesaber, frodoN, dilithiumN, ntru-...: the keys of these schemes, with the numbers m of
  samples that they make public. Specifications of round 3: Kyber (2021), Table 1; Saber (2020), Table 1; FrodoKEM
  (2021), Table 3; Dilithium (2021), Table 1; NTRU (2019). The ring samples of FrodoKEM's keys are n + 8.
* tfheN, tfhers-...: TFHE with binary secrets, and TFHE-rs 1.4 (the lattice-estimator's `schemes.py`).
* hes-N-B: the Homomorphic Encryption Standard 1.1 (2018), Table 1, for ternary secrets and B bits; hesv2-N-128: its
  second version (Bossuat and others 2024, eprint 2024/463, Table 5.2); seal22-N: SEAL 2.2 (2017), Table 3.

The structure of rings and modules is ignored, and so is the compression of Kyber's ciphertexts: results for these sets
are about plain learning with errors of their size. No heads realise them; the larger moduli are for estimates alone.

A name indicates what is known to break the parameters, if anything. No name means that they are secure.
"""
