"""What a file is that is not UTF-8."""

from pathlib import Path

import pytest

from abeval.engines.copies import encoding_error, likely_encodings

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
    likely = likely_encodings(str(file))
    assert [*likely] == [encoding]
    assert likely[encoding] in text


@pytest.mark.parametrize("content", ["группа\nконтроль\n".encode(), b"a,b\n", bytes(range(256))])
def test_utf8_and_what_is_no_text_are_not_guessed(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    assert likely_encodings(str(tmp_path / "a.csv")) == {}


def test_of_few_letters_there_are_several(tmp_path: Path) -> None:
    """Capitals of Russian are common characters of Chinese, too."""
    (tmp_path / "a.csv").write_bytes("x\nКОНТРОЛЬ\n".encode("cp1251"))
    assert {*likely_encodings(str(tmp_path / "a.csv"))} == {"cp1251", "gb18030"}


def test_without_words_the_error_lists_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("price\n5 £\n".encode("cp1252"))
    said = str(encoding_error("clicks", str(tmp_path / "a.csv")))
    assert "cp1252 is of Western Europe, cp1251 of Cyrillic" in said
    assert 'encoding = "cp1252" in [logs.clicks]' in said
