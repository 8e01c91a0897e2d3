"""What an instance of learning with rounding makes public, read back from it and held to its layer."""

from dataclasses import dataclass

from attention.validation import count, non_negative, require_instance
from lower import HardInstance
from lwe.heads import require_deviations
from lwe.parameters import LWRParameters

__all__ = ["FAMILY", "PublicDescription", "describe_instance"]

FAMILY = "lwr"
"""The name of the family, with every matrix, secret and noise."""


@dataclass(frozen=True)
class PublicDescription:
    """What everybody knows of an instance, whatever its secret.

    Attributes
    ----------
    parameters : LWRParameters
        The problem.
    gate : int
        The gate coordinate g.
    beta : float
        The slope of the heads.
    deviations : float or None
        Beyond how many standard deviations of the inner product the label is held; None if nowhere.
    """

    parameters: LWRParameters
    gate: int
    beta: float
    deviations: float | None


def describe_instance(instance: HardInstance) -> PublicDescription:
    """The parameters of an instance of the family "lwr", with the gate, the slope and the range of its heads.

    Raises
    ------
    ValueError
        If the instance is of another family, or its parameters, layer and secret contradict one another.

    Examples
    --------
    >>> from lwe import make_lwr_instance
    >>> described = describe_instance(make_lwr_instance(secret_dim=6, modulus=8, levels=2, rng=0))
    >>> print(described.parameters)
    LWR n=6 q=8 p=2 (d=7)
    >>> described.gate, described.beta, described.deviations
    (0, 40.0, None)
    """
    require_instance("instance", instance, HardInstance, needed="a HardInstance, as lwr_instance gives it,")
    if instance.family != FAMILY:
        raise ValueError(f"The instance is of the family {instance.family!r}: one of lwr is needed.")
    public = instance.parameters
    missing = [name for name in ("gate", "beta") if name not in public]
    if missing:
        raise ValueError(
            f"The instance does not say what its {', '.join(missing)} is: it is needed of an lwr one."
        )
    parameters = LWRParameters.from_json(public)
    gate = count("The instance's gate", public["gate"], least=0)
    beta = non_negative("The instance's beta", public["beta"], strictly=True)
    deviations = public.get("deviations")
    d = instance.layer.dim
    if instance.inputs.k != 2 or parameters.dim != d or gate >= d or parameters.matrix == "uniform":
        raise ValueError(
            f"{parameters} with gate {gate} does not fit a layer on {instance.inputs.k} tokens, d = {d}."
        )
    if instance.secret.shape != (parameters.secret_dim,):
        raise ValueError(f"secret has shape {instance.secret.shape}: ({parameters.secret_dim},) is needed.")
    return PublicDescription(
        parameters, gate, beta, None if deviations is None else require_deviations(deviations)
    )
