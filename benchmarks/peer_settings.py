"""Settings of gradient descent to compare with Newton, a few per case."""

from dataclasses import dataclass, replace

from upper import GradientDescent
from upper.baselines.gradient_descent import OptimizerName

REUSED = 16_384
"""The size of a set that is reused in every epoch."""


@dataclass(frozen=True)
class _Found:
    """The shortest schedule found that ends below 1e-6, and a short schedule that reaches 1e-2 fast."""

    steps: int
    batch: int
    beta1: float
    short_steps: int
    short_rate: float
    # a second schedule, because none is the shortest on all targets: steps, batch, beta1
    other: tuple[int, int, float] | None = None


_RATE, _BETA2, _POWER = 0.0045, 0.98, 1.5
_FOUND = {
    (2, 2, 32): _Found(875, 512, 0.7, 300, 0.01, (1000, 512, 0.7)),
    (4, 4, 32): _Found(850, 128, 0.7, 400, 0.01, (900, 128, 0.8)),
    (8, 4, 32): _Found(1125, 128, 0.7, 450, 0.008, (875, 192, 0.7)),
    (4, 4, 64): _Found(1925, 256, 0.8, 700, 0.008),
    (8, 8, 64): _Found(1425, 128, 0.8, 500, 0.008, (1125, 192, 0.8)),
}
# batch, steps, rate (of SGD times d), momentum, power of the schedule: the fastest setting to 1e-6 among those tried,
# with its 16384 examples. For Muon and SOAP, rates, momenta, batches, lengths and powers were searched one after
# another, eight to twenty settings a case on the first target; SOAP ends at 3e-6 on (2, 2, 32) and Muon at 1e-6 on
# (8, 4, 32).
_OTHERS: dict[OptimizerName, dict[tuple[int, int, int], tuple[int, int, float, float, float]]] = {
    "sgd": {
        (2, 2, 32): (512, 1500, 1.0, 0.9, 1.0),
        (4, 4, 32): (256, 1500, 1.0, 0.9, 1.0),
        (8, 4, 32): (256, 1500, 1.0, 0.9, 1.0),
        (4, 4, 64): (512, 3000, 0.5, 0.95, 1.0),
        (8, 8, 64): (256, 2500, 1.0, 0.95, 1.0),
    },
    "muon": {
        (2, 2, 32): (512, 875, 0.01, 0.9, 3.0),
        (4, 4, 32): (128, 680, 0.02, 0.8, 2.5),
        (8, 4, 32): (128, 1000, 0.02, 0.9, 3.0),
        (4, 4, 64): (256, 1540, 0.02, 0.9, 3.5),
        (8, 8, 64): (128, 1425, 0.02, 0.8, 3.5),
    },
    "soap": {
        (2, 2, 32): (512, 875, 0.02, 0.8, 2.0),
        (4, 4, 32): (256, 850, 0.01, 0.8, 2.0),
        (8, 4, 32): (256, 800, 0.01, 0.8, 1.5),
        (4, 4, 64): (256, 1540, 0.005, 0.8, 2.0),
        (8, 8, 64): (128, 1425, 0.005, 0.8, 2.0),
    },
}


def adam_settings(m: int, k: int, d: int, *, device: str | None = None) -> dict[str, list[GradientDescent]]:
    """Settings by the source of their examples, "fresh" or "reused".

    Parameters
    ----------
    m, k, d : int
        The case; an unknown case gets the settings of the nearest known one.
    device : str, optional
        Where Adam computes, by default on the CPU.
    """
    found, place = _FOUND[_nearest(m, k, d)], "cpu" if device is None else device
    best = GradientDescent(
        m,
        work=found.steps,
        batch=found.batch,
        learning_rate=_RATE,
        power=_POWER,
        momentum=found.beta1,
        beta2=_BETA2,
        device=place,
    )
    short = replace(best, work=found.short_steps, learning_rate=found.short_rate)
    fresh, reused = [best, short], [replace(best, reused=REUSED)]
    if found.other is not None:
        steps, batch, beta1 = found.other
        reused.append(replace(best, work=steps, batch=batch, momentum=beta1, reused=REUSED))
    return {"fresh": fresh, "reused": reused}


def peer_settings(optimizer: OptimizerName, m: int, k: int, d: int) -> list[GradientDescent]:
    """One setting of SGD, Muon or SOAP in float32, on fresh examples and on a set that is reused.

    Parameters
    ----------
    optimizer : {"sgd", "muon", "soap"}
        Adam has several settings, those of `adam_settings`.
    m, k, d : int
        The case; an unknown case gets the setting of the nearest known one.
    """
    batch, steps, given, momentum, power = _OTHERS[optimizer][_nearest(m, k, d)]
    fresh = GradientDescent(
        m,
        work=steps,
        batch=batch,
        optimizer=optimizer,
        learning_rate=given / d if optimizer == "sgd" else given,
        momentum=momentum,
        beta2=_BETA2,
        power=power,
    )
    return [fresh, replace(fresh, reused=REUSED)]


def _nearest(m: int, k: int, d: int) -> tuple[int, int, int]:
    return min(_FOUND, key=lambda case: sum(abs(a - b) / b for a, b in zip((m, k, d), case, strict=True)))
