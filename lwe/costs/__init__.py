"""Estimated costs of attacks on learning with rounding and with errors; never a claim of security."""

from lwe.costs.cost import Cost
from lwe.costs.estimate import estimate
from lwe.costs.reduction import COST_MODELS

__all__ = [
    "COST_MODELS",
    "Cost",
    "estimate",
]
