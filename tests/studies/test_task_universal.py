import itertools

import numpy as np
import pytest

from studies.tasks import TuringMachine, UniversalLayout
from tests.studies.test_task_turing import every_configuration
from upper.linear_attention.features import cubic_kernel


def every_machine(states, symbols):
    rows = list(itertools.product(range(symbols), (-1, 0, 1), range(states)))
    for table in itertools.product(rows, repeat=states * symbols):
        write, move, following = np.array(table).T.reshape(3, states, symbols)
        yield TuringMachine(write, move, following)


@pytest.mark.parametrize("size", [(1, 1, 1), (2, 2, 4), (3, 3, 6), (2, 3, 5)])
def test_both_attention_steps_are_made_in_whole_numbers(size):
    layout = UniversalLayout(*size)
    model = layout.model()
    assert model.heads == size[2] * (size[0] + size[1])
    x, y = layout.examples(60, rng=0)
    assert np.array_equal(model(x), y)
    assert np.all(np.abs(y).sum(axis=1) > 0)


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


@pytest.mark.parametrize("size", [(1, 1, 2), (1, 2, 1), (1, 2, 2)])
def test_rank_over_all_machines_and_tapes(size):
    layout = UniversalLayout(*size)
    machines, starts = list(every_machine(*size[:2])), every_configuration(layout.tape)
    x = np.concatenate(
        [
            layout.contexts([machine] * len(starts), starts, look_up=look_up)
            for machine in machines
            for look_up in (False, True)
        ]
    )
    assert np.linalg.matrix_rank(cubic_kernel(x, x), tol=1e-8) == layout.rank
