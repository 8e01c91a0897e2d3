"""The registry of attacks, by their names at the command line."""

from collections.abc import Mapping

from lwe.attacks.attack import Attack
from lwe.attacks.bkw import BKWAttack
from lwe.attacks.exhaustive import ExhaustiveAttack
from lwe.attacks.lattice import LatticeAttack
from lwe.attacks.least_squares import LeastSquaresAttack
from lwe.attacks.linearisation import LinearisationAttack
from lwe.attacks.meet_in_the_middle import MeetInTheMiddleAttack

ATTACKS: Mapping[str, Attack] = {
    attack.name: attack
    for attack in (
        LeastSquaresAttack(),
        ExhaustiveAttack(),
        MeetInTheMiddleAttack(),
        LinearisationAttack(),
        BKWAttack(),
        LatticeAttack(),
    )
}
"""All attacks, in the order of tables. An attack is a file of `lwe.attacks` and a line here."""
