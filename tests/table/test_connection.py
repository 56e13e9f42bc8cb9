"""Addresses of warehouses that cannot be read: no part of a password is in a message."""

from __future__ import annotations

from pathlib import Path

import pytest

from abeval.errors import AbevalError, ExperimentError
from abeval.table.connection import connect

UNREADABLE = [
    "postgresql://ann:qzx/wv@kj@nohost.invalid/db",
    "postgresql://ann:qzx/wvkj@localhost:1/db",
    "postgresql://ann/qzx:wvkj/x@localhost:1/db",
    "postgresql://ann:/qzxwvkj@localhost:1/db",
    "http://ann:qzx/wvkj@localhost:1/db",
    "http://ann:qzx[wvkj@localhost:1/db",
    "http://ann:qzx#wvkj@localhost:1/db",
]


@pytest.mark.parametrize("address", UNREADABLE)
def test_an_address_that_cannot_be_split_says_what_to_encode(address: str) -> None:
    with pytest.raises(ExperimentError, match="cannot be split into user, password") as caught:
        connect(address)
    assert "%2F" in str(caught.value.hint)
    assert not any(part in str(caught.value) for part in ("qzx", "wv", "kj"))


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ann:qzx wvkj@localhost:1/db",
        "postgresql://ann:qzx%zzwvkj@localhost:1/db",
        "postgresql://localhost:1/db?user=ann&password=qzx wvkj",
    ],
)
def test_what_a_driver_says_of_an_address_has_no_password(address: str) -> None:
    pytest.importorskip("adbc_driver_postgresql", reason="no adbc-driver-postgresql")
    with pytest.raises(AbevalError) as caught:
        connect(address)
    assert not any(part in str(caught.value) for part in ("qzx", "wv", "kj"))


@pytest.mark.whole
@pytest.mark.parametrize("inside", ["", "/x"])
def test_a_file_is_no_folder_of_chdb(inside: str, tmp_path: Path) -> None:
    pytest.importorskip("chdb", reason="no chdb")
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(ExperimentError, match=f"chdb:{file}{inside} is no folder") as caught:
        connect(f"chdb:{file}{inside}")
    assert "Stack" not in str(caught.value)
