"""The tree of errors, and how each is shown."""

from __future__ import annotations

import time

import pytest

from abeval.errors import (
    AbevalError,
    ExperimentError,
    LogError,
    QueryError,
    explain_error,
    mask_secrets,
)


@pytest.mark.parametrize("kind", [ExperimentError, LogError, QueryError])
def test_every_error_is_one_that_the_caller_can_catch_at_once(kind: type[AbevalError]) -> None:
    error = kind("what is wrong", "how to mend it")
    assert isinstance(error, AbevalError)
    assert (error.what, error.hint) == ("what is wrong", "how to mend it")
    assert str(error) == "what is wrong\n  hint: how to mend it"


def test_a_hint_may_be_missing() -> None:
    error = AbevalError("what is wrong")
    assert (str(error), error.hint) == ("what is wrong", None)


LONG = {
    "letters": "x" * 1_000_000,
    "words": "ab " * 333_000,
    "addresses": "s3://key:word@b/a?x=1&" * 45_000,
    "ends": "://x:" * 200_000,
    "users": "a://" + "x@" * 500_000,
    "questions": "a://" + "?a" * 500_000,
    "lines": "a\n" * 500_000,
}


@pytest.mark.parametrize("name", LONG)
def test_a_megabyte_is_masked_at_once_and_only_its_beginning_said(name: str) -> None:
    begun = time.process_time()
    said = str(AbevalError(f"no metric is called {LONG[name]!r}", LONG[name][:300]))
    mask_secrets(LONG[name])
    assert time.process_time() - begun < 1
    assert len(said) < 4_000
    assert "word" not in said.replace("words", "")


def test_what_the_system_says_of_a_long_name_is_cut() -> None:
    assert len(explain_error(OSError(36, "File name too long", "x" * 100_000)).message) < 500


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://ann:pw/x:y@h/a?t=1", "https://***@h/a?t=***"),
        ("s3://k:s@b/a and s3://k2:s2@c", "s3://***@b/a and s3://***@c"),
        ("x://h/a@b", "x://h/a@b"),
        ("jdbc:x://u@h?to=s3://k:s@b", "jdbc:x://***@h?to=***"),
        ("a path C:\\a, ratio 1://2", "a path C:\\a, ratio 1://2"),
    ],
)
def test_users_and_parameters_of_addresses_are_masked(text: str, shown: str) -> None:
    assert mask_secrets(text) == shown
