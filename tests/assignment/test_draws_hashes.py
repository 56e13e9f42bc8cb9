"""Hashes of a text: known numbers, and machines that forbid MD5 for secrets."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from abeval.assignment import draws


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 0),
        ("hello", 99162322),
        # The strings of this length whose hash is Java's smallest int, and one above its largest.
        ("polygenelubricants", -(2**31)),
        ("polygenelubricantr", 2**31 - 1),
        ("polygenelubricantt", 1 - 2**31),
    ],
)
def test_strings_have_the_hash_that_java_gives_them(text: str, number: int) -> None:
    assert draws.java_hash(text) == number


@pytest.mark.parametrize("name", ["md5_60", "sha1_60"])
def test_ids_are_hashed_where_the_machine_forbids_a_hash_for_secrets(
    name: draws.HashName, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidding(allowed: Callable[..., Any]) -> Callable[..., Any]:
        def hashed(*of: object, usedforsecurity: bool = True) -> Any:
            if usedforsecurity:
                raise ValueError("disabled for FIPS")
            return allowed(*of, usedforsecurity=False)

        return hashed

    draw = draws.Draw(name, "exp_42:")
    expected = draw.number("123"), draws.md5_60("exp_42", "123")
    for one in ("new", "md5"):
        monkeypatch.setattr(hashlib, one, forbidding(getattr(hashlib, one)))
    assert (draw.number("123"), draws.md5_60("exp_42", "123")) == expected
