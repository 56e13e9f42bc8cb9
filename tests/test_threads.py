"""Work on parts in threads: order and errors are those of a loop."""

import pytest

from abeval.threads import map_in_threads


def test_answers_are_in_the_order_of_the_parts() -> None:
    assert list(map_in_threads(lambda n: n * n, range(50))) == [n * n for n in range(50)]


def test_nothing_to_do_is_no_answer() -> None:
    assert list(map_in_threads(len, [])) == []


def test_the_first_error_reaches_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        list(map_in_threads(lambda n: 1 / n, [1, 2, 0]))
