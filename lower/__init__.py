"""What every hard instance shares: families, heads, the known component, certificates, bounds, files, verification.

What has no reference is derived here.
"""

from typing import TYPE_CHECKING

from attention.lazy import lazily

if TYPE_CHECKING:
    from lower.bounds import eliminated_per_query, query_lower_bound
    from lower.certificate import Certificate, Fact, Key, Status, Word
    from lower.family import FAMILIES, Family, Option, constructor, register
    from lower.gf2 import solve_gf2
    from lower.heads import Heads
    from lower.instance import HardInstance
    from lower.instance_files import load_instance, save_instance
    from lower.known import KnownComponent
    from lower.low_degree import SecretPairs
    from lower.verify import Verification, verify_instance
    from lower.walsh import all_sign_matrices

__getattr__ = lazily(__name__, __file__)

__all__ = [
    "FAMILIES",
    "Certificate",
    "Fact",
    "Family",
    "HardInstance",
    "Heads",
    "Key",
    "KnownComponent",
    "Option",
    "SecretPairs",
    "Status",
    "Verification",
    "Word",
    "all_sign_matrices",
    "constructor",
    "eliminated_per_query",
    "load_instance",
    "query_lower_bound",
    "register",
    "save_instance",
    "solve_gf2",
    "verify_instance",
]
