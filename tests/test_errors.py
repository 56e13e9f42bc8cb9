"""The tree of errors, and how each is shown."""

from __future__ import annotations

import pytest

from abeval.errors import AbevalError, ExperimentError, LogError, QueryError


@pytest.mark.parametrize("kind", [ExperimentError, LogError, QueryError])
def test_every_error_is_one_that_the_caller_can_catch_at_once(kind: type[AbevalError]) -> None:
    error = kind("what is wrong", "how to mend it")
    assert isinstance(error, AbevalError)
    assert (error.what, error.hint) == ("what is wrong", "how to mend it")
    assert str(error) == "what is wrong\n  hint: how to mend it"


def test_a_hint_may_be_missing() -> None:
    error = AbevalError("what is wrong")
    assert (str(error), error.hint) == ("what is wrong", None)
