"""Tasks for linear attention: memories, automata, Turing machines and a universal one."""

from upper.linear_attention.tasks.automata import (
    Automaton,
    automata_in_context,
    automaton_examples,
    automaton_in_context_examples,
    automaton_in_context_model,
    automaton_in_context_rank,
    automaton_model,
    random_automaton,
    run_automaton,
    run_in_context,
)
from upper.linear_attention.tasks.closed_loop import ClosedLoop
from upper.linear_attention.tasks.independent import first_independent
from upper.linear_attention.tasks.key_value import (
    KEYS,
    key_value_examples,
    key_value_rank,
    lookup_model,
    rank_of_a_key,
)
from upper.linear_attention.tasks.machines import Configurations, TuringMachine, random_machine
from upper.linear_attention.tasks.turing import (
    TapeLayout,
    all_configurations,
    reader_examples,
    reader_model,
    simulate,
    step_examples,
    turing_model,
)
from upper.linear_attention.tasks.universal import (
    UniversalLayout,
    simulate_universal,
    universal_examples,
    universal_model,
)

__all__ = [
    "KEYS",
    "Automaton",
    "ClosedLoop",
    "Configurations",
    "TapeLayout",
    "TuringMachine",
    "UniversalLayout",
    "all_configurations",
    "automata_in_context",
    "automaton_examples",
    "automaton_in_context_examples",
    "automaton_in_context_model",
    "automaton_in_context_rank",
    "automaton_model",
    "first_independent",
    "key_value_examples",
    "key_value_rank",
    "lookup_model",
    "random_automaton",
    "random_machine",
    "rank_of_a_key",
    "reader_examples",
    "reader_model",
    "run_automaton",
    "run_in_context",
    "simulate",
    "simulate_universal",
    "step_examples",
    "turing_model",
    "universal_examples",
    "universal_model",
]
