"""Settings of Newton's peers, a few per case, as `python -m benchmarks tune-peers` found them."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from upper import GradientDescent, counting_floor

Peer = Literal["adam", "muon", "sgd", "soap", "varpro"]
"""The optimizers, and SGD with W eliminated on every batch, known as variable projection."""
REUSED = 16_384
"""The size of a set that is reused in every epoch, unless the search found another."""


@dataclass(frozen=True)
class PeerSetting:
    """A setting of gradient descent; the rate of SGD is in units of 1 / d."""

    steps: int
    batch: int
    rate: float
    momentum: float
    power: float  #: of the cosine schedule
    reused: int | None = REUSED  #: None draws fresh examples

    def learner(self, peer: Peer, heads: int, dim: int, tolerance: float = 0.0) -> GradientDescent:
        """The learner with this setting."""
        optimizer = "sgd" if peer == "varpro" else peer
        return GradientDescent(
            heads,
            work=self.steps,
            batch=self.batch,
            optimizer=optimizer,
            learning_rate=self.rate / dim if optimizer == "sgd" else self.rate,
            momentum=self.momentum,
            beta2=_BETA2,
            power=self.power,
            reused=self.reused,
            tolerance=tolerance,
            eliminates_w=peer == "varpro",
        )


_BETA2, _FAR_BELOW = 0.98, 5e-7
SETTINGS: dict[Peer, dict[tuple[int, int, int], PeerSetting]] = {
    "sgd": {
        (2, 2, 32): PeerSetting(2690, 704, 0.915, 0.896, 1.64, 27_496),
        (4, 4, 32): PeerSetting(2647, 192, 0.732, 0.922, 1.49, 10_184),
        (8, 4, 32): PeerSetting(1483, 320, 1.13, 0.889, 1.42, 13_864),
        (4, 4, 64): PeerSetting(2186, 512, 0.556, 0.946, 1.25, 14_337),
    },
    "adam": {
        (2, 2, 32): PeerSetting(1009, 416, 0.00478, 0.749, 2.95, 14_684),
        (4, 4, 32): PeerSetting(850, 128, 0.0045, 0.7, 1.5),
        (8, 4, 32): PeerSetting(1147, 128, 0.00437, 0.697, 1.54, 17_403),
        (4, 4, 64): PeerSetting(1718, 288, 0.00455, 0.813, 1.49, 18_752),
    },
    "muon": {
        (2, 2, 32): PeerSetting(875, 512, 0.01, 0.9, 3.0),
        (4, 4, 32): PeerSetting(801, 160, 0.0276, 0.768, 2.81, 12_216),
        (8, 4, 32): PeerSetting(964, 160, 0.0248, 0.893, 3.24, 17_490),
        (4, 4, 64): PeerSetting(1434, 256, 0.018, 0.904, 3.15, 16_788),
    },
    "soap": {
        (2, 2, 32): PeerSetting(1595, 608, 0.0336, 0.765, 1.65, 18_692),
        (4, 4, 32): PeerSetting(651, 288, 0.0292, 0.649, 1.76, 14_190),
        (8, 4, 32): PeerSetting(810, 256, 0.0104, 0.81, 1.68, 16_005),
        (4, 4, 64): PeerSetting(2005, 384, 0.00608, 0.798, 2.47, 16_881),
    },
    "varpro": {
        (2, 2, 32): PeerSetting(791, 544, 0.911, 0.889, 0.46, 9079),
        (4, 4, 32): PeerSetting(854, 160, 1.04, 0.836, 0.58, 5892),
        (8, 4, 32): PeerSetting(759, 288, 1.54, 0.85, 0.25, 10_643),
        (4, 4, 64): PeerSetting(528, 544, 0.72, 0.863, 0.39, 7662),
    },
}

FLOORS = {(2, 2, 32): 3, (4, 4, 32): 5, (8, 4, 32): 5, (4, 4, 64): 4}
"""The examples of L-BFGS, in counting floors."""


def peer_settings(peer: Peer, m: int, k: int, d: int, *, device: str | None = None) -> list[GradientDescent]:
    """The setting for a case; of Adam on a fixed set, and on fresh examples. A fit ends when it is far below 1e-6."""
    setting = of_nearest(SETTINGS[peer], (m, k, d))
    best = replace(setting.learner(peer, m, d, tolerance=_FAR_BELOW), device=device or "cpu")
    if peer != "adam":
        return [best]
    return [replace(best, reused=setting.reused or REUSED), replace(best, reused=None)]


def lbfgs_examples(m: int, k: int, d: int) -> int:
    """The examples of L-BFGS for a case."""
    return of_nearest(FLOORS, (m, k, d)) * counting_floor(heads=m, tokens=k, dim=d)


def of_nearest(table: dict[tuple[int, int, int], Any], case: tuple[int, int, int]) -> Any:
    """The entry of a case; of an unknown case, that of the nearest one."""
    return table[min(table, key=lambda known: sum(abs(a - b) / b for a, b in zip(case, known, strict=True)))]
