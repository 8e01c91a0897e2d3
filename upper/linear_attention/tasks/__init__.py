"""Tasks for linear attention, each a record with its examples, its exact model, its rank and its closed loop."""

from upper.linear_attention.tasks.automata import AutomataInContext, Automaton
from upper.linear_attention.tasks.key_value import KEYS, KeyValueMemory
from upper.linear_attention.tasks.machines import TuringMachine, agreement
from upper.linear_attention.tasks.turing import TapeLayout
from upper.linear_attention.tasks.universal import UniversalLayout

__all__ = [
    "KEYS",
    "AutomataInContext",
    "Automaton",
    "KeyValueMemory",
    "TapeLayout",
    "TuringMachine",
    "UniversalLayout",
    "agreement",
]
