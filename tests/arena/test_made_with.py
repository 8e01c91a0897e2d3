"""What numbers are made with is the same here and here, and a difference is said."""

from arena.made_with import difference, made_with, versions


def test_there_is_no_difference_from_oneself():
    assert difference(made_with()) == ""
    assert set(versions()) < set(made_with())


def test_the_first_difference_is_named_with_both_sides():
    said = difference({**made_with(), "numpy": "0.1"})
    assert said.startswith(f"The worker has numpy {versions()['numpy']} and the command that asks 0.1")
    assert "the toolkit's code" in difference({**made_with(), "the toolkit's code": "other"})


def test_a_package_on_one_side_only_is_a_difference():
    assert "asks none" in difference({name: one for name, one in made_with().items() if name != "numpy"})
    assert "has fastmath none" in difference({**made_with(), "fastmath": "1"})
