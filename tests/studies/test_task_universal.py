"""The universal machine: one model for every machine, whose table is in the context."""

import itertools

import numpy as np

from studies.tasks import TuringMachine, UniversalLayout
from tests.studies.test_task_turing import every_configuration


def every_machine(states, symbols):
    rows = list(itertools.product(range(symbols), (-1, 0, 1), range(states)))
    for table in itertools.product(rows, repeat=states * symbols):
        write, move, following = np.array(table).T.reshape(3, states, symbols)
        yield TuringMachine(write, move, following)


def test_one_model_runs_every_machine_with_one_state_and_two_symbols():
    layout, machines = UniversalLayout(1, 2, 3), list(every_machine(1, 2))
    starts = every_configuration(layout.tape)
    model = layout.model()
    for machine in machines:
        found = layout.simulate(model, [machine] * len(starts), starts, 8)
        assert found.rounding == 0
        assert np.array_equal(found.configurations, machine.run(starts, 8))


def test_what_is_run_is_the_table_in_the_context():
    layout = UniversalLayout(2, 2, 4)
    machines = [TuringMachine.random(states=2, symbols=2, rng=seed) for seed in range(2)]
    start = layout.tape.draw(1, rng=0)
    found = layout.simulate(layout.model(), machines, np.concatenate([start, start]), 50).configurations
    for run, machine in enumerate(machines):
        assert np.array_equal(found[[run]], machine.run(start, 50))
    assert not np.array_equal(found[[0]], machines[1].run(start, 50))
