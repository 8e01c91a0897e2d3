"""Tasks for linear attention, each with its examples, and most with an exact model, a rank or a closed loop."""

from studies.tasks.automata import AutomataInContext, Automaton
from studies.tasks.key_value import KeyValueMemory
from studies.tasks.turing import TapeLayout, TuringMachine, agreement
from studies.tasks.universal import UniversalLayout

__all__ = [
    "AutomataInContext",
    "Automaton",
    "KeyValueMemory",
    "TapeLayout",
    "TuringMachine",
    "UniversalLayout",
    "agreement",
]
