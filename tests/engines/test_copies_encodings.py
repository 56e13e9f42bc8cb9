"""What a file is that is not UTF-8."""

import gzip
from pathlib import Path

import duckdb
import pytest

import abeval
from abeval.engines.copies import guess_encodings, make_encoding_error
from abeval.errors import LogError

TEXTS = {
    "cp1251": ("user;группа\n1;контроль\n2;тест", "id,город\n1,Москва\n2,Тверь"),
    "cp1252": ("id;Größe\n1;groß\n2;für", "ville\nOrléans\nBesançon\nÉvry", "país\nEspaña\nPerú"),
    "shift_jis": ("グループ,売上\n対照群,1\nテスト群,2", "地域\n東京\n大阪"),
    "gb18030": ("用户,组\n1,对照组\n2,实验组", "城市\n北京\n上海\n广州"),
}


@pytest.mark.parametrize(
    ("encoding", "text"), [(encoding, text) for encoding, texts in TEXTS.items() for text in texts]
)
def test_words_say_the_encoding(encoding: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(text.encode(encoding))
    likely = guess_encodings(str(file))
    assert [*likely] == [encoding]
    assert likely[encoding] in text


@pytest.mark.parametrize("content", ["группа\nконтроль\n".encode(), b"a,b\n", bytes(range(256))])
def test_utf8_and_what_is_no_text_are_not_guessed(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    assert guess_encodings(str(tmp_path / "a.csv")) == {}


def test_of_few_letters_there_are_several(tmp_path: Path) -> None:
    """Capitals of Russian are common characters of Chinese, too."""
    (tmp_path / "a.csv").write_bytes("x\nКОНТРОЛЬ\n".encode("cp1251"))
    assert {*guess_encodings(str(tmp_path / "a.csv"))} == {"cp1251", "gb18030"}


def test_without_words_the_error_lists_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("price\n5 £\n".encode("cp1252"))
    said = str(make_encoding_error("clicks", str(tmp_path / "a.csv")))
    assert "cp1252 is of Western Europe, cp1251 of Cyrillic" in said
    assert 'encoding = "cp1252" in [logs.clicks]' in said


WHOLE = "user_id,variant,note,x\n" + "".join(
    f"u{i},{'ab'[i % 2]},{('café', 'naïve', 'plain')[i % 3]},{i % 7}\n" for i in range(300)
)


@pytest.mark.parametrize(
    ("old", "new", "what", "hint"),
    [
        ("naïve,4", b"na\xefve,4", "is UTF-8, but not all of it: 'u", "it is damaged"),
        ("plain,4", b"plain,4,5", "line 13: 5 fields, but the header has 4", "correct the line"),
        ("plain,4", b"\0\0\0in,4", "has bytes that are 0, which no text has", "of UTF-16, say"),
    ],
)
def test_damage_of_a_text_in_utf8_is_no_other_encoding(
    old: str, new: bytes, what: str, hint: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(WHOLE.encode().replace(old.encode(), new, 1))
    with pytest.raises(LogError, match=r"a\.csv") as refused:
        abeval.analyze(file, unit="user_id", variant="variant", metrics=["x"])
    assert what in refused.value.what
    assert hint in str(refused.value.hint)
    assert "gb18030" not in str(refused.value)


def test_a_file_of_zstd_in_another_encoding_is_to_be_decompressed(tmp_path: Path) -> None:
    text = "user,группа\n1,контроль\n2,тест\n"
    plain, packed = tmp_path / "a.csv", tmp_path / "a.csv.zst"
    plain.write_text(text, encoding="utf-8")
    copied = f"copy (from '{plain}') to '{packed}' (format csv, compression zstd)"
    duckdb.sql(copied)
    with pytest.raises(LogError, match=r"a\.csv\.zst is compressed, and not in UTF-8") as refused:
        abeval.analyze(packed, unit="user", variant="группа", read={"encoding": "cp1251"})
    assert refused.value.hint == "decompress it"


def test_compressed_lines_are_not_counted(tmp_path: Path) -> None:
    """What cannot be split in a compressed file has no number of a line of its bytes."""
    lines = "".join(f"u{i},{'ab'[i % 2]},{i % 7}{',more' * (i > 30)}\n" for i in range(60))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(f"user_id,variant,x\n{lines}".encode()))
    with pytest.raises(LogError, match=r"a\.csv\.gz") as refused:
        abeval.analyze(tmp_path / "a.csv.gz", unit="user_id", variant="variant", metrics=["x"])
    assert "is read as one column, so the lines cannot be split" in refused.value.what


@pytest.mark.parametrize("last", ["3,b,1,2,3", "3,b,\0"])
def test_errors_name_the_file_and_not_its_copy(last: str, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(f"user_id,variant,spent\n1,a,5\n2,b,7\n{last}\n".encode("utf-16"))
    with pytest.raises(LogError) as caught:
        abeval.analyze(file, variant="variant", metrics=["spent"])
    assert str(file) in str(caught.value)
    assert "abeval-run" not in str(caught.value)
