"""Hard families from lattice assumptions: learning with rounding realised by heads, certificates, verification."""

from lwe.families import lwr_staircase, make_lwr_instance
from lwe.parameters import LARGEST_MODULUS, LWRParameters, centred, covariate_form, rounded
from lwe.uniformity import residue_counts, total_variation_from_uniform, wrap_ratio
from lwe.verify import LWRVerification, attaining_covariates, gadget_residues, verify_lwr_instance

__all__ = [
    "LARGEST_MODULUS",
    "LWRParameters",
    "LWRVerification",
    "attaining_covariates",
    "centred",
    "covariate_form",
    "gadget_residues",
    "lwr_staircase",
    "make_lwr_instance",
    "residue_counts",
    "rounded",
    "total_variation_from_uniform",
    "verify_lwr_instance",
    "wrap_ratio",
]
